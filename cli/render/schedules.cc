#include "cli/render/schedules.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/base/object.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
#include "cli/render/report_tables.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

constexpr size_t kMaxDetailBytes = 200;
constexpr size_t kMostNamedNodes = 8;

std::string Percent(double share) { return absl::StrFormat("%.4g%%", 100 * share); }

std::string CaptureLengthOf(const CaptureSpec& capture) {
  if (capture.steps > 0) return StrCat(capture.steps, " steps");
  return absl::FormatDuration(capture.duration);
}

std::string NextOf(const ScheduleView& view) {
  return view.next_window == absl::InfiniteFuture() ? "-" : FormatLocalTime(view.next_window);
}

Colour ScheduleColour(ScheduleState state) {
  return state == ScheduleState::kActive ? Colour::kNone : Colour::kDim;
}

Colour WindowColour(WindowOutcome outcome) {
  switch (outcome) {
    case WindowOutcome::kCaptured:
      return Colour::kGreen;
    case WindowOutcome::kFailed:
    case WindowOutcome::kNotAllowed:
      return Colour::kRed;
    case WindowOutcome::kMissed:
    case WindowOutcome::kOverBudget:
    case WindowOutcome::kBackedOff:
    case WindowOutcome::kBusy:
      return Colour::kYellow;
    case WindowOutcome::kNotChosen:
    case WindowOutcome::kNoTarget:
    case WindowOutcome::kPaused:
    case WindowOutcome::kSwitchedOff:
      return Colour::kDim;
  }
  return Colour::kNone;
}

std::string TextOfNs(int64_t ns) { return ns == 0 ? std::string() : FormatNs(ns); }

// What its selector says; "all" if nothing.
std::string SelectorText(const TargetSelector& selector) {
  std::string text;
  const auto add = [&text](std::string_view key, const std::string& value) {
    if (!value.empty()) StrAppend(&text, text.empty() ? "" : ", ", key, " ", value);
  };
  add("job", selector.job);
  std::string ranks;
  for (const int64_t rank : selector.ranks) StrAppend(&ranks, ranks.empty() ? "" : ",", rank);
  add("ranks", ranks);
  add("command with", selector.command);
  for (const auto& [key, value] : selector.metadata) add("", StrCat(key, "=", value));
  add("namespace", selector.pod_namespace);
  add("uid", selector.uid.has_value() ? StrCat(*selector.uid) : "");
  return text.empty() ? "all processes" : text;
}

std::string BudgetText(const ScheduleBudget& budget) {
  std::string text;
  const auto add = [&text](const std::string& limit) {
    StrAppend(&text, text.empty() ? "" : ", ", limit);
  };
  if (budget.captures_per_hour > 0) add(StrCat(budget.captures_per_hour, " captures an hour"));
  if (budget.bytes_per_day > 0) add(StrCat(FormatBytes(budget.bytes_per_day), " a day"));
  if (budget.time_share > 0) add(StrCat(Percent(budget.time_share), " of a process's time"));
  return text.empty() ? "no limit" : text;
}

}  // namespace

std::string WhenOf(const ScheduleSpec& spec) {
  if (!spec.cron.empty()) return StrCat("cron ", spec.cron);
  return StrCat("every ", absl::FormatDuration(spec.every), spec.align ? ", aligned" : "");
}

std::string SampleOf(const ScheduleSpec& spec) {
  if (spec.sample.fraction > 0) {
    return StrCat(Percent(spec.sample.fraction), " of ", ToString(spec.sample.unit));
  }
  if (spec.sample.count == 0) return "all";
  return StrCat(spec.sample.count, " ", ToString(spec.sample.unit),
                spec.sample.unit == SampleUnit::kNodes ? "" : " per node");
}

