// A capture as JSON: `show`, `captures`, `trace`, and the header of every report.
#include "cli/base/object.h"
#include "cli/render/capture.h"
#include "daemon/base/table/json.h"
#include "daemon/capture/quality.h"
#include "daemon/report/findings/findings.h"

namespace profd::cli {
namespace {

int64_t UnixNanosOrZero(absl::Time time) {
  const bool finite = time != absl::InfinitePast() && time != absl::InfiniteFuture();
  return finite ? absl::ToUnixNanos(time) : 0;
}

// ---- What was asked for.

const ObjectDescription<GpuSpec>& GpuSpecObject() {
  static const ObjectDescription<GpuSpec> object(
      {{[](const GpuSpec& row) { return std::string(ToString(row.mode)); },
        {.key = "mode", .doc = "GPU recording mode: auto, off, light, default, full"}},
       {&GpuSpec::buffer_bytes,
        {.key = "buffer_bytes",
         .doc = "Limit of CUPTI's buffers in the target",
         .unit = table::Unit::kBytes}},
       {&GpuSpec::max_records,
        {.key = "max_records",
         .doc = "Maximum number of GPU records",
         .unit = table::Unit::kCount}},
       {&GpuSpec::detach, {.key = "detach", .doc = "Whether to detach from CUPTI afterwards"}},
       {&GpuSpec::latency,
        {.key = "latency", .doc = "Whether to record queue and submit times of kernels"}}});
  return object;
}

const ObjectDescription<TorchSpec>& TorchSpecObject() {
  static const ObjectDescription<TorchSpec> object(
      {{[](const TorchSpec& row) { return std::string(ToString(row.operators)); },
        {.key = "operators", .doc = "Operator recording mode: auto, off, names, shapes"}},
       {&TorchSpec::strides, {.key = "strides", .doc = "Whether to record strides of inputs"}},
       {&TorchSpec::memory, {.key = "memory", .doc = "Whether to record allocations"}},
       {&TorchSpec::stacks,
        {.key = "stacks", .doc = "Whether to record Python stacks of operators"}},
       {&TorchSpec::modules,
        {.key = "modules", .doc = "Whether to record the modules that operators ran in"}},
       {[](const TorchSpec& row) { return std::string(ToString(row.step_source)); },
        {.key = "step_source", .doc = "Step source to use; none: the target's own"}}});
  return object;
}

const ObjectDescription<CaptureSpec>& SpecObject() {
  static const ObjectDescription<CaptureSpec> object(
      {{&CaptureSpec::steps,
        {.key = "steps", .doc = "Complete steps per window; 0: `duration_ns` applies"}},
       {&CaptureSpec::warmup_steps,
        {.key = "warmup_steps", .doc = "Discarded steps before each window"}},
       {&CaptureSpec::wait_steps,
        {.key = "wait_steps", .doc = "Steps without recording before each warm-up"}},
       {&CaptureSpec::repeat, {.key = "repeat", .doc = "Number of windows"}},
       {&CaptureSpec::start_step,
        {.key = "start_step", .doc = "First recorded step; -1: the next step"}},
       {[](const CaptureSpec& row) { return absl::ToInt64Nanoseconds(row.duration); },
        {.key = "duration_ns",
         .doc = "Length of the window; 0: `steps` applies",
         .unit = table::Unit::kNs}},
       {[](const CaptureSpec& row) { return absl::ToInt64Nanoseconds(row.timeout); },
        {.key = "timeout_ns",
         .doc = "Maximum time from creation to the window end",
         .unit = table::Unit::kNs}},
       {&CaptureSpec::memory_bytes,
        {.key = "memory_bytes", .doc = "Capture memory", .unit = table::Unit::kBytes}},
       {&CaptureSpec::allow_less_memory,
        {.key = "allow_less_memory",
         .doc = "Whether to accept less memory if the node is at its limit"}},
       {&CaptureSpec::max_bytes,
        {.key = "max_bytes",
         .doc = "Maximum size of the capture file",
         .unit = table::Unit::kBytes}},
       {&CaptureSpec::step_marker,
        {.key = "step_marker", .doc = "Name of the range that marks steps; empty: none"}}},
      {ObjectOf<CaptureSpec>(
           "gpu", "GPU options", &GpuSpecObject,
           [](const CaptureSpec& row) -> const auto& { return row.gpu; }),
       ObjectOf<CaptureSpec>(
           "torch", "PyTorch options", &TorchSpecObject,
           [](const CaptureSpec& row) -> const auto& { return row.torch; })});
  return object;
}

// ---- What was recorded.

const ObjectDescription<TorchMissing>& TorchMissingObject() {
  static const ObjectDescription<TorchMissing> object(
      {{&TorchMissing::feature, {.key = "feature", .doc = "Feature that was not recorded"}},
       {&TorchMissing::reason, {.key = "reason", .doc = "Reason"}}});
  return object;
}

const ObjectDescription<TorchRecord>& TorchRecordObject() {
  static const ObjectDescription<TorchRecord> object(
      {{[](const TorchRecord& row) { return std::string(ToString(row.outcome)); },
        {.key = "outcome",
         .doc = "Result of recording PyTorch: off, no_torch, recorded, limited, unknown"}},
       {[](const TorchRecord& row) { return std::string(ToString(row.operators)); },
        {.key = "operators", .doc = "Operator recording mode in effect: off, names, shapes"}},
       {&TorchRecord::memory, {.key = "memory", .doc = "Whether allocations were recorded"}},
       {&TorchRecord::version, {.key = "version", .doc = "Version of torch; empty: unknown"}},
       {[](const TorchRecord& row) { return std::string(ToString(row.step_source)); },
        {.key = "step_source", .doc = "Step source in effect"}},
       {&TorchRecord::operator_count,
        {.key = "operator_count", .doc = "Operators kept", .unit = table::Unit::kCount}},
       {&TorchRecord::tensor_use_count,
        {.key = "tensor_use_count", .doc = "Inputs kept", .unit = table::Unit::kCount}},
       {&TorchRecord::note_count,
        {.key = "note_count",
         .doc = "Notes kept: labels, graph breaks, recompilations",
         .unit = table::Unit::kCount}},
       {&TorchRecord::block_count,
        {.key = "block_count",
         .doc = "Memory blocks with a known owner",
         .unit = table::Unit::kCount}},
       {&TorchRecord::folded_count,
        {.key = "folded_count",
         .doc = "Operators inside compilations, not kept",
         .unit = table::Unit::kCount}},
       {&TorchRecord::cut_input_count,
        {.key = "cut_input_count",
         .doc = "Operators with missing inputs, and ranges with missing or cut arguments",
         .unit = table::Unit::kCount}},
       {&TorchRecord::odd_tensor_count,
        {.key = "odd_tensor_count",
         .doc = "Inputs that are not valid tensors",
         .unit = table::Unit::kCount}},
       {&TorchRecord::lost_note_count,
        {.key = "lost_note_count",
         .doc = "Notes and blocks lost for lack of room",
         .unit = table::Unit::kCount}},
       {&TorchRecord::missed_memory_count,
        {.key = "missed_memory_count",
         .doc = "Allocator events missed: the library was recording, or had no room",
         .unit = table::Unit::kCount}},
       {&TorchRecord::stack_count,
        {.key = "stack_count",
         .doc = "Distinct Python stacks, those of callers included",
         .unit = table::Unit::kCount}},
       {&TorchRecord::missing_stack_count,
        {.key = "missing_stack_count",
         .doc = "Operators and stacks whose Python frames are not all there",
         .unit = table::Unit::kCount}}},
      {ListOf<TorchRecord>(
          "missing", "Requested features that were not recorded", &TorchMissingObject,
          [](const TorchRecord& row) -> const auto& { return row.missing; })});
  return object;
}

const ObjectDescription<GpuDevice>& GpuDeviceObject() {
  static const ObjectDescription<GpuDevice> object(
      {{&GpuDevice::number, {.key = "number", .doc = "CUDA device number in the target"}},
       {&GpuDevice::name, {.key = "name", .doc = "Product name"}},
       {&GpuDevice::uuid, {.key = "uuid", .doc = "UUID; empty: unknown"}},
       {&GpuDevice::memory_bytes,
        {.key = "memory_bytes", .doc = "Device memory", .unit = table::Unit::kBytes}},
       {&GpuDevice::compute_major, {.key = "compute_major", .doc = "Major compute capability"}},
       {&GpuDevice::compute_minor, {.key = "compute_minor", .doc = "Minor compute capability"}},
       {&GpuDevice::sm_count,
        {.key = "sm_count", .doc = "Number of multiprocessors", .unit = table::Unit::kCount}}});
  return object;
}

const ObjectDescription<GpuKindFailure>& GpuKindFailureObject() {
  static const ObjectDescription<GpuKindFailure> object(
      {{&GpuKindFailure::kind, {.key = "kind", .doc = "The kind of record"}},
       {&GpuKindFailure::result, {.key = "result", .doc = "Result returned by CUPTI"}}});
  return object;
}

const ObjectDescription<GpuRecord>& GpuRecordObject() {
  static const ObjectDescription<GpuRecord> object(
      {{[](const GpuRecord& row) { return std::string(ToString(row.outcome)); },
        {.key = "outcome",
         .doc = "Result of recording the GPU: off, no_cuda, recorded, broken, unknown"}},
       {[](const GpuRecord& row) { return std::string(ToString(row.mode)); },
        {.key = "mode", .doc = "GPU recording mode in effect: off, light, default, full"}},
       {&GpuRecord::problem, {.key = "problem", .doc = "Problem; empty: none"}},
       {&GpuRecord::simulated,
        {.key = "simulated", .doc = "Whether the GPU was simulated by software"}},
       {&GpuRecord::cupti_version,
        {.key = "cupti_version", .doc = "CUPTI version; 130001 is 13.0 update 1"}},
       {&GpuRecord::driver_version,
        {.key = "driver_version", .doc = "CUDA version of the driver; 13000 is 13.0; 0: unknown"}},
       {&GpuRecord::arm_ns,
        {.key = "arm_ns",
         .doc = "Time from arming until CUPTI was recording",
         .unit = table::Unit::kNs}},
       {&GpuRecord::clock_error_ns,
        {.key = "clock_error_ns", .doc = "Maximum error of GPU times", .unit = table::Unit::kNs}},
       {&GpuRecord::clock_step_count,
        {.key = "clock_step_count",
         .doc = "Number of corrections of the GPU clock",
         .unit = table::Unit::kCount}},
       {&GpuRecord::peak_pool_bytes,
        {.key = "peak_pool_bytes",
         .doc = "Peak size of CUPTI's buffers in the target",
         .unit = table::Unit::kBytes}},
       {&GpuRecord::record_count,
        {.key = "record_count", .doc = "Records delivered by CUPTI", .unit = table::Unit::kCount}},
       {&GpuRecord::stale_count,
        {.key = "stale_count",
         .doc = "Records of an earlier capture",
         .unit = table::Unit::kCount}},
       {&GpuRecord::before_window_count,
        {.key = "before_window_count",
         .doc = "Records of work that ended before the window",
         .unit = table::Unit::kCount}},
       {&GpuRecord::after_window_count,
        {.key = "after_window_count",
         .doc = "Records of work that began after the window",
         .unit = table::Unit::kCount}},
       {&GpuRecord::filtered_api_count,
        {.key = "filtered_api_count",
         .doc = "High-frequency API calls, not kept",
         .unit = table::Unit::kCount}},
       {&GpuRecord::orphan_count,
        {.key = "orphan_count",
         .doc = "Records kept whose launch is not in the capture",
         .unit = table::Unit::kCount}},
       {&GpuRecord::straddling_count,
        {.key = "straddling_count",
         .doc = "Records of work across the window start or end",
         .unit = table::Unit::kCount}},
       {&GpuRecord::unfinished_count,
        {.key = "unfinished_count",
         .doc = "Records of work that had not ended",
         .unit = table::Unit::kCount}}},
      {ListOf<GpuRecord>(
           "devices", "GPUs visible to the target", &GpuDeviceObject,
           [](const GpuRecord& row) -> const auto& { return row.devices; }),
       ListOf<GpuRecord>(
           "kind_failures", "Record kinds refused by CUPTI", &GpuKindFailureObject,
           [](const GpuRecord& row) -> const auto& { return row.kind_failures; })});
  return object;
}

const ObjectDescription<ImportRecord>& ImportObject() {
  static const ObjectDescription<ImportRecord> object(
      {{&ImportRecord::source, {.key = "source", .doc = "The file's name without its folder"}},
       {&ImportRecord::producer,
        {.key = "producer", .doc = "Program that wrote the trace; empty: unknown"}},
       {&ImportRecord::time_unit_ns,
        {.key = "time_unit_ns", .doc = "Resolution of its times", .unit = table::Unit::kNs}}},
      {MapOf<ImportRecord>(
          "not_understood", "Events that were not imported, by kind", "integer",
          [](const ImportRecord& row) -> const auto& { return row.not_understood; })});
  return object;
}

const ObjectDescription<TargetInfo>& CapturedTargetObject() {
  static const ObjectDescription<TargetInfo> object(
      {{&TargetInfo::pid, {.key = "pid", .doc = "Process ID on the daemon's node"}},
       {&TargetInfo::namespace_pid,
        {.key = "namespace_pid", .doc = "Process ID in the process's own PID namespace"}},
       {&TargetInfo::uid, {.key = "uid", .doc = "User ID of the process"}},
       {&TargetInfo::command, {.key = "command", .doc = "Command line, at most 4 KiB"}},
       {&TargetInfo::cgroup, {.key = "cgroup", .doc = "cgroup of the process"}},
       {&TargetInfo::library_version,
        {.key = "library_version", .doc = "Version of the client library in the process"}}},
      {MapOf<TargetInfo>(
          "metadata", "Metadata set by the program, such as rank and job", "string",
          [](const TargetInfo& row) -> const auto& { return row.metadata; })});
  return object;
}

const ObjectDescription<WindowRecord>& CaptureWindowObject() {
  static const ObjectDescription<WindowRecord> object(
      {{&WindowRecord::start_ns,
        {.key = "start_ns",
         .doc = "Start, relative to the start of the first window",
         .unit = table::Unit::kNs}},
       {&WindowRecord::end_ns,
        {.key = "end_ns",
         .doc = "End, relative to the start of the first window",
         .unit = table::Unit::kNs}},
       {&WindowRecord::first_step,
        {.key = "first_step", .doc = "Number of the first step; -1: no steps"}},
       {&WindowRecord::end_step,
        {.key = "end_step", .doc = "Number of the last step plus one; -1: no steps"}}});
  return object;
}

const ObjectDescription<StepRecord>& StepObject() {
  static const ObjectDescription<StepRecord> object(
      {{&StepRecord::index, {.key = "index", .doc = "Step number of the program"}},
       {&StepRecord::window, {.key = "window", .doc = "Window of the step, from 0"}},
       {&StepRecord::start_ns,
        {.key = "start_ns",
         .doc = "Start, relative to the start of the first window",
         .unit = table::Unit::kNs}},
       {&StepRecord::duration_ns,
        {.key = "duration_ns", .doc = "Duration of the step", .unit = table::Unit::kNs}}});
  return object;
}

const ObjectDescription<report::StepLabel>& StepLabelObject() {
  static const ObjectDescription<report::StepLabel> object(
      {{&report::StepLabel::name,
        {.key = "name", .doc = "Counter of the framework, such as epoch or global_step"}},
       {&report::StepLabel::value, {.key = "value", .doc = "Value of the counter"}},
       {&report::StepLabel::step,
        {.key = "step", .doc = "Last step started before the label; -1: none"}}});
  return object;
}

const ObjectDescription<SlowdownRecord>& SlowdownObject() {
  static const ObjectDescription<SlowdownRecord> object(
      {{&SlowdownRecord::known, {.key = "known", .doc = "Whether the slow-down was measured"}},
       {&SlowdownRecord::unknown_reason,
        {.key = "unknown_reason", .doc = "Reason why it was not measured; empty: measured"}},
       {&SlowdownRecord::estimate,
        {.key = "estimate",
         .doc = "Estimated slow-down of steps by the capture; 0.05 is 5 %",
         .unit = table::Unit::kRatio}},
       {&SlowdownRecord::low,
        {.key = "low", .doc = "Lower end of the 95 % interval", .unit = table::Unit::kRatio}},
       {&SlowdownRecord::high,
        {.key = "high", .doc = "Upper end of the 95 % interval", .unit = table::Unit::kRatio}},
       {&SlowdownRecord::before_step_count,
        {.key = "before_step_count",
         .doc = "Steps compared before the window",
         .unit = table::Unit::kCount}},
       {&SlowdownRecord::during_step_count,
        {.key = "during_step_count",
         .doc = "Steps compared in the window",
         .unit = table::Unit::kCount}},
       {&SlowdownRecord::after_step_count,
        {.key = "after_step_count", .doc = "Steps after the window", .unit = table::Unit::kCount}},
       {&SlowdownRecord::cupti_stays,
        {.key = "cupti_stays",
         .doc = "Whether CUPTI stays in the process; the slow-down then compares with the steps "
                "before the window alone"}},
       {&SlowdownRecord::remains_known,
        {.key = "remains_known", .doc = "Whether what remains was measured; only if CUPTI stays"}},
       {&SlowdownRecord::remains,
        {.key = "remains",
         .doc = "Estimated slow-down of steps after the window, compared with those before it",
         .unit = table::Unit::kRatio}},
       {&SlowdownRecord::remains_low,
        {.key = "remains_low",
         .doc = "Lower end of its 95 % interval",
         .unit = table::Unit::kRatio}},
       {&SlowdownRecord::remains_high,
        {.key = "remains_high",
         .doc = "Upper end of its 95 % interval",
         .unit = table::Unit::kRatio}}});
  return object;
}

// ---- The capture.

const CaptureRecord& Record(const CaptureJson& row) { return row.view->record; }

}  // namespace

const ObjectDescription<CaptureJson>& CaptureObject() {
  using Row = CaptureJson;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return Record(row).id; }, {.key = "id", .doc = "Capture ID, a ULID"}},
       {[](const Row& row) { return Record(row).group_id; },
        {.key = "group", .doc = "Group of the capture; empty: none"}},
       {[](const Row& row) { return row.view->state; },
        {.key = "state", .doc = "PENDING to COMPLETE, PARTIAL, FAILED, or CANCELLED"}},
       {[](const Row& row) { return row.view->ended_by; },
        {.key = "ended_by",
         .doc = "Reason for the end; empty: not ended. Says nothing about imported traces"}},
       {[](const Row& row) { return Record(row).error_reason; },
        {.key = "error_reason", .doc = "Stable error reason; empty: no error"}},
       {[](const Row& row) { return Record(row).error_message; },
        {.key = "error_message", .doc = "Error message"}},
       {[](const Row& row) { return Record(row).spec.display_name; },
        {.key = "display_name", .doc = "Name given by its creator"}},
       {[](const Row& row) { return Record(row).node; },
        {.key = "node", .doc = "Node of the capture"}},
       {[](const Row& row) { return Record(row).requested_by_uid; },
        {.key = "requested_by_uid", .doc = "User ID of the requester; -1: not a user of the node"}},
       {[](const Row& row) { return Record(row).requested_by; },
        {.key = "requested_by", .doc = "Requester, such as uid:1000 or cn:alice"}},
       {[](const Row& row) { return Record(row).schedule_id; },
        {.key = "schedule", .doc = "Schedule that made the capture; empty: none"}},
       {[](const Row& row) { return Record(row).schedule_window_unix_ns; },
        {.key = "schedule_window_unix_ns",
         .doc = "Schedule window, since 1970-01-01 UTC",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).sampling_weight; },
        {.key = "sampling_weight",
         .doc = "Sampling weight: 1 / probability of choosing the target"}},
       {[](const Row& row) { return Record(row).request_id; },
        {.key = "request_id", .doc = "Request ID given by the caller"}},
       {[](const Row& row) { return UnixNanosOrZero(Record(row).create_time); },
        {.key = "create_unix_ns",
         .doc = "Time of the request, since 1970-01-01 UTC",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return UnixNanosOrZero(Record(row).armed_time); },
        {.key = "armed_unix_ns",
         .doc = "Time when the target was armed, since 1970-01-01 UTC; 0: not armed",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return UnixNanosOrZero(Record(row).end_time); },
        {.key = "end_unix_ns", .doc = "Time of the end; 0: not ended", .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).start_unix_ns; },
        {.key = "start_unix_ns",
         .doc = "Start of the first window, since 1970-01-01 UTC; 0: nothing was recorded",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).covered_ns; },
        {.key = "covered_ns", .doc = "Total length of its windows", .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).covered_steps; },
        {.key = "covered_steps", .doc = "Complete steps recorded", .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).current_step; },
        {.key = "current_step", .doc = "Step being recorded; -1: none"}},
       {[](const Row& row) { return Record(row).event_count; },
        {.key = "event_count", .doc = "Events kept", .unit = table::Unit::kCount}},
       {[](const Row& row) { return row.view->dropped_event_count; },
        {.key = "dropped_event_count", .doc = "Lost events", .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).warmup_event_count; },
        {.key = "warmup_event_count",
         .doc = "Events before the window, discarded",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).open_range_count; },
        {.key = "open_range_count",
         .doc = "Ranges open at the window end",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).truncated_range_count; },
        {.key = "truncated_range_count",
         .doc = "Ranges open at the window start",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).other_name_event_count; },
        {.key = "other_name_event_count",
         .doc = "Events named (other), because the program uses too many distinct names",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).foreign_step_mark_count; },
        {.key = "foreign_step_mark_count",
         .doc = "Step marks of other threads or asyncio tasks, not counted as steps",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).clock_error_ns; },
        {.key = "clock_error_ns", .doc = "Maximum error of any time", .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).step_before_ns; },
        {.key = "step_before_ns",
         .doc = "Median step time before the window; 0: not known",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).step_during_ns; },
        {.key = "step_during_ns",
         .doc = "Median step time in the window, as in `profctl steps`; in older captures with "
                "--step-source or --step-marker, the mean; 0: not known",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).step_after_ns; },
        {.key = "step_after_ns",
         .doc = "Median step time after the window; 0: not known",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).around_step_count; },
        {.key = "around_step_count",
         .doc = "Steps before and after the window whose times are known, without the program's "
                "first ten",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).around_step_mean_ns; },
        {.key = "around_step_mean_ns",
         .doc = "Mean time of those steps; 0: none",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).around_slow_step_count; },
        {.key = "around_slow_step_count",
         .doc = "How many of them took longer than 1.5 times their median",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return row.view->quality; },
        {.key = "quality", .doc = "Quality grade, A to D; -: not ended"}},
       {[](const Row& row) { return QualityOf(Record(row)).stored; },
        {.key = "quality_stored", .doc = "Whether the grade was stored when the capture ended"}},
       {[](const Row& row) { return Record(row).file_bytes; },
        {.key = "file_bytes",
         .doc = "Size of the capture file; 0: no file",
         .unit = table::Unit::kBytes}},
       {[](const Row& row) { return Record(row).file_sha256; },
        {.key = "file_sha256", .doc = "SHA-256 of the capture file; empty: no file"}},
       {[](const Row& row) { return Record(row).deleted; },
        {.key = "deleted", .doc = "Whether its events were removed"}},
       {[](const Row& row) { return Record(row).evicted; },
        {.key = "evicted", .doc = "Whether they were removed to make room for others"}},
       {[](const Row& row) { return row.view->pinned; },
        {.key = "pinned", .doc = "Whether the capture is pinned: never removed to make room"}},
       {[](const Row& row) { return row.view->evicted_count; },
        {.key = "evicted_count",
         .doc = "Captures whose events were removed to make room for this one",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).activity; },
        {.key = "activity", .doc = "Progress of arming"}},
       {[](const Row& row) { return Record(row).gpu.simulated; },
        {.key = "simulated", .doc = "Whether the GPU was simulated by software"}}},
      {MapOf<Row>(
           "labels", "Labels given by its creator", "string",
           [](const Row& row) -> const auto& { return Record(row).spec.labels; }),
       ListOf<Row>(
           "windows", "Windows of the capture", &CaptureWindowObject,
           [](const Row& row) -> const auto& { return Record(row).windows; }),
       ListOf<Row>(
           "steps", "Steps of the capture, if requested", &StepObject,
           [](const Row& row) -> const auto& { return row.view->steps; }),
       TextsOf<Row>(
           "evicted_ids", "IDs of those that were yours, oldest first, at most 16",
           [](const Row& row) -> const auto& { return row.view->evicted_ids; }),
       MapOf<Row>(
           "dropped_by_reason", "Lost events, by reason", "integer",
           [](const Row& row) -> const auto& { return row.view->dropped_by_reason; }),
       ObjectOf<Row>(
           "slowdown", "Slow-down of the target by the capture", &SlowdownObject,
           [](const Row& row) -> const auto& { return Record(row).slowdown; }),
       ListOf<Row>("quality_checks", "Checks that determine the grade", &report::QualityCheckObject,
                   [](const Row& row) { return QualityOf(Record(row)).checks; }),
       ObjectOf<Row>(
           "gpu", "Result of recording the GPU", &GpuRecordObject,
           [](const Row& row) -> const auto& { return Record(row).gpu; }),
       ObjectOf<Row>(
           "torch", "Result of recording PyTorch", &TorchRecordObject,
           [](const Row& row) -> const auto& { return Record(row).torch; }),
       Optional<Row>([](const Row& row) { return !Record(row).imported.source.empty(); },
                     ObjectOf<Row>(
                         "imported", "Imported trace", &ImportObject,
                         [](const Row& row) -> const auto& { return Record(row).imported; })),
       ObjectOf<Row>(
           "spec", "Options of the capture", &SpecObject,
           [](const Row& row) -> const auto& { return Record(row).spec; }),
       ObjectOf<Row>(
           "target", "Captured process", &CapturedTargetObject,
           [](const Row& row) -> const auto& { return Record(row).target; }),
       Optional<Row>([](const Row& row) { return !row.path.empty(); },
                     TextOf<Row>("path", "File to which the capture was fetched",
                                 [](const Row& row) { return row.path; })),
       Optional<Row>([](const Row& row) { return !row.step_labels.empty(); },
                     ListOf<Row>("step_labels", "Step labels of a framework", &StepLabelObject,
                                 [](const Row& row) { return row.step_labels; }))});
  return object;
}

