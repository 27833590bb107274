// profctl schedule: standing orders for sampled captures, on one node or on many.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
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
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"
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

// The schedules of the nodes that answer, deleted ones included, by their own names.
absl::StatusOr<SchedulesByNode> ListSchedulesByNode(Daemons& daemons) {
  std::vector<std::vector<ScheduleView>> lists(daemons.size());
  std::vector<std::string> names(daemons.size());
  RETURN_IF_ERROR(daemons.Run([&](size_t member, DaemonClient& daemon) {
    names[member] = daemon.node().name;
    return TakeInto(daemon.ListSchedules(/*include_deleted=*/true), lists[member]);
  }));
  SchedulesByNode asked;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (daemons.Reached(i)) asked[names[i]] = std::move(lists[i]);
  }
  return asked;
}

absl::StatusOr<int> ListSchedules(Invocation& invocation, Daemons& daemons) {
  const bool deleted = invocation.flags().Has("deleted");
  ASSIGN_OR_RETURN(const auto asked, ListSchedulesByNode(daemons));
  std::vector<ScheduleView> all;
  for (const auto& [node, views] : asked) {
    std::ranges::copy_if(views, std::back_inserter(all), [&](const ScheduleView& view) {
      return deleted || view.state != ScheduleState::kDeleted;
    });
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

// ---- declared schedules ----

constexpr std::string_view kUnchanged = "unchanged";
constexpr std::string_view kDeclarationRefused = "refused";
constexpr size_t kMaxScheduleFileBytes = 4 << 20;

absl::StatusOr<std::vector<DeclarationView>> ReadDeclarations(const ParsedFlags& flags) {
  const std::optional<std::string> path = flags.Get("file");
  if (!path.has_value()) return UsageError("--file FILE is missing; - is stdin");
  const bool is_stdin = *path == "-";
  const std::string name = is_stdin ? "stdin" : *path;
  const std::string shown = ForDisplay(name, 200);
  const absl::StatusOr<std::string> text =
      ReadUpTo(kMaxScheduleFileBytes + 1, name, is_stdin ? STDIN_FILENO : -1);
  if (!text.ok()) return UsageError(StrCat("--file: ", FromAbsl(text.status().message())));
  if (text->size() > kMaxScheduleFileBytes) {
    return UsageError(StrCat("--file: ", shown, " has more than 4 MiB"));
  }
  absl::StatusOr<std::vector<DeclarationView>> declarations = ParseScheduleFile(*text);
  if (declarations.ok()) return declarations;
  return UsageError(StrCat("--file ", shown, ": ", FromAbsl(declarations.status().message())));
}

// Refusals that concern one schedule. After others nothing of the file is applied on that node.
bool IsOfOneSchedule(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == "STALE_VERSION" || reason == "VERSION_CONFLICT" || reason == "QUOTA_EXCEEDED" ||
         reason == "SCHEDULE_LIMIT";
}

absl::StatusOr<DeclarationOutcome> DeclareOne(DaemonClient& daemon,
                                              const DeclarationView& declaration, bool dry_run) {
  DeclarationOutcome outcome{.id = declaration.id,
                             .display_name = declaration.display_name,
                             .version = declaration.version,
                             .node = daemon.node().name};
  const absl::StatusOr<AppliedView> applied = daemon.ApplySchedule(declaration, dry_run);
  if (applied.ok()) {
    outcome.change = ToString(applied->change);
    return outcome;
  }
  const absl::Status& refusal = applied.status();
  if (IsOfOneSchedule(refusal)) {
    outcome.change = kDeclarationRefused;
    outcome.reason = ReasonOf(refusal);
    outcome.error = FromAbsl(refusal.message());
    return outcome;
  }
  if (!absl::IsInvalidArgument(refusal)) return refusal;
  std::string_view message = FromAbsl(refusal.message());
  constexpr std::string_view kPrefix = "schedule: ";
  if (message.starts_with(kPrefix)) message.remove_prefix(kPrefix.size());
  return UsageError(StrCat("schedule ", declaration.id, ": ", message));
}

// What `declarations` come to on one node: first without changing anything, so that a file with
// an error is not applied in part.
absl::StatusOr<std::vector<DeclarationOutcome>> DeclareOn(
    DaemonClient& daemon, const std::vector<DeclarationView>& declarations, bool dry_run) {
  std::vector<DeclarationOutcome> outcomes;
  for (const DeclarationView& declaration : declarations) {
    ASSIGN_OR_RETURN(outcomes.emplace_back(), DeclareOne(daemon, declaration, /*dry_run=*/true));
  }
  for (size_t i = 0; i < outcomes.size() && !dry_run; ++i) {
    if (outcomes[i].change == kUnchanged || outcomes[i].change == kDeclarationRefused) continue;
    ASSIGN_OR_RETURN(outcomes[i], DeclareOne(daemon, declarations[i], /*dry_run=*/false));
  }
  return outcomes;
}

absl::StatusOr<std::vector<DeclarationOutcome>> Declare(
    Daemons& daemons, const std::vector<DeclarationView>& declarations, bool dry_run) {
  std::vector<std::vector<DeclarationOutcome>> by_node(daemons.size());
  RETURN_IF_ERROR(daemons.Run([&](size_t member, DaemonClient& daemon) {
    return TakeInto(DeclareOn(daemon, declarations, dry_run), by_node[member]);
  }));
  std::vector<DeclarationOutcome> all;
  for (std::vector<DeclarationOutcome>& outcomes : by_node) {
    std::ranges::move(outcomes, std::back_inserter(all));
  }
  return all;
}

absl::StatusOr<int> ApplyDeclarations(Invocation& invocation, Daemons& daemons, bool dry_run) {
  ASSIGN_OR_RETURN(const std::vector<DeclarationView> declarations,
                   ReadDeclarations(invocation.flags()));
  ASSIGN_OR_RETURN(std::vector<DeclarationOutcome> outcomes,
                   Declare(daemons, declarations, dry_run));
  const auto count = [&](std::string_view change) {
    return std::ranges::count(outcomes, change, &DeclarationOutcome::change);
  };
  const bool any_refused = count(kDeclarationRefused) > 0;
  const bool all_refused = count(kDeclarationRefused) == std::ssize(outcomes);
  const bool all_unchanged = count(kUnchanged) == std::ssize(outcomes);
  if (invocation.json()) {
    JsonWriter json;
    WriteDeclarationsJson({.declarations = outcomes, .outcomes = daemons.outcomes()}, json);
    invocation.Print(json.TakeLine());
  } else if (!outcomes.empty()) {
    invocation.Print(RenderDeclarations(outcomes, dry_run));
  }
  const int code = daemons.Finish();
  if (code != kExitDone) return code;
  if (dry_run) return all_unchanged ? kExitDone : kExitCondition;
  if (!any_refused) return kExitDone;
  return all_refused ? kExitFailed : kExitPartial;
}

absl::StatusOr<int> ShowScheduleStatus(Invocation& invocation, Daemons& daemons) {
  ASSIGN_OR_RETURN(const auto asked, ListSchedulesByNode(daemons));
  std::vector<ScheduleStatus> statuses = StatusOf(asked);
  // Those that are deleted wherever they are known are history.
  std::erase_if(statuses, [&](const ScheduleStatus& status) {
    return !invocation.flags().Has("deleted") && status.state == ScheduleState::kDeleted &&
           status.behind.empty();
  });
  if (invocation.json()) {
    JsonWriter json;
    WriteScheduleStatusJson({.statuses = statuses, .outcomes = daemons.outcomes()}, json);
    invocation.Print(json.TakeLine());
  } else if (statuses.empty()) {
    invocation.Print("No schedules. `profctl schedule create --every 30m` makes one.\n");
  } else {
    invocation.Print(RenderScheduleStatus(statuses, invocation.style()));
  }
  const int code = daemons.Finish();
  const bool any_behind = std::ranges::any_of(
      statuses, [](const ScheduleStatus& status) { return !status.behind.empty(); });
  return code == kExitDone && any_behind ? kExitPartial : code;
}

// The deletion of the one schedule whose id starts so. INVALID_ARGUMENT (USAGE): there are several;
// NOT_FOUND.
absl::StatusOr<DeclarationView> DeletionOfPrefix(const SchedulesByNode& asked,
                                                 const std::string& prefix) {
  std::string id;
  int64_t version = 0;
  bool is_deleted = true;  // In that version, everywhere.
  for (const auto& [node, views] : asked) {
    for (const ScheduleView& view : views) {
      if (!view.id.starts_with(prefix)) continue;
      if (!id.empty() && view.id != id) {
        return UsageError(StrCat("several schedules start with ", prefix, ": ", id, ", ", view.id));
      }
      id = view.id;
      if (view.version < version) continue;
      const bool is_higher = view.version > version;
      version = view.version;
      is_deleted = (is_higher || is_deleted) && view.state == ScheduleState::kDeleted;
    }
  }
  if (id.empty()) {
    return absl::NotFoundError(StrCat("no schedule ", prefix, " on the nodes that answered"));
  }
  return DeletionOf(id, is_deleted ? std::max<int64_t>(version, 1) : version + 1);
}

// nullopt: a profd without versions does not have the schedule.
absl::StatusOr<std::optional<ScheduleView>> DeleteOn(DaemonClient& daemon,
                                                     const DeclarationView& deletion) {
  absl::StatusOr<AppliedView> applied = daemon.ApplySchedule(deletion, /*dry_run=*/false);
  if (applied.ok()) return std::move(applied->schedule);
  if (ReasonOf(applied.status()) != kVersionsDifferReason) return applied.status();
  absl::StatusOr<ScheduleView> deleted = daemon.DeleteSchedule(deletion.id);
  if (absl::IsNotFound(deleted.status())) return std::nullopt;
  RETURN_IF_ERROR(deleted.status());
  return *std::move(deleted);
}

// The same version deletes it on every node, also where it is not known: an old declaration does
// not bring it back there.
absl::StatusOr<int> DeleteEverywhere(Invocation& invocation, Daemons& daemons, std::string prefix) {
  std::ranges::transform(prefix, prefix.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  ASSIGN_OR_RETURN(const SchedulesByNode asked, ListSchedulesByNode(daemons));
  const absl::StatusOr<DeclarationView> deletion = DeletionOfPrefix(asked, prefix);
  if (absl::IsNotFound(deletion.status())) {
    invocation.Note(StrCat("profctl: ", FromAbsl(deletion.status().message()), "\n"));
    const int code = daemons.Finish();
    return code == kExitDone ? static_cast<int>(kExitFailed) : code;
  }
  RETURN_IF_ERROR(deletion.status());
  std::vector<std::optional<ScheduleView>> results(daemons.size());
  RETURN_IF_ERROR(daemons.Run([&](size_t member, DaemonClient& daemon) {
    return TakeInto(DeleteOn(daemon, *deletion), results[member]);
  }));
  std::vector<ScheduleView> views;
  for (std::optional<ScheduleView>& view : results) {
    if (view.has_value()) views.push_back(*std::move(view));
  }
  PrintSchedules(invocation, daemons, deletion->id, views);
  const int code = daemons.Finish();
  if (code != kExitDone) {
    invocation.Note(
        StrCat("A node that failed may still have the schedule. `profctl schedule delete ",
               deletion->id, "` deletes it there, or \"deleted\": true with version ",
               deletion->version, " in the file of `schedule apply`\n"));
  }
  return code;
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
  const bool takes_id =
      verb != "create" && verb != "list" && verb != "apply" && verb != "diff" && verb != "status";
  if (takes_id != (arguments.size() == 2)) {
    return UsageError(takes_id ? StrCat("profctl schedule ", ForDisplay(verb, 40), " ID")
                               : StrCat("profctl schedule ", verb, " takes no argument: '",
                                        ForDisplay(arguments[1], 80), "'"));
  }
  std::string id;
  if (takes_id) {
    ASSIGN_OR_RETURN(id, ScheduleIdOf(arguments[1]));
  }
  ASSIGN_OR_RETURN(Daemons daemons, Daemons::Of(invocation));
  if (verb == "create") return CreateSchedule(invocation, daemons);
  if (verb == "list") return ListSchedules(invocation, daemons);
  if (verb == "apply") return ApplyDeclarations(invocation, daemons, /*dry_run=*/false);
  if (verb == "diff") return ApplyDeclarations(invocation, daemons, /*dry_run=*/true);
  if (verb == "status") return ShowScheduleStatus(invocation, daemons);
  if (verb == "history") return ShowScheduleHistory(invocation, daemons, id);
  if (verb == "show") {
    return OnOne(invocation, daemons, id,
                 [&](DaemonClient& daemon) { return daemon.GetSchedule(id); });
  }
  if (verb == "delete" && daemons.IsFleet()) return DeleteEverywhere(invocation, daemons, id);
  if (verb == "delete") {
    return OnOne(invocation, daemons, id,
                 [&](DaemonClient& daemon) { return daemon.DeleteSchedule(id); });
  }
  if (verb == "pause" || verb == "resume") {
    return OnOne(invocation, daemons, id, [&](DaemonClient& daemon) {
      return daemon.SetSchedulePaused(id, verb == "pause");
    });
  }
  return UsageError(
      StrCat("schedule has no '", ForDisplay(verb, 40),
             "'; it takes create, apply, diff, status, list, show, pause, resume, delete, "
             "history"));
}

}  // namespace

Command ScheduleCommand() {
  return {
      .name = "schedule",
      .summary = "Sample captures by a schedule",
      .arguments = "ACTION [ID]",
      .description =
          "ACTION is create, apply, diff, status, or list, or with an ID show, pause, resume, "
          "delete, or history.\n\nA schedule captures a few steps at intervals, on a sample of the "
          "nodes. It survives "
          "daemon restarts and captures only what you may capture. Each node decides from a hash "
          "of schedule and window, so nodes with the same schedule (--nodes) sample together "
          "without a coordinator.\n\nRequests go first: they cancel a scheduled capture of the "
          "same process. Budgets and --max-slowdown limit the cost of sampling. The history has "
          "the outcome of every window, and every capture carries its sampling weight.\n\nRanks of "
          "a job begin a window at the same step, and are a group: `show`, `stragglers`, and "
          "`report` take its ID, which `history` has. A rank that chose another step is "
          "named.\n\n`apply` makes the schedules what a JSON file declares: {\"schedules\": "
          "[{\"name\": \"schedules/ULID\", \"version\": 1, \"spec\": {...}}]}, or \"deleted\": "
          "true instead of a spec. The highest version wins, so the same file can be applied to "
          "every node at any time. A file with an error changes nothing. `diff` shows what `apply` "
          "would change, with exit code 3 if anything. `status` shows how many nodes have which "
          "version, with exit code 4 if one is behind.\n\nWith --nodes, everything is done on all "
          "nodes, with one row per node. `list` names nodes that have another version of a "
          "schedule, or lack one that `create` placed there (drift), with exit code 4.",
      .flags = ScheduleFlags(),
      .examples = {{"profctl schedule create --every 30m --steps 3 --fraction 5% --nodes "
                    "gpu[001-128]",
                    "Every half hour, three steps on 5 % of the nodes"},
                   {"profctl schedule create --cron '0 3 * * *' --steps 3 --of jobs "
                    "--fraction 25%",
                    "At 03:00 UTC, three steps of a quarter of the jobs, each on all its nodes"},
                   {"profctl schedule apply -f schedules.json",
                    "What the file declares; the same file on every node"},
                   {"profctl schedule history 01J9", "What became of its windows"},
                   {"profctl captures --since 24h", "What it captured"}},
      .min_arguments = 1,
      .max_arguments = 2,
      .completes = Completes::kSchedule,
      .choices = {"create", "apply", "diff", "status", "list", "show", "pause", "resume", "delete",
                  "history"},
      .takes_nodes = true,
      .run = &RunSchedule};
}

}  // namespace profd::cli
