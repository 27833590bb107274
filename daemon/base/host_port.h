// "HOST:PORT" as profd's settings and profctl's addresses have it: "10.0.0.7:7411", "node7:7411",
// "*:7411", "[::1]:7411".
//
// Threads: any.
#ifndef PROFD_DAEMON_BASE_HOST_PORT_H_
#define PROFD_DAEMON_BASE_HOST_PORT_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace profd {

struct HostPort {
  std::string_view host;  // Part of the text, without brackets; printable, not empty.
  uint16_t port = 0;
};

// Splits at the last colon. Returns nullopt if the text has more than 255 bytes, the port is not 0
// to 65535 in decimal digits alone, the host has a space, or brackets are missing around an IPv6
// address or are around anything else. Does not check that the host exists. The caller decides what
// "*" and port 0 mean.
std::optional<HostPort> SplitHostPort(std::string_view text);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_HOST_PORT_H_
