// A capture as JSON: `show`, `captures`, `trace`, and the header of every report.
#include "cli/base/object.h"
#include "cli/render/capture.h"
#include "daemon/base/table/json.h"
#include "daemon/capture/quality.h"

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
        {.key = "mode", .doc = "What of the GPU to record: auto, off, light, default, full"}},
       {&GpuSpec::buffer_bytes,
        {.key = "buffer_bytes",
         .doc = "Most memory for CUPTI's buffers in the target",
         .unit = table::Unit::kBytes}},
       {&GpuSpec::max_records,
        {.key = "max_records",
         .doc = "Records at which recording the GPU stops",
         .unit = table::Unit::kCount}},
       {&GpuSpec::detach, {.key = "detach", .doc = "Whether to detach from CUPTI afterwards"}},
       {&GpuSpec::latency,
        {.key = "latency", .doc = "Whether to record when kernels were queued and submitted"}}});
  return object;
}

const ObjectDescription<TorchSpec>& TorchSpecObject() {
  static const ObjectDescription<TorchSpec> object(
      {{[](const TorchSpec& row) { return std::string(ToString(row.operators)); },
        {.key = "operators", .doc = "What of operators to record: auto, off, names, shapes"}},
       {&TorchSpec::strides, {.key = "strides", .doc = "Whether to record strides of inputs"}},
       {&TorchSpec::memory, {.key = "memory", .doc = "Whether to record allocations"}},
       {[](const TorchSpec& row) { return std::string(ToString(row.step_source)); },
        {.key = "step_source", .doc = "Whose steps to count; none: the target's own"}}});
  return object;
}

const ObjectDescription<CaptureSpec>& SpecObject() {
  static const ObjectDescription<CaptureSpec> object(
      {{&CaptureSpec::steps,
        {.key = "steps", .doc = "Complete steps of a window; 0: by `duration_ns`"}},
       {&CaptureSpec::warmup_steps,
        {.key = "warmup_steps", .doc = "Discarded steps before each window"}},
       {&CaptureSpec::wait_steps,
        {.key = "wait_steps", .doc = "Steps without recording before each warm-up"}},
       {&CaptureSpec::repeat, {.key = "repeat", .doc = "Number of windows"}},
       {&CaptureSpec::start_step,
        {.key = "start_step", .doc = "The first recorded step; -1: the next"}},
       {[](const CaptureSpec& row) { return absl::ToInt64Nanoseconds(row.duration); },
        {.key = "duration_ns",
         .doc = "Length of the window; 0: by `steps`",
         .unit = table::Unit::kNs}},
       {[](const CaptureSpec& row) { return absl::ToInt64Nanoseconds(row.timeout); },
        {.key = "timeout_ns",
         .doc = "Most time from creation to the end of the window",
         .unit = table::Unit::kNs}},
       {&CaptureSpec::memory_bytes,
        {.key = "memory_bytes", .doc = "Capture memory", .unit = table::Unit::kBytes}},
       {&CaptureSpec::allow_less_memory,
        {.key = "allow_less_memory",
         .doc = "Whether less memory is enough where the node is at its limit"}},
       {&CaptureSpec::max_bytes,
        {.key = "max_bytes", .doc = "Most bytes of the capture file", .unit = table::Unit::kBytes}},
       {&CaptureSpec::step_marker,
        {.key = "step_marker", .doc = "The range whose every begin is a step; empty: none"}}},
      {ObjectOf<CaptureSpec>(
           "gpu", "What of the GPU", &GpuSpecObject,
           [](const CaptureSpec& row) -> const auto& { return row.gpu; }),
       ObjectOf<CaptureSpec>(
           "torch", "What of PyTorch", &TorchSpecObject,
           [](const CaptureSpec& row) -> const auto& { return row.torch; })});
  return object;
}

// ---- What was recorded.

