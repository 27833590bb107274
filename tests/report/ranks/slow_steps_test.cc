// Ranks made by hand that all-reduce in each step: healthy ones with noise of several kinds, and
// ones that are slow in some steps, or by another time in each.
#include "daemon/report/ranks/slow_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "daemon/report/ranks/collective_match.h"
#include "tests/fakes/nanoseconds.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// By rank, then by step.
using Times = std::vector<std::vector<int64_t>>;

// What ranks do in each step: work, an all-reduce of 1 ms that ends for all at once, and work
// after it, which delays the next step's all-reduce.
struct Job {
  Times before_ns = {};
  Times after_ns = {};     // Empty: none.
  Times cpu_wait_ns = {};  // Empty: not known.

  std::vector<CollectiveTable> Run() const {
    const size_t ranks = before_ns.size();
    std::vector<CollectiveTable> tables(ranks,
                                        {.communicators = {{.size = static_cast<int64_t>(ranks)}}});
    std::vector<int64_t> now_ns(ranks);
    for (size_t step = 0; step < before_ns[0].size(); ++step) {
      std::vector<int64_t> arrival_ns;
      for (size_t rank = 0; rank < ranks; ++rank) {
        arrival_ns.push_back(now_ns[rank] + before_ns[rank][step]);
      }
      const int64_t done_ns = std::ranges::max(arrival_ns) + kMs;
      for (size_t rank = 0; rank < ranks; ++rank) {
        const int64_t in_collective_ns = done_ns - arrival_ns[rank];
        const int64_t end_ns = done_ns + (after_ns.empty() ? 0 : after_ns[rank][step]);
        const auto number = static_cast<int64_t>(step);
        tables[rank].rows.push_back({.duration_ns = in_collective_ns,
                                     .exposed_ns = in_collective_ns,
                                     .sequence = number,
                                     .step = number,
                                     .kind = CollectiveKind::kAllReduce});
        tables[rank].steps.push_back(
            {.step = number,
             .duration_ns = end_ns - now_ns[rank],
             .exposed_ns = in_collective_ns,
             .cpu_wait_ns = cpu_wait_ns.empty() ? -1 : cpu_wait_ns[rank][step]});
        now_ns[rank] = end_ns;
      }
    }
    return tables;
  }

  GroupSteps Compare() const {
    const std::vector<CollectiveTable> tables = Run();
    std::vector<const CollectiveTable*> members;
    members.reserve(tables.size());
    for (const CollectiveTable& table : tables) members.push_back(&table);
    return CompareSteps(members, MatchCollectives(members));
  }
};

Times Constant(size_t ranks, size_t steps, int64_t ns) {
  return Times(ranks, std::vector<int64_t>(steps, ns));
}

// 20 ms of work in each step, give or take 1.5 ms.
Times Usual(size_t ranks, size_t steps, std::mt19937& random) {
  std::normal_distribution<double> work(20e6, 1.5e6);
  Times times = Constant(ranks, steps, 0);
  for (std::vector<int64_t>& of_rank : times) {
    for (int64_t& ns : of_rank) ns = std::max<int64_t>(0, std::llround(work(random)));
  }
  return times;
}

std::vector<size_t> Named(const GroupSteps& steps) {
  std::vector<size_t> named;
  if (steps.verdict == StragglerVerdict::kPair) named.push_back(steps.ranking.front().member);
  for (const RankScore& rank : steps.ranking) {
    if (rank.straggler) named.push_back(rank.member);
  }
  std::ranges::sort(named);
  return named;
}

TEST(SlowStepsTest, ADelayIsSeenFromBothSides) {
  Job job = {.before_ns = Constant(3, 4, 20 * kMs)};
  job.before_ns[1][2] = 50 * kMs;
  const GroupSteps steps = job.Compare();
  EXPECT_THAT(DelaysOf(steps.members),
              ElementsAre(ElementsAre(0, 0, 0, 0), ElementsAre(0, 0, 30 * kMs, 0),
                          ElementsAre(0, 0, 0, 0)));
}

TEST(SlowStepsTest, WorkAtTheEndOfAStepDelaysTheNextOnesCollectiveAndCountsForItsOwnStep) {
  Job job = {.before_ns = Constant(3, 4, 20 * kMs), .after_ns = Constant(3, 4, 0)};
  job.after_ns[1][1] = 30 * kMs;
  job.after_ns[1][3] = 30 * kMs;  // Nobody is seen to wait for it.
  EXPECT_THAT(DelaysOf(job.Compare().members)[1], ElementsAre(0, 30 * kMs, 0, 0));
}

