#include <algorithm>
#include <utility>

#include "cli/base/label.h"
#include "cli/base/row_limit.h"
#include "cli/base/when.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/render/capture.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

absl::StatusOr<std::vector<CaptureState>> ParseStates(const std::vector<std::string>& words) {
  std::vector<CaptureState> states;
  for (std::string word : words) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const std::optional<CaptureState> state = CaptureStateFromString(word);
    if (!state.has_value()) {
      return UsageError(StrCat("--state '", ForDisplay(word, 80),
                               "' is not a state; they are PENDING, ARMING, WAITING_STEP, WARMUP, "
                               "RECORDING, DRAINING, STORING, COMPLETE, PARTIAL, FAILED, "
                               "CANCELLED"));
    }
    states.push_back(*state);
  }
  return states;
}

absl::StatusOr<CaptureFilter> ParseFilter(const ParsedFlags& flags, absl::Time now) {
  CaptureFilter filter;
  ASSIGN_OR_RETURN(filter.states, ParseStates(flags.List("state")));
  ASSIGN_OR_RETURN(const std::optional<int64_t> pid, flags.Int("pid", 1, int64_t{1} << 32));
  filter.pid = pid.value_or(0);
  ASSIGN_OR_RETURN(filter.labels, ParseLabels(flags.All("label")));
  filter.display_name = flags.Get("name").value_or("");
  if (const auto since = flags.Get("since")) {
    ASSIGN_OR_RETURN(filter.since, ParseWhen("since", *since, now));
  }
  if (const auto group = flags.Get("group")) {
    ASSIGN_OR_RETURN(filter.group, ParseCaptureId(*group));
  }
  if (const auto schedule = flags.Get("schedule")) {
    ASSIGN_OR_RETURN(filter.schedule, ParseCaptureId(*schedule));
  }
  filter.job = flags.Get("job").value_or("");
  filter.requested_by = flags.Get("by").value_or("");
  filter.include_deleted = flags.Has("deleted");
  return filter;
}

// A listing has no steps; the rows that scripts get are whole captures.
absl::Status FillInSteps(DaemonClient& daemon, std::vector<CaptureView>& views) {
  for (CaptureView& view : views) {
    if (view.record.covered_steps == 0 || !view.steps.empty()) continue;
    absl::StatusOr<CaptureView> whole = daemon.GetCapture(view.record.id);
    if (whole.status().code() == absl::StatusCode::kNotFound) continue;  // deleted just now
    RETURN_IF_ERROR(whole.status());
    view = *std::move(whole);
  }
  return absl::OkStatus();
}

struct Query {
  CaptureFilter filter;
  int64_t limit = 0;  // 0: all.
  bool wants_steps = false;
};

absl::StatusOr<std::vector<CaptureView>> ListFrom(DaemonClient& daemon, const Query& query) {
  ASSIGN_OR_RETURN(std::vector<CaptureView> views, daemon.ListCaptures(query.filter, query.limit));
  if (query.wants_steps) RETURN_IF_ERROR(FillInSteps(daemon, views));
  return views;
}

// The captures of all nodes, newest first, each with the node it was asked of.
std::vector<CaptureView> NewestOfAll(const Fleet& fleet,
                                     std::vector<std::vector<CaptureView>> by_member,
                                     int64_t limit) {
  std::vector<CaptureView> views;
  for (size_t member = 0; member < by_member.size(); ++member) {
    for (CaptureView& view : by_member[member]) {
      view.record.node = fleet.members()[member].node;
      views.push_back(std::move(view));
    }
  }
  std::stable_sort(views.begin(), views.end(), [](const CaptureView& a, const CaptureView& b) {
    return a.record.create_time > b.record.create_time;
  });
  if (limit > 0 && static_cast<int64_t>(views.size()) > limit) {
    views.resize(static_cast<size_t>(limit));
  }
  return views;
}

struct Listing {
  std::vector<CaptureView> views;
  std::optional<std::vector<NodeOutcome>> nodes;  // nullopt: it was one daemon.
};

absl::StatusOr<Listing> FindListing(Invocation& invocation, const Query& query) {
  Listing listing;
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  if (!fleet.has_value()) {
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    ASSIGN_OR_RETURN(listing.views, ListFrom(*daemon, query));
    return listing;
  }
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  std::vector<std::vector<CaptureView>> by_member(fleet->members().size());
  listing.nodes = RunOnAll(invocation, *fleet, timeout,
                           [&](size_t member, DaemonClient& daemon) -> absl::Status {
                             ASSIGN_OR_RETURN(by_member[member], ListFrom(daemon, query));
                             return absl::OkStatus();
                           });
  listing.views = NewestOfAll(*fleet, std::move(by_member), query.limit);
  return listing;
}