const ObjectDescription<TorchMissing>& TorchMissingObject() {
  static const ObjectDescription<TorchMissing> object(
      {{&TorchMissing::feature, {.key = "feature", .doc = "What was not recorded"}},
       {&TorchMissing::reason, {.key = "reason", .doc = "Why it was not recorded"}}});
  return object;
}

const ObjectDescription<TorchRecord>& TorchRecordObject() {
  static const ObjectDescription<TorchRecord> object(
      {{[](const TorchRecord& row) { return std::string(ToString(row.outcome)); },
        {.key = "outcome",
         .doc = "How recording PyTorch went: off, no_torch, recorded, limited, unknown"}},
       {[](const TorchRecord& row) { return std::string(ToString(row.operators)); },
        {.key = "operators", .doc = "What of operators was recorded: off, names, shapes"}},
       {&TorchRecord::memory, {.key = "memory", .doc = "Whether allocations were recorded"}},
       {&TorchRecord::version, {.key = "version", .doc = "Version of torch; empty: not known"}},
       {[](const TorchRecord& row) { return std::string(ToString(row.step_source)); },
        {.key = "step_source", .doc = "Whose steps were counted"}},
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
         .doc = "Blocks of memory whose owner is known",
         .unit = table::Unit::kCount}},
       {&TorchRecord::folded_count,
        {.key = "folded_count",
         .doc = "Operators inside of compilations, left out on purpose",
         .unit = table::Unit::kCount}},
       {&TorchRecord::cut_input_count,
        {.key = "cut_input_count",
         .doc = "Operators of which not all inputs were kept",
         .unit = table::Unit::kCount}},
       {&TorchRecord::odd_tensor_count,
        {.key = "odd_tensor_count",
         .doc = "Inputs that did not look like tensors",
         .unit = table::Unit::kCount}},
       {&TorchRecord::lost_note_count,
        {.key = "lost_note_count",
         .doc = "Notes and blocks for which there was no room",
         .unit = table::Unit::kCount}},
       {&TorchRecord::missed_memory_count,
        {.key = "missed_memory_count",
         .doc = "Allocations that came while the library recorded",
         .unit = table::Unit::kCount}}},
      {ListOf<TorchRecord>(
          "missing", "What was asked for and not recorded", &TorchMissingObject,
          [](const TorchRecord& row) -> const auto& { return row.missing; })});
  return object;
}

const ObjectDescription<GpuDevice>& GpuDeviceObject() {
  static const ObjectDescription<GpuDevice> object(
      {{&GpuDevice::number, {.key = "number", .doc = "Its number in the target, as CUDA counts"}},
       {&GpuDevice::name, {.key = "name", .doc = "Its product name"}},
       {&GpuDevice::uuid, {.key = "uuid", .doc = "Its UUID; empty: not known"}},
       {&GpuDevice::memory_bytes,
        {.key = "memory_bytes", .doc = "Its memory", .unit = table::Unit::kBytes}},
       {&GpuDevice::compute_major,
        {.key = "compute_major", .doc = "Compute capability, before the point"}},
       {&GpuDevice::compute_minor,
        {.key = "compute_minor", .doc = "Compute capability, behind the point"}},
       {&GpuDevice::sm_count,
        {.key = "sm_count", .doc = "Its multiprocessors", .unit = table::Unit::kCount}}});
  return object;
}

const ObjectDescription<GpuKindFailure>& GpuKindFailureObject() {
  static const ObjectDescription<GpuKindFailure> object(
      {{&GpuKindFailure::kind, {.key = "kind", .doc = "The kind of record"}},
       {&GpuKindFailure::result, {.key = "result", .doc = "What CUPTI answered"}}});
  return object;
}

