#include "cli/render/schedules.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
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

std::string NsOrDash(int64_t ns) { return ns == 0 ? "-" : FormatNs(ns); }

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

void WriteScheduleJson(const ScheduleView& view, JsonWriter& json) {
  const ScheduleSpec& spec = view.spec;
  json.BeginObject();
  json.Field("id", view.id).Field("node", view.node).Field("state", ToString(view.state));
  json.Field("name", spec.display_name).Field("created_by", view.created_by);
  json.Field("create_time_unix_ns", absl::ToUnixNanos(view.create_time));
  json.Field("every_ns", absl::ToInt64Nanoseconds(spec.every)).Field("cron", spec.cron);
  json.Field("align", spec.align).Field("jitter_ns", absl::ToInt64Nanoseconds(spec.jitter));
  json.Field("steps", spec.capture.steps);
  json.Field("duration_ns", absl::ToInt64Nanoseconds(spec.capture.duration));
  json.Field("job", spec.selector.job).Field("command", spec.selector.command);
  json.Field("sample_of", ToString(spec.sample.unit)).Field("fraction", spec.sample.fraction);
  json.Field("count", spec.sample.count);
  json.Field("captures_per_hour", spec.budget.captures_per_hour);
  json.Field("bytes_per_day", spec.budget.bytes_per_day);
  json.Field("time_share", spec.budget.time_share).Field("max_slowdown", spec.max_slowdown);
  json.Key("nodes").BeginArray();
  for (const std::string& node : spec.nodes) json.String(node);
  json.EndArray();
  json.Field("spec_hash", view.spec_hash);
  json.Key("next_window_unix_ns");
  if (view.next_window == absl::InfiniteFuture()) {
    json.Null();
  } else {
    json.Int(absl::ToUnixNanos(view.next_window));
  }
  json.Field("windows", view.window_count).Field("captures", view.capture_count);
  json.Field("bytes", view.capture_bytes);
  json.EndObject();
}

void WriteWindowJson(const WindowView& view, JsonWriter& json) {
  const ScheduleWindow& window = view.window;
  json.BeginObject();
  json.Field("time_unix_ns", absl::ToUnixNanos(window.time)).Field("node", view.node);
  json.Field("outcome", view.outcome).Field("detail", window.detail);
  json.Field("capture", window.capture_id).Field("pid", window.pid);
  json.Field("sampling_weight", window.sampling_weight);
  json.Field("step_before_ns", window.step_before_ns);
  json.Field("step_during_ns", window.step_during_ns);
  json.Field("step_after_ns", window.step_after_ns);
  json.EndObject();
}

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
  line("budget", BudgetText(spec.budget));
  line("governor", spec.max_slowdown > 0 ? StrCat("slow-down above ", Percent(spec.max_slowdown))
                                         : std::string("off"));
  line("created", StrCat(FormatLocalTime(view.create_time), " by ", view.created_by));
  line("spec", view.spec_hash);
  return text;
}

std::string RenderWindows(std::span<const WindowView> views, const Style& style) {
  Table table({{.title = "TIME", .right = false},
               {.title = "NODE", .right = false},
               {.title = "PID"},
               {.title = "OUTCOME", .right = false},
               {.title = "CAPTURE", .right = false},
               {.title = "WEIGHT", .drop_order = 4},
               {.title = "BEFORE", .drop_order = 3},
               {.title = "IN", .drop_order = 2},
               {.title = "AFTER", .drop_order = 1},
               {.title = "DETAIL", .right = false, .flexible = true, .drop_order = 5}});
  for (const WindowView& view : views) {
    const ScheduleWindow& window = view.window;
    table.AddRow(
        {FormatLocalTime(window.time), view.node, window.pid == 0 ? "-" : StrCat(window.pid),
         view.outcome, window.capture_id.empty() ? "-" : window.capture_id,
         window.pid == 0 ? "-" : absl::StrFormat("%.3g", window.sampling_weight),
         NsOrDash(window.step_before_ns), NsOrDash(window.step_during_ns),
         NsOrDash(window.step_after_ns), ForDisplay(window.detail, kMaxDetailBytes)},
        WindowColour(window.outcome));
  }
  return table.Render(style);
}

}  // namespace profd::cli
