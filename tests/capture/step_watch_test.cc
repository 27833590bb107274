#include "daemon/capture/step_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace profd {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

// A target whose steps take `duration_ns`, at step `current`; it shows the last `shown` of them.
RecentSteps At(int64_t current, int64_t duration_ns, int64_t shown = 63) {
  RecentSteps recent = {.source = StepSource::kMarks, .current_step = current, .steps = {}};
  for (int64_t step = std::max<int64_t>(0, current - shown); step < current; ++step) {
    recent.steps.push_back({.step = step, .duration_ns = duration_ns});
  }
  return recent;
}

class StepWatchTest : public testing::Test {
 protected:
  SlowdownRecord Slowdown() const {
    CaptureRecord record;
    watch_.Describe(record);
    return record.slowdown;
  }

  StepWatch watch_;
};

TEST_F(StepWatchTest, StepsWhileArmingAndDrainingCountForNeitherSide) {
  watch_.Observe(At(100, kMs));
  watch_.Observe(At(110, 9 * kMs, 10));  // Arming.
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 110, .end_step = 120}}, 1);
  watch_.Observe(At(120, 2 * kMs, 10));
  watch_.SetDrained(At(125, 9 * kMs, 5));
  watch_.Observe(At(126, 9 * kMs, 1));
  watch_.Observe(At(146, kMs, 20));
  const SlowdownRecord slowdown = Slowdown();
  ASSERT_TRUE(slowdown.known) << slowdown.unknown_reason;
  EXPECT_EQ(slowdown.before_step_count, 63);
  EXPECT_EQ(slowdown.during_step_count, 10);
  EXPECT_EQ(slowdown.after_step_count, 20);
  EXPECT_NEAR(slowdown.low, 1, 1e-9);
}

TEST_F(StepWatchTest, SlowStepsAroundTheWindowAreCountedAndAveraged) {
  // An evaluation makes every tenth step 11 ms long instead of 1 ms. The first ten start up.
  RecentSteps before = At(50, kMs);
  before.steps[0].duration_ns = before.steps[9].duration_ns = 1000 * kMs;
  for (const size_t evaluated : {19, 29, 39, 49}) before.steps[evaluated].duration_ns = 11 * kMs;
  watch_.Observe(before);
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 50, .end_step = 55}}, 0);
  watch_.Observe(At(55, kMs, 5));
  watch_.SetDrained(At(55, kMs, 1));
  RecentSteps after = At(75, kMs, 20);
  after.steps[4].duration_ns = after.steps[14].duration_ns = 11 * kMs;
  watch_.Observe(after);
  CaptureRecord record;
  watch_.Describe(record);
  EXPECT_EQ(record.around_step_count, 59);
  EXPECT_EQ(record.around_slow_step_count, 6);
  EXPECT_EQ(record.around_step_mean_ns, (53 + 6 * 11) * kMs / 59);
}

// Attaching CUPTI stops a program.
TEST_F(StepWatchTest, StepsThatArmingDisturbsAreNotAround) {
  watch_.Observe(At(12, kMs));
  RecentSteps arming = At(30, kMs, 18);
  arming.steps[0].duration_ns = arming.steps[1].duration_ns = 900 * kMs;
  watch_.Observe(arming);
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 31, .end_step = 36}}, 1);
  watch_.Observe(At(36, kMs, 5));
  watch_.SetDrained(At(36, kMs, 1));
  watch_.Observe(At(57, kMs, 21));
  CaptureRecord record;
  watch_.Describe(record);
  EXPECT_EQ(record.around_step_count, 2 + 20);
  EXPECT_EQ(record.around_slow_step_count, 0);
  EXPECT_EQ(record.around_step_mean_ns, kMs);
}

TEST_F(StepWatchTest, StepsThatAnEarlierCaptureDisturbedAreNotAround) {
  RecentSteps before = At(100, kMs);
  for (StepTime& step : before.steps) {
    if (step.step >= 60 && step.step < 80) step.duration_ns = 3 * kMs;
  }
  watch_.SetDisturbed({{.first_step = 58, .end_step = 80}});
  watch_.Observe(before);
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 100, .end_step = 110}}, 0);
  watch_.SetDrained(At(110, kMs, 10));
  CaptureRecord record;
  watch_.Describe(record);
  EXPECT_EQ(record.around_step_count, 63 - 22);
  EXPECT_EQ(record.around_slow_step_count, 0);
  EXPECT_EQ(record.slowdown.before_step_count, 63 - 22);
}

TEST_F(StepWatchTest, StepsOfAnotherKindAreNotAround) {
  watch_.Observe(At(100, 10 * kMs));
  watch_.SetRecording(true, At(100, 10 * kMs));
  watch_.Observe(At(110, 10 * kMs));
  watch_.SetRecording(false, At(110, 10 * kMs));
  watch_.SetDrained(At(110, 10 * kMs));
  CaptureRecord record;
  watch_.Describe(record);
  EXPECT_EQ(record.around_step_count, 63);
  CaptureRecord of_range;
  of_range.spec.step_marker = "micro-batch";  // Some of these are a step of the program.
  watch_.Describe(of_range);
  EXPECT_EQ(of_range.around_step_count, 0);
}

