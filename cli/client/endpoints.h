// Where a daemon may be listening, in the order in which to try.
#ifndef PROFD_CLI_CLIENT_ENDPOINTS_H_
#define PROFD_CLI_CLIENT_ENDPOINTS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd::cli {

// How to be sure of a remote daemon, and it of us.
struct ClientTls {
  std::string ca_file;           // PEM; who signed the daemon's certificate.
  std::string certificate_file;  // PEM; ours.
  std::string key_file;          // PEM
  std::string server_name;       // In the daemon's certificate; empty: the host of the address.
};

struct Endpoint {
  std::string address;    // As gRPC takes it: "unix:/run/profd/control.sock", "localhost:7000"
  std::string unix_path;  // Of a unix socket; empty: TCP.
  std::string from;       // Where it stems from: "--address", "PROFD_SOCKET_DIR", "default"
  std::optional<ClientTls> tls;  // Of a TCP endpoint; without it: plaintext, on loopback only.
};

// Of a daemon's TCP listener, where an address of a node has none.
inline constexpr int kDefaultPort = 7411;

using GetEnv = std::function<const char*(const char*)>;

// What the command line, the environment and the file of contexts (contexts.h) say of where to
// connect to.
struct ClientSettings {
  std::string address;  // unix:PATH, HOST:PORT or a path with a slash; empty: none is named.
  std::string from;     // Who named it: "--address", "PROFD_ADDRESS", "context prod"
  std::string nodes;    // The node source of the context that holds; empty: none.
  std::string context;  // Its name; empty: none holds.
  std::optional<ClientTls> tls;  // For TCP addresses, also those of node sources.
};

// The first of these names the daemon, or the nodes: --address, --context, PROFD_ADDRESS,
// PROFD_CONTEXT, PROFD_SOCKET_DIR, the current context. The certificates are those of
// PROFD_TLS_CA, PROFD_TLS_CERT, PROFD_TLS_KEY and PROFD_TLS_SERVER_NAME; without them, those of
// the context that --context, PROFD_CONTEXT or the file names.
// INVALID_ARGUMENT (USAGE): no such context, a key without a certificate; LOCAL: what is wrong
// with the file.
absl::StatusOr<ClientSettings> ReadClientSettings(const std::optional<std::string>& address_flag,
                                                  const std::optional<std::string>& context_flag,
                                                  const GetEnv& getenv);

// One daemon. A TCP address that other machines could have needs `tls`. INVALID_ARGUMENT
// (USAGE) for what is no address; the message begins with `from`.
absl::StatusOr<Endpoint> ParseAddress(std::string_view address, std::string from,
                                      const std::optional<ClientTls>& tls);

// Of settings without an address: /run/profd, then $XDG_RUNTIME_DIR/profd.
absl::StatusOr<std::vector<Endpoint>> CandidateEndpoints(const ClientSettings& settings,
                                                         const GetEnv& getenv);

// Whether something accepts connections there; what the system says if not (NOT_FOUND,
// UNAVAILABLE, PERMISSION_DENIED). PERMISSION_DENIED (OTHER_USERS_DAEMON): it is a socket of
// neither root, the account profd, nor this user. A TCP endpoint is OK untried.
absl::Status ProbeEndpoint(const Endpoint& endpoint);

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_ENDPOINTS_H_
