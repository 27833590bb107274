#include "daemon/rpc/convert/schedule.h"

#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"

namespace profd::rpc {
namespace {

absl::StatusOr<SampleUnit> UnitFromProto(v1::Sample::Unit unit) {
  if (v1::Sample::Unit_IsValid(unit)) return static_cast<SampleUnit>(unit);
  return absl::InvalidArgumentError(
      StrCat("sample.unit: ", static_cast<int>(unit), " is not known to this profd"));
}

TargetSelector SelectorFromProto(const v1::TargetSelector& selector) {
  TargetSelector out{.job = selector.job(),
                     .ranks = {selector.ranks().begin(), selector.ranks().end()},
                     .command = selector.command(),
                     .metadata = {selector.metadata().begin(), selector.metadata().end()},
                     .pod_namespace = selector.pod_namespace()};
  if (selector.has_uid()) out.uid = selector.uid();
  return out;
}

void SelectorToProto(const TargetSelector& selector, v1::TargetSelector& out) {
  out.set_job(selector.job);
  out.mutable_ranks()->Add(selector.ranks.begin(), selector.ranks.end());
  out.set_command(selector.command);
  for (const auto& [key, value] : selector.metadata) (*out.mutable_metadata())[key] = value;
  out.set_pod_namespace(selector.pod_namespace);
  if (selector.uid.has_value()) out.set_uid(*selector.uid);
}

}  // namespace

absl::StatusOr<ScheduleSpec> ScheduleSpecFromProto(const v1::ScheduleSpec& spec) {
  ScheduleSpec out;
  ASSIGN_OR_RETURN(out.every, DurationFromProto(spec.every(), "every"));
  out.align = spec.align();
  out.cron = spec.cron();
  ASSIGN_OR_RETURN(out.jitter, DurationFromProto(spec.jitter(), "jitter"));
  ASSIGN_OR_RETURN(out.capture, SpecFromProto(spec.capture()));
  out.selector = SelectorFromProto(spec.selector());
  ASSIGN_OR_RETURN(out.sample.unit, UnitFromProto(spec.sample().unit()));
  out.sample.fraction = spec.sample().fraction();
  out.sample.count = spec.sample().count();
  if (spec.has_sample() && out.sample.fraction == 0 && out.sample.count == 0) {
    return absl::InvalidArgumentError("sample: needs a fraction or a count");
  }
  out.budget = {.captures_per_hour = spec.budget().captures_per_hour(),
                .bytes_per_day = spec.budget().bytes_per_day(),
                .time_share = spec.budget().time_share()};
  if (spec.has_step_grid()) out.step_grid = spec.step_grid();
  if (spec.has_step_lead()) out.step_lead = spec.step_lead();
  if (spec.governor().has_max_slowdown()) out.max_slowdown = spec.governor().max_slowdown();
  if (spec.has_end_time()) {
    ASSIGN_OR_RETURN(out.end_time, TimeFromProto(spec.end_time(), "end_time"));
  }
  out.nodes = {spec.nodes().begin(), spec.nodes().end()};
  out.display_name = spec.display_name();
  out.pin = spec.pin();
  return out;
}

void ScheduleSpecToProto(const ScheduleSpec& spec, v1::ScheduleSpec& out) {
  if (spec.every != absl::ZeroDuration()) DurationToProto(spec.every, *out.mutable_every());
  out.set_align(spec.align);
  out.set_cron(spec.cron);
  if (spec.jitter != absl::ZeroDuration()) DurationToProto(spec.jitter, *out.mutable_jitter());
  SpecToProto(spec.capture, *out.mutable_capture());
  SelectorToProto(spec.selector, *out.mutable_selector());
  if (spec.sample.fraction > 0 || spec.sample.count > 0) {
    out.mutable_sample()->set_unit(static_cast<v1::Sample::Unit>(spec.sample.unit));
    out.mutable_sample()->set_fraction(spec.sample.fraction);
    out.mutable_sample()->set_count(spec.sample.count);
  }
  out.mutable_budget()->set_captures_per_hour(spec.budget.captures_per_hour);
  out.mutable_budget()->set_bytes_per_day(spec.budget.bytes_per_day);
  out.mutable_budget()->set_time_share(spec.budget.time_share);
  out.set_step_grid(spec.step_grid);
  out.set_step_lead(spec.step_lead);
  out.mutable_governor()->set_max_slowdown(spec.max_slowdown);
  if (spec.end_time != absl::InfiniteFuture()) TimeToProto(spec.end_time, *out.mutable_end_time());
  for (const std::string& node : spec.nodes) out.add_nodes(node);
  out.set_display_name(spec.display_name);
  out.set_pin(spec.pin);
}

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
