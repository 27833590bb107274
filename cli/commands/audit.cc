#include "cli/render/audit.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "cli/base/row_limit.h"
#include "cli/base/when.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "daemon/base/clock.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

constexpr int64_t kMaxAuditRows = 1'000'000;

absl::StatusOr<int> RunAudit(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  AuditQuery query{.principal = flags.Get("who").value_or(""),
                   .method = absl::StrReplaceAll(flags.Get("call").value_or(""), {{" ", ""}}),
                   .refused_only = flags.Has("refused")};
  if (const auto since = flags.Get("since")) {
    ASSIGN_OR_RETURN(query.since, ParseWhen("since", *since, Clock::Real().Now()));
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> given, flags.Int("limit", 0, kMaxAuditRows));
  const int64_t limit = given.value_or(invocation.json() ? 0 : kRowsForPeople);

  std::vector<AuditRow> rows;
  std::optional<std::vector<NodeOutcome>> outcomes;
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  if (fleet.has_value()) {
    ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
    std::vector<std::vector<AuditLine>> by_member(fleet->members().size());
    outcomes = RunOnAll(invocation, *fleet, timeout,
                        [&](size_t member, DaemonClient& daemon) -> absl::Status {
                          ASSIGN_OR_RETURN(by_member[member], daemon.ListAudit(query, limit));
                          return absl::OkStatus();
                        });
    for (size_t member = 0; member < by_member.size(); ++member) {
      for (AuditLine& line : by_member[member]) {
        rows.push_back({fleet->members()[member].node, std::move(line)});
      }
    }
    std::ranges::stable_sort(
        rows, [](const AuditRow& a, const AuditRow& b) { return a.line.time > b.line.time; });
    if (limit > 0 && std::ssize(rows) > limit) rows.resize(static_cast<size_t>(limit));
  } else {
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    ASSIGN_OR_RETURN(std::vector<AuditLine> found, daemon->ListAudit(query, limit));
    for (AuditLine& line : found) rows.push_back({daemon->node().name, std::move(line)});
  }
  if (invocation.json()) {
    JsonWriter json;
    WriteAuditJson(rows, outcomes.has_value() ? &*outcomes : nullptr, json);
    invocation.Print(json.TakeLine());
  } else if (rows.empty()) {
    invocation.Print("Nothing matches.\n");
  } else {
    invocation.Print(RenderAudit(rows, fleet.has_value(), invocation.style()));
  }
  if (!outcomes.has_value()) return 0;
  invocation.Note(RenderNodeFailures(*outcomes));
  return ExitCodeOf(*outcomes);
}

}  // namespace

Command AuditCommand() {
  return {
      .name = "audit",
      .summary = "Show who did what, and who was refused",
      .description =
          "Shows the daemon's audit log, newest first: every call that changed or read something, "
          "and every refusal. \"N more\" counts identical calls that followed. Each caller's rows "
          "are stored separately, so that no caller can push out those of another; refusals and "
          "deletions are stored separately from routine calls. Callers who may not administer the "
          "node see only their own calls.",
      .flags = {{.name = "since",
                 .value_name = "WHEN",
                 .help = "Only what came since then: an age (90s, 2h, 3d) or a time "
                         "(2026-11-20, 2026-11-20T10:00:00Z)"},
                {.name = "who",
                 .value_name = "PRINCIPAL",
                 .help = "Only calls of this principal: uid:1000, cn:alice"},
                {.name = "call",
                 .value_name = "NAME",
                 .help = "Only these calls: CreateCapture, or several, comma-separated"},
                {.name = "refused", .help = "Only refused calls"},
                {.name = "limit",
                 .value_name = "N",
                 .help = "At most N rows; 0 is all (default: 50, all with --json)"}},
      .examples = {{"profctl audit --refused --since 24h", "Who tried what it may not"},
                   {"profctl --nodes gpu[001-128] audit --call DownloadCapture",
                    "Who fetched captures of these nodes"}},
      .takes_nodes = true,
      .run = &RunAudit};
}

}  // namespace profd::cli
