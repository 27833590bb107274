// ControlServer answers callers of the control socket: our own AF_UNIX listener in front of
// gRPC, because gRPC 1.51 cannot say who is at the other end of a unix socket. Every
// connection is accepted here, its peer is asked of the kernel, and only then is it given
// to gRPC; a caller may touch what its uid owns, root everything.
//
//   connect ──► profd-accept ──SO_PEERCRED──► PeerTable["fd:4103"] = uid, pid
//                    └── AddInsecureChannelFromFd(4103) ──► gRPC ──► service ──► peer "fd:4103"
//
// Callers on other machines, if the settings let any in, come by a server of their own
// (remote_server.h), with the same services behind it.
//
// Threads:    Start() and Shutdown() by the owner; the rest anyone. Own threads: profd-accept
//             (waits, no timeout), profd-rpc (calls that wait for the disk or the manager),
//             profd-report (each passes a report to a program of that name and relays its
//             answer, one at a time, nice 19, idle I/O class); and gRPC's.
// Ownership:  everything in Parts must outlive the server.
// Shutdown:   shut the manager down first, so that watches end with a terminal capture.
#ifndef PROFD_DAEMON_RPC_CONTROL_SERVER_H_
#define PROFD_DAEMON_RPC_CONTROL_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/capture/ports.h"
#include "daemon/quota/ledger.h"
#include "daemon/rpc/admission/call_stats.h"
#include "daemon/rpc/server/control_server_options.h"
#include "daemon/rpc/services/target_events.h"

namespace profd {
class ScheduleRunner;
}  // namespace profd
namespace profd::store {
class CaptureStore;
}

namespace profd::rpc {

class ControlServer {
 public:
  struct Parts {
    CaptureManager& manager;
    TargetPort& targets;
    store::CaptureStore& store;
    ScheduleRunner& schedules;
    TargetEvents& target_events;
    quota::Ledger& ledger;
    Clock& clock;
    std::function<NodeFacts()> node_facts;  // Any thread.
    CallObserver on_call = nullptr;         // nullptr: not counted.
    // The rules that hold now; any thread. Unset: an owner's and root's.
    std::function<std::shared_ptr<const AccessRules>()> access_rules;
    Watchdog* watchdog = nullptr;  // Watches the server's threads; nullptr: not watched.
  };

  // Serves from when it returns. FAILED_PRECONDITION: another daemon answers on the socket,
  // or the folder is not ours; INTERNAL: the socket or gRPC cannot be set up. The message
  // names the path and the remedy.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(ControlServerOptions options,
                                                              Parts parts);
  ~ControlServer();  // Shutdown(0), if that has not happened.
  // Whether Start() would take the certificates of these options: its errors, without listening.
  static absl::Status CheckFiles(const RemoteOptions& options);

  // Where remote callers are served, "127.0.0.1:7411"; the one with TLS first.
  std::vector<std::string> remote_addresses() const;
  // When the certificate that remote callers are shown ends; nullopt: there is none.
  std::optional<absl::Time> certificate_end() const;
  // Connections, local and remote, that ended because their callers sent what is not allowed
  // (admission/caller_traffic.h).
  int64_t cut_off_connections() const;
  // Takes up new certificates now, not at the next look.
  void CheckCertificates();

  // Health says NOT_SERVING, no connection is accepted, waiting reports and target watches end as
  // UNAVAILABLE; what else runs may finish within `grace` and is cancelled then.
  // The socket file is removed, unless it was inherited.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONTROL_SERVER_H_
