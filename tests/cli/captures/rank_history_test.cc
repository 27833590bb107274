// The ranks of jobs over many windows: joined over nodes, judged, and shown.
#include "cli/captures/rank_history.h"

#include "cli/render/rank_history.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/ranks/collectives.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStartUnixNs = 1'790'000'000'000'000'000;

// Five steps with an all-reduce each, at which this rank waits for `wait_ns`.
report::CollectiveTable WaitingFor(int64_t wait_ns) {
  report::CollectiveTable table = {.communicators = {{.size = 4}}};
  for (int64_t step = 0; step < 5; ++step) {
    table.rows.push_back({.start_ns = step * 20 * kMs + 19 * kMs - wait_ns,
                          .duration_ns = wait_ns + kMs,
                          .exposed_ns = wait_ns + kMs,
                          .sequence = step,
                          .step = step,
                          .kind = report::CollectiveKind::kAllReduce});
    table.steps.push_back({.step = step, .duration_ns = 20 * kMs, .exposed_ns = wait_ns + kMs});
  }
  return table;
}

// Rank `rank` in window `window`, which begins an hour after the one before; -1: no summary.
RankSummaryView ARankOf(int window, int64_t rank, int64_t wait_ns) {
  RankSummaryView summary;
  CaptureRecord& record = summary.view.record;
  record.id = TestId(100 * window + static_cast<int>(rank));
  record.group_id = TestId(9'000 + window);
  record.node = StrCat("gpu", rank);
  record.target.pid = 100 + rank;
  record.target.metadata = {{"rank", StrCat(rank)}, {"job", "88123"}};
  record.start_unix_ns = kStartUnixNs + window * 3'600'000 * kMs;
  record.create_time = absl::FromUnixNanos(record.start_unix_ns);
  record.windows = {{.start_ns = 0, .end_ns = 100 * kMs}};
  if (wait_ns >= 0) summary.collectives = report::ToReport(WaitingFor(wait_ns));
  return summary;
}

// Four ranks on nodes of their own; `slow` works longest, -1: none.
std::vector<RankSummaries> NodesOf(const std::vector<int>& slow_by_window) {
  std::vector<RankSummaries> nodes(4);
  for (int window = static_cast<int>(slow_by_window.size()) - 1; window >= 0; --window) {
    for (int rank = 0; rank < 4; ++rank) {
      const bool waits = slow_by_window[window] >= 0 && slow_by_window[window] != rank;
      nodes[rank].captures.push_back(ARankOf(window, rank, waits ? 8 * kMs : 0));
    }
  }
  return nodes;
}

TEST(RankHistoryTest, TheRanksOfAllNodesAreJudgedWindowByWindow) {
  const RankHistory history = JoinRankHistory(NodesOf({-1, 2, 2, 1}), 0);
  ASSERT_THAT(history.windows, SizeIs(4));
  EXPECT_FALSE(history.has_more);
  for (size_t i = 0; i < 4; ++i) {
    const RankWindow& window = history.windows[i];
    EXPECT_EQ(window.group, TestId(9'000 + static_cast<int>(i)));
    EXPECT_EQ(window.job, "88123");
    EXPECT_THAT(window.members, SizeIs(4));
    EXPECT_EQ(window.steps.matched_count, 5);
    EXPECT_TRUE(window.has_verdict());
  }
  EXPECT_EQ(history.windows[0].steps.verdict, report::StragglerVerdict::kNone);
  EXPECT_EQ(history.windows[1].steps.ranking[0].member, 2U);
  EXPECT_TRUE(history.windows[1].IsSlow(history.windows[1].steps.ranking[0]));
  EXPECT_EQ(history.windows[3].steps.ranking[0].member, 1U);

  const std::string text = RenderRankHistory(history, Style());
  EXPECT_THAT(text, HasSubstr("Stragglers: 4 windows, 4 with a verdict, from "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << text;
  EXPECT_LT(text.find("gpu2"), text.find("gpu1")) << "the rank that was slow most often is first";
  const std::string csv = RankHistoryCsv(history);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 4 * 4);
  EXPECT_THAT(csv, HasSubstr("time,time_unix_ns,group,job,verdict,reason,capture,rank,node,pid"));
}

TEST(RankHistoryTest, WindowsInWhichASlowRankWaitedForACpuAreCounted) {
  const auto shown = [](int64_t cpu_wait_ns) {
    std::vector<RankSummaries> nodes = NodesOf({2, 2});
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      report::CollectiveTable table = WaitingFor(rank == 2 ? 0 : 8 * kMs);
      for (report::StepWorkRow& step : table.steps) step.cpu_wait_ns = rank == 2 ? cpu_wait_ns : 0;
      nodes[rank].captures.front().collectives = report::ToReport(table);
    }
    const RankHistory history = JoinRankHistory(std::move(nodes), 0);
    JsonWriter json;
    WriteRankHistoryJson(history, nullptr, json);
    return StrCat(RenderRankHistory(history, Style()), json.TakeLine(), RankHistoryCsv(history));
  };
  EXPECT_THAT(
      shown(7 * kMs),
      AllOf(HasSubstr("By CPU waits"), HasSubstr("\"slow_by_cpu_waits_count\":1"),
            HasSubstr("\"slow_by_cpu_waits\":\"possible\""), HasSubstr(",7000000,possible,")));
  EXPECT_THAT(shown(3 * kMs),
              AllOf(Not(HasSubstr("By CPU waits")), HasSubstr("\"slow_by_cpu_waits\":\"no\"")));
  // Not known in the other window.
  EXPECT_THAT(shown(0), AllOf(HasSubstr("\"cpu_wait_ns\":null"),
                              HasSubstr("\"slow_by_cpu_waits\":\"unknown\"")));
}

TEST(RankHistoryTest, OfTwoRanksTheOneThatTheOtherWaitsForIsSlow) {
  std::vector<RankSummaries> nodes = NodesOf({1});
  nodes.resize(2);
  const RankHistory history = JoinRankHistory(std::move(nodes), 0);
  ASSERT_THAT(history.windows, SizeIs(1));
  const RankWindow& window = history.windows[0];
  EXPECT_EQ(window.steps.verdict, report::StragglerVerdict::kPair);
  EXPECT_TRUE(window.IsSlow(window.steps.ranking[0]));
  EXPECT_EQ(window.steps.ranking[0].member, 1U);
  EXPECT_FALSE(window.IsSlow(window.steps.ranking[1]));
}

TEST(RankHistoryTest, ACaptureWithoutASummaryIsNamedAndNotGuessed) {
  std::vector<RankSummaries> nodes = NodesOf({2, 2});
  for (RankSummaries& node : nodes) node.captures.back().collectives.reset();  // All of window 0.
  nodes[3].captures.front().collectives.reset();                               // One of window 1.
  nodes[3].captures.front().view.record.error_message = "left out: a summary";
  const RankHistory history = JoinRankHistory(std::move(nodes), 0);
  ASSERT_THAT(history.windows, SizeIs(2));
  EXPECT_FALSE(history.windows[0].has_verdict());
  EXPECT_THAT(history.windows[0].steps.ranking, IsEmpty());
  EXPECT_THAT(history.windows[1].members[3].missing, HasSubstr("left out: a summary"));
  EXPECT_THAT(history.windows[1].steps.ranking, SizeIs(3));
  EXPECT_EQ(history.windows[1].steps.verdict, report::StragglerVerdict::kStraggler);

  const std::string text = RenderRankHistory(history, Style());
  EXPECT_THAT(text, HasSubstr("2 windows, 1 with a verdict"));
  EXPECT_THAT(text, HasSubstr("Verdict withheld in 1 window: no rank has a summary."));
  EXPECT_THAT(text, HasSubstr(StrCat("Not compared: ", TestId(0), ", ", TestId(1), ", ", TestId(2),
                                     " and 1 more: no summary for comparing ranks")));
  EXPECT_THAT(text, HasSubstr("Not compared"));
}

TEST(RankHistoryTest, StepsThatRanksDoNotShareAreTooFew) {
  std::vector<RankSummaries> nodes = NodesOf({2});
  report::CollectiveTable other = WaitingFor(0);
  for (report::StepWorkRow& step : other.steps) step.step += 100;
  nodes[0].captures[0].collectives = report::ToReport(other);
  const RankHistory history = JoinRankHistory(std::move(nodes), 0);
  EXPECT_EQ(history.windows[0].steps.verdict, report::StragglerVerdict::kWithheld);
  EXPECT_EQ(history.windows[0].steps.reason, report::StragglerReason::kTooFewSteps);
}

TEST(RankHistoryTest, OlderWindowsAreLeftOutAsAWhole) {
  RankHistory history = JoinRankHistory(NodesOf({2, 2, 2}), 2);
  EXPECT_THAT(history.windows, SizeIs(2));
  EXPECT_EQ(history.left_out_count, 1);
  EXPECT_EQ(history.windows[0].group, TestId(9'001));

  // Of window 1, one daemon may have more captures than it sent.
  std::vector<RankSummaries> nodes = NodesOf({2, 2, 2});
  nodes[1].captures.pop_back();
  nodes[1].is_cut = true;
  history = JoinRankHistory(std::move(nodes), 0);
  EXPECT_THAT(history.windows, SizeIs(1));
  EXPECT_EQ(history.windows[0].group, TestId(9'002));
  EXPECT_TRUE(history.has_more);
  EXPECT_THAT(RenderRankHistory(history, Style()), HasSubstr("Older windows are left out"));
}

TEST(RankHistoryTest, ADaemonWithTwoNamesIsCountedOnce) {
  std::vector<RankSummaries> nodes = NodesOf({2, 2});
  const RankHistory once = JoinRankHistory(NodesOf({2, 2}), 0);
  nodes.push_back(nodes.front());
  const RankHistory twice = JoinRankHistory(std::move(nodes), 0);
  ASSERT_THAT(twice.windows, SizeIs(once.windows.size()));
  EXPECT_EQ(twice.windows[0].members.size(), once.windows[0].members.size());
}

TEST(RankHistoryTest, RanksWithoutACaptureAndCutStepsAreSaid) {
  std::vector<RankSummaries> nodes = NodesOf({2});
  nodes[0].captures[0].view.record.target.metadata["world_size"] = "6";
  nodes[2].captures[0].left_out_step_count = 7;
  const RankHistory history = JoinRankHistory(std::move(nodes), 0);
  EXPECT_THAT(history.windows[0].absent_ranks, ElementsAre(4, 5));
  EXPECT_EQ(history.windows[0].left_out_step_count, 7);
  EXPECT_THAT(RenderRankHistory(history, Style()),
              AllOf(HasSubstr("In 1 window, ranks of the job have no capture"),
                    HasSubstr("In 1 window, only the first steps of a rank fit its summary")));
  EXPECT_THAT(RenderRankHistory({}, Style()), HasSubstr("No window of a group"));
}

class RankHistoryCommandTest : public CliTest {
 protected:
  RankHistoryCommandTest() {
    for (int i = 0; i < 3; ++i) {
      v1::RankSummary& summary = *profd_.rank_summaries.add_summaries();
      *summary.mutable_capture() = ACapture(TestId(i));
      summary.mutable_capture()->set_group("groups/" + TestId(9'000));
    }
  }
};

TEST_F(RankHistoryCommandTest, TheQueryIsAskedAndWhatIsNotKeptIsNamed) {
  const nlohmann::json json = RunJson({"history", "--stragglers", "--job", "88123", "--schedule",
                                       "01J", "--since", "2026-01-02T03:04:05.5Z"});
  EXPECT_EQ(json["window_count"], 1);
  EXPECT_EQ(json["verdict_count"], 0);
  ASSERT_EQ(json["windows"].size(), 1U);
  EXPECT_EQ(json["windows"][0]["reason"], "no_summary");
  EXPECT_EQ(json["windows"][0]["not_compared"].size(), 3U);
  const auto calls = profd_.rank_calls();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].job(), "88123");
  EXPECT_EQ(calls[0].schedule(), "schedules/01J");
  EXPECT_EQ(calls[0].since().seconds(), 1'767'323'045);
}

TEST_F(RankHistoryCommandTest, NoMoreIsReadThanTheLimitNeeds) {
  profd_.rank_summaries.clear_summaries();
  for (int i = 0; i < 10; ++i) {
    v1::RankSummary& summary = *profd_.rank_summaries.add_summaries();
    *summary.mutable_capture() = ACapture(TestId(i));
    summary.mutable_capture()->set_group("groups/" + TestId(9'000 + i));
    summary.mutable_capture()->mutable_create_time()->set_seconds(1'767'323'045 - i * 3600);
  }
  const nlohmann::json json = RunJson({"history", "--stragglers", "--limit", "3"});
  ASSERT_EQ(json["windows"].size(), 3U);
  EXPECT_EQ(json["windows"][2]["group"], TestId(9'000));
  EXPECT_EQ(json["left_out"], 1) << "of the seven older ones only the first was read";
  EXPECT_EQ(json["has_more"], true);
  EXPECT_EQ(RunJson({"history", "--stragglers"})["windows"].size(), 10U);
}

TEST_F(RankHistoryCommandTest, WrongUsageIsNamed) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--step-time"}, {"--op", "x"}, {"--pid", "7"}, {"--measure", "call"}}) {
    std::vector<std::string> arguments = {"history", "--stragglers"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("--stragglers"));
    EXPECT_THAT(result.out, IsEmpty());
  }
  EXPECT_THAT(Run({"history", "--stragglers"}).out, Not(IsEmpty()));
}

}  // namespace
}  // namespace profd::cli
