// Ranks that record the end of a collective late: what of it is transfer, wait, and own work.
#include "daemon/report/ranks/late_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::report {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Ranks of one host that work and then all-reduce, step by step. By rank and step: its work, and
// how late it records the end; its next step begins there.
class LateEndsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kMilli = 1'000'000;
  static constexpr int64_t kTransferNs = 2 * kMilli;
  static constexpr size_t kSteps = 6;

  using Times = std::vector<std::vector<int64_t>>;

  static Times Same(size_t ranks, int64_t ms) {
    return Times(ranks, std::vector<int64_t>(kSteps, ms));
  }

  void Run(const Times& work_ms, const Times& late_ms,
           CollectiveKind kind = CollectiveKind::kAllReduce) {
    const size_t ranks = work_ms.size();
    tables_.assign(ranks, {.communicators = {{.size = static_cast<int64_t>(ranks)}}});
    std::vector<int64_t> begins(ranks);
    for (size_t step = 0; step < work_ms[0].size(); ++step) {
      int64_t last_ns = 0;
      for (size_t rank = 0; rank < ranks; ++rank) {
        last_ns = std::max(last_ns, begins[rank] + work_ms[rank][step] * kMilli);
      }
      const int64_t done_ns = last_ns + kTransferNs;
      for (size_t rank = 0; rank < ranks; ++rank) {
        const int64_t start_ns = begins[rank] + work_ms[rank][step] * kMilli;
        const int64_t end_ns = done_ns + late_ms[rank][step] * kMilli;
        tables_[rank].rows.push_back({.start_ns = start_ns,
                                      .duration_ns = end_ns - start_ns,
                                      .exposed_ns = end_ns - start_ns,
                                      .sequence = static_cast<int64_t>(step),
                                      .step = static_cast<int64_t>(step),
                                      .kind = kind});
        tables_[rank].steps.push_back({.step = static_cast<int64_t>(step),
                                       .duration_ns = end_ns - begins[rank],
                                       .exposed_ns = end_ns - start_ns});
        begins[rank] = end_ns;
      }
    }
    clocks_.assign(ranks, {.start_unix_ns = 1'700'000'000'000'000'000, .host = "node"});
  }

  GroupSteps Compare() {
    std::vector<const CollectiveTable*> members;
    members.reserve(tables_.size());
    for (size_t rank = 0; rank < tables_.size(); ++rank) {
      members.push_back(&tables_[rank]);
      clocks_[rank].collectives = &tables_[rank];
    }
    return CompareSteps(members, MatchCollectives(members), clocks_);
  }

  static std::vector<int64_t> TransfersOf(const GroupSteps& steps, size_t step) {
    std::vector<int64_t> transfers;
    for (const std::vector<RankStep>& of_rank : steps.members) {
      transfers.push_back(of_rank[step].transfer_ns);
    }
    return transfers;
  }
  // Of all times of all ranks.
  static void ExpectWhole(const GroupSteps& steps) {
    for (const std::vector<RankStep>& of_rank : steps.members) {
      for (const RankStep& step : of_rank) {
        EXPECT_EQ(step.own_ns + step.transfer_ns + step.wait_ns, step.duration_ns);
      }
    }
  }

  std::vector<CollectiveTable> tables_;
  std::vector<ClockMember> clocks_;
};

TEST_F(LateEndsTest, TheLastRanksOwnLateEndIsNoTransfer) {
  for (const size_t ranks : {2, 3, 8}) {
    Times work = Same(ranks, 20);
    work[1].assign(kSteps, 30);
    Times late = Same(ranks, 0);
    late[1][2] = 5;
    Run(work, late);
    const GroupSteps steps = Compare();
    ExpectWhole(steps);
    EXPECT_THAT(TransfersOf(steps, 2), Each(kTransferNs)) << ranks;
    EXPECT_EQ(steps.members[1][2].own_ns, 35 * kMilli) << ranks;
    EXPECT_EQ(steps.members[1][2].wait_ns, 0) << ranks;
    EXPECT_EQ(steps.members[0][2].wait_ns, 10 * kMilli) << ranks;
    // It begins the next step that much later.
    EXPECT_EQ(steps.members[0][3].wait_ns, 15 * kMilli) << ranks;
    EXPECT_THAT(TransfersOf(steps, 3), Each(kTransferNs)) << ranks;
    const auto blame = std::ranges::find(steps.blames, 2, &CollectiveBlame::step);
    ASSERT_NE(blame, steps.blames.end());
    EXPECT_EQ(blame->last, 1u) << ranks;
    EXPECT_EQ(blame->late_by_ns, 10 * kMilli) << ranks;
  }
}

// Its thread shares a CPU. Without the clocks, all ranks seem to take as long for the transfer.
TEST_F(LateEndsTest, ARankThatEndsAllLateIsTheOneThatOthersWaitFor) {
  for (const size_t ranks : {2, 3, 8}) {
    Times late = Same(ranks, 0);
    late[1].assign(kSteps, 8);
    Run(Same(ranks, 20), late);
    const GroupSteps steps = Compare();
    ExpectWhole(steps);
    for (size_t step = 1; step < kSteps; ++step) {
      EXPECT_THAT(TransfersOf(steps, step), Each(kTransferNs)) << ranks;
      EXPECT_EQ(steps.members[1][step].own_ns, 28 * kMilli) << ranks;
      EXPECT_EQ(steps.members[0][step].own_ns, 20 * kMilli) << ranks;
      EXPECT_EQ(steps.members[0][step].wait_ns, 8 * kMilli) << ranks;
    }
    EXPECT_EQ(steps.ranking[0].member, 1u) << ranks;
    EXPECT_EQ(steps.ranking[0].transfer_ns, kTransferNs) << ranks;
    EXPECT_EQ(steps.verdict, ranks == 2 ? StragglerVerdict::kPair : StragglerVerdict::kStraggler)
        << ranks;
  }
}

