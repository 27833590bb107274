#include "cli/client/history.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/when.h"
#include "cli/captures/fleet.h"
#include "cli/captures/rank_history.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/commands/plain_report.h"
#include "cli/render/history.h"
#include "cli/render/rank_history.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/table.h"

namespace profd::cli {
namespace {

constexpr int64_t kMostPoints = 10'000;
constexpr absl::Duration kSinceDefault = absl::Hours(24 * 30);
constexpr int64_t kMostRankCaptures = 20'000;  // Of all daemons together.
constexpr int64_t kFewestRankCaptures = 500;
constexpr int64_t kMostRankRows = 4'000'000;
constexpr int64_t kFewestRankRows = 100'000;

absl::StatusOr<HistoryQuery> ParseQuery(const ParsedFlags& flags, absl::Time now) {
  HistoryQuery query;
  query.operator_name = flags.Get("op").value_or("");
  const int subjects = (flags.Has("step-time") ? 1 : 0) + (query.operator_name.empty() ? 0 : 1) +
                       (flags.Has("stragglers") ? 1 : 0);
  if (subjects != 1) {
    return UsageError("name what to follow: --step-time, --op NAME, or --stragglers");
  }
  if (flags.Has("stragglers") && (flags.Has("pid") || flags.Has("measure"))) {
    return UsageError("--stragglers compares all ranks of a job: --pid and --measure do not apply");
  }
  query.since = now - kSinceDefault;
  if (const auto since = flags.Get("since")) {
    ASSIGN_OR_RETURN(query.since, ParseWhen("since", *since, now));
  }
  if (const auto until = flags.Get("until")) {
    ASSIGN_OR_RETURN(query.until, ParseWhen("until", *until, now));
  }
  if (query.until < query.since) return UsageError("--until lies before --since");
  query.job = flags.Get("job").value_or("");
  query.schedule = flags.Get("schedule").value_or("");
  ASSIGN_OR_RETURN(const std::optional<int64_t> pid, flags.Int("pid", 1, int64_t{1} << 32));
  query.pid = pid.value_or(0);
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0, kMostPoints));
  query.limit = limit.value_or(0);
  return query;
}

// --sort: a column of the windows, which --json and --csv print, else of what people see.
absl::StatusOr<std::string> ParseSort(const ParsedFlags& flags, bool is_for_people) {
  const std::string column = flags.Get("sort").value_or("");
  if (column.empty()) return column;
  if (flags.Has("stragglers")) return UsageError("--sort does not go with --stragglers");
  History none;
  table::Table series = HistorySeriesOf(none, HistoryMeasure::kStep, false);
  RETURN_IF_ERROR(is_for_people ? table::Apply({.sort = column}, series)
                                : SortPoints(column, none));
  return column;
}

absl::StatusOr<HistoryMeasure> ParseMeasure(const ParsedFlags& flags, const HistoryQuery& query) {
  const bool of_steps = query.operator_name.empty();
  const std::string text = flags.Get("measure").value_or(of_steps ? "step" : "self_cpu");
  const std::optional<HistoryMeasure> measure = HistoryMeasureFromString(text);
  if (!measure.has_value() || (*measure == HistoryMeasure::kStep) != of_steps) {
    return UsageError("--measure goes with --op and is self_cpu, cpu_total, self_device or call");
  }
  return *measure;
}

// Whether captures were looked at and none has the operator: a wrong name, or one that takes
// little.
bool LacksOperator(const History& history, const HistoryQuery& query) {
  return !query.operator_name.empty() && history.points.empty() &&
         history.without_operator_count > 0;
}

struct NodesHistory {
  History history;
  std::vector<NodeOutcome> outcomes;
};
absl::StatusOr<NodesHistory> AskNodes(Invocation& invocation, Fleet& fleet,
                                      const HistoryQuery& query) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  std::vector<History> parts(fleet.members().size());
  NodesHistory all;
  all.outcomes = RunOnAll(invocation, fleet, timeout,
                          [&](size_t member, DaemonClient& daemon) -> absl::Status {
                            ASSIGN_OR_RETURN(parts[member], daemon.GetHistory(query));
                            return absl::OkStatus();
                          });
  all.history = Merged(std::move(parts));
  return all;
}

