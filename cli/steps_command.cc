#include "cli/capture_set.h"
#include "cli/command.h"
#include "cli/render_capture.h"
#include "cli/render_group_reports.h"
#include "cli/render_reports.h"
#include "cli/show_group_steps.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunOnOne(Invocation& invocation, CaptureSource& source) {
  ASSIGN_OR_RETURN(const report::StepTable table, source.Steps());
  if (invocation.json()) {
    JsonWriter json;
    WriteStepsJson(source.view(), table, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source.view(), invocation.style()));
    invocation.Print(RenderSteps(table, invocation.style()));
  }
  return 0;
}

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (!set.is_group()) return RunOnOne(invocation, set.Only());
  return ShowGroupSteps(invocation, set, &WriteGroupStepsJson, &RenderGroupSteps);
}

}  // namespace

Command StepsCommand() {
  return {
      .name = "steps",
      .summary = "Show how long each step took, and outliers",
      .arguments = "ID|GROUP|FILES.profd",
      .description =
          "Shows the duration of every captured step with minimum, median, mean and "
          "maximum. An outlier is longer than the median by more than 3 x 1.4826 x "
          "the median absolute deviation, and by more than 5 %; that takes at least "
          "5 steps. Below stands what a framework on top of PyTorch called the steps "
          "(Lightning's epoch and global step, say) at the moment when it was asked, behind the "
          "window.\n\n"
          "Of a group, or of several files, it shows for every step how long the ranks took, "
          "which one had the most own work, and which one waited longest for others in "
          "collective operations. A member that is out of reach is named on stderr, and the "
          "exit code is then 4.",
      .examples = {{"profctl steps 01J9ZK", "Which steps were slow"},
                   {"profctl --nodes gpu[001-128] steps 01J9ZM", "Who was slow, who waited"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &Run};
}

}  // namespace profd::cli
