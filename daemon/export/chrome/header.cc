#include "daemon/export/chrome/header.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/capture/quality.h"
#include "daemon/export/trace/json_text.h"

namespace profd::exporter {
namespace {

using std::literals::string_view_literals::operator""sv;

// Imports read no more.
constexpr size_t kMostListedThreads = 1000;

// An object of string and number members, without spaces.
class JsonObject {
 public:
  JsonObject& Text(std::string_view key, std::string_view untrusted) {
    Key(key);
    AppendJsonString(untrusted, text_);
    return *this;
  }
  JsonObject& Number(std::string_view key, int64_t value) {
    Key(key);
    StrAppend(&text_, value);
    return *this;
  }
  JsonObject& Object(std::string_view key, const std::string& object) {
    Key(key);
    text_ += object;
    return *this;
  }
  std::string Take() { return text_ + "}"; }

 private:
  void Key(std::string_view key) {
    if (text_.size() > 1) text_.push_back(',');
    AppendJsonString(key, text_);
    text_.push_back(':');
  }
  std::string text_ = "{";
};

std::string Texts(const std::map<std::string, std::string>& members) {
  JsonObject object;
  for (const auto& [key, value] : members) object.Text(key, value);
  return object.Take();
}

std::string Drops(const DropCounts& drops) {
  JsonObject object;
  for (int reason = 0; reason < kDropReasonCount; ++reason) {
    if (const int64_t count = drops[static_cast<size_t>(reason)]; count != 0) {
      object.Number(ToString(static_cast<DropReason>(reason)), count);
    }
  }
  return object.Take();
}

// The events that the import of a trace left out, by kind. Arguments that it did not understand are
// in the export.
std::string LeftOutByImport(const ImportRecord& imported) {
  JsonObject object;
  for (const auto& [kind, count] : imported.not_understood) {
    if (!kind.starts_with("arg:")) object.Number(kind, count);
  }
  return object.Take();
}

// What there is to say of a GPU is there if one was recorded, or was to be.
bool HasGpu(const GpuRecord& gpu) {
  return gpu.outcome != GpuOutcome::kOff && gpu.outcome != GpuOutcome::kNoCuda;
}

std::string AboutGpu(const GpuRecord& gpu, int64_t annotations_left_out) {
  JsonObject object;
  object.Text("outcome", ToString(gpu.outcome)).Text("mode", ToString(gpu.mode));
  if (!gpu.problem.empty()) object.Text("problem", gpu.problem);
  object.Number("clock_error_ns", gpu.clock_error_ns)
      .Number("record_count", gpu.record_count)
      .Number("orphan_count", gpu.orphan_count)
      .Number("straddling_count", gpu.straddling_count)
      .Number("unfinished_count", gpu.unfinished_count);
  if (annotations_left_out > 0) object.Number("annotations_left_out", annotations_left_out);
  return object.Take();
}

std::string AboutTorch(const TorchRecord& torch, const ChromeLeftOut& left_out) {
  // A list: a stranger's file may name a feature twice.
  std::string missing = "[";
  for (const TorchMissing& one : torch.missing) {
    if (missing.size() > 1) missing += ",";
    missing += JsonObject().Text("feature", one.feature).Text("reason", one.reason).Take();
  }
  missing += "]";
  JsonObject object;
  object.Text("outcome", ToString(torch.outcome))
      .Text("version", torch.version)
      .Text("operators", ToString(torch.operators))
      .Number("memory", torch.memory ? 1 : 0)
      .Text("step_source", ToString(torch.step_source))
      .Number("operator_count", torch.operator_count)
      .Number("folded_count", torch.folded_count)
      .Number("cut_input_count", torch.cut_input_count)
      .Number("odd_tensor_count", torch.odd_tensor_count)
      .Number("lost_note_count", torch.lost_note_count)
      .Number("missed_memory_count", torch.missed_memory_count)
      .Number("stack_count", torch.stack_count)
      .Number("missing_stack_count", torch.missing_stack_count)
      .Object("missing", missing);
  if (left_out.operator_inputs > 0) object.Number("inputs_left_out", left_out.operator_inputs);
  if (left_out.cut_stacks > 0) object.Number("cut_stacks", left_out.cut_stacks);
  return object.Take();
}

// Kineto's keys.
std::string DeviceProperties(const GpuRecord& gpu) {
  std::string list = "[";
  for (const GpuDevice& device : gpu.devices) {
    if (list.size() > 1) list += ",";
    list += JsonObject()
                .Number("id", device.number)
                .Text("name", device.name)
                .Number("totalGlobalMem", device.memory_bytes)
                .Number("computeMajor", device.compute_major)
                .Number("computeMinor", device.compute_minor)
                .Number("maxThreadsPerBlock", device.max_threads_per_block)
                .Number("maxThreadsPerMultiprocessor", device.max_threads_per_sm)
                .Number("regsPerBlock", device.registers_per_block)
                .Number("warpSize", device.warp_threads)
                .Number("sharedMemPerBlock", device.shared_bytes_per_block)
                .Number("numSms", device.sm_count)
                .Number("regsPerMultiprocessor", device.registers_per_sm)
                .Number("sharedMemPerBlockOptin", device.shared_bytes_per_block_optin)
                .Number("sharedMemPerMultiprocessor", device.shared_bytes_per_sm)
                .Take();
  }
  return list + "]";
}

// [[4242,0],[4242,1]], in the order of the capture, so that an import has the same.
std::string Threads(std::span<const ChromeThread> threads) {
  std::string list = "[";
  for (const ChromeThread& thread : threads) {
    StrAppend(&list, list.size() > 1 ? "," : "", "[", thread.tid, ",", thread.is_python ? 1 : 0,
              "]");
  }
  return list + "]";
}

std::string AboutCapture(const CaptureRecord& record, std::span<const ChromeThread> threads,
                         const ChromeLeftOut& left_out) {
  JsonObject object;
  object.Text("version", PROFD_VERSION).Text("capture", record.id);
  if (!record.group_id.empty()) object.Text("group", record.group_id);
  if (!record.spec.display_name.empty()) object.Text("display_name", record.spec.display_name);
  object.Text("state", ToString(record.state))
      .Text("ended_by", ToString(record.ended_by))
      .Text("quality_grade", QualityGrade(record))
      .Number("start_unix_ns", record.start_unix_ns)
      .Number("requested_steps", record.spec.steps)
      .Number("covered_steps", record.covered_steps)
      .Number("covered_ns", record.covered_ns)
      .Number("event_count", record.event_count)
      .Number("dropped_event_count", TotalDrops(record.drops))
      .Object("drops", Drops(record.drops))
      .Number("open_range_count", record.open_range_count)
      .Number("truncated_range_count", record.truncated_range_count)
      .Number("other_name_event_count", record.other_name_event_count)
      .Number("clock_error_ns", record.clock_error_ns)
      .Number("step_before_ns", record.step_before_ns)
      .Number("step_during_ns", record.step_during_ns)
      .Number("step_after_ns", record.step_after_ns)
      .Number("pid", record.target.pid)
      .Number("namespace_pid", record.target.namespace_pid)
      .Number("uid", record.target.uid)
      .Text("command", record.target.command)
      .Text("library_version", record.target.library_version)
      .Object("labels", Texts(record.spec.labels))
      .Object("metadata", Texts(record.target.metadata));
  // Between windows that were found in a trace, nothing is known. Those of our captures are steps.
  if (!record.imported.source.empty() && record.windows.size() > 1) {
    object.Number("window_count", std::ssize(record.windows));
  }
  if (const std::string counts = LeftOutByImport(record.imported); counts != "{}") {
    object.Object("not_understood", counts);
  }
  if (HasGpu(record.gpu)) object.Object("gpu", AboutGpu(record.gpu, left_out.gpu_annotations));
  if (HasTorch(record.torch)) {
    object.Object("torch", AboutTorch(record.torch, left_out));
  }
  if (!threads.empty() && threads.size() <= kMostListedThreads) {
    object.Object("threads", Threads(threads));
  }
  return object.Take();
}

// Members of the header but those that it makes itself, as JSON.
using Members = std::map<std::string, std::string>;

Members OwnMembers(const CaptureRecord& record) {
  Members members = {{"deviceProperties", DeviceProperties(record.gpu)},
                     {"displayTimeUnit", "\"ms\""}};
  AppendJsonString(record.node, members["host_name"]);
  AppendJsonString(record.id, members["trace_id"]);
  if (HasGpu(record.gpu)) {
    members["cupti_version"] = StrCat(record.gpu.cupti_version);
    if (record.gpu.driver_version != 0) {
      members["cuda_driver_version"] = StrCat(record.gpu.driver_version);
    }
  }
  if (HasTorch(record.torch)) {
    // As torch.profiler notes what it was asked for.
    if (record.torch.operators == OperatorMode::kShapes) members["record_shapes"] = "1";
    if (record.torch.memory) members["profile_memory"] = "1";
    if (record.torch.stack_count > 0) {
      if (record.spec.torch.stacks) members["with_stack"] = "1";
      if (record.spec.torch.modules) members["with_modules"] = "1";
    }
  }
  return members;
}

Members SourceMembers(const CaptureRecord& record) {
  Members members = record.imported.members;
  std::erase_if(members, [](const auto& member) { return !IsPlainJson(member.second); });
  return members;
}

// Kineto's order. Others are between these and profd's own.
constexpr std::array kFirstMembers = {
    "deviceProperties"sv, "host_name"sv,           "trace_id"sv,      "simulated"sv,
    "cupti_version"sv,    "cuda_driver_version"sv, "record_shapes"sv, "profile_memory"sv,
    "with_stack"sv,       "with_modules"sv};
constexpr std::array kLaterMembers = {"schemaVersion"sv,       "profd"sv,       "distributedInfo"sv,
                                      "displayTimeUnit"sv,     "traceEvents"sv, "traceName"sv,
                                      "baseTimeNanoseconds"sv, "simulated"sv};

std::string Member(std::string_view key, std::string_view json) {
  std::string text;
  AppendJsonString(key, text);
  StrAppend(&text, ": ", json, ",\n");
  return text;
}

std::string DistributedInfo(const CaptureRecord& record, const TraceLayout& layout) {
  std::string members;
  if (layout.rank.has_value()) {
    StrAppend(&members, ", \"rank\": ", *layout.rank);
    if (layout.world_size.has_value())
      StrAppend(&members, ", \"world_size\": ", *layout.world_size);
  }
  const auto found = record.imported.members.find("distributedInfo");
  if (found != record.imported.members.end() && IsPlainJson(found->second)) {
    const nlohmann::ordered_json source =
        nlohmann::ordered_json::parse(found->second, nullptr, /*allow_exceptions=*/false);
    if (!source.is_object()) return StrCat("\"distributedInfo\": ", found->second, ",\n");
    for (const auto& [key, value] : source.items()) {
      if (key == "rank" && layout.rank.has_value()) continue;
      if (key == "world_size" && layout.world_size.has_value()) continue;
      members += ", ";
      AppendJsonString(key, members);
      StrAppend(&members, ": ", value.dump());
    }
  }
  if (members.empty()) return "";
  return StrCat("\"distributedInfo\": {", members.substr(2), "},\n");
}

}  // namespace

std::string ChromeHeader(const CaptureRecord& record, const TraceLayout& layout,
                         std::span<const ChromeThread> threads, int64_t base_unix_ns,
                         const ChromeLeftOut& left_out) {
  Members members = record.imported.members.empty() ? OwnMembers(record) : SourceMembers(record);
  members.try_emplace("profd", AboutCapture(record, threads, left_out));
  members.erase("simulated");
  if (record.gpu.simulated) members["simulated"] = "true";
  std::string header = "{\n\"schemaVersion\": 1,\n";
  const auto add = [&](std::string_view key) {
    const auto found = members.find(std::string(key));
    if (found != members.end()) header += Member(key, found->second);
  };
  for (const std::string_view key : kFirstMembers) add(key);
  for (const auto& [key, json] : members) {
    const bool has_place = std::ranges::find(kFirstMembers, key) != kFirstMembers.end() ||
                           std::ranges::find(kLaterMembers, key) != kLaterMembers.end();
    if (!has_place) header += Member(key, json);
  }
  add("profd");
  header += DistributedInfo(record, layout);
  add("displayTimeUnit");
  StrAppend(&header, "\"baseTimeNanoseconds\": ", base_unix_ns, ",\n\"traceEvents\": [\n");
  return header;
}

std::string ChromeTraceName(const CaptureRecord& record) {
  if (!record.imported.members.empty()) {
    const auto found = record.imported.members.find("traceName");
    return found != record.imported.members.end() && IsPlainJson(found->second) ? found->second
                                                                                : "";
  }
  std::string name;
  AppendJsonString(StrCat(record.id, record.gpu.simulated ? " (simulated GPU).json" : ".json"),
                   name);
  return name;
}

std::string MergedChromeHeader(std::span<const CaptureRecord* const> records,
                               const report::ClockAlignment& clocks, std::string_view group,
                               int64_t base_unix_ns) {
  bool simulated = false;
  std::string captures = "[";
  for (size_t i = 0; i < records.size(); ++i) {
    const report::AlignedClock& clock = clocks.members[i];
    simulated |= records[i]->gpu.simulated;
    if (i > 0) captures += ",\n";
    captures += JsonObject()
                    .Object("about", AboutCapture(*records[i], {}, {}))
                    .Text("node", records[i]->node)
                    .Text("clock_basis", ToString(clock.basis))
                    .Number("clock_error_ns", clock.error_ns)
                    .Take();
  }
  captures += "]";
  JsonObject about;
  about.Text("version", PROFD_VERSION);
  if (!group.empty()) about.Text("group", group);
  // -1: not known
  about.Number("clock_residual_ns", clocks.residual_p50_ns)
      .Number("clock_residual_p99_ns", clocks.residual_p99_ns)
      .Number("clock_collective_count", clocks.collective_count)
      .Object("captures", captures);
  return StrCat("{\n\"schemaVersion\": 1,\n", simulated ? "\"simulated\": true,\n" : "",
                "\"profd\": ", about.Take(),
                ",\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": ", base_unix_ns,
                ",\n\"traceEvents\": [\n");
}

}  // namespace profd::exporter
