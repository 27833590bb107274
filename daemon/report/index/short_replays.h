// Replays of CUDA graphs that lack work. All replays of a graph do the same, so one with less lost
// records. Its launch has work, so nothing else shows the loss, and the time of what was lost looks
// idle.
//
//   replay   1          2          3          4        5
//   kernels  ABCD       ABCD       AB D       ABCD     AB
//                                    ^ lost            ^ the recording ended
//
// Not lost are the ends: the first and last replays of a graph, which the edges of the recording
// cut. And what a graph may leave out: a replay counts only if most replays of its graph are equal,
// what it has is part of what those have, and no two others differ from those in the same way (a
// conditional node, or one that the program switched off). It must lack something that the others
// have once: the rounds of a loop (a WHILE node) may be fewer, and what each does is there more
// often. So loss among repeated work alone is not found.
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
