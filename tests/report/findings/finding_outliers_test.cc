// Why a step is slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/report/findings/outliers.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class FindingOutliersTest : public FindingsFixture {};

TEST_F(FindingOutliersTest, AStepThatIsFarSlowerThanTheOthersIsFound) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t duration_ns = step == 6 ? 30 * kMs : kStepNs + step * kUs;
    reader_.Step(step, at, duration_ns);
    Launch({.start_ns = at, .count = static_cast<int>(duration_ns / (100 * kUs))});
    at += duration_ns;
  }
  const Finding finding = Find("STEP_OUTLIER");
  ASSERT_GE(finding.evidence.size(), 2u);
  EXPECT_EQ(finding.evidence[0].step, 6);
  EXPECT_EQ(finding.evidence[1].step, 6);
  EXPECT_THAT(finding.measured, HasSubstr("computing on the GPU (+"));
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 2e6, 1e4);
}

TEST_F(FindingOutliersTest, AnOutlierSaysWhatItHasMoreOfThanItsNeighbors) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t extra_ns = step == 6 ? 20 * kMs : 0;
    reader_.Step(step, at, kStepNs + extra_ns);
    reader_.Range(main_, "forward", at, at + 8 * kMs);
    if (step == 6) reader_.Range(main_, "save_checkpoint", at + 8 * kMs, at + 23 * kMs);
    at += kStepNs + extra_ns;
  }
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_THAT(finding.measured,
              HasSubstr("Step 6 took 30 ms; its neighbors took 10 ms. It has more of: "
                        "save_checkpoint (+15 ms), host time outside operators (+5 ms)."));
  ASSERT_EQ(finding.evidence.size(), 3u);
  EXPECT_EQ(finding.evidence[1].name, "save_checkpoint");
  EXPECT_THAT(finding.evidence[1].detail, HasSubstr("1 calls instead of 0"));
}

TEST_F(FindingOutliersTest, HostTimeOutsideOperatorsNamesItsPlace) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t extra_ns = step == 6 ? 20 * kMs : 0;
    reader_.Step(step, at, kStepNs + extra_ns);
    reader_.Range(main_, "forward", at, at + 5 * kMs);
    reader_.Range(main_, "backward", at + 5 * kMs + extra_ns, at + kStepNs + extra_ns);
    at += kStepNs + extra_ns;
  }
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_THAT(finding.measured, HasSubstr("more of: host time outside operators (+20 ms)."));
  ASSERT_EQ(finding.evidence.size(), 2u);
  EXPECT_EQ(finding.evidence[1].detail,
            "more than in neighboring steps; 20 ms between forward and backward");
  EXPECT_THAT(Fired(), Not(Contains("HOST_BOUND")));  // In the other steps there is none.
}

// Steps of Python, one of which has more of the same.
TEST_F(FindingOutliersTest, VaryingHostTimeOfHostBoundStepsIsNoOutlier) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t python_ns = step == 6 ? 17 * kMs : 9 * kMs;
    reader_.Step(step, at, kMs + python_ns);
    reader_.Range(main_, "forward", at, at + kMs);
    at += kMs + python_ns;
  }
  EXPECT_THAT(Fired(), ElementsAre("HOST_BOUND"));
}

TEST_F(FindingOutliersTest, ACheckpointInAHostBoundLoopIsAnOutlier) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t python_ns = step == 6 ? 90 * kMs : 9 * kMs;
    reader_.Step(step, at, kMs + python_ns);
    reader_.Range(main_, "forward", at, at + kMs);
    at += kMs + python_ns;
  }
  EXPECT_THAT(Fired(), UnorderedElementsAre("HOST_BOUND", "STEP_OUTLIER"));
  EXPECT_NEAR(static_cast<double>(Find("HOST_BOUND").saving_ns_per_step), 9e6, 1e3);
}

TEST_F(FindingOutliersTest, AnOutlierThatNothingExplainsSaysSo) {
  for (int step = 0; step < 10; ++step) {
    reader_.Step(step, step * 100 * kMs, step == 6 ? 2 * kStepNs : kStepNs);
  }
  EXPECT_THAT(Find("STEP_OUTLIER").measured, HasSubstr("Nothing that was recorded explains"));
}

}  // namespace
}  // namespace profd::report
