// From the flags of a command to its fleet, and from how its nodes fared to what people see.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cli/base/errors.h"
#include "cli/base/folded_errors.h"
#include "cli/base/hostlist.h"
#include "cli/captures/fleet.h"
#include "cli/captures/node_source.h"
#include "cli/captures/progress.h"
#include "cli/client/invocation.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr absl::Duration kDefaultNodeTimeout = absl::Seconds(10);
// The line is made again for each node that is done. With all names in it, that work would grow
// with the square of the number of nodes.
constexpr size_t kMostNamedWaiting = 256;

absl::StatusOr<Fleet> FleetFrom(std::vector<NamedNode> nodes, const std::string& from,
                                const std::optional<ClientTls>& tls) {
  std::vector<Fleet::Member> members;
  members.reserve(nodes.size());
  for (NamedNode& node : nodes) {
    ASSIGN_OR_RETURN(Endpoint endpoint, ParseAddress(node.address, from, tls));
    if (endpoint.tls.has_value() && endpoint.tls->server_name.empty()) {
      endpoint.tls->server_name = std::move(node.server_name);
    }
    members.push_back({std::move(node.name), std::move(endpoint)});
  }
  return Fleet(std::move(members));
}

// Names without an address of their own have the one that the context gives them; a context that
// names them by DNS gives none.
void TakeAddresses(const ClientSettings& settings, std::vector<NamedNode>& nodes) {
  const auto is_plain = [](const NamedNode& node) {
    return node.address == StrCat(node.name, ":", kDefaultPort);
  };
  if (settings.nodes.empty() || settings.nodes.find("dns:") != std::string::npos ||
      std::ranges::none_of(nodes, is_plain)) {
    return;
  }
  const absl::StatusOr<std::vector<NamedNode>> known = ResolveNodes(settings.nodes);
  if (!known.ok()) return;  // The command does not need the context's nodes.
  absl::flat_hash_map<std::string, const NamedNode*> by_name;
  for (const NamedNode& node : *known) by_name.emplace(node.name, &node);
  for (NamedNode& node : nodes) {
    const auto at = is_plain(node) ? by_name.find(node.name) : by_name.end();
    if (at != by_name.end()) node = *at->second;
  }
}

}  // namespace

absl::StatusOr<std::optional<Fleet>> FleetOf(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  ASSIGN_OR_RETURN(const ClientSettings settings, invocation.Settings());
  std::vector<NamedNode> nodes;
  std::string from;
  if (flags.Has("nodes")) {
    if (flags.Has("address")) {
      return UsageError("--address names one daemon and --nodes many: give one of them");
    }
    std::string text;
    for (const std::string& list : flags.All("nodes")) {
      StrAppend(&text, text.empty() ? "" : "\n", list);
    }
    from = "--nodes";
    ASSIGN_OR_RETURN(nodes, ResolveNodes(text));
    TakeAddresses(settings, nodes);
  } else if (!settings.nodes.empty()) {
    from = settings.from;
    ASSIGN_OR_RETURN(nodes, ResolveNodes(settings.nodes));
  } else if (flags.Has("job") && settings.address.empty()) {
    from = "--job";
    ASSIGN_OR_RETURN(nodes, NodesOfSlurmJob(*flags.Get("job")));
  } else {
    return std::optional<Fleet>();
  }
  ASSIGN_OR_RETURN(Fleet fleet, FleetFrom(std::move(nodes), from, settings.tls));
  return std::optional<Fleet>(std::move(fleet));
}

absl::StatusOr<absl::Duration> NodeTimeoutOf(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::optional<absl::Duration> timeout,
                   invocation.flags().Duration("node-timeout"));
  if (timeout.has_value() && *timeout <= absl::ZeroDuration()) {
    return UsageError("--node-timeout must be more than nothing");
  }
  return timeout.value_or(kDefaultNodeTimeout);
}

const ObjectDescription<NodeOutcome>& NodeOutcomeObject() {
  static const ObjectDescription<NodeOutcome> object(
      {{&NodeOutcome::node, {.key = "node", .doc = "Node name given with --nodes"}},
       {[](const NodeOutcome& outcome) { return outcome.status.ok(); },
        {.key = "ok", .doc = "Whether the node answered"}},
       {[](const NodeOutcome& outcome) { return std::string(FromAbsl(outcome.status.message())); },
        {.key = "error", .doc = "Error; empty: the node answered"}}});
  return object;
}

std::string RenderNodeFailures(const std::vector<NodeOutcome>& outcomes) {
  std::vector<NodeError> errors;
  for (const NodeOutcome& outcome : outcomes) {
    if (outcome.status.ok()) continue;
    errors.push_back({outcome.node, std::string(FromAbsl(outcome.status.message()))});
  }
  std::string text;
  for (const FoldedError& error : FoldErrors(errors)) {
    std::vector<std::string> nodes;
    for (const size_t i : error.of) nodes.push_back(errors[i].node);
    const std::string count = nodes.size() == 1 ? "node " : StrCat(nodes.size(), " nodes, ");
    StrAppend(&text, "profctl: ", count, ForDisplay(CompressHostlist(nodes), 255), ": ",
              ForDisplay(error.text, 4096), "\n");
  }
  return text;
}

int ExitCodeOf(const std::vector<NodeOutcome>& outcomes) {
  std::set<int> codes;
  for (const NodeOutcome& outcome : outcomes) codes.insert(ExitCodeOf(outcome.status));
  if (codes.size() == 1) return *codes.begin();
  if (codes.contains(kExitDone)) return kExitPartial;
  return codes.empty() ? kExitDone : kExitFailed;
}

std::string FleetProgress(const Fleet& fleet, const std::set<size_t>& waiting) {
  const size_t count = fleet.members().size();
  std::string text = StrCat(count - waiting.size(), " of ", count, " nodes");
  if (waiting.empty() || waiting.size() > kMostNamedWaiting) return text;
  std::vector<std::string> names;
  names.reserve(waiting.size());
  for (const size_t member : waiting) names.push_back(fleet.members()[member].node);
  StrAppend(&text, "; waiting for ", CompressHostlist(names));
  return text;
}

std::vector<NodeOutcome> RunOnAll(
    Invocation& invocation, Fleet& fleet, absl::Duration deadline,
    absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work) {
  std::vector<NodeOutcome> outcomes;
  std::set<size_t> waiting;
  for (const Fleet::Member& member : fleet.members()) {
    waiting.insert(waiting.end(), outcomes.size());
    outcomes.push_back({member.node, absl::OkStatus()});
  }
  ProgressLine progress(invocation.error_style());
  progress.Show(FleetProgress(fleet, waiting));
  fleet.Run(deadline, work, [&](size_t member, const absl::Status& status) {
    outcomes[member].status = status;
    waiting.erase(member);
    if (invocation.error_style().is_terminal) progress.Show(FleetProgress(fleet, waiting));
  });
  return outcomes;
}

}  // namespace profd::cli
