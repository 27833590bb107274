// What the daemon tells the control server: its settings and limits, and facts about ingest.
#ifndef PROFD_DAEMON_RPC_SERVER_CONTROL_SERVER_OPTIONS_H_
#define PROFD_DAEMON_RPC_SERVER_CONTROL_SERVER_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"
#include "daemon/rpc/server/remote_options.h"

namespace profd {
class ProcessReader;
}

namespace profd::rpc {

// What GetNode tells of the rest of the daemon, read at each call.
struct NodeFacts {
  std::string event_clock;      // "tsc", "monotonic", "cntvct"
  double ticks_per_second = 0;  // 0: not calibrated yet.
  int64_t capture_memory_bytes = 0;
  int64_t max_capture_memory_bytes = 0;
  int64_t unknown_frame_count = 0;
  int64_t refused_target_count = 0;
  std::string policy_error;  // Why the policy file is not taken as it is now; empty: it is.
};

struct ControlServerOptions {
  // Where control.sock is made. The folder exists, is ours, and no other user may write to it.
  std::filesystem::path socket_dir;
  // A listening AF_UNIX stream socket from systemd; then socket_dir is not touched.
  UniqueFd inherited_listener;
  // Reads /proc of callers; must outlive the server. nullptr: with the daemon's own rights.
  ProcessReader* processes = nullptr;

  std::string node_name;
  std::string version;             // "0.1.0"
  std::filesystem::path data_dir;  // Told to root and to profd's own uid.
  // When the daemon started, by both of its clocks: the first may be set later.
  absl::Time start_time;
  absl::Duration start_monotonic;
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

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_CONTROL_SERVER_OPTIONS_H_
