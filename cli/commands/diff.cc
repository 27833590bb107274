#include "cli/render/diff.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "cli/base/errors.h"
#include "cli/base/row_limit.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/slow_rank.h"
#include "cli/commands/command.h"
#include "cli/commands/commands.h"
#include "cli/commands/plain_report.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/text.h"
#include "daemon/report/diff/capture_diff.h"

namespace profd::cli {
namespace {

constexpr int64_t kDiffRowsForPeople = 15;

absl::StatusOr<report::DiffSide> SideOf(CaptureSource& source) {
  report::DiffSide side = {.record = source.view().record};
  ASSIGN_OR_RETURN(side.figures, FiguresOf(source, /*with_flops=*/true));
  return side;
}

// "3", "2.5%"; nullopt: not given.
absl::StatusOr<std::optional<double>> FailAbove(const ParsedFlags& flags) {
  const std::optional<std::string> text = flags.Get("fail-above");
  if (!text.has_value()) return std::nullopt;
  double percent = 0;
  if (!absl::SimpleAtod(absl::StripSuffix(*text, "%"), &percent) || !(percent >= 0) ||
      !std::isfinite(percent)) {
    return UsageError(StrCat("--fail-above '", ForDisplay(*text, 80),
                             "' is not a percentage of 0 or more; write 3 or 2.5%"));
  }
  return percent / 100;
}

int ExitCodeOf(const report::StepChange& steps, double fail_above) {
  if (steps.verdict == report::StepVerdict::kUnknown) return kExitPartial;
  const bool is_worse = steps.verdict == report::StepVerdict::kSlower && steps.low > fail_above;
  return is_worse ? kExitCondition : kExitDone;
}

absl::StatusOr<int> RunDiff(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  if (invocation.json() && flags.Has("csv")) return UsageError("--csv does not go with --json");
  ASSIGN_OR_RETURN(const std::optional<double> fail_above, FailAbove(flags));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  const bool is_for_people = !invocation.json() && !flags.Has("csv");
  const table::ViewOptions view = {.sort = flags.Get("sort").value_or(""),
                                   .limit = limit.value_or(is_for_people ? kDiffRowsForPeople : 0)};
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> before,
                   OpenCaptureSource(invocation, invocation.arguments()[0]));
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> after,
                   OpenCaptureSource(invocation, invocation.arguments()[1]));
  ASSIGN_OR_RETURN(const report::DiffSide first, SideOf(*before));
  ASSIGN_OR_RETURN(const report::DiffSide second, SideOf(*after));
  const report::CaptureDiff diff = report::DiffCaptures(first, second);
  ASSIGN_OR_RETURN(const DiffTables tables, DiffTablesOf(diff, view));
  if (invocation.json()) {
    JsonWriter json;
    WriteDiffJson(diff, tables, json);
    invocation.Print(json.TakeLine());
  } else if (flags.Has("csv")) {
    invocation.Print(table::ToCsv(tables.operators));
  } else {
    invocation.Print(RenderDiff(diff, tables, before->view(), after->view(), invocation.style()));
  }
  return fail_above.has_value() ? ExitCodeOf(diff.steps, *fail_above) : kExitDone;
}

}  // namespace

Command DiffCommand() {
  return {
      .name = "diff",
      .summary = "Show what changed between two captures of one program",
      .arguments = "BEFORE AFTER",
      .description =
          "Says whether steps take longer in the second capture, and what changed: the parts of a "
          "step on the GPU and on the host, operators, and kernels, each per step. It also names "
          "what else differs: program, GPU, PyTorch, FLOPs per step, and what was recorded, which "
          "costs time. Either capture may be an ID or a file.\n\n"
          "Steps are compared by the median of all pairs (Hodges-Lehmann), with an interval of 95 "
          "% (Mann-Whitney). They differ if the interval does not contain 0, even without the "
          "time in which threads waited for a CPU, and the difference is at least 2 %. The "
          "interval is that of these two captures; two runs of one program may differ by more. "
          "Compare two runs without a change to see by how much.\n\n"
          "With --fail-above, the exit code is 3 if steps certainly take longer by more than "
          "that.",
      .flags = {{.name = "fail-above",
                 .value_name = "PERCENT",
                 .help = "Exit with 3 if the whole interval lies above PERCENT, and with 4 if the "
                         "captures have too few steps to tell"},
                {.name = "sort",
                 .value_name = "KEY",
                 .help = "Order operators and kernels by a column (default: what changed most); "
                         "`profctl explain --table diff` has the columns",
                 .completes = Completes::kChoice,
                 .choices = SortChoicesOf(report::DiffOperatorColumns().columns())},
                {.name = "limit",
                 .value_name = "N",
                 .help = "At most N operators and N kernels; 0 is all (default: 15, all with "
                         "--json and --csv)"},
                {.name = "csv", .help = "Print operators as comma-separated values, times in ns"}},
      .examples = {{"profctl diff 01J9ZK 01J9ZM", "What an hour, or a restart, changed"},
                   {"profctl diff main.profd branch.profd --fail-above 3", "In CI"}},
      .min_arguments = 2,
      .max_arguments = 2,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunDiff};
}

}  // namespace profd::cli
