#include "daemon/rpc/convert/schedule.h"

#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/convert/schedule_spec.h"

namespace profd::rpc {
absl::StatusOr<ScheduleDeclaration> DeclarationFromProto(
    const v1::ScheduleDeclaration& declaration) {
  ScheduleDeclaration out{.version = declaration.version(), .deleted = declaration.deleted()};
  ASSIGN_OR_RETURN(out.id, ParseScheduleName(declaration.name()));
  if (out.deleted && declaration.has_spec()) {
    return absl::InvalidArgumentError("declaration.spec: must not be set for a deleted schedule");
  }
  if (!out.deleted) {
    if (!declaration.has_spec()) {
      return absl::InvalidArgumentError("declaration.spec: must be set, unless deleted is");
    }
    ASSIGN_OR_RETURN(out.spec, ScheduleSpecFromProto(declaration.spec()));
  }
  return out;
}

v1::ApplyScheduleResponse::Change ChangeToProto(DeclaredChange change) {
  switch (change) {
    case DeclaredChange::kNone:
      return v1::ApplyScheduleResponse::NONE;
    case DeclaredChange::kCreated:
      return v1::ApplyScheduleResponse::CREATED;
    case DeclaredChange::kUpdated:
      return v1::ApplyScheduleResponse::UPDATED;
    case DeclaredChange::kDeleted:
      return v1::ApplyScheduleResponse::DELETED;
  }
  return v1::ApplyScheduleResponse::CHANGE_UNSPECIFIED;
}

void ScheduleToProto(const ScheduleView& view, std::string_view node, v1::Schedule& out) {
  const ScheduleRecord& record = view.record;
  out.set_name(ScheduleName(record.id));
  ScheduleSpecToProto(record.spec, *out.mutable_spec());
  out.set_state(static_cast<v1::Schedule::State>(view.state));
  out.set_created_by(ToValidUtf8(PrincipalName(record.creator)));
  TimeToProto(record.create_time, *out.mutable_create_time());
  out.set_spec_hash(record.spec_hash);
  if (view.next_window.has_value()) TimeToProto(*view.next_window, *out.mutable_next_window_time());
  out.set_node(ToValidUtf8(node));
  out.set_window_count(view.totals.windows);
  out.set_capture_count(view.totals.captures);
  out.set_capture_bytes(view.totals.bytes);
  out.set_version(record.version);
}

void WindowToProto(const ScheduleWindow& window, std::string_view node, v1::ScheduleWindow& out) {
  TimeToProto(window.time, *out.mutable_time());
  out.set_node(ToValidUtf8(node));
  out.set_outcome(std::string(ToString(window.outcome)));
  out.set_detail(ToValidUtf8(window.detail));
  if (!window.capture_id.empty()) out.set_capture(CaptureName(window.capture_id));
  out.set_pid(window.pid);
  out.set_process_start_ticks(window.process_start_ticks);
  out.set_sampling_weight(window.sampling_weight);
  out.set_step_before_ns(window.step_before_ns);
  out.set_step_during_ns(window.step_during_ns);
  out.set_step_after_ns(window.step_after_ns);
  if (!window.group_id.empty()) out.set_group(GroupName(window.group_id));
  if (window.first_step >= 0) out.set_first_step(window.first_step);
}

}  // namespace profd::rpc
