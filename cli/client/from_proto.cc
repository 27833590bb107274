#include "cli/client/from_proto.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "cli/base/flags.h"
#include "cli/client/proto_time.h"
#include "cli/client/resource_names.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

template <typename Map>
std::map<std::string, std::string> StringMap(const Map& from) {
  return {from.begin(), from.end()};
}

GpuSpec GpuSpecOf(const v1::GpuSpec& message) {
  GpuSpec spec;
  // A mode of a newer daemon is shown as auto.
  if (v1::GpuSpec::Mode_IsValid(message.mode())) spec.mode = static_cast<GpuMode>(message.mode());
  if (message.buffer_bytes() != 0) spec.buffer_bytes = message.buffer_bytes();
  if (message.max_records() != 0) spec.max_records = message.max_records();
  spec.detach = message.detach();
  spec.latency = message.latency();
  return spec;
}

// A daemon from before GPU captures says nothing, which is "off"; what a newer one may say is
// not known.
GpuOutcome GpuOutcomeOf(std::string_view text) {
  if (text.empty()) return GpuOutcome::kOff;
  for (const GpuOutcome outcome :
       {GpuOutcome::kOff, GpuOutcome::kNoCuda, GpuOutcome::kRecorded, GpuOutcome::kBroken}) {
    if (text == ToString(outcome)) return outcome;
  }
  return GpuOutcome::kUnknown;
}

GpuRecord GpuRecordOf(const v1::GpuInfo& message) {
  GpuRecord gpu;
  gpu.outcome = GpuOutcomeOf(message.outcome());
  gpu.mode = GpuModeFromString(message.mode()).value_or(GpuMode::kOff);
  gpu.problem = message.problem();
  gpu.simulated = message.simulated();
  gpu.cupti_version = message.cupti_version();
  gpu.driver_version = message.driver_version();
  gpu.arm_ns = message.arm_ns();
  gpu.clock_error_ns = message.clock_error_ns();
  gpu.clock_step_count = message.clock_step_count();
  gpu.peak_pool_bytes = message.peak_pool_bytes();
  for (const v1::GpuDevice& device : message.devices()) {
    gpu.devices.push_back({.number = device.number(),
                           .name = device.name(),
                           .uuid = device.uuid(),
                           .memory_bytes = device.memory_bytes(),
                           .compute_major = device.compute_major(),
                           .compute_minor = device.compute_minor(),
                           .sm_count = device.sm_count()});
  }
  for (const v1::GpuKindFailure& failure : message.kind_failures()) {
    gpu.kind_failures.push_back({.kind = failure.kind(), .result = failure.result()});
  }
  gpu.record_count = message.record_count();
  gpu.stale_count = message.stale_count();
  gpu.before_window_count = message.before_window_count();
  gpu.after_window_count = message.after_window_count();
  gpu.filtered_api_count = message.filtered_api_count();
  gpu.orphan_count = message.orphan_count();
  gpu.straddling_count = message.straddling_count();
  gpu.unfinished_count = message.unfinished_count();
  return gpu;
}

TorchSpec TorchSpecOf(const v1::TorchSpec& message) {
  TorchSpec spec;
  // A mode to come is shown as the default.
  if (v1::TorchSpec::Operators_IsValid(message.operators())) {
    spec.operators = static_cast<OperatorMode>(message.operators());
  }
  spec.strides = message.strides();
  spec.memory = message.memory();
  spec.stacks = message.stacks();
  spec.modules = message.modules();
  spec.step_source = StepSourceFromString(message.step_source()).value_or(StepSource::kNone);
  return spec;
}

TorchOutcome TorchOutcomeOf(std::string_view text) {
  for (const TorchOutcome outcome : {TorchOutcome::kOff, TorchOutcome::kNoTorch,
                                     TorchOutcome::kRecorded, TorchOutcome::kLimited}) {
    if (ToString(outcome) == text) return outcome;
  }
  // A daemon without PyTorch captures says nothing at all.
  return text.empty() ? TorchOutcome::kOff : TorchOutcome::kUnknown;
}

