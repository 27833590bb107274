#include "daemon/capture/capture_outcome.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

bool CoversAllSteps(const CaptureRecord& record) {
  const CaptureSpec& spec = record.spec;
  return static_cast<int64_t>(record.windows.size()) == spec.repeat &&
         record.covered_steps == spec.steps * spec.repeat;
}

bool CoversAll(const CaptureRecord& record) {
  if (record.spec.steps > 0) return CoversAllSteps(record);
  return record.covered_ns >= absl::ToInt64Nanoseconds(record.spec.duration);
}

// Causes that lose events inside the window, whatever steps it covered.
bool LosesEvents(EndedBy cause) {
  return cause == EndedBy::kByteCap || cause == EndedBy::kDiskFull || cause == EndedBy::kStorage;
}

bool WasCalledOff(EndedBy cause) {
  return cause == EndedBy::kCancel || cause == EndedBy::kPreempted;
}

// What a capture with steps of its own waited for in vain.
std::string MissingSteps(const CaptureSpec& spec, std::string_view target) {
  if (!spec.step_marker.empty()) {
    return StrCat("no range '", spec.step_marker, "' began in ", target,
                  "; check the name, which is case-sensitive (a capture with --duration 2s shows "
                  "the ranges of the program)");
  }
  switch (spec.torch.step_source) {
    case StepSource::kOptimizer:
      return StrCat("no optimizer of PyTorch ended a step in ", target);
    case StepSource::kProfiler:
      return StrCat("torch.profiler began no step in ", target);
    case StepSource::kDataLoader:
      return StrCat("no DataLoader of PyTorch began a batch in ", target);
    case StepSource::kPeriodicity:
      return StrCat("the operators of PyTorch in ", target, " show no repeated rounds");
    case StepSource::kNone:
    case StepSource::kMarks:
      break;
  }
  return StrCat(target, " marked no step");
}

}  // namespace

absl::StatusOr<FirePlan> PlanFor(const CaptureSpec& spec) {
  FirePlan plan;
  plan.steps = spec.steps;
  if (spec.steps == 0) {
    plan.longest_window = spec.duration;
    return plan;
  }
  plan.warmup_steps = spec.warmup_steps;
  plan.wait_steps = spec.wait_steps;
  plan.repeat = spec.repeat;
  if (spec.start_step < 0) return plan;
  // Too near to the first step for all of it: the warm-up gets what there is, and the wait the
  // rest.
  if (spec.start_step < spec.warmup_steps + spec.wait_steps) {
    if (spec.repeat > 1) {
      return absl::InvalidArgumentError(
          StrCat("start_step is ", spec.start_step, "; with repeat it must leave room for ",
                 spec.wait_steps, " wait and ", spec.warmup_steps, " warm-up steps before it"));
    }
    plan.warmup_steps = std::min(spec.warmup_steps, spec.start_step);
    plan.wait_steps = spec.start_step - plan.warmup_steps;
  }
  plan.base_step = spec.start_step - plan.warmup_steps - plan.wait_steps;
  return plan;
}

EndedBy CauseOfSinkError(const absl::Status& sink_status) {
  switch (sink_status.code()) {
    case absl::StatusCode::kOutOfRange:
      return EndedBy::kByteCap;
    case absl::StatusCode::kResourceExhausted:
      return EndedBy::kDiskFull;
    default:
      return EndedBy::kStorage;
  }
}

int64_t ApplyDrainResult(const DrainResult& result, CaptureRecord& record) {
  record.event_count = result.event_count;
  record.drops = result.drops;
  record.warmup_event_count = result.warmup_event_count;
  record.open_range_count = result.open_range_count;
  record.truncated_range_count = result.truncated_range_count;
  record.other_name_event_count = result.other_name_event_count;
  record.foreign_step_mark_count = result.foreign_step_mark_count;
  record.clock_error_ns = result.clock_error_ns;
  record.gpu = result.gpu;
  record.torch = result.torch;
  record.cpu = result.cpu;
  // As it was at the end, for the reason of a failure.
  if (result.target_is_stopped) {
    record.target.state = TargetState::kStopped;
  } else if (record.target.state == TargetState::kStopped) {
    record.target.state = TargetState::kRunning;
  }
  if (record.spec.steps > 0 && record.torch.step_source == StepSource::kNone) {
    // Only PyTorch's part says whose steps they were; any other's are the target's, or a marker's.
    record.torch.step_source =
        record.spec.step_marker.empty() ? record.target.step_source : StepSource::kMarks;
  }
  record.windows.clear();
  record.covered_ns = 0;
  record.covered_steps = 0;
  if (result.windows.empty()) {
    record.cpu.samples.clear();
    return 0;
  }

  const int64_t start_ns = result.windows.front().start_ns;
  record.start_unix_ns = result.epoch_unix_ns + start_ns;
  for (CpuSample& sample : record.cpu.samples) sample.time_ns -= start_ns;
  for (const RecordedWindow& window : result.windows) {
    record.windows.push_back({.start_ns = window.start_ns - start_ns,
                              .end_ns = window.end_ns - start_ns,
                              .first_step = window.first_step,
                              .end_step = window.end_step});
    record.covered_ns += window.end_ns - window.start_ns;
    if (window.first_step >= 0) record.covered_steps += window.end_step - window.first_step;
  }
  return start_ns;
}

// Where another tool takes CUPTI the target ends its window, as if it were the planned end.
bool WasTaken(EndedBy cause, const CaptureRecord& record) {
  if (!record.gpu.cupti_taken || WasCalledOff(cause) || LosesEvents(cause)) return false;
  return cause == EndedBy::kSteps || cause == EndedBy::kDuration || CoversAll(record);
}