const ObjectDescription<GpuRecord>& GpuRecordObject() {
  static const ObjectDescription<GpuRecord> object(
      {{[](const GpuRecord& row) { return std::string(ToString(row.outcome)); },
        {.key = "outcome",
         .doc = "How recording the GPU went: off, no_cuda, recorded, broken, unknown"}},
       {[](const GpuRecord& row) { return std::string(ToString(row.mode)); },
        {.key = "mode", .doc = "What was recorded: off, light, default, full"}},
       {&GpuRecord::problem, {.key = "problem", .doc = "What went wrong; empty: nothing"}},
       {&GpuRecord::simulated,
        {.key = "simulated", .doc = "Whether the GPU was simulated by software"}},
       {&GpuRecord::cupti_version,
        {.key = "cupti_version", .doc = "Version of CUPTI, 130001 for 13.0 update 1"}},
       {&GpuRecord::driver_version,
        {.key = "driver_version",
         .doc = "CUDA version of the driver, 13000 for 13.0; 0: not known"}},
       {&GpuRecord::arm_ns,
        {.key = "arm_ns", .doc = "Time until CUPTI was recording", .unit = table::Unit::kNs}},
       {&GpuRecord::clock_error_ns,
        {.key = "clock_error_ns",
         .doc = "Most error of times on the GPU",
         .unit = table::Unit::kNs}},
       {&GpuRecord::clock_step_count,
        {.key = "clock_step_count",
         .doc = "How often the GPU's clock was corrected",
         .unit = table::Unit::kCount}},
       {&GpuRecord::peak_pool_bytes,
        {.key = "peak_pool_bytes",
         .doc = "Most memory that CUPTI's buffers took in the target",
         .unit = table::Unit::kBytes}},
       {&GpuRecord::record_count,
        {.key = "record_count", .doc = "Records that CUPTI gave", .unit = table::Unit::kCount}},
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
         .doc = "Calls left out, because they are too many and say nothing",
         .unit = table::Unit::kCount}},
       {&GpuRecord::orphan_count,
        {.key = "orphan_count",
         .doc = "Records kept although their launch is not in the capture",
         .unit = table::Unit::kCount}},
       {&GpuRecord::straddling_count,
        {.key = "straddling_count",
         .doc = "Records of work across an end of the window",
         .unit = table::Unit::kCount}},
       {&GpuRecord::unfinished_count,
        {.key = "unfinished_count",
         .doc = "Records of work that had not ended",
         .unit = table::Unit::kCount}}},
      {ListOf<GpuRecord>(
           "devices", "The GPUs that the target could use", &GpuDeviceObject,
           [](const GpuRecord& row) -> const auto& { return row.devices; }),
       ListOf<GpuRecord>(
           "kind_failures", "Kinds of records that CUPTI refused", &GpuKindFailureObject,
           [](const GpuRecord& row) -> const auto& { return row.kind_failures; })});
  return object;
}

const ObjectDescription<ImportRecord>& ImportObject() {
  static const ObjectDescription<ImportRecord> object(
      {{&ImportRecord::source, {.key = "source", .doc = "The file's name without its folder"}},
       {&ImportRecord::producer,
        {.key = "producer", .doc = "What wrote it; empty: it does not say"}},
       {&ImportRecord::time_unit_ns,
        {.key = "time_unit_ns", .doc = "How fine its times are", .unit = table::Unit::kNs}}},
      {MapOf<ImportRecord>(
          "not_understood", "Events that were not imported, by kind", "integer",
          [](const ImportRecord& row) -> const auto& { return row.not_understood; })});
  return object;
}

const ObjectDescription<TargetInfo>& CapturedTargetObject() {
  static const ObjectDescription<TargetInfo> object(
      {{&TargetInfo::pid, {.key = "pid", .doc = "The process, as the daemon's node numbers it"}},
       {&TargetInfo::namespace_pid,
        {.key = "namespace_pid", .doc = "The process, as its own namespace numbers it"}},
       {&TargetInfo::uid, {.key = "uid", .doc = "The user who runs it"}},
       {&TargetInfo::command,
        {.key = "command", .doc = "Its arguments, separated by blanks, at most 4 KiB"}},
       {&TargetInfo::cgroup, {.key = "cgroup", .doc = "Its cgroup"}},
       {&TargetInfo::library_version,
        {.key = "library_version", .doc = "Version of the client library in it"}}},
      {MapOf<TargetInfo>(
          "metadata", "What the program says of itself, such as rank and job", "string",
          [](const TargetInfo& row) -> const auto& { return row.metadata; })});
  return object;
}

