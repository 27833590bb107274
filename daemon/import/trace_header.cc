#include "daemon/import/trace_header.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/import/json/skip.h"
#include "daemon/import/trace_event.h"
#include "daemon/report/findings/quality.h"

namespace profd::importer {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxTextBytes = 255;
constexpr size_t kMaxCommandBytes = 4096;
constexpr size_t kMaxDevices = 1024;
constexpr size_t kMaxMetadata = 64;
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxDisplayNameBytes = 128;
constexpr size_t kMaxListedThreads = 1000;
constexpr int64_t kMaxDrops = 1'000'000'000'000;  // Of one kind: no capture has so many events.

// No member of a trace but its events is called so.
constexpr std::string_view kOtherEvents = "traceEvents";

// Deeply nested values would take the parser's stack.
constexpr int kMaxDepth = 64;

Json Parse(std::string_view text) {
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  return Json::parse(text, is_shallow, /*allow_exceptions=*/false);
}

int64_t NumberIn(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}
std::string TextIn(const Json& object, const char* key, size_t max_bytes = kMaxTextBytes) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string()
             ? ForDisplay(found->get_ref<const std::string&>(), max_bytes)
             : "";
}

// The members of an object's member that are texts.
std::map<std::string, std::string> TextsIn(const Json& object, const char* key) {
  std::map<std::string, std::string> texts;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return texts;
  for (const auto& [name, value] : found->items()) {
    if (value.is_string()) texts.emplace(name, value.get_ref<const std::string&>());
  }
  return texts;
}

GpuDevice DeviceOf(const Json& json) {
  GpuDevice device;
  device.number = NumberIn(json, "id");
  device.name = TextIn(json, "name");
  device.memory_bytes = NumberIn(json, "totalGlobalMem");
  device.compute_major = NumberIn(json, "computeMajor");
  device.compute_minor = NumberIn(json, "computeMinor");
  device.sm_count = NumberIn(json, "numSms");
  device.warp_threads = NumberIn(json, "warpSize");
  device.max_threads_per_block = NumberIn(json, "maxThreadsPerBlock");
  device.max_threads_per_sm = NumberIn(json, "maxThreadsPerMultiprocessor");
  device.registers_per_block = NumberIn(json, "regsPerBlock");
  device.registers_per_sm = NumberIn(json, "regsPerMultiprocessor");
  device.shared_bytes_per_block = NumberIn(json, "sharedMemPerBlock");
  device.shared_bytes_per_sm = NumberIn(json, "sharedMemPerMultiprocessor");
  device.shared_bytes_per_block_optin = NumberIn(json, "sharedMemPerBlockOptin");
  return device;
}

void AddDistributed(const Json& json, TargetInfo& target) {
  for (const char* key : {"rank", "world_size"}) {
    const auto found = json.find(key);
    if (found != json.end() && found->is_number_integer()) {
      target.metadata[key] = StrCat(found->get<int64_t>());
    }
  }
  for (const char* key : {"backend", "nccl_version"}) {
    if (std::string text = TextIn(json, key); !text.empty()) target.metadata[key] = std::move(text);
  }
}

// "pg_config": [{"pg_name": "11", "pg_desc": "TP", ...}, ...]
std::map<std::string, std::string> GroupNamesIn(const Json& json) {
  constexpr size_t kMaxGroups = 4096;
  std::map<std::string, std::string> names;
  const auto groups = json.find("pg_config");
  if (groups == json.end() || !groups->is_array()) return names;
  for (const Json& group : *groups) {
    if (!group.is_object() || names.size() == kMaxGroups) continue;
    std::string name = TextIn(group, "pg_desc");
    if (!name.empty()) names.emplace(TextIn(group, "pg_name"), std::move(name));
  }
  return names;
}

// What was lost is lost in what is made of it, too.
void AddDrops(const Json& json, DropCounts& drops) {
  const auto found = json.find("drops");
  if (found == json.end() || !found->is_object()) return;
  for (int i = 0; i < kDropReasonCount; ++i) {
    const std::string reason(ToString(static_cast<DropReason>(i)));
    drops[static_cast<size_t>(i)] =
        std::clamp<int64_t>(NumberIn(*found, reason.c_str()), 0, kMaxDrops);
  }
}

// Counts what the trace that was exported had, and its capture did not.
void CountNotUnderstood(const Json& json, NotUnderstood& not_understood) {
  const auto found = json.find("not_understood");
  if (found == json.end() || !found->is_object()) return;
  for (const auto& [kind, value] : found->items()) {
    if (!value.is_number_integer()) continue;
    const int64_t count = std::clamp<int64_t>(value.get<int64_t>(), 0, kMaxDrops);
    if (count > 0) not_understood.Count(kind, count);
  }
}

bool WasCutOff(const Json& json, const NotUnderstood& not_understood) {
  const auto cut = not_understood.counts().lower_bound(std::string(kCutOffKind));
  return TextIn(json, "state") == ToString(CaptureState::kPartial) &&
         cut != not_understood.counts().end() && cut->first.starts_with(kCutOffKind);
}

