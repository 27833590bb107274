#include "cli/commands/command.h"
#include "cli/commands/each_capture.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunPin(Invocation& invocation) {
  return ForEachCapture(
      invocation,
      [](DaemonClient& daemon, const std::string& id) { return daemon.SetCapturePinned(id, true); },
      "pinned");
}

absl::StatusOr<int> RunUnpin(Invocation& invocation) {
  return ForEachCapture(
      invocation,
      [](DaemonClient& daemon, const std::string& id) {
        return daemon.SetCapturePinned(id, false);
      },
      "unpinned");
}

}  // namespace

Command PinCommand() {
  return {.name = "pin",
          .summary = "Keep a stored capture when room is needed",
          .arguments = "ID|GROUP...",
          .description =
              "Pins captures: profd never removes their events to make room, never expires their "
              "records, and `profctl purge` skips them. Pinned captures may take a quarter of "
              "profd's --max-storage per user (root: half), and half of it in all. To pin a new "
              "capture, use `profctl trace --pin`. Of a group, all captures on the nodes that are "
              "asked are pinned.",
          .examples = {{"profctl pin 01J9ZK", "Keep this capture"}},
          .min_arguments = 1,
          .max_arguments = 1000,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunPin};
}

Command UnpinCommand() {
  return {
      .name = "unpin",
      .summary = "Allow profd to remove a pinned capture",
      .arguments = "ID|GROUP...",
      .description = "Undoes `profctl pin`: profd may remove the events again when room is needed.",
      .examples = {{"profctl unpin 01J9ZK", "Treat it like any other capture again"}},
      .min_arguments = 1,
      .max_arguments = 1000,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunUnpin};
}

}  // namespace profd::cli