// What one daemon is asked for, the newest first: all answers are joined in memory.
RankSummaryLimits LimitsPerDaemon(size_t daemons) {
  const auto count = static_cast<int64_t>(std::max<size_t>(daemons, 1));
  return {
      .captures = std::clamp<int64_t>(kMostRankCaptures / count, kFewestRankCaptures, kMostPoints),
      .rows = std::max(kMostRankRows / count, kFewestRankRows)};
}

absl::StatusOr<int> ShowRankHistory(Invocation& invocation, const HistoryQuery& query) {
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  std::vector<RankSummaries> parts(1);
  std::vector<NodeOutcome> outcomes;
  if (fleet.has_value()) {
    ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
    parts.resize(fleet->members().size());
    const RankSummaryLimits limits = LimitsPerDaemon(parts.size());
    outcomes = RunOnAll(invocation, *fleet, timeout,
                        [&](size_t member, DaemonClient& daemon) -> absl::Status {
                          ASSIGN_OR_RETURN(parts[member], daemon.ListRankSummaries(query, limits));
                          return absl::OkStatus();
                        });
  } else {
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    ASSIGN_OR_RETURN(parts.front(), daemon->ListRankSummaries(query, LimitsPerDaemon(1)));
  }
  const RankHistory history = JoinRankHistory(std::move(parts), query.limit);
  if (invocation.json()) {
    JsonWriter json;
    WriteRankHistoryJson(history, fleet.has_value() ? &outcomes : nullptr, json);
    invocation.Print(json.TakeLine());
  } else if (invocation.flags().Has("csv")) {
    invocation.Print(RankHistoryCsv(history));
  } else {
    invocation.Print(RenderRankHistory(history, invocation.style()));
  }
  if (!fleet.has_value()) return kExitDone;
  invocation.Note(RenderNodeFailures(outcomes));
  return ExitCodeOf(outcomes);
}

absl::StatusOr<int> RunHistory(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  ASSIGN_OR_RETURN(const HistoryQuery query, ParseQuery(flags, Clock::Real().Now()));
  if (flags.Has("csv") && invocation.json()) {
    return UsageError("--csv and --json are mutually exclusive");
  }
  const bool is_for_people = !invocation.json() && !flags.Has("csv");
  ASSIGN_OR_RETURN(const std::string sort, ParseSort(flags, is_for_people));
  if (flags.Has("stragglers")) return ShowRankHistory(invocation, query);
  ASSIGN_OR_RETURN(const HistoryMeasure measure, ParseMeasure(flags, query));
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  History history;
  std::vector<NodeOutcome> outcomes;
  if (fleet.has_value()) {
    ASSIGN_OR_RETURN(NodesHistory all, AskNodes(invocation, *fleet, query));
    history = std::move(all.history);
    outcomes = std::move(all.outcomes);
  } else {
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    ASSIGN_OR_RETURN(history, daemon->GetHistory(query));
  }
  if (!is_for_people && !sort.empty()) RETURN_IF_ERROR(SortPoints(sort, history));

  if (invocation.json()) {
    JsonWriter json;
    WriteHistoryJson(history, query, fleet.has_value() ? &outcomes : nullptr, json);
    invocation.Print(json.TakeLine());
  } else if (flags.Has("csv")) {
    invocation.Print(HistoryCsv(history));
  } else if (!LacksOperator(history, query)) {
    table::Table series = HistorySeriesOf(history, measure, fleet.has_value());
    RETURN_IF_ERROR(table::Apply({.sort = sort}, series));
    invocation.Print(RenderHistory(history, series, query, measure, invocation.style()));
  }
  if (fleet.has_value()) invocation.Note(RenderNodeFailures(outcomes));
  if (LacksOperator(history, query)) {
    invocation.Note(RenderHistory(history, {}, query, measure, invocation.error_style()));
  }
  // A node that did not answer may have it.
  const int exit_code = fleet.has_value() ? ExitCodeOf(outcomes) : kExitDone;
  return exit_code == kExitDone && LacksOperator(history, query) ? kExitFailed : exit_code;
}

// Of what people see, and of the windows.
std::vector<std::string_view> HistorySortChoices() {
  std::vector<std::string_view> choices = SortChoicesOf(HistorySeriesColumns());
  for (const std::string_view key : SortChoicesOf(report::HistoryColumns().columns())) {
    if (std::ranges::find(choices, key) == choices.end()) choices.push_back(key);
  }
  return choices;
}

}  // namespace

