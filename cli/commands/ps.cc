#include <algorithm>
#include <vector>

#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/commands/watching.h"
#include "cli/render/targets.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

// Drops those of other jobs. Empty: all are meant.
void KeepJob(const std::string& job, std::vector<TargetInfo>& targets) {
  if (job.empty()) return;
  std::erase_if(targets, [&](const TargetInfo& target) { return JobOf(target) != job; });
}

absl::StatusOr<Look> LookAtFleet(Invocation& invocation, Fleet& fleet, const std::string& job) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  std::vector<NodeTargets> nodes;
  for (const Fleet::Member& member : fleet.members()) nodes.push_back({member.node, {}});
  const std::vector<NodeOutcome> outcomes = RunOnAll(
      invocation, fleet, timeout, [&](size_t member, DaemonClient& daemon) -> absl::Status {
        ASSIGN_OR_RETURN(nodes[member].targets, daemon.ListTargets());
        return absl::OkStatus();
      });
  for (NodeTargets& node : nodes) KeepJob(job, node.targets);
  Look look = {.notes = RenderNodeFailures(outcomes), .exit_code = ExitCodeOf(outcomes)};
  if (!invocation.json()) {
    const bool any_answered = std::ranges::any_of(
        outcomes, [](const NodeOutcome& outcome) { return outcome.status.ok(); });
    if (any_answered) look.text = RenderNodeTargets(nodes, invocation.style());
    return look;
  }
  JsonWriter json;
  json.BeginObject();
  WriteNodeTargetsJson(nodes, outcomes, json);
  json.EndObject();
  look.text = json.TakeLine();
  return look;
}

absl::StatusOr<Look> LookAtDaemon(Invocation& invocation, const std::string& job) {
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  ASSIGN_OR_RETURN(std::vector<TargetInfo> targets, daemon->ListTargets());
  KeepJob(job, targets);
  if (!invocation.json()) return Look{.text = RenderTargets(targets, invocation.style())};
  JsonWriter json;
  json.BeginObject();
  WriteTargetsJson(targets, json);
  json.EndObject();
  return Look{.text = json.TakeLine()};
}

absl::StatusOr<int> RunPs(Invocation& invocation) {
  const std::string job = invocation.flags().Get("job").value_or("");
  ASSIGN_OR_RETURN(const std::optional<absl::Duration> interval, WatchInterval(invocation.flags()));
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  const auto look = [&]() -> absl::StatusOr<Look> {
    return fleet.has_value() ? LookAtFleet(invocation, *fleet, job) : LookAtDaemon(invocation, job);
  };
  if (interval.has_value()) return WatchUntilInterrupted(invocation, *interval, look);
  ASSIGN_OR_RETURN(const Look once, look());
  invocation.Print(once.text);
  invocation.Note(once.notes);
  return once.exit_code;
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
              "--watch repeats the list until Ctrl-C.",
          .flags = {WatchFlag()},
          .examples = {{"profctl ps", "What can be captured here"},
                       {"profctl --nodes gpu[001-128] ps", "What can be captured there"},
                       {"profctl ps --job 88123", "The processes of a Slurm job, on its nodes"},
                       {"profctl ps --watch", "Steps as they go by"},
                       {"profctl ps --json", "The same for a script"}},
          .takes_nodes = true,
          .run = &RunPs};
}

}  // namespace profd::cli