TEST_F(LateEndsTest, TheLateEndOfARankThatWaitedIsNoWait) {
  for (const size_t ranks : {2, 3, 8}) {
    Times work = Same(ranks, 20);
    work[1].assign(kSteps, 30);
    Times late = Same(ranks, 0);
    late[0][2] = 5;
    Run(work, late);
    const GroupSteps steps = Compare();
    ExpectWhole(steps);
    EXPECT_EQ(steps.members[0][2].wait_ns, 10 * kMilli) << ranks;
    EXPECT_EQ(steps.members[0][2].own_ns, 25 * kMilli) << ranks;
    EXPECT_THAT(TransfersOf(steps, 2), Each(kTransferNs)) << ranks;
  }
}

// A rank whose end is late may seem to have arrived before others.
TEST_F(LateEndsTest, TheRankThatArrivedLastIsNamedAlsoIfItEndsLate) {
  Times work = Same(3, 20);
  work[2].assign(kSteps, 24);
  Times late = Same(3, 0);
  late[2].assign(kSteps, 9);
  Run(work, late);
  const GroupSteps steps = Compare();
  for (const CollectiveBlame& blame : steps.blames) EXPECT_EQ(blame.last, 2u);
}

TEST_F(LateEndsTest, WithoutClocksNothingIsLate) {
  Times late = Same(3, 0);
  late[1].assign(kSteps, 8);
  Run(Same(3, 20), late);
  for (ClockMember& clock : clocks_) clock.host.clear();
  EXPECT_THAT(TransfersOf(Compare(), 2), Each(kTransferNs + 8 * kMilli));
  // Nor between hosts whose clocks are known by the ends alone.
  for (size_t rank = 0; rank < 3; ++rank) clocks_[rank].host = std::to_string(rank);
  EXPECT_THAT(TransfersOf(Compare(), 2), Each(kTransferNs + 8 * kMilli));
}

TEST_F(LateEndsTest, MeasuredClocksOfSeveralHostsTellUpToTheirBounds) {
  Times late = Same(3, 0);
  late[1].assign(kSteps, 8);
  Run(Same(3, 20), late);
  for (size_t rank = 0; rank < 3; ++rank) {
    const auto ahead_ns = static_cast<int64_t>(rank) * 70 * kMilli;
    clocks_[rank].host = std::to_string(rank);
    clocks_[rank].start_unix_ns += ahead_ns;
    clocks_[rank].probe = {.offset_ns = ahead_ns, .bound_ns = kMilli / 2};
  }
  EXPECT_THAT(TransfersOf(Compare(), 2), Each(kTransferNs + kMilli));
}

TEST_F(LateEndsTest, OnlyWhatAThreadRecordsAndAllRanksEndTogetherCanBeLate) {
  Times late = Same(3, 0);
  late[1].assign(kSteps, 8);
  Run(Same(3, 20), late, CollectiveKind::kBroadcast);
  EXPECT_THAT(TransfersOf(Compare(), 2), Each(kTransferNs + 8 * kMilli));
  Run(Same(3, 20), late);
  for (CollectiveTable& table : tables_) {
    for (CollectiveRow& row : table.rows) row.on_device = true;
  }
  EXPECT_THAT(TransfersOf(Compare(), 2), Each(kTransferNs + 8 * kMilli));
}

TEST_F(LateEndsTest, OfAPartlyHiddenCollectiveTheLateEndIsTheExposedPart) {
  Times late = Same(2, 0);
  late[1].assign(1, 5);
  Run({{20}, {30}}, late);
  tables_[1].rows[0].exposed_ns = 6 * kMilli;  // Of 7 ms.
  tables_[1].steps[0].exposed_ns = 6 * kMilli;
  const GroupSteps steps = Compare();
  ExpectWhole(steps);
  EXPECT_EQ(steps.members[1][0].transfer_ns, 1 * kMilli);
  EXPECT_EQ(steps.members[1][0].own_ns, 36 * kMilli);
}

TEST_F(LateEndsTest, NumbersAtTheirEndsAreSafe) {
  const int64_t most_ns = std::numeric_limits<int64_t>::max();
  const int64_t least_ns = std::numeric_limits<int64_t>::min();
  for (const int64_t start_ns : {least_ns, int64_t{0}, most_ns}) {
    for (const int64_t duration_ns : {least_ns, int64_t{0}, most_ns}) {
      Run(Same(3, 20), Same(3, 0));
      tables_[1].rows[2].start_ns = start_ns;
      tables_[1].rows[2].duration_ns = tables_[1].rows[2].exposed_ns = duration_ns;
      clocks_[2].start_unix_ns = start_ns;
      clocks_[0].probe = {.offset_ns = most_ns, .bound_ns = least_ns};
      clocks_[1].probe = {.offset_ns = least_ns, .bound_ns = most_ns};
      Compare();
      MatchedCollective match = {.kind = CollectiveKind::kAllReduce, .parts = {{0, 2}, {1, 2}}};
      for (const int64_t late_ns : LateEnds(clocks_).Of(match)) EXPECT_GE(late_ns, 0);
      EXPECT_THAT(LateEnds({}).Of(match), ElementsAre(0, 0));
    }
  }
}

}  // namespace
}  // namespace profd::report
