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

absl::StatusOr<int> RunStragglers(Invocation& invocation) {
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (!set.is_group()) {
    return UsageError(
        "that is one capture: ranks are compared over a group (`profctl trace --job` makes one), "
        "or over several FILES.profd");
  }
  return ShowGroupSteps(invocation, set,
                        {.needs_common_steps = true,
                         .explains_slow_rank = true,
                         .rows = &StragglersTable,
                         .write_json = &WriteStragglersJson,
                         .render = &RenderStragglers});
}

}  // namespace

Command StragglersCommand() {
  return {.name = "stragglers",
          .summary = "Rank the ranks of a group by the wait that they cause",
          .arguments = "GROUP|FILES.profd",
          .description =
              "Separates the rank that others wait for from the ranks that wait. Compares the "
              "steps that all ranks have. For every step, a rank's time is split into own work, "
              "transfer (the time in collectives that even the rank with the shortest wait "
              "needed), and wait; the table shows medians over the steps. Caused is how long the "
              "other ranks together waited for the rank in a step, a median as well: of two ranks, "
              "one's Wait is what the other Caused. Last is the number of "
              "collectives at which it arrived last.\n\nThe score is the modified z-score of own "
              "work over the ranks: 0.6745 x (own work - median) / the median absolute deviation, "
              "which counts as at least 1 % of a step. A straggler has a score above 3.5, more own "
              "work than the other ranks step by step (by 10 % of a step; 20 % with fewer than 5 "
              "steps), and is the one that the others waited for. This needs at least 3 ranks and "
              "3 steps. Of two ranks, it says which one waits for the other.\n\nA rank may "
              "also delay the others in some steps only, such as every third one, or by "
              "another time in each step. It is a straggler if the same rank delays the others "
              "so often that chance does not explain it. The verdict then gives the number of "
              "these steps, the delay, and up to 8 step numbers.\n\nA send or receive, as of a "
              "pipeline, waits for as long as it takes beyond the shortest of its kind and "
              "size on any rank. If most of the waiting is in these, the slow stage is the one "
              "with more own work that waits less than the others. Of more than 2 ranks, it is "
              "not known for which one a rank waits.\n\nIf the data does not support a "
              "verdict, the verdict is withheld and the reason is given.\n\nCPU wait is "
              "how long the threads that work on the steps waited for a CPU, as part of own work; "
              "at most, as a thread may also wait while a collective lasts. A dash means unknown. "
              "Where it is longer than on the other ranks, by at least half of a slow rank's "
              "additional own work, it is named as a possible cause, together with what else takes "
              "longer. Where it differs that much between ranks that differ only within noise, it "
              "is the reason given.\n\nIt also "
              "explains why a straggler is slow, by comparing its capture with those of up to 8 "
              "other ranks: kernels, copies, waiting for data, operators, or time outside "
              "them.\n\nRanks of one host share a clock. Collectives whose times contradict each "
              "other are not "
              "compared, and are counted.\n\nA member that cannot be reached is named on stderr, "
              "and the exit code is 4.",
          .flags = {{.name = "sort",
                     .value_name = "KEY",
                     .help = "Order ranks by a column: numbers descending, names ascending; "
                             "`profctl explain --table stragglers` has the columns",
                     .completes = Completes::kChoice,
                     .choices = SortChoicesOf(StragglerTextColumns())},
                    {.name = "limit",
                     .value_name = "N",
                     .help = "At most N ranks; 0 is all (default: all, also with --json)"},
                    {.name = "csv", .help = "Print ranks as comma-separated values, times in ns"},
                    ForceGroupFlag()},
          .examples = {{"profctl stragglers 01J9ZK", "Which rank slows the job"},
                       {"profctl stragglers r0.profd r1.profd r2.profd", "The same of files"}},
          .min_arguments = 1,
          .max_arguments = 4096,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunStragglers};
}

}  // namespace profd::cli
