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

std::vector<ScheduleDrift> FindDrift(
    const std::map<std::string, std::vector<ScheduleView>>& asked) {
  // What most nodes have is right.
  std::map<std::string, std::map<std::string, int64_t>> hashes;
  std::map<std::string, std::set<std::string>> expected;
  std::map<std::string, std::map<std::string, const ScheduleView*>> found;
  for (const auto& [node, views] : asked) {
    for (const ScheduleView& view : views) {
      if (view.state == ScheduleState::kDeleted) continue;
      ++hashes[view.id][view.spec_hash];
      expected[view.id].insert(view.spec.nodes.begin(), view.spec.nodes.end());
      found[view.id][node] = &view;
    }
  }
  std::vector<ScheduleDrift> drift;
  for (const auto& [id, by_node] : found) {
    const auto& counts = hashes[id];
    const auto usual = std::ranges::max_element(counts, std::less(),
                                                [](const auto& entry) { return entry.second; });
    for (const auto& [node, view] : by_node) {
      if (view->spec_hash != usual->first) drift.push_back({id, node, "differs in its spec"});
    }
    for (const std::string& node : expected[id]) {
      if (asked.contains(node) && !by_node.contains(node))
        drift.push_back({id, node, "is missing"});
    }
  }
  return drift;
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
        {.key = "spec_hash", .doc = "Hash of the spec; equal specs have equal hashes"}},
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

}  // namespace

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
    const size_t placed = std::max<size_t>(1, first.spec.nodes.size());
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
  line("spec", view.spec_hash);
  return text;
}

std::string RenderWindows(std::span<const WindowView> views, const Style& style) {
  return RenderTable(WindowObject().columns().ToTable("windows", views), style,
                     [&](size_t row) { return WindowColour(views[row].window.outcome); });
}

}  // namespace profd::cli