void Conclude(EndedBy cause, CaptureRecord& record) {
  if (WasTaken(cause, record)) cause = EndedBy::kCuptiTaken;
  if (record.start_unix_ns == 0) {
    record.state = WasCalledOff(cause) ? CaptureState::kCancelled : CaptureState::kFailed;
    record.ended_by = cause;
    if (record.state == CaptureState::kFailed) ExplainFailure(cause, record);
    return;
  }
  if (WasCalledOff(cause)) {
    record.state = CaptureState::kCancelled;
    record.ended_by = cause;
    return;
  }
  if (CoversAll(record) && !LosesEvents(cause) && cause != EndedBy::kCuptiTaken) {
    record.state = CaptureState::kComplete;
    record.ended_by = record.spec.steps > 0 ? EndedBy::kSteps : EndedBy::kDuration;
    return;
  }
  record.state = CaptureState::kPartial;
  // The window closed as planned yet does not cover what was asked: the target's own
  // account is incomplete (it lost its marks), so say that it went away.
  const bool planned = cause == EndedBy::kSteps || cause == EndedBy::kDuration;
  record.ended_by = planned ? EndedBy::kTargetLost : cause;
}

void ExplainFailure(EndedBy cause, CaptureRecord& record) {
  const std::string target = StrCat("target ", record.target.pid);
  const auto set = [&record](std::string_view reason, std::string message) {
    record.error_reason = std::string(reason);
    record.error_message = std::move(message);
  };
  switch (cause) {
    case EndedBy::kTargetExit:
      return set("TARGET_EXITED", StrCat(target, " ended before anything was recorded"));
    case EndedBy::kTargetLost:
      return set("TARGET_LOST", StrCat(target,
                                       ": its client library went away (exec?) before "
                                       "anything was recorded; retry once `profctl ps` "
                                       "lists it again"));
    case EndedBy::kDeadline:
      if (record.target.state == TargetState::kStopped) {
        return set("DEADLINE",
                   StrCat(target,
                          " is stopped (SIGSTOP, Ctrl-Z, a debugger), so nothing was recorded "
                          "within ",
                          absl::FormatDuration(record.spec.timeout), "; let it go on (`kill -CONT ",
                          record.target.pid, "`, or in the debugger) and trace it again"));
      }
      if (CountsOwnSteps(record.spec) && record.current_step < 0) {
        return set("DEADLINE",
                   StrCat("nothing was recorded within ", absl::FormatDuration(record.spec.timeout),
                          ": ", MissingSteps(record.spec, target)));
      }
      if (record.current_step >= 0 && record.spec.start_step > record.current_step) {
        return set("DEADLINE",
                   StrCat(target, " did not reach step ", record.spec.start_step, " within ",
                          absl::FormatDuration(record.spec.timeout), ": it is at step ",
                          record.current_step, "; ask for a longer --timeout"));
      }
      return set(
          "DEADLINE",
          StrCat(target, " recorded nothing within ", absl::FormatDuration(record.spec.timeout),
                 " (it is at step ", record.current_step,
                 "); check that it is still training, or ask for a longer --timeout"));
    case EndedBy::kDaemonStop:
      return set("DAEMON_STOPPED", "profd was stopped before anything was recorded; retry");
    case EndedBy::kDiskFull:
      return set("DISK_FULL",
                 "there was no room for the capture file; free space or delete captures");
    case EndedBy::kByteCap:
      return set(
          "BYTE_CAP",
          "the byte cap was reached before anything was kept; raise --max-bytes (at most profd's "
          "--max-storage)");
    case EndedBy::kArmTimeout:
      if (!record.activity.empty()) {
        return set("ARM_TIMEOUT", StrCat(target, " was not ready in time (", record.activity,
                                         "); retry, or trace without the GPU: --gpu off"));
      }
      return set("ARM_TIMEOUT", StrCat(target,
                                       " did not answer in time; it may be stopped "
                                       "(SIGSTOP, a debugger) or starved of CPU"));
    case EndedBy::kMissedStart:
      return set("MISSED_START",
                 StrCat(target, " had passed the start step when it was told; ",
                        record.schedule_id.empty() ? "ask for a later one"
                                                   : "raise the --step-lead of the schedule"));
    case EndedBy::kArmFailed:
      if (record.error_reason.empty()) record.error_reason = "ARM_FAILED";
      if (record.error_message.empty()) record.error_message = StrCat(target, " could not arm");
      return;
    case EndedBy::kLeaseExpired:
      return set("LEASE_EXPIRED",
                 StrCat(target,
                        " was prepared for a capture on several nodes, but its caller ended or "
                        "was not heard of until the lease expired, before the window began"));
    case EndedBy::kCuptiTaken:
      return set("CUPTI_BUSY", StrCat("another profiler in ", target,
                                      " began to use CUPTI before anything was recorded; wait for "
                                      "its end, and try again"));
    case EndedBy::kOptOut:
      return set("OPTED_OUT", StrCat("captures of ", target, " were switched off meanwhile"));
    case EndedBy::kNone:
    case EndedBy::kSteps:
    case EndedBy::kDuration:
    case EndedBy::kCancel:
    case EndedBy::kPreempted:
    case EndedBy::kStorage:
      if (record.error_reason.empty()) record.error_reason = "STORAGE";
      if (record.error_message.empty()) {
        record.error_message = "the capture file could not be written; see profd's log";
      }
      return;
  }
}

}  // namespace profd
