#include "cli/render/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/base/object.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

constexpr int kTrendColumns = 30;
constexpr double kSmallestSpread = 0.1;  // Of the lowest value, that takes the full height.

// What one row is of: a rank of a job, which outlives its processes, else a process.
struct SeriesKey {
  std::string node;
  std::string job;
  int64_t rank = -1;
  int64_t pid = 0;  // 0: of a rank
  friend bool operator<(const SeriesKey& a, const SeriesKey& b) {
    return std::tie(a.node, a.job, a.rank, a.pid) < std::tie(b.node, b.job, b.rank, b.pid);
  }
};

SeriesKey KeyOf(const HistoryPoint& point) {
  return {.node = point.node,
          .job = point.job,
          .rank = point.rank,
          .pid = point.rank >= 0 && !point.job.empty() ? 0 : point.pid};
}

double MeasuredValue(const HistoryPoint& point, HistoryMeasure measure, bool per_step) {
  const auto shared = [&](int64_t ns) {
    const int64_t parts = per_step ? point.steps : point.calls;
    return parts > 0 ? static_cast<double>(ns) / static_cast<double>(parts) : 0;
  };
  switch (measure) {
    case HistoryMeasure::kStep:
      return static_cast<double>(point.median_ns);
    case HistoryMeasure::kSelfCpu:
      return shared(point.self_cpu_ns);
    case HistoryMeasure::kCpuTotal:
      return shared(point.cpu_total_ns);
    case HistoryMeasure::kSelfDevice:
      return shared(point.self_device_ns);
    case HistoryMeasure::kCall:
      return static_cast<double>(point.mean_ns);
  }
  return 0;
}

std::string_view Describe(HistoryMeasure measure) {
  switch (measure) {
    case HistoryMeasure::kStep:
      return "median step";
    case HistoryMeasure::kSelfCpu:
      return "self time on the CPU";
    case HistoryMeasure::kCpuTotal:
      return "total time on the CPU";
    case HistoryMeasure::kSelfDevice:
      return "self time on GPUs";
    case HistoryMeasure::kCall:
      return "mean call";
  }
  return "";
}

bool IsPerPart(HistoryMeasure measure) {
  return measure == HistoryMeasure::kSelfCpu || measure == HistoryMeasure::kCpuTotal ||
         measure == HistoryMeasure::kSelfDevice;
}

std::string FormatChange(double from, double to) {
  if (from <= 0) return "-";
  return absl::StrFormat("%+.1f%%", 100 * (to - from) / from);
}

std::string Ns(double ns) { return FormatNs(std::llround(ns)); }

void AddSeries(const SeriesKey& key, std::vector<TimedValue> values, int64_t begin, int64_t end,
               bool several_nodes, Table& table) {
  std::vector<double> all;
  all.reserve(values.size());
  for (const TimedValue& value : values) all.push_back(value.value);
  // A quarter at each end: one odd window is then no trend.
  const size_t quarter = std::max<size_t>(1, all.size() / 4);
  const double early =
      Median(std::vector(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(quarter)));
  const double late =
      Median(std::vector(all.end() - static_cast<std::ptrdiff_t>(quarter), all.end()));
  std::vector<std::string> cells;
  if (several_nodes) cells.push_back(key.node);
  cells.push_back(key.job.empty() ? "-" : key.job);
  cells.push_back(key.rank < 0 ? "-" : StrCat(key.rank));
  cells.push_back(key.pid == 0 ? "-" : StrCat(key.pid));
  cells.push_back(FormatCount(static_cast<int64_t>(all.size())));
  cells.push_back(Ns(*std::ranges::min_element(all)));
  cells.push_back(Ns(Median(all)));
  cells.push_back(Ns(*std::ranges::max_element(all)));
  cells.push_back(Ns(early));
  cells.push_back(Ns(late));
  cells.push_back(all.size() > 1 ? FormatChange(early, late) : "-");
  cells.push_back(Sparkline(values, begin, end, kTrendColumns));
  table.AddRow(std::move(cells));
}

std::string Rfc3339(int64_t unix_ns) {
  return absl::FormatTime(absl::RFC3339_full, absl::FromUnixNanos(unix_ns), absl::UTCTimeZone());
}

}  // namespace

std::optional<HistoryMeasure> HistoryMeasureFromString(std::string_view text) {
  if (text == "step") return HistoryMeasure::kStep;
  if (text == "self_cpu") return HistoryMeasure::kSelfCpu;
  if (text == "cpu_total") return HistoryMeasure::kCpuTotal;
  if (text == "self_device") return HistoryMeasure::kSelfDevice;
  if (text == "call") return HistoryMeasure::kCall;
  return std::nullopt;
}

