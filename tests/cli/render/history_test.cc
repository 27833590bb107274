// History: how trends are shown, and what profctl asks for them.
#include "cli/client/history.h"

#include "cli/base/when.h"
#include "cli/render/history.h"
#include "daemon/base/str_cat.h"
#include "tests/cli/cli_fixture.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kNsPerMs = 1'000'000;

HistoryPoint AStep(int64_t time, int64_t median_ns, const std::string& job = "j",
                   int64_t rank = 0) {
  return {.time_unix_ns = time,
          .capture = TestId(static_cast<int>(time)),
          .node = "gpu001",
          .pid = 100 + time,
          .rank = rank,
          .job = job,
          .quality = "A",
          .steps = 3,
          .min_ns = median_ns - 1,
          .median_ns = median_ns,
          .mean_ns = median_ns,
          .max_ns = median_ns + 1};
}

std::string Shown(const History& history, const HistoryQuery& query,
                  HistoryMeasure measure = HistoryMeasure::kStep) {
  const table::Table series = HistorySeriesOf(history, measure, /*several_nodes=*/false);
  return RenderHistory(history, series, query, measure, Style());
}

TEST(SparklineTest, EachColumnIsTheMedianOfItsTime) {
  const std::vector<TimedValue> values = {{0, 10}, {10, 20}, {11, 20}, {12, 99}, {99, 80}};
  EXPECT_EQ(Sparkline(values, 0, 100, 4), "▁  █");
  EXPECT_EQ(Sparkline(values, 0, 100, 1), "▁");
  EXPECT_EQ(Sparkline({}, 0, 100, 4), "");
}

TEST(SparklineTest, NoiseStaysLow) {
  const std::vector<TimedValue> values = {{0, 1000}, {50, 1005}, {100, 1001}};
  EXPECT_EQ(Sparkline(values, 0, 100, 3), "▁▁▁");
}

TEST(SparklineTest, OneMomentIsOneColumn) {
  const std::vector<TimedValue> values = {{7, 5}};
  EXPECT_EQ(Sparkline(values, 7, 7, 3), "▁  ");
}

TEST(HistoryRenderTest, AProcessIsNamedByItsProgram) {
  HistoryPoint first = AStep(1, 5 * kNsPerMs, /*job=*/"", /*rank=*/-1);
  first.command = "/usr/bin/python3 -u /job/train.py --lr 1";
  HistoryPoint rank = AStep(2, 5 * kNsPerMs);
  rank.command = "/usr/bin/python3 other.py";
  EXPECT_THAT(
      Shown({.points = {first, rank}}, {}),
      AllOf(HasSubstr("Program"), HasSubstr("train.py --lr 1"), Not(HasSubstr("other.py"))));
  first.command.clear();
  EXPECT_THAT(Shown({.points = {first}}, {}), Not(HasSubstr("Program")));
}

TEST(HistoryRenderTest, WaitsForACpuThatCanBeHalfOfAChangeAreNamed) {
  const auto shown = [](int64_t early_ms, int64_t late_ms, int64_t early_wait_ms,
                        int64_t late_wait_ms) {
    History history;
    for (int i = 0; i < 8; ++i) {
      history.points.push_back(AStep(i, (i < 4 ? early_ms : late_ms) * kNsPerMs));
      const int64_t wait_ms = i < 4 ? early_wait_ms : late_wait_ms;
      history.points.back().cpu_wait_ns = wait_ms < 0 ? -1 : wait_ms * kNsPerMs;
    }
    return Shown(history, {});
  };
  const auto names_waits = AllOf(HasSubstr("CPU waits"), HasSubstr("at least half of the change"));
  EXPECT_THAT(shown(100, 150, 1, 41), AllOf(names_waits, HasSubstr("+40.000ms")));
  EXPECT_THAT(shown(150, 100, 50, 5), AllOf(names_waits, HasSubstr("-45.000ms")));
  EXPECT_THAT(shown(100, 150, 0, 25), names_waits) << "half of it";
  EXPECT_THAT(shown(100, 106, 0, 48), AllOf(names_waits, HasSubstr("+6.000ms"))) << "at most it";
  // Healthy controls: the waits do not explain it, do not change, or there is no change.
  EXPECT_THAT(shown(100, 150, 0, 24), Not(HasSubstr("CPU waits")));
  EXPECT_THAT(shown(100, 150, 60, 60), Not(HasSubstr("CPU waits")));
  EXPECT_THAT(shown(100, 150, 60, 10), Not(HasSubstr("CPU waits")));
  EXPECT_THAT(shown(100, 104, 0, 4), Not(HasSubstr("CPU waits")));
  EXPECT_THAT(shown(100, 100, 0, 50), Not(HasSubstr("CPU waits")));
  // Not known: nothing is said.
  EXPECT_THAT(shown(100, 150, -1, 41), Not(HasSubstr("CPU waits")));
  EXPECT_THAT(shown(100, 150, 1, -1), Not(HasSubstr("CPU waits")));
  EXPECT_THAT(shown(100, 150, -1, -1), Not(HasSubstr("CPU waits")));
}

