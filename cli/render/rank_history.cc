#include "cli/render/rank_history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/base/object.h"
#include "cli/base/units.h"
#include "cli/render/history.h"
#include "cli/render/rank_rows.h"
#include "cli/render/report_tables.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

constexpr int kTrendColumns = 20;
constexpr size_t kMostNamedCaptures = 3;
constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();

int64_t ComparedCount(const RankWindow& window) {
  return std::ranges::count(window.members, std::string(), &RankOfWindow::missing);
}

// Why there is no verdict, as a word and as a clause; empty: there is one.
std::string ReasonOf(const RankWindow& window) {
  if (ComparedCount(window) == 0) return "no_summary";
  return std::string(ToString(window.steps.reason));
}
std::string ReasonTextOf(const RankWindow& window) {
  if (ComparedCount(window) == 0) return "no rank has a summary";
  return std::string(report::TextOf(window.steps.reason));
}

// One rank on one node over all windows.
struct RankSeries {
  std::string job;
  int64_t rank = -1;
  std::string node;
  int64_t pid = 0;  // 0: of a rank, which outlives its processes.
  int64_t window_count = 0;
  int64_t verdict_count = 0;
  int64_t slow_count = 0;
  int64_t slow_by_cpu_waits_count = 0;
  int64_t withheld_count = 0;
  int64_t not_compared_count = 0;
  // Of windows with a verdict.
  int64_t caused_wait_ns = -1;
  int64_t more_own_ns = table::Column::kUnknown;
  double score = kNoScore;
  double early_score = kNoScore;
  double late_score = kNoScore;
  std::string trend;
};

std::string ScoreText(double score) {
  return std::isnan(score) ? std::string() : absl::StrFormat("%.1f", score);
}

const ObjectDescription<RankSeries>& RankSeriesObject() {
  using Row = RankSeries;
  static const ObjectDescription<Row> object(
      {{&Row::job, {.key = "job", .title = "Job", .doc = "Job of the rank", .flexible = true}},
       {&Row::rank,
        {.key = "rank",
         .doc = "Rank, from the program's metadata; -1: not known",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.rank < 0 ? std::string() : StrCat(row.rank); },
        {.title = "Rank", .doc = "Rank of the process in its job", .right = true}},
       {&Row::node, {.key = "node", .title = "Node", .doc = "Node that the rank ran on"}},
       {&Row::pid,
        {.key = "pid",
         .title = "PID",
         .doc = "Process ID; 0: a rank, which may have had several processes",
         .only_if_set = true}},
       {&Row::window_count,
        {.key = "window_count",
         .title = "Windows",
         .doc = "Windows in which the rank was captured",
         .unit = table::Unit::kCount,
         .priority = 4}},
       {&Row::verdict_count,
        {.key = "verdict_count",
         .title = "Verdicts",
         .doc = "Windows in which the ranks could be judged",
         .unit = table::Unit::kCount}},
       {&Row::slow_count,
        {.key = "slow_count",
         .title = "Slow",
         .doc = "Windows in which the rank was a straggler or, of two ranks, the one that the "
                "other waits for",
         .unit = table::Unit::kCount}},
       {&Row::slow_by_cpu_waits_count,
        {.key = "slow_by_cpu_waits_count",
         .title = "By CPU waits",
         .doc = "Of the windows in which the rank was slow, those in which longer waits for a CPU "
                "can be at least half of its additional own work",
         .unit = table::Unit::kCount,
         .priority = 2,
         .only_if_set = true}},
       {&Row::withheld_count,
        {.key = "withheld_count",
         .title = "Withheld",
         .doc = "Windows in which the data did not support a verdict",
         .unit = table::Unit::kCount,
         .priority = 5}},
       {&Row::not_compared_count,
        {.key = "not_compared_count",
         .title = "Not compared",
         .doc = "Windows in which no summary of the rank is kept",
         .unit = table::Unit::kCount,
         .priority = 6,
         .only_if_set = true}},
       {&Row::caused_wait_ns,
        {.key = "caused_wait_ns",
         .title = "Caused",
         .doc = "How long the other ranks together waited for the rank, per step: median over the "
                "windows with a verdict",
         .unit = table::Unit::kNs,
         .priority = 3,
         .nullable = true}},
       {&Row::more_own_ns,
        {.key = "more_own_ns",
         .doc = "Own work beyond that of the other ranks, per step: median over the windows with a "
                "verdict",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData,
         .nullable = true,
         .may_be_negative = true}},
       {&Row::score,
        {.key = "score",
         .doc = "Score, as `profctl stragglers` has it: median over the windows with a verdict; "
                "null: none has 3 ranks",
         .priority = kOnlyInData,
         .nullable = true,
         .may_be_negative = true}},
       {[](const Row& row) { return ScoreText(row.score); },
        {.title = "Score",
         .doc = "Score, as `profctl stragglers` has it: median over the windows with a verdict",
         .right = true}},
       {&Row::early_score,
        {.key = "early_score",
         .doc = "Median score of the first quarter of those windows",
         .priority = kOnlyInData,
         .nullable = true,
         .may_be_negative = true}},
       {[](const Row& row) { return ScoreText(row.early_score); },
        {.title = "Early",
         .doc = "Median score of the first quarter of those windows",
         .priority = 2,
         .right = true}},
       {&Row::late_score,
        {.key = "late_score",
         .doc = "Median score of the last quarter of those windows",
         .priority = kOnlyInData,
         .nullable = true,
         .may_be_negative = true}},
       {[](const Row& row) { return ScoreText(row.late_score); },
        {.title = "Late",
         .doc = "Median score of the last quarter of those windows",
         .priority = 1,
         .right = true}},
       {&Row::trend,
        {.title = "Trend", .doc = "Score over time, oldest left", .unknown_text = ""}}});
  return object;
}