const ObjectDescription<WindowRecord>& CaptureWindowObject() {
  static const ObjectDescription<WindowRecord> object(
      {{&WindowRecord::start_ns,
        {.key = "start_ns",
         .doc = "Its begin, since that of the first window",
         .unit = table::Unit::kNs}},
       {&WindowRecord::end_ns,
        {.key = "end_ns",
         .doc = "Its end, since the begin of the first window",
         .unit = table::Unit::kNs}},
       {&WindowRecord::first_step, {.key = "first_step", .doc = "Its first step; -1: it has none"}},
       {&WindowRecord::end_step,
        {.key = "end_step", .doc = "The number after its last step; -1: it has none"}}});
  return object;
}

const ObjectDescription<StepRecord>& StepObject() {
  static const ObjectDescription<StepRecord> object(
      {{&StepRecord::index, {.key = "index", .doc = "Its number, as the program counts"}},
       {&StepRecord::window, {.key = "window", .doc = "The window that it is in, from 0"}},
       {&StepRecord::start_ns,
        {.key = "start_ns",
         .doc = "Its begin, since that of the first window",
         .unit = table::Unit::kNs}},
       {&StepRecord::duration_ns,
        {.key = "duration_ns", .doc = "Its duration", .unit = table::Unit::kNs}}});
  return object;
}

const ObjectDescription<report::StepLabel>& StepLabelObject() {
  static const ObjectDescription<report::StepLabel> object(
      {{&report::StepLabel::name,
        {.key = "name", .doc = "What the framework counts, such as epoch or global_step"}},
       {&report::StepLabel::value, {.key = "value", .doc = "Its count"}},
       {&report::StepLabel::step,
        {.key = "step", .doc = "The last step that had begun; -1: none had"}}});
  return object;
}

const ObjectDescription<SlowdownRecord>& SlowdownObject() {
  static const ObjectDescription<SlowdownRecord> object(
      {{&SlowdownRecord::known, {.key = "known", .doc = "Whether it could be measured"}},
       {&SlowdownRecord::unknown_reason,
        {.key = "unknown_reason", .doc = "Why not; empty: it could"}},
       {&SlowdownRecord::estimate,
        {.key = "estimate",
         .doc = "How much longer steps took because of the capture; 0.05 is 5 %",
         .unit = table::Unit::kRatio}},
       {&SlowdownRecord::low,
        {.key = "low", .doc = "Lower end of the 95 % interval", .unit = table::Unit::kRatio}},
       {&SlowdownRecord::high,
        {.key = "high", .doc = "Upper end of the 95 % interval", .unit = table::Unit::kRatio}},
       {&SlowdownRecord::before_step_count,
        {.key = "before_step_count",
         .doc = "Steps compared, before the window",
         .unit = table::Unit::kCount}},
       {&SlowdownRecord::during_step_count,
        {.key = "during_step_count",
         .doc = "Steps compared, in the window",
         .unit = table::Unit::kCount}},
       {&SlowdownRecord::after_step_count,
        {.key = "after_step_count",
         .doc = "Steps compared, after the window",
         .unit = table::Unit::kCount}}});
  return object;
}

