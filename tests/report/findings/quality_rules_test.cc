// How well a capture was recorded, as findings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using QualityRulesTest = FindingsFixture;

TEST_F(QualityRulesTest, LossesAreFoundAndManyWithholdShares) {
  Healthy();
  auto& lost = reader_.mutable_record().drops[static_cast<size_t>(DropReason::kNoChunk)];
  lost = 50;
  EXPECT_THAT(Fired(), IsEmpty());
  lost = 2'000;
  EXPECT_THAT(Fired(), testing::ElementsAre("QUALITY_LOSS"));
  EXPECT_THAT(Report().verdict, HasSubstr("Percentages refer to the events that were kept"));
  lost = 50'000;
  EXPECT_THAT(NeedsOf("GPU_UNDERUSED"), HasSubstr("lost less than 10%"));
  EXPECT_THAT(Report().verdict, HasSubstr("Too many events are missing to show percentages"));
  EXPECT_THAT(Report().verdict, Not(HasSubstr("computes")));
}

TEST_F(QualityRulesTest, OfAnImportTheAdviceIsAboutItsFile) {
  Healthy();
  CaptureRecord& record = reader_.mutable_record();
  record.drops[static_cast<size_t>(DropReason::kThinned)] = 2'000;
  record.imported.source = "pytorch";
  EXPECT_THAT(Find("QUALITY_LOSS").advice, HasSubstr("as the profiler wrote it"));
  record.drops[static_cast<size_t>(DropReason::kThinned)] = 0;
  record.drops[static_cast<size_t>(DropReason::kInvalidRecord)] = 2'000;
  EXPECT_THAT(Find("QUALITY_LOSS").advice, Not(HasSubstr("profctl trace")));
}

// The copies are there, and no kernel: the GPU was not idle.
TEST_F(QualityRulesTest, LaunchesWithoutAnyKernelAreSilentAlsoWithoutSteps) {
  for (int i = 0; i < 100; ++i) {
    reader_.ApiCall(main_, "cudaLaunchKernel", i * 50 * kUs, i * 50 * kUs + kUs, ++correlation_);
  }
  Copy({.start_ns = kMs, .duration_ns = 10 * kUs, .bytes = 4096});
  Copy({.start_ns = 4 * kMs, .duration_ns = 10 * kUs, .bytes = 4096});
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kUnknown);
  EXPECT_THAT(report.verdict, HasSubstr("100 of 100 (100%) launches have no GPU work"));
  EXPECT_EQ(report.quality.grade, "D");
}

TEST_F(QualityRulesTest, CopiesOfAFileWithoutAnyCopyAreSilent) {
  Healthy();
  reader_.mutable_record().imported.source = "trace.json";
  for (int i = 0; i < 400; ++i) {
    reader_.ApiCall(main_, "cudaMemcpyAsync", i * 100 * kUs, i * 100 * kUs + kUs, ++correlation_);
  }
  EXPECT_THAT(Report().verdict, HasSubstr("400 of 900 (44.4%) launches have no GPU work"));
  // One that is there does not stand for the others.
  reader_.Copy(kMs, 2 * kMs, correlation_, {.stream = 9});
  EXPECT_THAT(Report().verdict, HasSubstr("399 of 900 (44.3%) launches have no GPU work"));
}

TEST_F(QualityRulesTest, AFewCopiesWithoutWorkAreNoLoss) {
  Healthy();
  reader_.mutable_record().imported.source = "trace.json";
  for (int i = 0; i < 3; ++i) {
    reader_.ApiCall(main_, "cudaMemcpyAsync", i * 100 * kUs, i * 100 * kUs + kUs, ++correlation_);
  }
  EXPECT_THAT(Fired(), Not(Contains("QUALITY_SILENT_LAUNCHES")));
}

TEST_F(QualityRulesTest, MemsetsMayHaveNothingToDo) {
  Healthy();
  reader_.mutable_record().imported.source = "trace.json";
  for (int i = 0; i < 400; ++i) {
    reader_.ApiCall(main_, "cudaMemsetAsync", i * 100 * kUs, i * 100 * kUs + kUs, ++correlation_);
  }
  reader_.Copy(kMs, 2 * kMs, correlation_, {.stream = 9});
  EXPECT_THAT(Fired(), Not(Contains("QUALITY_SILENT_LAUNCHES")));
}

// ROCm may copy with kernels that name no call.
TEST_F(QualityRulesTest, CopiesOfRocmAreNotCountedWhereSomeAreThere) {
  Healthy();
  reader_.mutable_record().imported.source = "trace.json";
  for (int i = 0; i < 400; ++i) {
    reader_.ApiCall(main_, "hipMemcpyAsync", i * 100 * kUs, i * 100 * kUs + kUs, ++correlation_);
  }
  reader_.Copy(kMs, 2 * kMs, correlation_, {.stream = 9});
  EXPECT_THAT(Fired(), Not(Contains("QUALITY_SILENT_LAUNCHES")));
}

