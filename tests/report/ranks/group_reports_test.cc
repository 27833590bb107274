#include "daemon/report/ranks/group_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// Four ranks that all-reduce at the end of each step; `own_ns` is what each works before.
class GroupStepsTest : public testing::Test {
 protected:
  GroupSteps Compare(const std::vector<std::vector<int64_t>>& own_ns, int64_t transfer_ns = 10) {
    tables_.clear();
    const size_t step_count = own_ns[0].size();
    for (const std::vector<int64_t>& of_rank : own_ns) {
      CollectiveTable table = {.communicators = {{.size = 4}}};
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
};

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
  CollectiveTable a = {.communicators = {{.size = 2}},
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
  EXPECT_EQ(steps.members[0][0].wait_ns, kMost);
  EXPECT_EQ(steps.members[0][1].duration_ns, 0);
  EXPECT_THAT(CompareSteps({}, {}).ranking, IsEmpty());
}

}  // namespace
}  // namespace profd::report
