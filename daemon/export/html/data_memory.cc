// What each device held over time, and what was alive at the peak.
#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/export/html/data.h"
#include "daemon/report/memory/memory_report.h"

namespace profd::exporter {
namespace {

using report::DeviceMemoryReport;
using report::MemoryBlock;
using report::MemorySample;
using report::MemoryShare;
using report::MemoryStepRow;

// Rows of what was alive at a peak.
constexpr size_t kMostShares = 100;

bool LayerIsUsed(const std::vector<MemorySample>& samples, size_t layer) {
  return std::any_of(samples.begin(), samples.end(),
                     [&](const MemorySample& sample) { return sample.layer_bytes[layer] != 0; });
}

void WriteSamples(const std::vector<MemorySample>& samples, JsonWriter& json) {
  json.Key("samples").BeginObject();
  WriteColumn(json, "time_ns", samples, &MemorySample::time_ns);
  WriteColumn(json, "allocated_bytes", samples, &MemorySample::allocated_bytes);
  const bool reserved = std::any_of(samples.begin(), samples.end(), [](const MemorySample& sample) {
    return sample.reserved_bytes >= 0;
  });
  if (reserved) WriteColumn(json, "reserved_bytes", samples, &MemorySample::reserved_bytes);
  json.EndObject();
  json.Key("layers").BeginObject();
  for (size_t layer = 0; layer < report::kMemoryLayers; ++layer) {
    if (!LayerIsUsed(samples, layer)) continue;
    WriteColumn(json, ToString(static_cast<report::MemoryLayer>(layer)), samples,
                [&](const MemorySample& sample) { return sample.layer_bytes[layer]; });
  }
  json.EndObject();
}

void WriteShares(std::string_view key, const std::vector<MemoryShare>& shares, JsonWriter& json) {
  const auto rows = std::span(shares).first(std::min(shares.size(), kMostShares));
  json.Key(key).BeginObject();
  WriteColumn(json, "name", rows, &MemoryShare::name);
  WriteColumn(json, "bytes", rows, &MemoryShare::bytes);
  WriteColumn(json, "blocks", rows, &MemoryShare::blocks);
  json.EndObject();
}

void WriteBlocks(const std::vector<MemoryBlock>& blocks, JsonWriter& json) {
  json.Key("peak_blocks").BeginObject();
  WriteColumn(json, "bytes", blocks, &MemoryBlock::bytes);
  WriteColumn(json, "category", blocks, &MemoryBlock::category);
  WriteColumn(json, "op", blocks, &MemoryBlock::op);
  WriteColumn(json, "module", blocks, &MemoryBlock::module);
  WriteColumn(json, "step", blocks, &MemoryBlock::step);
  WriteColumn(json, "allocated_ns", blocks, &MemoryBlock::allocated_ns);
  WriteColumn(json, "freed_ns", blocks, &MemoryBlock::freed_ns);
  json.EndObject();
}

void WriteGrowth(const DeviceMemoryReport& device, JsonWriter& json) {
  const report::MemoryGrowth& growth = device.growth;
  json.Key("growth").BeginObject();
  json.Field("known", growth.step_count >= report::MemoryGrowth::kFewestSteps);
  json.Field("unknown_because", growth.unknown_because);
  json.Field("step_count", growth.step_count);
  json.Field("rising_count", growth.rising_count);
  json.Field("bytes_per_step", growth.bytes_per_step);
  WriteShares("suspects", growth.suspects_by_op, json);
  json.EndObject();
}

void WriteDevice(const DeviceMemoryReport& device, JsonWriter& json) {
  const report::DeviceMemory& memory = device.memory;
  json.BeginObject();
  json.Field("device", ShownName(memory.device));
  json.Field("relative", memory.relative);
  json.Field("peak_bytes", memory.peak_bytes);
  json.Field("peak_time_ns", memory.peak_time_ns);
  json.Field("start_bytes", memory.start_bytes);
  json.Field("end_bytes", memory.end_bytes);
  json.Field("peak_reserved_bytes", memory.peak_reserved_bytes);
  json.Field("reserved_at_peak_bytes", device.reserved_at_peak_bytes);
  json.Field("capacity_bytes", device.capacity_bytes);
  json.Field("peak_older_bytes", memory.peak_older_bytes);
  json.Field("peak_unknown_bytes", memory.peak_unknown_bytes);
  json.Field("allocation_count", memory.allocation_count);
  json.Field("free_count", memory.free_count);
  json.Field("allocated_total_bytes", memory.allocated_total_bytes);
  json.Field("unknown_free_count", memory.unknown_free_count);
  json.Field("unknown_free_bytes", memory.unknown_free_bytes);
  json.Field("repeated_free_count", memory.repeated_free_count);
  WriteSamples(device.samples, json);
  WriteShares("by_category", memory.peak_by_category, json);
  WriteShares("by_op", memory.peak_by_op, json);
  WriteShares("by_module", device.peak_by_module, json);
  WriteShares("by_lifetime", device.peak_by_lifetime, json);
  WriteBlocks(device.peak_blocks, json);
  WriteGrowth(device, json);
  json.EndObject();
}

void WriteFailures(const std::vector<report::FailedAllocation>& failures, JsonWriter& json) {
  json.Field("out_of_memory_count", failures.size());
  json.Key("out_of_memory").BeginArray();
  for (size_t i = 0; i < std::min(failures.size(), kMostShares); ++i) {
    const report::FailedAllocation& failure = failures[i];
    json.BeginObject();
    json.Field("device", ShownName(failure.asked.device));
    json.Field("time_ns", failure.asked.time_ns);
    json.Field("bytes", failure.asked.bytes);
    json.Field("step", failure.step);
    json.Field("allocated_bytes", failure.allocated_bytes);
    json.Field("reserved_bytes", failure.reserved_bytes);
    json.Field("capacity_bytes", failure.capacity_bytes);
    json.Field("op", ShownName(failure.op));
    json.EndObject();
  }
  json.EndArray();
}

// How many devices there are is known only with the report: ask for what one may have, and thin
// again where there are several.
absl::StatusOr<report::MemoryReport> ReportThinned(store::CaptureReader& reader) {
  ASSIGN_OR_RETURN(report::MemoryReport report,
                   report::ReportMemory(reader, {.max_points = kMostMemoryPoints}));
  size_t points = 0;
  for (const DeviceMemoryReport& device : report.devices) points += device.samples.size();
  if (points <= static_cast<size_t>(kMostMemoryPoints)) return report;
  const auto devices = static_cast<int64_t>(std::min(report.devices.size(), kMostDevices));
  return report::ReportMemory(reader, {.max_points = kMostMemoryPoints / devices});
}

// The largest first.
std::vector<const DeviceMemoryReport*> Charted(const report::MemoryReport& report) {
  std::vector<const DeviceMemoryReport*> devices;
  for (const DeviceMemoryReport& device : report.devices) devices.push_back(&device);
  std::stable_sort(devices.begin(), devices.end(),
                   [](const DeviceMemoryReport* a, const DeviceMemoryReport* b) {
                     return a->memory.peak_bytes > b->memory.peak_bytes;
                   });
  devices.resize(std::min(devices.size(), kMostDevices));
  return devices;
}

}  // namespace

absl::Status WriteMemoryData(store::CaptureReader& reader, JsonWriter& json) {
  ASSIGN_OR_RETURN(const report::MemoryReport report, ReportThinned(reader));
  json.Field("memory_device_count", report.devices.size());
  json.Key("memory").BeginArray();
  for (const DeviceMemoryReport* device : Charted(report)) WriteDevice(*device, json);
  json.EndArray();
  WriteFailures(report.out_of_memory, json);
  // Where the curves' marks stand. Of many steps, none: they would be one band.
  constexpr size_t kMostStepMarks = 200;
  json.Key("step_marks").BeginArray();
  if (reader.steps().size() <= kMostStepMarks) {
    for (const StepRecord& step : reader.steps()) {
      json.BeginArray().Int(step.index).Int(step.start_ns).Int(step.start_ns + step.duration_ns);
      json.EndArray();
    }
  }
  json.EndArray();
  return absl::OkStatus();
}

}  // namespace profd::exporter
