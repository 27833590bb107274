// ExportService: trace files, made by profd-report as the caller reads them.
#include <memory>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/rpc/server/call.h"
#include "daemon/rpc/server/server_stream.h"
#include "daemon/rpc/services/capture_lookup.h"
#include "daemon/rpc/services/capture_report.h"
#include "daemon/rpc/services/export_sink.h"
#include "daemon/rpc/services/services.h"
#include "profd/v1/export.grpc.pb.h"

namespace profd::rpc {
namespace {

// What one ExportTrace stream does: hands the export to the report pool, and tells its sink
// whenever the stream is ready. The pool's thread ends the stream.
class Export final : public StreamHandler {
 public:
  Export(const ServiceParts& parts, const CallInfo& info, v1::ExportTraceRequest request,
         ServerStream<v1::ExportTraceResponse>& stream)
      : job_(std::make_shared<Job>(parts, info, std::move(request), stream)) {}

  void Pump() override {
    job_->sink.OnReady();
    if (std::exchange(posted_, true)) return;
    const auto run = [job = job_](worker::ReportTurn& turn) { job->stream.Finish(job->Run(turn)); };
    if (!job_->parts.admission.reports().TryPost(job_->info.principal, run)) {
      job_->stream.Finish(job_->parts.admission.TurnedAway());
    }
  }

 private:
  // The stream lives until it was finished, which only the job does once it was posted.
  struct Job {
    Job(const ServiceParts& the_parts, const CallInfo& the_info, v1::ExportTraceRequest the_request,
        ServerStream<v1::ExportTraceResponse>& the_stream)
        : parts(the_parts),
          info(the_info),
          request(std::move(the_request)),
          stream(the_stream),
          sink(the_stream, the_parts.options.stalled_reader_timeout) {}

    absl::Status Run(worker::ReportTurn& turn) {
      RETURN_IF_ERROR(sink.CheckReader());
      ASSIGN_OR_RETURN(
          const CaptureRecord capture,
          FindStoredCapture(parts.manager, parts.store, info.caller, request.capture()));
      RETURN_IF_ERROR(ReportOnCapture(
          parts, info, capture, "ExportTrace", request.SerializeAsString(),
          [this] { return sink.CheckReader(); }, turn, sink));
      turn.GiveUp();  // The rest waits for the reader only.
      return sink.Finish();
    }

    const ServiceParts parts;
    const CallInfo info;
    const v1::ExportTraceRequest request;
    ServerStream<v1::ExportTraceResponse>& stream;
    ExportSink sink;
  };

  const std::shared_ptr<Job> job_;  // Of the handler, and of the pool while it runs.
  bool posted_ = false;
};

class ExportService final : public RpcService {
 public:
  explicit ExportService(const ServiceParts& parts) : parts_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    ServeStream(parts_.admission, service_, &v1::ExportService::AsyncService::RequestExportTrace,
                Verb::kRead,
                [this](const CallInfo& info, const v1::ExportTraceRequest& request,
                       ServerStream<v1::ExportTraceResponse>& stream) {
                  return std::make_unique<Export>(parts_, info, request, stream);
                });
  }

 private:
  const ServiceParts parts_;
  v1::ExportService::AsyncService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewExportService(const ServiceParts& parts) {
  return std::make_unique<ExportService>(parts);
}

}  // namespace profd::rpc
