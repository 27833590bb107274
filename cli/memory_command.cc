#include <limits>

#include "cli/capture_source.h"
#include "cli/command.h"
#include "cli/render_capture.h"
#include "cli/render_reports.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kSharesForPeople = 10;
// More than a plot has columns, and every bucket keeps its peak.
constexpr int64_t kPointsForPeople = 2000;

absl::StatusOr<int> Run(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  report::MemoryOptions options;
  options.max_points = invocation.json() ? 0 : kPointsForPeople;
  ASSIGN_OR_RETURN(const std::optional<int64_t> max_points, flags.Int("max-points", 0, kMax));
  if (max_points.has_value()) options.max_points = *max_points;
  if (options.max_points > 0 && options.max_points < 4) {
    return UsageError("--max-points must be 0 (all) or at least 4");
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> shares, flags.Int("limit", 0, kMax));

  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(const report::MemoryTimeline timeline, source->Memory(options));
  if (invocation.json()) {
    JsonWriter json;
    WriteMemoryJson(source->view(), timeline, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(RenderMemory(source->view(), timeline, shares.value_or(kSharesForPeople),
                                  invocation.style()));
  }
  return 0;
}

}  // namespace

Command MemoryCommand() {
  return {.name = "memory",
          .summary = "Show memory over time, the peak, and what was alive at it",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows, for each device, allocated bytes over time, the peak and when it was, and "
              "what was alive at the peak by category and by the range it was allocated in; then "
              "what blocks of each category took over the window. Allocations that failed come "
              "first. Where the program gave no totals, bytes count from 0 at the window's start, "
              "and the report says so.",
          .flags = {{.name = "max-points",
                     .value_name = "N",
                     .help = "At most N points per device, at least 4; every bucket of time keeps "
                             "its lowest and highest; 0 is all (default: all with --json)"},
                    {.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows of each table; 0 is all (default: 10); --json prints "
                             "all"}},
          .examples = {{"profctl memory 01J9ZK", "The memory timeline"},
                       {"profctl memory 01J9ZK --json --max-points 1000", "The same to plot"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &Run};
}

}  // namespace profd::cli
