// profctl schedule: standing orders for sampled captures, on one node or on many.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/row_limit.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/commands/schedule_flags.h"
#include "cli/render/schedules.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"

namespace profd::cli {
namespace {

// The daemon, or the daemons, that the command line means.
class Daemons {
 public:
  static absl::StatusOr<Daemons> Of(Invocation& invocation) {
    ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
    ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
    return Daemons(invocation, std::move(fleet), timeout);
  }

  bool IsFleet() const { return fleet_.has_value(); }
  size_t size() const { return fleet_.has_value() ? fleet_->members().size() : 1; }
  std::string NameOf(size_t member) const { return fleet_->members()[member].node; }

  // Calls `work` for each. With one daemon its error is the command's; with many each has a
  // row of its own.
  absl::Status Run(const std::function<absl::Status(size_t, DaemonClient&)>& work) {
    if (!fleet_.has_value()) {
      ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation_.Daemon());
      return work(0, *daemon);
    }
    outcomes_ = RunOnAll(invocation_, *fleet_, timeout_, work);
    return absl::OkStatus();
  }

  // Of the last Run().
  bool Reached(size_t member) const { return !IsFleet() || outcomes_[member].status.ok(); }
  // nullptr: it is one daemon.
  const std::vector<NodeOutcome>* outcomes() const { return IsFleet() ? &outcomes_ : nullptr; }
  int Finish() {
    if (!IsFleet()) return kExitDone;
    invocation_.Note(RenderNodeFailures(outcomes_));
    return ExitCodeOf(outcomes_);
  }

 private:
  Daemons(Invocation& invocation, std::optional<Fleet> fleet, absl::Duration timeout)
      : invocation_(invocation), fleet_(std::move(fleet)), timeout_(timeout) {}

