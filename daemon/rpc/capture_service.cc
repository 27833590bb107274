// CaptureService: captures, from being asked for to being fetched.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/audit.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/capture_list.h"
#include "daemon/rpc/capture_lookup.h"
#include "daemon/rpc/capture_watch.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/download.h"
#include "daemon/rpc/names.h"
#include "daemon/rpc/server_stream.h"
#include "daemon/rpc/services.h"
#include "profd/v1/captures.grpc.pb.h"

namespace profd::rpc {
namespace {

constexpr int kMaxGroupTargets = 256;

class CaptureService final : public RpcService {
 public:
  explicit CaptureService(const ServiceParts& parts) : parts_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    using Async = v1::CaptureService::AsyncService;
    Unary<v1::CreateCaptureRequest, v1::Capture>(&Async::RequestCreateCapture,
                                                 &CaptureService::Create);
    Unary<v1::CreateCaptureGroupRequest, v1::CaptureGroup>(&Async::RequestCreateCaptureGroup,
                                                           &CaptureService::CreateGroup);
    Unary<v1::GetCaptureRequest, v1::Capture>(&Async::RequestGetCapture, &CaptureService::Get);
    Unary<v1::GetCaptureGroupRequest, v1::CaptureGroup>(&Async::RequestGetCaptureGroup,
                                                        &CaptureService::GetGroup);
    Unary<v1::ListCapturesRequest, v1::ListCapturesResponse>(&Async::RequestListCaptures,
                                                             &CaptureService::List);
    Unary<v1::CancelCaptureRequest, v1::Capture>(&Async::RequestCancelCapture,
                                                 &CaptureService::Cancel);
    Unary<v1::DeleteCaptureRequest, v1::Capture>(&Async::RequestDeleteCapture,
                                                 &CaptureService::Delete);
    ServeStream(parts_.door, service_, &Async::RequestWatchCapture,
                [this](const CallInfo& info, const v1::WatchCaptureRequest& request,
                       ServerStream<v1::Capture>& stream) {
                  return std::make_unique<CaptureWatch>(parts_, info, request.name(), stream);
                });
    ServeStream(parts_.door, service_, &Async::RequestDownloadCapture,
                [this](const CallInfo& info, const v1::DownloadCaptureRequest& request,
                       ServerStream<v1::DownloadCaptureResponse>& stream) {
                  return std::make_unique<Download>(parts_, info, request, stream);
                });
  }

 private:
  template <typename Request, typename Response, typename Requester>
  void Unary(Requester requester,
             absl::Status (CaptureService::*handle)(const CallInfo&, const Request&, Response&)) {
    ServeUnary(parts_.door, parts_.door.work(), service_, requester,
               [this, handle](const CallInfo& info, const Request& request, Response& response) {
                 return (this->*handle)(info, request, response);
               });
  }

  absl::Status Create(const CallInfo& info, const v1::CreateCaptureRequest& request,
                      v1::Capture& response) {
    AuditScope audit(parts_.store, parts_.clock, info.caller, "CreateCapture", request.target());
    ASSIGN_OR_RETURN(const CaptureRecord record, audit.Outcome(DoCreate(info, request)));
    CaptureToProto(record, response);
    return absl::OkStatus();
  }

  absl::StatusOr<CaptureRecord> DoCreate(const CallInfo& info,
                                         const v1::CreateCaptureRequest& request) {
    ASSIGN_OR_RETURN(const TargetNumber target, ParseTargetName(request.target()));
    ASSIGN_OR_RETURN(const CaptureSpec spec, SpecFromProto(request.spec()));
    RETURN_IF_ERROR(CheckRequestId(request.request_id()));
    return parts_.manager.Create(info.caller, target, spec, request.request_id());
  }