namespace {

// One schedule, as the nodes that answered have it.
struct ScheduleCopies {
  std::map<std::string, const ScheduleView*> by_node;
  const ScheduleView* right = nullptr;  // One of the copies that are as they should be.
  std::set<std::string> placed;         // Where it was placed, as any of those says.
};

bool SameCopy(const ScheduleView& a, const ScheduleView& b) {
  const bool is_deleted = a.state == ScheduleState::kDeleted;
  return a.version == b.version && is_deleted == (b.state == ScheduleState::kDeleted) &&
         (is_deleted || a.spec_hash == b.spec_hash);
}

std::map<std::string, ScheduleCopies> CopiesOf(const SchedulesByNode& asked) {
  std::map<std::string, ScheduleCopies> found;
  for (const auto& [node, views] : asked) {
    for (const ScheduleView& view : views) {
      found[view.id].by_node[node] = &view;
    }
  }
  for (auto& [id, copies] : found) {
    std::pair<int64_t, int64_t> best = {-1, 0};
    for (const auto& entry : copies.by_node) {
      const ScheduleView& view = *entry.second;
      const auto same = std::ranges::count_if(
          copies.by_node, [&view](const auto& other) { return SameCopy(view, *other.second); });
      const std::pair<int64_t, int64_t> rank(view.version, same);
      if (rank <= best) continue;
      best = rank;
      copies.right = &view;
    }
    for (const auto& [node, view] : copies.by_node) {
      if (!SameCopy(*view, *copies.right)) continue;
      copies.placed.insert(view->spec.nodes.begin(), view->spec.nodes.end());
    }
  }
  return found;
}

bool IsDeleted(const ScheduleView& view) { return view.state == ScheduleState::kDeleted; }

std::string ProblemOf(const ScheduleView& copy, const ScheduleView& right) {
  if (IsDeleted(right))
    return StrCat("is not deleted, as it is on other nodes (version ", right.version, ")");
  if (copy.version == 0 && right.version > 0) return "has no version (of an earlier profd)";
  if (copy.version != right.version) {
    return StrCat("has version ", copy.version, " of ", right.version);
  }
  return IsDeleted(copy) ? "is deleted" : "differs in its spec";
}

}  // namespace

std::vector<ScheduleDrift> FindDrift(const SchedulesByNode& asked) {
  std::vector<ScheduleDrift> drift;
  for (const auto& [id, copies] : CopiesOf(asked)) {
    for (const auto& [node, view] : copies.by_node) {
      if (SameCopy(*view, *copies.right) || (IsDeleted(*view) && IsDeleted(*copies.right))) {
        continue;
      }
      drift.push_back({id, node, ProblemOf(*view, *copies.right)});
    }
    if (IsDeleted(*copies.right)) continue;
    for (const std::string& node : copies.placed) {
      if (asked.contains(node) && !copies.by_node.contains(node))
        drift.push_back({id, node, "is missing"});
    }
  }
  return drift;
}

namespace {

// "version 2: gpu7; missing: gpu8, gpu9"
std::string BehindText(const std::map<std::string, std::vector<std::string>>& behind) {
  std::string text;
  for (const auto& [what, nodes] : behind) {
    StrAppend(&text, text.empty() ? "" : "; ", what, ":");
    for (size_t i = 0; i < nodes.size() && i < kMostNamedNodes; ++i) {
      StrAppend(&text, i == 0 ? " " : ", ", nodes[i]);
    }
    if (nodes.size() > kMostNamedNodes) {
      StrAppend(&text, ", and ", nodes.size() - kMostNamedNodes, " more");
    }
  }
  return text;
}

std::string CopyName(const ScheduleView& copy, const ScheduleView& right) {
  if (copy.version == 0 && right.version > 0) return "no version (of an earlier profd)";
  if (IsDeleted(copy)) return StrCat("version ", copy.version, ", deleted");
  return StrCat("version ", copy.version,
                copy.version == right.version && !IsDeleted(right) ? ", another spec" : "");
}

}  // namespace

std::vector<ScheduleStatus> StatusOf(const SchedulesByNode& asked) {
  std::vector<ScheduleStatus> statuses;
  for (const auto& [id, copies] : CopiesOf(asked)) {
    const ScheduleView& right = *copies.right;
    ScheduleStatus& status =
        statuses.emplace_back(ScheduleStatus{.id = id,
                                             .display_name = right.spec.display_name,
                                             .version = right.version,
                                             .state = right.state});
    std::map<std::string, std::vector<std::string>> behind;
    for (const auto& [node, views] : asked) {
      const auto copy = copies.by_node.find(node);
      const bool is_here = copy != copies.by_node.end();
      const bool is_placed = copies.placed.empty() || copies.placed.contains(node);
      if (!is_here && (IsDeleted(right) || !is_placed)) continue;
      ++status.expected_count;
      if (!is_here) {
        behind["missing"].push_back(node);
      } else if (SameCopy(*copy->second, right) || (IsDeleted(*copy->second) && IsDeleted(right))) {
        ++status.current_count;
      } else {
        behind[CopyName(*copy->second, right)].push_back(node);
      }
    }
    status.behind = BehindText(behind);
  }
  return statuses;
}

