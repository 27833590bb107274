#include "daemon/capture/quality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace profd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class QualityTest : public testing::Test {
 protected:
  QualityTest() {
    record_.state = CaptureState::kComplete;
    record_.start_unix_ns = 1;
    record_.event_count = 100'000;
    record_.spec.steps = 5;
    record_.covered_steps = 5;
    record_.slowdown = {.known = true, .estimate = 0.01, .low = -0.01, .high = 0.03};
    events_.gpu_row_count = 1'000;
    events_.launch_count = 1'000;
    events_.range_count = 10'000;
  }
  QualityCheck Check(std::string_view name) const {
    for (const QualityCheck& check : ComputeQuality(record_, &events_).checks) {
      if (check.name == name) return check;
    }
    ADD_FAILURE() << "no check " << name;
    return {};
  }
  std::string Grade() const { return ComputeQuality(record_, &events_).grade; }
  void Lose(int64_t events) { record_.drops[static_cast<size_t>(DropReason::kNoChunk)] = events; }

  CaptureRecord record_;
  EventChecks events_;
};

TEST_F(QualityTest, ACaptureOfWhichAllIsThereIsAnA) {
  EXPECT_EQ(Grade(), "A");
  EXPECT_EQ(QualityGrade(record_), "A");
  for (const QualityCheck& check : ComputeQuality(record_, &events_).checks) {
    EXPECT_FALSE(check.failed()) << check.name;
    EXPECT_FALSE(check.sentence.empty()) << check.name;
  }
}

TEST_F(QualityTest, NothingRecordedHasNoGrade) {
  record_.start_unix_ns = 0;
  EXPECT_EQ(Grade(), "-");
  EXPECT_THAT(ComputeQuality(record_).checks, IsEmpty());
}

