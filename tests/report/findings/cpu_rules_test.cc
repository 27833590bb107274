// Waiting for a CPU, as a finding, and what it takes the blame from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "proto/wire/event.h"
#include "tests/report/findings/cpu_fixture.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CpuRulesTest : public CpuFixture {
 protected:
  // Ten steps of 10 ms, and one of 50 ms.
  void StepsAndASlowOne() {
    StepsWith(kStepNs);
    reader_.Step(10, 10 * kStepNs, 5 * kStepNs);
    WaitedFor(0);
  }
  // All threads waited for so much in the ten steps, and in the slow one after them.
  void WaitedInSteps(CpuSample usual, CpuSample slow) {
    usual.time_ns = 10 * kStepNs;
    slow.time_ns = 15 * kStepNs;
    slow.waited_ns += usual.waited_ns;
    slow.children_waited_ns += usual.children_waited_ns;
    reader_.mutable_record().cpu.samples = {{.time_ns = -kMs}, usual, slow};
  }
};

TEST_F(CpuRulesTest, WaitingForACpuIsFoundWithItsSize) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  const Finding finding = Find("CPU_CONTENTION");
  EXPECT_DOUBLE_EQ(finding.value, 0.4);
  EXPECT_EQ(finding.saving_ns_per_step, 4 * kMs);
  EXPECT_EQ(finding.confidence, Confidence::kHigh);
  EXPECT_THAT(finding.measured, HasSubstr("waits for a CPU for 4 ms of each step (40%"));
  EXPECT_THAT(finding.measured, HasSubstr("All 2 threads"));
  EXPECT_THAT(Report().verdict, HasSubstr("First change (CPU_CONTENTION)"));
}

// In 200 ms each: what the thread that marks the steps ran and waited after the windows.
class CpuAfterRulesTest : public CpuRulesTest {
 protected:
  void WaitedAfter(int64_t ran_ns, int64_t waited_ns) {
    CpuRecord& cpu = reader_.mutable_record().cpu;
    cpu.after_watched_ns = 200 * kMs;
    cpu.threads[1].after_ran_ns = ran_ns;
    cpu.threads[1].after_waited_ns = waited_ns;
  }
};

TEST_F(CpuAfterRulesTest, WaitsOfTheWindowAloneAreNoContention) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  WaitedAfter(180 * kMs, 4 * kMs);
  EXPECT_THAT(Fired(), Not(Contains("CPU_CONTENTION")));
}

TEST_F(CpuAfterRulesTest, WaitsThatGoOnAreContention) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  WaitedAfter(60 * kMs, 120 * kMs);
  const Finding finding = Find("CPU_CONTENTION");
  EXPECT_DOUBLE_EQ(finding.value, 0.4);
  EXPECT_EQ(finding.saving_ns_per_step, 4 * kMs);
  EXPECT_THAT(finding.measured, Not(HasSubstr("the recording's")));
  EXPECT_EQ(finding.confidence, Confidence::kHigh);
}

// It ran for 50 ms of 200, and waited for 80. At the rate of afterwards it would have waited
// for 25.
TEST_F(CpuAfterRulesTest, WhatItWaitsOnlyInTheWindowIsNotSaved) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  WaitedAfter(100 * kMs, 50 * kMs);
  const Finding finding = Find("CPU_CONTENTION");
  EXPECT_DOUBLE_EQ(finding.value, 25.0 / 145);
  EXPECT_EQ(finding.saving_ns_per_step, 10 * kMs * 25 / 145);
  EXPECT_THAT(finding.measured, HasSubstr("waits for a CPU for 4 ms of each step (40%"));
  EXPECT_THAT(finding.measured,
              HasSubstr("Of that, 2.75 ms may be the recording's, which needs CPU time itself: "
                        "after it the thread waited for less."));
}

TEST_F(CpuAfterRulesTest, AProgramThatSleepsAfterwardsShowsNothing) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  WaitedAfter(10 * kMs, 0);
  EXPECT_DOUBLE_EQ(Find("CPU_CONTENTION").value, 0.4);
}

// Gloo reduces on the CPU, and takes longer where it has none.
class CollectivesWithoutCpuTest : public CpuRulesTest {
 protected:
  // 7 of the 10 ms of each step are in collectives.
  void SetUp() override {
    Steps(10);
    for (int64_t at = 0; at < 10 * kStepNs; at += kStepNs) {
      reader_.Operator(main_, "aten::linear", at, at + 2 * kMs);
      reader_.Operator(main_, "c10d::allreduce_", at + 2 * kMs, at + 9 * kMs);
    }
  }
};

