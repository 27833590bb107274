// The connection to a daemon: its settings and, for TCP, its certificates.
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cli/base/errors.h"
#include "cli/client/daemon_client_impl.h"
#include "daemon/base/clock.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/tls_material.h"

namespace profd::cli {
namespace {

// A capture of a million steps is a message of tens of megabytes; the default is 4 MiB.
constexpr int kMaxMessageBytes = 1 << 30;
// What may be on its way to us: enough for 80 MB/s over 100 ms. Probing for it would cost a fifth
// of a download's CPU time.
constexpr int kWindowBytes = 8 << 20;
// A daemon whose machine vanished is noticed while a call waits; profd allows that much.
constexpr int kPingIntervalMs = 20'000;
constexpr int kPingTimeoutMs = 10'000;

void SetTcpArguments(const Endpoint& endpoint, grpc::ChannelArguments& arguments) {
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingIntervalMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  if (endpoint.tls.has_value() && !endpoint.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(endpoint.tls->server_name);
  }
}

// nullptr, and why in `status`: a file of ours is not what it must be.
std::shared_ptr<grpc::ChannelCredentials> TlsCredentials(const ClientTls& tls,
                                                         absl::Status& status) {
  const absl::StatusOr<TlsMaterial> material = ReadTlsMaterial(
      {.certificate = tls.certificate_file, .key = tls.key_file, .authorities = tls.ca_file});
  if (!material.ok()) {
    status = LocalFailure(material.status());
    return nullptr;
  }
  const absl::Time now = Clock::Real().Now();
  if (now >= material->not_after || now < material->not_before) {
    const bool ended = now >= material->not_after;
    status = LocalFailure(absl::FailedPreconditionError(StrCat(
        "the certificate ", tls.certificate_file, " (", material->subject, ") is ",
        ended ? "valid no more: it ended at " : "not valid yet: it begins at ",
        absl::FormatTime(ended ? material->not_after : material->not_before, absl::UTCTimeZone()),
        "; get a new one from who signs them, or see to this machine's clock")));
    return nullptr;
  }
  // TLS 1.2 is the least that these credentials speak.
  return grpc::SslCredentials({.pem_root_certs = material->authorities_pem,
                               .pem_private_key = material->key_pem,
                               .pem_cert_chain = material->chain_pem});
}

// Keeps credentials for two seconds after their files were read. All nodes of a fleet have the same
// files; reading them for each took a fifth of the time to connect to 1,000 nodes. `top`, which may
// run for days, connects with renewed certificates.
class RecentCredentials {
 public:
  std::shared_ptr<grpc::ChannelCredentials> Of(const ClientTls& tls, absl::Status& status) {
    const absl::MutexLock lock(&mu_);
    const absl::Duration now = Clock::Real().Monotonic();
    Entry& entry = entries_[{tls.ca_file, tls.certificate_file, tls.key_file}];
    if (entry.credentials == nullptr || now > entry.read + kRecent) {
      entry = {.credentials = TlsCredentials(tls, status), .read = now};
    }
    return entry.credentials;
  }

 private:
  static constexpr absl::Duration kRecent = absl::Seconds(2);
  struct Entry {
    std::shared_ptr<grpc::ChannelCredentials> credentials;  // nullptr: they are not right.
    absl::Duration read;                                    // When, on the monotonic clock.
  };
  absl::Mutex mu_;
  std::map<std::array<std::string, 3>, Entry> entries_ ABSL_GUARDED_BY(mu_);
};

RecentCredentials& Recent() {
  static auto* const recent = new RecentCredentials;
  return *recent;
}

// Keeps gRPC's event engine to the end of the process, by a channel that never connects. gRPC 1.51
// frees the engine with the last channel, and then waits for a timer thread: for ever, if that
// thread could not be started (ulimit -u).
void KeepEventEngine() {
  // "used": an optimizer drops a variable that is never read, and to LeakSanitizer the channel is
  // lost.
  [[gnu::used]] static const auto* const channel = new std::shared_ptr<grpc::Channel>(
      grpc::CreateChannel("unix:/", grpc::InsecureChannelCredentials()));
}

}  // namespace

void SilenceGrpc() {
  if (std::getenv("GRPC_VERBOSITY") != nullptr) return;
  gpr_set_log_function([](gpr_log_func_args*) {});
}

std::shared_ptr<grpc::Channel> OpenChannel(const Endpoint& endpoint, absl::Status& status) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // gRPC inflates an answer whole before it looks at the limit; profd compresses none.
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // Profd is never behind a proxy; and a training node may have one set.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Several clients in one process must not share a connection that one of them aborted.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!endpoint.unix_path.empty()) {
    // The path is no host name: a fixed one keeps odd characters out of the authority.
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  } else {
    SetTcpArguments(endpoint, arguments);
  }
  // A channel without credentials fails all its calls.
  const std::shared_ptr<grpc::ChannelCredentials> credentials =
      endpoint.tls.has_value() ? Recent().Of(*endpoint.tls, status)
                               : grpc::InsecureChannelCredentials();
  KeepEventEngine();
  return grpc::CreateCustomChannel(endpoint.address, credentials, arguments);
}

}  // namespace profd::cli