namespace {

const ObjectDescription<ScheduleView>& ScheduleObject() {
  using Row = ScheduleView;
  static const ObjectDescription<Row> object(
      {{&Row::id, {.key = "id", .doc = "Schedule ID, a ULID; the same on all nodes"}},
       {&Row::node, {.key = "node", .doc = "Node name configured in the daemon"}},
       {[](const Row& row) { return std::string(ToString(row.state)); },
        {.key = "state", .doc = "ACTIVE, PAUSED, ENDED, or DELETED"}},
       {[](const Row& row) { return row.spec.display_name; },
        {.key = "name", .doc = "Name given by its creator"}},
       {&Row::created_by,
        {.key = "created_by", .doc = "Creator; captures have the creator's rights"}},
       {[](const Row& row) { return absl::ToUnixNanos(row.create_time); },
        {.key = "create_time_unix_ns",
         .doc = "Creation time, since 1970-01-01 UTC",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return absl::ToInt64Nanoseconds(row.spec.every); },
        {.key = "every_ns",
         .doc = "Interval between windows; 0: `cron` applies",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return row.spec.cron; },
        {.key = "cron", .doc = "Cron expression, in UTC; empty: `every_ns` applies"}},
       {[](const Row& row) { return row.spec.align; },
        {.key = "align", .doc = "Whether windows are at multiples of `every_ns`"}},
       {[](const Row& row) { return absl::ToInt64Nanoseconds(row.spec.jitter); },
        {.key = "jitter_ns", .doc = "Maximum random delay of a window", .unit = table::Unit::kNs}},
       {[](const Row& row) { return row.spec.capture.steps; },
        {.key = "steps", .doc = "Steps per capture; 0: `duration_ns` applies"}},
       {[](const Row& row) { return absl::ToInt64Nanoseconds(row.spec.capture.duration); },
        {.key = "duration_ns",
         .doc = "Length of a capture; 0: `steps` applies",
         .unit = table::Unit::kNs}},
       {[](const Row& row) { return row.spec.selector.job; },
        {.key = "job", .doc = "Only targets of this job; empty: any"}},
       {[](const Row& row) { return row.spec.selector.command; },
        {.key = "command", .doc = "Only targets whose command contains this; empty: any"}},
       {[](const Row& row) { return std::string(ToString(row.spec.sample.unit)); },
        {.key = "sample_of", .doc = "Sampled units: nodes, targets, or jobs"}},
       {[](const Row& row) { return row.spec.sample.fraction; },
        {.key = "fraction", .doc = "Share of units sampled, 0 to 1; 0: `count` applies"}},
       {[](const Row& row) { return row.spec.sample.count; },
        {.key = "count", .doc = "Number of units sampled; 0 with a `fraction` of 0: all"}},
       {[](const Row& row) { return row.spec.budget.captures_per_hour; },
        {.key = "captures_per_hour", .doc = "Maximum captures per hour and node; 0: no limit"}},
       {[](const Row& row) { return row.spec.budget.bytes_per_day; },
        {.key = "bytes_per_day",
         .doc = "Limit of capture files per day and node; 0: no limit",
         .unit = table::Unit::kBytes}},
       {[](const Row& row) { return row.spec.budget.time_share; },
        {.key = "time_share",
         .doc = "Maximum share of a target's time that is captured, 0 to 1; 0: no limit",
         .unit = table::Unit::kShare}},
       {[](const Row& row) { return row.spec.step_grid; },
        {.key = "step_grid",
         .doc = "One in so many steps can be the first of a window; 0: each rank begins at once"}},
       {[](const Row& row) { return row.spec.step_lead; },
        {.key = "step_lead", .doc = "Steps from the choice of the first step to that step"}},
       {[](const Row& row) { return row.spec.max_slowdown; },
        {.key = "max_slowdown",
         .doc = "Slow-down above which captures become less frequent; 0: off",
         .unit = table::Unit::kShare}},
       {&Row::spec_hash,
        {.key = "spec_hash",
         .doc = "Hash of the spec without its nodes; equal specs have equal hashes"}},
       {&Row::version,
        {.key = "version", .doc = "The highest version wins; 0: the daemon has no versions"}},
       {[](const Row& row) {
          const bool is_known = row.next_window != absl::InfiniteFuture();
          return is_known ? absl::ToUnixNanos(row.next_window) : -1;
        },
        {.key = "next_window_unix_ns",
         .doc = "Time of the next window, since 1970-01-01 UTC; null: none",
         .unit = table::Unit::kNs,
         .nullable = true}},
       {&Row::window_count,
        {.key = "windows", .doc = "Windows so far", .unit = table::Unit::kCount}},
       {&Row::capture_count,
        {.key = "captures", .doc = "Captures made by the schedule", .unit = table::Unit::kCount}},
       {&Row::capture_bytes,
        {.key = "bytes", .doc = "Size of the capture files", .unit = table::Unit::kBytes}}},
      {TextsOf<Row>(
          "nodes", "Nodes on which the schedule was placed; empty: one node",
          [](const Row& row) -> const auto& { return row.spec.nodes; })});
  return object;
}

const ObjectDescription<ScheduleDrift>& DriftObject() {
  using Row = ScheduleDrift;
  static const ObjectDescription<Row> object(
      {{&Row::id, {.key = "id", .doc = "The schedule"}},
       {&Row::node, {.key = "node", .doc = "Node with the problem"}},
       {&Row::problem, {.key = "problem", .doc = "Problem on the node"}}});
  return object;
}

Member<ScheduleAnswer> ScheduleRows() {
  using Row = ScheduleAnswer;
  return ListOf<Row>("schedules", "One row per schedule and node", &ScheduleObject,
                     [](const Row& row) { return row.schedules; });
}

const ObjectDescription<ScheduleAnswer>& ScheduleListObject() {
  using Row = ScheduleAnswer;
  static const ObjectDescription<Row> object(
      {}, {ScheduleRows(),
           ListOf<Row>("drift", "Nodes on which a schedule is missing or differs", &DriftObject,
                       [](const Row& row) { return row.drift; }),
           NodeOutcomesMember<ScheduleAnswer>()});
  return object;
}

const ObjectDescription<ScheduleAnswer>& OneScheduleObject() {
  static const ObjectDescription<ScheduleAnswer> object(
      {{&ScheduleAnswer::id, {.key = "id", .doc = "The schedule"}}},
      {ScheduleRows(), NodeOutcomesMember<ScheduleAnswer>()});
  return object;
}

const ObjectDescription<WindowView>& WindowObject() {
  using Row = WindowView;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return FormatLocalTime(row.window.time); },
        {.title = "TIME", .doc = "Time of the window"}},
       {&Row::node, {.key = "node", .title = "NODE", .doc = "Node of the daemon"}},
       {[](const Row& row) { return row.window.pid == 0 ? std::string() : StrCat(row.window.pid); },
        {.title = "PID", .doc = "Process ID of the sampled target", .right = true}},
       {&Row::outcome, {.key = "outcome", .title = "OUTCOME", .doc = "Outcome of the window"}},
       {[](const Row& row) { return row.window.capture_id; },
        {.key = "capture", .title = "CAPTURE", .doc = "The capture's ID"}},
       {[](const Row& row) {
          return row.window.pid == 0
                     ? std::string()
                     : std::string(absl::StrFormat("%.3g", row.window.sampling_weight));
        },
        {.title = "WEIGHT",
         .doc = "Sampling weight of the window",
         .formula = "1 / probability of choosing the target",
         .priority = 4,
         .right = true}},
       {[](const Row& row) { return TextOfNs(row.window.step_before_ns); },
        {.title = "BEFORE",
         .doc = "Median step time before the window",
         .priority = 3,
         .right = true}},
       {[](const Row& row) { return TextOfNs(row.window.step_during_ns); },
        {.title = "IN", .doc = "Median step time in the window", .priority = 2, .right = true}},
       {[](const Row& row) { return TextOfNs(row.window.step_after_ns); },
        {.title = "AFTER",
         .doc = "Median step time after the window",
         .priority = 1,
         .right = true}},
       {[](const Row& row) {
          return row.window.first_step < 0 ? std::string() : StrCat(row.window.first_step);
        },
        {.title = "STEP",
         .doc = "First recorded step; ranks of a job have the same one",
         .priority = 6,
         .right = true}},
       {[](const Row& row) { return row.window.group_id; },
        {.key = "group",
         .title = "GROUP",
         .doc = "Group of the ranks that began at the same step",
         .priority = 7}},
       {[](const Row& row) { return ForDisplay(row.window.detail, kMaxDetailBytes); },
        {.title = "DETAIL",
         .doc = "Reason why there is no capture",
         .priority = 5,
         .flexible = true}},
       // ---- For programs.
       {[](const Row& row) { return absl::ToUnixNanos(row.window.time); },
        {.key = "time_unix_ns",
         .doc = "Time of the window, since 1970-01-01 UTC",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.window.detail; },
        {.key = "detail", .doc = "Reason why there is no capture", .priority = kOnlyInData}},
       {[](const Row& row) { return row.window.pid; },
        {.key = "pid",
         .doc = "Process ID of the sampled target; 0: none",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.window.sampling_weight; },
        {.key = "sampling_weight",
         .doc = "Sampling weight of the window; 0: no target was sampled",
         .formula = "1 / probability of choosing the target",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.window.step_before_ns; },
        {.key = "step_before_ns",
         .doc = "Median step time before the window; 0: not known",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.window.step_during_ns; },
        {.key = "step_during_ns",
         .doc = "Median step time in the window; 0: not known",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.window.step_after_ns; },
        {.key = "step_after_ns",
         .doc = "Median step time after the window; 0: not known",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.window.first_step; },
        {.key = "first_step",
         .doc = "First recorded step; null: not known",
         .priority = kOnlyInData,
         .nullable = true}}});
  return object;
}