std::string Sparkline(std::span<const TimedValue> values, int64_t begin_unix_ns,
                      int64_t end_unix_ns, int columns) {
  if (values.empty() || columns <= 0) return "";
  const double span =
      std::max<double>(1, static_cast<double>(end_unix_ns) - static_cast<double>(begin_unix_ns));
  std::vector<std::vector<double>> buckets(static_cast<size_t>(columns));
  for (const TimedValue& value : values) {
    const double offset =
        static_cast<double>(value.time_unix_ns) - static_cast<double>(begin_unix_ns);
    const double place = std::floor(offset / span * columns);
    buckets[static_cast<size_t>(std::clamp<double>(place, 0, columns - 1))].push_back(value.value);
  }
  std::vector<std::optional<double>> medians;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -lowest;
  for (std::vector<double>& bucket : buckets) {
    medians.emplace_back();
    if (bucket.empty()) continue;
    medians.back() = Median(std::move(bucket));
    lowest = std::min(lowest, *medians.back());
    highest = std::max(highest, *medians.back());
  }
  const double height = std::max(highest - lowest, kSmallestSpread * std::abs(lowest));
  constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const std::optional<double>& median : medians) {
    if (!median.has_value()) {
      line.push_back(' ');
      continue;
    }
    const double part = height > 0 ? (*median - lowest) / height : 0;
    line += kBlocks[static_cast<size_t>(std::clamp<double>(std::floor(part * 8), 0, 7))];
  }
  return line;
}

std::string RenderHistory(const History& history, const HistoryQuery& query, HistoryMeasure measure,
                          bool several_nodes, const Style& style) {
  const std::string subject = query.operator_name.empty()
                                  ? "Step time"
                                  : StrCat("'", ForDisplay(query.operator_name, 120), "'");
  if (history.points.empty()) {
    std::string text = "No window that you may read is kept of that time.\n";
    if (history.without_operator_count > 0) {
      text = StrCat(subject, " is not among the largest operators of the ",
                    FormatCount(history.without_operator_count),
                    history.without_operator_count == 1 ? " capture" : " captures",
                    " of that time; `profctl ops ID` lists those of one.\n");
    }
    return text;
  }
  const bool per_step =
      std::ranges::all_of(history.points, [](const HistoryPoint& p) { return p.steps > 0; });
  std::map<SeriesKey, std::vector<TimedValue>> series;
  for (const HistoryPoint& point : history.points) {
    series[KeyOf(point)].push_back({point.time_unix_ns, MeasuredValue(point, measure, per_step)});
  }
  const int64_t begin = history.points.front().time_unix_ns;
  const int64_t end = history.points.back().time_unix_ns;

  // A row is a process, or a rank, which may have had several.
  const bool by_pid =
      std::ranges::any_of(series, [](const auto& row) { return row.first.pid != 0; });
  std::vector<Column> columns;
  if (several_nodes) columns.push_back({.title = "Node", .right = false});
  for (const Column& column :
       {Column{.title = "Job", .right = false, .flexible = true}, Column{.title = "Rank"},
        Column{.title = "PID", .drop_order = by_pid ? 0 : 7},
        Column{.title = "Windows", .drop_order = 3}, Column{.title = "Min", .drop_order = 6},
        Column{.title = "Median"}, Column{.title = "Max", .drop_order = 5},
        Column{.title = "Early", .drop_order = 2}, Column{.title = "Late", .drop_order = 1},
        Column{.title = "Change"}, Column{.title = "Trend", .right = false}}) {
    columns.push_back(column);
  }
  Table table(std::move(columns));
  for (auto& [key, values] : series) {
    AddSeries(key, std::move(values), begin, end, several_nodes, table);
  }

  std::string text = StrCat(subject, ": ", Describe(measure));
  if (IsPerPart(measure)) StrAppend(&text, per_step ? " per step" : " per call");
  StrAppend(&text, ", from ", FormatLocalTime(absl::FromUnixNanos(begin)), " to ",
            FormatLocalTime(absl::FromUnixNanos(end)), "\n", table.Render(style));
  if (history.left_out_count > 0) {
    StrAppend(&text, "(", FormatCount(history.left_out_count),
              " older windows are left out: ask for a shorter time)\n");
  }
  if (history.without_operator_count > 0) {
    StrAppend(&text, "(", FormatCount(history.without_operator_count),
              " captures more do not have it among their largest operators)\n");
  }
  return text;
}

