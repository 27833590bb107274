// Calls of CUDA or HIP that cannot have lasted as long as they are recorded, whichever profiler
// recorded them: a thread does one thing at a time.
//
//   thread 7  ▕ cudaMalloc ██████████████████████████████████████ … 4 s
//                  ▕ aten::mul ▏  ▕ aten::add ▏                            1 ms after it began
//
// Such a call was over when its thread began a range, or made three other calls of the same API (a
// call may make calls of the driver, and one of its own API; HIP's may make many). It may outlast
// that by 10 ms and the error of the capture's GPU clock. Functions of Python do not count: they
// have rows of their own.
//
// Threads: one at a time.
// Memory:  for calls longer than that, 48 bytes each, and 8 per range and call of their threads
//          that is stored near them. Nothing if there are no such calls.
// Errors:  the reader's.
#ifndef PROFD_DAEMON_REPORT_BELIEVED_IMPOSSIBLE_CALLS_H_
#define PROFD_DAEMON_REPORT_BELIEVED_IMPOSSIBLE_CALLS_H_

#include <cstdint>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct ImpossibleCalls {
  // By thread, start, and recorded duration: how long it can have lasted at most.
  absl::flat_hash_map<std::tuple<uint32_t, int64_t, int64_t>, int64_t> possible_ns;
  // By correlation: when that call was over at the latest. For records of what it waited for.
  absl::flat_hash_map<uint32_t, int64_t> over_ns;

  int64_t call_count = 0;  // All calls of the capture.
  // Of those that last too long: the one that is off by most.
  int64_t overlong_count = 0;
  uint32_t overlong_name = 0;
  int64_t overlong_ns = 0;
  int64_t overlong_possible_ns = 0;
};
absl::StatusOr<ImpossibleCalls> FindImpossibleCalls(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_BELIEVED_IMPOSSIBLE_CALLS_H_