const ObjectDescription<ScheduleAnswer>& WindowListObject() {
  using Row = ScheduleAnswer;
  static const ObjectDescription<Row> object(
      {{&Row::id, {.key = "id", .doc = "The schedule"}}},
      {ListOf<Row>("windows", "Windows and their outcomes, newest first", &WindowObject,
                   [](const Row& row) { return row.windows; }),
       NodeOutcomesMember<ScheduleAnswer>()});
  return object;
}

const ObjectDescription<DeclarationOutcome>& DeclarationObject() {
  using Row = DeclarationOutcome;
  static const ObjectDescription<Row> object(
      {{&Row::id, {.key = "id", .doc = "The schedule"}},
       {&Row::display_name, {.key = "name", .doc = "Name that the declaration gives it"}},
       {&Row::version, {.key = "version", .doc = "Version that is declared"}},
       {&Row::node, {.key = "node", .doc = "Node of the daemon"}},
       {&Row::change,
        {.key = "change",
         .doc = "created, updated, deleted, unchanged, or refused; of diff, what apply would do"}},
       {&Row::reason, {.key = "error_reason", .doc = "Stable reason of the refusal; empty: none"}},
       {&Row::error, {.key = "error_message", .doc = "Why it was refused; empty: it was not"}}});
  return object;
}