const ObjectDescription<QualityCheck>& QualityCheckObject() {
  static const ObjectDescription<QualityCheck> object(
      {{&QualityCheck::name, {.key = "check", .doc = "Its name"}},
       {[](const QualityCheck& row) { return std::string(1, row.grade); },
        {.key = "grade", .doc = "The best grade that it allows, A to D"}},
       {&QualityCheck::known, {.key = "known", .doc = "Whether the capture shows it"}},
       {&QualityCheck::value, {.key = "value", .doc = "What was found"}},
       {&QualityCheck::bound, {.key = "bound", .doc = "The value above which the check fails"}},
       {&QualityCheck::sentence, {.key = "sentence", .doc = "What was found, in words"}}});
  return object;
}

// ---- The capture.

struct CaptureJson {
  const CaptureView* view = nullptr;
  std::string_view path;
  std::span<const report::StepLabel> step_labels;
};

const CaptureRecord& Record(const CaptureJson& row) { return row.view->record; }

const ObjectDescription<CaptureJson>& CaptureObject() {
  using Row = CaptureJson;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return Record(row).id; }, {.key = "id", .doc = "Its ULID"}},
       {[](const Row& row) { return Record(row).group_id; },
        {.key = "group", .doc = "The group that it is part of; empty: none"}},
       {[](const Row& row) { return row.view->state; },
        {.key = "state", .doc = "PENDING to COMPLETE, PARTIAL, FAILED, or CANCELLED"}},
       {[](const Row& row) { return row.view->ended_by; },
        {.key = "ended_by", .doc = "Why it ended; empty: it has not"}},
       {[](const Row& row) { return Record(row).error_reason; },
        {.key = "error_reason", .doc = "Why it failed, as a constant; empty: it did not"}},
       {[](const Row& row) { return Record(row).error_message; },
        {.key = "error_message", .doc = "Why it failed, in words"}},
       {[](const Row& row) { return Record(row).spec.display_name; },
        {.key = "display_name", .doc = "Name given by its creator"}},
       {[](const Row& row) { return Record(row).node; },
        {.key = "node", .doc = "The machine that it was made on"}},
       {[](const Row& row) { return Record(row).requested_by_uid; },
        {.key = "requested_by_uid", .doc = "The user who asked for it; -1: no user of the node"}},
       {[](const Row& row) { return Record(row).requested_by; },
        {.key = "requested_by", .doc = "Who asked for it: uid:1000, cn:alice"}},
       {[](const Row& row) { return Record(row).schedule_id; },
        {.key = "schedule", .doc = "The schedule that made it; empty: none"}},
       {[](const Row& row) { return Record(row).schedule_window_unix_ns; },
        {.key = "schedule_window_unix_ns",
         .doc = "The window of the schedule, since 1970-01-01 UTC",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).sampling_weight; },
        {.key = "sampling_weight",
         .doc = "What it stands for: 1 / the chance of choosing the target"}},
       {[](const Row& row) { return Record(row).request_id; },
        {.key = "request_id", .doc = "The caller's ID of the request"}},
       {[](const Row& row) { return UnixNanosOrZero(Record(row).create_time); },
        {.key = "create_unix_ns",
         .doc = "When it was asked for, since 1970-01-01 UTC",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return UnixNanosOrZero(Record(row).armed_time); },
        {.key = "armed_unix_ns",
         .doc = "When the target was ready; 0: it was not",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return UnixNanosOrZero(Record(row).end_time); },
        {.key = "end_unix_ns", .doc = "When it ended; 0: it has not", .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).start_unix_ns; },
        {.key = "start_unix_ns",
         .doc = "When the first window began; 0: nothing was recorded",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).covered_ns; },
        {.key = "covered_ns", .doc = "Length of its windows", .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).covered_steps; },
        {.key = "covered_steps", .doc = "Complete steps recorded", .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).current_step; },
        {.key = "current_step", .doc = "The step that it records; -1: none"}},
       {[](const Row& row) { return Record(row).event_count; },
        {.key = "event_count", .doc = "Events kept", .unit = table::Unit::kCount}},
       {[](const Row& row) { return row.view->dropped_event_count; },
        {.key = "dropped_event_count",
         .doc = "Events that could not be kept",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).warmup_event_count; },
        {.key = "warmup_event_count",
         .doc = "Events before the window, discarded",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).open_range_count; },
        {.key = "open_range_count",
         .doc = "Ranges that were open at the end of the window",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).truncated_range_count; },
        {.key = "truncated_range_count",
         .doc = "Ranges that were open at the begin of the window",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).other_name_event_count; },
        {.key = "other_name_event_count",
         .doc = "Events whose name became (other), because there were too many names",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).foreign_step_mark_count; },
        {.key = "foreign_step_mark_count",
         .doc = "Step marks of threads whose steps do not count",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return Record(row).clock_error_ns; },
        {.key = "clock_error_ns", .doc = "Most error of any time", .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).step_before_ns; },
        {.key = "step_before_ns",
         .doc = "Median step time before the window; 0: not known",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).step_during_ns; },
        {.key = "step_during_ns",
         .doc = "Median step time in the window; 0: not known",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return Record(row).step_after_ns; },
        {.key = "step_after_ns",
         .doc = "Median step time after the window; 0: not known",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return row.view->quality; },
        {.key = "quality",
         .doc = "How far its numbers can be trusted, A to D; -: it has not ended"}},
       {[](const Row& row) { return QualityOf(Record(row)).stored; },
        {.key = "quality_stored", .doc = "Whether the grade is the one stored at its end"}},
       {[](const Row& row) { return Record(row).file_bytes; },
        {.key = "file_bytes",
         .doc = "Bytes of the capture file; 0: there is none",
         .unit = table::Unit::kBytes}},
       {[](const Row& row) { return Record(row).file_sha256; },
        {.key = "file_sha256", .doc = "Hash of the capture file; empty: there is none"}},
       {[](const Row& row) { return Record(row).deleted; },
        {.key = "deleted", .doc = "Whether its events were removed"}},
       {[](const Row& row) { return row.view->pinned; },
        {.key = "pinned", .doc = "Whether its events are never removed to make room"}},
       {[](const Row& row) { return Record(row).activity; },
        {.key = "activity", .doc = "What the target is doing while it arms"}},
       {[](const Row& row) { return Record(row).gpu.simulated; },
        {.key = "simulated", .doc = "Whether the GPU was simulated by software"}}},
      {MapOf<Row>(
           "labels", "Labels given by its creator", "string",
           [](const Row& row) -> const auto& { return Record(row).spec.labels; }),
       ListOf<Row>(
           "windows", "Its windows", &CaptureWindowObject,
           [](const Row& row) -> const auto& { return Record(row).windows; }),
       ListOf<Row>(
           "steps", "Its steps, where they were asked for", &StepObject,
           [](const Row& row) -> const auto& { return row.view->steps; }),
       MapOf<Row>(
           "dropped_by_reason", "Events that could not be kept, by reason", "integer",
           [](const Row& row) -> const auto& { return row.view->dropped_by_reason; }),
       ObjectOf<Row>(
           "slowdown", "How much the capture slowed the target down", &SlowdownObject,
           [](const Row& row) -> const auto& { return Record(row).slowdown; }),
       ListOf<Row>("quality_checks", "Why the grade is what it is", &QualityCheckObject,
                   [](const Row& row) { return QualityOf(Record(row)).checks; }),
       ObjectOf<Row>(
           "gpu", "How recording the GPU went", &GpuRecordObject,
           [](const Row& row) -> const auto& { return Record(row).gpu; }),
       ObjectOf<Row>(
           "torch", "How recording PyTorch went", &TorchRecordObject,
           [](const Row& row) -> const auto& { return Record(row).torch; }),
       Optional<Row>([](const Row& row) { return !Record(row).imported.source.empty(); },
                     ObjectOf<Row>(
                         "imported", "The trace that it was imported from", &ImportObject,
                         [](const Row& row) -> const auto& { return Record(row).imported; })),
       ObjectOf<Row>(
           "spec", "What was asked for", &SpecObject,
           [](const Row& row) -> const auto& { return Record(row).spec; }),
       ObjectOf<Row>(
           "target", "The process", &CapturedTargetObject,
           [](const Row& row) -> const auto& { return Record(row).target; }),
       Optional<Row>([](const Row& row) { return !row.path.empty(); },
                     TextOf<Row>("path", "The file that it was fetched to",
                                 [](const Row& row) { return row.path; })),
       Optional<Row>(
           [](const Row& row) { return !row.step_labels.empty(); },
           ListOf<Row>("step_labels", "What a framework calls the steps", &StepLabelObject,
                       [](const Row& row) { return row.step_labels; }))});
  return object;
}