TorchRecord TorchRecordOf(const v1::TorchInfo& message) {
  TorchRecord torch;
  torch.outcome = TorchOutcomeOf(message.outcome());
  torch.operators = OperatorModeFromString(message.operators()).value_or(OperatorMode::kOff);
  torch.memory = message.memory();
  torch.version = message.version();
  for (const v1::TorchMissing& missing : message.missing()) {
    torch.missing.push_back({.feature = missing.feature(), .reason = missing.reason()});
  }
  torch.step_source = StepSourceFromString(message.step_source()).value_or(StepSource::kNone);
  torch.operator_count = message.operator_count();
  torch.tensor_use_count = message.tensor_use_count();
  torch.note_count = message.note_count();
  torch.block_count = message.block_count();
  torch.folded_count = message.folded_count();
  torch.cut_input_count = message.cut_input_count();
  torch.odd_tensor_count = message.odd_tensor_count();
  torch.lost_note_count = message.lost_note_count();
  torch.missed_memory_count = message.missed_memory_count();
  torch.stack_count = message.stack_count();
  torch.missing_stack_count = message.missing_stack_count();
  return torch;
}

}  // namespace

CaptureSpec FromProto(const v1::CaptureSpec& message) {
  CaptureSpec spec;
  spec.steps = message.steps();
  if (message.has_warmup_steps()) spec.warmup_steps = message.warmup_steps();
  spec.wait_steps = message.wait_steps();
  spec.repeat = std::max<int64_t>(1, message.repeat());
  if (message.has_start_step()) spec.start_step = message.start_step();
  spec.duration = DurationOf(message.duration());
  spec.timeout = DurationOf(message.timeout());
  spec.memory_bytes = message.memory_bytes();
  spec.allow_less_memory = message.allow_less_memory();
  spec.max_bytes = message.max_bytes();
  spec.gpu = GpuSpecOf(message.gpu());
  spec.torch = TorchSpecOf(message.torch());
  spec.step_marker = message.step_marker();
  spec.display_name = message.display_name();
  spec.labels = StringMap(message.labels());
  return spec;
}

namespace {

void CopyProgress(const v1::Capture& message, CaptureRecord& record) {
  record.armed_time =
      message.has_armed_time() ? TimeOf(message.armed_time()) : absl::InfinitePast();
  record.end_time = message.has_end_time() ? TimeOf(message.end_time()) : absl::InfiniteFuture();
  record.create_time = TimeOf(message.create_time());
  record.start_unix_ns = message.start_unix_ns();
  record.covered_ns = message.covered_ns();
  record.covered_steps = message.covered_steps();
  for (const v1::Window& window : message.windows()) {
    record.windows.push_back(
        {window.start_ns(), window.end_ns(), window.first_step(), window.end_step()});
  }
  record.current_window = message.current_window();
  record.current_step = message.current_step();
}

void CopyCounts(const v1::Capture& message, CaptureRecord& record) {
  record.event_count = message.event_count();
  record.warmup_event_count = message.warmup_event_count();
  record.open_range_count = message.open_range_count();
  record.truncated_range_count = message.truncated_range_count();
  record.other_name_event_count = message.other_name_event_count();
  record.foreign_step_mark_count = message.foreign_step_mark_count();
  record.clock_error_ns = message.clock_error_ns();
  record.step_before_ns = message.step_before_ns();
  record.step_during_ns = message.step_during_ns();
  record.step_after_ns = message.step_after_ns();
  record.file_bytes = message.file_bytes();
  record.file_sha256 = message.file_sha256();
  record.deleted = message.deleted();
}

v1::Capture::State StateToProto(CaptureState state) {
  return static_cast<v1::Capture::State>(state);
}

// The numbers are the same on purpose; these hold them together.
static_assert(static_cast<int>(CaptureState::kPending) == v1::Capture::PENDING);
static_assert(static_cast<int>(CaptureState::kArming) == v1::Capture::ARMING);
static_assert(static_cast<int>(CaptureState::kWaitingStep) == v1::Capture::WAITING_STEP);
static_assert(static_cast<int>(CaptureState::kWarmup) == v1::Capture::WARMUP);
static_assert(static_cast<int>(CaptureState::kRecording) == v1::Capture::RECORDING);
static_assert(static_cast<int>(CaptureState::kDraining) == v1::Capture::DRAINING);
static_assert(static_cast<int>(CaptureState::kStoring) == v1::Capture::STORING);
static_assert(static_cast<int>(CaptureState::kComplete) == v1::Capture::COMPLETE);
static_assert(static_cast<int>(CaptureState::kPartial) == v1::Capture::PARTIAL);
static_assert(static_cast<int>(CaptureState::kFailed) == v1::Capture::FAILED);
static_assert(static_cast<int>(CaptureState::kCancelled) == v1::Capture::CANCELLED);

}  // namespace

