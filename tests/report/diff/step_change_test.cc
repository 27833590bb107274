#include "daemon/report/diff/step_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
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

TEST(StepChangeTest, FiveStepsOfEachAreEnoughForAClearChange) {
  const StepChange change =
      MeasureStepChange(StepsOf({100, 101, 102, 103, 104}), StepsOf({112, 111, 113, 110, 114}));
  EXPECT_EQ(change.verdict, StepVerdict::kSlower);
  EXPECT_NEAR(change.change, 0.098, 0.002);
  EXPECT_LT(change.low, change.change);
  EXPECT_GT(change.low, 0.05);
  EXPECT_LT(change.change, change.high);
  EXPECT_EQ(change.before_median_ns, 102 * kMillisecond);
  EXPECT_EQ(change.after_median_ns, 112 * kMillisecond);
  EXPECT_THAT(DescribeStepChange(change),
              AllOf(StartsWith("A step takes 9.8% longer: 112 ms instead of 102 ms (+"),
                    HasSubstr("5 steps before, 5 after)")));
}

TEST(StepChangeTest, TheOtherWayRoundItIsFaster) {
  const StepChange change =
      MeasureStepChange(StepsOf({112, 111, 113, 110, 114}), StepsOf({100, 101, 102, 103, 104}));
  EXPECT_EQ(change.verdict, StepVerdict::kFaster);
  EXPECT_LT(change.high, 0);
  EXPECT_THAT(DescribeStepChange(change), HasSubstr("less time: 102 ms instead of 112 ms"));
}

TEST(StepChangeTest, OverlappingTimesAreTheSame) {
  const StepChange change =
      MeasureStepChange(StepsOf({100, 110, 105, 95, 102}), StepsOf({104, 99, 108, 101, 112}));
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
  const StepChange change = MeasureStepChange(before, after);
  EXPECT_GT(change.low, 0.009);
  EXPECT_EQ(change.verdict, StepVerdict::kSame);
}

TEST(StepChangeTest, AnOddStepDecidesNothing) {
  const StepChange change = MeasureStepChange(StepsOf({100, 101, 102, 103, 104, 100, 101, 102}),
                                              StepsOf({100, 101, 9000, 103, 104, 100, 101, 102}));
  EXPECT_EQ(change.verdict, StepVerdict::kSame);
  EXPECT_LT(std::abs(change.change), 0.02);
}

TEST(StepChangeTest, TooFewStepsAreUnknownButEstimated) {
  const StepChange change = MeasureStepChange(StepsOf({100, 101, 102}), StepsOf({200, 201, 202}));
  EXPECT_EQ(change.verdict, StepVerdict::kUnknown);
  EXPECT_NEAR(change.change, 0.99, 0.01);
  EXPECT_TRUE(std::isnan(change.low));
  EXPECT_THAT(DescribeStepChange(change), HasSubstr("3 before and 3 after are too few"));
}

TEST(StepChangeTest, ACaptureWithoutStepsIsNamed) {
  EXPECT_THAT(DescribeStepChange(MeasureStepChange({}, StepsOf({100}))),
              HasSubstr("the first capture has no steps"));
  EXPECT_THAT(DescribeStepChange(MeasureStepChange(StepsOf({100}), {})),
              HasSubstr("the second capture has no steps"));
}

// The program was not slower: it had less of a CPU.
TEST(StepChangeTest, WaitsForACpuTakeAwayWhatIsCertain) {
  RecordedSteps before = StepsOf({100, 101, 102, 103, 104});
  RecordedSteps after = StepsOf({112, 111, 113, 110, 114});
  after.waited_share = 0.2;
  const StepChange slower = MeasureStepChange(before, after);
  EXPECT_EQ(slower.verdict, StepVerdict::kSame);
  EXPECT_TRUE(slower.waits_can_explain);
  EXPECT_THAT(DescribeStepChange(slower), HasSubstr("waits for a CPU can explain it"));
  const StepChange faster = MeasureStepChange(after, before);
  EXPECT_EQ(faster.verdict, StepVerdict::kSame);
  EXPECT_TRUE(faster.waits_can_explain);
  // A small wait explains a large change only in part.
  after.waited_share = 0.01;
  EXPECT_EQ(MeasureStepChange(before, after).verdict, StepVerdict::kSlower);
  EXPECT_FALSE(MeasureStepChange(before, after).waits_can_explain);
  // All of the window: nothing is certain.
  after.waited_share = 1;
  EXPECT_EQ(MeasureStepChange(after, before).verdict, StepVerdict::kSame);
}

TEST(StepChangeTest, TimesOfAHostileFileAreSafe) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  RecordedSteps odd = {.times_ns = {kMax, 0, -5, std::numeric_limits<int64_t>::min(), 1, kMax},
                       .waited_share = std::numeric_limits<double>::quiet_NaN()};
  const StepChange change = MeasureStepChange(odd, odd);
  EXPECT_EQ(change.before_count, 3);
  EXPECT_NE(change.verdict, StepVerdict::kSlower);
  RecordedSteps many;
  many.times_ns.assign(1'000'000, kMillisecond);
  EXPECT_EQ(MeasureStepChange(many, many).before_count, 256);
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
    const StepChange same = MeasureStepChange(capture(1), capture(1));
    false_alarms += same.verdict != StepVerdict::kSame ? 1 : 0;
    const StepChange slower = MeasureStepChange(capture(1), capture(1.1));
    found += slower.verdict == StepVerdict::kSlower ? 1 : 0;
    covered += slower.low <= 0.1 && 0.1 <= slower.high ? 1 : 0;
  }
  EXPECT_LE(false_alarms, 60);
  EXPECT_GE(found, 950);
  EXPECT_GE(covered, 940);
}

}  // namespace
}  // namespace profd::report
