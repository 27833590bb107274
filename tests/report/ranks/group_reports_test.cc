#include "daemon/report/ranks/group_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "daemon/report/ranks/collective_match.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

OpRow Op(std::string name, int64_t calls, int64_t self_cpu_ns) {
  return {.name = std::move(name), .calls = calls, .self_cpu_ns = self_cpu_ns};
}

TEST(GroupOpsTest, OneRowPerOperatorWithItsSpreadOverRanks) {
  const OpTable a = {.rows = {Op("matmul", 10, 500), Op("relu", 10, 20)}};
  const OpTable b = {.rows = {Op("matmul", 12, 900)}};
  const OpTable c = {.rows = {Op("matmul", 10, 510), Op("relu", 10, 30)}};
  const std::vector<const OpTable*> tables = {&a, &b, &c};
  const GroupOps ops = CompareOps(tables, OpSort::kSelfCpu, 0);
  ASSERT_THAT(ops.rows, SizeIs(2));
  EXPECT_EQ(ops.rows[0].name, "matmul");
  EXPECT_EQ(ops.rows[0].min, 500);
  EXPECT_EQ(ops.rows[0].median, 510);
  EXPECT_EQ(ops.rows[0].max, 900);
  EXPECT_EQ(ops.rows[0].slowest, 1u);
  EXPECT_EQ(ops.rows[0].median_calls, 10);
  EXPECT_THAT(ops.rows[0].figures, ElementsAre(500, 900, 510));
  // A rank that did not run it spent no time in it.
  EXPECT_EQ(ops.rows[1].member_count, 2);
  EXPECT_THAT(ops.rows[1].figures, ElementsAre(20, 0, 30));
}

TEST(GroupOpsTest, AMemberWithoutATableKeepsItsPlaceAndTheLimitCountsRows) {
  const OpTable a = {.rows = {Op("x", 1, 5), Op("y", 1, 50), Op("z", 1, 7)}};
  const std::vector<const OpTable*> tables = {nullptr, &a};
  const GroupOps ops = CompareOps(tables, OpSort::kSelfCpu, 2);
  EXPECT_EQ(ops.row_count, 3);
  ASSERT_THAT(ops.rows, SizeIs(2));
  EXPECT_EQ(ops.rows[0].name, "y");
  EXPECT_EQ(ops.rows[0].slowest, 1u);
  // Who is missing may have run it as long as the others.
  EXPECT_EQ(ops.rows[0].min, 50);
  EXPECT_EQ(ops.rows[0].median, 50);
  EXPECT_THAT(ops.rows[0].figures, ElementsAre(0, 50));
  const GroupOps by_name = CompareOps(tables, OpSort::kName, 0);
  EXPECT_EQ(by_name.rows[0].name, "x");
}

TEST(GroupOpsTest, StepsAndInputsMakeRowsOfTheirOwn) {
  OpTable a = {.rows = {Op("x", 1, 5), Op("x", 1, 6)}};
  a.rows[1].dims = "[[1]]";
  const std::vector<const OpTable*> tables = {&a};
  EXPECT_THAT(CompareOps(tables, OpSort::kSelfCpu, 0).rows, SizeIs(2));
}