TEST_F(QualityRulesTest, CopiesWithoutAnyWorkOfTheGpuAreSilent) {
  Steps(5);
  reader_.mutable_record().imported.source = "trace.json";
  for (int i = 0; i < 60; ++i) {
    reader_.ApiCall(main_, "cudaMemcpyAsync", i * 100 * kUs, i * 100 * kUs + kUs, ++correlation_);
  }
  EXPECT_THAT(Report().verdict, HasSubstr("60 of 60 (100%) launches have no GPU work"));
}

TEST_F(QualityRulesTest, LaunchesThatFailedAreNotLost) {
  Healthy();
  for (int i = 0; i < 100; ++i) {
    reader_.ApiCall(main_, "cudaLaunchKernel", i * 500 * kUs + 400 * kUs, i * 500 * kUs + 405 * kUs,
                    ++correlation_, {.result = 700});
  }
  EXPECT_THAT(Fired(), Not(Contains("QUALITY_SILENT_LAUNCHES")));
  EXPECT_THAT(Report().verdict,
              HasSubstr("100 launches failed, the first with error 700; the others have GPU work"));
}

TEST_F(QualityRulesTest, WorkBeforeItsLaunchIsFound) {
  Healthy();
  EXPECT_THAT(Fired(), IsEmpty());
  Launch({.start_ns = kMs, .lead_ns = -50 * kUs});
  EXPECT_THAT(Fired(), Contains("QUALITY_INVERSIONS"));
  EXPECT_EQ(Report().quality.grade, "B");
}

TEST_F(QualityRulesTest, WorkWithoutItsLaunchIsFoundWhereItIsMuch) {
  Healthy();
  for (int i = 0; i < 4; ++i) reader_.Kernel(kTensorKernel, i * kMs, i * kMs + kUs, 0);
  EXPECT_THAT(Fired(), IsEmpty());  // Of 500.
  for (int i = 0; i < 10; ++i) reader_.Kernel(kTensorKernel, i * kMs, i * kMs + kUs, 0);
  EXPECT_THAT(Fired(), Contains("QUALITY_ORPHANS"));
}

TEST_F(QualityRulesTest, WorkOfAHostThatRunsAheadIsNoOrphan) {
  Healthy();
  for (int i = 0; i < 100; ++i) {
    reader_.Kernel(kTensorKernel, -kMs + i * kUs, -kMs + (i + 1) * kUs, 0);
  }
  EXPECT_THAT(Fired(), Not(Contains("QUALITY_ORPHANS")));
  EXPECT_EQ(Report().quality.grade, "A");
  // On another stream nothing was launched in the window that it could have waited for.
  for (int i = 0; i < 100; ++i) {
    reader_.Kernel(kTensorKernel, -kMs + i * kUs, -kMs + (i + 1) * kUs, 0, {.stream = 8});
  }
  EXPECT_THAT(Fired(), Contains("QUALITY_ORPHANS"));
}

TEST_F(QualityRulesTest, AWindowThatEndedEarlyIsFound) {
  Healthy();
  CaptureRecord& record = reader_.mutable_record();
  record.spec.steps = 20;
  record.state = CaptureState::kPartial;
  record.ended_by = EndedBy::kByteCap;
  EXPECT_DOUBLE_EQ(Find("QUALITY_COVERAGE").value, 0.75);
}

TEST_F(QualityRulesTest, RecordingThatSlowsStepsDownIsFound) {
  Healthy();
  CaptureRecord& record = reader_.mutable_record();
  record.slowdown = {.known = true, .estimate = 0.3, .low = 0.04, .high = 0.6};
  EXPECT_THAT(Fired(), IsEmpty());
  record.slowdown.low = 0.2;
  record.slowdown.before_step_count = 43;
  record.slowdown.during_step_count = 5;
  record.slowdown.after_step_count = 20;
  const Finding finding = Find("QUALITY_PERTURBATION");
  EXPECT_NEAR(finding.value, 0.2, 0.001);
  EXPECT_THAT(finding.measured,
              HasSubstr("The 5 recorded steps took 30% longer than the 43 steps before and the 20 "
                        "after the recording (at least 20%, at most 60%)"));
  EXPECT_THAT(finding.advice, HasSubstr("fewer ranges in each step"));
  EXPECT_THAT(finding.measured, HasSubstr("GPU work hardly changes"));
  record.gpu.mode = GpuMode::kFull;  // Kernels run one after the other.
  EXPECT_THAT(Find("QUALITY_PERTURBATION").measured, Not(HasSubstr("GPU work hardly changes")));
}

