#include <array>
#include <string>

#include "cli/render/capture.h"
#include "cli/render/memory.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

using report::DeviceMemoryReport;
using report::MemoryLayer;
using report::MemorySample;

// The columns of a sample, as JSON and CSV have them.
std::vector<std::string> SampleColumns() {
  std::vector<std::string> columns = {"time_ns", "allocated_bytes", "reserved_bytes"};
  for (size_t layer = 0; layer < report::kMemoryLayers; ++layer) {
    columns.push_back(StrCat(ToString(static_cast<MemoryLayer>(layer)), "_bytes"));
  }
  return columns;
}

template <typename Fn>
void ForEachValue(const MemorySample& sample, Fn fn) {
  fn(sample.time_ns);
  fn(sample.allocated_bytes);
  fn(sample.reserved_bytes);
  for (const int64_t bytes : sample.layer_bytes) fn(bytes);
}

void WriteShares(std::string_view key, const std::vector<report::MemoryShare>& shares,
                 JsonWriter& json) {
  json.Key(key).BeginArray();
  for (const report::MemoryShare& share : shares) {
    json.BeginObject();
    json.Field("name", share.name);
    json.Field("bytes", share.bytes);
    json.Field("blocks", share.blocks);
    json.EndObject();
  }
  json.EndArray();
}

void WriteSamples(const std::vector<MemorySample>& samples, JsonWriter& json) {
  json.Key("points").BeginArray();
  for (const MemorySample& sample : samples) {
    json.BeginArray().Int(sample.time_ns).Int(sample.allocated_bytes).EndArray();
  }
  json.EndArray();
  json.Key("sample_columns").BeginArray();
  for (const std::string& column : SampleColumns()) json.String(column);
  json.EndArray();
  json.Key("samples").BeginArray();
  for (const MemorySample& sample : samples) {
    json.BeginArray();
    ForEachValue(sample, [&](int64_t value) { json.Int(value); });
    json.EndArray();
  }
  json.EndArray();
}

