// Where a daemon may be listening, in the order in which to try.
#ifndef PROFD_CLI_ENDPOINTS_H_
#define PROFD_CLI_ENDPOINTS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd::cli {

struct Endpoint {
  std::string address;    // As gRPC takes it: "unix:/run/profd/control.sock", "localhost:7000"
  std::string unix_path;  // Of a unix socket; empty: TCP.
  std::string from;       // Where it stems from: "--address", "PROFD_SOCKET_DIR", "default"
};

using GetEnv = std::function<const char*(const char*)>;

// `address_flag`, else PROFD_ADDRESS, else PROFD_SOCKET_DIR: that one alone. With none of them:
// /run/profd, then $XDG_RUNTIME_DIR/profd. An address is unix:PATH, HOST:PORT or a path with a
// slash. INVALID_ARGUMENT (USAGE) for what is neither.
absl::StatusOr<std::vector<Endpoint>> CandidateEndpoints(std::optional<std::string> address_flag,
                                                         const GetEnv& getenv);

// Whether something accepts connections there; what the system says if not (NOT_FOUND,
// UNAVAILABLE, PERMISSION_DENIED). A TCP endpoint is OK untried.
absl::Status ProbeEndpoint(const Endpoint& endpoint);

}  // namespace profd::cli

#endif  // PROFD_CLI_ENDPOINTS_H_