// Two captures of one loop, of 10 and 6 steps.
TEST(GroupOpsTest, TimesOfCapturesWithDifferentNumbersOfStepsAreComparedPerStep) {
  const OpTable a = {.rows = {Op("aten::mm", 60, 54'800), Op("save", 1, 100)}, .step_count = 10};
  const OpTable b = {.rows = {Op("aten::mm", 36, 31'560)}, .step_count = 6};
  const std::vector<const OpTable*> tables = {&a, &b};
  const GroupOps ops = CompareOps(tables, OpSort::kSelfCpu, 0);
  EXPECT_TRUE(ops.per_step);
  EXPECT_FALSE(ops.differ_in_steps);
  EXPECT_THAT(ops.step_counts, ElementsAre(10, 6));
  EXPECT_THAT(ops.rows[0].figures, ElementsAre(5480, 5260));
  EXPECT_EQ(ops.rows[0].calls_per_step, 6);
  EXPECT_EQ(ops.rows[1].calls_per_step, 0.1);

  const GroupOps calls = CompareOps(tables, OpSort::kCalls, 0);
  EXPECT_FALSE(calls.per_step);
  EXPECT_TRUE(calls.differ_in_steps);
  EXPECT_THAT(calls.rows[0].figures, ElementsAre(60, 36));
  // Neither a row of one step nor the average of a call is to be divided.
  EXPECT_FALSE(CompareOps(tables, OpSort::kSelfCpu, 0, /*by_step=*/true).per_step);
  const GroupOps average = CompareOps(tables, OpSort::kAverage, 0);
  EXPECT_FALSE(average.per_step);
  EXPECT_FALSE(average.differ_in_steps);

  const OpTable without = {.rows = {Op("aten::mm", 1, 7)}};
  const std::vector<const OpTable*> mixed = {&a, &without};
  const GroupOps totals = CompareOps(mixed, OpSort::kSelfCpu, 0);
  EXPECT_FALSE(totals.per_step);
  EXPECT_TRUE(totals.differ_in_steps);
  EXPECT_THAT(totals.rows[0].figures, ElementsAre(54'800, 7));
}

// Four ranks that all-reduce at the end of each step; `own_ns` is what each works before.
class GroupStepsTest : public testing::Test {
 protected:
  GroupSteps Compare(const std::vector<std::vector<int64_t>>& own_ns, int64_t transfer_ns = 10) {
    tables_.clear();
    const size_t step_count = own_ns[0].size();
    for (const std::vector<int64_t>& of_rank : own_ns) {
      CollectiveTable table = {.communicators = {{.size = 4, .name = group_name_}}};
      for (size_t step = 0; step < step_count; ++step) {
        int64_t last_ns = 0;
        for (const auto& other : own_ns) last_ns = std::max(last_ns, other[step]);
        const int64_t in_collective_ns = last_ns - of_rank[step] + transfer_ns;
        table.rows.push_back({.duration_ns = in_collective_ns,
                              .exposed_ns = in_collective_ns,
                              .sequence = static_cast<int64_t>(step),
                              .step = static_cast<int64_t>(step),
                              .kind = CollectiveKind::kAllReduce});
        table.steps.push_back({.step = static_cast<int64_t>(step),
                               .duration_ns = last_ns + transfer_ns,
                               .exposed_ns = in_collective_ns});
      }
      tables_.push_back(std::move(table));
    }
    std::vector<const CollectiveTable*> members;
    for (const CollectiveTable& table : tables_) members.push_back(&table);
    return CompareSteps(members, MatchCollectives(members));
  }

  std::vector<CollectiveTable> tables_;
  std::string group_name_;
};

TEST_F(GroupStepsTest, TheProcessGroupOfTheWaitIsNamed) {
  EXPECT_EQ(Compare({{100}, {130}, {90}, {110}}).ranking[0].group, "");
  group_name_ = "TP";
  const GroupSteps steps = Compare({{100}, {130}, {90}, {110}});
  ASSERT_THAT(steps.blames, SizeIs(1));
  EXPECT_EQ(steps.blames[0].group, "TP");
  EXPECT_EQ(steps.ranking[0].member, 1u);
  EXPECT_EQ(steps.ranking[0].group, "TP");
}

TEST_F(GroupStepsTest, AStepIsOwnWorkTransferAndWait) {
  const GroupSteps steps = Compare({{100}, {130}, {90}, {110}});
  const RankStep& first = steps.members[0][0];
  EXPECT_EQ(first.duration_ns, 140);
  EXPECT_EQ(first.own_ns, 100);
  EXPECT_EQ(first.transfer_ns, 10);
  EXPECT_EQ(first.wait_ns, 30);
  EXPECT_EQ(steps.members[1][0].wait_ns, 0);
  ASSERT_THAT(steps.rows, SizeIs(1));
  EXPECT_EQ(steps.rows[0].slowest, 1u);
  EXPECT_EQ(steps.rows[0].slowest_own_ns, 130);
  EXPECT_EQ(steps.rows[0].median_own_ns, 105);
  EXPECT_EQ(steps.rows[0].waited_most, 2u);
  EXPECT_EQ(steps.rows[0].longest_wait_ns, 40);
}

TEST_F(GroupStepsTest, TheRankThatOthersWaitForIsTheStraggler) {
  const GroupSteps steps = Compare({{1000, 1010, 990, 1000},
                                    {1005, 1000, 1000, 995},
                                    {1300, 1310, 1290, 1305},
                                    {1000, 990, 1010, 1000}});
  EXPECT_TRUE(steps.enough_ranks);
  EXPECT_EQ(steps.ranking[0].member, 2u);
  EXPECT_TRUE(steps.ranking[0].straggler);
  EXPECT_GT(steps.ranking[0].score, kStragglerScore);
  EXPECT_EQ(steps.ranking[0].wait_ns, 0);
  EXPECT_LT(steps.ranking[0].relative, 0.8);
  // Those that waited took as long, and are none.
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_FALSE(steps.ranking[i].straggler);
    EXPECT_GE(steps.ranking[i].wait_ns, 290);
    EXPECT_EQ(steps.ranking[i].duration_ns, steps.ranking[0].duration_ns);
  }
}

TEST_F(GroupStepsTest, HalfOfTheRanksMayBeStragglers) {
  const GroupSteps steps = Compare({{500, 510, 490, 500},
                                    {2605, 2600, 2600, 2595},
                                    {2600, 2610, 2690, 2705},
                                    {500, 490, 510, 500}});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler);
  for (const RankScore& rank : steps.ranking) {
    EXPECT_EQ(rank.straggler, rank.member == 1 || rank.member == 2) << rank.member;
  }
}

// Eight ranks, five steps of 50 ms with two all-reduces each. Rank 5 is 8 ms late at the first one
// of each step, rank 2 is 3 ms late at the second one.
TEST_F(GroupStepsTest, TheWaitOfEveryCollectiveIsBlamedOnTheRankThatArrivedLast) {
  constexpr int64_t kMs = 1'000'000;
  constexpr size_t kRanks = 8;
  std::vector<CollectiveTable> tables(kRanks, {.communicators = {{.size = kRanks}}});
  for (int64_t step = 0; step < 5; ++step) {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const int64_t first_ns = (rank == 5 ? 1 : 9) * kMs;
      const int64_t second_ns = (rank == 2 ? 1 : 4) * kMs;
      for (const int64_t duration_ns : {first_ns, second_ns}) {
        tables[rank].rows.push_back({.duration_ns = duration_ns,
                                     .exposed_ns = duration_ns,
                                     .sequence = std::ssize(tables[rank].rows),
                                     .step = step,
                                     .kind = CollectiveKind::kAllReduce});
      }
      tables[rank].steps.push_back(
          {.step = step, .duration_ns = 50 * kMs, .exposed_ns = first_ns + second_ns});
    }
  }
  std::vector<const CollectiveTable*> members;
  members.reserve(tables.size());
  for (const CollectiveTable& table : tables) members.push_back(&table);
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_EQ(steps.ranking[0].member, 5u);
  EXPECT_EQ(steps.ranking[0].caused_wait_ns, 7 * 8 * kMs);
  EXPECT_EQ(steps.ranking[0].last_count, 5);
  EXPECT_EQ(steps.ranking[0].more_own_ns, 8 * kMs);
  EXPECT_EQ(steps.ranking[1].member, 2u);
  EXPECT_EQ(steps.ranking[1].caused_wait_ns, 7 * 3 * kMs);
  EXPECT_EQ(steps.ranking[1].last_count, 5);
  EXPECT_EQ(steps.ranking[2].caused_wait_ns, 0);
  EXPECT_EQ(steps.ranking[2].last_count, 0);
  EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler);
  EXPECT_TRUE(steps.ranking[0].straggler);
  EXPECT_FALSE(steps.ranking[1].straggler);  // 3 ms are 6 % of a step.
  ASSERT_THAT(steps.blames, SizeIs(10));
  EXPECT_EQ(steps.blames[0].last, 5u);
  EXPECT_EQ(steps.blames[0].late_by_ns, 8 * kMs);
  EXPECT_EQ(steps.blames[0].total_wait_ns, 7 * 8 * kMs);
  EXPECT_THAT(steps.blames[0].waits, SizeIs(7));
  EXPECT_EQ(steps.blames[9].last, 2u);
}

TEST_F(GroupStepsTest, OnlyStepsThatAllRanksHaveAreCompared) {
  Compare({{100, 100, 100, 100}, {100, 100, 100, 100}, {100, 100, 100, 100}});
  // The second begins a step later.
  tables_[1].steps.erase(tables_[1].steps.begin());
  std::vector<const CollectiveTable*> members;
  for (const CollectiveTable& table : tables_) members.push_back(&table);
  GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_THAT(steps.common_steps, ElementsAre(1, 2, 3));
  EXPECT_EQ(steps.ranking[0].step_count, 3);
  EXPECT_THAT(steps.rows, SizeIs(4));
  for (StepWorkRow& step : tables_[1].steps) step.step += 100;
  steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_THAT(steps.common_steps, IsEmpty());
  EXPECT_THAT(steps.ranking, IsEmpty());
  EXPECT_EQ(steps.verdict, StragglerVerdict::kWithheld);
}

TEST_F(GroupStepsTest, OfTwoRanksOneWaitsForTheOther) {
  const GroupSteps steps = Compare({{1000, 1010, 990, 1000, 1000}, {1600, 1580, 1610, 1600, 1590}});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kPair);
  EXPECT_EQ(steps.ranking[0].member, 1u);
  EXPECT_EQ(steps.ranking[0].caused_wait_ns, 600);
  EXPECT_EQ(steps.ranking[0].caused_wait_ns, steps.ranking[1].wait_ns);
  EXPECT_EQ(steps.ranking[0].mean_caused_wait_ns, (600 + 570 + 620 + 600 + 590) / 5);
  EXPECT_EQ(steps.ranking[0].last_count, 5);
  for (const RankScore& rank : steps.ranking) EXPECT_FALSE(rank.straggler);
}

// In some steps no wait is seen, in others each of the ranks is late.
TEST_F(GroupStepsTest, OfTwoRanksTheWaitOfOneIsWhatTheOtherCaused) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int64_t> work(1'000, 3'000);
  for (int run = 0; run < 50; ++run) {
    std::vector<std::vector<int64_t>> own_ns(2, std::vector<int64_t>(7));
    for (std::vector<int64_t>& of_rank : own_ns) {
      for (int64_t& step_ns : of_rank) step_ns = work(random);
    }
    const GroupSteps steps = Compare(own_ns);
    ASSERT_THAT(steps.ranking, SizeIs(2));
    EXPECT_EQ(steps.ranking[0].caused_wait_ns, steps.ranking[1].wait_ns);
    EXPECT_EQ(steps.ranking[1].caused_wait_ns, steps.ranking[0].wait_ns);
  }
}

// Two collectives at once cannot make a rank wait for longer than its step is exposed.
TEST_F(GroupStepsTest, CollectivesThatOverlapCauseNoMoreWaitThanThereIs) {
  std::vector<CollectiveTable> tables(2, {.communicators = {{.size = 2}}});
  for (size_t rank = 0; rank < 2; ++rank) {
    for (int64_t step = 0; step < 3; ++step) {
      for (int i = 0; i < 2; ++i) {
        const int64_t duration_ns = rank == 0 ? 500 : 100;
        tables[rank].rows.push_back({.duration_ns = duration_ns,
                                     .exposed_ns = duration_ns,
                                     .sequence = std::ssize(tables[rank].rows),
                                     .step = step,
                                     .kind = CollectiveKind::kAllReduce});
      }
      tables[rank].steps.push_back({.step = step, .duration_ns = 1000, .exposed_ns = 501});
    }
  }
  const std::vector<const CollectiveTable*> members = {&tables[0], &tables[1]};
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  ASSERT_THAT(steps.ranking, SizeIs(2));
  EXPECT_EQ(steps.ranking[0].member, 1u);
  EXPECT_EQ(steps.ranking[0].caused_wait_ns, 501);
  EXPECT_EQ(steps.ranking[1].wait_ns, 501);
}

TEST_F(GroupStepsTest, BalancedRanksWithNoiseNameNobody) {
  std::mt19937 random(7);
  for (const size_t ranks : {2, 3, 4, 8}) {
    int named = 0;
    for (int run = 0; run < 100; ++run) {
      // 20 ms of work, give or take 3 ms, with one step in ten disturbed.
      std::normal_distribution<double> work(20e6, 3e6);
      std::uniform_real_distribution<double> chance(0, 1);
      std::vector<std::vector<int64_t>> own_ns(ranks, std::vector<int64_t>(10));
      for (std::vector<int64_t>& of_rank : own_ns) {
        for (int64_t& step_ns : of_rank) {
          step_ns = std::max<int64_t>(0, static_cast<int64_t>(work(random))) +
                    (chance(random) < 0.1 ? 15'000'000 : 0);
        }
      }
      const GroupSteps steps = Compare(own_ns, 1'000'000);
      named +=
          steps.verdict == StragglerVerdict::kStraggler || steps.verdict == StragglerVerdict::kPair
              ? 1
              : 0;
    }
    EXPECT_EQ(named, 0) << ranks << " ranks";
  }
}

TEST_F(GroupStepsTest, ADifferenceThatDoesNotLastIsWithheld) {
  const GroupSteps steps = Compare({{1000, 1000, 1000, 1000, 1000},
                                    {1000, 1000, 1000, 1000, 1000},
                                    {1400, 1400, 900, 1400, 1400}});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kWithheld);
  EXPECT_EQ(steps.reason, StragglerReason::kWithinNoise);
  for (const RankScore& rank : steps.ranking) EXPECT_FALSE(rank.straggler);
}

TEST_F(GroupStepsTest, OwnWorkThatNobodyWaitsForIsNoStraggler) {
  Compare({{1000, 1000, 1000, 1000, 1000},
           {1000, 1000, 1000, 1000, 1000},
           {1400, 1400, 1400, 1400, 1400}});
  // By the collectives, the others wait for rank 0.
  for (size_t rank = 0; rank < 3; ++rank) {
    for (CollectiveRow& row : tables_[rank].rows) {
      row.duration_ns = row.exposed_ns = rank == 0 ? 10 : 300;
    }
  }
  std::vector<const CollectiveTable*> members;
  for (const CollectiveTable& table : tables_) members.push_back(&table);
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_EQ(steps.verdict, StragglerVerdict::kWithheld);
  EXPECT_EQ(steps.reason, StragglerReason::kContradiction);
  for (const RankScore& rank : steps.ranking) EXPECT_FALSE(rank.straggler);
}

// On a busy machine a thread goes on so late after a collective that its wait is not seen.
TEST_F(GroupStepsTest, ARankThatIsLateWithoutAWaitOfTheOthersIsNotCleared) {
  Compare({{1000, 1000, 1000, 1000, 1000},
           {1000, 1000, 1000, 1000, 1000},
           {1400, 1400, 1400, 1400, 1400}});
  for (CollectiveTable& table : tables_) {
    for (CollectiveRow& row : table.rows) row.exposed_ns = 0;
    for (StepWorkRow& step : table.steps) step.exposed_ns = 0;
  }
  std::vector<const CollectiveTable*> members;
  for (const CollectiveTable& table : tables_) members.push_back(&table);
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_EQ(steps.verdict, StragglerVerdict::kWithheld);
  EXPECT_EQ(steps.reason, StragglerReason::kHiddenWait);
}

TEST_F(GroupStepsTest, WithoutCollectivesTheVerdictIsWithheld) {
  Compare({{1000, 1000, 1000}, {1000, 1000, 1000}, {1400, 1400, 1400}});
  for (CollectiveTable& table : tables_) table.rows.clear();
  std::vector<const CollectiveTable*> members;
  for (const CollectiveTable& table : tables_) members.push_back(&table);
  EXPECT_EQ(CompareSteps(members, {}).reason, StragglerReason::kNoCollectives);
}

TEST_F(GroupStepsTest, RanksThatAreLateInTurnAreNoStragglersAndTheOthersDoWait) {
  const GroupSteps steps = Compare({{1800, 1000, 1000, 1000},
                                    {1000, 1800, 1000, 1000},
                                    {1000, 1000, 1800, 1000},
                                    {1000, 1000, 1000, 1800}});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kNone);
  EXPECT_EQ(steps.reason, StragglerReason::kUnsteady);
}

