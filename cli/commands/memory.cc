#include "cli/render/memory.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/captures/capture_set.h"
#include "cli/captures/framework_steps.h"
#include "cli/commands/command.h"
#include "cli/commands/show_over_ranks.h"
#include "cli/render/capture.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/table.h"
#include "daemon/base/text.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

constexpr int64_t kSharesForPeople = 10;
// More than a plot has columns, and every bucket keeps its peak.
constexpr int64_t kPointsForPeople = 2000;
constexpr int64_t kFewestPoints = 4;

// Leaves only the device that was asked for.
absl::Status KeepDevice(const std::string& name, report::MemoryReport& report) {
  const auto is_other = [&](const report::DeviceMemoryReport& device) {
    return device.memory.device != name;
  };
  if (std::all_of(report.devices.begin(), report.devices.end(), is_other)) {
    std::string there;
    for (const report::DeviceMemoryReport& device : report.devices) {
      StrAppend(&there, there.empty() ? "" : ", ", device.memory.device);
    }
    return UsageError(StrCat("--device: no memory of '", ForDisplay(name, 60),
                             "' in the capture; there is that of ",
                             there.empty() ? "none" : there));
  }
  std::erase_if(report.devices, is_other);
  std::erase_if(report.out_of_memory, [&](const report::FailedAllocation& failed) {
    return failed.asked.device != name;
  });
  return absl::OkStatus();
}

// The daemon's answer, where there are few samples; all samples are as much as the capture itself.
absl::StatusOr<report::MemoryReport> MemoryOf(CaptureSource& source,
                                              const report::MemoryOptions& options) {
  if (options.max_points > 0 && options.peak_by_op) {
    ASSIGN_OR_RETURN(
        const table::Report report,
        DemandingReport(
            source, {.report = "memory", .options = {{"max_points", StrCat(options.max_points)}}}));
    return report::MemoryFrom(report);
  }
  ASSIGN_OR_RETURN(store::CaptureReader* const reader, source.Reader());
  return report::ReportMemory(*reader, options);
}

// Levels over time are of one process each, so what is asked for has as few as can be.
absl::StatusOr<int> ShowMemoryOverRanks(Invocation& invocation, CaptureSet& set,
                                        std::optional<int64_t> limit) {
  for (const std::string_view flag : {"device", "max-points"}) {
    if (invocation.flags().Has(flag)) {
      return UsageError(StrCat("--", flag, " is for one capture, not for a group"));
    }
  }
  const bool is_for_people = !invocation.json() && !invocation.flags().Has("csv");
  return ShowOverRanks(
      invocation, set,
      {.request = {.report = "memory", .options = {{"max_points", StrCat(kFewestPoints)}}},
       .limit = limit.value_or(is_for_people ? kSharesForPeople : 0),
       .is_demanding = true});
}

absl::StatusOr<int> RunMemory(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  const bool csv = flags.Has("csv");
  if (csv && invocation.json()) return UsageError("--csv and --json are mutually exclusive");
  report::MemoryOptions options;
  options.max_points = invocation.json() || csv ? 0 : kPointsForPeople;
  // Samples need no operators.
  options.peak_by_op = !csv;
  ASSIGN_OR_RETURN(const std::optional<int64_t> max_points, flags.Int("max-points", 0));
  if (max_points.has_value()) options.max_points = *max_points;
  if (options.max_points > 0 && options.max_points < kFewestPoints) {
    return UsageError("--max-points must be 0 (all) or at least 4");
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));

  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (set.is_group() || flags.Has("group-by")) return ShowMemoryOverRanks(invocation, set, limit);
  CaptureSource& source = set.Only();
  ASSIGN_OR_RETURN(report::MemoryReport report, MemoryOf(source, options));
  const std::optional<std::string> device = flags.Get("device");
  if (device.has_value()) RETURN_IF_ERROR(KeepDevice(*device, report));
  if (csv) {
    WriteMemoryCsv(report, [&](std::string_view piece) { invocation.Print(piece); });
  } else if (invocation.json()) {
    LimitMemoryRows(limit.value_or(0), report);
    JsonWriter json;
    WriteMemoryJson(source.view(), report, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source.view(), invocation.style()));
    invocation.Print(RenderMemory(source.view(), report, limit.value_or(kSharesForPeople),
                                  invocation.style(), FrameworkStepsOf(source)));
  }
  return 0;
}

std::vector<Flag> WithOverRanksFlags(std::vector<Flag> flags) {
  std::ranges::move(OverRanksFlags(), std::back_inserter(flags));
  return flags;
}

}  // namespace

Command MemoryCommand() {
  return {
      .name = "memory",
      .summary = "Show memory over time, the peak, and what was alive at it",
      .arguments = "ID|GROUP|FILES.profd",
      .description =
          "Shows, for each device: allocated bytes over time by category and what the allocator "
          "had reserved; the peak, and what was alive at it by category, operator, module, and "
          "lifetime; unallocated reserved bytes (cache and fragmentation); what each step began, "
          "peaked, and ended with; growth per step and its origin; and what each category took "
          "over the window.\n\nAn operator is the outermost one around the allocation. Modules are "
          "known if the program's Python functions were recorded. Unreported categories are "
          "inferred from operator usage; the rest is unknown. If the program gave no totals, bytes "
          "count from 0 at the window start, and the report says so.\n\nOf a group, or of several "
          "files, it shows the devices of each rank, and compares the ranks by what each category, "
          "operator, and step had at most: minimum, median, maximum, and the rank of the maximum. "
          "With --group-by rank, it shows the rows of each rank. A member that is out of reach is "
          "named on stderr, and the exit code is then 4.",
      .flags = WithOverRanksFlags(
          {{.name = "device",
            .value_name = "NAME",
            .help = "Only this device: cuda:0, cpu:0, ... (default: all)"},
           {.name = "csv",
            .help = "Print the levels over time as CSV: a row per device and event, with "
                    "a column per category"},
           {.name = "max-points",
            .value_name = "N",
            .help = "Maximum number of points per device, at least 4; each time bucket keeps "
                    "its lowest and highest; 0 for all (default: all with --json and --csv)"},
           {.name = "limit",
            .value_name = "N",
            .help = "At most N rows of each table; 0 is all (default: 10, all with --json); "
                    "for points over time, see --max-points"}}),
      .examples = {{"profctl memory 01J9ZK", "The memory timeline"},
                   {"profctl memory run.profd --device cuda:0 --csv", "Its levels, to plot"},
                   {"profctl memory 01J9ZK --json --max-points 1000", "All of it, to plot"},
                   {"profctl memory 01J9ZM", "A group: which rank needs the most"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunMemory};
}

}  // namespace profd::cli
