// Deadlines of gRPC by the monotonic clock. Those of a wall time come late or early when the clock
// is set.
#ifndef PROFD_DAEMON_RPC_SERVER_DEADLINE_H_
#define PROFD_DAEMON_RPC_SERVER_DEADLINE_H_

#include <grpc/support/time.h>

#include "absl/time/time.h"

namespace profd::rpc {

// Infinite durations stay infinite.
inline gpr_timespec MonotonicDeadline(absl::Duration from_now) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(from_now), GPR_TIMESPAN));
}

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_DEADLINE_H_
