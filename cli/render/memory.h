// The memory report as text, JSON and CSV.
#ifndef PROFD_CLI_RENDER_MEMORY_H_
#define PROFD_CLI_RENDER_MEMORY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/report/memory/memory_report.h"

namespace profd::cli {

// Allocations that failed; then per device, the one that held most first, a plot over time, the
// peak and what was alive at it, what the allocator held back, and what steps did. `limit` rows of
// each table; 0: all. `framework` has names for steps.
std::string RenderMemory(const CaptureView& view, const report::MemoryReport& report, int64_t limit,
                         const Style& style, const report::FrameworkSteps& framework = {});
void WriteMemoryJson(const CaptureView& view, const report::MemoryReport& report, JsonWriter& json);
// The samples of all devices, a row each, with a line of columns' names first; in pieces.
void WriteMemoryCsv(const report::MemoryReport& report,
                    absl::FunctionRef<void(std::string_view)> print);
// Leaves `limit` rows of each list; 0: all. Samples over time are not rows: --max-points thins
// them.
void LimitMemoryRows(int64_t limit, report::MemoryReport& report);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_MEMORY_H_
