// ReportService: reports over stored captures, one at a time, on a thread that gives way to
// training.
#include <string>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/collectives.h"
#include "daemon/report/reports.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/capture_lookup.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/history.h"
#include "daemon/rpc/services.h"
#include "profd/v1/reports.grpc.pb.h"

namespace profd::rpc {
namespace {

// protobuf ends at 2 GiB; long before, an answer in one piece is the wrong way.
constexpr size_t kMaxResponseBytes = 512 << 20;

absl::Status CheckSize(const google::protobuf::MessageLite& response, std::string_view remedy) {
  const size_t bytes = response.ByteSizeLong();
  if (bytes <= kMaxResponseBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(StrCat(
      "the report has ", bytes >> 20, " MiB, and an answer at most ", kMaxResponseBytes >> 20, "; ",
      remedy, ", or `profctl fetch` the capture and report on the file"));
}

class ReportService final : public RpcService {
 public:
  explicit ReportService(const ServiceParts& parts) : parts_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    using Async = v1::ReportService::AsyncService;
    Door& door = parts_.door;
    ServeUnary(door, door.reports(), service_, &Async::RequestGetOperators, Verb::kRead,
               [this](const CallInfo& info, const v1::GetOperatorsRequest& request,
                      v1::GetOperatorsResponse& response) {
                 return GetOperators(info, request, response);
               });
    ServeUnary(
        door, door.reports(), service_, &Async::RequestGetSteps, Verb::kRead,
        [this](const CallInfo& info, const v1::GetStepsRequest& request,
               v1::GetStepsResponse& response) { return GetSteps(info, request, response); });
    ServeUnary(door, door.reports(), service_, &Async::RequestGetMemoryTimeline, Verb::kRead,
               [this](const CallInfo& info, const v1::GetMemoryTimelineRequest& request,
                      v1::GetMemoryTimelineResponse& response) {
                 return GetMemoryTimeline(info, request, response);
               });
    ServeUnary(
        door, door.reports(), service_, &Async::RequestGetKernels, Verb::kRead,
        [this](const CallInfo& info, const v1::GetKernelsRequest& request,
               v1::GetKernelsResponse& response) { return GetKernels(info, request, response); });
    ServePlain<v1::GetCopiesRequest, v1::GetCopiesResponse>(
        &Async::RequestGetCopies, &report::SummarizeCopies, &CopyTableToProto);
    ServePlain<v1::GetSyncsRequest, v1::GetSyncsResponse>(
        &Async::RequestGetSyncs, &report::SummarizeSyncs, &SyncTableToProto);
    ServePlain<v1::GetIdleRequest, v1::GetIdleResponse>(&Async::RequestGetIdle,
                                                        &report::SummarizeIdle, &IdleTableToProto);
    ServePlain<v1::GetCompileRequest, v1::GetCompileResponse>(
        &Async::RequestGetCompile, &report::SummarizeCompile, &CompileReportToProto);
    ServeUnary(door, door.reports(), service_, &Async::RequestGetHistory, Verb::kRead,
               [this](const CallInfo& info, const v1::GetHistoryRequest& request,
                      v1::GetHistoryResponse& response) {
                 return GetHistory(parts_.store, info, request, response);
               });
    ServeUnary(door, door.reports(), service_, &Async::RequestGetCollectives, Verb::kRead,
               [this](const CallInfo& info, const v1::GetCollectivesRequest& request,
                      v1::GetCollectivesResponse& response) {
                 return GetCollectives(info, request, response);
               });
  }

 private:
  absl::StatusOr<std::unique_ptr<store::CaptureReader>> Open(const CallInfo& info,
                                                             const std::string& name) {
    ASSIGN_OR_RETURN(const CaptureRecord record,
                     FindStoredCapture(parts_.manager, parts_.store, info.caller, name));
    return OpenEvents(parts_.door, parts_.store, info, record);
  }

  absl::Status GetOperators(const CallInfo& info, const v1::GetOperatorsRequest& request,
                            v1::GetOperatorsResponse& response) {
    ASSIGN_OR_RETURN(const report::OpOptions options, OpOptionsFromProto(request));
    ASSIGN_OR_RETURN(const auto reader, Open(info, request.capture()));
    ASSIGN_OR_RETURN(const report::OpTable table, report::SummarizeOps(*reader, options));
    OpTableToProto(table, response);
    response.set_simulated(reader->record().gpu.simulated);
    return CheckSize(response, "limit the rows");
  }

  absl::Status GetSteps(const CallInfo& info, const v1::GetStepsRequest& request,
                        v1::GetStepsResponse& response) {
    ASSIGN_OR_RETURN(const auto reader, Open(info, request.capture()));
    ASSIGN_OR_RETURN(const report::StepTable table, report::SummarizeSteps(*reader));
    StepTableToProto(table, response);
    return absl::OkStatus();
  }

  absl::Status GetMemoryTimeline(const CallInfo& info, const v1::GetMemoryTimelineRequest& request,
                                 v1::GetMemoryTimelineResponse& response) {
    ASSIGN_OR_RETURN(const report::MemoryOptions options, MemoryOptionsFromProto(request));
    ASSIGN_OR_RETURN(const auto reader, Open(info, request.capture()));
    ASSIGN_OR_RETURN(const report::MemoryTimeline timeline,
                     report::SummarizeMemory(*reader, options));
    MemoryTimelineToProto(timeline, response);
    return CheckSize(response, "ask for fewer points (max_points)");
  }

  absl::Status GetKernels(const CallInfo& info, const v1::GetKernelsRequest& request,
                          v1::GetKernelsResponse& response) {
    ASSIGN_OR_RETURN(const report::KernelOptions options, KernelOptionsFromProto(request));
    ASSIGN_OR_RETURN(const auto reader, Open(info, request.capture()));
    ASSIGN_OR_RETURN(const report::KernelTable table, report::SummarizeKernels(*reader, options));
    KernelTableToProto(table, response);
    response.set_simulated(reader->record().gpu.simulated);
    return CheckSize(response, "limit the rows");
  }

  absl::Status GetCollectives(const CallInfo& info, const v1::GetCollectivesRequest& request,
                              v1::GetCollectivesResponse& response) {
    ASSIGN_OR_RETURN(const auto reader, Open(info, request.capture()));
    ASSIGN_OR_RETURN(const report::CollectiveTable table,
                     report::SummarizeCollectives(*reader, request.limit()));
    CollectiveTableToProto(table, response);
    response.set_simulated(reader->record().gpu.simulated);
    return CheckSize(response, "limit the rows");
  }

  // A report that takes no options.
  template <typename Request, typename Response, typename RequestMethod, typename Table>
  void ServePlain(RequestMethod method,
                  absl::StatusOr<Table> (*summarize)(store::CaptureReader& reader),
                  void (*to_proto)(const Table& table, Response& out)) {
    ServeUnary(parts_.door, parts_.door.reports(), service_, method, Verb::kRead,
               [this, summarize, to_proto](const CallInfo& info, const Request& request,
                                           Response& response) -> absl::Status {
                 ASSIGN_OR_RETURN(const auto reader, Open(info, request.capture()));
                 ASSIGN_OR_RETURN(const Table table, summarize(*reader));
                 to_proto(table, response);
                 response.set_simulated(reader->record().gpu.simulated);
                 return CheckSize(response, "capture fewer steps");
               });
  }

  const ServiceParts parts_;
  v1::ReportService::AsyncService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewReportService(const ServiceParts& parts) {
  return std::make_unique<ReportService>(parts);
}

}  // namespace profd::rpc
