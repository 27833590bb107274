// RangeArguments are the key-value arguments that a recorded program gave its ranges
// (annotate("request", id="r-17")). Those of imported traces are in source_arguments.h.
//
// Memory: 24 bytes per argument, and half of that again while Read() sorts them. Reads the
// arguments twice, and the ranges once more if there are any. Errors: the reader's;
// RESOURCE_EXHAUSTED for more than kMostArguments.
#ifndef PROFD_DAEMON_EXPORT_TRACE_RANGE_ARGUMENTS_H_
#define PROFD_DAEMON_EXPORT_TRACE_RANGE_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

class RangeArguments {
 public:
  static constexpr size_t kMostArguments = 100'000'000;
  // A recorded range has no more, and no longer values: only a hostile file has.
  static constexpr size_t kMostOfRange = 32;
  static constexpr size_t kMostValueBytes = 4096;

  struct Argument {
    uint32_t range;  // Ranges are counted as the reader gives them.
    uint32_t key;    // A name.
    int64_t value;
    ArgumentType type;
    bool has_range;   // Within Read(): `range` is that, and no row of the thread.
    uint32_t thread;  // Within Read().
  };
  static_assert(sizeof(Argument) == 24);
  struct Shown {
    std::string key;
    const Argument* argument;
  };

  static absl::StatusOr<RangeArguments> Read(store::CaptureReader& reader);

  bool empty() const { return arguments_.empty(); }
  // Those of a range, in the order in which the program gave them.
  std::span<const Argument> Of(uint32_t range) const;
  // The same as exports show them. Keys are valid UTF-8, those that viewers know as profd's or
  // Kineto's own are marked, and each is there once.
  std::vector<Shown> ShownOf(uint32_t range) const;
  // Its value as JSON; "null" for what is none.
  std::string JsonOf(const Argument& argument) const;
  // `"id":"r-17","tokens":512`, at most `max_bytes`; what does not fit is left out. Keys as
  // ShownOf() has them.
  std::string MembersOf(uint32_t range, size_t max_bytes) const;

 private:
  explicit RangeArguments(std::span<const std::string> names) : names_(names) {}

  std::span<const std::string> names_;
  std::vector<Argument> arguments_;  // By range.
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_RANGE_ARGUMENTS_H_