// [[4242,0],[4242,1]]
std::vector<TraceHeader::Thread> ThreadsIn(const Json& json) {
  std::vector<TraceHeader::Thread> threads;
  const auto found = json.find("threads");
  if (found == json.end() || !found->is_array()) return threads;
  for (const Json& thread : *found) {
    const bool is_one = thread.is_array() && thread.size() == 2 && thread[0].is_number_integer() &&
                        thread[1].is_number_integer();
    if (!is_one || threads.size() == kMaxListedThreads) return threads;
    threads.push_back({.tid = thread[0].get<int64_t>(), .is_python = thread[1].get<int>() != 0});
  }
  return threads;
}

// What profd wrote about the capture that the trace was made of.
void AddOurs(const Json& json, CaptureRecord& record) {
  record.target.pid = NumberIn(json, "pid");
  record.target.namespace_pid = NumberIn(json, "namespace_pid");
  record.target.uid = NumberIn(json, "uid");
  record.target.command = TextIn(json, "command", kMaxCommandBytes);
  record.target.library_version = TextIn(json, "library_version");
  AddDrops(json, record.drops);
  record.spec.display_name = TextIn(json, "display_name", kMaxDisplayNameBytes);
  for (const auto& [key, value] : TextsIn(json, "metadata")) {
    if (record.target.metadata.size() == kMaxMetadata) break;
    record.target.metadata[ForDisplay(key, kMaxTextBytes)] = ForDisplay(value, kMaxTextBytes);
  }
  for (const auto& [key, value] : TextsIn(json, "labels")) {
    if (record.spec.labels.size() < kMaxLabels && ValidateLabel(key, value).ok()) {
      record.spec.labels[key] = value;
    }
  }
}

}  // namespace

void TraceHeader::Add(std::string_view key, std::string_view value, NotUnderstood& not_understood) {
  // A parsed value takes many times its text, so its size is checked before.
  if (value.size() > kMaxMemberBytes) {
    not_understood.Count(StrCat("member:", key, " is too long"));
    return;
  }
  const Json json = Parse(value);
  if (json.is_discarded()) {
    not_understood.Count(StrCat("member:", key, " is not JSON"));
    return;
  }
  Keep(key, value, not_understood);
  if (key == "schemaVersion") {
    is_kineto_ = true;
  } else if (key == "baseTimeNanoseconds" && json.is_number_integer()) {
    base_unix_ns_ = json.get<int64_t>();
  } else if (key == "deviceProperties" && json.is_array()) {
    for (const Json& device : json) {
      if (device.is_object() && known_.gpu.devices.size() < kMaxDevices) {
        known_.gpu.devices.push_back(DeviceOf(device));
      }
    }
  } else if (key == "distributedInfo" && json.is_object()) {
    AddDistributed(json, known_.target);
    group_names_ = GroupNamesIn(json);
  } else if (key == "host_name" && json.is_string()) {
    known_.node = ForDisplay(json.get_ref<const std::string&>(), kMaxTextBytes);
  } else if (key == "cupti_version" && json.is_number_integer()) {
    known_.gpu.cupti_version = json.get<int64_t>();
  } else if (key == "cuda_driver_version" && json.is_number_integer()) {
    known_.gpu.driver_version = json.get<int64_t>();
  } else if (key == "simulated" && json.is_boolean()) {
    known_.gpu.simulated = json.get<bool>();
  } else if (key == "profd" && json.is_object()) {
    is_ours_ = true;
    is_merged_ = json.contains("captures");
    AddOurs(json, known_);
    threads_ = ThreadsIn(json);
    has_torch_ = json.contains("torch");
    has_windows_ = NumberIn(json, "window_count") > 1;
    CountNotUnderstood(json, not_understood);
    was_cut_off_ = WasCutOff(json, not_understood);
  }
}

// For exports, which say themselves where times count from. Of a capture that was exported before,
// they say what the first export said of it.
void TraceHeader::Keep(std::string_view key, std::string_view value,
                       NotUnderstood& not_understood) {
  if (key == "baseTimeNanoseconds" || key == "simulated" || key == kOtherEvents) return;
  std::string json = CompactJson(value);
  kept_bytes_ += key.size() + json.size();
  if (kept_bytes_ > kMaxKeptBytes) {
    kept_bytes_ -= key.size() + json.size();
    not_understood.Count(StrCat("member:", key, " is too long"));
    return;
  }
  known_.imported.members[Unescape(key)] = std::move(json);
}

void TraceHeader::AddOtherEvents(std::string events, CaptureRecord& record) const {
  if (events.empty() || kept_bytes_ + kOtherEvents.size() + events.size() > kMaxKeptBytes) return;
  record.imported.members[std::string(kOtherEvents)] = std::move(events);
}

void TraceHeader::FillIn(CaptureRecord& record) const {
  record.node = known_.node;
  record.target = known_.target;
  record.spec.display_name = known_.spec.display_name;
  record.spec.labels = known_.spec.labels;
  record.gpu.devices = known_.gpu.devices;
  record.gpu.cupti_version = known_.gpu.cupti_version;
  record.gpu.driver_version = known_.gpu.driver_version;
  record.gpu.simulated = known_.gpu.simulated;
  record.imported.members = known_.imported.members;
  record.drops = known_.drops;
  record.imported.producer = is_ours_ ? "profd" : is_kineto_ ? "torch.profiler" : "";
}

}  // namespace profd::importer
