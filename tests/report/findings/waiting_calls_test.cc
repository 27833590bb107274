// Calls that wait for the GPU: what they cost, and what they keep a program from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class WaitingCallsTest : public FindingsFixture {
 protected:
  static constexpr int kSteps = 5;

  // Kernels of 15 us, each launched only when the one before it has ended.
  void LaunchLate(int64_t start_ns, int count, int64_t gap_ns) {
    Launch({.start_ns = start_ns,
            .count = count,
            .kernel_ns = 15 * kUs,
            .gap_ns = gap_ns,
            .lead_ns = 12 * kUs,
            .call_ns = 10 * kUs});
  }

  // In each step the GPU works for 4 ms; a call waits for it for `waited_ns`; and from then on each
  // kernel is launched when the one before it has ended, 3 ms of gaps in all.
  void WaitThenLaunchLate(int64_t waited_ns) {
    Steps(kSteps);
    for (int step = 0; step < kSteps; ++step) {
      const int64_t at = step * kStepNs;
      Launch({.start_ns = at, .count = 40, .lead_ns = 900 * kUs});
      reader_.ApiCall(main_, "cudaStreamSynchronize", at + 4 * kMs - waited_ns + 5 * kUs,
                      at + 4 * kMs + 5 * kUs, 0);
      LaunchLate(at + 4 * kMs + 20 * kUs, 200, 15 * kUs);
    }
  }

  // Each kernel is waited for, `count` times a step.
  void WaitForEach(int count) {
    Steps(kSteps);
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < count; ++i) {
        const int64_t at = step * kStepNs + i * kStepNs / count;
        Launch({.start_ns = at + 50 * kUs, .lead_ns = 20 * kUs, .op = "aten::sum"});
        reader_.Range(main_, "aten::item", at + 35 * kUs, at + 165 * kUs)
            .ApiCall(main_, "cudaStreamSynchronize", at + 40 * kUs, at + 160 * kUs, 0);
      }
    }
  }
};

TEST_F(WaitingCallsTest, TheLeadThatACallHasCostIsMissingUntilItIsUsedUp) {
  WaitThenLaunchLate(3'500 * kUs);
  const Finding finding = Find("SYNC_API");
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 3e6, 0.1e6);
  EXPECT_EQ(finding.evidence.at(0).name, "cudaStreamSynchronize");
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT"))) << "no time has two causes";
}

TEST_F(WaitingCallsTest, AHostThatWasNotAheadLosesNoMoreThanItWaited) {
  WaitThenLaunchLate(500 * kUs);
  EXPECT_NEAR(static_cast<double>(Find("SYNC_API").saving_ns_per_step), 0.5e6, 0.05e6);
  EXPECT_NEAR(static_cast<double>(Find("IDLE_HOST_WAIT").saving_ns_per_step), 2.5e6, 0.1e6);
}

TEST_F(WaitingCallsTest, AStepThatWaitsInBetweenIsNoCudaGraph) {
  WaitForEach(20);
  EXPECT_THAT(Fired(), Not(Contains("CUDA_GRAPH")));
}

TEST_F(WaitingCallsTest, AWaitAtEachEndOfTheStepPreventsNoGraph) {
  Steps(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at = step * kStepNs;
    LaunchLate(at + 100 * kUs, 200, 30 * kUs);
    reader_.ApiCall(main_, "cudaStreamSynchronize", at + 10 * kUs, at + 15 * kUs, 0)
        .ApiCall(main_, "cudaStreamSynchronize", at + 9'200 * kUs, at + 9'210 * kUs, 0);
  }
  EXPECT_THAT(Fired(), Contains("CUDA_GRAPH"));
}

TEST_F(WaitingCallsTest, WhatEndsAGraphIsToBeRemovedBefore) {
  WaitThenLaunchLate(10 * kUs);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < 5; ++i) {
      const int64_t at = step * kStepNs + kMs + i * 100 * kUs;
      reader_.ApiCall(main_, "cudaEventSynchronize", at, at + 2 * kUs, 0);
    }
  }
  EXPECT_THAT(
      Find("IDLE_HOST_WAIT").advice,
      AllOf(StartsWith("Launch fewer kernels"),
            HasSubstr("Before that, remove from the step the calls that would end a compiled "
                      "region or a CUDA graph: 6 calls that wait for the GPU")));
}

