// ReportService: reports over stored captures, made by profd-report, one at a time. GetHistory and
// ListRankSummaries read the catalog only and are answered by profd itself.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/server/call.h"
#include "daemon/rpc/services/answer_cache.h"
#include "daemon/rpc/services/capture_lookup.h"
#include "daemon/rpc/services/capture_report.h"
#include "daemon/rpc/services/history.h"
#include "daemon/rpc/services/rank_summaries.h"
#include "daemon/rpc/services/report_call.h"
#include "daemon/rpc/services/services.h"
#include "profd/v1/reports.grpc.pb.h"

namespace profd::rpc {
namespace {

// Collects an answer as gRPC sends it. profd-report keeps to the limit; a broken one may not.
class AnswerSink final : public worker::ReportSink {
 public:
  bool AwaitReady(absl::Duration /*timeout*/) override { return true; }
  absl::Status Append(std::string_view bytes) override {
    bytes_ += bytes.size();
    if (bytes_ > worker::kMaxAnswerBytes) {
      return absl::ResourceExhaustedError(
          StrCat("the report has more than ", worker::kMaxAnswerBytes >> 20, " MiB"));
    }
    pieces_.emplace_back(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  grpc::ByteBuffer Take() const { return {pieces_.data(), pieces_.size()}; }

 private:
  size_t bytes_ = 0;
  std::vector<grpc::Slice> pieces_;
};

// The generated service, asked for requests whose answers are bytes.
class RawService final : public v1::ReportService::AsyncService {
 public:
  template <typename Request>
  void RequestReport(int method, grpc::ServerContext* context, Request* request,
                     grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* responder,
                     grpc::ServerCompletionQueue& completions, void* tag) {
    RequestAsyncUnary(method, context, request, responder, &completions, &completions, tag);
  }
};

class ReportService final : public RpcService {
 public:
  explicit ReportService(const ServiceParts& parts) : parts_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    ServeReport<v1::GetReportRequest>("GetReport");
    ServeUnary(
        parts_.admission, parts_.admission.work(), service_,
        &v1::ReportService::AsyncService::RequestGetHistory, Verb::kRead,
        [this](const CallInfo& info, const v1::GetHistoryRequest& request, v1::Report& response) {
          return GetHistory(parts_.store, info, request, response);
        });
    ServeUnary(parts_.admission, parts_.admission.work(), service_,
               &v1::ReportService::AsyncService::RequestListRankSummaries, Verb::kRead,
               [this](const CallInfo& info, const v1::ListRankSummariesRequest& request,
                      v1::ListRankSummariesResponse& response) {
                 return ListRankSummaries(parts_.store, info, request, response,
                                          damaged_summaries_log_);
               });
  }

 private:
  // Answers the RPC of this name with the table of this name (report_worker/tables.cc).
  template <typename Request>
  void ServeReport(const char* table) {
    const auto* service = Request::descriptor()->file()->FindServiceByName("ReportService");
    const int index = service->FindMethodByName(table)->index();
    auto method = std::make_shared<ReportMethod<Request>>();
    method->admission = &parts_.admission;
    method->request = [this, index](grpc::ServerContext* context, Request* request,
                                    typename ReportMethod<Request>::Responder* responder,
                                    void* tag) {
      service_.RequestReport(index, context, request, responder, parts_.admission.completions(),
                             tag);
    };
    method->handle = [this, table](const CallInfo& info, const Request& request,
                                   worker::ReportTurn& turn, grpc::ByteBuffer& response) {
      return Answer(info, table, request, turn, response);
    };
    std::make_shared<ReportCall<Request>>(std::move(method))->Start();
  }

  template <typename Request>
  absl::Status Answer(const CallInfo& info, const char* table, Request request,
                      worker::ReportTurn& turn, grpc::ByteBuffer& response) {
    ASSIGN_OR_RETURN(
        const CaptureRecord capture,
        FindStoredCapture(parts_.manager, parts_.store, info.caller, request.capture()));
    // The key leaves out the name: the same bytes give the same answer.
    request.clear_capture();
    const std::string key = AnswerCache::KeyOf(capture.file_sha256, table, request);
    // Without a hash, nothing says that two files are equal.
    const bool is_hashed = !capture.file_sha256.empty();
    if (std::optional<grpc::ByteBuffer> known = is_hashed ? answers_.Find(key) : std::nullopt) {
      response = *std::move(known);
      return absl::OkStatus();
    }
    AnswerSink sink;
    RETURN_IF_ERROR(ReportOnCapture(
        parts_, info, capture, table, request.SerializeAsString(),
        [this, &info] { return StillWanted(parts_.admission, info); }, turn, sink));
    response = sink.Take();
    if (is_hashed) answers_.Put(key, response);
    return absl::OkStatus();
  }

  const ServiceParts parts_;
  AnswerCache answers_;
  RateLimiter damaged_summaries_log_{absl::Minutes(1)};
  RawService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewReportService(const ServiceParts& parts) {
  return std::make_unique<ReportService>(parts);
}

}  // namespace profd::rpc
