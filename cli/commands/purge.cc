#include <optional>
#include <string>
#include <vector>

#include "cli/base/errors.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/render/outcomes.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

void PrintPurged(Invocation& invocation, bool dry_run, const DaemonClient::Purged& purged,
                 const std::optional<std::vector<NodeOutcome>>& outcomes) {
  if (invocation.json()) {
    JsonWriter json;
    PurgeObject().Write(
        {dry_run, purged.captures, purged.bytes, outcomes.has_value() ? &*outcomes : nullptr},
        json);
    invocation.Print(json.TakeLine());
    return;
  }
  invocation.Print(StrCat(dry_run ? "Would remove " : "Removed ",
                          FormatCountOf(purged.captures, "capture", "captures"), " with ",
                          FormatBytes(purged.bytes), " of files.\n"));
}

absl::StatusOr<int> RunPurge(Invocation& invocation) {
  ASSIGN_OR_RETURN(const auto age, invocation.flags().Duration("older-than"));
  if (!age.has_value()) return UsageError("--older-than AGE is required, for example 30d");
  const bool dry_run = invocation.flags().Has("dry-run");
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  if (!fleet.has_value()) {
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    ASSIGN_OR_RETURN(const DaemonClient::Purged purged, daemon->PurgeCaptures(*age, dry_run));
    PrintPurged(invocation, dry_run, purged, std::nullopt);
    return 0;
  }
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  std::vector<DaemonClient::Purged> by_member(fleet->members().size());
  const std::vector<NodeOutcome> outcomes = RunOnAll(
      invocation, *fleet, timeout, [&](size_t member, DaemonClient& daemon) -> absl::Status {
        ASSIGN_OR_RETURN(by_member[member], daemon.PurgeCaptures(*age, dry_run));
        return absl::OkStatus();
      });
  DaemonClient::Purged all;
  for (const DaemonClient::Purged& purged : by_member) {
    all.captures += purged.captures;
    all.bytes += purged.bytes;
  }
  PrintPurged(invocation, dry_run, all, outcomes);
  invocation.Note(RenderNodeFailures(outcomes));
  return ExitCodeOf(outcomes);
}

}  // namespace

Command PurgeCommand() {
  return {
      .name = "purge",
      .summary = "Remove old captures for good, records included",
      .description =
          "Removes captures that are older than an age: events, records, and summaries. Removes "
          "only captures that you may delete (root: everyone's), and no pinned or running "
          "ones. `profctl delete` removes events only.",
      .flags = {{.name = "older-than",
                 .value_name = "AGE",
                 .help = "Remove captures created longer ago than this: 30d, 12h"},
                {.name = "dry-run", .help = "Count the captures without removing any"}},
      .examples = {{"profctl purge --older-than 30d --dry-run", "How many would go"},
                   {"profctl --nodes gpu[001-128] purge --older-than 90d",
                    "Clean up on all nodes"}},
      .takes_nodes = true,
      .run = &RunPurge};
}

}  // namespace profd::cli
