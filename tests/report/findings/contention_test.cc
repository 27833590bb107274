// Whether a wait for a CPU takes the blame from the host, or from calls that wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/findings/cpu_fixture.h"

namespace profd::report {
namespace {

using ::testing::HasSubstr;

using HostWithoutCpuTest = CpuFixture;

TEST_F(HostWithoutCpuTest, TheHostIsNotBlamedForTimeWithoutACpu) {
  UnsteadyStepsWith(6 * kMs);
  WaitedFor(0.4);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
  EXPECT_THAT(Find("HOST_BOUND").confidence_reason, HasSubstr("waits for a CPU for 4 ms"));
  EXPECT_THAT(Report().verdict, HasSubstr("First change (CPU_CONTENTION)"));
}

TEST_F(HostWithoutCpuTest, TheHostIsBlamedForMoreThanTheWait) {
  StepsWith(kMs);
  WaitedFor(0.4);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kHigh);
  EXPECT_THAT(Report().verdict, HasSubstr("First change (HOST_BOUND)"));
}

// 2 ms of 10 are outside operators. What remains without the wait, 1 ms or less, has no finding.
TEST_F(HostWithoutCpuTest, TheHostIsBlamedForWhatIsReportedWithoutTheWait) {
  UnsteadyStepsWith(8 * kMs);
  WaitedFor(0.09);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kHigh);
  WaitedFor(0.11);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
}

TEST_F(HostWithoutCpuTest, ASmallWaitExcusesNoHost) {
  UnsteadyStepsWith(88 * kMs / 10);
  WaitedFor(0.05);  // 0.7 ms would remain, but so little is no contention.
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kHigh);
  WaitedFor(0.06);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
}

// Waits come at any place: not always between the same two operators, and not in every step.
TEST_F(HostWithoutCpuTest, TheHostIsBlamedForAGapThatIsInEveryStep) {
  StepsWith(6 * kMs);
  WaitedFor(0.4);
  const Finding finding = Find("HOST_BOUND");
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
  EXPECT_EQ(
      finding.confidence_reason,
      "the thread waits for a CPU for 4 ms of each step, which may lie in the gaps, but every "
      "step has gaps of 4 ms (CPU_CONTENTION)");
}

TEST_F(HostWithoutCpuTest, OneStepWithoutAGapOfTenLeavesItInNearlyEveryStep) {
  Steps(10);
  for (int step = 0; step < 10; ++step) OperatorsOf(step, step == 4 ? kStepNs : 6 * kMs);
  WaitedFor(0.4);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kMedium);
}

// Half of the gaps of each step are short: what is between these operators need not take long.
TEST_F(HostWithoutCpuTest, TheHostIsNotBlamedForLongGapsAmongShortOnes) {
  Steps(10);
  for (int step = 0; step < 10; ++step) {
    const int64_t begin = step * kStepNs;
    for (int64_t at = begin; at < begin + 8 * kMs; at += 2 * kMs) {
      const int64_t gap_ns = at == begin + 2 * kMs ? 19 * kMs / 10 : 10 * kUs;
      reader_.Operator(main_, "aten::linear", at, at + 2 * kMs - gap_ns);
    }
    reader_.Operator(main_, "aten::linear", begin + 8 * kMs, begin + kStepNs - 10 * kUs);
  }
  WaitedFor(0.3);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
}

TEST_F(HostWithoutCpuTest, TheHostIsNotBlamedForAGapInTheFewStepsThereAre) {
  Steps(4);
  for (int step = 0; step < 4; ++step) OperatorsOf(step, 6 * kMs);
  WaitedFor(0.4, 400 * kMs);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
}

class SyncTest : public CpuFixture {
 protected:
  // The GPU idles for `idle_ns` at the start of each step, as the one before ended with a wait for
  // it. Of the first step that is not known.
  void StepsThatDrain(int64_t idle_ns) {
    Steps(5);
    for (int step = 0; step < 5; ++step) {
      const int64_t at = step * kStepNs;
      Launch({.start_ns = at + idle_ns,
              .count = static_cast<int>((kStepNs - idle_ns) / (100 * kUs)),
              .lead_ns = idle_ns - 100 * kUs});
      reader_.ApiCall(main_, "cudaStreamSynchronize", at + kStepNs - 1200 * kUs,
                      at + kStepNs + 10 * kUs, 0);
    }
  }
};

// 0.3 ms of a step or less have no finding.
TEST_F(SyncTest, WaitingCallsAreBlamedForWhatIsReportedWithoutTheWait) {
  StepsThatDrain(kMs);
  ASSERT_NEAR(Find("SYNC_API").value, 0.08, 0.01);
  EXPECT_EQ(Find("SYNC_API").confidence, Confidence::kHigh);
  WaitedFor(0.06);
  EXPECT_EQ(Find("SYNC_API").confidence, Confidence::kLow);
}

TEST_F(SyncTest, WaitingCallsAreBlamedForMoreThanTheWait) {
  StepsThatDrain(11 * kMs / 10);
  ASSERT_GT(Find("SYNC_API").value, 0.084);
  WaitedFor(0.052);
  EXPECT_EQ(Find("SYNC_API").confidence, Confidence::kHigh);
}

TEST_F(SyncTest, ASmallWaitExcusesNoWaitingCalls) {
  StepsThatDrain(9 * kMs / 10);
  ASSERT_LT(Find("SYNC_API").value, 0.08);  // Less than 0.3 ms would remain.
  WaitedFor(0.05);
  EXPECT_EQ(Find("SYNC_API").confidence, Confidence::kHigh);
}

}  // namespace
}  // namespace profd::report