namespace {

const ObjectDescription<HistoryPoint>& PointObject() {
  static const ObjectDescription<HistoryPoint> object(
      {{[](const HistoryPoint& point) { return Rfc3339(point.time_unix_ns); },
        {.key = "time", .doc = "Start of the window, in UTC (RFC 3339)"}},
       {&HistoryPoint::time_unix_ns,
        {.key = "time_unix_ns",
         .doc = "Start of the window, since 1970-01-01 UTC",
         .unit = table::Unit::kNs}},
       {&HistoryPoint::node, {.key = "node", .doc = "Node of the daemon"}},
       {&HistoryPoint::capture, {.key = "capture", .doc = "The capture's ID"}},
       {&HistoryPoint::pid, {.key = "pid", .doc = "Process ID"}},
       {&HistoryPoint::rank, {.key = "rank", .doc = "Rank, from the program's metadata; -1: none"}},
       {&HistoryPoint::job, {.key = "job", .doc = "Job of the process"}},
       {&HistoryPoint::schedule,
        {.key = "schedule", .doc = "Schedule that made the capture; empty: none"}},
       {&HistoryPoint::sampling_weight,
        {.key = "sampling_weight",
         .doc = "Sampling weight: 1 / probability of choosing the target"}},
       {&HistoryPoint::quality, {.key = "quality", .doc = "The capture's grade, A to D"}},
       {&HistoryPoint::steps,
        {.key = "steps",
         .doc = "Steps in the window; for an operator, in the capture",
         .unit = table::Unit::kCount}},
       {&HistoryPoint::min_ns,
        {.key = "min_ns",
         .doc = "Shortest step, or shortest call of the operator",
         .unit = table::Unit::kNs}},
       {&HistoryPoint::median_ns,
        {.key = "median_ns", .doc = "Median step time; 0 for operators", .unit = table::Unit::kNs}},
       {&HistoryPoint::mean_ns,
        {.key = "mean_ns",
         .doc = "Mean step time, or mean call of the operator",
         .unit = table::Unit::kNs}},
       {&HistoryPoint::max_ns,
        {.key = "max_ns",
         .doc = "Longest step, or longest call of the operator",
         .unit = table::Unit::kNs}},
       {&HistoryPoint::calls,
        {.key = "calls",
         .doc = "Calls of the operator; 0 for step times",
         .unit = table::Unit::kCount}},
       {&HistoryPoint::self_cpu_ns,
        {.key = "self_cpu_ns",
         .doc = "Self CPU time of the operator; 0 for step times",
         .unit = table::Unit::kNs}},
       {&HistoryPoint::cpu_total_ns,
        {.key = "cpu_total_ns",
         .doc = "CPU total of the operator; 0 for step times",
         .unit = table::Unit::kNs}},
       {&HistoryPoint::self_device_ns,
        {.key = "self_device_ns",
         .doc = "Self GPU time of the operator; 0 for step times",
         .unit = table::Unit::kNs}}});
  return object;
}

struct HistoryAnswer {
  const History& history;
  const HistoryQuery& query;
  const std::vector<NodeOutcome>* outcomes;
};

const ObjectDescription<HistoryAnswer>& HistoryAnswerObject() {
  using Row = HistoryAnswer;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.query.operator_name; },
        {.key = "operator", .doc = "The operator; empty: step times"}},
       {[](const Row& row) { return row.query.operator_name.empty(); },
        {.key = "step_time", .doc = "Whether the points are step times"}},
       {[](const Row& row) { return row.history.left_out_count; },
        {.key = "left_out",
         .doc = "Older windows left out of the answer",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return row.history.without_operator_count; },
        {.key = "without_operator",
         .doc = "Captures in which the operator is not one of the largest",
         .unit = table::Unit::kCount}}},
      {ListOf<Row>(
           "points", "Windows, oldest first", &PointObject,
           [](const Row& row) -> const auto& { return row.history.points; }),
       NodeOutcomesMember<Row>()});
  return object;
}

}  // namespace

void WriteHistoryJson(const History& history, const HistoryQuery& query,
                      const std::vector<NodeOutcome>* nodes, JsonWriter& json) {
  HistoryAnswerObject().Write({history, query, nodes}, json);
}
void WriteHistorySchema(JsonWriter& json) { HistoryAnswerObject().WriteSchema(json); }

std::string HistoryCsv(const History& history) {
  return table::ToCsv(PointObject().columns().ToTable("points", history.points));
}

}  // namespace profd::cli