// The values of one series, before they are summed up.
struct SeriesValues {
  RankSeries series;
  std::vector<int64_t> caused_ns;
  std::vector<int64_t> more_own_ns;
  std::vector<TimedValue> scores;
};

void SumUpSeries(SeriesValues& values, int64_t begin, int64_t end) {
  RankSeries& series = values.series;
  if (!values.caused_ns.empty()) series.caused_wait_ns = Median(values.caused_ns);
  if (!values.more_own_ns.empty()) series.more_own_ns = Median(values.more_own_ns);
  if (values.scores.empty()) return;
  std::vector<double> all;
  all.reserve(values.scores.size());
  for (const TimedValue& score : values.scores) all.push_back(score.value);
  // A quarter at each end: one odd window is then no trend.
  const auto quarter = static_cast<std::ptrdiff_t>(std::max<size_t>(1, all.size() / 4));
  series.early_score = Median(std::vector(all.begin(), all.begin() + quarter));
  series.late_score = Median(std::vector(all.end() - quarter, all.end()));
  series.score = Median(all);
  series.trend = Sparkline(values.scores, begin, end, kTrendColumns);
}

void AddRankWindow(const RankWindow& window, size_t member, SeriesValues& values) {
  RankSeries& series = values.series;
  ++series.window_count;
  if (!window.members[member].missing.empty()) {
    ++series.not_compared_count;
    return;
  }
  const auto rank = std::ranges::find(window.steps.ranking, member, &report::RankScore::member);
  if (!window.has_verdict() || rank == window.steps.ranking.end()) {
    ++series.withheld_count;
    return;
  }
  ++series.verdict_count;
  if (window.IsSlow(*rank)) {
    ++series.slow_count;
    if (rank->slow_by_cpu_waits == report::CpuWaitCause::kPossible) {
      ++series.slow_by_cpu_waits_count;
    }
  }
  values.caused_ns.push_back(rank->caused_wait_ns);
  values.more_own_ns.push_back(rank->more_own_ns);
  if (window.steps.enough_ranks) values.scores.push_back({window.time_unix_ns, rank->score});
}

