#include "daemon/import/foreign_format.h"

#include <cstdint>

namespace profd::importer {
namespace {

// The first field of messages that consist of others, and fields that begin those: protobuf's
// (number << 3 | type).
constexpr uint8_t kFirstMessage = 1 << 3 | 2;
constexpr uint8_t kPlaneId = 1 << 3 | 0;
constexpr uint8_t kPlaneName = 2 << 3 | 2;

// Returns what follows the length of the first message; empty: it is none.
std::string_view InFirstMessage(std::string_view start) {
  if (start.empty() || static_cast<uint8_t>(start.front()) != kFirstMessage) return {};
  start.remove_prefix(1);
  while (!start.empty() && (static_cast<uint8_t>(start.front()) & 0x80) != 0) {
    start.remove_prefix(1);
  }
  return start.empty() ? start : start.substr(1);
}

}  // namespace

std::string_view ForeignFormat(std::string_view untrusted_start) {
  using std::string_view_literals::operator""sv;
  if (untrusted_start.starts_with("SQLite format 3\0"sv)) {
    return "it is an SQLite database; `profctl import FILE` reads those of Nsight Systems";
  }
  const std::string_view message = InFirstMessage(untrusted_start);
  if (message.empty()) return {};
  const auto field = static_cast<uint8_t>(message.front());
  if (field == kPlaneId || field == kPlaneName) {
    return "it is an XSpace profile of JAX or TensorFlow; `tensorboard --logdir FOLDER` reads it";
  }
  return "it may be a Perfetto trace; https://ui.perfetto.dev and `profctl check FILE` read those";
}

}  // namespace profd::importer
