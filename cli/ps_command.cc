#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/render_targets.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  ASSIGN_OR_RETURN(const std::vector<TargetInfo> targets, daemon->ListTargets());
  if (invocation.json()) {
    JsonWriter json;
    WriteTargetsJson(targets, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderTargets(targets, invocation.style()));
  }
  return 0;
}

}  // namespace

Command PsCommand() {
  return {.name = "ps",
          .summary = "List the processes that can be captured",
          .description =
              "Lists the targets: the processes that have loaded the client library and "
              "that you may capture, with the training step each is at.\n\n"
              "For a process in a container PID is its pid on the machine and NSPID the "
              "one it has inside; --pid takes both. A process stands below its parent.",
          .examples = {{"profctl ps", "What can be captured here"},
                       {"profctl ps --json", "The same for a script"}},
          .run = &Run};
}

}  // namespace profd::cli
