#include <algorithm>
#include <span>
#include <vector>

#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/render/targets.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

// Drops those of other jobs. Empty: all are meant.
void KeepJob(const std::string& job, std::vector<TargetInfo>& targets) {
  if (job.empty()) return;
  std::erase_if(targets, [&](const TargetInfo& target) { return JobOf(target) != job; });
}

absl::StatusOr<int> ListOfFleet(Invocation& invocation, Fleet& fleet, const std::string& job) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  std::vector<NodeTargets> nodes;
  for (const Fleet::Member& member : fleet.members()) nodes.push_back({member.node, {}});
  const std::vector<NodeOutcome> outcomes = RunOnAll(
      invocation, fleet, timeout, [&](size_t member, DaemonClient& daemon) -> absl::Status {
        ASSIGN_OR_RETURN(nodes[member].targets, daemon.ListTargets());
        return absl::OkStatus();
      });
  for (NodeTargets& node : nodes) KeepJob(job, node.targets);
  if (invocation.json()) {
    JsonWriter json;
    TargetsAnswerObject().Write(TargetsAnswerOf(nodes, &outcomes), json);
    invocation.Print(json.TakeLine());
  } else if (std::ranges::any_of(outcomes, [](const NodeOutcome& o) { return o.status.ok(); })) {
    invocation.Print(RenderNodeTargets(nodes, invocation.style(), job));
  }
  invocation.Note(RenderNodeFailures(outcomes));
  return ExitCodeOf(outcomes);
}

absl::StatusOr<int> ListOfDaemon(Invocation& invocation, const std::string& job) {
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  NodeTargets node;
  ASSIGN_OR_RETURN(node.targets, daemon->ListTargets());
  KeepJob(job, node.targets);
  if (invocation.json()) {
    JsonWriter json;
    TargetsAnswerObject().Write(TargetsAnswerOf(std::span(&node, 1), nullptr), json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderTargets(node.targets, invocation.style(), job));
  }
  return 0;
}

absl::StatusOr<int> RunPs(Invocation& invocation) {
  const std::string job = invocation.flags().Get("job").value_or("");
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  return fleet.has_value() ? ListOfFleet(invocation, *fleet, job) : ListOfDaemon(invocation, job);
}

}  // namespace

Command PsCommand() {
  return {.name = "ps",
          .summary = "List the processes that can be captured",
          .description =
              "Lists the targets: processes that have loaded the client library and that you may "
              "capture, with their current training step.\n\nFor a process in a container, PID is "
              "its process ID on the machine and NSPID the one inside; --pid takes both. Child "
              "processes are indented below their parent.\n\nWith --nodes, all nodes are asked at "
              "once. A node that does not answer is named on stderr, and the exit code is 4. "
              "`profctl top` repeats the list until Ctrl-C.",
          .examples = {{"profctl ps", "What can be captured here"},
                       {"profctl --nodes gpu[001-128] ps", "What can be captured there"},
                       {"profctl ps --job 88123", "The processes of a Slurm job, on its nodes"},
                       {"profctl ps --json", "The same for a script"}},
          .takes_nodes = true,
          .run = &RunPs};
}

}  // namespace profd::cli