struct CaptureList {
  std::vector<CaptureJson> captures;
  const std::vector<NodeOutcome>* outcomes = nullptr;
};

const ObjectDescription<CaptureList>& CaptureListObject() {
  using Row = CaptureList;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
               "captures", "The captures, newest first", &CaptureObject,
               [](const Row& row) -> const auto& { return row.captures; }),
           Optional<Row>([](const Row& row) { return row.outcomes != nullptr; },
                         ListOf<Row>(
                             "nodes", "The nodes that were asked, with --nodes", &NodeOutcomeObject,
                             [](const Row& row) -> const auto& { return *row.outcomes; }))});
  return object;
}

}  // namespace

void WriteCaptureJson(const CaptureView& view, std::string_view path, JsonWriter& json,
                      std::span<const report::StepLabel> step_labels) {
  CaptureObject().Write({&view, path, step_labels}, json);
}
void WriteCaptureSchema(JsonWriter& json) { CaptureObject().WriteSchema(json); }

void WriteCaptureListJson(std::span<const CaptureView> views,
                          const std::vector<NodeOutcome>* outcomes, JsonWriter& json) {
  CaptureList list = {.outcomes = outcomes};
  for (const CaptureView& view : views) list.captures.push_back({.view = &view});
  CaptureListObject().Write(list, json);
}
void WriteCaptureListSchema(JsonWriter& json) { CaptureListObject().WriteSchema(json); }

