#include "client_lib/cupti/gpu_clock.h"

#include <gtest/gtest.h>

#include <memory>

namespace profd::client {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
// A wall clock of 2026 and ticks of 2.5 a nanosecond.
constexpr uint64_t kWallNs = 1'790'000'000 * kSecond;
constexpr uint64_t kMonoNs = 500 * kSecond;
constexpr uint64_t TicksAt(uint64_t elapsed_ns) { return 77'000'000'000 + elapsed_ns * 5 / 2; }

class GpuClockTest : public ::testing::Test {
 protected:
  // A sample `elapsed_ns` from the start; CUPTI's clock has been set by `offset_ns` by then.
  void Sample(uint64_t elapsed_ns, int64_t offset_ns = 0) {
    clock_->Add({kWallNs + elapsed_ns + static_cast<uint64_t>(offset_ns), kMonoNs + elapsed_ns,
                 TicksAt(elapsed_ns), 100});
  }
  // How far off the ticks of a CUPTI time are, in ticks.
  int64_t ErrorAt(uint64_t elapsed_ns, int64_t offset_ns = 0) {
    const uint64_t ticks = clock_->ToTicks(kWallNs + elapsed_ns + static_cast<uint64_t>(offset_ns));
    return static_cast<int64_t>(ticks - TicksAt(elapsed_ns));
  }

  std::unique_ptr<GpuClock> clock_ = std::make_unique<GpuClock>();
};

TEST_F(GpuClockTest, TimesBetweenSamplesAreExact) {
  for (uint64_t second = 0; second < 10; ++second) Sample(second * kSecond);
  for (uint64_t at = 0; at < 9 * kSecond; at += kSecond / 7) {
    EXPECT_LE(std::abs(ErrorAt(at)), 2) << at;
  }
  EXPECT_EQ(clock_->step_count(), 0u);
}

TEST_F(GpuClockTest, TimesBesideTheSamplesGoOnAtTheSamePace) {
  Sample(kSecond);
  Sample(2 * kSecond);
  EXPECT_LE(std::abs(ErrorAt(kSecond - 3'000'000)), 2);
  EXPECT_LE(std::abs(ErrorAt(2 * kSecond + 3'000'000)), 2);
}

TEST_F(GpuClockTest, OneSampleIsEnoughForTimesCloseBy) {
  Sample(kSecond);
  EXPECT_EQ(ErrorAt(kSecond), 0);
}

TEST_F(GpuClockTest, AClockThatIsSetForwardIsNoticedAndTimesOfBothSidesAreRight) {
  constexpr int64_t kStep = 3'000'000;
  Sample(0);
  Sample(kSecond);
  Sample(2 * kSecond, kStep);  // Set somewhere in between.
  Sample(3 * kSecond, kStep);
  EXPECT_EQ(clock_->step_count(), 1u);
  EXPECT_LE(std::abs(ErrorAt(kSecond / 2)), 2);
  EXPECT_LE(std::abs(ErrorAt(5 * kSecond / 2, kStep)), 2);
  // Between the samples around it both readings of a time may fit; the bound says so.
  EXPECT_LE(std::abs(ErrorAt(3 * kSecond / 2)), kStep * 5 / 2);
  EXPECT_GE(clock_->error_ns(), static_cast<uint64_t>(kStep));
}

TEST_F(GpuClockTest, AClockThatIsSetBackIsNoticedToo) {
  constexpr int64_t kStep = -40 * 1'000'000;
  Sample(0);
  Sample(kSecond);
  Sample(2 * kSecond, kStep);
  EXPECT_EQ(clock_->step_count(), 1u);
  EXPECT_LE(std::abs(ErrorAt(kSecond / 4)), 2);
}

TEST_F(GpuClockTest, AStepLongerThanTheSamplesAreApartLeavesNoDoubt) {
  // cuptiGetTimestamp before CUDA is fully up: hours off, until it settles.
  constexpr int64_t kHours = -7200 * static_cast<int64_t>(kSecond);
  Sample(0, kHours);
  Sample(kSecond);
  Sample(2 * kSecond);
  for (uint64_t at = kSecond / 10; at < 2 * kSecond; at += kSecond / 10) {
    EXPECT_LE(std::abs(ErrorAt(at)), 2) << at;
  }
}

TEST_F(GpuClockTest, SpreadOfAMicrosecondIsNoStep) {
  for (uint64_t second = 0; second < 20; ++second) {
    Sample(second * kSecond, second % 2 == 0 ? 1500 : -1500);
  }
  EXPECT_EQ(clock_->step_count(), 0u);
}

TEST_F(GpuClockTest, AnotherClockThatDriftsIsNoStep) {
  // CLOCK_MONOTONIC_RAW under WSL: 30 millionths beside.
  for (uint64_t second = 0; second < 20; ++second) {
    Sample(second * kSecond, static_cast<int64_t>(second * 30'000));
  }
  EXPECT_EQ(clock_->step_count(), 0u);
  EXPECT_LE(std::abs(ErrorAt(5 * kSecond, 150'000)), 2);
}

// As Kineto makes it, for the life of the process.
TEST_F(GpuClockTest, TimesInTicksAreNotConverted) {
  const auto sample = [&](uint64_t elapsed_ns) {
    clock_->Add({TicksAt(elapsed_ns) + 30, kMonoNs + elapsed_ns, TicksAt(elapsed_ns), 100});
  };
  sample(0);
  EXPECT_TRUE(clock_->reads_ticks());
  EXPECT_EQ(clock_->ToTicks(TicksAt(7)), TicksAt(7));
  for (uint64_t second = 1; second < 2000; ++second) sample(second * kSecond);
  for (const uint64_t at : {uint64_t{0}, kSecond / 3, 1500 * kSecond, 3000 * kSecond}) {
    EXPECT_EQ(clock_->ToTicks(TicksAt(at)), TicksAt(at));
  }
  EXPECT_EQ(clock_->step_count(), 0u);
  EXPECT_LE(clock_->error_ns(), 1000u);
}

TEST_F(GpuClockTest, AWallClockIsNotTakenForTicks) {
  Sample(0);
  EXPECT_FALSE(clock_->reads_ticks());
}

TEST_F(GpuClockTest, MoreSamplesThanItKeepsLeaveOldTimesRight) {
  for (uint64_t second = 0; second < 5000; ++second) Sample(second * kSecond);
  for (const uint64_t at : {3 * kSecond / 2, 700 * kSecond + 5, 4998 * kSecond + 17}) {
    EXPECT_LE(std::abs(ErrorAt(at)), 4) << at;
  }
  EXPECT_EQ(clock_->step_count(), 0u);
}

TEST_F(GpuClockTest, TheErrorBoundCoversTheSpreadOfTheReads) {
  clock_->Add({kWallNs, kMonoNs, TicksAt(0), 100});
  clock_->Add({kWallNs + kSecond, kMonoNs + kSecond, TicksAt(kSecond), 5000});
  EXPECT_GE(clock_->error_ns(), 1000u);
  EXPECT_LE(clock_->error_ns(), 1100u);
}

TEST(ReadClocksTest, WithoutCuptiTheWallClockStandsIn) {
  const ClockSample a = ReadClocks(nullptr);
  const ClockSample b = ReadClocks([](uint64_t* ns) {
    *ns = 42;
    return 0;
  });
  EXPECT_GT(a.cupti_ns, 1'600'000'000 * kSecond);
  EXPECT_EQ(b.cupti_ns, 42u);
  EXPECT_GE(b.ticks, a.ticks);
}

}  // namespace
}  // namespace profd::client
