// CompleteRange is a time range in which a trace that is cut off has all calls and all GPU work
// (kept_part.h says by what that is known).
//
// Threads: pure functions. Memory: that of the input, which is sorted.
#ifndef PROFD_DAEMON_IMPORT_COMPLETE_RANGE_H_
#define PROFD_DAEMON_IMPORT_COMPLETE_RANGE_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace profd::importer {

struct CompleteRangeInput {
  enum class CallKind : uint8_t {
    kOther,
    kLaunch,  // Of kernels and graphs: there is work for each.
    kCopy,    // Of 0 bytes: without work.
    kMemset,
  };
  struct Call {
    int64_t start_ns;
    uint32_t correlation;
    CallKind kind;
  };
  struct Work {
    int64_t start_ns;
    uint32_t correlation;
    uint32_t graph;        // 0: of no graph.
    uint32_t stream;       // Any number for each stream of each GPU.
    uint32_t duration_ns;  // At most 4.29 s.
  };
  struct Step {
    int64_t start_ns;
    int64_t end_ns;
  };
  // In any order.
  std::vector<Call> calls;
  std::vector<Work> work;
  std::vector<Step> steps;
};

struct CompleteRange {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;     // Calls that begin then are complete, too.
  bool has_step = false;  // A whole one.
};

// nullopt: there is none, it cannot be known, or it has no whole step though the trace has steps.
// Leaves `events` sorted.
std::optional<CompleteRange> FindCompleteRange(CompleteRangeInput& events);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_COMPLETE_RANGE_H_
