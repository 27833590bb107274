// How remote callers reach profd; the settings of the same names.
#ifndef PROFD_DAEMON_RPC_SERVER_REMOTE_OPTIONS_H_
#define PROFD_DAEMON_RPC_SERVER_REMOTE_OPTIONS_H_

#include <string>

#include "absl/time/time.h"
#include "daemon/rpc/admission/tcp_listener.h"
#include "daemon/rpc/admission/tls_files.h"

namespace profd::rpc {

struct RemoteOptions {
  std::string listen;  // "HOST:PORT", with mutual TLS; empty: not at all.
  TlsPaths tls;        // All three, where `listen` is set.
  absl::Duration tls_reload = absl::Seconds(30);
  std::string plaintext_listen;  // "HOST:PORT" of loopback; empty: not at all.

  TcpListener::Limits connections;
  absl::Duration max_connection_age = absl::Hours(1);
  absl::Duration max_connection_idle = absl::Minutes(10);

  bool enabled() const { return !listen.empty() || !plaintext_listen.empty(); }
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_REMOTE_OPTIONS_H_
