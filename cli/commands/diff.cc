#include "cli/render/diff.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
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
constexpr size_t kMostCapturesOfSide = 64;

// What an argument names: a capture, or several with commas between them. A file may have a comma
// in its name.
absl::StatusOr<std::vector<std::string>> NamesOfSide(const std::string& argument) {
  std::error_code ignored;
  if (NamesFile(argument) && std::filesystem::exists(argument, ignored)) {
    return std::vector<std::string>{argument};
  }
  std::vector<std::string> names = absl::StrSplit(argument, ',');
  if (names.size() > kMostCapturesOfSide) {
    return UsageError(StrCat(names.size(), " captures on one side; at most ", kMostCapturesOfSide,
                             " are compared"));
  }
  if (names.size() > 1 && std::ranges::find(names, "") != names.end()) {
    return UsageError(StrCat("'", ForDisplay(argument, 80), "' has a comma too many"));
  }
  return names;
}

// One side of the comparison. The sources are open as long as it is.
struct OpenSide {
  std::vector<std::unique_ptr<CaptureSource>> sources;
  report::DiffSide captures;

  std::vector<const CaptureView*> Views() const {
    std::vector<const CaptureView*> views;
    views.reserve(sources.size());
    for (const auto& source : sources) views.push_back(&source->view());
    return views;
  }
};

absl::StatusOr<OpenSide> OpenSideOf(Invocation& invocation, const std::string& argument) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOfSide(argument));
  OpenSide side;
  std::set<std::string> ids;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(std::unique_ptr<CaptureSource> source, OpenCaptureSource(invocation, name));
    // It would count as a second run that does not differ at all.
    if (!ids.insert(source->view().record.id).second) {
      return UsageError(
          StrCat("'", ForDisplay(name, 80), "' is there twice; name each capture of a side once"));
    }
    side.sources.push_back(std::move(source));
  }
  for (const auto& source : side.sources) {
    const CaptureView& view = source->view();
    report::DiffCapture capture = {.record = view.record,
                                   .lost_event_count = view.dropped_event_count};
    ASSIGN_OR_RETURN(capture.figures, FiguresOf(*source, /*with_flops=*/true));
    side.captures.push_back(std::move(capture));
  }
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
  ASSIGN_OR_RETURN(const OpenSide before, OpenSideOf(invocation, invocation.arguments()[0]));
  ASSIGN_OR_RETURN(const OpenSide after, OpenSideOf(invocation, invocation.arguments()[1]));
  const report::CaptureDiff diff = report::DiffCaptures(before.captures, after.captures);
  ASSIGN_OR_RETURN(const DiffTables tables, DiffTablesOf(diff, view));
  if (invocation.json()) {
    JsonWriter json;
    WriteDiffJson(diff, tables, json);
    invocation.Print(json.TakeLine());
  } else if (flags.Has("csv")) {
    invocation.Print(table::ToCsv(tables.operators));
  } else {
    invocation.Print(RenderDiff(diff, tables, before.Views(), after.Views(), invocation.style()));
  }
  return fail_above.has_value() ? ExitCodeOf(diff.steps, *fail_above) : kExitDone;
}

}  // namespace

Command DiffCommand() {
  return {
      .name = "diff",
      .summary = "Show what changed between captures of one program",
      .arguments = "BEFORE AFTER",
      .description =
          "Says whether steps take longer after a change, and what changed: the parts of a step on "
          "the GPU and on the host, operators, and kernels, each per step. It also names what else "
          "differs: program, GPU, PyTorch, FLOPs per step, and what was recorded, which costs "
          "time. BEFORE and AFTER are each the ID or the file of a capture, or of several, with "
          "commas between them.\n\n"
          "Two captures are compared step by step: the median of all pairs (Hodges-Lehmann), with "
          "an interval of 95 % (Mann-Whitney). They differ if the interval does not contain 0 and "
          "the difference is at least 2 %. Two runs of one program may differ by more.\n\n"
          "Several captures show how much runs differ: each counts as one, by its median step, "
          "with the interval of 95 % for two samples of one variance (Student). Take them from "
          "separate runs, three or more before and after: a run that is captured three times "
          "is still one run. Then they differ if the interval does not contain 0.\n\n"
          "A difference that the time in which threads waited for a CPU can explain is none. With "
          "--fail-above, the exit code is 3 if steps certainly take longer by more than that.",
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
                   {"profctl diff main.profd branch.profd --fail-above 3", "In CI"},
                   {"profctl diff 01J9ZK,01J9ZL,01J9ZM 01J9ZN,01J9ZP,01J9ZQ --fail-above 1",
                    "The same, from three runs before and three after"}},
      .min_arguments = 2,
      .max_arguments = 2,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunDiff};
}

}  // namespace profd::cli