// By job; those that were slow most often first.
std::vector<RankSeries> RankSeriesOf(const RankHistory& history) {
  using Key = std::tuple<std::string, int64_t, std::string, int64_t>;
  std::map<Key, SeriesValues> by_key;
  for (const RankWindow& window : history.windows) {
    for (size_t i = 0; i < window.members.size(); ++i) {
      const RankOfWindow& member = window.members[i];
      const int64_t pid = member.rank >= 0 && !window.job.empty() ? 0 : member.pid;
      SeriesValues& values = by_key[{window.job, member.rank, member.node, pid}];
      values.series.job = window.job;
      values.series.rank = member.rank;
      values.series.node = member.node;
      values.series.pid = pid;
      AddRankWindow(window, i, values);
    }
  }
  std::vector<RankSeries> all;
  all.reserve(by_key.size());
  for (auto& [key, values] : by_key) {
    SumUpSeries(values, history.windows.front().time_unix_ns, history.windows.back().time_unix_ns);
    all.push_back(std::move(values.series));
  }
  std::ranges::stable_sort(all, [](const RankSeries& a, const RankSeries& b) {
    return std::tie(a.job, b.slow_count) < std::tie(b.job, a.slow_count);
  });
  return all;
}

std::string Rfc3339Of(int64_t unix_ns) {
  return absl::FormatTime(absl::RFC3339_full, absl::FromUnixNanos(unix_ns), absl::UTCTimeZone());
}

