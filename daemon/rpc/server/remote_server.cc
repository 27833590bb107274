#include "daemon/rpc/server/remote_server.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/tls_material.h"
#include "daemon/rpc/admission/audit.h"
#include "daemon/rpc/admission/remote_peer.h"
#include "daemon/rpc/admission/tls_receive_hook.h"
#include "daemon/rpc/admission/work_queue.h"
#include "daemon/rpc/server/deadline.h"

namespace profd::rpc {
namespace {

// A call that runs when its connection is too old may go on that long: no capture is longer.
constexpr absl::Duration kAgeGrace = absl::Hours(1);
// Who connects and says nothing holds a descriptor.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(10);
// A peer that vanished without a word is noticed while a call of its is open.
constexpr absl::Duration kPingInterval = absl::Seconds(60);
constexpr absl::Duration kPingTimeout = absl::Seconds(20);
// Ours ping every 20 s while they wait; who pings more often is cut off.
constexpr absl::Duration kLeastPingInterval = absl::Seconds(10);

int Ms(absl::Duration duration) { return static_cast<int>(absl::ToInt64Milliseconds(duration)); }

absl::Status CheckTlsPaths(const TlsPaths& tls) {
  for (const auto& [path, name] :
       {std::pair(&tls.certificate, "tls-cert"), std::pair(&tls.key, "tls-key"),
        std::pair(&tls.authorities, "tls-ca")}) {
    if (path->empty()) {
      return absl::InvalidArgumentError(
          StrCat("listen needs ", name,
                 " too; without certificates only the local socket and plaintext-listen on "
                 "loopback can be served"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

RemoteServer::RemoteServer(RemoteOptions options, Parts parts)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      server_(
          parts_.limits, [this](const grpc::ServerContext& context) { return Identify(context); },
          parts_.rules, parts_.audit, parts_.work, parts_.reports, parts_.watchdog) {}

RemoteServer::~RemoteServer() { Shutdown(MonotonicDeadline(absl::ZeroDuration())); }

absl::StatusOr<std::unique_ptr<RemoteServer>> RemoteServer::Start(RemoteOptions options,
                                                                  Parts parts) {
  std::unique_ptr<RemoteServer> server(new RemoteServer(std::move(options), std::move(parts)));
  RETURN_IF_ERROR(server->Open());
  return server;
}

absl::Status RemoteServer::CheckFiles(const RemoteOptions& options) {
  if (options.listen.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckTlsPaths(options.tls));
  return ReadTlsMaterial(options.tls).status();
}

absl::Status RemoteServer::Open() {
  grpc::ServerBuilder builder;
  parts_.set_limits(builder);
  SetAges(builder);
  if (!options_.listen.empty()) {
    RETURN_IF_ERROR(CheckTlsPaths(options_.tls));
    if (!TlsReceiveHookIsInPlace()) {
      return absl::FailedPreconditionError(
          "listen: this build of profd does not see what callers send by TLS, and could not hold "
          "them "
          "to limits; use one that was built from the released sources");
    }
    ASSIGN_OR_RETURN(tls_files_, TlsFiles::Load(options_.tls, options_.tls_reload));
    ASSIGN_OR_RETURN(UniqueFd socket, ListenTcp(options_.listen, /*loopback_only=*/false));
    RETURN_IF_ERROR(OpenPort(std::move(socket), TlsCredentials(), nullptr, builder, tls_));
    LogInfo(StrCat("listening for remote callers on ", tls_.listener->address(), " (mutual TLS)"));
  }
  if (!options_.plaintext_listen.empty()) {
    ASSIGN_OR_RETURN(UniqueFd socket, ListenTcp(options_.plaintext_listen, /*loopback_only=*/true));
    RETURN_IF_ERROR(OpenPort(std::move(socket), grpc::InsecureServerCredentials(),
                             plaintext_traffic_, builder, plaintext_));
    LogInfo(StrCat("listening on ", plaintext_.listener->address(),
                   " (plaintext, callers are \"unknown\")"));
  }
  RETURN_IF_ERROR(server_.Start(builder, parts_.make_services));
  for (Port* port : {&tls_, &plaintext_}) {
    if (port->listener != nullptr) {
      port->listener->Start([port](UniqueFd connection) { port->HandOver(std::move(connection)); },
                            parts_.watchdog);
    }
  }
  return absl::OkStatus();
}

absl::Status RemoteServer::OpenPort(UniqueFd socket,
                                    std::shared_ptr<grpc::ServerCredentials> credentials,
                                    std::shared_ptr<CallerTraffic> traffic,
                                    grpc::ServerBuilder& builder, Port& port) const {
  TcpListener::Limits limits = options_.connections;
  limits.traffic = std::move(traffic);
  limits.ledger = parts_.limits.ledger;
  ASSIGN_OR_RETURN(port.listener, TcpListener::Create(std::move(socket), std::move(limits)));
  port.acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
  return absl::OkStatus();
}

void RemoteServer::Port::HandOver(UniqueFd connection) const {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listener->fd();
  parameters.fd = connection.Release();
  acceptor->HandleNewConnection(&parameters);
}

std::shared_ptr<grpc::ServerCredentials> RemoteServer::TlsCredentials() const {
  namespace ex = grpc::experimental;
  auto watcher = std::make_shared<ex::FileWatcherCertificateProvider>(
      tls_files_->identity_path(), tls_files_->identity_path(), tls_files_->authorities_path(),
      static_cast<unsigned>(std::max<int64_t>(1, absl::ToInt64Seconds(tls_files_->interval()))));
  // TLS 1.2 is the least that these credentials speak.
  ex::TlsServerCredentialsOptions options(std::move(watcher));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  // The chain is verified all the same; a name in it is for the policy to judge.
  options.set_certificate_verifier(std::make_shared<ex::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return ex::TlsServerCredentials(options);
}

void RemoteServer::SetAges(grpc::ServerBuilder& builder) const {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Ms(options_.max_connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Ms(kAgeGrace));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Ms(options_.max_connection_idle));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Ms(kHandshakeTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Ms(kPingInterval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Ms(kPingTimeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Ms(kLeastPingInterval));
  // gRPC reads up to 4 MiB at once, and calls that are begun in them take 40 times as much.
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 64 << 10);
}

absl::StatusOr<Peer> RemoteServer::Identify(const grpc::ServerContext& context) {
  Peer peer{.principal = RemotePrincipal(*context.auth_context()),
            .outside = false,
            .address = context.peer()};
  const std::string name = PrincipalName(peer.principal);
  for (const Port* port : {&tls_, &plaintext_}) {
    if (port->listener != nullptr) RETURN_IF_ERROR(port->listener->Claim(peer.address, name));
  }
  return peer;
}

std::vector<std::string> RemoteServer::addresses() const {
  std::vector<std::string> addresses;
  for (const Port* port : {&tls_, &plaintext_}) {
    if (port->listener != nullptr) addresses.push_back(port->listener->address());
  }
  return addresses;
}

std::optional<absl::Time> RemoteServer::certificate_end() const {
  if (tls_files_ == nullptr) return std::nullopt;
  return tls_files_->not_after();
}

int64_t RemoteServer::cut_off_count() const {
  return plaintext_traffic_->ended_count() + TlsConnectionsEnded();
}

void RemoteServer::CheckCertificates() {
  if (tls_files_ != nullptr) tls_files_->CheckNow();
}

void RemoteServer::Close() {
  for (Port* port : {&tls_, &plaintext_}) {
    if (port->listener != nullptr) port->listener->Stop();
  }
  server_.Close();
}

void RemoteServer::Shutdown(gpr_timespec deadline) {
  Close();
  server_.Shutdown(deadline);
}

}  // namespace profd::rpc