TEST_F(CollectivesWithoutCpuTest, WaitsForACpuThatCanExplainThemAreSaidInstead) {
  WaitedFor(0.3);
  EXPECT_THAT(Report().verdict,
              AllOf(HasSubstr("Most of the time is in collectives, and the threads of the program "
                              "together wait for a CPU for 3 ms of each step, which can explain it "
                              "(CPU_CONTENTION). A capture of all ranks"),
                    Not(HasSubstr("the network"))));
}

TEST_F(CollectivesWithoutCpuTest, FewWaitsForACpuLeaveOpenWhatTheyWaitFor) {
  WaitedFor(0.2);
  EXPECT_THAT(Report().verdict,
              HasSubstr("Most of the time is in collectives: the program waits for other ranks or "
                        "for the network, or reduces on the CPU. A capture"));
}

TEST_F(CollectivesWithoutCpuTest, WaitsThatWereNotWatchedMayExplainThem) {
  WaitedFor(0.2);
  reader_.mutable_record().cpu.unread_thread_count = 5;
  EXPECT_THAT(Report().verdict, HasSubstr("for the network, or for a CPU, or reduces on the CPU"));
}

// A wait counts when it ends, so that it may have begun long before.
TEST_F(CpuRulesTest, AThreadDoesNotWaitWhileItRuns) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  CpuRecord& cpu = reader_.mutable_record().cpu;
  for (ThreadCpuRecord& thread : cpu.threads) {
    thread.ran_ns = cpu.watched_ns / 10;
    thread.waited_ns = 2 * cpu.watched_ns;
  }
  EXPECT_DOUBLE_EQ(Find("CPU_CONTENTION").value, 0.9);
  EXPECT_EQ(Find("CPU_CONTENTION").saving_ns_per_step, 9 * kMs);
}

TEST_F(CpuRulesTest, OneBurstInAShortWindowIsWeakEvidence) {
  StepsWith(6 * kMs);
  reader_.Step(10, 10 * kStepNs, 50 * kMs);
  WaitedFor(0.25, 160 * kMs);
  EXPECT_EQ(Find("CPU_CONTENTION").confidence, Confidence::kLow);
  EXPECT_THAT(Find("CPU_CONTENTION").confidence_reason, HasSubstr("it waited for 40 ms in all"));
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kHigh);
}

TEST_F(CpuRulesTest, AWaitIsNoBurstIfNoStepIsLongerByIt) {
  UnsteadyStepsWith(6 * kMs);
  WaitedFor(0.4, 100 * kMs);
  EXPECT_EQ(Find("CPU_CONTENTION").confidence, Confidence::kHigh);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
}

TEST_F(CpuRulesTest, TheLoaderIsNotBlamedForWorkersWithoutACpu) {
  StepsWith(kStepNs);
  for (int step = 0; step < 10; ++step) {
    reader_.Range(main_, kLoader, step * kStepNs, step * kStepNs + kMs);
  }
  EXPECT_EQ(Find("INPUT_BOUND").confidence, Confidence::kHigh);
  WaitedFor(0.4);
  EXPECT_EQ(Find("INPUT_BOUND").confidence, Confidence::kLow);
}

class WorkersTest : public CpuRulesTest {
 protected:
  // Each step waits for 2 ms of 10; two children waited for so much of 200 ms.
  Finding InputBoundWith(std::string_view loader, int64_t children_waited_ns) {
    StepsWith(kStepNs);
    for (int step = 0; step < 10; ++step) {
      reader_.Range(main_, loader, step * kStepNs, step * kStepNs + 2 * kMs);
    }
    WaitedFor(0);
    reader_.mutable_record().cpu.child_count = 2;
    reader_.mutable_record().cpu.children_ran_ns = 200 * kMs;
    reader_.mutable_record().cpu.children_waited_ns = children_waited_ns;
    return Find("INPUT_BOUND");
  }
  static constexpr std::string_view kWithWorkers =
      "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
};

// Two take turns, so a batch is late by half of what both wait for.
TEST_F(WorkersTest, TheLoaderIsNotBlamedForWorkersWithoutACpu) {
  const Finding finding = InputBoundWith(kWithWorkers, 80 * kMs);
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("the program and its child processes (2)"));
}