std::vector<RankRow> RankRowsOfWindow(const RankWindow& window) {
  std::vector<RankRow> rows;
  rows.reserve(window.steps.ranking.size());
  for (const report::RankScore& rank : window.steps.ranking) {
    RankRow row = RankRowOf(window.steps, rank);
    const RankOfWindow& member = window.members[rank.member];
    row.capture = member.capture;
    row.node = member.node;
    row.pid = member.pid;
    row.rank = member.rank;
    row.is_slow = window.IsSlow(rank);
    row.group = window.group;
    row.job = window.job;
    row.time_unix_ns = window.time_unix_ns;
    row.verdict = window.steps.verdict;
    row.reason = window.steps.reason;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Of a rank in a window.
std::vector<table::Field<RankRow>> RankFields() {
  std::vector<table::Field<RankRow>> fields = {
      {&RankRow::capture, {.key = "capture", .doc = "The capture's ID"}}};
  std::ranges::move(ComparedRankFields(), std::back_inserter(fields));
  fields.push_back({&RankRow::is_slow,
                    {.key = "slow",
                     .doc = "Whether the rank is a straggler or, of two ranks, the one that the "
                            "other waits for"}});
  return fields;
}

const ObjectDescription<RankRow>& RankObject() {
  static const ObjectDescription<RankRow> object{table::Description<RankRow>(RankFields())};
  return object;
}

const table::Description<RankRow>& RankCsvColumns() {
  static const table::Description<RankRow> columns = [] {
    std::vector<table::Field<RankRow>> fields = {
        {[](const RankRow& row) { return Rfc3339Of(row.time_unix_ns); },
         {.key = "time", .doc = "Start of the window"}},
        {&RankRow::time_unix_ns, {.key = "time_unix_ns", .doc = "Start of the window"}},
        {&RankRow::group, {.key = "group", .doc = "Group of the window"}},
        {&RankRow::job, {.key = "job", .doc = "Job of the ranks"}},
        {&RankRow::verdict, {.key = "verdict", .doc = "Verdict of the window"}},
        {&RankRow::reason, {.key = "reason", .doc = "Why it is withheld"}}};
    std::ranges::move(RankFields(), std::back_inserter(fields));
    return table::Description<RankRow>(fields);
  }();
  return columns;
}

const ObjectDescription<RankOfWindow>& NotComparedRankObject() {
  using Row = RankOfWindow;
  static const ObjectDescription<Row> object(
      {{&Row::capture, {.key = "capture", .doc = "The capture's ID"}},
       {&Row::node, {.key = "node", .doc = "Node of the rank"}},
       {&Row::pid, {.key = "pid", .doc = "Process ID of the rank"}},
       {&Row::rank, {.key = "rank", .doc = "Rank; -1: not known"}},
       {&Row::missing, {.key = "reason", .doc = "Why the rank is not compared"}}});
  return object;
}

std::vector<RankOfWindow> NotComparedOf(const RankWindow& window) {
  std::vector<RankOfWindow> missing;
  std::ranges::copy_if(window.members, std::back_inserter(missing),
                       [](const RankOfWindow& member) { return !member.missing.empty(); });
  return missing;
}

const ObjectDescription<RankWindow>& RankWindowObject() {
  using Row = RankWindow;
  using table::Path;
  static const ObjectDescription<Row> object(
      {{&Row::group, {.key = "group", .doc = "Group of the captures, for `profctl stragglers`"}},
       {[](const Row& row) { return Rfc3339Of(row.time_unix_ns); },
        {.key = "time", .doc = "Start of the window, in UTC (RFC 3339)"}},
       {&Row::time_unix_ns,
        {.key = "time_unix_ns",
         .doc = "Start of the window, since 1970-01-01 UTC",
         .unit = table::Unit::kNs}},
       {&Row::job, {.key = "job", .doc = "Job of the ranks"}},
       {&Row::schedule, {.key = "schedule", .doc = "Schedule that made the captures; empty: none"}},
       {Path<&Row::steps, &report::GroupSteps::verdict>(),
        {.key = "verdict", .doc = "straggler, pair, none (no rank is one), or withheld"}},
       {&ReasonOf,
        {.key = "reason", .doc = "Why the verdict is withheld, as a word; empty: it is not"}},
       {&ReasonTextOf, {.key = "reason_text", .doc = "The same as a clause"}},
       {Path<&Row::steps, &report::GroupSteps::cpu_waits_can_explain>(),
        {.key = "cpu_waits_can_explain",
         .doc = "Whether waits for a CPU can be at least half of a straggler's additional own work "
                "or, where no rank is one, of how ranks differ"}},
       {&ComparedCount,
        {.key = "compared_count", .doc = "Ranks that were compared", .unit = table::Unit::kCount}},
       {[](const Row& row) { return std::ssize(row.steps.common_steps); },
        {.key = "common_step_count",
         .doc = "Steps that all of them have, which were compared",
         .unit = table::Unit::kCount}},
       {Path<&Row::steps, &report::GroupSteps::matched_count>(),
        {.key = "matched_count",
         .doc = "Collectives of one rank that were found in another",
         .unit = table::Unit::kCount}},
       {&Row::rejected_count,
        {.key = "rejected_count",
         .doc = "Matched collectives whose times contradict each other",
         .unit = table::Unit::kCount}},
       {&Row::left_out_step_count,
        {.key = "left_out_step_count",
         .doc = "Later steps of a rank that exceed the limit of a summary",
         .unit = table::Unit::kCount}}},
      {ListOf<Row>("ranks", "Ranks that were compared, stragglers first", &RankObject,
                   &RankRowsOfWindow),
       ListOf<Row>("not_compared", "Captures of the group without a summary",
                   &NotComparedRankObject, &NotComparedOf),
       IntsOf<Row>(
           "absent_ranks", "Ranks of the job without a capture in the answers",
           [](const Row& row) -> const auto& { return row.absent_ranks; })});
  return object;
}

struct RankHistoryAnswer {
  const RankHistory& history;
  const std::vector<RankSeries>& series;
  const std::vector<NodeOutcome>* outcomes;
};

int64_t VerdictCountOf(const RankHistory& history) {
  return std::ranges::count_if(history.windows,
                               [](const RankWindow& window) { return window.has_verdict(); });
}

const ObjectDescription<RankHistoryAnswer>& RankHistoryObject() {
  using Row = RankHistoryAnswer;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return std::ssize(row.history.windows); },
        {.key = "window_count", .doc = "Windows of jobs", .unit = table::Unit::kCount}},
       {[](const Row& row) { return VerdictCountOf(row.history); },
        {.key = "verdict_count",
         .doc = "Windows in which the ranks could be judged",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return row.history.left_out_count; },
        {.key = "left_out",
         .doc = "Older windows that were read and left out",
         .unit = table::Unit::kCount}},
       {[](const Row& row) { return row.history.has_more; },
        {.key = "has_more", .doc = "Whether a daemon has older captures that were not read"}},
       {[](const Row& /*row*/) { return report::kStragglerScore; },
        {.key = "threshold", .doc = "Score above which a rank may be a straggler"}}},
      {ListOf<Row>(
           "ranks", "Ranks over all windows: by job, those that were slow most often first",
           &RankSeriesObject, [](const Row& row) -> const auto& { return row.series; }),
       ListOf<Row>(
           "windows", "Windows, oldest first", &RankWindowObject,
           [](const Row& row) -> const auto& { return row.history.windows; }),
       NodeOutcomesMember<Row>()});
  return object;
}

