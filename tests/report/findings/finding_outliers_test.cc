// Why a step is slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/report/findings/outliers.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::HasSubstr;

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
                        "save_checkpoint (+15 ms), host time in no recorded range (+5 ms)."));
  ASSERT_EQ(finding.evidence.size(), 3u);
  EXPECT_EQ(finding.evidence[1].name, "save_checkpoint");
  EXPECT_THAT(finding.evidence[1].detail, HasSubstr("1 calls instead of 0"));
}

TEST_F(FindingOutliersTest, AnOutlierThatNothingExplainsSaysSo) {
  for (int step = 0; step < 10; ++step) {
    reader_.Step(step, step * 100 * kMs, step == 6 ? 2 * kStepNs : kStepNs);
  }
  EXPECT_THAT(Find("STEP_OUTLIER").measured, HasSubstr("Nothing that was recorded explains"));
}

}  // namespace
}  // namespace profd::report
