#include "daemon/rpc/convert/convert.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/quality.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/message_fields.h"

namespace profd::rpc {
namespace {

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

absl::Status Unknown(std::string_view field, int value) {
  return Wrong(field, StrCat(value, " is not known to this profd"));
}

void CountsToProto(const CaptureRecord& record, v1::Capture& out) {
  out.set_dropped_event_count(TotalDrops(record.drops));
  for (int i = 0; i < kDropReasonCount; ++i) {
    const int64_t count = record.drops[static_cast<size_t>(i)];
    if (count == 0) continue;
    const std::string_view reason = ToString(static_cast<DropReason>(i));
    (*out.mutable_dropped_by_reason())[std::string(reason)] = count;
  }
}

void QualityToProto(const CaptureRecord& record, v1::Capture& out) {
  const Quality quality = QualityOf(record);
  out.set_quality(quality.grade);
  out.set_quality_stored(quality.stored);
  if (record.start_unix_ns == 0) return;
  for (const QualityCheck& check : quality.checks) {
    FieldsToMessage(check, *out.add_quality_checks());
  }
}

// What `spec` says that no CaptureSpec can.
absl::Status CheckSpec(const v1::CaptureSpec& spec) {
  if (spec.has_start_step() && spec.start_step() < 0) {
    return Wrong("start_step", "must not be negative");
  }
  if (spec.has_duration()) {
    ASSIGN_OR_RETURN(const absl::Duration duration, DurationFromProto(spec.duration(), "duration"));
    if (duration <= absl::ZeroDuration()) return Wrong("duration", "must be in (0s, 1h]");
  }
  RETURN_IF_ERROR(DurationFromProto(spec.timeout(), "timeout").status());
  if (!v1::GpuSpec::Mode_IsValid(spec.gpu().mode())) return Unknown("gpu.mode", spec.gpu().mode());
  if (!v1::TorchSpec::Operators_IsValid(spec.torch().operators())) {
    return Unknown("torch.operators", spec.torch().operators());
  }
  const std::string& source = spec.torch().step_source();
  if (source.empty()) return absl::OkStatus();
  if (StepSourceFromString(source).value_or(StepSource::kNone) == StepSource::kNone) {
    return Wrong("torch.step_source",
                 StrCat("'", ForDisplay(source, 80),
                        "' is none of marks, optimizer, profiler, dataloader, periodicity"));
  }
  return absl::OkStatus();
}

}  // namespace

// ---- targets ----

void TargetToProto(const TargetInfo& target, v1::Target& out) {
  FieldsToMessage(target, out);
  out.set_name(TargetName(target.number));
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
  if (target.since_last_step_ns >= 0) out.set_since_last_step_ns(target.since_last_step_ns);
  out.set_median_step_ns(std::max<int64_t>(target.median_step_ns, 0));
  out.set_job(ToValidUtf8(JobOf(target)));
  out.set_rank(RankOf(target));
}

// ---- captures ----

CaptureSpec SpecOf(const v1::CaptureSpec& spec) {
  const CaptureSpec defaults;
  CaptureSpec out;
  FieldsFromMessage(spec, out);
  if (out.repeat == 0) out.repeat = defaults.repeat;
  if (out.memory_bytes == 0) out.memory_bytes = defaults.memory_bytes;
  if (out.max_bytes == 0) out.max_bytes = defaults.max_bytes;
  if (out.gpu.buffer_bytes == 0) out.gpu.buffer_bytes = defaults.gpu.buffer_bytes;
  if (out.gpu.max_records == 0) out.gpu.max_records = defaults.gpu.max_records;
  return out;
}

absl::StatusOr<CaptureSpec> SpecFromProto(const v1::CaptureSpec& spec) {
  RETURN_IF_ERROR(CheckSpec(spec));
  CaptureSpec out = SpecOf(spec);
  RETURN_IF_ERROR(ValidateSpec(out));
  return out;
}

void SpecToProto(const CaptureSpec& spec, v1::CaptureSpec& out) {
  FieldsToMessage(spec, out);
  // Unset, it would be the default; zero is refused.
  DurationToProto(spec.timeout, *out.mutable_timeout());
  // "none" is no source that can be asked for.
  if (spec.torch.step_source == StepSource::kNone) out.mutable_torch()->clear_step_source();
}

void CaptureToProto(const CaptureRecord& record, v1::Capture& out) {
  FieldsToMessage(record, out);
  out.set_name(CaptureName(record.id));
  if (!record.group_id.empty()) out.set_group(GroupName(record.group_id));
  if (!record.schedule_id.empty()) out.set_schedule(ScheduleName(record.schedule_id));
  SpecToProto(record.spec, *out.mutable_spec());
  TargetToProto(record.target, *out.mutable_target());
  CountsToProto(record, out);
  QualityToProto(record, out);
  if (record.imported.source.empty()) out.clear_imported();
  if (record.start_unix_ns == 0) out.clear_slowdown();
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
