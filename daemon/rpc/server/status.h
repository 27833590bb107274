// absl::Status to grpc::Status: the one place where the two meet. The code numbers agree.
#ifndef PROFD_DAEMON_RPC_SERVER_STATUS_H_
#define PROFD_DAEMON_RPC_SERVER_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace profd::rpc {

// Trailing metadata with the stable reason (base/reason.h). Not sent where there is none.
inline constexpr char kReasonMetadataKey[] = "profd-reason";
inline constexpr size_t kMaxMessageBytes = 2048;

// The message becomes valid UTF-8 and is cut at kMaxMessageBytes: headers are limited.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The reason as a metadata value: capitals, digits and '_', at most 64; empty: none.
std::string ReasonMetadata(const absl::Status& status);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_STATUS_H_