TEST_F(GroupStepsTest, ARankThatIsLateInFewStepsIsNoStragglerAndNoDoubt) {
  for (const int64_t slow_ns : {2000, 20000}) {
    for (const size_t ranks : {2, 4}) {
      std::vector<std::vector<int64_t>> own(ranks, std::vector<int64_t>(10, 1000));
      own[1][3] = own[1][6] = own[1][7] = slow_ns;
      const GroupSteps steps = Compare(own);
      EXPECT_EQ(steps.verdict, StragglerVerdict::kNone);
      EXPECT_EQ(steps.reason, StragglerReason::kFewSteps);
      EXPECT_EQ(steps.ranking[0].member, 1u);
      EXPECT_EQ(steps.ranking[0].late_ns, 3 * (slow_ns - 1000) / 10);
      EXPECT_EQ(steps.ranking[0].usual_late_ns, 0);
    }
  }
  // In most steps it is one.
  std::vector<std::vector<int64_t>> own(4, std::vector<int64_t>(10, 1000));
  own[1] = {2000, 2000, 2000, 2000, 2000, 2000, 2000, 2000, 1000, 2000};
  const GroupSteps steps = Compare(own);
  EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler);
  EXPECT_EQ(steps.ranking[0].usual_late_ns, 1000);
}

