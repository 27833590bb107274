#include "daemon/report/diff/step_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMillisecond = 1'000'000;

RecordedSteps StepsOf(std::vector<int64_t> times_ms) {
  RecordedSteps steps;
  for (const int64_t ms : times_ms) steps.times_ns.push_back(ms * kMillisecond);
  return steps;
}

// Of a capture on each side.
StepChange Measure(const RecordedSteps& before, const RecordedSteps& after) {
  return MeasureStepChange(std::vector{before}, std::vector{after});
}

TEST(StepChangeTest, FiveStepsOfEachAreEnoughForAClearChange) {
  const StepChange change =
      Measure(StepsOf({100, 101, 102, 103, 104}), StepsOf({112, 111, 113, 110, 114}));
  EXPECT_EQ(change.verdict, StepVerdict::kSlower);
  EXPECT_NEAR(change.change, 0.098, 0.002);
  EXPECT_LT(change.low, change.change);
  EXPECT_GT(change.low, 0.05);
  EXPECT_LT(change.change, change.high);
  EXPECT_EQ(change.before_median_ns, 102 * kMillisecond);
  EXPECT_EQ(change.after_median_ns, 112 * kMillisecond);
  EXPECT_THAT(DescribeStepChange(change),
              AllOf(StartsWith("A step takes 9.8% longer (+"),
                    HasSubstr("5 steps before, 5 after): 112 ms instead of 102 ms at the median")));
}

TEST(StepChangeTest, TheOtherWayRoundItIsFaster) {
  const StepChange change =
      Measure(StepsOf({112, 111, 113, 110, 114}), StepsOf({100, 101, 102, 103, 104}));
  EXPECT_EQ(change.verdict, StepVerdict::kFaster);
  EXPECT_LT(change.high, 0);
  EXPECT_THAT(DescribeStepChange(change),
              AllOf(HasSubstr("less time ("), HasSubstr("102 ms instead of 112 ms")));
}

TEST(StepChangeTest, OverlappingTimesAreTheSame) {
  const StepChange change =
      Measure(StepsOf({100, 110, 105, 95, 102}), StepsOf({104, 99, 108, 101, 112}));
  EXPECT_EQ(change.verdict, StepVerdict::kSame);
  EXPECT_THAT(DescribeStepChange(change), HasSubstr("within noise: 104 ms, and 102 ms before"));
}

TEST(StepChangeTest, LessThanTwoPercentIsNoChangeHoweverSteady) {
  RecordedSteps before;
  RecordedSteps after;
  for (int64_t i = 0; i < 50; ++i) {
    before.times_ns.push_back(100 * kMillisecond + i);
    after.times_ns.push_back(101 * kMillisecond + i);
  }
  const StepChange change = Measure(before, after);
  EXPECT_GT(change.low, 0.009);
  EXPECT_EQ(change.verdict, StepVerdict::kSame);
}

TEST(StepChangeTest, AnOddStepDecidesNothing) {
  const StepChange change = Measure(StepsOf({100, 101, 102, 103, 104, 100, 101, 102}),
                                    StepsOf({100, 101, 9000, 103, 104, 100, 101, 102}));
  EXPECT_EQ(change.verdict, StepVerdict::kSame);
  EXPECT_LT(std::abs(change.change), 0.02);
}

TEST(StepChangeTest, TooFewStepsAreUnknownButEstimated) {
  const StepChange change = Measure(StepsOf({100, 101, 102}), StepsOf({200, 201, 202}));
  EXPECT_EQ(change.verdict, StepVerdict::kUnknown);
  EXPECT_NEAR(change.change, 0.99, 0.01);
  EXPECT_TRUE(std::isnan(change.low));
  EXPECT_THAT(DescribeStepChange(change), HasSubstr("3 before and 3 after are too few"));
}

TEST(StepChangeTest, ACaptureWithoutStepsIsNamed) {
  EXPECT_THAT(DescribeStepChange(Measure({}, StepsOf({100}))),
              HasSubstr("there are no steps before"));
  EXPECT_THAT(DescribeStepChange(Measure(StepsOf({100}), {})),
              HasSubstr("there are no steps after"));
}

