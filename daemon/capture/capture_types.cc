#include "daemon/capture/capture_types.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <system_error>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd {
namespace {

template <typename T, size_t N>
using NameTable = std::array<std::pair<T, std::string_view>, N>;

constexpr NameTable<CaptureState, 11> kStateNames = {{
    {CaptureState::kPending, "PENDING"},
    {CaptureState::kArming, "ARMING"},
    {CaptureState::kWaitingStep, "WAITING_STEP"},
    {CaptureState::kWarmup, "WARMUP"},
    {CaptureState::kRecording, "RECORDING"},
    {CaptureState::kDraining, "DRAINING"},
    {CaptureState::kStoring, "STORING"},
    {CaptureState::kComplete, "COMPLETE"},
    {CaptureState::kPartial, "PARTIAL"},
    {CaptureState::kFailed, "FAILED"},
    {CaptureState::kCancelled, "CANCELLED"},
}};

constexpr NameTable<EndedBy, 18> kEndedByNames = {{
    {EndedBy::kNone, ""},
    {EndedBy::kSteps, "steps"},
    {EndedBy::kDuration, "duration"},
    {EndedBy::kCancel, "cancel"},
    {EndedBy::kTargetExit, "target_exit"},
    {EndedBy::kByteCap, "byte_cap"},
    {EndedBy::kDeadline, "deadline"},
    {EndedBy::kDaemonStop, "daemon_stop"},
    {EndedBy::kDiskFull, "disk_full"},
    {EndedBy::kArmFailed, "arm_failed"},
    {EndedBy::kArmTimeout, "arm_timeout"},
    {EndedBy::kMissedStart, "missed_start"},
    {EndedBy::kTargetLost, "target_lost"},
    {EndedBy::kStorage, "storage"},
    {EndedBy::kLeaseExpired, "lease_expired"},
    {EndedBy::kPreempted, "preempted"},
    {EndedBy::kOptOut, "opt_out"},
    {EndedBy::kCuptiTaken, "cupti_taken"},
}};

constexpr NameTable<DropReason, kDropReasonCount> kDropNames = {{
    {DropReason::kNoChunk, "no_chunk"},
    {DropReason::kTooDeep, "too_deep"},
    {DropReason::kTooLarge, "too_large"},
    {DropReason::kUnbalancedEnd, "unbalanced_end"},
    {DropReason::kNoThreadState, "no_thread_state"},
    {DropReason::kInvalidRecord, "invalid_record"},
    {DropReason::kUnknownKind, "unknown_kind"},
    {DropReason::kByteCap, "byte_cap"},
    {DropReason::kDisk, "disk"},
    {DropReason::kStuckWriter, "stuck_writer"},
    {DropReason::kCuptiDropped, "cupti_dropped"},
    {DropReason::kGpuNoBuffer, "gpu_no_buffer"},
    {DropReason::kGpuLate, "gpu_late"},
    {DropReason::kGpuUntimed, "gpu_untimed"},
    {DropReason::kGpuCorrupt, "gpu_corrupt"},
    {DropReason::kGpuRecordCap, "gpu_record_cap"},
    {DropReason::kGpuLostBuffer, "gpu_lost_buffer"},
    {DropReason::kGpuStillRunning, "gpu_still_running"},
    {DropReason::kThinned, "thinned"},
}};

constexpr NameTable<GpuMode, 5> kGpuModeNames = {{
    {GpuMode::kAuto, "auto"},
    {GpuMode::kOff, "off"},
    {GpuMode::kLight, "light"},
    {GpuMode::kDefault, "default"},
    {GpuMode::kFull, "full"},
}};
constexpr NameTable<GpuOutcome, 5> kGpuOutcomeNames = {{
    {GpuOutcome::kOff, "off"},
    {GpuOutcome::kNoCuda, "no_cuda"},
    {GpuOutcome::kRecorded, "recorded"},
    {GpuOutcome::kBroken, "broken"},
    {GpuOutcome::kUnknown, "unknown"},
}};
constexpr NameTable<OperatorMode, 4> kOperatorModeNames = {{
    {OperatorMode::kAuto, "auto"},
    {OperatorMode::kOff, "off"},
    {OperatorMode::kNames, "names"},
    {OperatorMode::kShapes, "shapes"},
}};
constexpr NameTable<StepSource, 6> kStepSourceNames = {{
    {StepSource::kNone, "none"},
    {StepSource::kMarks, "marks"},
    {StepSource::kOptimizer, "optimizer"},
    {StepSource::kProfiler, "profiler"},
    {StepSource::kDataLoader, "dataloader"},
    {StepSource::kPeriodicity, "periodicity"},
}};
constexpr NameTable<TorchOutcome, 5> kTorchOutcomeNames = {{
    {TorchOutcome::kOff, "off"},
    {TorchOutcome::kNoTorch, "no_torch"},
    {TorchOutcome::kRecorded, "recorded"},
    {TorchOutcome::kLimited, "limited"},
    {TorchOutcome::kUnknown, "unknown"},
}};
constexpr NameTable<TargetState, 4> kTargetStateNames = {{
    {TargetState::kRunning, "RUNNING"},
    {TargetState::kCapturing, "CAPTURING"},
    {TargetState::kGone, "GONE"},
    {TargetState::kStopped, "STOPPED"},
}};

template <typename T, size_t N>
std::string_view NameOf(const NameTable<T, N>& table, T value) {
  const auto it = std::ranges::find(table, value, &std::pair<T, std::string_view>::first);
  return it == table.end() ? "UNKNOWN" : it->second;
}

template <typename T, size_t N>
std::optional<T> ValueOf(const NameTable<T, N>& table, std::string_view name) {
  const auto it = std::ranges::find(table, name, &std::pair<T, std::string_view>::second);
  if (it == table.end()) return std::nullopt;
  return it->first;
}

absl::Status OutOfRange(std::string_view field, std::string_view value, std::string_view range) {
  return absl::InvalidArgumentError(StrCat(field, " is ", value, "; it must be ", range));
}

absl::Status CheckRange(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return OutOfRange(field, StrCat(value), StrCat("in [", low, ", ", high, "]"));
}

absl::Status CheckDuration(std::string_view field, absl::Duration value, absl::Duration high) {
  if (value > absl::ZeroDuration() && value <= high) return absl::OkStatus();
  return OutOfRange(field, absl::FormatDuration(value),
                    StrCat("above 0 and at most ", absl::FormatDuration(high)));
}

bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

absl::Status ValidateWindow(const CaptureSpec& spec) {
  const bool by_time = spec.duration != absl::ZeroDuration();
  if (by_time && spec.steps != 0) {
    return absl::InvalidArgumentError("steps and duration are both set; ask for one of them");
  }
  if (by_time) {
    if (spec.start_step >= 0 || spec.wait_steps != 0 || spec.repeat != 1) {
      return absl::InvalidArgumentError(
          "start_step, wait_steps and repeat count steps; they do not go with duration");
    }
    return CheckDuration("duration", spec.duration, absl::Hours(1));
  }
  for (const absl::Status& status : {
           CheckRange("steps", spec.steps, 1, 1'000'000),
           CheckRange("warmup_steps", spec.warmup_steps, 0, 10'000),
           CheckRange("wait_steps", spec.wait_steps, 0, 1'000'000),
           CheckRange("repeat", spec.repeat, 1, 64),
           CheckRange("start_step", spec.start_step, -1, int64_t{1} << 53),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ValidateTorch(const CaptureSpec& spec) {
  const TorchSpec& torch = spec.torch;
  const bool with_inputs =
      torch.operators == OperatorMode::kAuto || torch.operators == OperatorMode::kShapes;
  if (torch.strides && !with_inputs) {
    return absl::InvalidArgumentError(
        StrCat("torch.strides goes with torch.operators shapes, not ", ToString(torch.operators)));
  }
  if ((torch.stacks || torch.modules) && torch.operators == OperatorMode::kOff) {
    return absl::InvalidArgumentError(
        "torch.stacks and torch.modules are of operators: not with torch.operators off");
  }
  if (torch.step_source == StepSource::kNone) return absl::OkStatus();
  if (spec.steps == 0 || spec.start_step >= 0 || !spec.step_marker.empty()) {
    return absl::InvalidArgumentError(
        "torch.step_source says what counts as a step: it goes with steps, and not with duration, "
        "start_step or step_marker");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsTerminal(CaptureState state) { return state >= CaptureState::kComplete; }

bool CanAdvance(CaptureState from, CaptureState to) {
  using enum CaptureState;
  if (IsTerminal(from) || to == kPending) return false;
  if (to == kFailed || to == kCancelled) return true;
  switch (from) {
    case kPending:
      return to == kArming;
    case kArming:
      return to == kWaitingStep || to == kRecording || to == kDraining;
    // With several windows, waiting and warm-up come again.
    case kWaitingStep:
    case kWarmup:
    case kRecording:
      return to != from &&
             (to == kWaitingStep || to == kWarmup || to == kRecording || to == kDraining);
    case kDraining:
      return to == kStoring;
    case kStoring:
      return to == kComplete || to == kPartial;
    default:
      return false;
  }
}

std::string_view ToString(CaptureState state) { return NameOf(kStateNames, state); }
std::optional<CaptureState> CaptureStateFromString(std::string_view text) {
  return ValueOf(kStateNames, text);
}
std::string_view ToString(EndedBy ended_by) { return NameOf(kEndedByNames, ended_by); }
std::optional<EndedBy> EndedByFromString(std::string_view text) {
  return ValueOf(kEndedByNames, text);
}
std::string_view ToString(DropReason reason) { return NameOf(kDropNames, reason); }
std::string_view ToString(TargetState state) { return NameOf(kTargetStateNames, state); }
std::string_view ToString(GpuMode mode) { return NameOf(kGpuModeNames, mode); }
std::optional<GpuMode> GpuModeFromString(std::string_view text) {
  return ValueOf(kGpuModeNames, text);
}
std::string_view ToString(GpuOutcome outcome) { return NameOf(kGpuOutcomeNames, outcome); }
std::optional<GpuOutcome> GpuOutcomeFromString(std::string_view text) {
  return ValueOf(kGpuOutcomeNames, text);
}
std::string_view ToString(OperatorMode mode) { return NameOf(kOperatorModeNames, mode); }
std::optional<OperatorMode> OperatorModeFromString(std::string_view text) {
  return ValueOf(kOperatorModeNames, text);
}
std::string_view ToString(StepSource source) { return NameOf(kStepSourceNames, source); }
std::optional<StepSource> StepSourceFromString(std::string_view text) {
  return ValueOf(kStepSourceNames, text);
}
std::string_view WhyEventsAreGone(const CaptureRecord& record) {
  return record.evicted ? "its events were removed to make room for others"
                        : "its events were deleted";
}
std::string_view ToString(TorchOutcome outcome) { return NameOf(kTorchOutcomeNames, outcome); }
std::optional<TorchOutcome> TorchOutcomeFromString(std::string_view text) {
  return ValueOf(kTorchOutcomeNames, text);
}

bool WantsTorch(const TorchSpec& spec) {
  return spec.operators != OperatorMode::kOff || spec.memory ||
         spec.step_source != StepSource::kNone;
}

std::string JobOf(const TargetInfo& target) {
  if (!target.workload.slurm_job.empty()) return target.workload.slurm_job;
  for (const char* key : {"job", "slurm_job_id", "torchelastic_run_id"}) {
    const auto it = target.metadata.find(key);
    // torchrun's run id where none was named.
    if (it != target.metadata.end() && it->second != "none") return it->second;
  }
  return "";
}

bool MissesSteps(const TargetInfo& target) {
  // Below this, no person could read it before it changes.
  constexpr int64_t kShortestSilenceNs = 1'000'000'000;
  return target.median_step_ns > 0 && target.since_last_step_ns >= kShortestSilenceNs &&
         target.since_last_step_ns / 2 >= target.median_step_ns;
}

int64_t RankOf(const TargetInfo& target) {
  const auto it = target.metadata.find("rank");
  int64_t rank = -1;
  if (it == target.metadata.end()) return -1;
  const std::string& text = it->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return error == std::errc() && end == text.data() + text.size() && rank >= 0 ? rank : -1;
}

bool CountsOwnSteps(const CaptureSpec& spec) {
  return !spec.step_marker.empty() || spec.torch.step_source != StepSource::kNone;
}

int64_t TotalDrops(const DropCounts& drops) {
  // An end without a begin is shown, but no event was lost by it.
  return std::accumulate(drops.begin(), drops.end(), int64_t{0}) -
         drops[static_cast<size_t>(DropReason::kUnbalancedEnd)];
}

absl::Status ValidateLabel(std::string_view key, std::string_view value) {
  const bool key_ok = !key.empty() && key.size() <= 63 && key[0] >= 'a' && key[0] <= 'z' &&
                      std::ranges::all_of(key, IsKeyCharacter);
  if (!key_ok) {
    return OutOfRange("label key", StrCat("'", ForDisplay(key, 80), "'"),
                      "lower-case letters, digits, '_', '.', '-', start with a letter, and have at "
                      "most 63 characters");
  }
  if (value.size() > 255 || !IsPrintableUtf8(value)) {
    return OutOfRange(StrCat("the value of label ", key), StrCat("'", ForDisplay(value, 80), "'"),
                      "printable UTF-8 of at most 255 bytes");
  }
  return absl::OkStatus();
}

absl::Status ValidateSpec(const CaptureSpec& spec) {
  for (const absl::Status& status : {
           ValidateWindow(spec),
           CheckDuration("timeout", spec.timeout, absl::Hours(24)),
           CheckRange("memory_bytes", spec.memory_bytes, int64_t{1} << 20, int64_t{4} << 30),
           CheckRange("max_bytes", spec.max_bytes, int64_t{1} << 20, int64_t{1} << 50),
           CheckRange("the number of labels", static_cast<int64_t>(spec.labels.size()), 0, 32),
           CheckRange("gpu.buffer_bytes", spec.gpu.buffer_bytes, int64_t{4} << 20,
                      int64_t{1} << 30),
           CheckRange("gpu.max_records", spec.gpu.max_records, 1000, 100'000'000),
           ValidateTorch(spec),
       }) {
    if (!status.ok()) return status;
  }
  if (spec.display_name.size() > 128 || !IsPrintableUtf8(spec.display_name)) {
    return OutOfRange("display_name", StrCat("'", ForDisplay(spec.display_name, 80), "'"),
                      "printable UTF-8 of at most 128 bytes");
  }
  if (spec.step_marker.size() > 255 || !IsPrintableUtf8(spec.step_marker)) {
    return OutOfRange("step_marker", StrCat("'", ForDisplay(spec.step_marker, 80), "'"),
                      "printable UTF-8 of at most 255 bytes");
  }
  if (!spec.step_marker.empty() && (spec.steps == 0 || spec.start_step >= 0)) {
    return absl::InvalidArgumentError(
        "step_marker names what counts as a step: it goes with steps, and not with duration or "
        "start_step");
  }
  for (const auto& [key, value] : spec.labels) {
    if (absl::Status status = ValidateLabel(key, value); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace profd
