// ScheduleService: standing orders for sampled captures.
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/schedule.h"
#include "daemon/rpc/convert/schedule_spec.h"
#include "daemon/rpc/server/call.h"
#include "daemon/rpc/services/services.h"
#include "daemon/schedule/schedule_runner.h"
#include "profd/v1/schedules.grpc.pb.h"

namespace profd::rpc {
namespace {

// Where a page of windows begins: before this one.
struct WindowPosition {
  absl::Time time = absl::InfiniteFuture();
  int64_t pid = 0;
};

absl::StatusOr<WindowPosition> ParsePosition(std::string_view text) {
  if (text.empty()) return WindowPosition();
  int64_t unix_ns = 0;
  int64_t pid = 0;
  const char* const end = text.data() + text.size();
  const auto [time_end, time_error] = std::from_chars(text.data(), end, unix_ns);
  if (time_error == std::errc() && time_end != end && *time_end == '.') {
    const auto [pid_end, pid_error] = std::from_chars(time_end + 1, end, pid);
    if (pid_error == std::errc() && pid_end == end) {
      return WindowPosition{.time = absl::FromUnixNanos(unix_ns), .pid = pid};
    }
  }
  return absl::InvalidArgumentError("page_token is not of a page of windows; start without it");
}

class ScheduleService final : public RpcService {
 public:
  explicit ScheduleService(const ServiceParts& parts) : parts_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    using Async = v1::ScheduleService::AsyncService;
    Unary<v1::CreateScheduleRequest, v1::Schedule>(&Async::RequestCreateSchedule, Verb::kSchedule,
                                                   &ScheduleService::Create);
    Unary<v1::ApplyScheduleRequest, v1::ApplyScheduleResponse>(
        &Async::RequestApplySchedule, Verb::kSchedule, &ScheduleService::Apply);
    Unary<v1::GetScheduleRequest, v1::Schedule>(&Async::RequestGetSchedule, Verb::kList,
                                                &ScheduleService::Get);
    Unary<v1::ListSchedulesRequest, v1::ListSchedulesResponse>(&Async::RequestListSchedules,
                                                               Verb::kList, &ScheduleService::List);
    Unary<v1::PauseScheduleRequest, v1::Schedule>(&Async::RequestPauseSchedule, Verb::kSchedule,
                                                  &ScheduleService::Pause);
    Unary<v1::ResumeScheduleRequest, v1::Schedule>(&Async::RequestResumeSchedule, Verb::kSchedule,
                                                   &ScheduleService::Resume);
    Unary<v1::DeleteScheduleRequest, v1::Schedule>(&Async::RequestDeleteSchedule, Verb::kSchedule,
                                                   &ScheduleService::Delete);
    Unary<v1::ListScheduleWindowsRequest, v1::ListScheduleWindowsResponse>(
        &Async::RequestListScheduleWindows, Verb::kList, &ScheduleService::ListWindows);
  }

 private:
  template <typename Request, typename Response, typename Requester>
  void Unary(Requester requester, Verb verb,
             absl::Status (ScheduleService::*handle)(const CallInfo&, const Request&, Response&)) {
    ServeUnary(parts_.admission, parts_.admission.work(), service_, requester, verb,
               [this, handle](const CallInfo& info, const Request& request, Response& response) {
                 return (this->*handle)(info, request, response);
               });
  }

  absl::Status Answer(const absl::StatusOr<ScheduleView>& view, v1::Schedule& response) {
    RETURN_IF_ERROR(view.status());
    ScheduleToProto(*view, parts_.options.node_name, response);
    return absl::OkStatus();
  }

  absl::Status Create(const CallInfo& info, const v1::CreateScheduleRequest& request,
                      v1::Schedule& response) {
    std::string id;
    if (!request.name().empty()) {
      ASSIGN_OR_RETURN(id, ParseScheduleName(request.name()));
    }
    ASSIGN_OR_RETURN(const ScheduleSpec spec, ScheduleSpecFromProto(request.spec()));
    return Answer(parts_.schedules.Create(info.caller, spec, id), response);
  }

