#include <algorithm>
#include <span>
#include <string>

#include "cli/render/memory.h"
#include "cli/render/report_tables.h"
#include "daemon/base/table/json.h"

namespace profd::cli {

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
