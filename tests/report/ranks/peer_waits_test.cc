// Pipelines made by hand: stages that receive, work, and send, forward and backward.
#include "daemon/report/ranks/peer_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/group_reports.h"
#include "tests/fakes/nanoseconds.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int64_t kTransferNs = 100 * kUs;

CollectiveRow Row(CollectiveKind kind, int64_t duration_ns, int64_t step = 0) {
  return {.duration_ns = duration_ns,
          .exposed_ns = duration_ns,
          .elements = 1000,
          .bytes = 4000,
          .step = step,
          .kind = kind};
}

// Stages that send the activations of microbatches forward, and their gradients back.
class Pipeline {
 public:
  // `work_ns`: of each stage for a microbatch, either way.
  Pipeline(std::vector<int64_t> work_ns, size_t microbatches)
      : work_ns_(std::move(work_ns)),
        microbatches_(microbatches),
        now_ns_(work_ns_.size()),
        tables_(work_ns_.size(),
                {.communicators = {{.size = static_cast<int64_t>(work_ns_.size())}}}) {}

  void RunStep(int64_t step) {
    step_ = step;
    const std::vector<int64_t> begin_ns = now_ns_;
    for (CollectiveTable& table : tables_) table.steps.push_back({.step = step});
    for (const bool is_forward : {true, false}) {
      std::vector<int64_t> sent_ns(microbatches_);  // By the stage before, or after.
      for (size_t i = 0; i < work_ns_.size(); ++i) {
        const size_t stage = is_forward ? i : work_ns_.size() - 1 - i;
        for (int64_t& of_microbatch_ns : sent_ns) {
          if (i > 0) {
            const int64_t begin = now_ns_[stage];
            Add(stage, CollectiveKind::kReceive, std::max(begin, of_microbatch_ns) - begin);
          }
          now_ns_[stage] += work_ns_[stage];
          of_microbatch_ns = now_ns_[stage];
          if (i + 1 < work_ns_.size()) Add(stage, CollectiveKind::kSend, 0);
        }
      }
    }
    for (size_t stage = 0; stage < work_ns_.size(); ++stage) {
      tables_[stage].steps.back().duration_ns = now_ns_[stage] - begin_ns[stage];
    }
  }

  GroupSteps Compare() const {
    std::vector<const CollectiveTable*> members;
    for (const CollectiveTable& table : tables_) members.push_back(&table);
    return CompareSteps(members, MatchCollectives(members));
  }

 private:
  void Add(size_t stage, CollectiveKind kind, int64_t wait_ns) {
    tables_[stage].rows.push_back(Row(kind, wait_ns + kTransferNs, step_));
    tables_[stage].steps.back().exposed_ns += wait_ns + kTransferNs;
    now_ns_[stage] += wait_ns + kTransferNs;
  }

  const std::vector<int64_t> work_ns_;
  const size_t microbatches_;
  int64_t step_ = 0;
  std::vector<int64_t> now_ns_;
  std::vector<CollectiveTable> tables_;
};

GroupSteps StepsOfPipeline(std::vector<int64_t> work_ns) {
  Pipeline pipeline(std::move(work_ns), /*microbatches=*/4);
  for (int64_t step = 0; step < 8; ++step) pipeline.RunStep(step);
  return pipeline.Compare();
}

TEST(PeerWaitsTest, AReceiveWaitsForAsLongAsItTakesLongerThanTheShortestOfItsSize) {
  CollectiveTable a = {.rows = {Row(CollectiveKind::kReceive, 5 * kMs),
                                Row(CollectiveKind::kReceive, kMs, /*step=*/1),
                                Row(CollectiveKind::kAllReduce, 9 * kMs)}};
  const CollectiveTable b = {
      .rows = {Row(CollectiveKind::kReceive, 200 * kUs), Row(CollectiveKind::kSend, 50 * kUs)}};
  a.rows[0].exposed_ns = 4 * kMs;  // The rest was hidden.
  CollectiveRow larger = Row(CollectiveKind::kReceive, 7 * kMs);
  larger.bytes = 8000;
  a.rows.push_back(larger);  // The only one of its size: it may be all transfer.
  const std::vector<const CollectiveTable*> members = {&a, nullptr, &b};
  EXPECT_THAT(PeerWaitsOf(members),
              ElementsAre(ElementsAre(Pair(0, 3800 * kUs), Pair(1, 800 * kUs)), IsEmpty(),
                          ElementsAre(Pair(0, 0))));
}

TEST(PeerWaitsTest, TheSlowStageOfAPipelineIsTheStraggler) {
  for (size_t slow = 0; slow < 4; ++slow) {
    std::vector<int64_t> work_ns(4, 5 * kMs);
    work_ns[slow] = 15 * kMs;
    const GroupSteps steps = StepsOfPipeline(work_ns);
    EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler) << slow;
    ASSERT_EQ(steps.ranking.size(), 4u);
    EXPECT_EQ(steps.ranking[0].member, slow);
    for (const RankScore& rank : steps.ranking) EXPECT_EQ(rank.straggler, rank.member == slow);
    // What the others wait is not transfer: at least what the slow stage works longer.
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_GE(steps.ranking[i].wait_ns, 50 * kMs) << steps.ranking[i].member;
      EXPECT_LE(steps.ranking[i].transfer_ns, 2 * kMs);
      EXPECT_EQ(steps.ranking[i].wait_ns, steps.ranking[i].peer_wait_ns);
    }
  }
}

TEST(PeerWaitsTest, TheBubbleOfABalancedPipelineIsWaitingAndNoStagesFault) {
  const GroupSteps steps = StepsOfPipeline({5 * kMs, 5 * kMs, 5 * kMs, 5 * kMs});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kNone);
  for (const RankScore& rank : steps.ranking) {
    EXPECT_GE(rank.peer_wait_ns, 20 * kMs) << rank.member;
    EXPECT_FALSE(rank.straggler);
  }
}

TEST(PeerWaitsTest, OfTwoStagesOneWaitsForTheOther) {
  const GroupSteps steps = StepsOfPipeline({5 * kMs, 15 * kMs});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kPair);
  EXPECT_EQ(steps.ranking[0].member, 1u);
  EXPECT_GE(steps.ranking[0].caused_wait_ns, 50 * kMs);
}

TEST(PeerWaitsTest, StagesThatOnlySendAreNoStragglersOfTheOthers) {
  // No rank waits: more own work delays nobody.
  std::vector<CollectiveTable> tables(3, {.communicators = {{.size = 3}}});
  for (size_t rank = 0; rank < 3; ++rank) {
    for (int64_t step = 0; step < 6; ++step) {
      tables[rank].rows.push_back(Row(CollectiveKind::kSend, kTransferNs, step));
      tables[rank].steps.push_back(
          {.step = step, .duration_ns = (rank == 1 ? 30 : 20) * kMs, .exposed_ns = kTransferNs});
    }
  }
  const std::vector<const CollectiveTable*> members = {&tables[0], &tables[1], &tables[2]};
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_EQ(steps.verdict, StragglerVerdict::kWithheld);
}

}  // namespace
}  // namespace profd::report
