// KeptPart is how much of a trace that is cut off can be used: a time range of which no event is
// missing, as far as the file shows. Kineto writes the program's events first, by thread and time.
// Then it writes CUPTI's buffers, each with the calls and the GPU work of some time, in the order
// of their addresses in memory. So a file that ends among these may lack any times:
//
//   operators    ███ ████ ███ ████ ███      whole
//   buffer 1               █ ██ █ █         calls and GPU work
//   buffer 2      ██ █ ██                   the file ends here
//   buffer 3 ...                            missing: where the others leave a hole, or at the edges
//
// What shows that calls or GPU work are missing:
//   - CUPTI numbers calls in the order of their time (correlation). Calls that are not recorded get
//     numbers, too, but between two that are recorded there are few.
//   - GPU work whose call is missing, and a launch whose work is missing, or has fewer activities
//     than other launches of its graph. A long kernel may be missing where shorter ones that were
//     launched later are there, because records are written once the work has ended.
// The range lies between two of those places: the one with the most whole steps, then the longest.
// Its edges are calls that are there. It begins later where the GPU may still have done what was
// launched before: this is over after the longest time that any work took from its launch to its
// end, and once streams do what calls of the range launched, because they do that in order. A step
// whose first call is missing looks like one that begins with other work, so the first step is kept
// only if it begins as others do.
//
// Work of the steps of the range belongs to the capture, whenever it ran. Of a trace without steps,
// the GPU's work ends with the range: later work may be missing next to it. Where there is no such
// range, or no whole step of a trace with steps in it, nothing of the GPU is kept.
//
// Threads: pure functions.
// Memory:  24 bytes per call, 24 per linked GPU activity, 16 per step, and at most 12 per call
//          that is kept; each number is at most kMaxCalls. A vector that grows holds its items
//          twice.
#ifndef PROFD_DAEMON_IMPORT_KEPT_PART_H_
#define PROFD_DAEMON_IMPORT_KEPT_PART_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "daemon/import/trace_file.h"

namespace profd::importer {

struct KeptPart {
  static constexpr size_t kMaxCalls = 4'000'000;

  // Of the trace's own time.
  int64_t begin_ns =
      std::numeric_limits<int64_t>::min();  // If not known: all that is before end_ns.
  int64_t end_ns = 0;
  bool has_gpu = true;  // False: calls and GPU work are left out.
  // Correlations of calls that began by end_ns, whose work is kept; empty: it is cut off at end_ns.
  absl::flat_hash_set<uint32_t> launches;
};

// Reads all events of a trace that is cut off. nullopt: no event with a time is missing.
// RESOURCE_EXHAUSTED: it has more than kMaxCalls.
absl::StatusOr<std::optional<KeptPart>> FindKeptPart(TraceFile& file,
                                                     const std::function<bool()>& is_cancelled);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_KEPT_PART_H_