void WriteQualityChecksJson(const Quality& quality, JsonWriter& json) {
  json.Key("quality_checks").BeginArray();
  for (const QualityCheck& check : quality.checks) QualityCheckObject().Write(check, json);
  json.EndArray();
}

const table::Description<CaptureView>& ReportHeaderColumns() {
  static const table::Description<CaptureView> columns = {
      {[](const CaptureView& view) { return view.record.id; },
       {.key = "id", .title = "Capture", .doc = "The capture's ULID"}},
      {&CaptureView::state,
       {.key = "state", .title = "State", .doc = "COMPLETE, PARTIAL, FAILED, or CANCELLED"}},
      {&CaptureView::ended_by, {.key = "ended_by", .title = "Ended by", .doc = "What ended it"}},
      {[](const CaptureView& view) { return view.record.start_unix_ns; },
       {.key = "start_unix_ns",
        .title = "Start",
        .doc = "When the window began, ns since 1970-01-01 UTC",
        .unit = table::Unit::kNs}},
      {&CaptureView::quality,
       {.key = "quality", .title = "Quality", .doc = "The grade, A to D; -: none"}},
      {[](const CaptureView& view) { return view.record.event_count; },
       {.key = "event_count",
        .title = "Events",
        .doc = "Events that were kept",
        .unit = table::Unit::kCount}},
      {&CaptureView::dropped_event_count,
       {.key = "dropped_event_count",
        .title = "Lost",
        .doc = "Events that were lost",
        .unit = table::Unit::kCount}},
      {[](const CaptureView& view) { return std::string(ToString(SharesOf(view))); },
       {.key = "shares",
        .title = "Shares",
        .doc = "How far shares of a whole can be trusted: whole, marked, or withheld"}},
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