const ObjectDescription<ScheduleAnswer>& DeclarationsObject() {
  using Row = ScheduleAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>("declarations", "One row per declared schedule and node that answered",
                       &DeclarationObject, [](const Row& row) { return row.declarations; }),
           NodeOutcomesMember<ScheduleAnswer>()});
  return object;
}

const ObjectDescription<ScheduleStatus>& StatusObject() {
  using Row = ScheduleStatus;
  static const ObjectDescription<Row> object(
      {{&Row::id, {.key = "id", .title = "ID", .doc = "The schedule"}},
       {&Row::display_name,
        {.key = "name", .title = "NAME", .doc = "Name given by its creator", .priority = 2}},
       {&Row::version,
        {.key = "version", .title = "VERSION", .doc = "The highest version on any node"}},
       {[](const Row& row) { return std::string(ToString(row.state)); },
        {.key = "state", .title = "STATE", .doc = "State of that version"}},
       {[](const Row& row) { return StrCat(row.current_count, "/", row.expected_count); },
        {.title = "NODES",
         .doc = "Nodes that have this version, of those that should",
         .right = true}},
       {[](const Row& row) { return ForDisplay(row.behind, kMaxDetailBytes); },
        {.title = "BEHIND",
         .doc = "Nodes that have another version, or none",
         .priority = 1,
         .flexible = true}},
       {&Row::expected_count,
        {.key = "nodes_expected",
         .doc = "Nodes that answered and should have it",
         .priority = kOnlyInData}},
       {&Row::current_count,
        {.key = "nodes_current", .doc = "Nodes that have this version", .priority = kOnlyInData}},
       {&Row::behind,
        {.key = "behind",
         .doc = "Nodes that have another version, or none",
         .priority = kOnlyInData}}});
  return object;
}

