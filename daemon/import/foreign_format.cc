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
  // Its mark begins with that of UTF-16.
  if (untrusted_start.starts_with("\xFF\xFE\0\0"sv) ||
      untrusted_start.starts_with("\0\0\xFE\xFF"sv)) {
    return "it is text in UTF-32; convert it: `iconv -f UTF-32 -t UTF-8 FILE > trace.json`";
  }
  if (untrusted_start.starts_with("\xFF\xFE"sv) || untrusted_start.starts_with("\xFE\xFF"sv)) {
    return "it is text in UTF-16; convert it: `iconv -f UTF-16 -t UTF-8 FILE > trace.json`";
  }
  if (untrusted_start.starts_with("PK\x03\x04"sv)) {
    return "it is a zip archive; import the traces in it (`unzip FILE`)";
  }
  if (untrusted_start.starts_with("\x1F\x8B"sv)) {
    return "it is compressed twice; uncompress it once with `gunzip`";
  }
  if (untrusted_start.starts_with("\x28\xB5\x2F\xFD"sv)) {
    return "it is compressed with zstd; uncompress it with `zstd -d`";
  }
  if (untrusted_start.starts_with("\xFD"
                                  "7zXZ"sv)) {
    return "it is compressed with xz; uncompress it with `xz -d`";
  }
  if (untrusted_start.starts_with("BZh"sv)) {
    return "it is compressed with bzip2; uncompress it with `bunzip2`";
  }
  if (untrusted_start.starts_with("<"sv)) {
    return "it is a web page or XML; was it downloaded with an error page in its place?";
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
