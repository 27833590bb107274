#include "cli/render/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/base/object.h"
#include "cli/base/short_names.h"
#include "cli/base/units.h"
#include "cli/render/report_tables.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

constexpr int kTrendColumns = 30;
constexpr char kCpuWaitsTitle[] = "CPU waits";
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

// What a row of the text is.
struct HistorySeries {
  std::string node;
  std::string job;
  int64_t rank = -1;
  int64_t pid = -1;     // -1: of a rank
  std::string program;  // Of a process.
  int64_t window_count = 0;
  int64_t min_ns = 0;
  int64_t median_ns = 0;
  int64_t max_ns = 0;
  int64_t early_ns = 0;
  int64_t late_ns = 0;
  double change = std::numeric_limits<double>::quiet_NaN();
  // How much of the change waits for a CPU can be, if that is at least half of it; 0: they cannot,
  // or they are not known.
  int64_t cpu_wait_change_ns = 0;
  std::string trend;
};

const table::Description<HistorySeries>& SeriesColumns() {
  using Row = HistorySeries;
  const auto time = [](int64_t Row::*member, const char* key, const char* title, const char* doc,
                       int priority = 0) -> table::Field<Row> {
    return {
        member,
        {.key = key, .title = title, .doc = doc, .unit = table::Unit::kNs, .priority = priority}};
  };
  static const table::Description<Row> columns = {
      {&Row::node,
       {.key = "node",
        .title = "Node",
        .doc = "The machine whose daemon it is",
        .only_if_set = true}},
      {&Row::job,
       {.key = "job",
        .title = "Job",
        .doc = "The job that it is part of, from its cgroup or environment",
        .flexible = true}},
      {&Row::rank,
       {.key = "rank",
        .title = "Rank",
        .doc = "The rank, from the program's metadata",
        .nullable = true}},
      {&Row::pid,
       {.key = "pid",
        .title = "PID",
        .doc = "The process; -: a rank, which may have had several",
        .nullable = true}},
      {&Row::program,
       {.key = "program",
        .title = "Program",
        .doc = "The program that the process runs; empty: of a rank, or not known",
        .only_if_set = true,
        .max_width = 40}},
      {&Row::window_count,
       {.key = "window_count",
        .title = "Windows",
        .doc = "Captures that are counted",
        .unit = table::Unit::kCount,
        .priority = 3}},
      time(&Row::min_ns, "min_ns", "Min", "Lowest figure of the windows", 6),
      time(&Row::median_ns, "median_ns", "Median", "Median of the figure over the windows"),
      time(&Row::max_ns, "max_ns", "Max", "Highest figure of the windows", 5),
      time(&Row::early_ns, "early_ns", "Early", "The median of the first quarter of the windows",
           2),
      time(&Row::late_ns, "late_ns", "Late", "The median of the last quarter of the windows", 1),
      {&Row::change,
       {.key = "change",
        .doc = "How far the late windows are above the early ones",
        .formula = "Late / Early - 1",
        .priority = kOnlyInData,
        .nullable = true,
        .may_be_negative = true}},
      {[](const Row& row) {
         return std::isnan(row.change) ? std::string()
                                       : absl::StrFormat("%+.1f%%", 100 * row.change);
       },
       {.title = "Change",
        .doc = "How far the late windows are above the early ones",
        .formula = "Late / Early - 1",
        .right = true}},
      {[](const Row& row) {
         return row.cpu_wait_change_ns == 0 ? std::string()
                                            : StrCat(row.cpu_wait_change_ns < 0 ? "-" : "+",
                                                     FormatNs(std::abs(row.cpu_wait_change_ns)));
       },
       {.title = kCpuWaitsTitle,
        .doc =
            "How much of Change waits for a CPU can be, where that is at least half of it: other "
            "processes, or more threads than CPUs, may have made the steps longer. Empty: they "
            "cannot, or are not known",
        .formula = "median wait of the late windows - that of the early ones, at most Change",
        .unknown_text = "",
        .only_if_set = true,
        .right = true}},
      {&Row::trend,
       {.title = "Trend", .doc = "The figure over time, oldest left", .unknown_text = ""}}};
  return columns;
}

HistorySeries SeriesOf(const SeriesKey& key, const std::vector<TimedValue>& values, int64_t begin,
                       int64_t end) {
  std::vector<double> all;
  all.reserve(values.size());
  for (const TimedValue& value : values) all.push_back(value.value);
  // A quarter at each end: one odd window is then no trend.
  const auto quarter = static_cast<std::ptrdiff_t>(std::max<size_t>(1, all.size() / 4));
  const double early = Median(std::vector(all.begin(), all.begin() + quarter));
  const double late = Median(std::vector(all.end() - quarter, all.end()));
  HistorySeries series = {.node = key.node,
                          .job = key.job,
                          .rank = key.rank,
                          .pid = key.pid == 0 ? -1 : key.pid,
                          .window_count = std::ssize(all),
                          .min_ns = std::llround(*std::ranges::min_element(all)),
                          .median_ns = std::llround(Median(all)),
                          .max_ns = std::llround(*std::ranges::max_element(all)),
                          .early_ns = std::llround(early),
                          .late_ns = std::llround(late),
                          .trend = Sparkline(values, begin, end, kTrendColumns)};
  if (all.size() > 1 && early > 0) series.change = (late - early) / early;
  return series;
}