void PrintListingJson(Invocation& invocation, const Listing& listing) {
  JsonWriter json;
  WriteCaptureListJson(listing.views, listing.nodes.has_value() ? &*listing.nodes : nullptr, json);
  invocation.Print(json.TakeLine());
}

void PrintTable(Invocation& invocation, Listing listing, int64_t rows, absl::Time now) {
  const bool more = rows > 0 && static_cast<int64_t>(listing.views.size()) > rows;
  if (more) listing.views.resize(static_cast<size_t>(rows));
  if (listing.views.empty()) {
    invocation.Print("No captures match. `profctl trace --steps 5` makes one.\n");
    return;
  }
  invocation.Print(listing.nodes.has_value()
                       ? RenderNodeCaptureTable(listing.views, now, invocation.style())
                       : RenderCaptureTable(listing.views, now, invocation.style()));
  if (more) invocation.Print("(more: --limit 0 shows all)\n");
}

absl::StatusOr<int> RunCaptures(Invocation& invocation) {
  const absl::Time now = Clock::Real().Now();
  Query query;
  ASSIGN_OR_RETURN(query.filter, ParseFilter(invocation.flags(), now));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit,
                   invocation.flags().Int("limit", 0, kMaxListedRows));
  query.wants_steps = invocation.json();
  const int64_t rows = limit.value_or(kRowsForPeople);
  if (invocation.json()) {
    query.limit = limit.value_or(0);
  } else if (rows > 0) {
    query.limit = rows + 1;  // One more than shown tells whether there are more.
  }
  ASSIGN_OR_RETURN(Listing listing, FindListing(invocation, query));
  const std::vector<NodeOutcome> nodes = listing.nodes.value_or(std::vector<NodeOutcome>());
  if (invocation.json()) {
    PrintListingJson(invocation, listing);
  } else {
    PrintTable(invocation, std::move(listing), rows, now);
  }
  invocation.Note(RenderNodeFailures(nodes));
  return ExitCodeOf(nodes);
}

}  // namespace

Command CapturesCommand() {
  return {
      .name = "captures",
      .summary = "List captures, newest first",
      .description =
          "Lists the captures that you may see, newest first. A capture must match all "
          "filters.\n\nWith --nodes, one table shows all nodes. A node that does not answer is "
          "named on stderr, and the exit code is 4.",
      .flags = {{.name = "label",
                 .value_name = "KEY=VALUE",
                 .help = "Only captures with this label; repeatable",
                 .repeated = true},
                {.name = "pid",
                 .value_name = "PID",
                 .help = "Only captures of this process",
                 .completes = Completes::kPid},
                {.name = "name",
                 .value_name = "NAME",
                 .help = "Only captures with exactly this name"},
                {.name = "since",
                 .value_name = "WHEN",
                 .help = "Only captures made since then: an age (90s, 2h, 3d) or a time "
                         "(2026-11-20, 2026-11-20T10:00:00Z)"},
                {.name = "state",
                 .value_name = "STATE",
                 .help = "Only captures in these states (comma-separated)",
                 .repeated = true,
                 .completes = Completes::kChoice,
                 .choices = {"PENDING", "ARMING", "WAITING_STEP", "WARMUP", "RECORDING", "DRAINING",
                             "STORING", "COMPLETE", "PARTIAL", "FAILED", "CANCELLED"}},
                {.name = "group", .value_name = "ID", .help = "Only captures of this group"},
                {.name = "schedule",
                 .value_name = "ID",
                 .help = "Only captures that this schedule made",
                 .completes = Completes::kSchedule},
                {.name = "by",
                 .value_name = "WHO",
                 .help = "Only captures requested by this principal: uid:1000, cn:alice"},
                {.name = "deleted", .help = "Include captures whose events are gone"},
                {.name = "limit",
                 .value_name = "N",
                 .help = "At most N rows; 0 is all (default: 50, all with --json)"}},
      .examples = {{"profctl captures --since 2h", "What was captured in the last two hours"},
                   {"profctl --nodes gpu[001-128] captures --since 24h", "On all of these nodes"},
                   {"profctl captures --label run=a17 --state PARTIAL,FAILED",
                    "What went wrong in one run"}},
      .takes_nodes = true,
      .run = &RunCaptures};
}

}  // namespace profd::cli