const ObjectDescription<ScheduleAnswer>& StatusListObject() {
  using Row = ScheduleAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>("statuses", "One row per schedule", &StatusObject,
                       [](const Row& row) { return row.statuses; }),
           NodeOutcomesMember<ScheduleAnswer>()});
  return object;
}

}  // namespace

void WriteDeclarationsJson(const ScheduleAnswer& answer, JsonWriter& json) {
  DeclarationsObject().Write(answer, json);
}
void WriteDeclarationsSchema(JsonWriter& json) { DeclarationsObject().WriteSchema(json); }
void WriteScheduleStatusJson(const ScheduleAnswer& answer, JsonWriter& json) {
  StatusListObject().Write(answer, json);
}
void WriteScheduleStatusSchema(JsonWriter& json) { StatusListObject().WriteSchema(json); }
std::vector<table::Column> ScheduleStatusColumns() { return StatusObject().columns().columns(); }

std::string RenderDeclarations(std::span<const DeclarationOutcome> outcomes, bool dry_run) {
  std::map<std::string, std::map<std::string, int64_t>> counts;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> refusals;
  std::map<std::string, const DeclarationOutcome*> first;
  for (const DeclarationOutcome& outcome : outcomes) {
    ++counts[outcome.id][outcome.change];
    first.try_emplace(outcome.id, &outcome);
    if (!outcome.error.empty()) refusals[{outcome.id, outcome.error}].push_back(outcome.node);
  }
  const bool has_nodes = std::ssize(outcomes) > std::ssize(counts);
  std::string text;
  for (const auto& [id, by_change] : counts) {
    const std::string& name = first[id]->display_name;
    StrAppend(&text, "schedule ", id, name.empty() ? "" : StrCat(" (", ForDisplay(name, 80), ")"),
              ", version ", first[id]->version, ":");
    bool is_first = true;
    for (const auto& [change, count] : by_change) {
      StrAppend(&text, is_first ? " " : ", ", dry_run && change != "unchanged" ? "would be " : "",
                change);
      if (has_nodes) StrAppend(&text, " on ", count, count == 1 ? " node" : " nodes");
      is_first = false;
    }
    text += "\n";
  }
  for (const auto& [key, nodes] : refusals) {
    StrAppend(&text, "refused on ", ForDisplay(nodes.front(), 80),
              nodes.size() > 1 ? StrCat(" and ", nodes.size() - 1, " more") : std::string(), ": ",
              ForDisplay(key.second, 500), "\n");
  }
  return text;
}

std::string RenderScheduleStatus(std::span<const ScheduleStatus> statuses, const Style& style) {
  return RenderTable(
      StatusObject().columns().ToTable("statuses", statuses), style,
      [&](size_t row) { return statuses[row].behind.empty() ? Colour::kNone : Colour::kYellow; });
}

void WriteScheduleListJson(const ScheduleAnswer& answer, JsonWriter& json) {
  ScheduleListObject().Write(answer, json);
}
void WriteOneScheduleJson(const ScheduleAnswer& answer, JsonWriter& json) {
  OneScheduleObject().Write(answer, json);
}
void WriteWindowListJson(const ScheduleAnswer& answer, JsonWriter& json) {
  WindowListObject().Write(answer, json);
}
void WriteScheduleListSchema(JsonWriter& json) { ScheduleListObject().WriteSchema(json); }
void WriteOneScheduleSchema(JsonWriter& json) { OneScheduleObject().WriteSchema(json); }
void WriteWindowListSchema(JsonWriter& json) { WindowListObject().WriteSchema(json); }
std::vector<table::Column> WindowColumns() { return WindowObject().columns().columns(); }

