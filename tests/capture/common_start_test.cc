#include "daemon/capture/common_start.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "daemon/base/ulid.h"

namespace profd {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr char kSchedule[] = "01HZZZZZZZZZZZZZZZZZZZZZZA";

// At `current` for `since_ms`, after steps of `step_ms` each.
RecentSteps RunSo(int64_t current, int64_t since_ms, int64_t step_ms, int64_t shown = 63) {
  RecentSteps recent{.current_step = current, .since_current_ns = since_ms * kMs};
  for (int64_t step = std::max<int64_t>(0, current - shown); step < current; ++step) {
    recent.steps.push_back({.step = step, .duration_ns = step_ms * kMs});
  }
  return recent;
}

TEST(CommonStartTest, TheStepOfAMomentIsTheOneThatRanThen) {
  const RecentSteps recent = RunSo(100, 3, 10);
  EXPECT_EQ(StepAt(recent, absl::ZeroDuration()), 100);
  EXPECT_EQ(StepAt(recent, absl::Milliseconds(3)), 100);
  EXPECT_EQ(StepAt(recent, absl::Milliseconds(4)), 99);
  EXPECT_EQ(StepAt(recent, absl::Milliseconds(13)), 99);
  EXPECT_EQ(StepAt(recent, absl::Milliseconds(14)), 98);
  EXPECT_EQ(StepAt(recent, absl::Milliseconds(633)), 37);
}

TEST(CommonStartTest, StepsThatAreNoLongerShownAreExtrapolated) {
  EXPECT_EQ(StepAt(RunSo(100, 3, 10), absl::Milliseconds(653)), 35);
  EXPECT_EQ(StepAt(RunSo(100, 3, 10), absl::Hours(1)), 0);
}

TEST(CommonStartTest, ARankWithoutTimedStepsIsWhereItIs) {
  EXPECT_EQ(StepAt({.current_step = 7}, absl::Seconds(1)), 7);
  EXPECT_EQ(StepAt(RunSo(7, 3, 10, 0), absl::Seconds(1)), 7);
  EXPECT_EQ(StepAt({}, absl::Seconds(1)), -1);
}

TEST(CommonStartTest, TheStartIsTheFirstOfTheGridThatLeavesTheLeadAndTheWarmup) {
  const CommonStart start{.job = "j", .grid = 8, .offset = 1003, .lead = 4};
  const CaptureSpec spec{.steps = 2, .warmup_steps = 1};
  for (int64_t step = -1; step < 100; ++step) {
    const int64_t first = FirstCommonStep(start, spec, step, 10 * kMs);
    EXPECT_EQ(first % 8, 1003 % 8);
    EXPECT_GT(first, std::max<int64_t>(0, step) + 4 + 1);
    EXPECT_LE(first, std::max<int64_t>(0, step) + 4 + 1 + 8);
  }
}

TEST(CommonStartTest, RanksOneStepApartDifferOnceInTheGrid) {
  const CaptureSpec spec{.steps = 2};
  std::mt19937_64 random(20261127);
  int64_t different = 0;
  constexpr int64_t kWindows = 20'000;
  for (int64_t i = 0; i < kWindows; ++i) {
    const CommonStart start{
        .job = "j", .grid = 256, .offset = static_cast<int64_t>(random() % (1 << 20)), .lead = 64};
    const auto step = static_cast<int64_t>(random() % 1'000'000);
    different += FirstCommonStep(start, spec, step, 10 * kMs) !=
                         FirstCommonStep(start, spec, step + 1, 11 * kMs)
                     ? 1
                     : 0;
  }
  // Binomial, p = 1/256: within five standard deviations of 78.
  EXPECT_NEAR(static_cast<double>(different), kWindows / 256.0, 5 * 8.9);
}

TEST(CommonStartTest, LongStepsHalveGridAndLeadUntilTheWindowFits) {
  const CommonStart start{.job = "j", .grid = 256, .offset = 77, .lead = 64};
  const CaptureSpec spec{.steps = 2, .timeout = absl::Minutes(5)};
  for (const int64_t step_ms : {100, 400, 500, 1000, 5000, 10'000, 60'000}) {
    const int64_t first = FirstCommonStep(start, spec, 1000, step_ms * kMs);
    EXPECT_LE((first - 1000 - 2) * step_ms, 150'000) << step_ms;
  }
  // Nothing is shorter than one step ahead.
  EXPECT_EQ(FirstCommonStep(start, spec, 1000, 600'000 * kMs), 1000 + 1 + 1 + 1);
}

TEST(CommonStartTest, AHalvedGridIsPartOfTheSameOne) {
  const CaptureSpec spec{.steps = 2, .timeout = absl::Minutes(5)};
  CommonStart start{.job = "j", .grid = 256, .offset = 777'777, .lead = 0};
  const int64_t first = FirstCommonStep(start, spec, 5000, 1000 * kMs);
  EXPECT_EQ(first % 128, 777'777 % 128);
}

TEST(CommonStartTest, TheGroupIsOfTheScheduleTheWindowTheJobAndTheStep) {
  constexpr int64_t kWindowNs = 1'800'000'000'000'000'000;
  const std::string id = CommonGroupId(kSchedule, kWindowNs, "88123", 6648);
  EXPECT_TRUE(IsUlid(id));
  EXPECT_EQ(id, CommonGroupId(kSchedule, kWindowNs, "88123", 6648));
  const std::set<std::string> ids = {
      id, CommonGroupId("01HZZZZZZZZZZZZZZZZZZZZZZB", kWindowNs, "88123", 6648),
      CommonGroupId(kSchedule, kWindowNs + 1, "88123", 6648),
      CommonGroupId(kSchedule, kWindowNs, "88124", 6648),
      CommonGroupId(kSchedule, kWindowNs, "88123", 6649)};
  EXPECT_EQ(ids.size(), 5U);
  for (const std::string& other : ids) EXPECT_EQ(other.substr(0, 10), id.substr(0, 10));
}

// Nodes may run different versions of profd.
TEST(CommonStartTest, TheGroupNeverChanges) {
  EXPECT_EQ(CommonGroupId(kSchedule, 1'800'000'000'000'000'000, "88123", 6648),
            "01MCC5RM00AMYS8R415TGFB067");
}

}  // namespace
}  // namespace profd