  Invocation& invocation_;
  std::optional<Fleet> fleet_;
  const absl::Duration timeout_;
  std::vector<NodeOutcome> outcomes_;
};

// Moves what came into `to`; or says what went wrong.
template <typename T, typename To>
absl::Status TakeInto(absl::StatusOr<T> from, To& to) {
  if (!from.ok()) return from.status();
  to = *std::move(from);
  return absl::OkStatus();
}

using ScheduleAction = std::function<absl::StatusOr<ScheduleView>(DaemonClient&)>;

// What `act` gave on each node that did it.
absl::StatusOr<std::vector<ScheduleView>> OnEach(Daemons& daemons, const ScheduleAction& act) {
  std::vector<std::optional<ScheduleView>> results(daemons.size());
  RETURN_IF_ERROR(daemons.Run(
      [&](size_t member, DaemonClient& daemon) { return TakeInto(act(daemon), results[member]); }));
  std::vector<ScheduleView> views;
  for (std::optional<ScheduleView>& view : results) {
    if (view.has_value()) views.push_back(*std::move(view));
  }
  return views;
}

void PrintSchedules(Invocation& invocation, const Daemons& daemons, const std::string& id,
                    const std::vector<ScheduleView>& views) {
  if (invocation.json()) {
    JsonWriter json;
    WriteOneScheduleJson({.id = id, .schedules = views, .outcomes = daemons.outcomes()}, json);
    invocation.Print(json.TakeLine());
  } else if (!views.empty()) {
    invocation.Print(RenderSchedule(views.front(), invocation.style()));
    invocation.Print(RenderScheduleNodes(views, invocation.style()));
  }
}

absl::StatusOr<int> CreateSchedule(Invocation& invocation, Daemons& daemons) {
  const absl::Time now = Clock::Real().Now();
  ASSIGN_OR_RETURN(ScheduleSpec spec, ScheduleSpecOf(invocation.flags(), now));
  const std::string id = invocation.flags().Get("id").value_or(NewUlid(now));
  if (!IsUlid(id))
    return UsageError(StrCat("--id '", ForDisplay(id, 40), "' is not a complete ID"));
  if (daemons.IsFleet()) {
    // Nodes choose by the names that they have for themselves. One that does not answer is
    // expected under the name it was given, so that `schedule list` misses it.
    std::vector<std::string> names(daemons.size());
    for (size_t i = 0; i < names.size(); ++i) names[i] = daemons.NameOf(i);
    RETURN_IF_ERROR(daemons.Run([&names](size_t member, DaemonClient& daemon) {
      names[member] = daemon.node().name;
      return absl::OkStatus();
    }));
    std::ranges::sort(names);
    const auto repeated = std::ranges::adjacent_find(names);
    if (repeated != names.end()) {
      return UsageError(StrCat("two daemons are both called ", ForDisplay(*repeated, 80),
                               "; give each a --node-name"));
    }
    spec.nodes = std::move(names);
  }
  ASSIGN_OR_RETURN(
      const std::vector<ScheduleView> views,
      OnEach(daemons, [&](DaemonClient& daemon) { return daemon.CreateSchedule(spec, id); }));
  PrintSchedules(invocation, daemons, id, views);
  const int code = daemons.Finish();
  if (code != kExitDone && !views.empty()) {
    invocation.Note(StrCat("`profctl schedule create` with --id ", id,
                           " and the same flags places it on the rest\n"));
  }
  return code;
}

absl::StatusOr<int> ListSchedules(Invocation& invocation, Daemons& daemons) {
  const bool deleted = invocation.flags().Has("deleted");
  std::vector<std::vector<ScheduleView>> lists(daemons.size());
  std::vector<std::string> names(daemons.size());
  RETURN_IF_ERROR(daemons.Run([&](size_t member, DaemonClient& daemon) {
    names[member] = daemon.node().name;
    return TakeInto(daemon.ListSchedules(deleted), lists[member]);
  }));
  std::vector<ScheduleView> all;
  std::map<std::string, std::vector<ScheduleView>> asked;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (!daemons.Reached(i)) continue;
    all.insert(all.end(), lists[i].begin(), lists[i].end());
    asked[names[i]] = std::move(lists[i]);
  }
  const std::vector<ScheduleDrift> drift = FindDrift(asked);
  if (invocation.json()) {
    JsonWriter json;
    WriteScheduleListJson({.schedules = all, .drift = drift, .outcomes = daemons.outcomes()}, json);
    invocation.Print(json.TakeLine());
  } else if (all.empty()) {
    invocation.Print("No schedules. `profctl schedule create --every 30m` makes one.\n");
  } else {
    invocation.Print(RenderScheduleTable(all, invocation.style()));
  }
  for (const ScheduleDrift& one : drift) {
    invocation.Note(StrCat("drift: schedule ", one.id, " ", one.problem, " on node ",
                           ForDisplay(one.node, 80), "\n"));
  }
  const int code = daemons.Finish();
  return code == kExitDone && !drift.empty() ? kExitPartial : code;
}

absl::StatusOr<int> OnOne(Invocation& invocation, Daemons& daemons, const std::string& id,
                          const ScheduleAction& act) {
  ASSIGN_OR_RETURN(const std::vector<ScheduleView> views, OnEach(daemons, act));
  PrintSchedules(invocation, daemons, views.empty() ? id : views.front().id, views);
  return daemons.Finish();
}

absl::StatusOr<int> ShowScheduleHistory(Invocation& invocation, Daemons& daemons,
                                        const std::string& id) {
  ASSIGN_OR_RETURN(const auto limit, invocation.flags().Int("limit", 0, kMaxListedRows));
  const int64_t rows = limit.value_or(invocation.json() ? 0 : kRowsForPeople);
  std::vector<std::vector<WindowView>> lists(daemons.size());
  RETURN_IF_ERROR(daemons.Run([&](size_t member, DaemonClient& daemon) {
    return TakeInto(daemon.ListScheduleWindows(id, rows), lists[member]);
  }));
  std::vector<WindowView> windows;
  for (std::vector<WindowView>& list : lists) {
    std::ranges::move(list, std::back_inserter(windows));
  }
  std::ranges::stable_sort(windows, std::greater(),
                           [](const WindowView& view) { return view.window.time; });
  if (invocation.json()) {
    JsonWriter json;
    WriteWindowListJson({.id = id, .windows = windows, .outcomes = daemons.outcomes()}, json);
    invocation.Print(json.TakeLine());
  } else if (windows.empty()) {
    invocation.Print("No windows yet; `profctl schedule show` says when the next one is.\n");
  } else {
    invocation.Print(RenderWindows(windows, invocation.style()));
  }
  return daemons.Finish();
}