Command HistoryCommand() {
  return {
      .name = "history",
      .summary = "Show how step times, an operator's times, or stragglers went over days",
      .description =
          "Follows step times, one operator, or the ranks of jobs over all captures that you may "
          "read, scheduled and "
          "requested. One row per rank of a job, or per process, with its trend. The numbers come "
          "from summaries, which outlive a capture's events.\n\nEarly and Late are the medians of "
          "the first and last quarter of the windows; Change is from one to the other. A column of "
          "the trend is the same span of time in all rows, blank where there was no window. If "
          "waits for a CPU can be at least half of Change, the column CPU waits says how much of "
          "it. It is empty where they are not known, as with programs that use CUDA. A "
          "capture keeps the summaries of the 200 operators that took the most time.\n\n"
          "--stragglers compares the ranks of every group (`trace --job`, or a scheduled window of "
          "a job) as `profctl stragglers GROUP` does. Each rank's capture keeps its steps and "
          "collectives for that: the first whole steps that fit 8192 collectives and 1024 steps. "
          "The table shows, per rank and node, in how many windows with a verdict the rank was "
          "slow, and the trend of its score. Slow means a straggler or, of two ranks, the one that "
          "the other waits for. Windows without a verdict, and captures without such a summary, "
          "are counted with their reason. With --nodes, the ranks of all nodes are compared; "
          "otherwise only those of one daemon. It reads the newest 10,000 captures of a daemon, "
          "fewer with more than two nodes (20,000 in all, but at least 500 of each), and at most 4 "
          "million of their steps and collectives (100,000 of each daemon at least). A window's "
          "verdict is that of `profctl stragglers` unless steps are left out, or another user "
          "requested the group: you then do not get its clock offsets.\n\nExit code: 1 if no "
          "capture of that time has the operator of --op.",
      .flags =
          {{.name = "step-time", .help = "Follow the step time (median per window)"},
           {.name = "stragglers",
            .help = "Follow the ranks of jobs: how often each was slow, and its score"},
           {.name = "op",
            .value_name = "NAME",
            .help = "Follow this operator, range, or kernel-launching function; the full name "
                    "as `profctl ops` shows it"},
           {.name = "measure",
            .value_name = "KEY",
            .help = "With --op: what to follow, per step: self_cpu (default), cpu_total, or "
                    "self_device; or call, the mean call",
            .completes = Completes::kChoice,
            .choices = {"self_cpu", "cpu_total", "self_device", "call"}},
           {.name = "since",
            .value_name = "WHEN",
            .help = "From then on: an age (90s, 2h, 3d) or a time (2026-11-20, "
                    "2026-11-20T10:00:00Z); "
                    "default: 30d"},
           {.name = "until", .value_name = "WHEN", .help = "Up to then (default: now)"},
           {.name = "job",
            .value_name = "JOB",
            .help = "Only this job. Without --nodes, asks the job's Slurm nodes"},
           {.name = "schedule",
            .value_name = "ID",
            .help = "Only windows that this schedule made",
            .completes = Completes::kSchedule},
           {.name = "pid",
            .value_name = "PID",
            .help = "Only windows of this process",
            .completes = Completes::kPid},
           {.name = "limit",
            .value_name = "N",
            .help = "At most N windows of each daemon, the newest; with --stragglers, of all "
                    "together. 0 is "
                    "all (default: all, also with --json and --csv). A daemon sends at most 10000"},
           {.name = "sort",
            .value_name = "KEY",
            .help = "Order rows by a column: numbers descending, names ascending; with --json and "
                    "--csv, the windows by theirs. Default: by job and rank, windows by time",
            .completes = Completes::kChoice,
            .choices = HistorySortChoices()},
           {.name = "csv", .help = "Print all windows as CSV"}},
      .examples = {{"profctl history --step-time --since 30d", "Since when is it slow?"},
                   {"profctl history --op aten::addmm --measure self_device --csv",
                    "One operator's GPU time, for a spreadsheet"},
                   {"profctl --nodes gpu[001-128] history --stragglers --job 88123",
                    "Which rank slows the job, and since when?"}},
      .takes_nodes = true,
      .run = &RunHistory};
}

}  // namespace profd::cli