TEST_F(QualityRulesTest, ASlowDownIsToBeLoweredByWhatWasRecorded) {
  Healthy();
  CaptureRecord& record = reader_.mutable_record();
  record.slowdown = {.known = true, .estimate = 0.3, .low = 0.2, .high = 0.6};
  record.torch.operators = OperatorMode::kShapes;
  EXPECT_THAT(Find("QUALITY_PERTURBATION").advice, HasSubstr("--ops names"));
  EXPECT_THAT(Find("QUALITY_PERTURBATION").advice, Not(HasSubstr("--gpu light")));
  record.torch.operators = OperatorMode::kNames;
  record.gpu.mode = GpuMode::kDefault;
  EXPECT_THAT(Find("QUALITY_PERTURBATION").advice, Not(HasSubstr("--ops names")));
  EXPECT_THAT(Find("QUALITY_PERTURBATION").advice, HasSubstr("--gpu light"));
}

TEST_F(QualityRulesTest, ClocksThatAreOffAreFound) {
  Healthy();
  reader_.mutable_record().gpu.clock_error_ns = 900;
  EXPECT_THAT(Fired(), IsEmpty());
  reader_.mutable_record().gpu.clock_error_ns = 5'000;
  EXPECT_DOUBLE_EQ(Find("QUALITY_CLOCK").value, 5'000);
}

// A capture of five steps between two evaluations.
TEST_F(QualityRulesTest, SlowStepsAroundTheCaptureAreSaid) {
  Healthy();
  CaptureRecord& record = reader_.mutable_record();
  record.around_step_count = 83;
  record.around_step_mean_ns = 25 * kMs;
  record.around_slow_step_count = 8;
  const Finding finding = Find("QUALITY_WINDOW");
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
  EXPECT_DOUBLE_EQ(finding.value, 2.5);
  EXPECT_THAT(finding.measured, HasSubstr("took 25 ms on average, and 8 of them over 1.5 times"));
  EXPECT_THAT(finding.advice, HasSubstr("--steps 20`"));
  EXPECT_THAT(Report().verdict, HasSubstr("The 83 steps around the capture took 25 ms on average: "
                                          "the capture lacks slow steps (QUALITY_WINDOW)."));
}

TEST_F(QualityRulesTest, FewOrUnclearSlowStepsAroundTheCaptureAreNot) {
  Healthy();
  CaptureRecord& record = reader_.mutable_record();
  record.around_step_count = 83;
  record.around_step_mean_ns = 25 * kMs;
  record.around_slow_step_count = 1;
  EXPECT_THAT(Fired(), Not(Contains("QUALITY_WINDOW")));
  record.around_slow_step_count = 8;
  record.around_step_mean_ns = 12 * kMs;
  EXPECT_THAT(Fired(), Not(Contains("QUALITY_WINDOW")));
  record.around_step_mean_ns = 25 * kMs;
  record.around_step_count = 19;
  EXPECT_THAT(NeedsOf("QUALITY_WINDOW"), HasSubstr("20 steps around"));
}

TEST_F(QualityRulesTest, ManyCutRangesAreFound) {
  Healthy();
  for (int i = 0; i < 20; ++i) {
    reader_.Range(main_, "cut", 0, 51 * kMs, {.depth = 0, .flags = kRangeOpen});
  }
  EXPECT_THAT(Fired(), Contains("QUALITY_TRUNCATION"));
}

TEST_F(QualityRulesTest, RangesThatThreadsLeftOpenAreCountedAndNamed) {
  Healthy();
  reader_.Range(main_, "rare", 0, kMs, {.depth = 0, .flags = kRangeUnended});
  for (int i = 2; i < 4; ++i) {
    reader_.Range(main_, "often", i * kMs, i * kMs + kUs, {.depth = 0, .flags = kRangeUnended});
  }
  const Finding finding = Find("QUALITY_UNENDED");
  EXPECT_DOUBLE_EQ(finding.value, 3);
  EXPECT_THAT(finding.measured, HasSubstr("3 ranges never ended, most often 'often'"));
  EXPECT_EQ(Report().quality.grade, "B");
}

TEST_F(QualityRulesTest, RangesThatStepsLeftOpenAreCountedAndNamed) {
  Healthy();
  for (int i = 1; i < 3; ++i) {
    reader_.Range(main_, "pushed", i * kMs, 51 * kMs,
                  {.depth = 0, .flags = kRangeOpen | kRangeUnended});
  }
  const Finding finding = Find("QUALITY_UNENDED");
  EXPECT_DOUBLE_EQ(finding.value, 2);
  EXPECT_THAT(finding.measured, HasSubstr("'pushed'; later steps began them again"));
}

}  // namespace
}  // namespace profd::report
