#include <vector>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/fleet.h"
#include "cli/render_targets.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

// Drops those of other jobs. Empty: all are meant.
void KeepJob(const std::string& job, std::vector<TargetInfo>& targets) {
  if (job.empty()) return;
  std::erase_if(targets, [&](const TargetInfo& target) { return JobOf(target) != job; });
}

absl::StatusOr<int> RunOnFleet(Invocation& invocation, Fleet& fleet, const std::string& job) {
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
    json.BeginObject();
    WriteNodeTargetsJson(nodes, json);
    WriteNodeOutcomesJson(outcomes, json);
    json.EndObject();
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderNodeTargets(nodes, invocation.style()));
  }
  invocation.Note(RenderNodeFailures(outcomes));
  return ExitCodeOf(outcomes);
}

absl::StatusOr<int> Run(Invocation& invocation) {
  const std::string job = invocation.flags().Get("job").value_or("");
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  if (fleet.has_value()) return RunOnFleet(invocation, *fleet, job);
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  ASSIGN_OR_RETURN(std::vector<TargetInfo> targets, daemon->ListTargets());
  KeepJob(job, targets);
  if (invocation.json()) {
    JsonWriter json;
    json.BeginObject();
    WriteTargetsJson(targets, json);
    json.EndObject();
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
              "one it has inside; --pid takes both. A process stands below its parent.\n\n"
              "With --nodes all of them are asked at once; one that does not answer is named on "
              "stderr, and the exit code is then 4.",
          .examples = {{"profctl ps", "What can be captured here"},
                       {"profctl --nodes gpu[001-128] ps", "What can be captured there"},
                       {"profctl ps --job 88123", "The processes of a Slurm job, on its nodes"},
                       {"profctl ps --json", "The same for a script"}},
          .takes_nodes = true,
          .run = &Run};
}

}  // namespace profd::cli
