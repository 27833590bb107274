// ExportSink: the end of an export, whose bytes go out on a gRPC stream.
//
//   profd-report: Append ─► filling ─(full)─► Write
//   profd-rpc:    Pump ─────────────────────► OnReady
//
// While one piece is on its way the next is filled; then the sink is not ready, and its report is
// paused. A reader that takes nothing for `stalled_timeout` loses its stream.
//
// Threads: AwaitReady(), CheckReader(), Append() and Finish() by the one that exports; OnReady() by
//          the pump.
// Errors:  CANCELLED: the reader went away, or stalled. UNAVAILABLE: profd is stopping.
#ifndef PROFD_DAEMON_RPC_SERVICES_EXPORT_SINK_H_
#define PROFD_DAEMON_RPC_SERVICES_EXPORT_SINK_H_

#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/cond_var.h"
#include "daemon/rpc/server/server_stream.h"
#include "daemon/worker/report_pool.h"
#include "profd/v1/export.pb.h"

namespace profd::rpc {

inline constexpr size_t kExportPieceBytes = 512 << 10;

class ExportSink final : public worker::ReportSink {
 public:
  // `stream` must outlive the sink.
  ExportSink(ServerStream<v1::ExportTraceResponse>& stream, absl::Duration stalled_timeout)
      : stream_(stream), stalled_timeout_(stalled_timeout) {}

  bool AwaitReady(absl::Duration timeout) override;
  absl::Status Append(std::string_view bytes) override;
  // Whether there is still a reader.
  absl::Status CheckReader();
  absl::Status Finish();  // Returns when the last piece may go.

  // Something changed: the stream can take a piece, or never will again.
  void OnReady();

 private:
  bool IsReady() const;

  ServerStream<v1::ExportTraceResponse>& stream_;
  const absl::Duration stalled_timeout_;
  v1::ExportTraceResponse filling_;
  absl::Duration blocked_since_ = absl::InfiniteDuration();

  absl::Mutex mu_;
  bool changed_ ABSL_GUARDED_BY(mu_) = false;
  CondVar ready_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_EXPORT_SINK_H_