// Inputs of another length in each step.
TEST(SlowStepsTest, ARankThatIsSlowerByAnotherTimeInEachStepIsTheStraggler) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int64_t> extra(0, 60 * kMs);
  for (const size_t ranks : {2, 3, 4, 8}) {
    int found = 0;
    for (int run = 0; run < 100; ++run) {
      Job job = {.before_ns = Usual(ranks, 20, random)};
      for (int64_t& ns : job.before_ns[1]) ns += extra(random);
      const std::vector<size_t> named = Named(job.Compare());
      if (!named.empty()) {
        EXPECT_THAT(named, ElementsAre(1));
        ++found;
      }
    }
    EXPECT_GE(found, 98) << ranks << " ranks";
  }
}

TEST(SlowStepsTest, WorkInEveryThirdStepMakesAStragglerAndTheStepsAreSaid) {
  std::mt19937 random(2);
  for (const bool at_end : {false, true}) {
    for (const size_t ranks : {2, 3, 4, 8}) {
      for (int run = 0; run < 50; ++run) {
        Job job = {.before_ns = Usual(ranks, 13, random), .after_ns = Constant(ranks, 13, 0)};
        for (const size_t step : {2, 5, 8, 11}) {
          (at_end ? job.after_ns : job.before_ns)[1][step] += 58 * kMs;
        }
        const GroupSteps steps = job.Compare();
        EXPECT_THAT(Named(steps), ElementsAre(1)) << ranks << " ranks, " << at_end;
        const RankScore& slow = steps.ranking.front();
        EXPECT_TRUE(slow.is_slow_in_steps);
        EXPECT_THAT(slow.slow_steps, ElementsAre(2, 5, 8, 11));
        EXPECT_EQ(slow.slow_step_period, 3);
        EXPECT_NEAR(static_cast<double>(slow.slow_step_delay_ns), 58e6, 3e6);
      }
    }
  }
}

TEST(SlowStepsTest, TheTextNamesHowManyStepsHowLongAndWhich) {
  Job job = {.before_ns = Constant(4, 12, 20 * kMs)};
  for (const size_t step : {2, 5, 8, 11}) job.before_ns[2][step] += 58 * kMs;
  GroupSteps steps = job.Compare();
  EXPECT_EQ(SlowStepsText(steps.ranking.front()),
            "in 4 of 12 steps, by 58.000ms each (every 3rd step: 2, 5, 8, 11)");
  job.before_ns[2] = {20 * kMs, 30 * kMs, 60 * kMs, 50 * kMs, 20 * kMs, 80 * kMs,
                      30 * kMs, 60 * kMs, 50 * kMs, 30 * kMs, 70 * kMs, 30 * kMs};
  steps = job.Compare();
  EXPECT_EQ(SlowStepsText(steps.ranking.front()),
            "in 10 of 12 steps, by 29.000ms on average (10.000ms to 60.000ms)");
  EXPECT_EQ(SlowStepsText(steps.ranking.back()), "");
}

TEST(SlowStepsTest, TwoOfEightRanksCanBeSlowInTurn) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int64_t> extra(0, 60 * kMs);
  int found = 0;
  for (int run = 0; run < 50; ++run) {
    Job job = {.before_ns = Usual(8, 20, random)};
    for (const size_t rank : {2, 5}) {
      for (int64_t& ns : job.before_ns[rank]) ns += extra(random);
    }
    const std::vector<size_t> named = Named(job.Compare());
    for (const size_t rank : named) EXPECT_TRUE(rank == 2 || rank == 5) << rank;
    found += named.size() == 2 ? 1 : 0;
  }
  EXPECT_GE(found, 35);
}

// Each makes one step of healthy ranks longer or shorter.
using Noise = std::function<int64_t(size_t rank, size_t step, std::mt19937& random)>;

void ExpectNobodyNamed(const std::string& name, const Noise& noise) {
  std::mt19937 random(4);
  int named = 0;  // Of 2400 jobs.
  for (const size_t ranks : {2, 3, 4, 8}) {
    for (const size_t step_count : {6, 12, 40}) {
      for (int run = 0; run < 200; ++run) {
        Job job = {.before_ns = Usual(ranks, step_count, random)};
        for (size_t step = 0; step < step_count; ++step) {
          for (size_t rank = 0; rank < ranks; ++rank) {
            job.before_ns[rank][step] += noise(rank, step, random);
          }
        }
        named += Named(job.Compare()).empty() ? 0 : 1;
      }
    }
  }
  EXPECT_LE(named, 8) << name;
}