  absl::Status CreateGroup(const CallInfo& info, const v1::CreateCaptureGroupRequest& request,
                           v1::CaptureGroup& response) {
    AuditScope audit(parts_.store, parts_.clock, info.caller, "CreateCaptureGroup",
                     StrCat(request.targets_size(), " targets"));
    ASSIGN_OR_RETURN(const std::vector<CaptureRecord> records,
                     audit.Outcome(DoCreateGroup(info, request)));
    GroupToProto(records, response);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<CaptureRecord>> DoCreateGroup(
      const CallInfo& info, const v1::CreateCaptureGroupRequest& request) {
    if (request.targets_size() < 1 || request.targets_size() > kMaxGroupTargets) {
      return absl::InvalidArgumentError(StrCat("targets: ", request.targets_size(),
                                               " given; from 1 to ", kMaxGroupTargets, " go"));
    }
    std::vector<TargetNumber> targets;
    for (const std::string& name : request.targets()) {
      ASSIGN_OR_RETURN(const TargetNumber target, ParseTargetName(name));
      if (std::find(targets.begin(), targets.end(), target) != targets.end()) {
        return absl::InvalidArgumentError(StrCat("targets: ", name, " is named twice"));
      }
      targets.push_back(target);
    }
    ASSIGN_OR_RETURN(const CaptureSpec spec, SpecFromProto(request.spec()));
    RETURN_IF_ERROR(CheckRequestId(request.request_id()));
    return parts_.manager.CreateGroup(info.caller, targets, spec, request.request_id());
  }

  absl::Status Get(const CallInfo& info, const v1::GetCaptureRequest& request,
                   v1::Capture& response) {
    ASSIGN_OR_RETURN(const CaptureRecord record,
                     FindCapture(parts_.manager, parts_.store, info.caller, request.name()));
    CompleteCaptureToProto(parts_.store, record, response);
    return absl::OkStatus();
  }

  absl::Status GetGroup(const CallInfo& info, const v1::GetCaptureGroupRequest& request,
                        v1::CaptureGroup& response) {
    ASSIGN_OR_RETURN(const std::string id, ParseGroupName(request.name()));
    CaptureList list(parts_.manager, parts_.store, info.caller);
    ASSIGN_OR_RETURN(std::vector<CaptureRecord> records, list.Group(id));
    if (records.empty()) {
      return absl::NotFoundError(
          StrCat("no group ", id, "; `profctl captures` lists those there are"));
    }
    GroupToProto(records, response);
    return absl::OkStatus();
  }

  absl::Status List(const CallInfo& info, const v1::ListCapturesRequest& request,
                    v1::ListCapturesResponse& response) {
    CaptureList list(parts_.manager, parts_.store, info.caller);
    ASSIGN_OR_RETURN(const CaptureList::Page page, list.GetPage(request));
    for (const CaptureRecord& record : page.captures) {
      CaptureToProto(record, *response.add_captures());
    }
    response.set_next_page_token(page.next_page_token);
    return absl::OkStatus();
  }

  absl::Status Cancel(const CallInfo& info, const v1::CancelCaptureRequest& request,
                      v1::Capture& response) {
    AuditScope audit(parts_.store, parts_.clock, info.caller, "CancelCapture", request.name());
    const auto cancel = [&]() -> absl::StatusOr<CaptureRecord> {
      ASSIGN_OR_RETURN(const CaptureRecord record,
                       FindCapture(parts_.manager, parts_.store, info.caller, request.name()));
      return parts_.manager.Cancel(info.caller, record.id);
    };
    ASSIGN_OR_RETURN(const CaptureRecord record, audit.Outcome(cancel()));
    CaptureToProto(record, response);
    return absl::OkStatus();
  }

  absl::Status Delete(const CallInfo& info, const v1::DeleteCaptureRequest& request,
                      v1::Capture& response) {
    AuditScope audit(parts_.store, parts_.clock, info.caller, "DeleteCapture", request.name());
    const auto remove = [&]() -> absl::StatusOr<CaptureRecord> {
      ASSIGN_OR_RETURN(const CaptureRecord record,
                       FindCapture(parts_.manager, parts_.store, info.caller, request.name()));
      return parts_.manager.Delete(info.caller, record.id);
    };
    ASSIGN_OR_RETURN(const CaptureRecord record, audit.Outcome(remove()));
    CaptureToProto(record, response);
    return absl::OkStatus();
  }

  static void GroupToProto(const std::vector<CaptureRecord>& records, v1::CaptureGroup& out) {
    out.set_name(GroupName(records.front().group_id));
    for (const CaptureRecord& record : records) CaptureToProto(record, *out.add_captures());
  }

  const ServiceParts parts_;
  v1::CaptureService::AsyncService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewCaptureService(const ServiceParts& parts) {
  return std::make_unique<CaptureService>(parts);
}

}  // namespace profd::rpc
