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
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/capture/ports.h"
#include "daemon/quota/ledger.h"
#include "daemon/rpc/call_end.h"
#include "daemon/rpc/remote_options.h"
#include "daemon/rpc/target_news.h"

namespace profd {
class ProcessReader;
class ScheduleRunner;
}  // namespace profd
namespace profd::store {
class CaptureStore;
}

namespace profd::rpc {

// What GetNode tells of ingest, read at each call.
struct IngestFacts {
  std::string event_clock;      // "tsc", "monotonic", "cntvct"
  double ticks_per_second = 0;  // 0: not calibrated yet.
  int64_t capture_memory_bytes = 0;
  int64_t max_capture_memory_bytes = 0;
  int64_t unknown_frame_count = 0;
  int64_t refused_target_count = 0;
};

struct ControlServerOptions {
  // Where control.sock is made. The folder exists, is ours and writable by nobody else.
  std::filesystem::path socket_dir;
  // A listening AF_UNIX stream socket from systemd; then socket_dir is not touched.
  UniqueFd inherited_listener;
  // Reads /proc of callers; must outlive the server. nullptr: with the daemon's own rights.
  ProcessReader* processes = nullptr;

  std::string node_name;
  std::string version;             // "0.1.0"
  std::filesystem::path data_dir;  // Told to root and to profd's own uid.
  absl::Time start_time;
  bool reflection = false;

  // One caller must not use up what all need: file descriptors, memory, the report thread.
  int64_t max_connections = 1024;
  int64_t max_connections_per_uid = 256;
  int max_streams_per_connection = 64;
  int64_t max_calls_per_principal = 1024;  // At once; streams are calls, too.
  // Calls begun per second, and as many as this at once after a pause.
  double max_call_rate_per_principal = 2000;
  double max_call_burst_per_principal = 10'000;
  int64_t max_request_bytes = 1 << 20;
  int64_t max_memory_bytes = 64 << 20;  // gRPC's buffers, all connections.
  // Of both queues; the quota of waiting calls limits a principal further.
  int64_t max_queued_calls = 2048;
  int64_t max_queued_calls_per_principal = 256;
  int64_t max_queued_reports = 256;
  int64_t max_queued_reports_per_principal = 8;
  std::filesystem::path report_program;  // Empty: worker::FindReportProgram().
  int64_t max_report_memory_bytes = int64_t{1} << 30;
  absl::Duration max_report_time = absl::Minutes(5);
  // An export whose reader takes nothing for this long is cancelled.
  absl::Duration stalled_reader_timeout = absl::Seconds(30);
  // So is an import whose sender sends nothing.
  absl::Duration stalled_sender_timeout = absl::Seconds(30);

  RemoteOptions remote;  // Callers on other machines.
};

class ControlServer {
 public:
  struct Parts {
    CaptureManager& manager;
    TargetPort& targets;
    store::CaptureStore& store;
    ScheduleRunner& schedules;
    TargetNews& target_news;
    quota::Ledger& ledger;
    Clock& clock;
    std::function<IngestFacts()> ingest_facts;  // Any thread.
    CallObserver on_call_end = nullptr;         // nullptr: nobody counts.
    // The rules that hold now; any thread. Unset: an owner's and root's.
    std::function<std::shared_ptr<const AccessRules>()> access_rules;
  };

  // Serves from when it returns. FAILED_PRECONDITION: another daemon answers on the socket,
  // or the folder is not ours; INTERNAL: the socket or gRPC cannot be set up. The message
  // names the path and the remedy.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(ControlServerOptions options,
                                                              Parts parts);
  ~ControlServer();  // Shutdown(0), if that has not happened.

  // Where remote callers are served, "127.0.0.1:7411"; the one with TLS first.
  std::vector<std::string> remote_addresses() const;
  // When the certificate that remote callers are shown ends; nullopt: there is none.
  std::optional<absl::Time> certificate_end() const;
  // Takes up new certificates now, not at the next look.
  void CheckCertificates();

  // Health says NOT_SERVING, nobody is accepted, waiting reports and target watches end as
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
