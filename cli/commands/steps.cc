#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "cli/captures/capture_set.h"
#include "cli/captures/one_run.h"
#include "cli/commands/command.h"
#include "cli/commands/plain_report.h"
#include "cli/commands/show_group_steps.h"
#include "cli/render/group_objects.h"
#include "cli/render/group_reports.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

// Columns that a capture and a group both have, by other names: the duration of a group's step is
// that of its slowest rank, and a capture has one rank.
struct SortKey {
  std::string_view offered;
  std::string_view of_capture;
  std::string_view of_group;
};
constexpr std::array<SortKey, 7> kSortKeys = {{
    {"index", "index", "step"},
    {"step", "index", "step"},
    {"global_step", "global_step", "global_step"},
    {"duration", "duration", "max"},
    {"min", "duration", "min"},
    {"median", "duration", "median"},
    {"max", "duration", "max"},
}};

std::string SortKeyFor(std::string_view key, std::string_view SortKey::*form) {
  const auto* const found = std::ranges::find(kSortKeys, key, &SortKey::offered);
  return std::string(found == kSortKeys.end() ? key : found->*form);
}

absl::StatusOr<int> ShowStepsOfOne(Invocation& invocation, CaptureSource& source) {
  ASSIGN_OR_RETURN(report::ReportRequest request,
                   ParseReportRequest(invocation, "steps", /*rows_for_people=*/0));
  if (const auto sort = invocation.flags().Get("sort")) {
    request.options["sort"] = SortKeyFor(*sort, &SortKey::of_capture);
  }
  ASSIGN_OR_RETURN(const table::Report report, source.Report(request));
  PrintReport(invocation, source.view(), report);
  return 0;
}

absl::StatusOr<int> RunSteps(Invocation& invocation) {
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (!set.is_group()) return ShowStepsOfOne(invocation, set.Only());
  return ShowGroupSteps(
      invocation, set,
      {.sort_key = [](std::string_view key) { return SortKeyFor(key, &SortKey::of_group); },
       .rows = &GroupStepsTable,
       .write_json = &WriteGroupStepsJson,
       .render = &RenderGroupSteps});
}

std::vector<Flag> StepsFlags() {
  std::vector<Flag> flags = ReportFlags("steps", /*rows_for_people=*/0);
  Flag& sort = *std::ranges::find(flags, "sort", &Flag::name);
  sort.help =
      "Order rows by a column: numbers descending, names ascending; `profctl explain` has the "
      "columns. Only a capture has window, start, vs_median, and outlier; only a group has columns "
      "of ranks, such as slowest_rank and longest_wait";
  // A capture and a group each have columns that the other lacks.
  sort.unoffered = std::exchange(sort.choices, {});
  std::ranges::copy(SortChoicesOf(GroupStepTextColumns()), std::back_inserter(sort.unoffered));
  for (const SortKey& key : kSortKeys) {
    sort.choices.push_back(key.offered);
    std::erase(sort.unoffered, key.offered);
  }
  flags.push_back(ForceGroupFlag());
  return flags;
}

}  // namespace

Command StepsCommand() {
  return {
      .name = "steps",
      .summary = "Show how long each step took, and outliers",
      .arguments = "ID|GROUP|FILES.profd",
      .description =
          "Shows the duration of every captured step with minimum, median, mean, and maximum. An "
          "outlier exceeds the median by more than 5 x the median absolute deviation and by more "
          "than 25 %; this needs at least 5 steps. `profctl report` uses the same bound, but does "
          "not count a slow first step, time by which neighboring steps are shorter, and waits "
          "for a CPU. Below it: what a framework on top of "
          "PyTorch calls the steps (for example Lightning's epoch and global step), as read after "
          "the window.\n\nFor a group or several files, it shows for every step how long the ranks "
          "took, which rank had the most own work, and which one waited longest in collectives. A "
          "member that cannot be reached is named on stderr, and the exit code is 4.",
      .flags = StepsFlags(),
      .examples = {{"profctl steps 01J9ZK", "Which steps were slow"},
                   {"profctl --nodes gpu[001-128] steps 01J9ZM", "Who was slow, who waited"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunSteps};
}

}  // namespace profd::cli
