// What is kept for comparing ranks gives the comparison that the events gave.
#include "daemon/report/ranks/rank_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "daemon/base/budget.h"
#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/group_reports.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Rank `rank` of four over `steps` steps of `per_step` all-reduces; rank 2 is 40 % slower.
CollectiveTable ARank(int64_t rank, int64_t steps, int64_t per_step) {
  constexpr int64_t kStepNs = 20'000'000;
  const bool is_slow = rank == 2;
  CollectiveTable table = {.communicators = {{.size = 4, .first_rank = 0, .rank_stride = 1}},
                           .left_out_count = 3};
  for (int64_t step = 0; step < steps; ++step) {
    int64_t exposed_ns = 0;
    for (int64_t i = 0; i < per_step; ++i) {
      const int64_t wait_ns = (is_slow ? 0 : 8'000'000 / per_step) + 1'000 * (rank + 1);
      table.rows.push_back({.start_ns = step * kStepNs + i * kStepNs / per_step,
                            .duration_ns = wait_ns,
                            .exposed_ns = wait_ns,
                            .sequence = step * per_step + i,
                            .elements = 1'000 + i,
                            .bytes = 4 * (1'000 + i),
                            .step = 100 + step,
                            .kind = CollectiveKind::kAllReduce,
                            .on_device = i % 2 == 0,
                            .has_completion = true});
      exposed_ns += wait_ns;
    }
    table.steps.push_back({.step = 100 + step, .duration_ns = kStepNs, .exposed_ns = exposed_ns});
  }
  return table;
}

std::string EncodedOf(const CollectiveTable& table) {
  absl::StatusOr<std::string> bytes = EncodeRankSummary(table);
  EXPECT_THAT(bytes, IsOk());
  return bytes.ok() ? *std::move(bytes) : std::string();
}

GroupSteps Compare(const std::vector<CollectiveTable>& tables) {
  std::vector<const CollectiveTable*> members;
  members.reserve(tables.size());
  for (const CollectiveTable& table : tables) members.push_back(&table);
  return CompareSteps(members, MatchCollectives(members));
}

TEST(RankSummaryTest, AllThatFitsComesBackAsItWas) {
  CollectiveTable table = ARank(1, 5, 40);
  table.rows[3] = {.start_ns = std::numeric_limits<int64_t>::min(),
                   .duration_ns = std::numeric_limits<int64_t>::max(),
                   .sequence = -1,
                   .step = -1,
                   .kind = CollectiveKind::kReceive,
                   .has_completion = false};
  const std::string bytes = EncodedOf(table);
  EXPECT_LT(bytes.size(), 200 * sizeof(CollectiveRow) / 4) << "it is meant to be small";
  const absl::StatusOr<RankSummary> summary = DecodeRankSummary(bytes);
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->collectives.rows, table.rows);
  EXPECT_EQ(summary->collectives.steps, table.steps);
  EXPECT_EQ(summary->collectives.communicators, table.communicators);
  EXPECT_EQ(summary->collectives.left_out_count, 3);
  EXPECT_EQ(summary->left_out_step_count, 0);

  const absl::StatusOr<RankSummary> empty = DecodeRankSummary(EncodedOf({}));
  ASSERT_THAT(empty, IsOk());
  EXPECT_THAT(empty->collectives.rows, SizeIs(0));
}