  absl::Status Apply(const CallInfo& info, const v1::ApplyScheduleRequest& request,
                     v1::ApplyScheduleResponse& response) {
    ASSIGN_OR_RETURN(const ScheduleDeclaration declaration,
                     DeclarationFromProto(request.declaration()));
    ASSIGN_OR_RETURN(const AppliedDeclaration applied,
                     parts_.schedules.Apply(info.caller, declaration, request.validate_only()));
    ScheduleToProto(applied.view, parts_.options.node_name, *response.mutable_schedule());
    response.set_change(ChangeToProto(applied.change));
    return absl::OkStatus();
  }

  absl::Status Get(const CallInfo& info, const v1::GetScheduleRequest& request,
                   v1::Schedule& response) {
    ASSIGN_OR_RETURN(const std::string id, ParseScheduleName(request.name()));
    return Answer(parts_.schedules.Get(info.caller, id), response);
  }

  absl::Status List(const CallInfo& info, const v1::ListSchedulesRequest& request,
                    v1::ListSchedulesResponse& response) {
    ASSIGN_OR_RETURN(const int32_t page_size, CheckPageSize(request.page_size()));
    const std::string filter = StrCat("schedules", request.include_deleted() ? 1 : 0);
    ASSIGN_OR_RETURN(const std::string after, ParsePageToken(request.page_token(), filter));
    ASSIGN_OR_RETURN(
        std::vector<ScheduleView> views,
        parts_.schedules.List(info.caller, request.include_deleted(), page_size + 1, after));
    if (std::ssize(views) > page_size) {
      views.pop_back();
      response.set_next_page_token(MakePageToken(views.back().record.id, filter));
    }
    for (const ScheduleView& view : views) {
      ScheduleToProto(view, parts_.options.node_name, *response.add_schedules());
    }
    return absl::OkStatus();
  }

  absl::Status Pause(const CallInfo& info, const v1::PauseScheduleRequest& request,
                     v1::Schedule& response) {
    return SetPaused(info, request.name(), true, response);
  }

  absl::Status Resume(const CallInfo& info, const v1::ResumeScheduleRequest& request,
                      v1::Schedule& response) {
    return SetPaused(info, request.name(), false, response);
  }

  absl::Status SetPaused(const CallInfo& info, const std::string& name, bool paused,
                         v1::Schedule& response) {
    ASSIGN_OR_RETURN(const std::string id, ParseScheduleName(name));
    return Answer(parts_.schedules.SetPaused(info.caller, id, paused), response);
  }

  absl::Status Delete(const CallInfo& info, const v1::DeleteScheduleRequest& request,
                      v1::Schedule& response) {
    ASSIGN_OR_RETURN(const std::string id, ParseScheduleName(request.name()));
    return Answer(parts_.schedules.Delete(info.caller, id), response);
  }

  absl::Status ListWindows(const CallInfo& info, const v1::ListScheduleWindowsRequest& request,
                           v1::ListScheduleWindowsResponse& response) {
    ASSIGN_OR_RETURN(const std::string id, ParseScheduleName(request.name()));
    ASSIGN_OR_RETURN(const int32_t page_size, CheckPageSize(request.page_size()));
    const std::string filter = StrCat("windows", id);
    ASSIGN_OR_RETURN(const std::string token, ParsePageToken(request.page_token(), filter));
    ASSIGN_OR_RETURN(const WindowPosition before, ParsePosition(token));
    ASSIGN_OR_RETURN(
        const std::vector<ScheduleWindow> windows,
        parts_.schedules.ListWindows(info.caller, id, page_size, before.time, before.pid));
    for (const ScheduleWindow& window : windows) {
      WindowToProto(window, parts_.options.node_name, *response.add_windows());
    }
    // A full page may have been the last: then the next one is empty.
    if (std::ssize(windows) == page_size) {
      const ScheduleWindow& last = windows.back();
      response.set_next_page_token(
          MakePageToken(StrCat(absl::ToUnixNanos(last.time), ".", last.pid), filter));
    }
    return absl::OkStatus();
  }

  const ServiceParts parts_;
  v1::ScheduleService::AsyncService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewScheduleService(const ServiceParts& parts) {
  return std::make_unique<ScheduleService>(parts);
}

}  // namespace profd::rpc
