// MeasureSlowdown() on series whose answer is known: no effect under noise of many kinds, a true
// one, and too little to tell.
#include "daemon/capture/slowdown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace profd {
namespace {

using ::testing::HasSubstr;

constexpr double kNsPerMs = 1e6;
// One-sided: how often the lower end may exceed 0 although recording costs nothing.
constexpr double kNominalFalseAlarms = 0.025;

// The times of consecutive steps, from the first before the window to the last after it.
using Series = std::function<double(int step)>;

StepTimes Cut(const Series& series, int before, int during, int after, double slowdown = 1) {
  StepTimes times;
  int step = 0;
  for (int i = 0; i < before; ++i) times.before.push_back(llrint(series(step++)));
  for (int i = 0; i < during; ++i) times.during.push_back(llrint(slowdown * series(step++)));
  for (int i = 0; i < after; ++i) times.after.push_back(llrint(series(step++)));
  return times;
}

class Noise {
 public:
  explicit Noise(uint32_t seed) : random_(seed) {}
  double Normal() { return normal_(random_); }
  double Uniform() { return uniform_(random_); }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

// ---- one series each ----

TEST(SlowdownTest, ATrueSlowDownIsFoundWithItsSize) {
  Noise noise(1);
  const auto steady = [&](int) { return 100 * kNsPerMs * std::exp(0.01 * noise.Normal()); };
  const SlowdownRecord slowdown = MeasureSlowdown(Cut(steady, 43, 10, 20, 1.10));
  ASSERT_TRUE(slowdown.known);
  EXPECT_GT(slowdown.low, 0.05);
  EXPECT_LT(slowdown.high, 0.15);
  EXPECT_NEAR(slowdown.estimate, 0.10, 0.01);
  EXPECT_EQ(slowdown.before_step_count, 43);
  EXPECT_EQ(slowdown.during_step_count, 10);
  EXPECT_EQ(slowdown.after_step_count, 20);
}

TEST(SlowdownTest, WhatWaitsForACpuExplainIsNotCertain) {
  const SlowdownRecord measured = {.known = true,
                                   .estimate = 0.10,
                                   .low = 0.08,
                                   .high = 0.12,
                                   .before_step_count = 43,
                                   .during_step_count = 10,
                                   .after_step_count = 20};
  SlowdownRecord slowdown = measured;
  DiscountWaits(0, slowdown);
  EXPECT_EQ(slowdown, measured);
  DiscountWaits(0.05, slowdown);
  EXPECT_NEAR(slowdown.low, 1.08 * 0.95 - 1, 1e-9);
  EXPECT_EQ(slowdown.estimate, 0.10);
  slowdown = measured;
  DiscountWaits(0.08, slowdown);
  EXPECT_TRUE(slowdown.known);
  EXPECT_EQ(slowdown.low, 0);
  EXPECT_THAT(DescribeSlowdown(slowdown), HasSubstr("within noise"));
  slowdown = measured;
  DiscountWaits(1, slowdown);
  EXPECT_EQ(slowdown.low, 0) << "waits of many threads make nothing faster";
}

TEST(SlowdownTest, WaitsThatGoOnAfterTheCaptureExplainNothing) {
  CpuRecord cpu = {
      .watched_ns = 1000,
      .threads = {{.ran_ns = 500, .waited_ns = 400}, {.ran_ns = 300, .waited_ns = 200}}};
  EXPECT_DOUBLE_EQ(DelayShareBeyondAfter(cpu), 0.6);
  cpu.after_watched_ns = 1000;
  // As it waited in the window; for the other one, that is not known.
  cpu.threads[0].after_ran_ns = 500;
  cpu.threads[0].after_waited_ns = 400;
  EXPECT_DOUBLE_EQ(DelayShareBeyondAfter(cpu), 0.2);
  cpu.threads[0].after_waited_ns = 100;
  EXPECT_DOUBLE_EQ(DelayShareBeyondAfter(cpu), 0.5);
  cpu.threads[0].after_waited_ns = 450;
  EXPECT_DOUBLE_EQ(DelayShareBeyondAfter(cpu), 0.2) << "it did not wait longer than it waited";
  EXPECT_DOUBLE_EQ(DelayShare(cpu), 0.6);
}

TEST(SlowdownTest, AWaitThatLeavesNothingCertainAndExcludesNothingMakesItUnknown) {
  SlowdownRecord slowdown = {.known = true,
                             .estimate = 0.2,
                             .low = 0.06,
                             .high = 0.5,
                             .before_step_count = 43,
                             .during_step_count = 20,
                             .after_step_count = 20};
  DiscountWaits(0.1, slowdown);
  EXPECT_FALSE(slowdown.known);
  EXPECT_EQ(slowdown.high, 0);
  EXPECT_THAT(SlowdownClause(slowdown),
              HasSubstr("waited for a CPU, which can explain up to 10% of the window"));
  EXPECT_THAT(SlowdownClause(slowdown), HasSubstr("+20.0 % (+6.0 … +50.0 %)"));
}

TEST(SlowdownTest, NoiseExplainsWhatItCan) {
  Noise noise(2);
  const auto noisy = [&](int) { return 100 * kNsPerMs * std::exp(0.1 * noise.Normal()); };
  const SlowdownRecord slowdown = MeasureSlowdown(Cut(noisy, 43, 10, 20));
  ASSERT_TRUE(slowdown.known);
  EXPECT_LT(slowdown.low, 0);
  EXPECT_GT(slowdown.high, 0);
  EXPECT_THAT(DescribeSlowdown(slowdown), HasSubstr("within noise"));
}

TEST(SlowdownTest, AnIntervalThatExcludesNothingIsUnknown) {
  for (const bool cupti_stays : {false, true}) {
    Noise noise(2);
    const auto heavy = [&](int) { return 100 * kNsPerMs * std::exp(0.8 * noise.Normal()); };
    const SlowdownRecord slowdown = MeasureSlowdown(Cut(heavy, 43, 10, 20), cupti_stays);
    EXPECT_FALSE(slowdown.known);
    EXPECT_EQ(slowdown.low, 0);
    EXPECT_EQ(slowdown.high, 0);
    EXPECT_THAT(DescribeSlowdown(slowdown), HasSubstr("unknown: step times vary too much ("));
    EXPECT_THAT(DescribeSlowdown(slowdown), HasSubstr("10 steps, compared with 43 before"));
  }
}

// However noisy: what it excludes is that recording costs nothing.
TEST(SlowdownTest, AWideIntervalAboveZeroIsKnown) {
  Noise noise(2);
  const auto heavy = [&](int) { return 100 * kNsPerMs * std::exp(0.3 * noise.Normal()); };
  const SlowdownRecord slowdown = MeasureSlowdown(Cut(heavy, 43, 20, 20, 3));
  ASSERT_TRUE(slowdown.known);
  EXPECT_GT(slowdown.low, 0.5);
  EXPECT_GT(slowdown.high, slowdown.low + kMuchSlower);
}

// A program that is ahead of its GPU, on an H200: where the launch queue had run empty, some steps
// only fill it again; the others take what the GPU takes, which drifts by less than 1 %.
TEST(SlowdownTest, StepsThatFillTheLaunchQueueHideNothing) {
  const auto ahead = [](int step) {
    const bool fills = step < 2 || step == 63 || step == 64;
    return kNsPerMs * (fills ? 23.5 : 36 + 0.003 * step);
  };
  const SlowdownRecord slowdown = MeasureSlowdown(Cut(ahead, 63, 20, 20));
  ASSERT_TRUE(slowdown.known) << slowdown.unknown_reason;
  EXPECT_LE(slowdown.low, 0);
  EXPECT_LT(slowdown.high, 0.02);
  const SlowdownRecord slowed = MeasureSlowdown(Cut(ahead, 63, 20, 20, 1.3));
  EXPECT_FALSE(slowed.known && slowed.high < 0.29) << "a slow-down is not hidden, either";
}

TEST(SlowdownTest, TwoKindsOfStepsInOtherSharesAreNoSlowDown) {
  // Of two lengths, evenly; the window happens to hold more of the long ones.
  StepTimes times;
  for (int i = 0; i < 40; ++i) times.before.push_back(i * 7 % 20 < 10 ? 10'000'000 : 30'000'000);
  for (int i = 0; i < 20; ++i) times.after.push_back(i * 7 % 20 < 10 ? 10'000'000 : 30'000'000);
  for (int i = 0; i < 5; ++i) times.during.push_back(i == 0 ? 10'000'000 : 30'000'000);
  const SlowdownRecord slowdown = MeasureSlowdown(times);
  EXPECT_TRUE(!slowdown.known || slowdown.low <= 0) << slowdown.low;
}

TEST(SlowdownTest, AnEvaluationStepInTheWindowIsNoSlowDown) {
  Noise noise(3);
  const auto steady = [&](int) { return 100 * kNsPerMs * std::exp(0.02 * noise.Normal()); };
  StepTimes times = Cut(steady, 43, 10, 20);
  times.during[4] = 15'000'000'000;
  const SlowdownRecord slowdown = MeasureSlowdown(times);
  ASSERT_TRUE(slowdown.known);
  EXPECT_LE(slowdown.low, 0);
  EXPECT_NEAR(slowdown.estimate, 0, 0.03);
}

TEST(SlowdownTest, AProgramThatBecomesSlowerByItselfIsNotSlowedByRecording) {
  const auto drifting = [](int step) { return (100 + step) * kNsPerMs; };
  const SlowdownRecord both = MeasureSlowdown(Cut(drifting, 43, 10, 20));
  EXPECT_TRUE(!both.known || both.low <= 0) << both.low;
  // Without steps after the window, the drift before it is what to expect.
  const SlowdownRecord before_only = MeasureSlowdown(Cut(drifting, 43, 10, 0));
  EXPECT_TRUE(!before_only.known || before_only.low <= 0) << before_only.low;
  const SlowdownRecord after_only = MeasureSlowdown(Cut(drifting, 0, 10, 43));
  EXPECT_TRUE(!after_only.known || after_only.low <= 0) << after_only.low;
}

TEST(SlowdownTest, ALevelThatChangesAtTheWindowAndStaysIsNotBlamedOnRecording) {
  Noise noise(4);
  const auto jump = [&](int step) {
    return (step < 43 ? 100 : 150) * kNsPerMs * std::exp(0.01 * noise.Normal());
  };
  const SlowdownRecord slowdown = MeasureSlowdown(Cut(jump, 43, 10, 20));
  EXPECT_FALSE(slowdown.known);  // It may cost nothing, or half a step.
}

TEST(SlowdownTest, WithoutStepsAfterTheWindowALargeSlowDownIsStillFound) {
  Noise noise(5);
  const auto steady = [&](int) { return 100 * kNsPerMs * std::exp(0.01 * noise.Normal()); };
  const SlowdownRecord slowdown = MeasureSlowdown(Cut(steady, 43, 10, 0, 1.5));
  ASSERT_TRUE(slowdown.known);
  EXPECT_GT(slowdown.low, 0.4);
}

TEST(SlowdownTest, EqualStepsHaveAnExactAnswer) {
  const SlowdownRecord slowdown =
      MeasureSlowdown(Cut([](int) { return 100 * kNsPerMs; }, 43, 5, 20, 1.25));
  ASSERT_TRUE(slowdown.known);
  EXPECT_NEAR(slowdown.low, 0.25, 1e-9);
  EXPECT_NEAR(slowdown.high, 0.25, 1e-9);
  EXPECT_EQ(DescribeSlowdown(slowdown),
            "+25.0 % (+25.0 … +25.0 %); 5 steps, compared with 43 before and 20 after");
}

TEST(SlowdownTest, CuptiThatStaysHidesNothing) {
  Noise noise(6);
  const auto with_cupti = [&](int step) {
    const double share = step < 43 ? 0 : step < 53 ? 0.54 : 0.30;
    return (1 + share) * 100 * kNsPerMs * std::exp(0.01 * noise.Normal());
  };
  const StepTimes times = Cut(with_cupti, 43, 10, 20);
  EXPECT_LT(MeasureSlowdown(times).low, 0.22);  // Against the steps after the window.
  const SlowdownRecord slowdown = MeasureSlowdown(times, /*cupti_stays=*/true);
  ASSERT_TRUE(slowdown.known);
  EXPECT_GT(slowdown.low, 0.50);
  EXPECT_NEAR(slowdown.estimate, 0.54, 0.01);
  ASSERT_TRUE(slowdown.remains_known);
  EXPECT_NEAR(slowdown.remains, 0.30, 0.01);
  EXPECT_GT(slowdown.remains_low, 0.26);
  EXPECT_LT(slowdown.remains_high, 0.34);
  EXPECT_THAT(DescribeSlowdown(slowdown), HasSubstr("10 steps, compared with 43 before; CUPTI "
                                                    "stays in the process: +"));
  EXPECT_THAT(DescribeSlowdown(slowdown), HasSubstr(" in the 20 steps after"));
}

TEST(SlowdownTest, AClauseForPeopleNamesBothSides) {
  SlowdownRecord slowdown = {.known = true,
                             .estimate = 0.02,
                             .low = -0.01,
                             .high = 0.05,
                             .before_step_count = 43,
                             .during_step_count = 1,
                             .after_step_count = 0};
  EXPECT_EQ(SlowdownClause(slowdown),
            "no slow-down through recording is certain: the recorded step took 2% longer than the "
            "43 steps before the recording (within noise: 1% less time to 5% longer)");
  slowdown.low = 0.01;
  slowdown.before_step_count = 0;
  slowdown.after_step_count = 20;
  EXPECT_EQ(SlowdownClause(slowdown),
            "the recorded step took 2% longer than the 20 steps after the recording (at least 1%, "
            "at most 5%)");
  slowdown.low = slowdown.estimate = -0.03;
  slowdown.high = -0.02;
  slowdown.during_step_count = 5;
  EXPECT_EQ(SlowdownClause(slowdown),
            "recording did not slow the program down: the 5 recorded steps took 3% less time than "
            "the 20 steps after the recording (3% less time to 2% less time)");
  slowdown.low = slowdown.estimate = slowdown.high = 0.1;
  slowdown.before_step_count = 43;
  slowdown.cupti_stays = slowdown.remains_known = true;
  slowdown.remains = 0.13;
  slowdown.remains_low = 0.112;
  slowdown.remains_high = 0.149;
  EXPECT_EQ(SlowdownClause(slowdown),
            "the 5 recorded steps took 10% longer than the 43 steps before the recording (at least "
            "10%, at most 10%); CUPTI stays in the process: the 20 steps after the recording took "
            "13% longer than those before it (11.2% longer to 14.9% longer)");
  EXPECT_EQ(SlowdownClause({.unknown_reason = "why"}), "slow-down through recording unknown: why");
}

TEST(SlowdownTest, WhatRemainsIsNotKnownWithoutStepsBefore) {
  const auto steady = [](int) { return 100 * kNsPerMs; };
  const SlowdownRecord slowdown = MeasureSlowdown(Cut(steady, 3, 5, 20), /*cupti_stays=*/true);
  EXPECT_FALSE(slowdown.known);
  EXPECT_FALSE(slowdown.remains_known);
  EXPECT_THAT(slowdown.unknown_reason, HasSubstr("only 3 steps before the window are known"));
  EXPECT_THAT(DescribeSlowdown(slowdown), HasSubstr("how much is not known"));
}

TEST(SlowdownTest, ADriftIsNotCalledWhatRemains) {
  Noise noise(7);
  const auto drifting = [&](int step) {
    return (100 + step) * kNsPerMs * std::exp(0.01 * noise.Normal());
  };
  const SlowdownRecord slowdown = MeasureSlowdown(Cut(drifting, 43, 10, 20), true);
  EXPECT_TRUE(!slowdown.remains_known || slowdown.remains_low <= 0) << slowdown.remains_low;
}

// ---- withheld ----

TEST(SlowdownTest, FewStepsAreNoMeasurement) {
  const auto steady = [](int step) { return (100 + step % 3) * kNsPerMs; };
  const SlowdownRecord none = MeasureSlowdown(Cut(steady, 43, 0, 20));
  EXPECT_FALSE(none.known);
  EXPECT_THAT(none.unknown_reason, HasSubstr("no complete step"));
  const SlowdownRecord one = MeasureSlowdown(Cut(steady, 43, 1, 20));
  EXPECT_FALSE(one.known);
  EXPECT_THAT(one.unknown_reason, HasSubstr("1 step in the window"));
  EXPECT_THAT(one.unknown_reason, HasSubstr("too few"));
  const SlowdownRecord alone = MeasureSlowdown(Cut(steady, 4, 10, 4));
  EXPECT_FALSE(alone.known);
  EXPECT_THAT(alone.unknown_reason, HasSubstr("only 4 steps before and 4 after"));
  EXPECT_THAT(DescribeSlowdown(alone), HasSubstr("unknown: only 4"));
}

TEST(SlowdownTest, FewStepsAmongTheOthersAreWithinNoiseAndFewBeyondThemAreWithheld) {
  StepTimes times;
  for (int i = 0; i < 40; ++i) times.before.push_back(100'000'000 + i / 10 % 2 * 20'000'000);
  times.during = {115'000'000, 118'000'000, 118'000'000};
  const SlowdownRecord among = MeasureSlowdown(times);
  ASSERT_TRUE(among.known) << among.unknown_reason;
  EXPECT_LT(among.low, 0);
  EXPECT_GT(among.high, 0);
  times.during = {130'000'000, 130'000'000, 130'000'000};
  EXPECT_FALSE(MeasureSlowdown(times).known);
}

TEST(SlowdownTest, AnyNumbersAreSafe) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  StepTimes times;
  for (int i = 0; i < 2'000; ++i) {
    times.before.push_back(i % 3 == 0 ? -kMost : kMost);
    times.during.push_back(i % 2);
    times.after.push_back(0);
  }
  const SlowdownRecord slowdown = MeasureSlowdown(times);
  EXPECT_TRUE(std::isfinite(slowdown.low) && std::isfinite(slowdown.high));
  EXPECT_LE(slowdown.low, slowdown.high);
  EXPECT_EQ(DescribeSlowdown({}), "unknown: it was not measured");
}

// ---- simulated captures ----

struct Kind {
  const char* name;
  std::function<Series(Noise&)> make;
};

// Programs that recording does not slow.
std::vector<Kind> Harmless() {
  return {
      {"independent",
       [](Noise& n) { return [&n](int) { return kNsPerMs * std::exp(0.3 * n.Normal()); }; }},
      {"two kinds",
       [](Noise& n) {
         return [&n](int) {
           return (n.Uniform() < 0.5 ? 10 : 30) * kNsPerMs * std::exp(0.02 * n.Normal());
         };
       }},
      {"rare long steps",
       [](Noise& n) {
         return [&n](int) {
           return (n.Uniform() < 0.1 ? 50 : 1) * kNsPerMs * std::exp(0.05 * n.Normal());
         };
       }},
      {"neighbors alike",
       [](Noise& n) {
         return [&n, state = n.Normal()](int) mutable {
           state = 0.7 * state + std::sqrt(1 - 0.49) * n.Normal();
           return kNsPerMs * std::exp(0.2 * state);
         };
       }},
      {"bursts of other load",
       [](Noise& n) {
         return [&n, busy = false](int) mutable {
           if (n.Uniform() < (busy ? 0.2 : 0.05)) busy = !busy;
           return (busy ? 2 : 1) * kNsPerMs * std::exp(0.05 * n.Normal());
         };
       }},
      {"drift",
       [](Noise& n) {
         const double slope = 0.02 * (n.Uniform() - 0.5);
         return [&n, slope](int step) {
           return kNsPerMs * std::exp(slope * step + 0.05 * n.Normal());
         };
       }},
  };
}

struct Shape {
  int before;
  int during;
  int after;
};

TEST(SlowdownSimulationTest, FalseAlarmsAreNoMoreThanTheNominalLevel) {
  constexpr int kCaptures = 1'000;
  for (const Kind& kind : Harmless()) {
    for (const Shape shape : {Shape{43, 5, 20}, Shape{63, 20, 20}, Shape{20, 10, 0}}) {
      Noise noise(7);
      int alarms = 0;
      for (int i = 0; i < kCaptures; ++i) {
        const SlowdownRecord slowdown =
            MeasureSlowdown(Cut(kind.make(noise), shape.before, shape.during, shape.after));
        if (slowdown.known && slowdown.low > 0) ++alarms;
      }
      RecordProperty(std::string(kind.name) + " " + std::to_string(shape.during), alarms);
      EXPECT_LE(alarms, kNominalFalseAlarms * kCaptures)
          << kind.name << ", steps " << shape.before << "+" << shape.during << "+" << shape.after;
    }
  }
}

TEST(SlowdownSimulationTest, ATrueSlowDownIsMostlyFoundAndCovered) {
  constexpr int kCaptures = 300;
  Noise noise(8);
  int above_threshold = 0;
  int covered = 0;
  for (int i = 0; i < kCaptures; ++i) {
    const auto steady = [&](int) { return kNsPerMs * std::exp(0.03 * noise.Normal()); };
    const SlowdownRecord slowdown = MeasureSlowdown(Cut(steady, 43, 20, 20, 1.20));
    if (slowdown.low > 0.05) ++above_threshold;
    if (slowdown.low <= 0.20 && slowdown.high >= 0.20) ++covered;
  }
  EXPECT_GE(above_threshold, 0.95 * kCaptures);
  EXPECT_GE(covered, 0.95 * kCaptures);
}

}  // namespace
}  // namespace profd