TEST_F(QualityTest, LossesLowerTheGradeByTheirShare) {
  Lose(1);
  EXPECT_EQ(Grade(), "B");
  Lose(1'100);
  EXPECT_EQ(Grade(), "C");
  EXPECT_THAT(Check("loss").sentence, HasSubstr("1100 of 101100 (1.09%) events were lost"));
  Lose(12'000);
  EXPECT_EQ(Grade(), "D");
}

TEST_F(QualityTest, SharesAreMarkedAndThenWithheldAsLossesGrow) {
  Lose(50);
  EXPECT_EQ(ComputeQuality(record_).shares, ShareTrust::kWhole);
  Lose(200);
  EXPECT_EQ(ComputeQuality(record_).shares, ShareTrust::kMarked);
  Lose(11'112);  // Of 111,112 events in all.
  EXPECT_EQ(ComputeQuality(record_).shares, ShareTrust::kWithheld);
}

TEST(ShareTrustTest, IsOfTheShareThatWasLost) {
  EXPECT_EQ(TrustOfShares(LostShare(0, 0)), ShareTrust::kWhole);  // 0, not a number that is none.
  EXPECT_EQ(TrustOfShares(LostShare(1, 0)), ShareTrust::kWithheld);
  EXPECT_EQ(TrustOfShares(LostShare(1, 999)), ShareTrust::kWhole);  // The bound itself is whole.
  EXPECT_EQ(TrustOfShares(LostShare(1, 998)), ShareTrust::kMarked);
  EXPECT_EQ(TrustOfShares(LostShare(1, 9)), ShareTrust::kWithheld);  // And this one is not marked.
  EXPECT_EQ(TrustOfShares(LostShare(1, 10)), ShareTrust::kMarked);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_DOUBLE_EQ(LostShare(kMost, kMost), 0.5);
}

TEST_F(QualityTest, StepsThatWereNotCoveredLowerTheGrade) {
  record_.covered_steps = 4;
  record_.state = CaptureState::kCancelled;
  EXPECT_EQ(Grade(), "C");
  EXPECT_DOUBLE_EQ(Check("coverage").value, 0.2);
  EXPECT_EQ(Check("coverage").sentence,
            "4 of 5 steps were recorded: 20% of what was requested is missing");
  record_.state = CaptureState::kPartial;
  record_.ended_by = EndedBy::kByteCap;
  EXPECT_EQ(Grade(), "D");
  EXPECT_THAT(Check("coverage").sentence, HasSubstr("byte_cap"));
}

TEST_F(QualityTest, ACaptureWhoseProcessWasStoppedAtItsEndIsNoA) {
  record_.spec.steps = 0;
  record_.spec.duration = absl::Seconds(3);
  record_.covered_ns = 3'000'000'000;
  EXPECT_EQ(Grade(), "A");
  record_.target.state = TargetState::kStopped;
  EXPECT_EQ(Grade(), "C");
  EXPECT_THAT(Check("coverage").sentence, HasSubstr("was stopped at the end"));
}

TEST_F(QualityTest, TimeThatIsShortByTheTimeOfStoppingCounts) {
  record_.spec.steps = 0;
  record_.spec.duration = absl::Seconds(1);
  record_.covered_ns = 999'000'000;
  EXPECT_EQ(Grade(), "A");
  record_.covered_ns = 500'000'000;
  record_.state = CaptureState::kCancelled;
  EXPECT_EQ(Grade(), "C");
}

TEST_F(QualityTest, WorkThatBeginsBeforeItsLaunchMakesTimesDoubtful) {
  events_.inversion_count = 1;
  events_.worst_inversion_ns = 2'500;
  EXPECT_EQ(Grade(), "B");
  EXPECT_THAT(Check("inversions").sentence, HasSubstr("by up to 2.5 us"));
  events_.inversion_count = 20;
  EXPECT_EQ(Grade(), "C");
  EXPECT_EQ(QualityGrade(record_), "A");  // A listing does not look at events.
}

TEST_F(QualityTest, AFewOrphansAreNoLossAndManyHideWhoLaunched) {
  events_.orphan_count = 10;
  EXPECT_EQ(Grade(), "A");
  events_.orphan_count = 11;
  EXPECT_EQ(Grade(), "B");
}

TEST_F(QualityTest, AGpuWhoseWorkIsUnknownAtTheStartCostsTheGradeByItsShare) {
  record_.covered_ns = 1'000'000'000;
  const auto grade_of = [&](double share) {
    events_.unknown_gpu_ns = static_cast<int64_t>(share * static_cast<double>(record_.covered_ns));
    return Check("orphans").grade;
  };
  EXPECT_EQ(grade_of(0.01), 'A');
  EXPECT_EQ(grade_of(0.02), 'B');
  EXPECT_EQ(grade_of(0.2), 'C');
  EXPECT_THAT(Check("orphans").sentence, HasSubstr("launched before the recording began"));
}

TEST_F(QualityTest, WorkThatWasLaunchedBeforeTheWindowIsNoOrphan) {
  events_.orphan_count = 400;
  events_.earlier_work_count = 390;
  EXPECT_EQ(Grade(), "A");
  EXPECT_THAT(Check("orphans").sentence, HasSubstr("390 more were launched before the window"));
  events_.earlier_work_count = 389;
  EXPECT_EQ(Grade(), "B");
}

TEST_F(QualityTest, LaunchesWithoutWorkAreMissed) {
  events_.silent_launch_count = 11;
  EXPECT_EQ(Grade(), "B");
}

TEST_F(QualityTest, LaunchesThatFailedAreNamed) {
  events_.failed_launch_count = 4;
  events_.failed_result = 700;
  EXPECT_EQ(Grade(), "B");
  EXPECT_EQ(Check("silent_launches").sentence,
            "4 launches failed, the first with error 700; the others have GPU work in the "
            "recording");
  events_.launch_count = 0;
  EXPECT_EQ(Check("silent_launches").sentence, "all 4 launches failed, the first with error 700");
}

TEST_F(QualityTest, ALaunchOfAGraphWithoutWorkIsMoreThanOneLaunch) {
  events_.launch_count = 1000;
  events_.silent_launch_count = 6;
  EXPECT_EQ(Grade(), "A");
  events_.graph_launch_count = 6;
  events_.silent_graph_count = 6;
  EXPECT_EQ(Grade(), "D");
  EXPECT_THAT(Check("silent_launches").sentence, HasSubstr("6 of 6 (100%) launches of graphs"));
  // Their nodes may be among the work without a launch.
  events_.orphan_count = 6;
  EXPECT_EQ(Grade(), "A");
}

TEST_F(QualityTest, ManyCutRangesAreMissed) {
  events_.cut_range_count = 101;
  EXPECT_EQ(Grade(), "B");
}

TEST_F(QualityTest, RangesThatThreadsLeftOpenAreNamed) {
  events_.unended_range_count = 1;
  events_.unended_range_name = "fetch";
  EXPECT_EQ(Grade(), "B");
  EXPECT_EQ(Check("unended_ranges").sentence,
            "1 range 'fetch' never ended; it is taken to end with its thread");
  events_.unended_range_count = 2;
  EXPECT_EQ(Check("unended_ranges").sentence,
            "2 ranges never ended, most often 'fetch'; each is taken to end with its thread");
}

TEST_F(QualityTest, OneRangeThatAStepLeftOpenIsNamed) {
  events_.unended_range_count = 1;
  events_.left_open_count = 1;
  events_.unended_range_name = "fetch";
  EXPECT_EQ(Check("unended_ranges").sentence,
            "1 range 'fetch' never ended; a later step began it again; it is taken to end with the "
            "window");
}

TEST_F(QualityTest, RangesThatStepsLeftOpenAreNamed) {
  events_.unended_range_count = 4;
  events_.left_open_count = 4;
  events_.unended_range_name = "fetch";
  EXPECT_EQ(Grade(), "B");
  EXPECT_EQ(
      Check("unended_ranges").sentence,
      "4 ranges never ended, most often 'fetch'; later steps began them again; each is taken to "
      "end with the window");
  events_.left_open_count = 3;
  EXPECT_THAT(Check("unended_ranges").sentence,
              HasSubstr("each is taken to end with its thread, or (3) with the window"));
}

TEST_F(QualityTest, ClocksThatAreOffLowerTheGrade) {
  record_.gpu.clock_error_ns = 1'001;
  EXPECT_EQ(Grade(), "B");
  record_.clock_error_ns = 100'000;
  EXPECT_EQ(Grade(), "C");
}

TEST_F(QualityTest, GpuRecordsThatTablesNeedLowerTheGradeIfTheyAreNotAvailable) {
  record_.gpu.kind_failures = {{.kind = "memory_pool", .result = "CUPTI_ERROR_INVALID_KIND (21)"}};
  EXPECT_EQ(Grade(), "A");
  record_.gpu.kind_failures.push_back({.kind = "driver", .result = "gives no records"});
  EXPECT_EQ(Grade(), "B");
  EXPECT_EQ(Check("gpu_recording").sentence,
            "2 kinds of GPU records were not available: driver (gives no records)");
}

TEST_F(QualityTest, ACertainOrProbableSlowDownLowersTheGrade) {
  record_.slowdown = {.known = true, .estimate = 0.09, .low = 0.05, .high = 0.9};
  EXPECT_EQ(Grade(), "A");
  record_.slowdown.estimate = 0.4;
  EXPECT_EQ(Grade(), "B");
  record_.slowdown.low = -0.01;
  EXPECT_EQ(Grade(), "B") << "noise may explain it, but probably does not";
  record_.slowdown.estimate = 0.09;
  EXPECT_EQ(Grade(), "A");
  record_.slowdown.low = 0.06;
  EXPECT_EQ(Grade(), "B");
  EXPECT_DOUBLE_EQ(Check("perturbation").value, 0.06);
  record_.slowdown.low = 0.3;
  EXPECT_EQ(Grade(), "C");
}

TEST_F(QualityTest, ASlowDownSaysHowToRecordLess) {
  record_.slowdown = {.known = true, .estimate = 0.56, .low = 0.4, .high = 0.7};
  record_.covered_steps = 5;
  record_.torch = {.outcome = TorchOutcome::kRecorded,
                   .operators = OperatorMode::kShapes,
                   .operator_count = 5 * 6139};
  EXPECT_THAT(Check("perturbation").sentence,
              HasSubstr("; to record less, repeat it with --ops names, which leaves out the inputs "
                        "of operators (6139 operators a step)"));
  record_.covered_steps = 0;
  EXPECT_THAT(Check("perturbation").sentence, ::testing::EndsWith("inputs of operators"));
  record_.torch.operators = OperatorMode::kNames;
  EXPECT_THAT(Check("perturbation").sentence, Not(HasSubstr("--ops")));
}

TEST_F(QualityTest, ASlowDownSaysWhatWasSlowerThanWhat) {
  record_.slowdown = {.known = true,
                      .estimate = 0.56,
                      .low = 0.4,
                      .high = 0.7,
                      .before_step_count = 43,
                      .during_step_count = 5,
                      .after_step_count = 20};
  EXPECT_EQ(Check("perturbation").sentence,
            "the 5 recorded steps took 56% longer than the 43 steps before and the 20 after the "
            "recording (at least 40%, at most 70%)");
}

TEST_F(QualityTest, WithoutMuchSlowDownNothingIsToBeLeftOut) {
  record_.slowdown = {.known = true, .estimate = 0.56, .low = 0.05, .high = 0.9};
  record_.torch = {.outcome = TorchOutcome::kRecorded,
                   .operators = OperatorMode::kShapes,
                   .operator_count = 6139};
  EXPECT_THAT(Check("perturbation").sentence, Not(HasSubstr("--ops")));
}

TEST_F(QualityTest, AnUnknownSlowDownIsNoSilentA) {
  record_.slowdown = {.unknown_reason = "the process has no steps"};
  EXPECT_FALSE(Check("perturbation").known);
  EXPECT_THAT(Check("perturbation").sentence, HasSubstr("unknown: the process has no steps"));
  EXPECT_EQ(Grade(), "B");
}

TEST_F(QualityTest, WaitsForACpuThatWereNotAllWatchedAreNamed) {
  EXPECT_FALSE(Check("cpu_waits").known);
  record_.cpu = {.watched_ns = 1'000'000, .thread_count = 768, .ran_ns = 1000};
  EXPECT_TRUE(Check("cpu_waits").known);
  EXPECT_EQ(Grade(), "A");
  record_.cpu.ended_thread_count = 3;
  record_.cpu.unwatched_ran_ns = 50;
  EXPECT_EQ(Grade(), "A") << "they ran for little";
  record_.cpu.unwatched_ran_ns = 250;
  EXPECT_EQ(Grade(), "B");
  record_.cpu.unread_thread_count = 3328;
  record_.cpu.unwatched_ran_ns = 0;
  EXPECT_EQ(Grade(), "A") << "the others slept";
  record_.cpu.unread_child_count = 1;
  EXPECT_EQ(Grade(), "A") << "numbers of the capture are as good";
  record_.cpu.unwatched_ran_ns = 250;
  EXPECT_EQ(Grade(), "B");
  EXPECT_EQ(
      Check("cpu_waits").sentence,
      "waits for a CPU are not all measured, so that contention is not excluded: 3328 threads "
      "were not watched; 1 child process was not watched, or only in part; 3 threads ended, whose "
      "last waits are missing; threads that were not watched ran for 20% of the CPU time of the "
      "process");
}

TEST_F(QualityTest, AWindowWithoutActivitySaysSo) {
  record_.covered_steps = 0;
  record_.spec.steps = 0;
  record_.event_count = 2;
  events_ = {};
  EXPECT_EQ(Check("activity").grade, 'A');
  events_.range_count = events_.cut_range_count = events_.spanning_range_count = 2;
  EXPECT_EQ(Grade(), "C");
  EXPECT_THAT(Check("activity").sentence,
              HasSubstr("2 ranges were open from its start to its end"));
  record_.event_count = 0;
  EXPECT_EQ(QualityGrade(record_), "C") << "without looking at events";
}

TEST_F(QualityTest, TheStoredGradeIsTheOnlyOne) {
  record_.graded = {.grade = "C", .checks = {{.name = "loss", .grade = 'C', .sentence = "why"}}};
  EXPECT_EQ(QualityGrade(record_), "C");
  const Quality quality = QualityOf(record_, &events_);
  EXPECT_EQ(quality.grade, "C");
  EXPECT_TRUE(quality.stored);
  EXPECT_EQ(quality.checks, record_.graded.checks);
  EXPECT_FALSE(IsGradeMissing(record_));
  EXPECT_EQ(ComputeQuality(record_, &events_).grade, "A") << "for the seal";
}

TEST_F(QualityTest, WithoutAStoredGradeOneIsComputedAndMarkedSo) {
  const Quality quality = QualityOf(record_, &events_);
  EXPECT_EQ(quality.grade, "A");
  EXPECT_FALSE(quality.stored);
  EXPECT_TRUE(IsGradeMissing(record_));
  record_.state = CaptureState::kRecording;
  EXPECT_FALSE(IsGradeMissing(record_)) << "it gets one";
}

TEST_F(QualityTest, AnImportedTraceIsABAtBest) {
  record_ = {};
  record_.state = CaptureState::kComplete;
  record_.event_count = 999;
  record_.imported.source = "trace.json.gz";
  EXPECT_EQ(Grade(), "B");
  EXPECT_FALSE(Check("loss").known);
  record_.imported.not_understood = {{"ph:Q", 500}};
  EXPECT_EQ(Grade(), "C");
}

TEST_F(QualityTest, WhatAnImportLeftOutIsLoss) {
  record_ = {};
  record_.state = CaptureState::kComplete;
  record_.event_count = 128;
  record_.imported.source = "trace.json.gz";
  record_.drops[static_cast<size_t>(DropReason::kTooDeep)] = 199'872;
  EXPECT_EQ(Grade(), "D");
  EXPECT_TRUE(Check("loss").known);
  EXPECT_THAT(Check("loss").sentence, HasSubstr("left out 199872 of 200000"));
  EXPECT_EQ(ComputeQuality(record_, nullptr).shares, ShareTrust::kWithheld);
}

TEST_F(QualityTest, AThinnedTraceHasNoSharesAndIsAD) {
  record_.imported.source = "trace.json";
  record_.event_count = 4'855;
  record_.drops[static_cast<size_t>(DropReason::kThinned)] = 167'754;
  EXPECT_EQ(Grade(), "D");
  EXPECT_EQ(ComputeQuality(record_, &events_).shares, ShareTrust::kWithheld);
  EXPECT_THAT(Check("loss").sentence, HasSubstr("thinned before its import"));
}

TEST_F(QualityTest, AnyNumbersAreSafe) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  record_.spec.steps = kMost;
  record_.spec.repeat = kMost;
  record_.covered_steps = -kMost;
  record_.event_count = kMost / 2;
  record_.imported.source = "x";
  record_.imported.not_understood = {{"a", kMost}, {"b", kMost}};
  EXPECT_FALSE(Grade().empty());
}

}  // namespace
}  // namespace profd
