#include <algorithm>
#include <span>
#include <string>

#include "cli/render/memory.h"
#include "cli/render/report_tables.h"
#include "daemon/base/table/json.h"

namespace profd::cli {

void LimitMemoryRows(int64_t limit, report::MemoryReport& report) {
  if (limit <= 0) return;
  const auto cut = [most = static_cast<size_t>(limit)](auto&... lists) {
    (lists.resize(std::min(lists.size(), most)), ...);
  };
  cut(report.out_of_memory);
  for (report::DeviceMemoryReport& device : report.devices) {
    report::DeviceMemory& memory = device.memory;
    cut(memory.peak_by_category, memory.peak_by_op, memory.categories,
        device.peak_older_by_category, device.peak_by_module, device.peak_by_lifetime,
        device.peak_blocks, device.steps, device.growth.suspects_by_op,
        device.growth.suspects_by_source);
  }
}

void WriteMemoryJson(const CaptureView& view, const report::MemoryReport& report,
                     JsonWriter& json) {
  WriteReportJson(view, report::MemoryObject(), report, json);
}

void WriteMemoryCsv(const report::MemoryReport& report,
                    absl::FunctionRef<void(std::string_view)> print) {
  constexpr size_t kRowsAtOnce = 1024;
  print(table::CsvHeader(report::MemorySampleTable("", {}).columns));
  for (const report::DeviceMemoryReport& device : report.devices) {
    std::span<const report::MemorySample> samples = device.samples;
    while (!samples.empty()) {
      const auto some = samples.first(std::min(kRowsAtOnce, samples.size()));
      print(table::CsvRows(report::MemorySampleTable(device.memory.device, some)));
      samples = samples.subspan(some.size());
    }
  }
}

}  // namespace profd::cli
