// ShownArguments are the arguments of ranges (report/index/range_arguments.h) as exports write
// them. Those of imported traces are in source_arguments.h.
//
// Memory and errors: those of RangeArguments.
#ifndef PROFD_DAEMON_EXPORT_TRACE_SHOWN_ARGUMENTS_H_
#define PROFD_DAEMON_EXPORT_TRACE_SHOWN_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/report/index/range_arguments.h"

namespace profd::exporter {

class ShownArguments {
 public:
  // A recorded range has no longer values: only a hostile file has.
  static constexpr size_t kMostValueBytes = 4096;

  using Argument = report::RangeArguments::Argument;
  struct Shown {
    std::string key;
    const Argument* argument;
  };

  explicit ShownArguments(report::RangeArguments arguments) : arguments_(std::move(arguments)) {}

  bool empty() const { return arguments_.empty(); }
  bool HasAny(uint32_t range) const { return !empty() && !arguments_.Of(range).empty(); }
  // Those of a range, in the order in which the program gave them. Keys are valid UTF-8, those that
  // viewers know as profd's or Kineto's own are marked, and each is there once.
  std::vector<Shown> ShownOf(uint32_t range) const;
  // Its value as JSON; "null" for what is none.
  std::string JsonOf(const Argument& argument) const;
  // `"id":"r-17","tokens":512`, at most `max_bytes`; what does not fit is left out. Keys as
  // ShownOf() has them.
  std::string MembersOf(uint32_t range, size_t max_bytes) const;

 private:
  report::RangeArguments arguments_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_SHOWN_ARGUMENTS_H_