TEST_F(WorkersTest, TheLoaderIsBlamedForMoreThanWorkersWait) {
  EXPECT_EQ(InputBoundWith(kWithWorkers, 50 * kMs).confidence, Confidence::kHigh);
}

// What remains without the wait, 0.5 ms of a step or less, has no finding.
TEST_F(WorkersTest, TheLoaderIsBlamedForWhatIsReportedWithoutTheWait) {
  EXPECT_EQ(InputBoundWith(kWithWorkers, 59 * kMs).confidence, Confidence::kHigh);
  EXPECT_EQ(InputBoundWith(kWithWorkers, 61 * kMs).confidence, Confidence::kLow);
}

// Idle workers that each wait for a CPU do so one after the other.
TEST_F(WorkersTest, IdleWorkersDelayTheLoaderByAllThatTheyWait) {
  ASSERT_EQ(InputBoundWith(kWithWorkers, 40 * kMs).confidence, Confidence::kHigh);
  reader_.mutable_record().cpu.children_ran_ns = 20 * kMs;
  EXPECT_EQ(Find("INPUT_BOUND").confidence, Confidence::kLow);
}

TEST_F(WorkersTest, TheLoaderIsNotBlamedForWhatItAndItsWorkersWaitTogether) {
  ASSERT_EQ(InputBoundWith(kWithWorkers, 56 * kMs).confidence, Confidence::kHigh);
  reader_.mutable_record().cpu.threads[1].waited_ns = 4 * kMs;
  EXPECT_EQ(Find("INPUT_BOUND").confidence, Confidence::kLow);
}

// Eight workers that read files for most of the time, and wait for a CPU for 10 % of it.
TEST_F(WorkersTest, ASlowLoaderIsBlamedNextToBusyProcesses) {
  ASSERT_EQ(InputBoundWith(kWithWorkers, 0).confidence, Confidence::kHigh);
  for (int step = 0; step < 10; ++step) {
    reader_.Range(main_, kWithWorkers, step * kStepNs + 2 * kMs, step * kStepNs + 7 * kMs);
  }
  ASSERT_NEAR(Find("INPUT_BOUND").value, 0.7, 0.01);
  CpuRecord& cpu = reader_.mutable_record().cpu;
  cpu.threads[1].waited_ns = 20 * kMs;
  cpu.child_count = 8;
  cpu.children_ran_ns = 80 * kMs;
  cpu.children_waited_ns = 160 * kMs;
  EXPECT_EQ(Find("INPUT_BOUND").confidence, Confidence::kHigh);
}

TEST_F(WorkersTest, OtherChildrenExcuseNoLoaderWithoutWorkers) {
  EXPECT_EQ(InputBoundWith(kLoader, 80 * kMs).confidence, Confidence::kHigh);
}

TEST_F(CpuRulesTest, TheLoaderIsBlamedForMoreThanTheWait) {
  StepsWith(kStepNs);
  for (int step = 0; step < 10; ++step) {
    reader_.Range(main_, kLoader, step * kStepNs, step * kStepNs + 6 * kMs);
  }
  WaitedFor(0.4);
  EXPECT_EQ(Find("INPUT_BOUND").confidence, Confidence::kHigh);
}

TEST_F(CpuRulesTest, ASlowStepIsDoubtedIfABurstExplainsIt) {
  StepsWith(kStepNs);
  reader_.Step(10, 10 * kStepNs, 5 * kStepNs);
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
  WaitedFor(0.25, 160 * kMs);
  EXPECT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kLow);
  EXPECT_THAT(Find("STEP_OUTLIER").confidence_reason, HasSubstr("CPU_CONTENTION"));
}

// Threads are watched for longer than a short window lasts: that dilutes no wait.
TEST_F(CpuRulesTest, AllWaitsOfAShortWindowMayBeInItsSlowStep) {
  StepsWith(kStepNs);
  reader_.Step(10, 10 * kStepNs, 5 * kStepNs);
  WaitedFor(34.0 / 190, 190 * kMs);
  EXPECT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kLow);
  // Where they are watched for far longer than the steps last, that is not so.
  WaitedFor(34.0 / 210, 210 * kMs);
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

// A short loop is watched for far longer than it lasts, so that the wait is a small share of that.
TEST_F(CpuRulesTest, AWaitThatMayHaveBeenInTheOneSlowStepLeavesNoHighConfidence) {
  StepsWith(kStepNs);
  reader_.Step(10, 10 * kStepNs, 5 * kStepNs);
  WaitedFor(0.04, 900 * kMs);
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
  EXPECT_THAT(finding.confidence_reason,
              HasSubstr("waits for a CPU for 36 ms in and around the capture"));
}