namespace {

void CopyQuality(const v1::Capture& message, CaptureRecord& record) {
  const v1::Slowdown& slowdown = message.slowdown();
  record.slowdown = {.known = slowdown.known(),
                     .unknown_reason = slowdown.unknown_reason(),
                     .estimate = slowdown.estimate(),
                     .low = slowdown.low(),
                     .high = slowdown.high(),
                     .before_step_count = slowdown.before_step_count(),
                     .during_step_count = slowdown.during_step_count(),
                     .after_step_count = slowdown.after_step_count(),
                     .cupti_stays = slowdown.cupti_stays(),
                     .remains_known = slowdown.remains_known(),
                     .remains = slowdown.remains(),
                     .remains_low = slowdown.remains_low(),
                     .remains_high = slowdown.remains_high()};
  if (!message.quality_stored()) return;
  record.graded.grade = message.quality();
  for (const v1::QualityCheck& check : message.quality_checks()) {
    record.graded.checks.push_back({.name = check.name(),
                                    .grade = check.grade().empty() ? 'D' : check.grade()[0],
                                    .known = check.known(),
                                    .is_share = check.is_share(),
                                    .value = check.value(),
                                    .bound = check.bound(),
                                    .sentence = check.sentence()});
  }
}

}  // namespace

namespace {

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
  const std::string_view number = WithoutPrefix(message.name(), kTargetsPrefix);
  if (const auto parsed = ParseInt(number); parsed.ok()) target.number = *parsed;
  target.pid = message.pid();
  target.process_start_ticks = message.process_start_ticks();
  target.uid = message.uid();
  target.gid = message.gid();
  target.parent_pid = message.parent_pid();
  target.namespace_pid = message.namespace_pid();
  target.foreign_namespace = message.foreign_namespace();
  target.command = message.command();
  target.cgroup = message.cgroup();
  target.metadata = StringMap(message.metadata());
  target.library_version = message.library_version();
  target.protocol_version = message.protocol_version();
  target.registered_time = TimeOf(message.register_time());
  target.state = StateOf(message.state());
  target.step_mark_count = message.step_mark_count();
  target.current_step = message.step_mark_count() == 0 ? -1 : message.current_step();
  target.steps_per_second = message.steps_per_second();
  target.dropped_event_count = message.dropped_event_count();
  target.foreign_step_mark_count = message.foreign_step_mark_count();
  target.step_source = StepSourceFromString(message.step_source()).value_or(StepSource::kNone);
  target.batch_count = message.batch_count();
  if (message.has_since_last_step_ns()) target.since_last_step_ns = message.since_last_step_ns();
  if (message.median_step_ns() > 0) target.median_step_ns = message.median_step_ns();
  const v1::Workload& workload = message.workload();
  target.workload = {.slurm_job = workload.slurm_job(),
                     .pod_uid = workload.pod_uid(),
                     .pod_namespace = workload.pod_namespace(),
                     .pod_name = workload.pod_name(),
                     .container_id = workload.container_id()};
  target.opted_out = message.opted_out();
  return target;
}

CaptureView FromProto(const v1::Capture& message) {
  CaptureView view;
  CaptureRecord& record = view.record;
  record.id = WithoutPrefix(message.name(), kCapturesPrefix);
  record.group_id = WithoutPrefix(message.group(), kGroupsPrefix);
  record.request_id = message.request_id();
  record.spec = FromProto(message.spec());
  record.requested_by_uid = message.requested_by_uid();
  record.requested_by = message.requested_by();
  record.schedule_id = WithoutPrefix(message.schedule(), kSchedulesPrefix);
  record.schedule_window_unix_ns = message.schedule_window_unix_ns();
  record.sampling_weight = message.sampling_weight();
  record.target = FromProto(message.target());
  record.node = message.node();
  record.state = static_cast<CaptureState>(message.state());
  record.ended_by = EndedByFromString(message.ended_by()).value_or(EndedBy::kNone);
  record.error_reason = message.error_reason();
  record.error_message = message.error_message();
  CopyProgress(message, record);
  CopyCounts(message, record);
  CopyQuality(message, record);
  record.gpu = GpuRecordOf(message.gpu());
  record.torch = TorchRecordOf(message.torch());
  const v1::ImportInfo& imported = message.imported();
  record.imported = {
      .source = imported.source(),
      .producer = imported.producer(),
      .time_unit_ns = imported.time_unit_ns(),
      .not_understood = {imported.not_understood().begin(), imported.not_understood().end()}};
  record.activity = message.activity();
  for (const v1::Step& step : message.steps()) {
    view.steps.push_back({step.index(), step.window(), step.start_ns(), step.duration_ns()});
  }

  view.state = v1::Capture::State_Name(message.state());
  if (view.state.empty()) view.state = StrCat("STATE_", static_cast<int>(message.state()));
  view.ended_by = message.ended_by();
  view.pinned = message.pinned();
  view.quality = message.quality().empty() ? "-" : message.quality();
  view.dropped_event_count = message.dropped_event_count();
  view.dropped_by_reason = {message.dropped_by_reason().begin(), message.dropped_by_reason().end()};
  return view;
}

