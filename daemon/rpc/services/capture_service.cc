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
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/server/call.h"
#include "daemon/rpc/server/server_stream.h"
#include "daemon/rpc/services/capture_list.h"
#include "daemon/rpc/services/capture_lookup.h"
#include "daemon/rpc/services/capture_watch.h"
#include "daemon/rpc/services/download.h"
#include "daemon/rpc/services/group_calls.h"
#include "daemon/rpc/services/import_capture.h"
#include "daemon/rpc/services/services.h"
#include "profd/v1/captures.grpc.pb.h"

namespace profd::rpc {
namespace {

class CaptureService final : public RpcService {
 public:
  explicit CaptureService(const ServiceParts& parts) : parts_(parts), groups_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    using Async = v1::CaptureService::AsyncService;
    Unary<v1::CreateCaptureRequest, v1::Capture>(&Async::RequestCreateCapture, Verb::kCapture,
                                                 &CaptureService::Create);
    Unary<v1::GetCaptureRequest, v1::Capture>(&Async::RequestGetCapture, Verb::kList,
                                              &CaptureService::Get);
    Unary<v1::ListCapturesRequest, v1::ListCapturesResponse>(&Async::RequestListCaptures,
                                                             Verb::kList, &CaptureService::List);
    Unary<v1::CancelCaptureRequest, v1::Capture>(&Async::RequestCancelCapture, Verb::kCapture,
                                                 &CaptureService::Cancel);
    Unary<v1::DeleteCaptureRequest, v1::Capture>(&Async::RequestDeleteCapture, Verb::kDelete,
                                                 &CaptureService::Delete);
    Unary<v1::SetCapturePinnedRequest, v1::Capture>(&Async::RequestSetCapturePinned, Verb::kDelete,
                                                    &CaptureService::SetPinned);
    Unary<v1::PurgeCapturesRequest, v1::PurgeCapturesResponse>(
        &Async::RequestPurgeCaptures, Verb::kDelete, &CaptureService::Purge);
    ServeStream(parts_.admission, service_, &Async::RequestWatchCapture, Verb::kList,
                [this](const CallInfo& info, const v1::WatchCaptureRequest& request,
                       ServerStream<v1::Capture>& stream) {
                  return std::make_unique<CaptureWatch>(parts_, info, request.name(), stream);
                });
    ServeStream(parts_.admission, service_, &Async::RequestDownloadCapture, Verb::kRead,
                [this](const CallInfo& info, const v1::DownloadCaptureRequest& request,
                       ServerStream<v1::DownloadCaptureResponse>& stream) {
                  return std::make_unique<Download>(parts_, info, request, stream);
                });
    ServeUpload<v1::CaptureService::AsyncService, Async, v1::ImportCaptureRequest, v1::Capture>(
        parts_.admission, service_, &Async::RequestImportCapture, Verb::kCapture,
        parts_.options.stalled_sender_timeout,
        [this](const CallInfo& info) { return std::make_unique<ImportCapture>(parts_, info); });
    ServeGroups();
  }

 private:
  void ServeGroups() {
    using Async = v1::CaptureService::AsyncService;
    OfGroup<v1::CreateCaptureGroupRequest, v1::CaptureGroup>(&Async::RequestCreateCaptureGroup,
                                                             Verb::kCapture, &GroupCalls::Create);
    ServeStream(parts_.admission, service_, &Async::RequestPrepareGroup, Verb::kCapture,
                [this](const CallInfo& info, const v1::PrepareGroupRequest& request,
                       ServerStream<v1::GroupPreparation>& stream) {
                  return std::make_unique<GroupPrepare>(parts_, info, request, stream);
                });
    OfGroup<v1::CommitGroupRequest, v1::CommitGroupResponse>(&Async::RequestCommitGroup,
                                                             Verb::kCapture, &GroupCalls::Commit);
    OfGroup<v1::AbortGroupRequest, v1::CaptureGroup>(&Async::RequestAbortGroup, Verb::kCapture,
                                                     &GroupCalls::Abort);
    OfGroup<v1::CloseGroupRequest, v1::CaptureGroup>(&Async::RequestCloseGroup, Verb::kCapture,
                                                     &GroupCalls::Close);
    OfGroup<v1::GetCaptureGroupRequest, v1::CaptureGroup>(&Async::RequestGetCaptureGroup,
                                                          Verb::kList, &GroupCalls::Get);
  }

  template <typename Request, typename Response, typename Requester>
  void OfGroup(Requester requester, Verb verb,
               absl::Status (GroupCalls::*handle)(const CallInfo&, const Request&, Response&)) {
    ServeUnary(parts_.admission, parts_.admission.work(), service_, requester, verb,
               [this, handle](const CallInfo& info, const Request& request, Response& response) {
                 return (groups_.*handle)(info, request, response);
               });
  }

  template <typename Request, typename Response, typename Requester>
  void Unary(Requester requester, Verb verb,
             absl::Status (CaptureService::*handle)(const CallInfo&, const Request&, Response&)) {
    ServeUnary(parts_.admission, parts_.admission.work(), service_, requester, verb,
               [this, handle](const CallInfo& info, const Request& request, Response& response) {
                 return (this->*handle)(info, request, response);
               });
  }

  void ToProto(const CallInfo& info, const CaptureRecord& record, v1::Capture& out) {
    CaptureToProto(record, out);
    EvictedToProto(parts_.store, info.principal, record.id, out);
  }