TEST_F(WaitingCallsTest, TheDriversCallInsideOfTheRuntimesIsTheSameWait) {
  WaitThenLaunchLate(10 * kUs);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < 3; ++i) {
      const int64_t at = step * kStepNs + kMs + i * 100 * kUs;
      reader_.ApiCall(main_, "cudaStreamSynchronize", at, at + 4 * kUs, 0)
          .ApiCall(main_, "cuStreamSynchronize", at + kUs, at + 3 * kUs, 0);
    }
  }
  EXPECT_THAT(Fired(), Contains("CUDA_GRAPH")) << "4 waits a step, not 7";
}

TEST_F(WaitingCallsTest, OtherHostTimeUsesTheLeadUpToo) {
  // After the wait, the program is outside of operators for 3 ms.
  Steps(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at = step * kStepNs;
    Launch({.start_ns = at, .count = 30, .lead_ns = 900 * kUs});
    reader_.ApiCall(main_, "cudaStreamSynchronize", at + 2 * kMs, at + 3 * kMs + 5 * kUs, 0);
    LaunchLate(at + 6 * kMs, 100, 15 * kUs);
  }
  EXPECT_NEAR(static_cast<double>(Find("IDLE_HOST_WAIT").saving_ns_per_step), 1.5e6, 0.1e6)
      << "the 1 ms of lead was gone before";
}

TEST_F(WaitingCallsTest, ALeadIsNoLongerThanAStep) {
  Steps(kSteps);
  // One wait of five steps; then a launch-bound phase.
  Launch({.start_ns = 0, .count = 90, .lead_ns = 900 * kUs});
  reader_.ApiCall(main_, "cudaStreamSynchronize", -50 * kMs, 9 * kMs + 5 * kUs, 0);
  LaunchLate(9 * kMs + 20 * kUs, 1360, 15 * kUs);
  EXPECT_NEAR(static_cast<double>(Find("SYNC_API").saving_ns_per_step), 2e6, 0.3e6)
      << "10 ms in all, of 20";
  EXPECT_GT(Find("IDLE_HOST_WAIT").saving_ns_per_step, kMs);
}

TEST_F(WaitingCallsTest, ABatchFromPageableMemoryIsToBePinned) {
  Steps(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at = step * kStepNs;
    Launch({.start_ns = at + 2 * kMs, .count = 78, .lead_ns = 900 * kUs});
    // The copy waits for the last kernels of the step before.
    reader_.Range(main_, "aten::to", at - 800 * kUs, at + 900 * kUs);
    Copy({.start_ns = at + 100 * kUs, .duration_ns = 5 * kUs, .bytes = 64 << 10});
    reader_.ApiCall(main_, "cudaStreamSynchronize", at - 780 * kUs, at + 880 * kUs, 0);
  }
  reader_.Range(main_, "Optimizer.step#AdamW.step", 9 * kMs, 9 * kMs + 100);
  EXPECT_THAT(Find("SYNC_API").advice, HasSubstr("pin_memory=True"));
}

TEST_F(WaitingCallsTest, AWaitOfAnyLengthIsSafe) {
  WaitThenLaunchLate(500 * kUs);
  reader_.ApiCall(main_, "cudaStreamSynchronize", INT64_MIN / 2 - 10, 9 * kMs, 0)
      .ApiCall(main_, "cudaStreamSynchronize", INT64_MIN + 1, INT64_MAX - 1, 0);
  EXPECT_LE(Find("SYNC_API").saving_ns_per_step, kStepNs);
}

TEST_F(WaitingCallsTest, ARunThatFillsTheMemoryIsToldOfThatFirst) {
  Steps(12);
  reader_.mutable_record().torch.memory = true;
  for (int step = 0; step < 12; ++step) {
    LaunchLate(step * kStepNs + 100 * kUs, 200, 30 * kUs);
    reader_.Allocate(main_, step * kStepNs + kMs,
                     0x100000 + static_cast<uint64_t>(step) * 0x100000000, int64_t{1} << 30,
                     {.total_allocated_bytes = int64_t{step + 1} << 30, .device_type = 1});
  }
  const FindingsReport report = Report();
  EXPECT_THAT(Fired(), Contains("IDLE_HOST_WAIT")) << "which would be worth a try";
  EXPECT_THAT(report.verdict, AllOf(HasSubstr("First change (MEM_LEAK)"),
                                    HasSubstr("memory is full after 68 more steps"),
                                    Not(HasSubstr("Worth up to"))));
}

}  // namespace
}  // namespace profd::report
