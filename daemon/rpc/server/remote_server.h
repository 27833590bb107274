// RemoteServer answers callers on other machines: by mutual TLS, who they are is what their
// certificate says (remote_peer.h), and what they may do the access policy. Without a policy
// that is nothing.
//
// A plaintext port is for loopback alone (a proxy in front, a port that was forwarded by other
// means): its callers have no identity, so they are the principal "unknown", who may do
// nothing either unless a rule for `unknown` allows it. Prefer to forward the socket itself:
// `ssh -L /tmp/p.sock:/run/profd/control.sock NODE` keeps the uid.
//
// Connections end when they have had no call for a while, and after some time in any case, so
// that a caller whose certificate or authority is gone falls off.
//
// Threads:   Start(), Close() and Shutdown() by the owner; what is of certificates anyone. Its own:
//            profd-remote for each port, profd-certs, and those of its Server.
// Ownership: the queues, the watchdog, and what the services refer to, must outlive it.
#ifndef PROFD_DAEMON_RPC_SERVER_REMOTE_SERVER_H_
#define PROFD_DAEMON_RPC_SERVER_REMOTE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/log.h"
#include "daemon/rpc/admission/caller_traffic.h"
#include "daemon/rpc/admission/tcp_listener.h"
#include "daemon/rpc/admission/tls_files.h"
#include "daemon/rpc/server/remote_options.h"
#include "daemon/rpc/server/server.h"

namespace profd::rpc {

class RemoteServer {
 public:
  struct Parts {
    Admission::Limits limits;
    Admission::RulesSource rules;
    AuditLog& audit;
    WorkQueue& work;
    worker::ReportPool& reports;
    std::function<void(grpc::ServerBuilder&)> set_limits;  // Of messages, streams and memory.
    Server::MakeServices make_services;
    Watchdog* watchdog = nullptr;  // nullptr: not watched.
  };

  // Serves from when it returns. INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED: what is wrong
  // with a setting or a file, and the remedy; UNAVAILABLE: a port is taken; FAILED_PRECONDITION:
  // this build of profd may not serve TLS (tls_receive_hook.h).
  static absl::StatusOr<std::unique_ptr<RemoteServer>> Start(RemoteOptions options, Parts parts);
  ~RemoteServer();  // Shutdown(0), if that has not happened.

  // Whether Start() would take the certificates of these options: its errors, without listening.
  static absl::Status CheckFiles(const RemoteOptions& options);

  // Where it listens: "127.0.0.1:7411". The first is the one with TLS, if there is one.
  std::vector<std::string> addresses() const;
  // When the certificate that is shown to callers ends; nullopt: there is none.
  std::optional<absl::Time> certificate_end() const;
  // Connections that ended because their callers sent more than caller_traffic.h allows; those with
  // TLS are of all servers of this process.
  int64_t cut_off_count() const;
  // Takes up new certificates now, not at the next look.
  void CheckCertificates();

  // Nobody is accepted, and new calls are turned away.
  void Close();
  void Shutdown(gpr_timespec deadline);

 private:
  // gRPC's end of a port: it gets the connections that the listener accepted.
  struct Port {
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
    std::unique_ptr<TcpListener> listener;
    void HandOver(UniqueFd connection) const;
  };

  RemoteServer(RemoteOptions options, Parts parts);
  absl::Status Open();
  std::shared_ptr<grpc::ServerCredentials> TlsCredentials() const;
  void SetAges(grpc::ServerBuilder& builder) const;
  // `traffic` as in TcpListener::Limits.
  absl::Status OpenPort(UniqueFd socket, std::shared_ptr<grpc::ServerCredentials> credentials,
                        std::shared_ptr<CallerTraffic> traffic, grpc::ServerBuilder& builder,
                        Port& port) const;
  absl::StatusOr<Peer> Identify(const grpc::ServerContext& context);

  const RemoteOptions options_;
  const std::shared_ptr<CallerTraffic> plaintext_traffic_ = std::make_shared<CallerTraffic>();
  const Parts parts_;
  std::unique_ptr<TlsFiles> tls_files_;
  Port tls_;
  Port plaintext_;
  Server server_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_REMOTE_SERVER_H_
