#include "cli/captures/capture_set.h"
#include "cli/commands/command.h"
#include "cli/commands/show_group_steps.h"
#include "cli/render/group_reports.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunStragglers(Invocation& invocation) {
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (!set.is_group()) {
    return UsageError(
        "that is one capture: ranks are compared over a group (`profctl trace --job` makes one), "
        "or over several FILES.profd");
  }
  return ShowGroupSteps(invocation, set, &WriteStragglersJson, &RenderStragglers);
}

}  // namespace

Command StragglersCommand() {
  return {.name = "stragglers",
          .summary = "Rank the ranks of a group by their own work",
          .arguments = "GROUP|FILES.profd",
          .description =
              "Separates the rank that others wait for from the ranks that wait. For every step, a "
              "rank's time is split into own work, transfer (the time in collectives that even the "
              "rank with the shortest wait needed), and wait; the table shows medians over the "
              "steps.\n\nThe score is the modified z-score of own work over the ranks: 0.6745 x "
              "(own work - median) / the median absolute deviation, which counts as at least 1 % "
              "of a step. A rank above 3.5 is a straggler; this needs at least 3 ranks.\n\nA "
              "member that cannot be reached is named on stderr, and the exit code is 4.",
          .examples = {{"profctl stragglers 01J9ZK", "Which rank slows the job"},
                       {"profctl stragglers r0.profd r1.profd r2.profd", "The same of files"}},
          .min_arguments = 1,
          .max_arguments = 4096,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunStragglers};
}

}  // namespace profd::cli