void WriteBlocks(const std::vector<report::MemoryBlock>& blocks, JsonWriter& json) {
  json.Key("peak_blocks").BeginArray();
  for (const report::MemoryBlock& block : blocks) {
    json.BeginObject();
    json.Field("bytes", block.bytes);
    json.Field("allocated_ns", block.allocated_ns);
    json.Field("freed_ns", block.freed_ns);
    json.Field("step", block.step);
    json.Field("category", block.category);
    json.Field("op", block.op);
    json.Field("module", block.module);
    json.Key("stack").BeginArray();
    for (const std::string& range : block.stack) json.String(range);
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
}

void WriteMemorySteps(const std::vector<report::MemoryStepRow>& steps, JsonWriter& json) {
  json.Key("steps").BeginArray();
  for (const report::MemoryStepRow& step : steps) {
    json.BeginObject();
    json.Field("step", step.step);
    json.Field("start_bytes", step.start_bytes);
    json.Field("end_bytes", step.end_bytes);
    json.Field("lowest_bytes", step.lowest_bytes);
    json.Field("peak_bytes", step.peak_bytes);
    json.Field("peak_reserved_bytes", step.peak_reserved_bytes);
    json.Field("allocation_count", step.allocation_count);
    json.Field("allocated_total_bytes", step.allocated_total_bytes);
    json.Field("kept_bytes", step.kept_bytes);
    json.Field("kept_blocks", step.kept_blocks);
    json.EndObject();
  }
  json.EndArray();
}

void WriteGrowth(const report::MemoryGrowth& growth, JsonWriter& json) {
  json.Key("growth").BeginObject();
  json.Field("step_count", growth.step_count);
  json.Field("rising_count", growth.rising_count);
  json.Key("bytes_per_step");
  if (growth.step_count < report::MemoryGrowth::kFewestSteps) {
    json.Null();
  } else {
    json.Int(growth.bytes_per_step);
  }
  WriteShares("suspects_by_op", growth.suspects_by_op, json);
  json.Field("unknown_because", growth.unknown_because);
  json.EndObject();
}

void WriteCategories(const std::vector<report::MemoryCategoryUse>& categories, JsonWriter& json) {
  json.Key("categories").BeginArray();
  for (const report::MemoryCategoryUse& use : categories) {
    json.BeginObject();
    json.Field("name", use.name);
    json.Field("peak_bytes", use.peak_bytes);
    json.Field("byte_seconds", use.byte_seconds);
    json.Field("block_count", use.block_count);
    json.EndObject();
  }
  json.EndArray();
}

void WriteDevice(const DeviceMemoryReport& device, JsonWriter& json) {
  const report::DeviceMemory& memory = device.memory;
  json.BeginObject();
  json.Field("device", memory.device);
  json.Field("relative", memory.relative);
  json.Field("capacity_bytes", device.capacity_bytes);
  json.Field("peak_bytes", memory.peak_bytes);
  json.Field("peak_time_ns", memory.peak_time_ns);
  json.Field("reserved_at_peak_bytes", device.reserved_at_peak_bytes);
  json.Field("start_bytes", memory.start_bytes);
  json.Field("end_bytes", memory.end_bytes);
  json.Field("peak_reserved_bytes", memory.peak_reserved_bytes);
  json.Field("peak_reserved_time_ns", device.peak_reserved_time_ns);
  json.Field("allocated_at_peak_reserved_bytes", device.allocated_at_peak_reserved_bytes);
  json.Field("allocation_count", memory.allocation_count);
  json.Field("free_count", memory.free_count);
  json.Field("allocated_total_bytes", memory.allocated_total_bytes);
  json.Field("unknown_free_count", memory.unknown_free_count);
  json.Field("unknown_free_bytes", memory.unknown_free_bytes);
  json.Field("repeated_free_count", memory.repeated_free_count);
  WriteShares("peak_by_category", memory.peak_by_category, json);
  WriteShares("peak_by_op", memory.peak_by_op, json);
  WriteShares("peak_by_module", device.peak_by_module, json);
  WriteShares("peak_by_lifetime", device.peak_by_lifetime, json);
  json.Field("peak_older_bytes", memory.peak_older_bytes);
  json.Field("peak_unknown_bytes", memory.peak_unknown_bytes);
  WriteBlocks(device.peak_blocks, json);
  WriteMemorySteps(device.steps, json);
  WriteGrowth(device.growth, json);
  WriteCategories(memory.categories, json);
  WriteSamples(device.samples, json);
  json.EndObject();
}

}  // namespace

void WriteMemoryJson(const CaptureView& view, const report::MemoryReport& report,
                     JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Key("devices").BeginArray();
  for (const DeviceMemoryReport& device : report.devices) WriteDevice(device, json);
  json.EndArray();
  json.Key("out_of_memory").BeginArray();
  for (const report::FailedAllocation& failed : report.out_of_memory) {
    json.BeginObject();
    json.Field("time_ns", failed.asked.time_ns);
    json.Field("device", failed.asked.device);
    json.Field("bytes", failed.asked.bytes);
    json.Field("step", failed.step);
    json.Field("allocated_bytes", failed.allocated_bytes);
    json.Field("reserved_bytes", failed.reserved_bytes);
    json.Field("capacity_bytes", failed.capacity_bytes);
    json.Field("op", failed.op);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

void WriteMemoryCsv(const report::MemoryReport& report,
                    absl::FunctionRef<void(std::string_view)> print) {
  constexpr size_t kPieceBytes = size_t{1} << 16;
  std::string text = "device";
  for (const std::string& column : SampleColumns()) StrAppend(&text, ",", column);
  text += "\r\n";
  for (const DeviceMemoryReport& device : report.devices) {
    for (const MemorySample& sample : device.samples) {
      text += device.memory.device;  // One of our own words: nothing in it to quote.
      ForEachValue(sample, [&](int64_t value) { StrAppend(&text, ",", value); });
      text += "\r\n";
      if (text.size() < kPieceBytes) continue;
      print(text);
      text.clear();
    }
  }
  print(text);
}

}  // namespace profd::cli