  absl::Status Create(const CallInfo& info, const v1::CreateCaptureRequest& request,
                      v1::Capture& response) {
    ASSIGN_OR_RETURN(const CaptureRecord record, DoCreate(info, request));
    ToProto(info, record, response);
    return absl::OkStatus();
  }

  absl::StatusOr<CaptureRecord> DoCreate(const CallInfo& info,
                                         const v1::CreateCaptureRequest& request) {
    ASSIGN_OR_RETURN(const TargetNumber target, ParseTargetName(request.target()));
    ASSIGN_OR_RETURN(const CaptureSpec spec, SpecFromProto(request.spec()));
    RETURN_IF_ERROR(CheckRequestId(request.request_id()));
    return parts_.manager.Create(info.caller, target, spec, request.request_id());
  }

  absl::Status Get(const CallInfo& info, const v1::GetCaptureRequest& request,
                   v1::Capture& response) {
    ASSIGN_OR_RETURN(const CaptureRecord record,
                     FindCapture(parts_.manager, parts_.store, info.caller, request.name()));
    CompleteCaptureToProto(parts_.store, info.principal, record, response);
    return absl::OkStatus();
  }

  absl::Status List(const CallInfo& info, const v1::ListCapturesRequest& request,
                    v1::ListCapturesResponse& response) {
    CaptureList list(parts_.manager, parts_.store, info.caller);
    ASSIGN_OR_RETURN(const CaptureList::Page page, list.GetPage(request));
    ASSIGN_OR_RETURN(const std::set<std::string> pinned, parts_.store.ListPinned());
    for (const CaptureRecord& record : page.captures) {
      v1::Capture& capture = *response.add_captures();
      CaptureToProto(record, capture);
      capture.clear_quality_checks();  // Of one capture, as its steps are.
      capture.set_pinned(pinned.contains(record.id));
      EvictedToProto(parts_.store, info.principal, record.id, capture);
    }
    response.set_next_page_token(page.next_page_token);
    return absl::OkStatus();
  }

  absl::Status Cancel(const CallInfo& info, const v1::CancelCaptureRequest& request,
                      v1::Capture& response) {
    // Not by FindCapture(): nothing may wait for the disk before the target is stopped.
    ASSIGN_OR_RETURN(const std::string id,
                     FindCaptureId(parts_.store, info.caller, request.name()));
    ASSIGN_OR_RETURN(const CaptureRecord record, parts_.manager.Cancel(info.caller, id));
    ToProto(info, record, response);
    return absl::OkStatus();
  }

  absl::Status Delete(const CallInfo& info, const v1::DeleteCaptureRequest& request,
                      v1::Capture& response) {
    ASSIGN_OR_RETURN(const CaptureRecord found,
                     FindCapture(parts_.manager, parts_.store, info.caller, request.name()));
    ASSIGN_OR_RETURN(const CaptureRecord record, parts_.manager.Delete(info.caller, found.id));
    ToProto(info, record, response);
    return absl::OkStatus();
  }

  absl::Status SetPinned(const CallInfo& info, const v1::SetCapturePinnedRequest& request,
                         v1::Capture& response) {
    ASSIGN_OR_RETURN(const CaptureRecord record,
                     FindCapture(parts_.manager, parts_.store, info.caller, request.name()));
    if (!info.caller.May(Verb::kDelete, OwnerOf(record))) {
      return NotAllowed(info.caller, Verb::kDelete, StrCat("capture ", record.id));
    }
    RETURN_IF_ERROR(parts_.store.SetPinned(record.id, request.pinned()));
    LogInfo(StrCat("capture=", record.id, request.pinned() ? " pinned" : " unpinned", " by ",
                   info.principal));
    ToProto(info, record, response);
    response.set_pinned(request.pinned());
    return absl::OkStatus();
  }

  absl::Status Purge(const CallInfo& info, const v1::PurgeCapturesRequest& request,
                     v1::PurgeCapturesResponse& response) {
    if (!request.has_older_than()) return absl::InvalidArgumentError("older_than: missing");
    ASSIGN_OR_RETURN(const absl::Duration age,
                     DurationFromProto(request.older_than(), "older_than"));
    if (age < absl::ZeroDuration()) {
      return absl::InvalidArgumentError("older_than: must be at least 0s");
    }
    ASSIGN_OR_RETURN(const store::PurgeResult result,
                     parts_.store.PurgeCaptures(parts_.clock.Now() - age, request.dry_run(),
                                                [&info](const CaptureRecord& record) {
                                                  return info.caller.May(Verb::kDelete,
                                                                         OwnerOf(record));
                                                }));
    response.set_capture_count(result.capture_count);
    response.set_file_bytes(result.file_bytes);
    response.set_resource(StrCat(result.capture_count, " captures older than ",
                                 absl::FormatDuration(age),
                                 request.dry_run() ? " (counted only)" : ""));
    if (!request.dry_run()) {
      LogInfo(StrCat(response.resource(), " purged by ", info.principal));
    }
    return absl::OkStatus();
  }

  const ServiceParts parts_;
  GroupCalls groups_;
  v1::CaptureService::AsyncService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewCaptureService(const ServiceParts& parts) {
  return std::make_unique<CaptureService>(parts);
}

}  // namespace profd::rpc