TEST_F(CpuRulesTest, WithoutKnownWaitsOneSlowStepHasNoHighConfidence) {
  StepsWith(kStepNs);
  reader_.Step(10, 10 * kStepNs, 5 * kStepNs);
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("waited for a CPU in it is not known"));
}

TEST_F(CpuRulesTest, AStepInWhichNothingIsRecordedMayBeThatOfAStoppedProcess) {
  StepsWith(kStepNs);
  reader_.Step(10, 10 * kStepNs, 5 * kStepNs);
  WaitedFor(0);
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("of any thread for 50 ms of the slow step"));
  EXPECT_THAT(finding.confidence_reason, HasSubstr("SIGSTOP"));
}

TEST_F(CpuRulesTest, AProcessWhoseThreadRanOrOtherThreadWorkedWasNotStopped) {
  StepsWith(kStepNs);
  reader_.Step(10, 10 * kStepNs, 5 * kStepNs);
  WaitedFor(0);
  reader_.mutable_record().cpu.threads[1].ran_ns = 190 * kMs;
  EXPECT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kHigh);
  WaitedFor(0);
  const uint32_t other = reader_.AddThread(77, "logger");
  reader_.Range(other, "log", 12 * kStepNs, 13 * kStepNs);
  EXPECT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kHigh);
}

