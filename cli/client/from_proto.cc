#include "cli/client/from_proto.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "cli/base/flags.h"
#include "cli/client/resource_names.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/convert/message_fields.h"
#include "daemon/rpc/convert/proto_time.h"

namespace profd::cli {
namespace {

void CopyQuality(const v1::Capture& message, CaptureRecord& record) {
  if (!message.quality_stored()) return;
  record.graded.grade = message.quality();
  for (const v1::QualityCheck& row : message.quality_checks()) {
    QualityCheck& check = record.graded.checks.emplace_back();
    check.grade = 'D';  // Unless it says another.
    rpc::FieldsFromMessage(row, check);
  }
}

TargetState StateOf(v1::Target::State state) {
  switch (state) {
    case v1::Target::CAPTURING:
      return TargetState::kCapturing;
    case v1::Target::STOPPED:
      return TargetState::kStopped;
    default:
      return TargetState::kRunning;
  }
}

}  // namespace

TargetInfo FromProto(const v1::Target& message) {
  TargetInfo target;
  rpc::FieldsFromMessage(message, target);
  const std::string_view number = WithoutPrefix(message.name(), kTargetsPrefix);
  if (const auto parsed = ParseInt(number); parsed.ok()) target.number = *parsed;
  target.registered_time = rpc::TimeOf(message.register_time());
  target.state = StateOf(message.state());
  if (message.step_mark_count() == 0) target.current_step = -1;
  if (message.has_since_last_step_ns()) target.since_last_step_ns = message.since_last_step_ns();
  if (message.median_step_ns() > 0) target.median_step_ns = message.median_step_ns();
  return target;
}

CaptureView FromProto(const v1::Capture& message) {
  CaptureView view;
  CaptureRecord& record = view.record;
  record.create_time = absl::UnixEpoch();
  record.armed_time = absl::InfinitePast();
  record.end_time = absl::InfiniteFuture();
  rpc::FieldsFromMessage(message, record);
  record.id = WithoutPrefix(message.name(), kCapturesPrefix);
  record.group_id = WithoutPrefix(message.group(), kGroupsPrefix);
  record.schedule_id = WithoutPrefix(message.schedule(), kSchedulesPrefix);
  record.spec = rpc::SpecOf(message.spec());
  record.target = FromProto(message.target());
  // Also one of a newer daemon.
  record.state = static_cast<CaptureState>(message.state());
  CopyQuality(message, record);
  for (const v1::Step& step : message.steps()) {
    view.steps.push_back({step.index(), step.window(), step.start_ns(), step.duration_ns()});
  }

  view.state = v1::Capture::State_Name(message.state());
  if (view.state.empty()) view.state = StrCat("STATE_", static_cast<int>(message.state()));
  view.ended_by = message.ended_by();
  view.pinned = message.pinned();
  view.quality = message.quality().empty() ? "-" : message.quality();
  view.dropped_event_count = message.dropped_event_count();
  view.evicted_ids.reserve(static_cast<size_t>(message.evicted_captures_size()));
  for (const std::string& name : message.evicted_captures()) {
    view.evicted_ids.emplace_back(WithoutPrefix(name, kCapturesPrefix));
  }
  view.evicted_count = message.evicted_count();
  view.dropped_by_reason = {message.dropped_by_reason().begin(), message.dropped_by_reason().end()};
  return view;
}

NodeInfo FromProto(const v1::Node& message) {
  NodeInfo node;
  node.name = message.name();
  node.version = message.version();
  node.api_version = message.api_version();
  node.start_unix_ns = absl::ToUnixNanos(rpc::TimeOf(message.start_time()));
  node.uptime_ns = absl::ToInt64Nanoseconds(rpc::DurationOf(message.uptime()));
  node.pid = message.pid();
  node.uid = message.uid();
  node.clock_unix_ns = message.clock().unix_ns();
  node.clock_monotonic_ns = message.clock().monotonic_ns();
  node.event_clock = message.clock().event_clock();
  node.captures_allowed = message.captures_allowed();
  node.captures_forbidden_reason = message.captures_forbidden_reason();
  node.caller = message.caller();
  node.ticks_per_second = message.clock().ticks_per_second();
  // A daemon that does not know the field says nothing of it: 0 is not what a clock is off.
  node.clock_error_ns = message.clock().error_ns() > 0 ? message.clock().error_ns() : -1;
  node.policy_stale = message.policy_stale();
  node.policy_error = message.policy_error();
  node.data_dir = message.storage().data_dir();
  node.capture_count = message.storage().capture_count();
  node.capture_bytes = message.storage().capture_bytes();
  node.catalog_bytes = message.storage().catalog_bytes();
  node.max_bytes = message.storage().max_bytes();
  node.free_bytes = message.storage().free_bytes();
  node.evicted_count = message.storage().evicted_count();
  node.pinned_bytes = message.storage().pinned_bytes();
  node.storage_is_outdated = message.storage().is_outdated();
  node.target_count = message.target_count();
  node.live_capture_count = message.live_capture_count();
  node.capture_memory_bytes = message.capture_memory_bytes();
  node.max_capture_memory_bytes = message.max_capture_memory_bytes();
  node.unknown_frame_count = message.unknown_frame_count();
  node.refused_target_count = message.refused_target_count();
  node.resident_bytes = message.resident_bytes();
  return node;
}

v1::ListCapturesRequest::Filter ToProto(const CaptureFilter& filter) {
  v1::ListCapturesRequest::Filter message;
  for (const CaptureState state : filter.states)
    message.add_states(static_cast<v1::Capture::State>(state));
  message.set_pid(filter.pid);
  message.mutable_labels()->insert(filter.labels.begin(), filter.labels.end());
  message.set_display_name(filter.display_name);
  if (filter.since != absl::InfinitePast()) {
    rpc::TimeToProto(filter.since, *message.mutable_since());
  }
  if (filter.until != absl::InfiniteFuture()) {
    rpc::TimeToProto(filter.until, *message.mutable_until());
  }
  if (!filter.group.empty()) message.set_group(GroupName(filter.group));
  if (!filter.schedule.empty()) message.set_schedule(ScheduleName(filter.schedule));
  message.set_job(filter.job);
  message.set_requested_by(filter.requested_by);
  message.set_include_deleted(filter.include_deleted);
  return message;
}

v1::ExportTraceRequest::Format ToProto(exporter::TraceFormat format) {
  switch (format) {
    case exporter::TraceFormat::kChrome:
      return v1::ExportTraceRequest::CHROME;
    case exporter::TraceFormat::kChromeGz:
      return v1::ExportTraceRequest::CHROME_GZ;
    case exporter::TraceFormat::kPerfetto:
      return v1::ExportTraceRequest::PERFETTO;
    case exporter::TraceFormat::kFolded:
    case exporter::TraceFormat::kFoldedDevice:
    case exporter::TraceFormat::kSpeedscope:
    case exporter::TraceFormat::kCsv:
    case exporter::TraceFormat::kHtml:
      break;  // Made here.
  }
  return v1::ExportTraceRequest::FORMAT_UNSPECIFIED;
}

}  // namespace profd::cli