NodeInfo FromProto(const v1::Node& message) {
  NodeInfo node;
  node.name = message.name();
  node.version = message.version();
  node.api_version = message.api_version();
  node.start_unix_ns = absl::ToUnixNanos(TimeOf(message.start_time()));
  node.uptime_ns = absl::ToInt64Nanoseconds(DurationOf(message.uptime()));
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
  node.target_count = message.target_count();
  node.live_capture_count = message.live_capture_count();
  node.capture_memory_bytes = message.capture_memory_bytes();
  node.max_capture_memory_bytes = message.max_capture_memory_bytes();
  node.unknown_frame_count = message.unknown_frame_count();
  node.refused_target_count = message.refused_target_count();
  node.resident_bytes = message.resident_bytes();
  return node;
}

static_assert(static_cast<int>(GpuMode::kAuto) == v1::GpuSpec::AUTO);
static_assert(static_cast<int>(GpuMode::kOff) == v1::GpuSpec::OFF);
static_assert(static_cast<int>(GpuMode::kLight) == v1::GpuSpec::LIGHT);
static_assert(static_cast<int>(GpuMode::kDefault) == v1::GpuSpec::DEFAULT);
static_assert(static_cast<int>(GpuMode::kFull) == v1::GpuSpec::FULL);

v1::GpuSpec ToProto(const GpuSpec& spec) {
  v1::GpuSpec message;
  message.set_mode(static_cast<v1::GpuSpec::Mode>(spec.mode));
  message.set_buffer_bytes(spec.buffer_bytes);
  message.set_max_records(spec.max_records);
  message.set_detach(spec.detach);
  message.set_latency(spec.latency);
  return message;
}

v1::TorchSpec ToProto(const TorchSpec& spec) {
  v1::TorchSpec message;
  message.set_operators(static_cast<v1::TorchSpec::Operators>(spec.operators));
  message.set_strides(spec.strides);
  message.set_memory(spec.memory);
  message.set_stacks(spec.stacks);
  message.set_modules(spec.modules);
  if (spec.step_source != StepSource::kNone) {
    message.set_step_source(std::string(ToString(spec.step_source)));
  }
  return message;
}

v1::CaptureSpec ToProto(const CaptureSpec& spec) {
  v1::CaptureSpec message;
  message.set_steps(spec.steps);
  message.set_warmup_steps(spec.warmup_steps);
  message.set_wait_steps(spec.wait_steps);
  message.set_repeat(spec.repeat);
  if (spec.start_step >= 0) message.set_start_step(spec.start_step);
  if (spec.duration > absl::ZeroDuration()) {
    SetDuration(spec.duration, *message.mutable_duration());
  }
  SetDuration(spec.timeout, *message.mutable_timeout());
  message.set_memory_bytes(spec.memory_bytes);
  message.set_allow_less_memory(spec.allow_less_memory);
  message.set_max_bytes(spec.max_bytes);
  *message.mutable_gpu() = ToProto(spec.gpu);
  *message.mutable_torch() = ToProto(spec.torch);
  message.set_step_marker(spec.step_marker);
  message.set_display_name(spec.display_name);
  message.mutable_labels()->insert(spec.labels.begin(), spec.labels.end());
  return message;
}

v1::ListCapturesRequest::Filter ToProto(const CaptureFilter& filter) {
  v1::ListCapturesRequest::Filter message;
  for (const CaptureState state : filter.states) message.add_states(StateToProto(state));
  message.set_pid(filter.pid);
  message.mutable_labels()->insert(filter.labels.begin(), filter.labels.end());
  message.set_display_name(filter.display_name);
  if (filter.since != absl::InfinitePast()) {
    SetTime(filter.since, *message.mutable_since());
  }
  if (filter.until != absl::InfiniteFuture()) {
    SetTime(filter.until, *message.mutable_until());
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