TEST_F(CpuRulesTest, ASlowStepThatDoesMoreIsNotDoubted) {
  StepsWith(kStepNs);
  reader_.Step(10, 10 * kStepNs, 5 * kStepNs);
  reader_.Range(main_, "aten::save", 11 * kStepNs, 15 * kStepNs,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  WaitedFor(0.25, 160 * kMs);
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

TEST_F(CpuRulesTest, ASlowStepIsDoubtedIfAnyThreadsWaitedInIt) {
  StepsAndASlowOne();
  WaitedInSteps({}, {.waited_ns = 38 * kMs});
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("wait for a CPU for up to 38 ms"));
}

TEST_F(CpuRulesTest, ASlowStepIsNotDoubtedIfItIsSlowWithoutTheWait) {
  StepsAndASlowOne();
  WaitedInSteps({}, {.waited_ns = 37 * kMs});
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

TEST_F(CpuRulesTest, ASlowStepIsNotDoubtedForWaitsInOthers) {
  StepsAndASlowOne();
  WaitedInSteps({.waited_ns = 38 * kMs}, {});
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

// Threads that always wait for so much, such as eight of which each lacks a CPU for 10 % of the
// time, do so in a step, too, that is long for another reason, such as a lock.
TEST_F(CpuRulesTest, ASlowStepIsNotDoubtedForAWaitThatIsUsual) {
  StepsAndASlowOne();
  WaitedInSteps({.waited_ns = 80 * kMs}, {.waited_ns = 40 * kMs});
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
  WaitedInSteps({.waited_ns = 80 * kMs}, {.waited_ns = 78 * kMs});
  EXPECT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

TEST_F(CpuRulesTest, ASlowStepThatDoesMoreIsNotDoubtedForItsWait) {
  StepsAndASlowOne();
  reader_.Range(main_, "aten::save", 11 * kStepNs, 15 * kStepNs,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  WaitedInSteps({}, {.waited_ns = 38 * kMs});
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

TEST_F(CpuRulesTest, OfTwoSlowStepsTheOneThatWaitedIsNotCounted) {
  StepsAndASlowOne();
  reader_.Step(11, 15 * kStepNs, kStepNs);
  reader_.Step(12, 16 * kStepNs, 3 * kStepNs);
  ASSERT_THAT(Find("STEP_OUTLIER").measured, HasSubstr("2 of 13 steps"));
  WaitedInSteps({}, {});
  reader_.mutable_record().cpu.samples.push_back({.time_ns = 16 * kStepNs});
  reader_.mutable_record().cpu.samples.push_back({.time_ns = 19 * kStepNs, .waited_ns = 18 * kMs});
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_GT(finding.confidence, Confidence::kLow);
  EXPECT_EQ(finding.saving_ns_per_step, 40 * kMs / 13);
  EXPECT_THAT(finding.measured, HasSubstr("1 of 13 steps"));
  EXPECT_THAT(finding.measured, HasSubstr("1 more slow step is not counted"));
  EXPECT_THAT(finding.measured, HasSubstr("Step 10 took 50 ms"));
  // Also if it is the slowest one.
  reader_.mutable_record().cpu.samples[2].waited_ns = 38 * kMs;
  reader_.mutable_record().cpu.samples[3].waited_ns = 38 * kMs;
  reader_.mutable_record().cpu.samples[4].waited_ns = 38 * kMs;
  EXPECT_THAT(Find("STEP_OUTLIER").measured, HasSubstr("Step 12 took 30 ms"));
  EXPECT_EQ(Find("STEP_OUTLIER").value, 3.0 * kStepNs);
}

// Whether the wait is longer than usual is unknown then.
TEST_F(CpuRulesTest, WithoutSamplesOfUsualStepsNoSlowStepIsExcused) {
  StepsAndASlowOne();
  WaitedInSteps({}, {.waited_ns = 38 * kMs});
  ASSERT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kLow);
  std::vector<CpuSample>& samples = reader_.mutable_record().cpu.samples;
  samples.erase(samples.begin());
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

// They say too little of the slow step.
TEST_F(CpuRulesTest, SamplesThatAreFarApartExcuseNoSlowStep) {
  StepsAndASlowOne();
  CaptureRecord& record = reader_.mutable_record();
  WaitedInSteps({}, {.waited_ns = 38 * kMs});
  ASSERT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kLow);
  record.cpu.samples.erase(record.cpu.samples.begin() + 1);
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

// The wait may have been of another thread, while this one worked.
TEST_F(CpuRulesTest, OfTwoSlowStepsTheOneThatDoesMoreIsCounted) {
  StepsAndASlowOne();
  reader_.Step(11, 15 * kStepNs, kStepNs);
  reader_.Step(12, 16 * kStepNs, 3 * kStepNs);
  reader_.Range(main_, "aten::save", 16 * kStepNs, 18 * kStepNs,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  WaitedInSteps({}, {});
  reader_.mutable_record().cpu.samples.push_back({.time_ns = 16 * kStepNs});
  reader_.mutable_record().cpu.samples.push_back({.time_ns = 19 * kStepNs, .waited_ns = 18 * kMs});
  EXPECT_THAT(Find("STEP_OUTLIER").measured, HasSubstr("2 of 13 steps"));
}

TEST_F(CpuRulesTest, ChildrenExcuseASlowStepOnlyIfTheyLoadItsData) {
  StepsAndASlowOne();
  WaitedInSteps({}, {.children_waited_ns = 38 * kMs});
  EXPECT_GT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
  for (int step = 0; step <= 10; ++step) {
    reader_.Range(main_, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                  step * kStepNs, step * kStepNs + (step < 10 ? kMs / 10 : 4 * kStepNs));
  }
  EXPECT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

TEST_F(CpuRulesTest, ASlowFirstStepThatIsLeftOutIsNoBurst) {
  reader_.Step(-1, -5 * kStepNs, 5 * kStepNs);
  UnsteadyStepsWith(6 * kMs);
  WaitedFor(0.4, 115 * kMs);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
}

TEST_F(CpuRulesTest, HalfOfABurstIsInOneStep) {
  UnsteadyStepsWith(6 * kMs);
  reader_.Step(10, 10 * kStepNs, 30 * kMs);
  WaitedFor(0.28, 140 * kMs);  // 39 ms; the step is 20 ms longer.
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kHigh);
  WaitedFor(0.3, 140 * kMs);
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
}

TEST_F(CpuRulesTest, RecordingIsNotBlamedForTimeWithoutACpu) {
  StepsWith(kStepNs);
  CaptureRecord& record = reader_.mutable_record();
  record.slowdown = {.known = true,
                     .estimate = 0.5,
                     .low = 0.06,
                     .high = 2.8,
                     .before_step_count = 60,
                     .during_step_count = 20,
                     .after_step_count = 20};
  record.step_before_ns = 8 * kMs;
  record.step_during_ns = 12 * kMs;
  EXPECT_EQ(Find("QUALITY_PERTURBATION").confidence, Confidence::kHigh);
  WaitedFor(0.4);
  EXPECT_EQ(Find("QUALITY_PERTURBATION").confidence, Confidence::kLow);
  // Nor for that of threads that the one of the steps waits for.
  WaitedFor(0);
  EXPECT_EQ(Find("QUALITY_PERTURBATION").confidence, Confidence::kHigh);
  record.cpu.waited_ns = 80 * kMs;
  EXPECT_EQ(Find("QUALITY_PERTURBATION").confidence, Confidence::kLow);
}

// The recording needs CPU time, too: what steps are longer for in the window may be its doing.
TEST_F(CpuRulesTest, WaitsThatTheRecordingMayCauseAreNamed) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  CaptureRecord& record = reader_.mutable_record();
  record.slowdown = {};
  record.around_step_count = 40;
  record.around_step_mean_ns = 6 * kMs;
  EXPECT_EQ(Find("CPU_CONTENTION").confidence, Confidence::kMedium);
  EXPECT_THAT(Find("CPU_CONTENTION").confidence_reason, HasSubstr("the recording's"));
  EXPECT_THAT(Find("CPU_CONTENTION").measured, HasSubstr("Of that, 4 ms may be the recording's"));
  // As busy around it: 1 ms of the 4 is the recording's at most.
  record.around_step_mean_ns = 9 * kMs;
  const Finding finding = Find("CPU_CONTENTION");
  EXPECT_EQ(finding.confidence, Confidence::kHigh);
  EXPECT_EQ(finding.saving_ns_per_step, 4 * kMs);
  EXPECT_THAT(finding.measured, HasSubstr("waits for a CPU for 4 ms of each step (40%"));
  EXPECT_THAT(finding.measured, HasSubstr("Of that, 1 ms may be the recording's"));
  // Some steps around it took far longer than the median: they waited, too.
  record.around_step_mean_ns = 6 * kMs;
  record.step_before_ns = 3 * kMs;
  EXPECT_EQ(Find("CPU_CONTENTION").confidence, Confidence::kHigh);
  EXPECT_THAT(Find("CPU_CONTENTION").measured, Not(HasSubstr("the recording's")));
}

// A checkpoint in the window alone is not the recording's.
TEST_F(CpuRulesTest, AnOutlierInTheWindowMakesNoStepLongerThanThoseAround) {
  StepsAndASlowOne();
  CaptureRecord& record = reader_.mutable_record();
  record.slowdown = {};
  const int64_t recorded_ns = Find("STEP_OUTLIER").saving_ns_per_step;
  ASSERT_GT(recorded_ns, 0);
  record.around_step_count = 40;
  record.around_step_mean_ns = kStepNs;
  EXPECT_EQ(Find("STEP_OUTLIER").saving_ns_per_step, recorded_ns);
  EXPECT_THAT(Report().verdict, Not(HasSubstr("of an unrecorded step")));
  // Of those around it, some were as slow, and even so they took less.
  record.around_slow_step_count = 4;
  EXPECT_LT(Find("STEP_OUTLIER").saving_ns_per_step, recorded_ns);
}

// A saving is one of the unrecorded step.
TEST_F(CpuRulesTest, SavingsOfAProgramWithoutAGpuAreThoseOfAnUnrecordedStep) {
  StepsWith(6 * kMs);
  WaitedFor(0);
  CaptureRecord& record = reader_.mutable_record();
  record.slowdown = {};
  const int64_t recorded_ns = Find("HOST_BOUND").saving_ns_per_step;
  ASSERT_GT(recorded_ns, 0);
  const auto expect_part = [&](double part) {
    EXPECT_NEAR(static_cast<double>(Find("HOST_BOUND").saving_ns_per_step),
                part * static_cast<double>(recorded_ns), 1);
  };
  record.around_step_count = 83;
  record.around_step_mean_ns = 5 * kMs;
  expect_part(0.5);
  EXPECT_THAT(Report().verdict, HasSubstr("The 83 steps around the capture took 5 ms on average."));
  EXPECT_THAT(Report().verdict, HasSubstr("of an unrecorded step"));
  // The slow-down that is certain counts, whatever else made steps longer.
  record.slowdown = {.known = true, .estimate = 0.25, .low = 0.1, .high = 0.4};
  expect_part(0.8);
  EXPECT_THAT(Report().verdict,
              HasSubstr("Recording made steps 25% longer: without it a step takes about 8 ms."));
  record.slowdown.low = -0.1;  // Noise may explain it.
  expect_part(1);
  record.slowdown = {};
  record.around_step_mean_ns = static_cast<int64_t>(9.5 * kMs);  // So may it this.
  expect_part(1);
}

// It ran or wanted to all the time, so that it did not wait for requests.
TEST_F(CpuRulesTest, WithoutStepsAThreadThatNeverSleepsHasSomethingToDo) {
  reader_.mutable_record().windows = {{.start_ns = 0, .end_ns = 10 * kStepNs}};
  for (int i = 0; i < 10; ++i) {
    const int64_t begin = i * kStepNs;
    reader_.Range(main_, "aten::linear", begin, begin + 3 * kMs,
                  {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  }
  EXPECT_THAT(Find("HOST_BOUND").confidence_reason, HasSubstr("nothing to do"));
  reader_.mutable_record().cpu = {
      .watched_ns = 10 * kStepNs,
      .thread_count = 1,
      .ran_ns = 10 * kStepNs,
      .threads = {{.os_thread = reader_.threads()[main_].os_thread, .ran_ns = 10 * kStepNs}}};
  EXPECT_THAT(Find("HOST_BOUND").confidence_reason, Not(HasSubstr("nothing to do")));
}

// Six workers of a DataLoader on two CPUs.
TEST_F(CpuRulesTest, ChildProcessesThatUseTheCpusAreNamed) {
  StepsWith(kStepNs);
  WaitedFor(0.2);
  EXPECT_THAT(Find("CPU_CONTENTION").advice, HasSubstr("Other processes, or too many threads"));
  reader_.mutable_record().cpu.child_count = 6;
  reader_.mutable_record().cpu.children_ran_ns = 150 * kMs;
  EXPECT_THAT(Find("CPU_CONTENTION").advice, HasSubstr("such as workers of a DataLoader"));
  EXPECT_THAT(Find("CPU_CONTENTION").measured,
              HasSubstr("Its child processes (6) ran for 150 ms."));
  reader_.mutable_record().cpu.children_ran_ns = 10 * kMs;
  EXPECT_THAT(Find("CPU_CONTENTION").advice, HasSubstr("Other processes, or too many threads"));
}

TEST_F(CpuRulesTest, TheOperatorThatTakesMostOfTheHostIsNamed) {
  StepsWith(kStepNs);
  reader_.Range(main_, "aten::sort", 10 * kStepNs, 30 * kStepNs,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  reader_.mutable_record().covered_ns = 30 * kStepNs;
  EXPECT_THAT(Report().verdict,
              HasSubstr("Of the time in operators and ranges, aten::sort itself takes 66.7%."));
  // Where little of the time is in ranges, that says little.
  reader_.mutable_record().covered_ns = 100 * kStepNs;
  EXPECT_THAT(Report().verdict, Not(HasSubstr("itself takes")));
}

TEST_F(CpuRulesTest, AnOperatorThatTakesFarMoreThanTheFirstChangeSavesIsToBeLookedAtFirst) {
  constexpr int64_t kOutsideNs = 2 * kMs;
  const auto verdict_of = [&](std::string_view op) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    for (int step = 0; step < 10; ++step) {
      const int64_t begin = step * kStepNs;
      reader_.Step(step, begin, kStepNs);
      reader_.Range(main_, op, begin, begin + kStepNs - kOutsideNs,
                    {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
    }
    reader_.mutable_record().covered_ns = 10 * kStepNs;
    return Report().verdict;
  };
  const std::string verdict = verdict_of("aten::fill_");
  EXPECT_THAT(verdict, HasSubstr("First change (HOST_BOUND)"));
  EXPECT_THAT(verdict,
              HasSubstr("But aten::fill_ itself takes about 8 ms of each step: look at it"));
  EXPECT_THAT(verdict_of("aten::addmm"), Not(HasSubstr("look at it first")));
}

// Steps that are 2 ms outside of operators, with ten nodes of autograd, of which so many check what
// they return.
TEST_F(CpuRulesTest, AnomalyDetectionIsToBeTurnedOffFirst) {
  const auto run = [&](int checked) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    constexpr auto kOperator = static_cast<uint8_t>(wire::RangeCategory::kOperator);
    for (int step = 0; step < 10; ++step) {
      reader_.Step(step, step * kStepNs, kStepNs);
      for (int node = 0; node < 10; ++node) {
        const int64_t begin = step * kStepNs + node * 800 * kUs;
        reader_.Range(main_, "autograd::engine::evaluate_function: MmBackward0", begin,
                      begin + 800 * kUs, {.category = kOperator});
        if (node >= checked) continue;
        reader_.Range(main_, "aten::_is_any_true", begin + 710 * kUs, begin + 740 * kUs,
                      {.category = kOperator});
      }
    }
  };
  run(10);
  EXPECT_EQ(Find("ANOMALY_MODE").saving_ns_per_step, 300 * kUs);
  EXPECT_EQ(Report().findings.front().rule, "ANOMALY_MODE");
  EXPECT_THAT(Report().verdict,
              HasSubstr("First change (ANOMALY_MODE): Anomaly detection of autograd "
                        "is on. Turn it off"));
  EXPECT_THAT(Report().verdict, HasSubstr("Worth at least 300 us a step"));
  run(5);  // Some other checks.
  EXPECT_THAT(Fired(), Contains("HOST_BOUND"));
  EXPECT_THAT(Fired(), Not(Contains("ANOMALY_MODE")));
}

TEST_F(CpuRulesTest, ThreadsThatAreNotWatchedMakeContentionUnknown) {
  StepsWith(kStepNs);
  WaitedFor(0);
  CaptureRecord& record = reader_.mutable_record();
  record.slowdown = {.known = true,
                     .estimate = 0.5,
                     .low = 0.06,
                     .high = 0.8,
                     .before_step_count = 60,
                     .during_step_count = 20,
                     .after_step_count = 20};
  record.step_before_ns = 8 * kMs;
  ASSERT_THAT(NeedsOf("CPU_CONTENTION"), IsEmpty());
  ASSERT_EQ(Find("QUALITY_PERTURBATION").confidence, Confidence::kHigh);
  record.cpu.unread_thread_count = 5;
  EXPECT_THAT(NeedsOf("CPU_CONTENTION"), HasSubstr("5 threads were not watched"));
  EXPECT_EQ(Find("QUALITY_PERTURBATION").confidence, Confidence::kLow);
  EXPECT_THAT(Find("QUALITY_PERTURBATION").confidence_reason, HasSubstr("were not watched"));
}

// What those that were watched waited for is enough.
TEST_F(CpuRulesTest, ContentionIsFoundThoughThreadsAreNotWatched) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  reader_.mutable_record().cpu.unread_thread_count = 5;
  EXPECT_THAT(Fired(), Contains("CPU_CONTENTION"));
}

TEST_F(CpuRulesTest, InAShortWindowAWaitIsNotBlamedButCastsDoubt) {
  UnsteadyStepsWith(6 * kMs);
  WaitedFor(0.4, 40 * kMs);
  EXPECT_THAT(Fired(), Not(Contains("CPU_CONTENTION")));
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
  EXPECT_THAT(Find("HOST_BOUND").confidence_reason, Not(HasSubstr("CPU_CONTENTION")));
}

TEST_F(CpuRulesTest, AWaitBelowTheThresholdIsNone) {
  StepsWith(kStepNs);
  WaitedFor(0.04);
  EXPECT_THAT(Fired(), Not(Contains("CPU_CONTENTION")));
}

TEST_F(CpuRulesTest, LaunchesAreNotBlamedForTimeWithoutACpu) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs + 100 * kUs,
            .count = 400,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs,
            .call_ns = 10 * kUs});
  }
  EXPECT_GT(Find("SMALL_KERNELS").confidence, Confidence::kLow);
  EXPECT_THAT(Report().verdict, Not(HasSubstr("CPU_CONTENTION")));
  WaitedFor(0.95);
  EXPECT_EQ(Find("SMALL_KERNELS").confidence, Confidence::kLow);
  EXPECT_EQ(Find("IDLE_HOST_WAIT").confidence, Confidence::kLow);
  EXPECT_THAT(Report().verdict, HasSubstr("First change (CPU_CONTENTION)"));
}

TEST_F(CpuRulesTest, AWaitThatTheGpuHidesCostsNothing) {
  Healthy();
  WaitedFor(0.4);
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(CpuRulesTest, WithoutAMeasurementTheRuleSaysSo) {
  StepsWith(kStepNs);
  EXPECT_THAT(NeedsOf("CPU_CONTENTION"), HasSubstr("wait for a CPU"));
  WaitedFor(0.4);
  reader_.mutable_record().cpu.watched_ns = 40 * kMs;
  EXPECT_THAT(NeedsOf("CPU_CONTENTION"), HasSubstr("50 ms or more"));
}

TEST_F(CpuRulesTest, WithoutTheThreadOfTheStepsNothingIsClaimed) {
  StepsWith(kStepNs);
  WaitedFor(0.4);
  reader_.mutable_record().cpu.threads.pop_back();
  EXPECT_THAT(Fired(), Not(Contains("CPU_CONTENTION")));
}

}  // namespace
}  // namespace profd::report
