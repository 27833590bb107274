#include "daemon/store/file/record_codec.h"

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/strings/str_format.h"
#include "daemon/base/stable_hash.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::store {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxRecordBytes = 8 << 20;
constexpr size_t kMaxGroupBytes = 64 << 20;
constexpr size_t kMaxArrayElements = 4096;
constexpr size_t kMaxQualityChecks = 64;
constexpr int64_t kMaxCpuNs = int64_t{1} << 60;  // Of all threads together.
constexpr size_t kMaxCheckBytes = 1024;          // Of a check's name and sentence.
constexpr size_t kMaxNames = 16'384;             // Of the nodes of a schedule.

// Each Visit() names every field of its struct once: Archive is Encoder or Decoder.
template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, GpuSpec>
void Visit(Archive& archive, T& spec) {
  archive("mode", spec.mode);
  archive("buffer_bytes", spec.buffer_bytes);
  archive("max_records", spec.max_records);
  archive("detach", spec.detach);
  archive("latency", spec.latency);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, TorchSpec>
void Visit(Archive& archive, T& spec) {
  archive("operators", spec.operators);
  archive("strides", spec.strides);
  archive("memory", spec.memory);
  archive("stacks", spec.stacks);
  archive("modules", spec.modules);
  archive("step_source", spec.step_source);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, CaptureSpec>
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

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, Workload>
void Visit(Archive& archive, T& workload) {
  archive("slurm_job", workload.slurm_job);
  archive("pod_uid", workload.pod_uid);
  archive("pod_namespace", workload.pod_namespace);
  archive("pod_name", workload.pod_name);
  archive("container_id", workload.container_id);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, TargetInfo>
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

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, WindowRecord>
void Visit(Archive& archive, T& window) {
  archive("start_ns", window.start_ns);
  archive("end_ns", window.end_ns);
  archive("first_step", window.first_step);
  archive("end_step", window.end_step);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, GpuDevice>
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

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, GpuStream>
void Visit(Archive& archive, T& stream) {
  archive("context", stream.context);
  archive("stream", stream.stream);
  archive("device", stream.device);
  archive("priority", stream.priority);
  archive("flags", stream.flags);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, GpuKindFailure>
void Visit(Archive& archive, T& failure) {
  archive("kind", failure.kind);
  archive("result", failure.result);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, GpuRecord>
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

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, TorchMissing>
void Visit(Archive& archive, T& missing) {
  archive("feature", missing.feature);
  archive("reason", missing.reason);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, TorchRecord>
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

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, ThreadCpuRecord>
void Visit(Archive& archive, T& thread) {
  archive("os_thread", thread.os_thread);
  archive("ran_ns", thread.ran_ns);
  archive("waited_ns", thread.waited_ns);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, CpuRecord>
void Visit(Archive& archive, T& cpu) {
  archive("watched_ns", cpu.watched_ns);
  archive("thread_count", cpu.thread_count);
  archive("ran_ns", cpu.ran_ns);
  archive("waited_ns", cpu.waited_ns);
  archive("threads", cpu.threads);
  archive("child_count", cpu.child_count);
  archive("children_ran_ns", cpu.children_ran_ns);
  archive("children_waited_ns", cpu.children_waited_ns);
  archive("resident_begin_bytes", cpu.resident_begin_bytes);
  archive("resident_end_bytes", cpu.resident_end_bytes);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, ImportRecord>
void Visit(Archive& archive, T& imported) {
  archive("source", imported.source);
  archive("producer", imported.producer);
  archive("time_unit_ns", imported.time_unit_ns);
  archive("not_understood", imported.not_understood);
  archive("members", imported.members);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, SlowdownRecord>
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

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, QualityCheck>
void Visit(Archive& archive, T& check) {
  archive("name", check.name);
  archive("grade", check.grade);
  archive("known", check.known);
  archive("is_share", check.is_share);
  archive("value", check.value);
  archive("bound", check.bound);
  archive("sentence", check.sentence);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, GradeRecord>
void Visit(Archive& archive, T& graded) {
  archive("grade", graded.grade);
  archive("checks", graded.checks);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, CaptureRecord>
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
  archive("slowdown", record.slowdown);
  archive("graded", record.graded);
  archive("file_bytes", record.file_bytes);
  archive("file_sha256", record.file_sha256);
  archive("deleted", record.deleted);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, GroupMember>
void Visit(Archive& archive, T& member) {
  archive("node", member.node);
  archive("address", member.address);
  archive("capture_id", member.capture_id);
  archive("pid", member.pid);
  archive("rank", member.rank);
  archive("state", member.state);
  archive("error", member.error);
  archive("clock_offset_ns", member.clock_offset_ns);
  archive("clock_bound_ns", member.clock_bound_ns);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, GroupRecord>
void Visit(Archive& archive, T& group) {
  archive("id", group.id);
  archive("members", group.members);
  archive("first_step", group.first_step);
  archive("steps", group.steps);
  archive("create_unix_ns", group.create_time);
  archive("requested_by", group.requested_by);
  archive("closed", group.closed);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, TargetSelector>
void Visit(Archive& archive, T& selector) {
  archive("job", selector.job);
  archive("ranks", selector.ranks);
  archive("command", selector.command);
  archive("metadata", selector.metadata);
  archive("pod_namespace", selector.pod_namespace);
  archive("uid", selector.uid);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, SampleSpec>
void Visit(Archive& archive, T& sample) {
  archive("unit", sample.unit);
  archive("fraction", sample.fraction);
  archive("count", sample.count);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, ScheduleBudget>
void Visit(Archive& archive, T& budget) {
  archive("captures_per_hour", budget.captures_per_hour);
  archive("bytes_per_day", budget.bytes_per_day);
  archive("time_share", budget.time_share);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, ScheduleSpec>
void Visit(Archive& archive, T& spec) {
  archive("every_ns", spec.every);
  archive("align", spec.align);
  archive("cron", spec.cron);
  archive("jitter_ns", spec.jitter);
  archive("capture", spec.capture);
  archive("selector", spec.selector);
  archive("sample", spec.sample);
  archive("budget", spec.budget);
  archive("step_grid", spec.step_grid);
  archive("step_lead", spec.step_lead);
  archive("max_slowdown", spec.max_slowdown);
  archive("end_unix_ns", spec.end_time);
  archive("nodes", spec.nodes);
  archive("pin", spec.pin);
  archive("display_name", spec.display_name);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, Principal>
void Visit(Archive& archive, T& principal) {
  archive("uid", principal.uid);
  archive("gid", principal.gid);
  archive("groups", principal.groups);
  archive("common_name", principal.common_name);
  archive("dns_names", principal.dns_names);
  archive("spiffe_id", principal.spiffe_id);
}

template <typename Archive, typename T>
requires std::is_same_v<std::remove_const_t<T>, ScheduleRecord>
void Visit(Archive& archive, T& record) {
  archive("id", record.id);
  archive("spec", record.spec);
  archive("creator", record.creator);
  archive("create_unix_ns", record.create_time);
  archive("spec_hash", record.spec_hash);
  archive("version", record.version);
}

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

class Encoder {
 public:
  Json Take() { return std::move(json_); }

  template <typename T>
  void operator()(const char* key, const T& value) {
    json_[key] = ToJson(value);
  }

 private:
  static Json ToJson(const std::string& text) { return ToValidUtf8(text); }
  static Json ToJson(absl::Duration span) {
    if (span == absl::InfiniteDuration()) return kForever;
    if (span == -absl::InfiniteDuration()) return -kForever;
    return absl::ToInt64Nanoseconds(span);
  }
  static Json ToJson(absl::Time time) { return ToJson(time - absl::UnixEpoch()); }
  template <typename T>
  static Json ToJson(const std::map<std::string, T>& map) {
    Json json = Json::object();
    for (const auto& [key, value] : map) json[ToValidUtf8(key)] = ToJson(value);
    return json;
  }
  template <typename T>
  static Json ToJson(const std::vector<T>& elements) {
    Json json = Json::array();
    for (const T& element : elements) json.push_back(ToJson(element));
    return json;
  }
  static Json ToJson(const DropCounts& drops) { return Json(drops); }
  static Json ToJson(char letter) { return std::string(1, letter); }
  static Json ToJson(const std::optional<int64_t>& number) {
    return number.has_value() ? Json(*number) : Json();
  }
  template <typename T>
  requires std::is_enum_v<T>
  static Json ToJson(T value) { return static_cast<int>(value); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  static Json ToJson(T value) { return value; }
  template <typename T>
  requires std::is_class_v<T>
  static Json ToJson(const T& value) {
    Encoder nested;
    Visit(nested, value);
    return nested.Take();
  }

  Json json_ = Json::object();
};

// A missing key leaves the field as it was; a value of another type is an error.
class Decoder {
 public:
  explicit Decoder(const Json& json) : json_(json) { Check(json.is_object()); }
  bool ok() const { return ok_; }

  template <typename T>
  void operator()(const char* key, T& value) {
    if (!ok_) return;
    const auto it = json_.find(key);
    if (it != json_.end()) FromJson(*it, value);
  }

 private:
  bool Check(bool condition) {
    ok_ = ok_ && condition;
    return ok_;
  }
  void FromJson(const Json& json, int64_t& value) {
    const bool fits = json.is_number_integer() &&
                      (!json.is_number_unsigned() ||
                       json.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
    if (Check(fits)) value = json.get<int64_t>();
  }
  void FromJson(const Json& json, int& value) {
    int64_t wide = 0;
    FromJson(json, wide);
    if (Check(wide >= std::numeric_limits<int>::min() && wide <= std::numeric_limits<int>::max())) {
      value = static_cast<int>(wide);
    }
  }
  void FromJson(const Json& json, double& value) {
    // JSON has no NaN or infinity: they were written as null.
    if (json.is_null()) return;
    if (Check(json.is_number())) value = json.get<double>();
  }
  void FromJson(const Json& json, char& value) {
    if (Check(json.is_string() && json.get_ref<const std::string&>().size() == 1)) {
      value = json.get_ref<const std::string&>()[0];
    }
  }
  void FromJson(const Json& json, bool& value) {
    if (Check(json.is_boolean())) value = json.get<bool>();
  }
  void FromJson(const Json& json, std::string& value) {
    if (Check(json.is_string())) value = json.get<std::string>();
  }
  void FromJson(const Json& json, absl::Duration& value) {
    int64_t ns = 0;
    FromJson(json, ns);
    value = ns == kForever    ? absl::InfiniteDuration()
            : ns == -kForever ? -absl::InfiniteDuration()
                              : absl::Nanoseconds(ns);
  }
  void FromJson(const Json& json, absl::Time& value) {
    absl::Duration span;
    FromJson(json, span);
    value = absl::UnixEpoch() + span;
  }
  template <typename T>
  void FromJson(const Json& json, std::map<std::string, T>& value) {
    if (!Check(json.is_object() && json.size() <= kMaxArrayElements)) return;
    value.clear();
    for (const auto& [key, element] : json.items()) FromJson(element, value[key]);
  }
  template <typename T>
  void FromJson(const Json& json, std::vector<T>& value) {
    constexpr size_t kMost = std::is_same_v<T, std::string> ? kMaxNames : kMaxArrayElements;
    if (!Check(json.is_array() && json.size() <= kMost)) return;
    value.clear();
    for (const Json& element : json) FromJson(element, value.emplace_back());
  }
  void FromJson(const Json& json, std::vector<GroupMember>& value) {
    if (!Check(json.is_array() && std::ssize(json) <= kMaxGroupMembers)) return;
    value.clear();
    for (const Json& element : json) FromJson(element, value.emplace_back());
  }
  void FromJson(const Json& json, DropCounts& value) {
    if (!Check(json.is_array())) return;
    for (size_t i = 0; i < std::min(json.size(), value.size()); ++i) FromJson(json[i], value[i]);
  }
  void FromJson(const Json& json, std::optional<int64_t>& value) {
    if (json.is_null()) return value.reset();
    FromJson(json, value.emplace());
  }
  template <typename T>
  void FromEnum(const Json& json, int smallest, int largest, T& value) {
    int number = smallest;
    FromJson(json, number);
    if (Check(number >= smallest && number <= largest)) value = static_cast<T>(number);
  }
  void FromJson(const Json& json, CaptureState& value) {
    FromEnum(json, static_cast<int>(CaptureState::kPending),
             static_cast<int>(CaptureState::kCancelled), value);
  }
  void FromJson(const Json& json, EndedBy& value) {
    FromEnum(json, static_cast<int>(EndedBy::kNone), static_cast<int>(EndedBy::kCuptiTaken), value);
  }
  void FromJson(const Json& json, TargetState& value) {
    FromEnum(json, static_cast<int>(TargetState::kRunning), static_cast<int>(TargetState::kStopped),
             value);
  }
  void FromJson(const Json& json, GpuMode& value) {
    FromEnum(json, static_cast<int>(GpuMode::kAuto), static_cast<int>(GpuMode::kFull), value);
  }
  void FromJson(const Json& json, GpuOutcome& value) {
    FromEnum(json, static_cast<int>(GpuOutcome::kOff), static_cast<int>(GpuOutcome::kUnknown),
             value);
  }
  void FromJson(const Json& json, OperatorMode& value) {
    FromEnum(json, static_cast<int>(OperatorMode::kAuto), static_cast<int>(OperatorMode::kShapes),
             value);
  }
  void FromJson(const Json& json, StepSource& value) {
    FromEnum(json, static_cast<int>(StepSource::kNone), static_cast<int>(StepSource::kPeriodicity),
             value);
  }
  void FromJson(const Json& json, TorchOutcome& value) {
    FromEnum(json, static_cast<int>(TorchOutcome::kOff), static_cast<int>(TorchOutcome::kUnknown),
             value);
  }
  void FromJson(const Json& json, SampleUnit& value) {
    FromEnum(json, static_cast<int>(SampleUnit::kNodes), static_cast<int>(SampleUnit::kJobs),
             value);
  }
  template <typename T>
  requires std::is_class_v<T>
  void FromJson(const Json& json, T& value) {
    Decoder nested(json);
    Visit(nested, value);
    Check(nested.ok());
  }

  const Json& json_;
  bool ok_ = true;
};

template <typename T>
std::string Encode(const T& value) {
  Encoder encoder;
  Visit(encoder, value);
  return encoder.Take().dump();
}

template <typename T>
absl::StatusOr<T> Decode(std::string_view untrusted, std::string_view what, size_t max_bytes) {
  if (untrusted.size() > max_bytes) {
    return absl::DataLossError(StrCat("the ", what, "'s record has ", untrusted.size(), " bytes"));
  }
  const Json json = Json::parse(untrusted.begin(), untrusted.end(), nullptr, false);
  if (json.is_discarded()) {
    return absl::DataLossError(StrCat("the ", what, "'s record is not JSON"));
  }
  T value;
  Decoder decoder(json);
  Visit(decoder, value);
  if (!decoder.ok()) {
    return absl::DataLossError(StrCat("the ", what, "'s record has a field of another type"));
  }
  return value;
}

bool IsGrade(std::string_view text) { return text.size() == 1 && text[0] >= 'A' && text[0] <= 'D'; }

// A grade that profd does not know is none: it is computed anew.
void CheckGrade(GradeRecord& graded) {
  bool known = IsGrade(graded.grade) && graded.checks.size() <= kMaxQualityChecks;
  for (QualityCheck& check : graded.checks) {
    known = known && IsGrade({&check.grade, 1});
    check.name = ForDisplay(check.name, kMaxCheckBytes);
    check.sentence = ForDisplay(check.sentence, kMaxCheckBytes);
  }
  if (!known) graded = {};
}

// Times that cannot be are none.
void CheckCpu(CpuRecord& cpu) {
  const auto is_time = [](int64_t ns) { return ns >= 0 && ns <= kMaxCpuNs; };
  bool possible = is_time(cpu.watched_ns) && is_time(cpu.ran_ns) && is_time(cpu.waited_ns) &&
                  is_time(cpu.children_ran_ns) && is_time(cpu.children_waited_ns) &&
                  cpu.thread_count >= 0 && cpu.child_count >= 0 &&
                  cpu.threads.size() <= kMostCpuThreads;
  for (const ThreadCpuRecord& thread : cpu.threads) {
    possible = possible && is_time(thread.ran_ns) && is_time(thread.waited_ns);
  }
  if (!possible) cpu = {};
}

}  // namespace

std::string EncodeRecord(const CaptureRecord& record) { return Encode(record); }
absl::StatusOr<CaptureRecord> DecodeRecord(std::string_view untrusted) {
  ASSIGN_OR_RETURN(CaptureRecord record,
                   Decode<CaptureRecord>(untrusted, "capture", kMaxRecordBytes));
  CheckGrade(record.graded);
  CheckCpu(record.cpu);
  record.slowdown.unknown_reason = ForDisplay(record.slowdown.unknown_reason, kMaxCheckBytes);
  return record;
}

std::string EncodeGroup(const GroupRecord& group) { return Encode(group); }
absl::StatusOr<GroupRecord> DecodeGroup(std::string_view untrusted) {
  return Decode<GroupRecord>(untrusted, "group", kMaxGroupBytes);
}

std::string EncodeSchedule(const ScheduleRecord& record) { return Encode(record); }
absl::StatusOr<ScheduleRecord> DecodeSchedule(std::string_view untrusted) {
  return Decode<ScheduleRecord>(untrusted, "schedule", kMaxRecordBytes);
}

std::string HashOfSpec(const ScheduleSpec& spec) {
  ScheduleSpec hashed = spec;
  if (!NodesDecide(spec)) hashed.nodes.clear();  // As SameSchedule() compares.
  return absl::StrFormat("%016x", StableHash().Add(Encode(hashed)).Value());
}

}  // namespace profd::store