std::vector<CaptureJson> CaptureRowsOf(std::span<const CaptureView> views,
                                       std::span<const std::string> paths) {
  std::vector<CaptureJson> rows;
  rows.reserve(views.size());
  for (size_t i = 0; i < views.size(); ++i) {
    rows.push_back({.view = &views[i], .path = i < paths.size() ? paths[i] : std::string_view()});
  }
  return rows;
}

namespace {

struct CaptureList {
  std::vector<CaptureJson> captures;
  const std::vector<NodeOutcome>* outcomes = nullptr;
};

const ObjectDescription<CaptureList>& CaptureListObject() {
  using Row = CaptureList;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
               "captures", "Captures, newest first", &CaptureObject,
               [](const Row& row) -> const auto& { return row.captures; }),
           NodeOutcomesMember<Row>()});
  return object;
}

}  // namespace

void WriteCaptureJson(const CaptureView& view, std::string_view path, JsonWriter& json,
                      std::span<const report::StepLabel> step_labels) {
  CaptureObject().Write({&view, path, step_labels}, json);
}

void WriteCaptureListJson(std::span<const CaptureView> views,
                          const std::vector<NodeOutcome>* outcomes, JsonWriter& json) {
  CaptureListObject().Write({CaptureRowsOf(views), outcomes}, json);
}
void WriteCaptureListSchema(JsonWriter& json) { CaptureListObject().WriteSchema(json); }