// Its lateness in few steps is no hidden wait.
TEST_F(GroupStepsTest, ShortWaitsInFewStepsAreNotDoubted) {
  std::vector<std::vector<int64_t>> own(2, std::vector<int64_t>(10, 1000));
  own[1][3] = 3000;
  Compare(own);
  for (CollectiveTable& table : tables_) {
    for (CollectiveRow& row : table.rows) row.exposed_ns = 0;
    for (StepWorkRow& step : table.steps) step.exposed_ns = 0;
  }
  std::vector<const CollectiveTable*> members;
  for (const CollectiveTable& table : tables_) members.push_back(&table);
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_EQ(steps.verdict, StragglerVerdict::kNone);
}

TEST_F(GroupStepsTest, OneSlowStepMakesNoStraggler) {
  const GroupSteps steps =
      Compare({{1000, 5000, 1000}, {1000, 1000, 1000}, {1000, 1000, 1000}, {1000, 1000, 1000}});
  for (const RankScore& rank : steps.ranking) EXPECT_FALSE(rank.straggler);
  EXPECT_EQ(steps.rows[1].slowest, 0u);
}

TEST_F(GroupStepsTest, RanksThatAreAllButEqualAreNoOutliers) {
  const GroupSteps steps = Compare({{100000}, {100000}, {100001}, {100050}});
  for (const RankScore& rank : steps.ranking) EXPECT_FALSE(rank.straggler);
}

