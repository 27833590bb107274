// RangeArguments are the key-value arguments that a recorded program gave its ranges
// (annotate("request", id="r-17")). An imported trace has none here, whatever it says of its
// events.
//
// Threads: any, while it is not changed.
// Memory:  24 bytes per argument, and half of that again while Read() sorts them. Reads the
//          arguments twice, and the ranges once more if there are any.
// Errors:  the reader's; RESOURCE_EXHAUSTED for more than kMostArguments.
#ifndef PROFD_DAEMON_REPORT_INDEX_RANGE_ARGUMENTS_H_
#define PROFD_DAEMON_REPORT_INDEX_RANGE_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class RangeArguments {
 public:
  static constexpr size_t kMostArguments = 100'000'000;
  // A recorded range has no more: only a hostile file has.
  static constexpr size_t kMostOfRange = 32;

  struct Argument {
    uint32_t range;  // Ranges are counted as the reader gives them.
    uint32_t key;    // A name.
    int64_t value;
    ArgumentType type;
    bool has_range;   // Within Read(): `range` is that, and no row of the thread.
    uint32_t thread;  // Within Read().
  };
  static_assert(sizeof(Argument) == 24);

  static absl::StatusOr<RangeArguments> Read(store::CaptureReader& reader);

  bool empty() const { return arguments_.empty(); }
  // Those of a range, in the order in which the program gave them.
  std::span<const Argument> Of(uint32_t range) const;
  // The program's bytes.
  const std::string& KeyOf(const Argument& argument) const { return names_[argument.key]; }
  // Of one of any type but kJson, as JSON. Of a real number, the shortest text that is the same
  // number; "null" for what JSON has no number for.
  static std::string NumberText(const Argument& argument);
  // Of one of type kJson: the program's bytes, which need not be JSON.
  const std::string& JsonOf(const Argument& argument) const {
    return names_[static_cast<size_t>(argument.value)];
  }

 private:
  explicit RangeArguments(std::span<const std::string> names) : names_(names) {}

  std::span<const std::string> names_;
  std::vector<Argument> arguments_;  // By range.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_RANGE_ARGUMENTS_H_
