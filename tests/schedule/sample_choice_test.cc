#include "daemon/schedule/sample_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

using ::testing::SizeIs;

constexpr char kId[] = "01HZZZZZZZZZZZZZZZZZZZZZZA";

absl::Time Window(int number) { return absl::FromUnixSeconds(1'800'000'000 + 1800 * number); }

std::vector<std::string> Nodes(int count) {
  std::vector<std::string> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(StrCat("gpu", i));
  return nodes;
}

TargetInfo Rank(int64_t rank, const std::string& job, int64_t pid) {
  return {.number = pid,
          .pid = pid,
          .process_start_ticks = 7,
          .metadata = {{"rank", StrCat(rank)}, {"job", job}}};
}

std::set<int64_t> Pids(const std::vector<ChosenTarget>& chosen) {
  std::set<int64_t> pids;
  for (const ChosenTarget& target : chosen) pids.insert(target.target.pid);
  return pids;
}

TEST(SampleChoiceTest, WithoutASampleEverythingIsChosen) {
  EXPECT_TRUE(ChooseNode({}, kId, Window(0), "gpu1").chosen);
  const auto chosen =
      ChooseTargets({}, kId, Window(0), "gpu1", {Rank(0, "a", 10), Rank(1, "a", 11)});
  EXPECT_EQ(Pids(chosen), (std::set<int64_t>{10, 11}));
  EXPECT_EQ(chosen.front().weight, 1);
}

TEST(SampleChoiceTest, AShareOfNodesIsThatShareAndItsWeightSaysSo) {
  const ScheduleSpec spec{.sample = {.fraction = 0.05}};
  int chosen = 0;
  for (int window = 0; window < 100; ++window) {
    for (const std::string& node : Nodes(200)) {
      const Choice choice = ChooseNode(spec, kId, Window(window), node);
      EXPECT_EQ(choice.weight, 20);
      chosen += choice.chosen ? 1 : 0;
    }
  }
  // 20,000 draws at 5 %: within four standard deviations of 1,000.
  EXPECT_NEAR(chosen, 1000, 4 * 31);
}

TEST(SampleChoiceTest, ANumberOfNodesIsExactInEveryWindowAndChosenAnew) {
  ScheduleSpec spec{.sample = {.count = 3}, .nodes = Nodes(40)};
  std::set<std::string> ever;
  for (int window = 0; window < 100; ++window) {
    int chosen = 0;
    for (const std::string& node : spec.nodes) {
      const Choice choice = ChooseNode(spec, kId, Window(window), node);
      if (!choice.chosen) continue;
      ++chosen;
      ever.insert(node);
      EXPECT_DOUBLE_EQ(choice.weight, 40.0 / 3);
    }
    EXPECT_EQ(chosen, 3);
  }
  EXPECT_THAT(ever, SizeIs(40));
}

TEST(SampleChoiceTest, ANodeThatTheScheduleDoesNotNameIsNotOneOfTheNumber) {
  const ScheduleSpec spec{.sample = {.count = 40}, .nodes = Nodes(40)};
  EXPECT_FALSE(ChooseNode(spec, kId, Window(0), "stranger").chosen);
}

// Rendezvous hashing: who stays keeps its place.
TEST(SampleChoiceTest, ANodeThatGoesMovesOnlyItsOwnPlace) {
  const ScheduleSpec all{.sample = {.count = 3}, .nodes = Nodes(40)};
  ScheduleSpec fewer = all;
  fewer.nodes.pop_back();
  for (int window = 0; window < 50; ++window) {
    for (const std::string& node : fewer.nodes) {
      if (!ChooseNode(all, kId, Window(window), node).chosen) continue;
      EXPECT_TRUE(ChooseNode(fewer, kId, Window(window), node).chosen);
    }
  }
}

TEST(SampleChoiceTest, AChosenJobIsChosenOnAllItsNodes) {
  const ScheduleSpec spec{.sample = {.unit = SampleUnit::kJobs, .fraction = 0.5}};
  int chosen_jobs = 0;
  for (int window = 0; window < 100; ++window) {
    const auto here =
        ChooseTargets(spec, kId, Window(window), "gpu1", {Rank(0, "a", 10), Rank(1, "a", 11)});
    const auto there = ChooseTargets(spec, kId, Window(window), "gpu2", {Rank(2, "a", 12)});
    EXPECT_EQ(here.empty(), there.empty());
    EXPECT_TRUE(here.empty() || here.size() == 2);
    chosen_jobs += here.empty() ? 0 : 1;
  }
  EXPECT_NEAR(chosen_jobs, 50, 20);
}

TEST(SampleChoiceTest, ANumberOfTargetsIsPerNode) {
  const ScheduleSpec spec{.sample = {.unit = SampleUnit::kTargets, .count = 2}};
  std::vector<TargetInfo> targets;
  for (int i = 0; i < 8; ++i) targets.push_back(Rank(i, "a", 100 + i));
  std::set<int64_t> ever;
  for (int window = 0; window < 50; ++window) {
    const auto chosen = ChooseTargets(spec, kId, Window(window), "gpu1", targets);
    ASSERT_THAT(chosen, SizeIs(2));
    EXPECT_EQ(chosen[0].weight, 4);
    ever.merge(Pids(chosen));
  }
  EXPECT_THAT(ever, SizeIs(8));
}

TEST(SampleChoiceTest, ARankIsChosenByItsNameNotByItsProcess) {
  const ScheduleSpec spec{.sample = {.unit = SampleUnit::kTargets, .fraction = 0.5}};
  for (int window = 0; window < 50; ++window) {
    const auto before = ChooseTargets(spec, kId, Window(window), "gpu1", {Rank(3, "a", 10)});
    const auto restarted = ChooseTargets(spec, kId, Window(window), "gpu1", {Rank(3, "a", 99)});
    EXPECT_EQ(before.empty(), restarted.empty());
  }
}

// A budget that holds for three of eight must not hold for the same three each time.
TEST(SampleChoiceTest, TheOrderChangesFromWindowToWindow) {
  std::vector<TargetInfo> targets;
  for (int i = 0; i < 8; ++i) targets.push_back(Rank(i, "a", 100 + i));
  std::set<int64_t> first;
  for (int window = 0; window < 100; ++window) {
    first.insert(ChooseTargets({}, kId, Window(window), "gpu1", targets).front().target.pid);
  }
  EXPECT_THAT(first, SizeIs(8));
}

TEST(SampleChoiceTest, RanksOfAJobHaveTheSameStart) {
  const ScheduleSpec spec{.capture = {.steps = 3}};
  const WindowTime window{.nominal = Window(0), .due = Window(0) + absl::Seconds(7)};
  const auto start = CommonStartOf(spec, kId, window, Rank(0, "a", 10));
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(*start, CommonStartOf(spec, kId, window, Rank(9, "a", 11)));
  EXPECT_EQ(start->job, "a");
  EXPECT_EQ(start->grid, 256);
  EXPECT_EQ(start->lead, 64);
  EXPECT_EQ(start->decision, window.due + absl::Seconds(1));
}

TEST(SampleChoiceTest, WindowsHaveConsecutiveNumbers) {
  const ScheduleSpec spec{.every = absl::Minutes(7), .capture = {.steps = 3}};
  const WindowTimes times(kId, spec);
  absl::Time nominal = Window(0);
  const int64_t first = NumberOf(spec, kId, times.After(nominal)->nominal);
  for (int64_t i = 0; i < 20; ++i) {
    nominal = times.After(nominal)->nominal;
    EXPECT_EQ(NumberOf(spec, kId, nominal), first + i);
  }
}

TEST(SampleChoiceTest, WindowsOfCronAreAsOftenMultiplesAsNumbersAre) {
  const ScheduleSpec spec{.cron = "15 * * * *"};
  int64_t multiples = 0;
  for (int hour = 0; hour < 4000; ++hour) {
    const absl::Time window = Window(0) + absl::Hours(hour);
    if (NumberOf(spec, kId, window) % 4 == 0) ++multiples;
  }
  EXPECT_NEAR(multiples, 1000, 100);
}

TEST(SampleChoiceTest, TheStartMovesFromWindowToWindow) {
  const ScheduleSpec spec{.capture = {.steps = 3}};
  std::set<int64_t> starts;
  for (int window = 0; window < 100; ++window) {
    const WindowTime at{.nominal = Window(window), .due = Window(window)};
    starts.insert(CommonStartOf(spec, kId, at, Rank(0, "a", 10))->offset % 256);
  }
  EXPECT_GT(starts.size(), 60U);
}

// Nodes may run different versions of profd.
TEST(SampleChoiceTest, TheStartNeverChanges) {
  const WindowTime window{.nominal = Window(0), .due = Window(0)};
  const auto start = CommonStartOf({.capture = {.steps = 3}}, kId, window, Rank(0, "a", 10));
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(start->offset, 757'835);
}

TEST(SampleChoiceTest, OnlyRanksThatCountTheStepsOfAJobHaveACommonStart) {
  const WindowTime window{.nominal = Window(0), .due = Window(0)};
  const TargetInfo rank = Rank(0, "a", 10);
  EXPECT_FALSE(
      CommonStartOf({.capture = {.steps = 3}, .step_grid = 0}, kId, window, rank).has_value());
  EXPECT_FALSE(
      CommonStartOf({.capture = {.duration = absl::Seconds(1)}}, kId, window, rank).has_value());
  EXPECT_FALSE(CommonStartOf({.capture = {.steps = 3, .step_marker = "batch"}}, kId, window, rank)
                   .has_value());
  const ScheduleSpec steps{.capture = {.steps = 3}};
  EXPECT_FALSE(CommonStartOf(steps, kId, window, Rank(0, "", 10)).has_value());
  EXPECT_FALSE(CommonStartOf(steps, kId, window, Rank(-1, "a", 10)).has_value());
}

}  // namespace
}  // namespace profd
