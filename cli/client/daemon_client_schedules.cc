#include <algorithm>

#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto_schedules.h"
#include "daemon/base/status_macros.h"
#include "daemon/rpc/convert/schedule_spec.h"

namespace profd::cli {

using Stub = v1::ScheduleService::Stub;

absl::StatusOr<ScheduleView> DaemonClient::CreateSchedule(const ScheduleSpec& spec,
                                                          const std::string& id) {
  v1::CreateScheduleRequest request;
  rpc::ScheduleSpecToProto(spec, *request.mutable_spec());
  if (!id.empty()) request.set_name(ScheduleName(id));
  ASSIGN_OR_RETURN(const v1::Schedule schedule,
                   impl_->Unary(*impl_->schedules_, &Stub::CreateSchedule, request, kCallDeadline));
  return FromProto(schedule);
}

absl::StatusOr<AppliedView> DaemonClient::ApplySchedule(const DeclarationView& declaration,
                                                        bool dry_run) {
  v1::ApplyScheduleRequest request;
  if (!request.mutable_declaration()->ParseFromString(declaration.message)) {
    return absl::InternalError("a declaration does not survive its serialization");
  }
  request.set_validate_only(dry_run);
  ASSIGN_OR_RETURN(const v1::ApplyScheduleResponse response,
                   impl_->Unary(*impl_->schedules_, &Stub::ApplySchedule, request, kCallDeadline));
  return FromProto(response);
}

absl::StatusOr<ScheduleView> DaemonClient::GetSchedule(const std::string& id) {
  v1::GetScheduleRequest request;
  request.set_name(ScheduleName(id));
  ASSIGN_OR_RETURN(const v1::Schedule schedule,
                   impl_->Unary(*impl_->schedules_, &Stub::GetSchedule, request, kCallDeadline));
  return FromProto(schedule);
}

absl::StatusOr<std::vector<ScheduleView>> DaemonClient::ListSchedules(bool include_deleted) {
  std::vector<ScheduleView> views;
  v1::ListSchedulesRequest request;
  request.set_include_deleted(include_deleted);
  request.set_page_size(kListPageSize);
  RETURN_IF_ERROR(impl_->ForEachRow(
      *impl_->schedules_, &Stub::ListSchedules, std::move(request), kCallDeadline, 0,
      [](const auto& response) -> const auto& { return response.schedules(); },
      [&](const v1::Schedule& schedule) -> absl::StatusOr<bool> {
        views.push_back(FromProto(schedule));
        return true;
      }));
  return views;
}

absl::StatusOr<ScheduleView> DaemonClient::SetSchedulePaused(const std::string& id, bool paused) {
  if (paused) {
    v1::PauseScheduleRequest request;
    request.set_name(ScheduleName(id));
    ASSIGN_OR_RETURN(
        const v1::Schedule schedule,
        impl_->Unary(*impl_->schedules_, &Stub::PauseSchedule, request, kCallDeadline));
    return FromProto(schedule);
  }
  v1::ResumeScheduleRequest request;
  request.set_name(ScheduleName(id));
  ASSIGN_OR_RETURN(const v1::Schedule schedule,
                   impl_->Unary(*impl_->schedules_, &Stub::ResumeSchedule, request, kCallDeadline));
  return FromProto(schedule);
}

absl::StatusOr<ScheduleView> DaemonClient::DeleteSchedule(const std::string& id) {
  v1::DeleteScheduleRequest request;
  request.set_name(ScheduleName(id));
  ASSIGN_OR_RETURN(const v1::Schedule schedule,
                   impl_->Unary(*impl_->schedules_, &Stub::DeleteSchedule, request, kCallDeadline));
  return FromProto(schedule);
}

absl::StatusOr<std::vector<WindowView>> DaemonClient::ListScheduleWindows(const std::string& id,
                                                                          int64_t limit,
                                                                          absl::Time since) {
  std::vector<WindowView> views;
  v1::ListScheduleWindowsRequest request;
  request.set_name(ScheduleName(id));
  request.set_page_size(Impl::PageSizeFor(limit));
  RETURN_IF_ERROR(impl_->ForEachRow(
      *impl_->schedules_, &Stub::ListScheduleWindows, std::move(request), kCallDeadline, limit,
      [](const auto& response) -> const auto& { return response.windows(); },
      [&](const v1::ScheduleWindow& window) -> absl::StatusOr<bool> {
        views.push_back(FromProto(window));
        return views.back().window.time >= since;
      }));
  return views;
}

}  // namespace profd::cli