// "3 within noise ..."
std::string RenderWithheld(const RankHistory& history) {
  std::map<std::string, int64_t> counts;
  for (const RankWindow& window : history.windows) {
    if (!window.has_verdict()) ++counts[ReasonTextOf(window)];
  }
  std::string text;
  for (const auto& [reason, count] : counts) {
    StrAppend(&text, "Verdict withheld in ", FormatCountOf(count, "window", "windows"), ": ",
              reason, ".\n");
  }
  return text;
}

// Captures that are in no comparison, by reason.
std::string RenderNotCompared(const RankHistory& history) {
  std::map<std::string, std::vector<std::string>> captures;
  for (const RankWindow& window : history.windows) {
    for (const RankOfWindow& member : window.members) {
      if (!member.missing.empty()) captures[member.missing].push_back(member.capture);
    }
  }
  std::string text;
  for (const auto& [reason, ids] : captures) {
    StrAppend(&text, "Not compared: ");
    for (size_t i = 0; i < std::min(ids.size(), kMostNamedCaptures); ++i) {
      StrAppend(&text, i == 0 ? "" : ", ", ids[i]);
    }
    if (ids.size() > kMostNamedCaptures) {
      StrAppend(&text, " and ", ids.size() - kMostNamedCaptures, " more");
    }
    StrAppend(&text, ": ", ForDisplay(reason, 500), "\n");
  }
  return text;
}

std::string RenderIncomplete(const RankHistory& history) {
  int64_t absent = 0;
  int64_t shortened = 0;
  for (const RankWindow& window : history.windows) {
    absent += window.absent_ranks.empty() ? 0 : 1;
    shortened += window.left_out_step_count > 0 ? 1 : 0;
  }
  std::string text;
  if (absent > 0) {
    StrAppend(&text, "In ", FormatCountOf(absent, "window", "windows"),
              ", ranks of the job have no capture on the nodes that answered.\n");
  }
  if (shortened > 0) {
    StrAppend(&text, "In ", FormatCountOf(shortened, "window", "windows"),
              ", only the first steps of a rank fit its summary; later steps are not compared.\n");
  }
  if (history.left_out_count > 0 || history.has_more) {
    StrAppend(&text,
              "Older windows are left out; a shorter time (--since), a job, or a larger "
              "--limit shows more of them.\n");
  }
  return text;
}

}  // namespace

std::string RenderRankHistory(const RankHistory& history, const Style& style) {
  if (history.windows.empty()) {
    const bool has_some = history.left_out_count > 0 || history.has_more;
    return StrCat(has_some ? "No window of that time is whole in what the daemons sent.\n"
                           : "No window of a group that you may read is kept of that time.\n",
                  RenderIncomplete(history));
  }
  const auto count = std::ssize(history.windows);
  const int64_t verdicts = VerdictCountOf(history);
  const table::Table rows = RankSeriesObject().columns().ToTable("ranks", RankSeriesOf(history));
  return StrCat("Stragglers: ", FormatCountOf(count, "window", "windows"), ", ",
                FormatCount(verdicts), " with a verdict, from ",
                FormatLocalTime(absl::FromUnixNanos(history.windows.front().time_unix_ns)), " to ",
                FormatLocalTime(absl::FromUnixNanos(history.windows.back().time_unix_ns)), "\n",
                RenderTable(rows, style), RenderWithheld(history), RenderNotCompared(history),
                RenderIncomplete(history));
}

void WriteRankHistoryJson(const RankHistory& history, const std::vector<NodeOutcome>* nodes,
                          JsonWriter& json) {
  const std::vector<RankSeries> series = RankSeriesOf(history);
  RankHistoryObject().Write({history, series, nodes}, json);
}
void WriteRankHistorySchema(JsonWriter& json) { RankHistoryObject().WriteSchema(json); }
std::vector<table::Column> RankHistoryColumns() { return RankSeriesObject().columns().columns(); }

std::string RankHistoryCsv(const RankHistory& history) {
  std::string text = table::CsvHeader(RankCsvColumns().columns());
  for (const RankWindow& window : history.windows) {
    text += table::CsvRows(RankCsvColumns().ToTable("ranks", RankRowsOfWindow(window)));
  }
  return text;
}

}  // namespace profd::cli