TEST(SlowStepsTest, HealthyRanksAreNotNamed) {
  std::uniform_real_distribution<double> chance(0, 1);
  ExpectNobodyNamed("pauses", [&](size_t, size_t, std::mt19937& random) {
    return chance(random) < 0.1 ? 30 * kMs : 0;
  });
  ExpectNobodyNamed("long tails", [&](size_t, size_t, std::mt19937& random) {
    return static_cast<int64_t>(2e6 / (1e-3 + chance(random)));
  });
  ExpectNobodyNamed("inputs of all ranks vary", [&](size_t, size_t, std::mt19937& random) {
    return static_cast<int64_t>(60e6 * chance(random));
  });
  // All evaluate in every third step: who is last in it is chance.
  ExpectNobodyNamed("pattern of all ranks", [&](size_t, size_t step, std::mt19937& random) {
    return step % 3 == 2 ? static_cast<int64_t>(60e6 + 10e6 * chance(random)) : 0;
  });
}

TEST(SlowStepsTest, RanksThatWorkMoreInTurnAreNotNamed) {
  for (const size_t ranks : {2, 3, 4, 8}) {
    Job job = {.before_ns = Constant(ranks, 24, 20 * kMs)};
    for (size_t step = 0; step < 24; ++step) job.before_ns[step % ranks][step] += 50 * kMs;
    const GroupSteps steps = job.Compare();
    EXPECT_EQ(steps.verdict, StragglerVerdict::kNone);
  }
}

TEST(SlowStepsTest, WaitsForACpuInTheSlowStepsWithholdTheVerdict) {
  Job job = {.before_ns = Constant(4, 12, 20 * kMs), .cpu_wait_ns = Constant(4, 12, kMs)};
  for (const size_t step : {2, 5, 8, 11}) {
    job.before_ns[2][step] += 58 * kMs;
    job.cpu_wait_ns[2][step] += 40 * kMs;
  }
  GroupSteps steps = job.Compare();
  EXPECT_EQ(steps.verdict, StragglerVerdict::kWithheld);
  EXPECT_EQ(steps.reason, StragglerReason::kCpuWaits);
  EXPECT_TRUE(steps.cpu_waits_can_explain);
  EXPECT_THAT(Named(steps), IsEmpty());
  for (const size_t step : {2, 5, 8, 11}) job.cpu_wait_ns[2][step] = 3 * kMs;
  steps = job.Compare();
  EXPECT_THAT(Named(steps), ElementsAre(2));
  EXPECT_EQ(steps.ranking.front().slow_by_cpu_waits, CpuWaitCause::kNo);
}

TEST(SlowStepsTest, FewStepsWithoutAPatternMayBeChance) {
  Job job = {.before_ns = Constant(4, 10, 20 * kMs)};
  for (const size_t step : {3, 6, 7}) job.before_ns[1][step] += 20 * kMs;
  const GroupSteps steps = job.Compare();
  EXPECT_EQ(steps.verdict, StragglerVerdict::kNone);
  EXPECT_EQ(steps.reason, StragglerReason::kFewSteps);
  EXPECT_EQ(SlowStepsText(steps.ranking.front()),
            "in 3 of 10 steps, by 20.000ms each (steps 3, 6, 7)");
  EXPECT_FALSE(steps.ranking.front().is_beyond_chance);
}

// Of a second rank that works more in each step, nobody is seen to wait.
TEST(SlowStepsTest, TheRankThatOthersWaitForIsNamedNotTheOneWithMoreOwnWorkInEachStep) {
  Job job = {.before_ns = Constant(4, 12, 20 * kMs)};
  job.before_ns[0] = std::vector<int64_t>(12, 24 * kMs);
  for (const size_t step : {1, 4, 7, 10}) job.before_ns[2][step] += 200 * kMs;
  const GroupSteps steps = job.Compare();
  EXPECT_THAT(Named(steps), ElementsAre(2));
  EXPECT_THAT(steps.ranking.front().slow_steps, SizeIs(4));
}

TEST(SlowStepsTest, ShortDelaysOfABusyMachineDoNotHideLongOnes) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> chance(0, 1);
  for (int run = 0; run < 50; ++run) {
    Job job = {.before_ns = Usual(4, 13, random)};
    for (std::vector<int64_t>& of_rank : job.before_ns) {
      for (int64_t& ns : of_rank) ns += chance(random) < 0.3 ? 8 * kMs : 0;
    }
    for (const size_t step : {2, 5, 8, 11}) job.before_ns[3][step] += 58 * kMs;
    EXPECT_THAT(Named(job.Compare()), ElementsAre(3));
  }
}

}  // namespace
}  // namespace profd::report