TEST(RankSummaryTest, TheVerdictIsThatOfTheEvents) {
  std::vector<CollectiveTable> recorded;
  std::vector<CollectiveTable> kept;
  recorded.reserve(4);
  kept.reserve(4);
  for (int64_t rank = 0; rank < 4; ++rank) {
    recorded.push_back(ARank(rank, 6, 10));
    absl::StatusOr<RankSummary> summary = DecodeRankSummary(EncodedOf(recorded.back()));
    ASSERT_THAT(summary, IsOk());
    kept.push_back(std::move(summary->collectives));
  }
  const GroupSteps before = Compare(recorded);
  const GroupSteps after = Compare(kept);
  EXPECT_EQ(before.verdict, StragglerVerdict::kStraggler);
  EXPECT_EQ(after.verdict, before.verdict);
  ASSERT_EQ(after.ranking.size(), before.ranking.size());
  for (size_t i = 0; i < before.ranking.size(); ++i) {
    EXPECT_EQ(after.ranking[i].member, before.ranking[i].member);
    EXPECT_EQ(after.ranking[i].caused_wait_ns, before.ranking[i].caused_wait_ns);
    EXPECT_EQ(after.ranking[i].own_ns, before.ranking[i].own_ns);
    EXPECT_EQ(after.ranking[i].score, before.ranking[i].score);
  }
}

TEST(RankSummaryTest, WhatDoesNotFitIsCutAtAStepAndCounted) {
  CollectiveTable table = ARank(0, 10, 1'000);
  table.rows.push_back({.step = -1, .kind = CollectiveKind::kBarrier});
  const absl::StatusOr<RankSummary> summary = DecodeRankSummary(EncodedOf(table));
  ASSERT_THAT(summary, IsOk());
  EXPECT_THAT(summary->collectives.steps, SizeIs(8));  // Of 8192 / 1000.
  EXPECT_THAT(summary->collectives.rows, SizeIs(8'000));
  EXPECT_EQ(summary->collectives.rows.back().step, 107);
  EXPECT_EQ(summary->left_out_step_count, 2);
  EXPECT_EQ(summary->collectives.left_out_count, 3 + 2'000 + 1);

  const absl::StatusOr<RankSummary> many = DecodeRankSummary(EncodedOf(ARank(0, 2'000, 1)));
  ASSERT_THAT(many, IsOk());
  EXPECT_THAT(many->collectives.steps, SizeIs(kMostSummarySteps));
  EXPECT_EQ(many->left_out_step_count, 2'000 - static_cast<int64_t>(kMostSummarySteps));
}

TEST(RankSummaryTest, WindowsThatRepeatStepNumbersAreCutToTheLimit) {
  CollectiveTable table = ARank(0, 600, 1);
  const CollectiveTable again = ARank(0, 600, 1);
  table.rows.insert(table.rows.end(), again.rows.begin(), again.rows.end());
  table.steps.insert(table.steps.end(), again.steps.begin(), again.steps.end());
  const absl::StatusOr<RankSummary> summary = DecodeRankSummary(EncodedOf(table));
  ASSERT_THAT(summary, IsOk());
  EXPECT_THAT(summary->collectives.steps, SizeIs(kMostSummarySteps));
  EXPECT_EQ(summary->left_out_step_count, 1'200 - static_cast<int64_t>(kMostSummarySteps));
}

TEST(RankSummaryTest, WhatCannotBeCutAtAStepIsOverBudget) {
  EXPECT_TRUE(IsOverBudget(EncodeRankSummary(ARank(0, 2, 9'000)).status()));
  CollectiveTable windows = ARank(0, 1, 9'000);
  for (CollectiveRow& row : windows.rows) row.step = -1;
  windows.steps = {{.step = -1, .duration_ns = 5}};
  EXPECT_TRUE(IsOverBudget(EncodeRankSummary(windows).status()));
}

TEST(RankSummaryTest, DamagedBytesAreRefused) {
  const std::string bytes = EncodedOf(ARank(1, 3, 7));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    EXPECT_THAT(DecodeRankSummary(damaged), StatusIs(absl::StatusCode::kDataLoss)) << at;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeRankSummary(bytes.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(DecodeRankSummary(bytes + "x"), StatusIs(absl::StatusCode::kDataLoss));
  // Undamaged, but of a rank that no daemon has.
  CollectiveTable lying = ARank(1, 3, 7);
  lying.rows[2].communicator = 7;
  EXPECT_THAT(DecodeRankSummary(EncodedOf(lying)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("fit together")));
}

}  // namespace
}  // namespace profd::report
