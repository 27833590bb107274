#include <optional>
#include <vector>

#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/render/nodes.h"
#include "cli/render/quotas.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> ShowNodesOfFleet(Invocation& invocation, Fleet& fleet) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  std::vector<NodeAnswer> answers;
  for (const Fleet::Member& member : fleet.members()) {
    answers.push_back({member.node, member.endpoint.address, std::nullopt});
  }
  const std::vector<NodeOutcome> outcomes =
      RunOnAll(invocation, fleet, timeout, [&](size_t member, DaemonClient& daemon) {
        answers[member].info = daemon.node();
        return absl::OkStatus();
      });
  if (invocation.json()) {
    JsonWriter json;
    WriteNodesJson(answers, outcomes, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderNodes(answers, invocation.style()));
  }
  invocation.Note(RenderNodeFailures(outcomes));
  return ExitCodeOf(outcomes);
}

// Switches captures of one daemon or of all named.
absl::StatusOr<int> Switch(Invocation& invocation, bool allow, const std::string& reason) {
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  const std::string done = allow ? "Captures are allowed.\n" : "Captures are switched off.\n";
  if (!fleet.has_value()) {
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    RETURN_IF_ERROR(daemon->SetCapturesAllowed(allow, reason));
    invocation.Note(done);
    return 0;
  }
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  const std::vector<NodeOutcome> outcomes = RunOnAll(
      invocation, *fleet, timeout,
      [&](size_t, DaemonClient& daemon) { return daemon.SetCapturesAllowed(allow, reason); });
  invocation.Note(RenderNodeFailures(outcomes));
  return ExitCodeOf(outcomes);
}

absl::StatusOr<int> ShowQuotas(Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::optional<Fleet> fleet, FleetOf(invocation));
  if (fleet.has_value()) return UsageError("--quotas asks one daemon; leave out --nodes");
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  ASSIGN_OR_RETURN(const std::vector<QuotaView> quotas, daemon->GetQuotas());
  if (invocation.json()) {
    JsonWriter json;
    WriteQuotasJson(daemon->node().name, quotas, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderQuotas(quotas, invocation.style()));
  }
  return 0;
}

absl::StatusOr<int> RunNode(Invocation& invocation) {
  const std::optional<std::string> forbid = invocation.flags().Get("forbid-captures");
  const bool allow = invocation.flags().Has("allow-captures");
  if (forbid.has_value() && allow) {
    return UsageError("give --forbid-captures or --allow-captures, not both");
  }
  if (invocation.flags().Has("quotas")) {
    if (forbid.has_value() || allow) {
      return UsageError("--quotas and switching captures are mutually exclusive");
    }
    return ShowQuotas(invocation);
  }
  if (forbid.has_value() || allow) return Switch(invocation, allow, forbid.value_or(""));
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  if (fleet.has_value()) return ShowNodesOfFleet(invocation, *fleet);
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  if (invocation.json()) {
    JsonWriter json;
    WriteNodeJson({.address = daemon->address(), .info = daemon->node()}, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderNode(daemon->node(), daemon->address(), invocation.style()));
  }
  return 0;
}

}  // namespace

Command NodeCommand() {
  return {
      .name = "node",
      .summary = "Show the daemon: version, uptime, clock, storage in use",
      .description =
          "Shows the daemon that profctl talks to and its machine. With --nodes, one row per node; "
          "a node that does not answer is named on stderr, and the exit code is 4.",
      .flags =
          {{.name = "forbid-captures",
            .value_name = "REASON",
            .help =
                "Forbid captures on the node permanently and end live ones; callers see REASON"},
           {.name = "allow-captures", .help = "Allow captures again"},
           {.name = "quotas",
            .help = "Show use and limits per user, job, or pod. Without the right `admin`: the "
                    "totals and your own"}},
      .examples = {{"profctl node", "Is it there, and is there room"},
                   {"profctl node --quotas", "Who uses how much, after QUOTA_EXCEEDED"},
                   {"profctl --nodes gpu[001-128] node", "Which of them are"}},
      .takes_nodes = true,
      .run = &RunNode};
}

}  // namespace profd::cli
