// CallStats: what is to be counted of a call that was answered.
#ifndef PROFD_DAEMON_RPC_ADMISSION_CALL_STATS_H_
#define PROFD_DAEMON_RPC_ADMISSION_CALL_STATS_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace profd::rpc {

struct CallStats {
  std::string_view method;  // "CreateCapture"
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view reason;  // Ours, "NOT_ALLOWED"; empty: none.
  absl::Duration took;      // From its arrival until the answer was handed to gRPC.
  int64_t sent_bytes = 0;   // Of streams.
};

// Called for every call, on any thread: count and return.
using CallObserver = std::function<void(const CallStats&)>;

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_CALL_STATS_H_