absl::StatusOr<std::string> ScheduleIdOf(const std::string& word) {
  if (IsUlidPrefix(word)) return word;
  return UsageError(StrCat("'", ForDisplay(word, 80), "' is not a schedule ID"));
}

absl::StatusOr<int> RunSchedule(Invocation& invocation) {
  const std::vector<std::string>& arguments = invocation.arguments();
  const std::string& verb = arguments.front();
  const bool takes_id = verb != "create" && verb != "list";
  if (takes_id != (arguments.size() == 2)) {
    return UsageError(takes_id ? StrCat("profctl schedule ", ForDisplay(verb, 40), " ID")
                               : StrCat("profctl schedule ", verb, " takes no id"));
  }
  std::string id;
  if (takes_id) {
    ASSIGN_OR_RETURN(id, ScheduleIdOf(arguments[1]));
  }
  ASSIGN_OR_RETURN(Daemons daemons, Daemons::Of(invocation));
  if (verb == "create") return CreateSchedule(invocation, daemons);
  if (verb == "list") return ListSchedules(invocation, daemons);
  if (verb == "history") return ShowScheduleHistory(invocation, daemons, id);
  if (verb == "show") {
    return OnOne(invocation, daemons, id,
                 [&](DaemonClient& daemon) { return daemon.GetSchedule(id); });
  }
  if (verb == "delete") {
    return OnOne(invocation, daemons, id,
                 [&](DaemonClient& daemon) { return daemon.DeleteSchedule(id); });
  }
  if (verb == "pause" || verb == "resume") {
    return OnOne(invocation, daemons, id, [&](DaemonClient& daemon) {
      return daemon.SetSchedulePaused(id, verb == "pause");
    });
  }
  return UsageError(StrCat("schedule has no '", ForDisplay(verb, 40),
                           "'; it takes create, list, show, pause, resume, delete, history"));
}

}  // namespace

Command ScheduleCommand() {
  return {
      .name = "schedule",
      .summary = "Sample captures by a schedule",
      .arguments = "create|list|show|pause|resume|delete|history [ID]",
      .description =
          "A schedule captures a few steps at intervals, on a sample of the nodes. It survives "
          "daemon restarts and captures only what you may capture. Each node decides from a hash "
          "of schedule and window, so nodes with the same schedule (--nodes) sample together "
          "without a coordinator.\n\nRequests go first: they cancel a scheduled capture of the "
          "same process. Budgets and --max-slowdown limit the cost of sampling. The history has "
          "the outcome of every window, and every capture carries its sampling weight.\n\nRanks of "
          "a job begin a window at the same step, and are a group: `show`, `stragglers`, and "
          "`report` take its ID, which `history` has. A rank that chose another step is "
          "named.\n\nWith "
          "--nodes, everything is done on all nodes, with one row per node. `list` names nodes "
          "that lack a schedule or have another version (drift), with exit code 4.",
      .flags = ScheduleFlags(),
      .examples = {{"profctl schedule create --every 30m --steps 3 --fraction 5% --nodes "
                    "gpu[001-128]",
                    "Every half hour, three steps on 5 % of the nodes"},
                   {"profctl schedule create --cron '0 3 * * *' --steps 3 --of jobs "
                    "--fraction 25%",
                    "At 03:00 UTC, three steps of a quarter of the jobs, each on all its nodes"},
                   {"profctl schedule history 01J9", "What became of its windows"},
                   {"profctl captures --since 24h", "What it captured"}},
      .min_arguments = 1,
      .max_arguments = 2,
      .completes = Completes::kSchedule,
      .choices = {"create", "list", "show", "pause", "resume", "delete", "history"},
      .takes_nodes = true,
      .run = &RunSchedule};
}

}  // namespace profd::cli
