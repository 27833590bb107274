// Replays of CUDA graphs that lack work. All replays of a graph do the same, so one with less lost
// records. Its launch has work, so nothing else shows the loss, and the time of what was lost looks
// idle.
//
//   replay   1          2          3          4        5
//   kernels  ABCD       ABCD       AB D       ABCD     AB
//                                    ^ lost            ^ the recording ended
//
// The first and the last replay of a graph do not count: the edges of the recording cut them. Nor
// does work that a graph may leave out. A replay counts as short only if
//   most replays of its graph are equal, and all of its work is also in theirs;
//   no two replays lack the same work (then the graph has a conditional node, or the program
//   switched a node off);
//   it lacks work that the others do exactly once. A loop (a WHILE node) may make fewer rounds, and
//   does its work more often.
// So a loss among repeated work alone is not found, and a conditional node that skips its work in
// one replay only counts as a loss.
//
// Threads: any, one reader each. Errors: the reader's.
// Memory:  64 bytes per launch of a graph; if some lack work, 16 per GPU row.
#ifndef PROFD_DAEMON_REPORT_INDEX_SHORT_REPLAYS_H_
#define PROFD_DAEMON_REPORT_INDEX_SHORT_REPLAYS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct ShortReplays {
  int64_t count = 0;
  int64_t missing_count = 0;  // GPU activities that they lack.
  // From their launches, or the end of the work before, to the next work, or for as long as a whole
  // replay takes: what is not busy in them is not idle, but unknown.
  IntervalSet times;
};

// `attribution` is of the same reader.
absl::StatusOr<ShortReplays> FindShortReplays(store::CaptureReader& reader,
                                              const GpuAttribution& attribution);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_SHORT_REPLAYS_H_
