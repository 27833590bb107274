#include "cli/base/row_limit.h"
#include "cli/commands/command.h"
#include "cli/commands/show_report.h"
#include "cli/render/gpu.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunIdle(Invocation& invocation) {
  return ShowReport(
      invocation, kRowsForPeople, [](CaptureSource& source) { return source.Idle(); },
      &WriteIdleJson, &RenderIdle);
}

}  // namespace

Command IdleCommand() {
  return {.name = "idle",
          .summary = "Show what each GPU did in each step, and why it did nothing",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows, for the whole capture and for each step, how long each GPU was busy, with "
              "what, and why it was idle. Idle time before a kernel, copy or memset is host wait "
              "if that was launched only after what ran before it had ended; else kernel wait if "
              "it is shorter than 30 us; else other. Communication (NCCL) and copies are exposed "
              "while no computing kernel, or no kernel at all, overlapped them. Then the same gaps "
              "by stream, each stream by itself.",
          .flags = {{.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows; 0 is all (default: 50, all with --json)"}},
          .examples = {{"profctl idle 01J9ZK", "Whether the GPU waits for the program"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunIdle};
}

}  // namespace profd::cli