const table::Description<CaptureView>& ReportHeaderColumns() {
  static const table::Description<CaptureView> columns = {
      {[](const CaptureView& view) { return view.record.id; },
       {.key = "id", .title = "Capture", .doc = "The capture's ULID"}},
      {&CaptureView::state,
       {.key = "state", .title = "State", .doc = "COMPLETE, PARTIAL, FAILED, or CANCELLED"}},
      {&CaptureView::ended_by,
       {.key = "ended_by", .title = "Ended by", .doc = "Reason for the end"}},
      {[](const CaptureView& view) { return view.record.start_unix_ns; },
       {.key = "start_unix_ns",
        .title = "Start",
        .doc = "Start of the window, since 1970-01-01 UTC",
        .unit = table::Unit::kNs}},
      {&CaptureView::quality,
       {.key = "quality", .title = "Quality", .doc = "The grade, A to D; -: none"}},
      {[](const CaptureView& view) { return view.record.event_count; },
       {.key = "event_count",
        .title = "Events",
        .doc = "Events kept",
        .unit = table::Unit::kCount}},
      {&CaptureView::dropped_event_count,
       {.key = "dropped_event_count",
        .title = "Lost",
        .doc = "Lost events",
        .unit = table::Unit::kCount}},
      {[](const CaptureView& view) { return std::string(ToString(SharesOf(view))); },
       {.key = "shares",
        .title = "Shares",
        .doc = "Reliability of percentages: whole, marked, or withheld"}},
      {[](const CaptureView& view) { return view.record.gpu.simulated; },
       {.key = "simulated",
        .title = "Simulated",
        .doc = "Whether the GPU was simulated by software"}}};
  return columns;
}

void WriteReportHeaderJson(const CaptureView& view, JsonWriter& json) {
  table::WriteFields(ReportHeaderColumns(), view, json);
}

}  // namespace profd::cli
