// Times of GPU work that cannot be right, whichever profiler recorded them:
//
//   stream 7  ▕██▏  ▕████████████████████ … 3 s      lasts beyond the start of what its stream did
//                        ▕██▏  ▕██▏  ▕██▏            next: a stream does one thing at a time
//   stream 9                             … ▕██▏      begins minutes from its launch on an idle GPU;
//                                                    seconds, if the host did nothing meanwhile;
//                                                    or all work does, always by as much: its clock
//                                                    is off
//   stream 5  ▕██▏       ▕██▏  ▕██▏     … ▕██▏       begins after what its thread launched later
//                                                    in its stream
//   stream 4  ▕████████████████████ … 2 s            lasts beyond, or begins after, a call of the
//   host      launch ▕ device sync ▏                 host that waited for it
//
// A kernel may begin a little before its predecessor ends (programmatic launches do), and the nodes
// of a graph run side by side in one stream; neither counts. Work that the host waited for a little
// too early has the time of a GPU clock that is a little late: it is counted, and believed.
//
// Work that lasts too long ends where the next work of its stream begins, or where the wait for it
// ends; work that begins at another time than its launch, out of order, or after the wait for it,
// is left out: BelievedReader (believed_reader.h).
//
// Threads: one at a time.
// Memory:  40 bytes per GPU row while times are searched; nothing if the seal found none.
#ifndef PROFD_DAEMON_REPORT_BELIEVED_IMPOSSIBLE_TIMES_H_
#define PROFD_DAEMON_REPORT_BELIEVED_IMPOSSIBLE_TIMES_H_

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct ImpossibleTimes {
  static constexpr int64_t kLeftOut = -1;

  // By start and recorded duration: how long it can have lasted at most; kLeftOut: its start is
  // impossible.
  absl::flat_hash_map<std::pair<int64_t, int64_t>, int64_t> possible_ns;

  // Of those that last too long: the one that is off by most.
  int64_t overlong_count = 0;
  uint32_t overlong_name = 0;
  int64_t overlong_ns = 0;
  int64_t overlong_possible_ns = 0;
  // Of those that are left out: the one that is farthest from its launch, latest after the wait for
  // it, or latest after what was launched later.
  int64_t detached_count = 0;
  int64_t detached_ns = 0;

  // They end a little after a wait for them, and are believed; the latest.
  int64_t late_count = 0;
  int64_t late_ns = 0;
};
absl::StatusOr<ImpossibleTimes> FindImpossibleTimes(store::CaptureReader& reader,
                                                    const GpuAttribution& attribution);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_BELIEVED_IMPOSSIBLE_TIMES_H_
