#include "cli/base/row_limit.h"
#include "cli/commands/command.h"
#include "cli/commands/show_report.h"
#include "cli/render/gpu.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunCopies(Invocation& invocation) {
  return ShowReport(
      invocation, kRowsForPeople, [](CaptureSource& source) { return source.Copies(); },
      &WriteCopiesJson, &RenderCopies);
}

}  // namespace

Command CopiesCommand() {
  return {.name = "copies",
          .summary = "Show copies and memsets on the GPU, with their bandwidth",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows copies to, from, and within GPUs, and memsets, by direction and memory kinds: "
              "times, bytes, bandwidth (bytes over the time of the copies themselves), how many "
              "were asynchronous, and the range that launched most of them.",
          .flags = {{.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows; 0 is all (default: 50, all with --json)"}},
          .examples = {{"profctl copies 01J9ZK", "What was moved, and how fast"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunCopies};
}

}  // namespace profd::cli
