// Programs of several threads: a call leaves the GPU idle only if a thread that launches is held up
// by it.
#include "daemon/report/findings/launchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "proto/wire/event.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class LaunchersTest : public FindingsFixture {
 protected:
  static constexpr int kSteps = 5;

  // An operator on `thread` that launches a kernel of `kernel_ns`, which runs at once.
  void Launch(uint32_t thread, int64_t start_ns, int64_t length_ns, int64_t kernel_ns) {
    ++correlation_;
    reader_.Range(thread, "aten::mm", start_ns, start_ns + length_ns,
                  {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
    reader_.ApiCall(thread, "cudaLaunchKernel", start_ns + 5 * kUs, start_ns + 8 * kUs,
                    correlation_);
    reader_.Kernel(kTensorKernel, start_ns + 10 * kUs, start_ns + 10 * kUs + kernel_ns,
                   correlation_);
  }
  // A step of operators of 100 us, whose kernels take 15.
  void DispatchAllTheTime() {
    Steps(kSteps);
    for (int64_t at = 0; at < kSteps * kStepNs; at += 100 * kUs) {
      Launch(main_, at, 99 * kUs, 15 * kUs);
    }
  }
  // Forward on the main thread; a wait for 3 ms of kernels; backward on `backward`.
  void WaitBetweenForwardAndBackward(uint32_t backward) {
    Steps(kSteps);
    for (int64_t at = 0; at < kSteps * kStepNs; at += kStepNs) {
      Launch(main_, at, 90 * kUs, 3 * kMs);
      reader_.ApiCall(main_, "cudaStreamSynchronize", at + 100 * kUs, at + 3'200 * kUs, 0);
      for (int i = 0; i < 30; ++i) {
        Launch(backward, at + 3'210 * kUs + i * 200 * kUs, 190 * kUs, 120 * kUs);
      }
    }
  }

  const uint32_t other_ = reader_.AddThread(2, "other");
};

TEST_F(LaunchersTest, AWaitHoldsUpWhatAnotherThreadLaunchesAfterIt) {
  WaitBetweenForwardAndBackward(other_);
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kSynchronization) << report.verdict;
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().rule, "SYNC_API");
}

TEST_F(LaunchersTest, AsIfItWereOneThread) {
  WaitBetweenForwardAndBackward(main_);
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kSynchronization) << report.verdict;
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().rule, "SYNC_API");
}

TEST_F(LaunchersTest, AWaitOfAThreadThatLaunchesNothingIsNoCause) {
  DispatchAllTheTime();
  for (int64_t at = 0; at < kSteps * kStepNs; at += kStepNs) {
    reader_.ApiCall(other_, "cudaStreamSynchronize", at + kMs, at + 9 * kMs, 0);
  }
  EXPECT_EQ(Report().bound, BoundBy::kHost) << Report().verdict;
  EXPECT_THAT(Fired(), Not(Contains("SYNC_API")));
  EXPECT_NEAR(Find("IDLE_HOST_WAIT").value, 0.85, 0.03);
}

// It loads batches, and copies them to the GPU.
TEST_F(LaunchersTest, NorIsThatOfOneWhileOthersLaunch) {
  DispatchAllTheTime();
  for (int64_t at = 0; at < kSteps * kStepNs; at += kStepNs) {
    ++correlation_;
    reader_.ApiCall(other_, "cudaMemcpyAsync", at + 900 * kUs, at + 910 * kUs, correlation_)
        .Copy(at + 910 * kUs, at + 950 * kUs, correlation_, {.stream = 12, .bytes = 4096});
    reader_.ApiCall(other_, "cudaStreamSynchronize", at + kMs, at + 9 * kMs, 0);
  }
  EXPECT_EQ(Report().bound, BoundBy::kHost) << Report().verdict;
  EXPECT_THAT(Fired(), Not(Contains("SYNC_API")));
}

TEST_F(LaunchersTest, MemoryThatAnotherThreadPinsIsNotWaitedFor) {
  DispatchAllTheTime();
  for (int64_t at = 0; at < kSteps * kStepNs; at += kStepNs) {
    reader_.ApiCall(other_, "cudaHostAlloc", at + kMs, at + 9 * kMs, 0);
  }
  EXPECT_EQ(Report().bound, BoundBy::kHost) << Report().verdict;
  EXPECT_THAT(Fired(), Not(Contains("ALLOC_CHURN")));
}

TEST_F(LaunchersTest, NorIsACopyThatAnotherThreadWaitsFor) {
  DispatchAllTheTime();
  for (int64_t at = 0; at < kSteps * kStepNs; at += kStepNs) {
    ++correlation_;
    reader_.ApiCall(other_, "cudaMemcpy", at + kMs, at + 9 * kMs, correlation_)
        .Copy(at + 8 * kMs, at + 9 * kMs, correlation_,
              {.stream = 12, .bytes = 8 << 20, .copy_kind = 1, .source_kind = 1});
  }
  EXPECT_THAT(Fired(), Not(Contains("MEMCPY_SYNC")));
}

TEST_F(LaunchersTest, CollectivesOfTheHostThatNothingWaitsForAreNoCause) {
  DispatchAllTheTime();
  for (int64_t at = 0; at < kSteps * kStepNs; at += kStepNs) {
    reader_.Range(other_, "gloo:all_reduce", at + 100 * kUs, at + 9'600 * kUs);
  }
  EXPECT_THAT(Fired(), Not(Contains("COMM_BACKEND")));
  EXPECT_EQ(Report().findings.front().rule, "IDLE_HOST_WAIT");
}

}  // namespace
}  // namespace profd::report
