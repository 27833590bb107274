#include "daemon/rpc/convert/convert.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/quality.h"
#include "daemon/rpc/admission/names.h"

namespace profd::rpc {
namespace {

// Of google/protobuf/timestamp.proto and duration.proto.
constexpr int64_t kMinTimestampSeconds = -62135596800;
constexpr int64_t kMaxTimestampSeconds = 253402300799;
constexpr int64_t kMaxDurationSeconds = 315576000000;
constexpr int32_t kMaxNanos = 999'999'999;

template <CaptureState kOurs, v1::Capture::State kTheirs>
constexpr bool Agree() {
  return static_cast<int>(kOurs) == static_cast<int>(kTheirs);
}
static_assert(Agree<CaptureState::kPending, v1::Capture::PENDING>());
static_assert(Agree<CaptureState::kArming, v1::Capture::ARMING>());
static_assert(Agree<CaptureState::kWaitingStep, v1::Capture::WAITING_STEP>());
static_assert(Agree<CaptureState::kWarmup, v1::Capture::WARMUP>());
static_assert(Agree<CaptureState::kRecording, v1::Capture::RECORDING>());
static_assert(Agree<CaptureState::kDraining, v1::Capture::DRAINING>());
static_assert(Agree<CaptureState::kStoring, v1::Capture::STORING>());
static_assert(Agree<CaptureState::kComplete, v1::Capture::COMPLETE>());
static_assert(Agree<CaptureState::kPartial, v1::Capture::PARTIAL>());
static_assert(Agree<CaptureState::kFailed, v1::Capture::FAILED>());
static_assert(Agree<CaptureState::kCancelled, v1::Capture::CANCELLED>());

template <GpuMode kOurs, v1::GpuSpec::Mode kTheirs>
constexpr bool AgreeOnMode() {
  return static_cast<int>(kOurs) == static_cast<int>(kTheirs);
}
static_assert(AgreeOnMode<GpuMode::kAuto, v1::GpuSpec::AUTO>());
static_assert(AgreeOnMode<GpuMode::kOff, v1::GpuSpec::OFF>());
static_assert(AgreeOnMode<GpuMode::kLight, v1::GpuSpec::LIGHT>());
static_assert(AgreeOnMode<GpuMode::kDefault, v1::GpuSpec::DEFAULT>());
static_assert(AgreeOnMode<GpuMode::kFull, v1::GpuSpec::FULL>());

template <OperatorMode kOurs, v1::TorchSpec::Operators kTheirs>
constexpr bool AgreeOnOperators() {
  return static_cast<int>(kOurs) == static_cast<int>(kTheirs);
}
static_assert(AgreeOnOperators<OperatorMode::kAuto, v1::TorchSpec::AUTO>());
static_assert(AgreeOnOperators<OperatorMode::kOff, v1::TorchSpec::OFF>());
static_assert(AgreeOnOperators<OperatorMode::kNames, v1::TorchSpec::NAMES>());
static_assert(AgreeOnOperators<OperatorMode::kShapes, v1::TorchSpec::SHAPES>());

absl::Status Wrong(std::string_view field, std::string_view why) {
  return absl::InvalidArgumentError(StrCat(field, ": ", why));
}

bool IsSet(absl::Time time) {
  return time != absl::InfinitePast() && time != absl::InfiniteFuture() && time != absl::Time();
}

void SetIfSet(absl::Time time, google::protobuf::Timestamp* (v1::Capture::*field)(),
              v1::Capture& out) {
  if (IsSet(time)) TimeToProto(time, *(out.*field)());
}

void WindowsToProto(const CaptureRecord& record, v1::Capture& out) {
  for (const WindowRecord& window : record.windows) {
    v1::Window& row = *out.add_windows();
    row.set_start_ns(window.start_ns);
    row.set_end_ns(window.end_ns);
    row.set_first_step(window.first_step);
    row.set_end_step(window.end_step);
  }
}

void CountsToProto(const CaptureRecord& record, v1::Capture& out) {
  out.set_event_count(record.event_count);
  out.set_dropped_event_count(TotalDrops(record.drops));
  for (int i = 0; i < kDropReasonCount; ++i) {
    const int64_t count = record.drops[static_cast<size_t>(i)];
    if (count == 0) continue;
    const std::string_view reason = ToString(static_cast<DropReason>(i));
    (*out.mutable_dropped_by_reason())[std::string(reason)] = count;
  }
  out.set_warmup_event_count(record.warmup_event_count);
  out.set_open_range_count(record.open_range_count);
  out.set_truncated_range_count(record.truncated_range_count);
  out.set_other_name_event_count(record.other_name_event_count);
  out.set_foreign_step_mark_count(record.foreign_step_mark_count);
  out.set_clock_error_ns(record.clock_error_ns);
  out.set_step_before_ns(record.step_before_ns);
  out.set_step_during_ns(record.step_during_ns);
  out.set_step_after_ns(record.step_after_ns);
}

void QualityToProto(const CaptureRecord& record, v1::Capture& out) {
  const Quality quality = QualityOf(record);
  out.set_quality(quality.grade);
  out.set_quality_stored(quality.stored);
  if (record.start_unix_ns == 0) return;
  for (const QualityCheck& check : quality.checks) {
    v1::QualityCheck& row = *out.add_quality_checks();
    row.set_name(ToValidUtf8(check.name));
    row.set_grade(std::string(1, check.grade));
    row.set_known(check.known);
    row.set_is_share(check.is_share);
    row.set_value(check.value);
    row.set_bound(check.bound);
    row.set_sentence(ToValidUtf8(check.sentence));
  }
  const SlowdownRecord& slowdown = record.slowdown;
  v1::Slowdown& told = *out.mutable_slowdown();
  told.set_known(slowdown.known);
  told.set_unknown_reason(ToValidUtf8(slowdown.unknown_reason));
  told.set_estimate(slowdown.estimate);
  told.set_low(slowdown.low);
  told.set_high(slowdown.high);
  told.set_before_step_count(slowdown.before_step_count);
  told.set_during_step_count(slowdown.during_step_count);
  told.set_after_step_count(slowdown.after_step_count);
  told.set_cupti_stays(slowdown.cupti_stays);
  told.set_remains_known(slowdown.remains_known);
  told.set_remains(slowdown.remains);
  told.set_remains_low(slowdown.remains_low);
  told.set_remains_high(slowdown.remains_high);
}

absl::StatusOr<GpuSpec> GpuSpecFromProto(const v1::GpuSpec& spec) {
  GpuSpec out;
  if (!v1::GpuSpec::Mode_IsValid(spec.mode())) {
    return Wrong("gpu.mode", StrCat(static_cast<int>(spec.mode()), " is not known to this profd"));
  }
  out.mode = static_cast<GpuMode>(spec.mode());
  if (spec.buffer_bytes() != 0) out.buffer_bytes = spec.buffer_bytes();
  if (spec.max_records() != 0) out.max_records = spec.max_records();
  out.detach = spec.detach();
  out.latency = spec.latency();
  return out;
}

void GpuSpecToProto(const GpuSpec& spec, v1::GpuSpec& out) {
  out.set_mode(static_cast<v1::GpuSpec::Mode>(spec.mode));
  out.set_buffer_bytes(spec.buffer_bytes);
  out.set_max_records(spec.max_records);
  out.set_detach(spec.detach);
  out.set_latency(spec.latency);
}

void GpuToProto(const GpuRecord& gpu, v1::GpuInfo& out) {
  out.set_outcome(std::string(ToString(gpu.outcome)));
  out.set_mode(std::string(ToString(gpu.mode)));
  out.set_problem(ToValidUtf8(gpu.problem));
  out.set_simulated(gpu.simulated);
  out.set_cupti_version(gpu.cupti_version);
  out.set_driver_version(gpu.driver_version);
  out.set_arm_ns(gpu.arm_ns);
  out.set_clock_error_ns(gpu.clock_error_ns);
  out.set_clock_step_count(gpu.clock_step_count);
  out.set_peak_pool_bytes(gpu.peak_pool_bytes);
  for (const GpuDevice& device : gpu.devices) {
    v1::GpuDevice& row = *out.add_devices();
    row.set_number(device.number);
    row.set_name(ToValidUtf8(device.name));
    row.set_uuid(ToValidUtf8(device.uuid));
    row.set_memory_bytes(device.memory_bytes);
    row.set_compute_major(device.compute_major);
    row.set_compute_minor(device.compute_minor);
    row.set_sm_count(device.sm_count);
  }
  for (const GpuKindFailure& failure : gpu.kind_failures) {
    v1::GpuKindFailure& row = *out.add_kind_failures();
    row.set_kind(ToValidUtf8(failure.kind));
    row.set_result(ToValidUtf8(failure.result));
  }
  out.set_record_count(gpu.record_count);
  out.set_stale_count(gpu.stale_count);
  out.set_before_window_count(gpu.before_window_count);
  out.set_after_window_count(gpu.after_window_count);
  out.set_filtered_api_count(gpu.filtered_api_count);
  out.set_orphan_count(gpu.orphan_count);
  out.set_straddling_count(gpu.straddling_count);
  out.set_unfinished_count(gpu.unfinished_count);
}

absl::StatusOr<TorchSpec> TorchSpecFromProto(const v1::TorchSpec& spec) {
  TorchSpec out;
  if (!v1::TorchSpec::Operators_IsValid(spec.operators())) {
    return Wrong("torch.operators",
                 StrCat(static_cast<int>(spec.operators()), " is not known to this profd"));
  }
  out.operators = static_cast<OperatorMode>(spec.operators());
  out.strides = spec.strides();
  out.memory = spec.memory();
  out.stacks = spec.stacks();
  out.modules = spec.modules();
  if (spec.step_source().empty()) return out;
  const auto source = StepSourceFromString(spec.step_source());
  if (!source.has_value() || *source == StepSource::kNone) {
    return Wrong("torch.step_source", StrCat("'", ForDisplay(spec.step_source(), 80),
                                             "' is none of marks, optimizer, profiler, "
                                             "dataloader, periodicity"));
  }
  out.step_source = *source;
  return out;
}

void TorchSpecToProto(const TorchSpec& spec, v1::TorchSpec& out) {
  out.set_operators(static_cast<v1::TorchSpec::Operators>(spec.operators));
  out.set_strides(spec.strides);
  out.set_memory(spec.memory);
  out.set_stacks(spec.stacks);
  out.set_modules(spec.modules);
  if (spec.step_source != StepSource::kNone) {
    out.set_step_source(std::string(ToString(spec.step_source)));
  }
}

void TorchToProto(const TorchRecord& torch, v1::TorchInfo& out) {
  out.set_outcome(std::string(ToString(torch.outcome)));
  out.set_operators(std::string(ToString(torch.operators)));
  out.set_memory(torch.memory);
  out.set_version(ToValidUtf8(torch.version));
  for (const TorchMissing& missing : torch.missing) {
    v1::TorchMissing& row = *out.add_missing();
    row.set_feature(ToValidUtf8(missing.feature));
    row.set_reason(ToValidUtf8(missing.reason));
  }
  out.set_step_source(std::string(ToString(torch.step_source)));
  out.set_operator_count(torch.operator_count);
  out.set_tensor_use_count(torch.tensor_use_count);
  out.set_note_count(torch.note_count);
  out.set_block_count(torch.block_count);
  out.set_folded_count(torch.folded_count);
  out.set_cut_input_count(torch.cut_input_count);
  out.set_odd_tensor_count(torch.odd_tensor_count);
  out.set_lost_note_count(torch.lost_note_count);
  out.set_missed_memory_count(torch.missed_memory_count);
  out.set_stack_count(torch.stack_count);
  out.set_missing_stack_count(torch.missing_stack_count);
}

void ImportToProto(const ImportRecord& imported, v1::Capture& out) {
  if (imported.source.empty()) return;
  v1::ImportInfo& info = *out.mutable_imported();
  info.set_source(ToValidUtf8(imported.source));
  info.set_producer(ToValidUtf8(imported.producer));
  info.set_time_unit_ns(imported.time_unit_ns);
  for (const auto& [kind, count] : imported.not_understood) {
    (*info.mutable_not_understood())[ToValidUtf8(kind)] = count;
  }
}

}  // namespace

// ---- time ----

void TimeToProto(absl::Time time, google::protobuf::Timestamp& out) {
  const absl::Time lowest = absl::FromUnixSeconds(kMinTimestampSeconds);
  const absl::Time highest =
      absl::FromUnixSeconds(kMaxTimestampSeconds) + absl::Nanoseconds(kMaxNanos);
  time = std::min(std::max(time, lowest), highest);
  const int64_t seconds = absl::ToUnixSeconds(time);  // Rounds down.
  out.set_seconds(seconds);
  out.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

void DurationToProto(absl::Duration duration, google::protobuf::Duration& out) {
  const absl::Duration longest = absl::Seconds(kMaxDurationSeconds);
  duration = std::min(std::max(duration, -longest), longest);
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &duration);
  out.set_seconds(seconds);
  out.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

absl::StatusOr<absl::Time> TimeFromProto(const google::protobuf::Timestamp& time,
                                         std::string_view field) {
  if (time.seconds() < kMinTimestampSeconds || time.seconds() > kMaxTimestampSeconds ||
      time.nanos() < 0 || time.nanos() > kMaxNanos) {
    return Wrong(field, "not a valid Timestamp");
  }
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::StatusOr<absl::Duration> DurationFromProto(const google::protobuf::Duration& duration,
                                                 std::string_view field) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  const bool signs_differ = (seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0);
  if (seconds < -kMaxDurationSeconds || seconds > kMaxDurationSeconds || nanos < -kMaxNanos ||
      nanos > kMaxNanos || signs_differ) {
    return Wrong(field, "not a valid Duration");
  }
  return absl::Seconds(seconds) + absl::Nanoseconds(nanos);
}

// ---- targets ----

namespace {

void WorkloadToProto(const Workload& workload, v1::Workload& out) {
  out.set_slurm_job(ToValidUtf8(workload.slurm_job));
  out.set_pod_uid(ToValidUtf8(workload.pod_uid));
  out.set_pod_namespace(ToValidUtf8(workload.pod_namespace));
  out.set_pod_name(ToValidUtf8(workload.pod_name));
  out.set_container_id(ToValidUtf8(workload.container_id));
}

}  // namespace

void TargetToProto(const TargetInfo& target, v1::Target& out) {
  out.set_name(TargetName(target.number));
  out.set_pid(target.pid);
  out.set_process_start_ticks(target.process_start_ticks);
  out.set_uid(target.uid);
  out.set_gid(target.gid);
  out.set_parent_pid(target.parent_pid);
  out.set_namespace_pid(target.namespace_pid);
  out.set_foreign_namespace(target.foreign_namespace);
  out.set_command(ToValidUtf8(target.command));
  out.set_cgroup(ToValidUtf8(target.cgroup));
  for (const auto& [key, value] : target.metadata) {
    (*out.mutable_metadata())[ToValidUtf8(key)] = ToValidUtf8(value);
  }
  out.set_library_version(ToValidUtf8(target.library_version));
  out.set_protocol_version(target.protocol_version);
  if (IsSet(target.registered_time)) {
    TimeToProto(target.registered_time, *out.mutable_register_time());
  }
  switch (target.state) {
    case TargetState::kRunning:
      out.set_state(v1::Target::RUNNING);
      break;
    case TargetState::kCapturing:
      out.set_state(v1::Target::CAPTURING);
      break;
    case TargetState::kStopped:
      out.set_state(v1::Target::STOPPED);
      break;
    case TargetState::kGone:
      break;  // In a capture's record of its target: the state says nothing any more.
  }
  out.set_step_mark_count(target.step_mark_count);
  out.set_current_step(target.current_step);
  out.set_steps_per_second(target.steps_per_second);
  out.set_dropped_event_count(target.dropped_event_count);
  out.set_foreign_step_mark_count(target.foreign_step_mark_count);
  out.set_step_source(std::string(ToString(target.step_source)));
  out.set_batch_count(target.batch_count);
  if (target.since_last_step_ns >= 0) out.set_since_last_step_ns(target.since_last_step_ns);
  out.set_median_step_ns(std::max<int64_t>(target.median_step_ns, 0));
  WorkloadToProto(target.workload, *out.mutable_workload());
  out.set_opted_out(target.opted_out);
  out.set_job(ToValidUtf8(JobOf(target)));
  out.set_rank(RankOf(target));
}

// ---- captures ----

absl::StatusOr<CaptureSpec> SpecFromProto(const v1::CaptureSpec& spec) {
  CaptureSpec out;
  out.steps = spec.steps();
  if (spec.has_warmup_steps()) out.warmup_steps = spec.warmup_steps();
  out.wait_steps = spec.wait_steps();
  if (spec.repeat() != 0) out.repeat = spec.repeat();
  if (spec.has_start_step()) {
    if (spec.start_step() < 0) return Wrong("start_step", "must not be negative");
    out.start_step = spec.start_step();
  }
  if (spec.has_duration()) {
    ASSIGN_OR_RETURN(out.duration, DurationFromProto(spec.duration(), "duration"));
    if (out.duration <= absl::ZeroDuration()) return Wrong("duration", "must be in (0s, 1h]");
  }
  if (spec.has_timeout()) {
    ASSIGN_OR_RETURN(out.timeout, DurationFromProto(spec.timeout(), "timeout"));
  }
  if (spec.memory_bytes() != 0) out.memory_bytes = spec.memory_bytes();
  out.allow_less_memory = spec.allow_less_memory();
  if (spec.max_bytes() != 0) out.max_bytes = spec.max_bytes();
  ASSIGN_OR_RETURN(out.gpu, GpuSpecFromProto(spec.gpu()));
  ASSIGN_OR_RETURN(out.torch, TorchSpecFromProto(spec.torch()));
  out.step_marker = spec.step_marker();
  out.display_name = spec.display_name();
  out.labels.insert(spec.labels().begin(), spec.labels().end());
  RETURN_IF_ERROR(ValidateSpec(out));
  return out;
}

void SpecToProto(const CaptureSpec& spec, v1::CaptureSpec& out) {
  out.set_steps(spec.steps);
  out.set_warmup_steps(spec.warmup_steps);
  out.set_wait_steps(spec.wait_steps);
  out.set_repeat(spec.repeat);
  if (spec.start_step >= 0) out.set_start_step(spec.start_step);
  if (spec.duration != absl::ZeroDuration()) {
    DurationToProto(spec.duration, *out.mutable_duration());
  }
  DurationToProto(spec.timeout, *out.mutable_timeout());
  out.set_memory_bytes(spec.memory_bytes);
  out.set_allow_less_memory(spec.allow_less_memory);
  out.set_max_bytes(spec.max_bytes);
  GpuSpecToProto(spec.gpu, *out.mutable_gpu());
  TorchSpecToProto(spec.torch, *out.mutable_torch());
  out.set_step_marker(ToValidUtf8(spec.step_marker));
  out.set_display_name(ToValidUtf8(spec.display_name));
  for (const auto& [key, value] : spec.labels) {
    (*out.mutable_labels())[ToValidUtf8(key)] = ToValidUtf8(value);
  }
}

void CaptureToProto(const CaptureRecord& record, v1::Capture& out) {
  out.set_name(CaptureName(record.id));
  if (!record.group_id.empty()) out.set_group(GroupName(record.group_id));
  out.set_state(static_cast<v1::Capture::State>(record.state));
  out.set_ended_by(std::string(ToString(record.ended_by)));
  out.set_error_reason(ToValidUtf8(record.error_reason));
  out.set_error_message(ToValidUtf8(record.error_message));
  SpecToProto(record.spec, *out.mutable_spec());
  TargetToProto(record.target, *out.mutable_target());
  out.set_node(ToValidUtf8(record.node));
  out.set_requested_by_uid(record.requested_by_uid);
  out.set_requested_by(ToValidUtf8(record.requested_by));
  if (!record.schedule_id.empty()) out.set_schedule(ScheduleName(record.schedule_id));
  out.set_schedule_window_unix_ns(record.schedule_window_unix_ns);
  out.set_sampling_weight(record.sampling_weight);
  out.set_request_id(ToValidUtf8(record.request_id));
  SetIfSet(record.create_time, &v1::Capture::mutable_create_time, out);
  SetIfSet(record.armed_time, &v1::Capture::mutable_armed_time, out);
  SetIfSet(record.end_time, &v1::Capture::mutable_end_time, out);
  out.set_start_unix_ns(record.start_unix_ns);
  out.set_covered_ns(record.covered_ns);
  out.set_covered_steps(record.covered_steps);
  WindowsToProto(record, out);
  out.set_current_window(record.current_window);
  out.set_current_step(record.current_step);
  CountsToProto(record, out);
  GpuToProto(record.gpu, *out.mutable_gpu());
  TorchToProto(record.torch, *out.mutable_torch());
  ImportToProto(record.imported, out);
  out.set_activity(ToValidUtf8(record.activity));
  QualityToProto(record, out);
  out.set_file_bytes(record.file_bytes);
  out.set_file_sha256(ToValidUtf8(record.file_sha256));
  out.set_deleted(record.deleted);
}

void StepsToProto(std::span<const StepRecord> steps, v1::Capture& out) {
  out.mutable_steps()->Reserve(static_cast<int>(steps.size()));
  for (const StepRecord& step : steps) {
    v1::Step& row = *out.add_steps();
    row.set_index(step.index);
    row.set_window(step.window);
    row.set_start_ns(step.start_ns);
    row.set_duration_ns(step.duration_ns);
  }
}

absl::StatusOr<CaptureState> StateFromProto(v1::Capture::State state) {
  if (!v1::Capture::State_IsValid(state) || state == v1::Capture::STATE_UNSPECIFIED) {
    return Wrong("states", StrCat(static_cast<int>(state), " is not a state of a capture"));
  }
  return static_cast<CaptureState>(state);
}

}  // namespace profd::rpc