// A change of less, of the early figure, needs no explanation.
constexpr double kLeastChange = 0.05;
// Waits for a CPU are named if they can be this share of a change.
constexpr double kShareOfCause = 0.5;

// `waits`: of all windows of the series, by time; -1: not known.
void ExplainByCpuWaits(const std::vector<int64_t>& waits, HistorySeries& series) {
  if (std::isnan(series.change) || std::abs(series.change) < kLeastChange) return;
  const auto quarter = static_cast<std::ptrdiff_t>(std::max<size_t>(1, waits.size() / 4));
  std::vector<int64_t> early(waits.begin(), waits.begin() + quarter);
  std::vector<int64_t> late(waits.end() - quarter, waits.end());
  const auto is_unknown = [](int64_t wait_ns) { return wait_ns < 0; };
  if (std::ranges::any_of(early, is_unknown) || std::ranges::any_of(late, is_unknown)) return;
  const double change_ns =
      static_cast<double>(series.late_ns) - static_cast<double>(series.early_ns);
  const int64_t more_ns = Median(late) - Median(early);
  const double share = static_cast<double>(more_ns) / change_ns;
  if (share >= kShareOfCause) {
    series.cpu_wait_change_ns = share < 1 ? more_ns : std::llround(change_ns);
  }
}

bool ExplainsByCpuWaits(const table::Table& series) {
  const auto column = std::ranges::find(series.columns, kCpuWaitsTitle, &table::Column::title);
  if (column == series.columns.end()) return false;
  return !IsUnset(*column, series.cells[static_cast<size_t>(column - series.columns.begin())]);
}

bool IsPerStep(const History& history) {
  return std::ranges::all_of(history.points, [](const HistoryPoint& p) { return p.steps > 0; });
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

table::Table HistorySeriesOf(const History& history, HistoryMeasure measure, bool several_nodes) {
  const bool per_step = IsPerStep(history);
  std::map<SeriesKey, std::vector<TimedValue>> by_key;
  std::map<SeriesKey, std::vector<int64_t>> cpu_waits;
  std::map<SeriesKey, std::string> commands;
  for (const HistoryPoint& point : history.points) {
    if (!point.command.empty()) commands[KeyOf(point)] = point.command;
    by_key[KeyOf(point)].push_back({point.time_unix_ns, MeasuredValue(point, measure, per_step)});
    cpu_waits[KeyOf(point)].push_back(point.cpu_wait_ns);
  }
  std::vector<HistorySeries> rows;
  for (const auto& [key, values] : by_key) {
    rows.push_back(SeriesOf(key, values, history.points.front().time_unix_ns,
                            history.points.back().time_unix_ns));
    if (measure == HistoryMeasure::kStep) ExplainByCpuWaits(cpu_waits[key], rows.back());
    if (!several_nodes) rows.back().node.clear();
    if (rows.back().pid >= 0) rows.back().program = ShortCommand(commands[key]);
  }
  table::Table series = SeriesColumns().ToTable("series", rows);
  // A row is a process, or a rank, which may have had several.
  const bool by_pid = std::ranges::any_of(rows, [](const auto& row) { return row.pid >= 0; });
  if (!by_pid) series.columns[series.Find("pid")].priority = 7;
  return series;
}

std::vector<table::Column> HistorySeriesColumns() { return SeriesColumns().columns(); }

std::string RenderHistory(const History& history, const table::Table& series,
                          const HistoryQuery& query, HistoryMeasure measure, const Style& style) {
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
  std::string text = StrCat(subject, ": ", Describe(measure));
  if (IsPerPart(measure)) StrAppend(&text, IsPerStep(history) ? " per step" : " per call");
  const auto at = [](const HistoryPoint& point) {
    return FormatLocalTime(absl::FromUnixNanos(point.time_unix_ns));
  };
  StrAppend(&text, ", from ", at(history.points.front()), " to ", at(history.points.back()), "\n",
            RenderTable(series, style));
  if (ExplainsByCpuWaits(series)) {
    StrAppend(
        &text,
        "CPU waits: waits for a CPU can be at least half of the change, so the program itself "
        "may be as fast as before. Look at other processes on the node, and at its number of "
        "threads.\n");
  }
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
  static const ObjectDescription<HistoryPoint> object(report::HistoryColumns());
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
  return table::ToCsv(report::HistoryColumns().ToTable("points", history.points));
}

}  // namespace profd::cli
