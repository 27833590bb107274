// The fields of a capture, each named once. What stores them (store/file/record_codec.h) and what
// sends them (rpc/convert/message_fields.h) goes by these lists.
//
// How do I add a field?  The member in capture_types.h, with its unit, range, and what says "none";
// a line here; a line in proto/profd/v1/captures.proto, if it is sent; and a line with its
// documentation in cli/render/capture_json.cc, if users are to see it. A record without the field
// leaves the member as the struct initializes it.
//
// Names are kept in files: never change or reuse one. A name is that of the field in the message,
// but for times (absl::Time: NAME_unix_ns here, NAME_time there) and spans (absl::Duration: NAME_ns
// here, NAME there).
//
// Threads: any.
#ifndef PROFD_DAEMON_CAPTURE_CAPTURE_FIELDS_H_
#define PROFD_DAEMON_CAPTURE_CAPTURE_FIELDS_H_

#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>

#include "daemon/capture/capture_types.h"

namespace profd {

// `Struct`, or that and const.
template <typename T, typename Struct>
concept SameStruct = std::same_as<std::remove_const_t<T>, Struct>;

// ---- Enumerations, as they are kept in files and sent.

// kFirst and kLast: every value lies between them; not every number between them is a value.
// FromString() finds a value by its ToString(). kUnknown, if there is one, is what a reader takes a
// text for that it does not know; otherwise that leaves the member as it is.
template <typename E>
struct EnumFacts;

template <>
struct EnumFacts<CaptureState> {
  static constexpr CaptureState kFirst = CaptureState::kPending;
  static constexpr CaptureState kLast = CaptureState::kCancelled;
  static constexpr auto FromString = &CaptureStateFromString;
};
template <>
struct EnumFacts<EndedBy> {
  static constexpr EndedBy kFirst = EndedBy::kNone;
  static constexpr EndedBy kLast = EndedBy::kCuptiTaken;
  static constexpr auto FromString = &EndedByFromString;
};
template <>
struct EnumFacts<TargetState> {
  static constexpr TargetState kFirst = TargetState::kRunning;
  static constexpr TargetState kLast = TargetState::kStopped;
};
template <>
struct EnumFacts<GpuMode> {
  static constexpr GpuMode kFirst = GpuMode::kAuto;
  static constexpr GpuMode kLast = GpuMode::kFull;
  static constexpr auto FromString = &GpuModeFromString;
};
template <>
struct EnumFacts<GpuOutcome> {
  static constexpr GpuOutcome kFirst = GpuOutcome::kOff;
  static constexpr GpuOutcome kLast = GpuOutcome::kUnknown;
  static constexpr GpuOutcome kUnknown = GpuOutcome::kUnknown;
  static constexpr auto FromString = &GpuOutcomeFromString;
};
template <>
struct EnumFacts<OperatorMode> {
  static constexpr OperatorMode kFirst = OperatorMode::kAuto;
  static constexpr OperatorMode kLast = OperatorMode::kShapes;
  static constexpr auto FromString = &OperatorModeFromString;
};
template <>
struct EnumFacts<StepSource> {
  static constexpr StepSource kFirst = StepSource::kNone;
  static constexpr StepSource kLast = StepSource::kPeriodicity;
  static constexpr auto FromString = &StepSourceFromString;
};
template <>
struct EnumFacts<TorchOutcome> {
  static constexpr TorchOutcome kFirst = TorchOutcome::kOff;
  static constexpr TorchOutcome kLast = TorchOutcome::kUnknown;
  static constexpr TorchOutcome kUnknown = TorchOutcome::kUnknown;
  static constexpr auto FromString = &TorchOutcomeFromString;
};

// ---- Structs. `archive` is called with each field's name and the field.

template <typename Archive, SameStruct<GpuSpec> T>
void Visit(Archive& archive, T& spec) {
  archive("mode", spec.mode);
  archive("buffer_bytes", spec.buffer_bytes);
  archive("max_records", spec.max_records);
  archive("detach", spec.detach);
  archive("latency", spec.latency);
}

template <typename Archive, SameStruct<TorchSpec> T>
void Visit(Archive& archive, T& spec) {
  archive("operators", spec.operators);
  archive("strides", spec.strides);
  archive("memory", spec.memory);
  archive("stacks", spec.stacks);
  archive("modules", spec.modules);
  archive("step_source", spec.step_source);
}

template <typename Archive, SameStruct<CaptureSpec> T>
void Visit(Archive& archive, T& spec) {
  archive("steps", spec.steps);
  archive("warmup_steps", spec.warmup_steps);
  archive("wait_steps", spec.wait_steps);
  archive("repeat", spec.repeat);
  archive("start_step", spec.start_step);
  archive("duration_ns", spec.duration);
  archive("timeout_ns", spec.timeout);
  archive("memory_bytes", spec.memory_bytes);
  archive("allow_less_memory", spec.allow_less_memory);
  archive("max_bytes", spec.max_bytes);
  archive("gpu", spec.gpu);
  archive("torch", spec.torch);
  archive("step_marker", spec.step_marker);
  archive("display_name", spec.display_name);
  archive("labels", spec.labels);
}

template <typename Archive, SameStruct<Workload> T>
void Visit(Archive& archive, T& workload) {
  archive("slurm_job", workload.slurm_job);
  archive("pod_uid", workload.pod_uid);
  archive("pod_namespace", workload.pod_namespace);
  archive("pod_name", workload.pod_name);
  archive("container_id", workload.container_id);
}

template <typename Archive, SameStruct<TargetInfo> T>
void Visit(Archive& archive, T& target) {
  archive("number", target.number);
  archive("pid", target.pid);
  archive("uid", target.uid);
  archive("gid", target.gid);
  archive("parent_pid", target.parent_pid);
  archive("process_start_ticks", target.process_start_ticks);
  archive("namespace_pid", target.namespace_pid);
  archive("foreign_namespace", target.foreign_namespace);
  archive("command", target.command);
  archive("cgroup", target.cgroup);
  archive("library_version", target.library_version);
  archive("protocol_version", target.protocol_version);
  archive("metadata", target.metadata);
  archive("registered_unix_ns", target.registered_time);
  archive("state", target.state);
  archive("step_mark_count", target.step_mark_count);
  archive("current_step", target.current_step);
  archive("steps_per_second", target.steps_per_second);
  archive("dropped_event_count", target.dropped_event_count);
  archive("foreign_step_mark_count", target.foreign_step_mark_count);
  archive("step_source", target.step_source);
  archive("batch_count", target.batch_count);
  archive("workload", target.workload);
  archive("opted_out", target.opted_out);
}

template <typename Archive, SameStruct<WindowRecord> T>
void Visit(Archive& archive, T& window) {
  archive("start_ns", window.start_ns);
  archive("end_ns", window.end_ns);
  archive("first_step", window.first_step);
  archive("end_step", window.end_step);
}

template <typename Archive, SameStruct<GpuDevice> T>
void Visit(Archive& archive, T& device) {
  archive("number", device.number);
  archive("name", device.name);
  archive("uuid", device.uuid);
  archive("memory_bytes", device.memory_bytes);
  archive("compute_major", device.compute_major);
  archive("compute_minor", device.compute_minor);
  archive("sm_count", device.sm_count);
  archive("warp_threads", device.warp_threads);
  archive("max_threads_per_block", device.max_threads_per_block);
  archive("max_threads_per_sm", device.max_threads_per_sm);
  archive("max_blocks_per_sm", device.max_blocks_per_sm);
  archive("registers_per_block", device.registers_per_block);
  archive("registers_per_sm", device.registers_per_sm);
  archive("shared_bytes_per_block", device.shared_bytes_per_block);
  archive("shared_bytes_per_sm", device.shared_bytes_per_sm);
  archive("shared_bytes_per_block_optin", device.shared_bytes_per_block_optin);
}

template <typename Archive, SameStruct<GpuStream> T>
void Visit(Archive& archive, T& stream) {
  archive("context", stream.context);
  archive("stream", stream.stream);
  archive("device", stream.device);
  archive("priority", stream.priority);
  archive("flags", stream.flags);
}

template <typename Archive, SameStruct<GpuKindFailure> T>
void Visit(Archive& archive, T& failure) {
  archive("kind", failure.kind);
  archive("result", failure.result);
}

template <typename Archive, SameStruct<GpuRecord> T>
void Visit(Archive& archive, T& gpu) {
  archive("outcome", gpu.outcome);
  archive("mode", gpu.mode);
  archive("problem", gpu.problem);
  archive("simulated", gpu.simulated);
  archive("cupti_version", gpu.cupti_version);
  archive("driver_version", gpu.driver_version);
  archive("arm_ns", gpu.arm_ns);
  archive("clock_error_ns", gpu.clock_error_ns);
  archive("clock_step_count", gpu.clock_step_count);
  archive("peak_pool_bytes", gpu.peak_pool_bytes);
  archive("devices", gpu.devices);
  archive("streams", gpu.streams);
  archive("kind_failures", gpu.kind_failures);
  archive("record_count", gpu.record_count);
  archive("stale_count", gpu.stale_count);
  archive("before_window_count", gpu.before_window_count);
  archive("after_window_count", gpu.after_window_count);
  archive("filtered_api_count", gpu.filtered_api_count);
  archive("orphan_count", gpu.orphan_count);
  archive("straddling_count", gpu.straddling_count);
  archive("unfinished_count", gpu.unfinished_count);
}

template <typename Archive, SameStruct<TorchMissing> T>
void Visit(Archive& archive, T& missing) {
  archive("feature", missing.feature);
  archive("reason", missing.reason);
}

template <typename Archive, SameStruct<TorchRecord> T>
void Visit(Archive& archive, T& torch) {
  archive("outcome", torch.outcome);
  archive("operators", torch.operators);
  archive("memory", torch.memory);
  archive("version", torch.version);
  archive("missing", torch.missing);
  archive("step_source", torch.step_source);
  archive("operator_count", torch.operator_count);
  archive("tensor_use_count", torch.tensor_use_count);
  archive("note_count", torch.note_count);
  archive("block_count", torch.block_count);
  archive("folded_count", torch.folded_count);
  archive("cut_input_count", torch.cut_input_count);
  archive("odd_tensor_count", torch.odd_tensor_count);
  archive("lost_note_count", torch.lost_note_count);
  archive("missed_memory_count", torch.missed_memory_count);
  archive("stack_count", torch.stack_count);
  archive("missing_stack_count", torch.missing_stack_count);
}

template <typename Archive, SameStruct<ThreadCpuRecord> T>
void Visit(Archive& archive, T& thread) {
  archive("os_thread", thread.os_thread);
  archive("ran_ns", thread.ran_ns);
  archive("waited_ns", thread.waited_ns);
  archive("after_ran_ns", thread.after_ran_ns);
  archive("after_waited_ns", thread.after_waited_ns);
}

template <typename Archive, SameStruct<CpuSample> T>
void Visit(Archive& archive, T& sample) {
  archive("time_ns", sample.time_ns);
  archive("waited_ns", sample.waited_ns);
  archive("children_waited_ns", sample.children_waited_ns);
}

template <typename Archive, SameStruct<CpuRecord> T>
void Visit(Archive& archive, T& cpu) {
  archive("watched_ns", cpu.watched_ns);
  archive("after_watched_ns", cpu.after_watched_ns);
  archive("thread_count", cpu.thread_count);
  archive("ran_ns", cpu.ran_ns);
  archive("waited_ns", cpu.waited_ns);
  archive("threads", cpu.threads);
  archive("child_count", cpu.child_count);
  archive("children_ran_ns", cpu.children_ran_ns);
  archive("children_waited_ns", cpu.children_waited_ns);
  archive("samples", cpu.samples);
  archive("unread_thread_count", cpu.unread_thread_count);
  archive("unread_child_count", cpu.unread_child_count);
  archive("ended_thread_count", cpu.ended_thread_count);
  archive("unwatched_ran_ns", cpu.unwatched_ran_ns);
  archive("resident_begin_bytes", cpu.resident_begin_bytes);
  archive("resident_end_bytes", cpu.resident_end_bytes);
}

template <typename Archive, SameStruct<ImportRecord> T>
void Visit(Archive& archive, T& imported) {
  archive("source", imported.source);
  archive("producer", imported.producer);
  archive("time_unit_ns", imported.time_unit_ns);
  archive("not_understood", imported.not_understood);
  archive("members", imported.members);
}

template <typename Archive, SameStruct<SlowdownRecord> T>
void Visit(Archive& archive, T& slowdown) {
  archive("known", slowdown.known);
  archive("unknown_reason", slowdown.unknown_reason);
  archive("estimate", slowdown.estimate);
  archive("low", slowdown.low);
  archive("high", slowdown.high);
  archive("before_step_count", slowdown.before_step_count);
  archive("during_step_count", slowdown.during_step_count);
  archive("after_step_count", slowdown.after_step_count);
  archive("cupti_stays", slowdown.cupti_stays);
  archive("remains_known", slowdown.remains_known);
  archive("remains", slowdown.remains);
  archive("remains_low", slowdown.remains_low);
  archive("remains_high", slowdown.remains_high);
}

template <typename Archive, SameStruct<QualityCheck> T>
void Visit(Archive& archive, T& check) {
  archive("name", check.name);
  archive("grade", check.grade);
  archive("known", check.known);
  archive("is_share", check.is_share);
  archive("value", check.value);
  archive("bound", check.bound);
  archive("sentence", check.sentence);
}

template <typename Archive, SameStruct<GradeRecord> T>
void Visit(Archive& archive, T& graded) {
  archive("grade", graded.grade);
  archive("checks", graded.checks);
}

template <typename Archive, SameStruct<CaptureRecord> T>
void Visit(Archive& archive, T& record) {
  archive("id", record.id);
  archive("group_id", record.group_id);
  archive("request_id", record.request_id);
  archive("spec", record.spec);
  archive("requested_by_uid", record.requested_by_uid);
  archive("requested_by", record.requested_by);
  archive("schedule_id", record.schedule_id);
  archive("schedule_window_unix_ns", record.schedule_window_unix_ns);
  archive("sampling_weight", record.sampling_weight);
  archive("target", record.target);
  archive("node", record.node);
  archive("state", record.state);
  archive("ended_by", record.ended_by);
  archive("error_reason", record.error_reason);
  archive("error_message", record.error_message);
  archive("create_unix_ns", record.create_time);
  archive("armed_unix_ns", record.armed_time);
  archive("end_unix_ns", record.end_time);
  archive("start_unix_ns", record.start_unix_ns);
  archive("covered_ns", record.covered_ns);
  archive("covered_steps", record.covered_steps);
  archive("windows", record.windows);
  archive("current_window", record.current_window);
  archive("current_step", record.current_step);
  archive("event_count", record.event_count);
  archive("drops", record.drops);
  archive("warmup_event_count", record.warmup_event_count);
  archive("open_range_count", record.open_range_count);
  archive("truncated_range_count", record.truncated_range_count);
  archive("other_name_event_count", record.other_name_event_count);
  archive("foreign_step_mark_count", record.foreign_step_mark_count);
  archive("clock_error_ns", record.clock_error_ns);
  archive("gpu", record.gpu);
  archive("torch", record.torch);
  archive("cpu", record.cpu);
  archive("imported", record.imported);
  archive("activity", record.activity);
  archive("step_before_ns", record.step_before_ns);
  archive("step_during_ns", record.step_during_ns);
  archive("step_after_ns", record.step_after_ns);
  archive("around_step_count", record.around_step_count);
  archive("around_step_mean_ns", record.around_step_mean_ns);
  archive("around_slow_step_count", record.around_slow_step_count);
  archive("slowdown", record.slowdown);
  archive("graded", record.graded);
  archive("file_bytes", record.file_bytes);
  archive("file_sha256", record.file_sha256);
  archive("deleted", record.deleted);
  archive("evicted", record.evicted);
}

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_CAPTURE_FIELDS_H_