TEST_F(StepWatchTest, TimesThatFillAnIntegerHaveAMean) {
  watch_.Observe(At(100, INT64_MAX));
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 100, .end_step = 110}}, 0);
  watch_.SetDrained(At(110, INT64_MAX, 1));
  CaptureRecord record;
  watch_.Describe(record);
  EXPECT_EQ(record.around_step_count, 63);
  EXPECT_EQ(record.around_step_mean_ns, 1'000'000'000'000'000'000);
  EXPECT_EQ(record.around_slow_step_count, 0);
}

// Threads that hardly run do not make steps late.
TEST_F(StepWatchTest, RecordingIsNotBlamedForWaitsForACpu) {
  watch_.Observe(At(100, 10 * kMs));
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 100, .end_step = 110}}, 0);
  watch_.Observe(At(110, 11 * kMs, 10));
  watch_.SetDrained(At(110, 11 * kMs, 1));
  watch_.Observe(At(130, 10 * kMs, 20));
  CaptureRecord record;
  record.cpu = {.watched_ns = 110 * kMs,
                .threads = {{.os_thread = 1, .ran_ns = 90 * kMs},
                            {.os_thread = 2, .ran_ns = kMs, .waited_ns = 5 * kMs}}};
  watch_.Describe(record);
  ASSERT_TRUE(record.slowdown.known) << record.slowdown.unknown_reason;
  EXPECT_NEAR(record.slowdown.low, 0.1, 1e-6);
  record.cpu.threads[0].waited_ns = 11 * kMs / 2;
  watch_.Describe(record);
  EXPECT_NEAR(record.slowdown.low, 1.1 * 0.95 - 1, 1e-6);
}

TEST_F(StepWatchTest, CuptiThatStaysIsSaidOfAProgramWithoutSteps) {
  CaptureRecord record;
  record.gpu.cupti_stays = true;
  watch_.Describe(record);
  EXPECT_FALSE(record.slowdown.known);
  EXPECT_NE(DescribeSlowdown(record.slowdown).find("has no steps"), std::string::npos);
  EXPECT_NE(DescribeSlowdown(record.slowdown).find("CUPTI stays"), std::string::npos);
}

TEST_F(StepWatchTest, OfAYoungProcessTheStepsUntilTheWarmUpCountToo) {
  watch_.Observe(At(3, kMs));
  watch_.Observe(At(30, kMs));
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 20, .end_step = 30}}, 2);
  EXPECT_EQ(Slowdown().before_step_count, 18);
}

TEST_F(StepWatchTest, StepsOfLongWindowsAreGatheredAsTheyRun) {
  watch_.Observe(At(100, kMs));
  for (int64_t step = 150; step <= 400; step += 50) watch_.Observe(At(step, kMs));
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 102, .end_step = 400}}, 1);
  EXPECT_EQ(Slowdown().during_step_count, 256) << "the newest";
}

TEST_F(StepWatchTest, StepsBetweenWindowsAreInNone) {
  watch_.Observe(At(100, kMs));
  watch_.SetRecording(true, At(100, kMs));
  watch_.Observe(At(111, kMs));
  watch_.SetRecording(false, At(111, kMs));
  watch_.Observe(At(131, 5 * kMs, 20));
  watch_.SetRecording(true, At(131, kMs, 0));
  watch_.Observe(At(142, kMs, 11));
  watch_.SetRecording(false, At(142, kMs, 0));
  EXPECT_EQ(Slowdown().during_step_count, 20);
  EXPECT_EQ(watch_.during_ns(), kMs);
}

TEST_F(StepWatchTest, OfAProcessThatEndsTheStepsUntilThenAreCompared) {
  watch_.Observe(At(100, kMs));
  watch_.SetWindows(std::vector<WindowRecord>{{.first_step = 100, .end_step = 110}}, 0);
  watch_.Observe(At(110, 2 * kMs, 10));
  watch_.SetDrained(RecentSteps());
  const SlowdownRecord slowdown = Slowdown();
  EXPECT_TRUE(slowdown.known) << slowdown.unknown_reason;
  EXPECT_EQ(slowdown.before_step_count, 63);
  EXPECT_EQ(slowdown.during_step_count, 10);
  EXPECT_EQ(slowdown.after_step_count, 0);
}

TEST_F(StepWatchTest, WithoutStepsItSaysSo) {
  watch_.Observe({});
  EXPECT_THAT(Slowdown().unknown_reason, HasSubstr("has no steps"));
  EXPECT_EQ(watch_.during_ns(), 0);
}

TEST_F(StepWatchTest, OfStepsThatOnlyACaptureCountsItSaysSo) {
  watch_.Observe({});
  CaptureRecord record;
  record.spec.torch.step_source = StepSource::kPeriodicity;
  watch_.Describe(record);
  EXPECT_THAT(record.slowdown.unknown_reason, HasSubstr("counted only while it records"));
}

}  // namespace
}  // namespace profd