std::string RenderScheduleTable(std::span<const ScheduleView> views, const Style& style) {
  Table table({{.title = "ID", .right = false},
               {.title = "NAME", .right = false, .flexible = true, .drop_order = 2},
               {.title = "STATE", .right = false},
               {.title = "WHEN", .right = false},
               {.title = "WHAT", .right = false},
               {.title = "SAMPLE", .right = false},
               {.title = "NEXT", .right = false, .drop_order = 1},
               {.title = "NODES"},
               {.title = "WINDOWS", .drop_order = 4},
               {.title = "CAPTURES"},
               {.title = "BYTES", .drop_order = 3}});
  std::map<std::string, std::vector<const ScheduleView*>> by_id;
  for (const ScheduleView& view : views) by_id[view.id].push_back(&view);
  for (const auto& [id, nodes] : by_id) {
    const ScheduleView& first = *nodes.front();
    int64_t windows = 0;
    int64_t captures = 0;
    int64_t bytes = 0;
    for (const ScheduleView* view : nodes) {
      windows = std::max(windows, view->window_count);
      captures += view->capture_count;
      bytes += view->capture_bytes;
    }
    // A declared one names no nodes.
    const size_t placed = first.spec.nodes.empty() ? nodes.size() : first.spec.nodes.size();
    table.AddRow({id, first.spec.display_name, std::string(ToString(first.state)),
                  WhenOf(first.spec), CaptureLengthOf(first.spec.capture), SampleOf(first.spec),
                  NextOf(first), StrCat(nodes.size(), "/", placed), FormatCount(windows),
                  FormatCount(captures), FormatBytes(bytes)},
                 ScheduleColour(first.state));
  }
  return table.Render(style);
}

std::string RenderScheduleNodes(std::span<const ScheduleView> views, const Style& style) {
  Table table({{.title = "NODE", .right = false},
               {.title = "STATE", .right = false},
               {.title = "NEXT", .right = false},
               {.title = "WINDOWS"},
               {.title = "CAPTURES"},
               {.title = "BYTES"}});
  for (const ScheduleView& view : views) {
    table.AddRow(
        {view.node, std::string(ToString(view.state)), NextOf(view), FormatCount(view.window_count),
         FormatCount(view.capture_count), FormatBytes(view.capture_bytes)},
        ScheduleColour(view.state));
  }
  return table.Render(style);
}

std::string RenderSchedule(const ScheduleView& view, const Style& /*style*/) {
  const ScheduleSpec& spec = view.spec;
  std::string text = StrCat("schedule ", view.id, "\n");
  const auto line = [&text](std::string_view key, const std::string& value) {
    StrAppend(&text, absl::StrFormat("  %-12s %s\n", ToAbsl(key), ForDisplay(value, 4096)));
  };
  if (!spec.display_name.empty()) line("name", spec.display_name);
  line("when", StrCat(WhenOf(spec), spec.jitter > absl::ZeroDuration()
                                        ? StrCat(", jitter ", absl::FormatDuration(spec.jitter))
                                        : std::string()));
  if (spec.end_time != absl::InfiniteFuture()) line("until", FormatLocalTime(spec.end_time));
  line("what", CaptureLengthOf(spec.capture));
  line("of", SelectorText(spec.selector));
  line("sample", SampleOf(spec));
  if (spec.step_grid > 0 && spec.capture.steps > 0) {
    line("start", StrCat("ranks of a job at one step in ", spec.step_grid, ", ", spec.step_lead,
                         " steps ahead"));
  }
  line("budget", BudgetText(spec.budget));
  line("governor", spec.max_slowdown > 0 ? StrCat("slow-down above ", Percent(spec.max_slowdown))
                                         : std::string("off"));
  line("created", StrCat(FormatLocalTime(view.create_time), " by ", view.created_by));
  line("version", StrCat(view.version));
  line("spec", view.spec_hash);
  return text;
}

std::string RenderWindows(std::span<const WindowView> views, const Style& style) {
  return RenderTable(WindowObject().columns().ToTable("windows", views), style,
                     [&](size_t row) { return WindowColour(views[row].window.outcome); });
}

}  // namespace profd::cli
