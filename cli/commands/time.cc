#include "cli/render/time.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "cli/base/errors.h"
#include "cli/captures/capture_source.h"
#include "cli/commands/command.h"
#include "cli/commands/plain_report.h"
#include "cli/render/capture.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/table.h"
#include "daemon/report/reports.h"
#include "daemon/report/time/time_report.h"

namespace profd::cli {
namespace {

constexpr int64_t kTimeRowsForPeople = 10;

// For people it asks for all rows: the text says how many more there are than --limit shows.
absl::StatusOr<report::ReportRequest> ParseRequest(const ParsedFlags& flags, bool is_for_people) {
  report::ReportRequest request = {.report = "time"};
  auto& options = request.options;
  if (const auto sort = flags.Get("sort")) options["sort"] = *sort;
  if (flags.Has("launched-only")) options["launched_only"] = "1";
  ASSIGN_OR_RETURN(const std::optional<int64_t> device,
                   flags.Int("device", 0, std::numeric_limits<uint16_t>::max()));
  if (device.has_value()) options["device"] = StrCat(*device);
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  if (!is_for_people) options["limit"] = StrCat(limit.value_or(0));
  return request;
}

absl::StatusOr<int> RunTime(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  if (invocation.json() && flags.Has("csv"))
    return UsageError("--csv and --json are mutually exclusive");
  const bool is_for_people = !invocation.json() && !flags.Has("csv");
  ASSIGN_OR_RETURN(const report::ReportRequest request, ParseRequest(flags, is_for_people));
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(const table::Report report, DemandingReport(*source, request));
  if (!is_for_people) {
    PrintReport(invocation, source->view(), report);
    return 0;
  }
  ASSIGN_OR_RETURN(const report::TimeReport time, report::TimeFrom(report));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  const Style style = StyleFor(source->view(), invocation.style());
  invocation.Print(RenderReportHeader(source->view(), invocation.style()));
  invocation.Print(RenderTime(time, limit.value_or(kTimeRowsForPeople), style));
  return 0;
}

}  // namespace

Command TimeCommand() {
  return {
      .name = "time",
      .summary = "Show where the time went: steps, idle time, launches, collectives, waits",
      .arguments = "ID|FILE.profd",
      .description =
          "Shows what one GPU did from its first work to its last, and in each step: compute, "
          "communication (exposed while nothing computed, overlapped otherwise), copies, and "
          "idle time by cause as in `profctl idle`; host-only is idle time in which nothing "
          "was launched that had yet to run. Then what held it up: gaps by stream, launches "
          "and the operators whose launches came late, launch queues, NCCL collectives with "
          "sizes and bandwidth, calls that made the host wait (.item(), .cpu()), waits for "
          "the data loader, and compiled regions.",
      .flags = {{.name = "device",
                 .value_name = "N",
                 .help = "GPU to show (default: the one with the most work)"},
                {.name = "launched-only", .help = "Only work whose launch is in the capture"},
                {.name = "sort",
                 .value_name = "KEY",
                 .help = "Order the steps by a column; `profctl explain` has the columns",
                 .completes = Completes::kChoice,
                 .choices = SortChoicesOf("time")},
                {.name = "limit",
                 .value_name = "N",
                 .help = "At most N rows of each table; 0 is all (default: 10, all with "
                         "--json and --csv)"},
                {.name = "csv", .help = "Print the steps as comma-separated values, times in ns"}},
      .examples = {{"profctl time 01J9ZK", "What the GPU did, and what it waited for"},
                   {"profctl time 01J9ZK --csv", "One line of times for each step"}},
      .min_arguments = 1,
      .max_arguments = 1,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunTime};
}

}  // namespace profd::cli
