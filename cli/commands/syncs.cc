#include "cli/base/row_limit.h"
#include "cli/commands/command.h"
#include "cli/commands/show_report.h"
#include "cli/render/gpu.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunSyncs(Invocation& invocation) {
  return ShowReport(
      invocation, kRowsForPeople, [](CaptureSource& source) { return source.Syncs(); },
      &WriteSyncsJson, &RenderSyncs);
}

}  // namespace

Command SyncsCommand() {
  return {.name = "syncs",
          .summary = "Show where the host waited for the GPU",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows waits for GPUs by kind, by the CUDA call that waited, and by the range around "
              "the call. With Stream Wait Event, a stream waits, not the host.",
          .flags = {{.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows; 0 is all (default: 50, all with --json)"}},
          .examples = {{"profctl syncs 01J9ZK", "Who waits for the GPU"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunSyncs};
}

}  // namespace profd::cli
