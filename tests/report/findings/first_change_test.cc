// What a change can save where work overlaps, and what comes first where that is little.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

using FirstChangeTest = FindingsFixture;

TEST_F(FirstChangeTest, CommunicationThatNothingCanHideIsStillWhatToChange) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 2});
    Launch({.start_ns = step * kStepNs + kMs,
            .kernel_ns = 8 * kMs,
            .kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            .op = "nccl:all_reduce",
            .gpu = {.stream = 20}});
  }
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kCommunication);
  EXPECT_EQ(report.findings.front().rule, "COMM_EXPOSED");
  EXPECT_THAT(report.verdict, HasSubstr("First change (COMM_EXPOSED)"));
}

TEST_F(FirstChangeTest, KernelsThatFillTheGpuSideBySideAreNotFound) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    for (const uint32_t stream : {7U, 8U, 9U, 10U}) {
      Launch({.start_ns = step * kStepNs,
              .count = 100,
              .gpu = {.stream = stream,
                      .grid = {33, 1, 1},
                      .block = {256, 1, 1},
                      .registers_per_thread = 32}});
    }
  }
  EXPECT_THAT(Fired(), Not(Contains("LOW_WAVES")));
}

}  // namespace
}  // namespace profd::report