// The program was not slower: it had less of a CPU.
TEST(StepChangeTest, WaitsForACpuTakeAwayWhatIsCertain) {
  RecordedSteps before = StepsOf({100, 101, 102, 103, 104});
  RecordedSteps after = StepsOf({112, 111, 113, 110, 114});
  after.waited_share = 0.2;
  const StepChange slower = Measure(before, after);
  EXPECT_EQ(slower.verdict, StepVerdict::kSame);
  EXPECT_TRUE(slower.waits_can_explain);
  EXPECT_THAT(DescribeStepChange(slower), HasSubstr("waits for a CPU can explain it"));
  const StepChange faster = Measure(after, before);
  EXPECT_EQ(faster.verdict, StepVerdict::kSame);
  EXPECT_TRUE(faster.waits_can_explain);
  // A small wait explains a large change only in part.
  after.waited_share = 0.01;
  EXPECT_EQ(Measure(before, after).verdict, StepVerdict::kSlower);
  EXPECT_FALSE(Measure(before, after).waits_can_explain);
  // All of the window: nothing is certain.
  after.waited_share = 1;
  EXPECT_EQ(Measure(after, before).verdict, StepVerdict::kSame);
}

TEST(StepChangeTest, TimesOfAHostileFileAreSafe) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  RecordedSteps odd = {.times_ns = {kMax, 0, -5, std::numeric_limits<int64_t>::min(), 1, kMax},
                       .waited_share = std::numeric_limits<double>::quiet_NaN()};
  const StepChange change = Measure(odd, odd);
  EXPECT_EQ(change.before_count, 3);
  EXPECT_NE(change.verdict, StepVerdict::kSlower);
  RecordedSteps many;
  many.times_ns.assign(1'000'000, kMillisecond);
  EXPECT_EQ(Measure(many, many).before_count, 256);
}

// Of 1,000 pairs of captures of one steady program few may differ, and of a program that is 10 %
// slower most have to.
TEST(StepChangeTest, SteadyProgramsDifferInFewOfManyPairs) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> noise(0, 0.05);
  const auto capture = [&](double factor) {
    RecordedSteps steps;
    for (int i = 0; i < 10; ++i) {
      steps.times_ns.push_back(static_cast<int64_t>(1e8 * factor * noise(random)));
    }
    return steps;
  };
  int false_alarms = 0;
  int found = 0;
  int covered = 0;
  for (int i = 0; i < 1000; ++i) {
    const StepChange same = Measure(capture(1), capture(1));
    false_alarms += same.verdict != StepVerdict::kSame ? 1 : 0;
    const StepChange slower = Measure(capture(1), capture(1.1));
    found += slower.verdict == StepVerdict::kSlower ? 1 : 0;
    covered += slower.low <= 0.1 && 0.1 <= slower.high ? 1 : 0;
  }
  EXPECT_LE(false_alarms, 60);
  EXPECT_GE(found, 950);
  EXPECT_GE(covered, 940);
}

// ---- several captures on a side ----

// Of five steps around the median.
RecordedSteps ACapture(int64_t median_ms) {
  return StepsOf({median_ms - 2, median_ms - 1, median_ms, median_ms + 1, median_ms + 2});
}

std::vector<RecordedSteps> CapturesOf(const std::vector<int64_t>& medians_ms) {
  std::vector<RecordedSteps> captures;
  for (const int64_t ms : medians_ms) captures.push_back(ACapture(ms));
  return captures;
}

// By hand: the logarithms of 100, 102, 104 and 110, 112, 114 have means of 4.624841 and 4.718420,
// a pooled deviation of 0.018774, and Student's quantile for 4 is 2.776.
TEST(StepChangeTest, OfSeveralCapturesTheIntervalIsThatOfTheirMedians) {
  const StepChange change =
      MeasureStepChange(CapturesOf({100, 102, 104}), CapturesOf({110, 112, 114}));
  EXPECT_EQ(change.verdict, StepVerdict::kSlower);
  EXPECT_NEAR(change.change, 0.0981, 0.0002);
  EXPECT_NEAR(change.low, 0.0523, 0.0005);
  EXPECT_NEAR(change.high, 0.1458, 0.0005);
  EXPECT_EQ(change.before_captures, 3);
  EXPECT_EQ(change.after_count, 15);
  EXPECT_EQ(change.before_median_ns, 102 * kMillisecond);
  EXPECT_THAT(DescribeStepChange(change), HasSubstr("3 captures before, 3 after)"));
}