TEST(HistoryRenderTest, WaitsForACpuThatCannotBeAreNotKnown) {
  History history;
  for (const int64_t wait_ns : {int64_t{-5}, int64_t{0}, kNsPerMs, kNsPerMs + 1, INT64_MAX}) {
    history.points.push_back(AStep(1, kNsPerMs));
    history.points.back().cpu_wait_ns = wait_ns;
  }
  const absl::StatusOr<History> sent = report::HistoryOf(report::ToReport(history));
  ASSERT_THAT(sent, IsOk());
  std::vector<int64_t> waits;
  for (const HistoryPoint& point : sent->points) waits.push_back(point.cpu_wait_ns);
  EXPECT_THAT(waits, ElementsAre(-1, 0, kNsPerMs, -1, -1));
}

TEST(HistoryRenderTest, ARankIsOneRowAlsoWhenItsProcessWasStartedAgain) {
  History history;
  for (int i = 0; i < 8; ++i) history.points.push_back(AStep(i, (i < 4 ? 100 : 150) * kNsPerMs));
  const std::string text = Shown(history, {});
  EXPECT_THAT(text, HasSubstr("Step time: median step, from "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_THAT(text, HasSubstr("+50.0%"));
  EXPECT_THAT(text, HasSubstr("150.000ms"));

  // Without a rank a process is a row.
  for (HistoryPoint& point : history.points) point.rank = -1;
  const std::string by_pid = Shown(history, {});
  EXPECT_EQ(std::count(by_pid.begin(), by_pid.end(), '\n'), 11);
}

TEST(HistoryRenderTest, AnOperatorIsShownPerStepOrWhereThereIsNonePerCall) {
  HistoryPoint point = AStep(1, 0);
  point.median_ns = 0;
  point.mean_ns = 3 * kNsPerMs;
  point.calls = 6;
  point.self_cpu_ns = 12 * kNsPerMs;
  point.self_device_ns = 30 * kNsPerMs;
  const HistoryQuery query = {.operator_name = "aten::mm"};
  History history = {.points = {point}, .left_out_count = 5, .without_operator_count = 2};
  const std::string per_step = Shown(history, query, HistoryMeasure::kSelfDevice);
  EXPECT_THAT(per_step, HasSubstr("'aten::mm': self time on GPUs per step"));
  EXPECT_THAT(per_step, HasSubstr("10.000ms"));
  EXPECT_THAT(per_step, HasSubstr("5 older windows are left out"));
  EXPECT_THAT(per_step, HasSubstr("2 captures more do not have it"));
  history.points[0].steps = 0;
  const std::string per_call = Shown(history, query, HistoryMeasure::kSelfCpu);
  EXPECT_THAT(per_call, HasSubstr("per call"));
  EXPECT_THAT(per_call, HasSubstr("2.000ms"));
}

TEST(HistoryRenderTest, NothingFoundSaysWhatToDo) {
  EXPECT_THAT(Shown({}, {}), HasSubstr("No window that you may read"));
  EXPECT_THAT(
      Shown({.without_operator_count = 3}, {.operator_name = "x\n"}, HistoryMeasure::kSelfCpu),
      HasSubstr("'x?' is not among the largest operators of the 3 captures"));
}

TEST(HistoryRenderTest, SeveralDaemonsPointsAreInTheOrderOfTime) {
  const History all = Merged({{.points = {AStep(3, 1), AStep(5, 1)}, .left_out_count = 1},
                              {.points = {AStep(1, 1), AStep(4, 1)}, .left_out_count = 2}});
  std::vector<int64_t> times;
  for (const HistoryPoint& point : all.points) times.push_back(point.time_unix_ns);
  EXPECT_THAT(times, ElementsAre(1, 3, 4, 5));
  EXPECT_EQ(all.left_out_count, 3);
}

TEST(HistoryRenderTest, CsvQuotesWhatHasToBe) {
  History history;
  history.points.push_back(AStep(1'790'000'000'000'000'000, 5 * kNsPerMs, "a,\"b\"\n", 2));
  const std::string csv = HistoryCsv(history);
  EXPECT_THAT(csv, HasSubstr(",2,\"a,\"\"b\"\"\n\",,1,A,3,"));
  EXPECT_THAT(csv, HasSubstr("2026-09-21T14:13:20+00:00,1790000000000000000,gpu001,"));
}

TEST(HistoryRenderTest, ARowHasNoNumberForWhatIsNotKnown) {
  History history;
  history.points.push_back(AStep(1, 5 * kNsPerMs, "", -1));
  const table::Table series = HistorySeriesOf(history, HistoryMeasure::kStep, true);
  ASSERT_EQ(series.size(), 1U);
  const std::string text = RenderHistory(history, series, {}, HistoryMeasure::kStep, Style());
  EXPECT_THAT(text, HasSubstr("\ngpu001  -       -  101  "));
  EXPECT_THAT(text, HasSubstr("5.000ms       -  ▁")) << "one window has no change";
}

class HistoryCommandTest : public CliTest {
 protected:
  HistoryCommandTest() {
    profd_.history.points = {{.time_unix_ns = 1'790'000'000'000'000'000,
                              .capture = TestId(1),
                              .node = "gpu001",
                              .pid = 4711,
                              .rank = 3,
                              .job = "88123",
                              .schedule = TestId(9),
                              .sampling_weight = 20,
                              .steps = 3,
                              .median_ns = 125 * kNsPerMs,
                              .self_cpu_ns = 9}};
  }
};

TEST_F(HistoryCommandTest, JsonHasThePointsAsTheyAre) {
  const nlohmann::json json =
      RunJson({"history", "--step-time", "--pid", "4711", "--schedule", "01J", "--limit", "7",
               "--since", "2026-01-02T03:04:05.5Z", "--until", "1h"});
  EXPECT_EQ(json["step_time"], true);
  ASSERT_EQ(json["points"].size(), 1U);
  const nlohmann::json& point = json["points"][0];
  EXPECT_EQ(point["time_unix_ns"], 1'790'000'000'000'000'000);
  EXPECT_EQ(point["capture"], TestId(1));
  EXPECT_EQ(point["schedule"], TestId(9));
  EXPECT_EQ(point["median_ns"], 125 * kNsPerMs);
  EXPECT_FALSE(json.contains("nodes"));

  const auto calls = profd_.history_calls();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_TRUE(calls[0].step_time());
  EXPECT_EQ(calls[0].pid(), 4711);
  EXPECT_EQ(calls[0].limit(), 7);
  EXPECT_EQ(calls[0].schedule(), "schedules/01J");
  EXPECT_EQ(calls[0].since().seconds(), 1'767'323'045);
  EXPECT_EQ(calls[0].since().nanos(), 500'000'000);
  EXPECT_TRUE(calls[0].has_until());
}

TEST_F(HistoryCommandTest, OfManyNodesEachThatFailedIsNamed) {
  const std::string gone = Path("gone.sock");
  const nlohmann::json json =
      RunJson({"history", "--op", "op", "--nodes", StrCat(profd_.address().substr(5), ",", gone)},
              /*exit_code=*/4);
  EXPECT_EQ(json["operator"], "op");
  EXPECT_EQ(json["points"].size(), 1U);
  EXPECT_EQ(json["points"][0]["self_cpu_ns"], 9);
  ASSERT_EQ(json["nodes"].size(), 2U);
  EXPECT_EQ(json["nodes"][0]["ok"], true);
  EXPECT_EQ(json["nodes"][1]["ok"], false);
}

TEST_F(HistoryCommandTest, RowsAreSortedByAnyColumnOfWhatIsPrinted) {
  HistoryPoint other = profd_.history.points[0];
  other.job = "99999";
  other.median_ns = 250 * kNsPerMs;
  profd_.history.points.push_back(other);
  const auto first_row = [this](const std::string& key) {
    const std::string text = Run({"history", "--step-time", "--sort", key}).out;
    return text.find("99999") < text.find("88123") ? "99999" : "88123";
  };
  EXPECT_EQ(first_row("median"), "99999");
  EXPECT_EQ(first_row("job"), "88123");
  EXPECT_EQ(RunJson({"history", "--step-time", "--sort", "median"})["points"][0]["job"], "99999");
  EXPECT_EQ(RunJson({"history", "--step-time", "--sort", "job"})["points"][0]["job"], "88123");
  EXPECT_THAT(Run({"history", "--step-time", "--sort", "median", "--csv"}).out,
              ::testing::ContainsRegex("99999(.|\n)*88123"));
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--step-time", "--sort", "sampling_weight"},
                                             {"--step-time", "--sort", "trend", "--csv"},
                                             {"--stragglers", "--sort", "job"}}) {
    std::vector<std::string> arguments = {"history"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(Run(arguments).exit_code, 2) << wrong.back();
  }
}

TEST_F(HistoryCommandTest, AnOperatorThatNoCaptureHasIsAFailure) {
  profd_.history = {.without_operator_count = 2};
  const RunResult result = Run({"history", "--op", "nosuch"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              HasSubstr("'nosuch' is not among the largest operators of the 2 captures"));
  EXPECT_EQ(RunJson({"history", "--op", "nosuch"}, /*exit_code=*/1)["without_operator"], 2);
}

TEST_F(HistoryCommandTest, WrongUsageIsNamed) {
  const auto wrong = [this](std::vector<std::string> arguments, std::string_view what) {
    arguments.insert(arguments.begin(), "history");
    const RunResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(std::string(what)));
    EXPECT_EQ(result.out, "");
  };
  wrong({}, "--step-time, --op NAME, or --stragglers");
  wrong({"--step-time", "--op", "x"}, "--step-time, --op NAME, or --stragglers");
  wrong({"--step-time", "--measure", "call"}, "--measure");
  wrong({"--op", "x", "--measure", "step"}, "measure");
  wrong({"--step-time", "--since", "yesterday"}, "--since");
  wrong({"--step-time", "--csv", "--json"}, "--csv");
  EXPECT_TRUE(profd_.history_calls().empty());
}

TEST(WhenTest, AnAgeOrATime) {
  const absl::Time now = absl::FromUnixSeconds(1'000'000);
  EXPECT_THAT(ParseWhen("since", "2h", now), IsOkAndHolds(now - absl::Hours(2)));
  EXPECT_THAT(ParseWhen("since", "1970-01-01T00:00:09Z", now),
              IsOkAndHolds(absl::FromUnixSeconds(9)));
  const absl::TimeZone here = absl::LocalTimeZone();
  const absl::Time day = absl::FromCivil(absl::CivilDay(2026, 11, 20), here);
  EXPECT_THAT(ParseWhen("since", "2026-11-20", now), IsOkAndHolds(day));
  const absl::Time morning = absl::FromCivil(absl::CivilSecond(2026, 11, 20, 10, 30), here);
  EXPECT_THAT(ParseWhen("since", "2026-11-20 10:30", now), IsOkAndHolds(morning));
  EXPECT_THAT(ParseWhen("until", "soon", now),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--until 'soon'")));
}

}  // namespace
}  // namespace profd::cli
