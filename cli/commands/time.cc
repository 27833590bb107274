#include "cli/render/time.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/errors.h"
#include "cli/captures/capture_set.h"
#include "cli/commands/command.h"
#include "cli/commands/plain_report.h"
#include "cli/commands/show_over_ranks.h"
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
  ASSIGN_OR_RETURN(const std::optional<int64_t> wanted_limit, flags.Int("limit", 0));
  const int64_t limit = wanted_limit.value_or(is_for_people ? kTimeRowsForPeople : 0);
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (set.is_group() || flags.Has("group-by")) {
    return ShowOverRanks(invocation, set,
                         {.request = request, .limit = limit, .is_demanding = true});
  }
  CaptureSource& source = set.Only();
  ASSIGN_OR_RETURN(const table::Report report, DemandingReport(source, request));
  if (!is_for_people) {
    PrintReport(invocation, source.view(), report);
    return 0;
  }
  ASSIGN_OR_RETURN(const report::TimeReport time, report::TimeFrom(report));
  const Style style = StyleFor(source.view(), invocation.style());
  invocation.Print(RenderReportHeader(source.view(), invocation.style()));
  invocation.Print(RenderTime(time, limit, style));
  return 0;
}

constexpr std::string_view kDescription =
    "Shows what one GPU did from its first work to its last, and in each step: compute, "
    "communication (exposed while nothing computed, overlapped otherwise), copies, and "
    "idle time by cause as in `profctl idle`; host-only is idle time in which nothing "
    "was launched that had yet to run. Then what held it up: gaps by stream, launches "
    "and the operators whose launches came late, launch queues, NCCL collectives with "
    "sizes and bandwidth, calls that made the host wait (.item(), .cpu()), waits for "
    "the data loader, and compiled regions.";

std::vector<Flag> Flags() {
  std::vector<Flag> flags = {
      {.name = "device",
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
      {.name = "csv", .help = "Print the steps as comma-separated values, times in ns"}};
  AddComparedColumns(*std::ranges::find(flags, "sort", &Flag::name));
  std::ranges::move(OverRanksFlags(), std::back_inserter(flags));
  return flags;
}

}  // namespace

Command TimeCommand() {
  static const std::string description = StrCat(kDescription, kOverRanksHelp);
  return {.name = "time",
          .summary = "Show where the time went: steps, idle time, launches, collectives, waits",
          .arguments = "ID|GROUP|FILES.profd",
          .description = description,
          .flags = Flags(),
          .examples = {{"profctl time 01J9ZK", "What the GPU did, and what it waited for"},
                       {"profctl time 01J9ZK --csv", "One line of times for each step"},
                       {"profctl time 01J9ZM --sort busy", "A group: which rank's GPU was idle"}},
          .min_arguments = 1,
          .max_arguments = 4096,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunTime};
}

}  // namespace profd::cli