// Any two of them would differ for certain.
TEST(StepChangeTest, WhatRunsDifferByIsNoChange) {
  EXPECT_EQ(Measure(ACapture(100), ACapture(120)).verdict, StepVerdict::kSlower);
  const StepChange change =
      MeasureStepChange(CapturesOf({100, 120, 110}), CapturesOf({120, 125, 105}));
  EXPECT_EQ(change.verdict, StepVerdict::kSame);
  EXPECT_LT(change.low, 0);
  EXPECT_GT(change.high, 0.1);
}

TEST(StepChangeTest, ASmallChangeOfSteadyRunsIsFound) {
  EXPECT_EQ(MeasureStepChange(CapturesOf({10000, 10001, 10002}), CapturesOf({10100, 10101, 10102}))
                .verdict,
            StepVerdict::kSlower);
}

TEST(StepChangeTest, OneCaptureIsComparedWithWhatSeveralDifferBy) {
  const std::vector<RecordedSteps> usual = CapturesOf({100, 101, 102, 103, 104, 105});
  EXPECT_EQ(MeasureStepChange(usual, CapturesOf({104})).verdict, StepVerdict::kSame);
  EXPECT_EQ(MeasureStepChange(usual, CapturesOf({120})).verdict, StepVerdict::kSlower);
  EXPECT_EQ(MeasureStepChange(CapturesOf({120}), usual).verdict, StepVerdict::kFaster);
}

TEST(StepChangeTest, CapturesWithoutStepsDoNotCount) {
  std::vector<RecordedSteps> before = CapturesOf({100, 102, 104});
  before.push_back({});
  const StepChange change = MeasureStepChange(before, CapturesOf({110, 112, 114}));
  EXPECT_EQ(change.before_captures, 3);
  EXPECT_EQ(change.verdict, StepVerdict::kSlower);
  EXPECT_EQ(MeasureStepChange({}, before).verdict, StepVerdict::kUnknown);
}

// Of 1,000 changes of programs whose runs differ by 5 %, as many are false alarms as an interval of
// 95 % allows, however many runs there are.
TEST(StepChangeTest, RunsOfOneProgramDifferAsOftenAsTheIntervalSays) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> run_noise(0, 0.05);
  std::lognormal_distribution<double> step_noise(0, 0.01);
  const auto captures = [&](int count, double factor) {
    std::vector<RecordedSteps> side(static_cast<size_t>(count));
    for (RecordedSteps& steps : side) {
      const double median_ns = 1e8 * factor * run_noise(random);
      for (int i = 0; i < 10; ++i) {
        steps.times_ns.push_back(static_cast<int64_t>(median_ns * step_noise(random)));
      }
    }
    return side;
  };
  for (const auto& [before, after] :
       {std::pair(3, 3), std::pair(2, 2), std::pair(1, 6), std::pair(8, 8), std::pair(13, 1)}) {
    int false_alarms = 0;
    int covered = 0;
    for (int i = 0; i < 1000; ++i) {
      const StepChange same = MeasureStepChange(captures(before, 1), captures(after, 1));
      false_alarms += same.verdict != StepVerdict::kSame ? 1 : 0;
      const StepChange slower = MeasureStepChange(captures(before, 1), captures(after, 1.1));
      covered += slower.low <= 0.1 && 0.1 <= slower.high ? 1 : 0;
    }
    EXPECT_NEAR(false_alarms, 50, 25) << before << " and " << after;
    EXPECT_NEAR(covered, 950, 25) << before << " and " << after;
  }
}

}  // namespace
}  // namespace profd::report