TEST_F(GroupStepsTest, TwoRanksGetNoScore) {
  const GroupSteps steps = Compare({{100}, {900}});
  EXPECT_FALSE(steps.enough_ranks);
  EXPECT_EQ(steps.ranking[0].score, 0);
  EXPECT_EQ(steps.ranking[0].member, 1u);
}

TEST_F(GroupStepsTest, WhatComputeHidesIsNoWait) {
  // Rank 0 was in it for 50 ns, of which other kernels hid 30; the shortest took 10.
  CollectiveTable a = {.communicators = {{.size = 2}},
                       .rows = {{.duration_ns = 50,
                                 .exposed_ns = 20,
                                 .sequence = 1,
                                 .step = 0,
                                 .kind = CollectiveKind::kAllReduce}},
                       .steps = {{.step = 0, .duration_ns = 100, .exposed_ns = 20}}};
  CollectiveTable b = a;
  b.rows[0].duration_ns = 10;
  b.rows[0].exposed_ns = 0;
  b.steps[0].exposed_ns = 0;
  const std::vector<const CollectiveTable*> members = {&a, nullptr, &b};
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_EQ(steps.members[0][0].own_ns, 80);
  EXPECT_EQ(steps.members[0][0].transfer_ns, 10);
  EXPECT_EQ(steps.members[0][0].wait_ns, 10);
  EXPECT_THAT(steps.members[1], IsEmpty());
  EXPECT_THAT(steps.ranking, SizeIs(2));
}

TEST_F(GroupStepsTest, NumbersAtTheirEndsAreSafe) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  CollectiveTable a = {.communicators = {{.size = 3}},
                       .rows = {{.duration_ns = 0,
                                 .exposed_ns = kMost,
                                 .sequence = 1,
                                 .step = 0,
                                 .kind = CollectiveKind::kAllReduce},
                                {.duration_ns = 0,
                                 .exposed_ns = kMost,
                                 .sequence = 2,
                                 .step = 0,
                                 .kind = CollectiveKind::kAllReduce}},
                       .steps = {{.step = 0, .duration_ns = kMost, .exposed_ns = kMost},
                                 {.step = 1, .duration_ns = kLeast, .exposed_ns = kLeast}}};
  const std::vector<const CollectiveTable*> members = {&a, &a, &a};
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_EQ(steps.members[0][0].wait_ns, 0);  // The first is the one that arrived last.
  EXPECT_EQ(steps.members[1][0].wait_ns, kMost);
  EXPECT_EQ(steps.members[0][1].duration_ns, 0);
  EXPECT_THAT(CompareSteps({}, {}).ranking, IsEmpty());
}

}  // namespace
}  // namespace profd::report
