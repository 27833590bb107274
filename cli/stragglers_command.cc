#include "cli/capture_set.h"
#include "cli/command.h"
#include "cli/render_group_reports.h"
#include "cli/show_group_steps.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> Run(Invocation& invocation) {
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
  return {
      .name = "stragglers",
      .summary = "Rank the ranks of a group by their own work",
      .arguments = "GROUP|FILES.profd",
      .description =
          "Tells the rank that others wait for from those that wait: of every step it shows a "
          "rank's own work, the time in collective operations that even the rank that waited "
          "least had to spend (transfer), and what is beyond (wait); medians over the steps.\n\n"
          "The score is the modified z-score of own work over the ranks: 0.6745 x (own work - "
          "median) / the median absolute deviation, which counts as at least 1 % of a step. "
          "Above 3.5 a rank is a straggler; that takes at least 3 ranks.\n\n"
          "A member of the group that is out of reach is named on stderr, and the exit code "
          "is then 4.",
      .examples = {{"profctl stragglers 01J9ZK", "Who holds up the job"},
                   {"profctl stragglers r0.profd r1.profd r2.profd", "The same of files"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &Run};
}

}  // namespace profd::cli
