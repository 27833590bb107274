#include "cli/commands/command.h"
#include "cli/commands/each_capture.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunDelete(Invocation& invocation) {
  return ForEachCapture(invocation, [](DaemonClient& daemon, const std::string& id) {
    return daemon.DeleteCapture(id);
  });
}

}  // namespace

Command DeleteCommand() {
  return {
      .name = "delete",
      .summary = "Remove the events of a stored capture",
      .arguments = "ID|GROUP...",
      .description =
          "Removes the files of captures that have ended; of a group, those of all its captures "
          "on the nodes that are asked. Their records stay in the catalog; `profctl captures "
          "--deleted` lists them.",
      .examples = {{"profctl delete 01J9ZK 01J9ZM", "Remove two captures"},
                   {"profctl delete groups/01J9ZKQ3V5N8T2B7W4C6D8F0GH", "Those of one job"}},
      .min_arguments = 1,
      .max_arguments = 1000,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunDelete};
}

}  // namespace profd::cli
