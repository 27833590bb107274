// What findings say of a program that recording slowed down: of its steps without the recording.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "daemon/base/str_cat.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/findings/rules.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

class UnrecordedStepTest : public FindingsFixture {
 protected:
  // Steps of 10 ms, in which the GPU is busy for `count` * 5 us, and waits for each launch.
  void StepsOf(int count) {
    Steps(5);
    const int64_t each_ns = (kStepNs - 200 * kUs) / count;
    for (int step = 0; step < 5; ++step) {
      Launch({.start_ns = step * kStepNs + 100 * kUs,
              .count = count,
              .kernel_ns = 5 * kUs,
              .gap_ns = each_ns - 5 * kUs,
              .lead_ns = 2 * kUs,
              .call_ns = 1 * kUs,
              .op = "aten::add"});
    }
  }
  void SlowedBy(double estimate, double low, double high) {
    reader_.mutable_record().slowdown = {.known = true,
                                         .estimate = estimate,
                                         .low = low,
                                         .high = high,
                                         .before_step_count = 40,
                                         .during_step_count = 5};
  }
};

TEST_F(UnrecordedStepTest, SharesAreThoseOfTheStepWithoutTheRecording) {
  StepsOf(1000);  // Busy for half of the recorded step.
  const FindingsReport recorded = Report();
  EXPECT_EQ(recorded.unrecorded_step_ns, -1);
  EXPECT_THAT(recorded.verdict, Not(HasSubstr("unrecorded")));
  SlowedBy(0.5, 0.45, 0.55);
  const FindingsReport report = Report();
  EXPECT_NEAR(static_cast<double>(report.unrecorded_step_ns), 6.667 * kMs, 1 * kUs);
  EXPECT_NEAR(static_cast<double>(report.unrecorded_idle_ns), 1.667 * kMs, 1 * kUs);
  EXPECT_EQ(report.mean_step_ns, kStepNs);
  EXPECT_THAT(report.verdict,
              AllOf(HasSubstr("Recording made steps 50% longer: without it a step takes about "
                              "6.67 ms, and the GPU is idle for about 25% of it."),
                    HasSubstr("busy for about 75% of an unrecorded step")));
}

TEST_F(UnrecordedStepTest, AProgramThatIsBusyWithoutTheRecordingIsComputeBound) {
  StepsOf(1300);
  EXPECT_EQ(Report().bound, BoundBy::kHost);
  SlowedBy(0.4, 0.3, 0.5);
  EXPECT_EQ(Report().bound, BoundBy::kCompute);
}

TEST_F(UnrecordedStepTest, AFindingExplainsNoMoreOfAnotherOneThanItSaves) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Range(main_, "Optimizer.step#Adam.step", at, at + 9 * kMs);
    Launch({.start_ns = at + 100 * kUs,
            .count = 400,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs,
            .call_ns = 10 * kUs,
            .op = ""});
  }
  SlowedBy(1.0, 0.9, 1.1);  // Without the recording the GPU is idle for 3 ms of 5.
  const int64_t saving_ns = Find("TINY_KERNELS_OF_OP").saving_ns_per_step;
  ASSERT_GT(saving_ns, kMs);
  ASSERT_LE(saving_ns, 3 * kMs);
  EXPECT_THAT(Find("SMALL_KERNELS").measured,
              HasSubstr(StrCat("TINY_KERNELS_OF_OP explains ", TimeText(saving_ns), " of it")));
}

TEST_F(UnrecordedStepTest, NoChangeSavesWhatOnlyTheRecordingCosts) {
  StepsOf(1000);
  int64_t most_ns = 0;
  for (const Finding& finding : Report().findings) {
    most_ns = std::max(most_ns, finding.saving_ns_per_step);
  }
  ASSERT_GT(most_ns, 2 * kMs);
  SlowedBy(0.5, 0.45, 0.55);
  const FindingsReport report = Report();
  ASSERT_FALSE(report.findings.empty());
  for (const Finding& finding : report.findings) {
    EXPECT_LE(finding.saving_ns_per_step, report.unrecorded_idle_ns) << finding.rule;
  }
}

TEST_F(UnrecordedStepTest, ACauseKeepsItsPartOfTheIdleTimeThatIsNotTheRecordings) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Launch({.start_ns = at + 100 * kUs,
            .count = 300,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs,
            .call_ns = 10 * kUs,
            .op = "aten::add"});
    reader_.Range(main_, kLoader, at + 6'110 * kUs, at + kStepNs);
    Launch({.start_ns = at + 9'900 * kUs, .lead_ns = 1 * kUs, .call_ns = 1 * kUs});
  }
  ASSERT_GT(Find("IDLE_HOST_WAIT").saving_ns_per_step, 3 * kMs);
  const int64_t loader_ns = Find("INPUT_BOUND").saving_ns_per_step;
  SlowedBy(0.5, 0.45, 0.55);
  EXPECT_NEAR(static_cast<double>(Find("INPUT_BOUND").saving_ns_per_step),
              static_cast<double>(loader_ns), 200e3);
  const Finding launches = Find("IDLE_HOST_WAIT");
  EXPECT_LT(launches.saving_ns_per_step, 1500 * kUs);
  EXPECT_THAT(launches.measured, HasSubstr("Without the recording, about"));
  EXPECT_THAT(launches.measured, Not(HasSubstr("no change saves more")));
}

TEST_F(UnrecordedStepTest, IdleTimeOfTheRecordingAloneIsNoFinding) {
  StepsOf(1000);
  SlowedBy(1.0, 0.9, 1.1);
  const FindingsReport report = Report();
  EXPECT_EQ(report.unrecorded_idle_ns, 0);
  EXPECT_EQ(report.bound, BoundBy::kCompute);
  EXPECT_THAT(report.findings, Not(Contains(Field(&Finding::rule, "IDLE_HOST_WAIT"))));
  EXPECT_THAT(report.skipped,
              Contains(AllOf(Field(&SkippedRule::rule, "IDLE_HOST_WAIT"),
                             Field(&SkippedRule::needs, HasSubstr("not the recording's")))));
}

TEST_F(UnrecordedStepTest, ASlowDownThatMayBeNoiseChangesNothing) {
  StepsOf(1000);
  const std::string verdict = Report().verdict;
  SlowedBy(0.1, -0.02, 0.3);
  const FindingsReport report = Report();
  EXPECT_EQ(report.unrecorded_step_ns, -1);
  EXPECT_THAT(report.verdict, HasSubstr(verdict.substr(0, verdict.find("Quality"))));
}

TEST_F(UnrecordedStepTest, AFewPointsAreNotWorthASentence) {
  StepsOf(1000);
  SlowedBy(0.02, 0.01, 0.03);
  const FindingsReport report = Report();
  EXPECT_GT(report.unrecorded_step_ns, 9 * kMs);
  EXPECT_THAT(report.verdict, Not(HasSubstr("Recording made")));
}

}  // namespace
}  // namespace profd::report
