// The engine: thresholds, order, verdict, captures that have little.
#include "daemon/report/findings/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "daemon/base/str_cat.h"
#include "daemon/report/findings/quality.h"
#include "daemon/report/findings/rules.h"
#include "proto/wire/event.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FindingsTest : public FindingsFixture {};

TEST_F(FindingsTest, EveryRuleFiresPassesOrSaysWhatItNeeds) {
  Healthy();
  const FindingsReport report = Report();
  EXPECT_EQ(report.findings.size() + report.skipped.size() + report.passed.size(), Rules().size());
  for (const SkippedRule& skipped : report.skipped) EXPECT_FALSE(skipped.needs.empty());
}

TEST_F(FindingsTest, TheVerdictSaysWhereTheTimeGoesAndWhetherToTrustIt) {
  Healthy();
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kCompute);
  EXPECT_EQ(report.step_count, 5);
  EXPECT_EQ(report.mean_step_ns, kStepNs);
  EXPECT_THAT(report.verdict, HasSubstr("A step takes 10 ms (mean of 5 steps). GPU 0 computes for "
                                        "100% of it, and is idle for 0%."));
  EXPECT_THAT(report.verdict, HasSubstr("No rule found a way to save time"));
  EXPECT_THAT(report.verdict, HasSubstr("Quality A"));
}

// That its losses are unknown is true of every import.
TEST_F(FindingsTest, OfAnImportTheVerdictNamesAReasonOfItsOwnIfThereIsOne) {
  Healthy();
  reader_.mutable_record().imported.source = "trace.json";
  EXPECT_THAT(Report().verdict, HasSubstr(": imported trace: event loss unknown"));
  reader_.mutable_record().imported.not_understood = {{"cat:odd", 500}};
  EXPECT_THAT(Report().verdict,
              HasSubstr(": 500 events of the trace (0.498%) were not understood"));
}

TEST_F(FindingsTest, StepsThatOnlyFillTheLaunchQueueAreNotAveraged) {
  // The host launches 10 ms of work in 4 ms, until the queue is full.
  const std::array<int64_t, 5> lengths = {4 * kMs, 7 * kMs, kStepNs, kStepNs, kStepNs};
  int64_t at = 0;
  for (int step = 0; step < 5; ++step) {
    reader_.Step(step, at, lengths[static_cast<size_t>(step)]);
    for (int i = 0; i < 100; ++i) {
      const int64_t kernel_ns = step * kStepNs + i * 100 * kUs + 100 * kUs;
      const uint32_t correlation = 1'000 + static_cast<uint32_t>(step * 100 + i);
      reader_
          .ApiCall(main_, "cudaLaunchKernel", at + i * 10 * kUs, at + i * 10 * kUs + kUs,
                   correlation)
          .Kernel("k", kernel_ns, kernel_ns + 100 * kUs, correlation);
    }
    at += lengths[static_cast<size_t>(step)];
  }
  const FindingsReport report = Report();
  EXPECT_EQ(report.step_count, 3);
  EXPECT_EQ(report.mean_step_ns, kStepNs);
  EXPECT_THAT(report.verdict,
              HasSubstr("A step takes 10 ms (mean of 3 steps; 2 steps that only filled the launch "
                        "queue left out)"));
}

TEST_F(FindingsTest, OfThreeImportedStepsOneThatIsCutIsLeftOut) {
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Step(1, 0, kStepNs).Step(2, kStepNs, kStepNs).Step(3, 2 * kStepNs, kStepNs / 4);
  Launch({.start_ns = 0, .count = 100});
  Launch({.start_ns = kStepNs, .count = 100});
  Launch({.start_ns = 2 * kStepNs, .count = 20});
  EXPECT_EQ(Report().mean_step_ns, kStepNs);
}

TEST_F(FindingsTest, OfThreeImportedStepsAShortOneThatDoesAsMuchIsKept) {
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Step(1, 0, kStepNs).Step(2, kStepNs, kStepNs).Step(3, 2 * kStepNs, kStepNs / 4);
  Launch({.start_ns = 0, .count = 100});
  Launch({.start_ns = kStepNs, .count = 100});
  Launch({.start_ns = 2 * kStepNs, .count = 100, .kernel_ns = 20 * kUs});
  EXPECT_EQ(Report().step_count, 3);
}

TEST_F(FindingsTest, WorkLaunchedBeforeTheCaptureIsNotTakenForAnIdleGpu) {
  // The host is two steps ahead, so the first 20 ms of the GPU's work are not recorded.
  Steps(8);
  for (int step = 0; step < 8; ++step) {
    Launch({.start_ns = (step + 2) * kStepNs, .count = 100, .lead_ns = 2 * kStepNs});
    // Another stream is not behind.
    Launch({.start_ns = step * kStepNs + kMs, .kernel_ns = 10 * kUs, .gpu = {.stream = 20}});
  }
  const FindingsReport report = Report();
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.step_count, 6);
  EXPECT_THAT(report.verdict, HasSubstr("2 steps in which the GPU did what was launched before the "
                                        "capture left out"));
}

TEST_F(FindingsTest, FindingsComeBySavingAndSymptomsAfterTheirCause) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs + 100 * kUs,
            .count = 300,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs,
            .call_ns = 10 * kUs});
  }
  const FindingsReport report = Report();
  ASSERT_GT(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].rule, "IDLE_HOST_WAIT");
  EXPECT_THAT(Fired(), Contains("GPU_UNDERUSED"));
  for (size_t i = 1; i < report.findings.size(); ++i) {
    EXPECT_GE(report.findings[i - 1].saving_ns_per_step, report.findings[i].saving_ns_per_step);
  }
  EXPECT_THAT(
      report.verdict,
      HasSubstr("First change (IDLE_HOST_WAIT): The GPU waits for kernel launches. Launch fewer "
                "kernels"));
}

TEST_F(FindingsTest, HostMemoryThatGrowsWithEveryStepIsFound) {
  Steps(8);
  for (int step = 0; step < 8; ++step) {
    reader_.Allocate(main_, step * kStepNs + kMs, 0x1000 + static_cast<uint64_t>(step) * 0x100,
                     16 << 20, {.total_allocated_bytes = int64_t{16 << 20} * (step + 1)});
  }
  const Finding finding = Find("MEM_LEAK");
  EXPECT_DOUBLE_EQ(finding.value, 16 << 20);
  EXPECT_THAT(finding.measured, HasSubstr("Memory on cpu:0 grows"));
}

TEST_F(FindingsTest, OneGapThatCostsLittleIsNoFinding) {
  Steps(20);
  for (int step = 0; step < 20; ++step) {
    const int missing = step == 7 ? 8 : 0;  // 0.8 ms: 8 % of this step, 0.4 % of all.
    Launch({.start_ns = step * kStepNs + missing * 100 * kUs, .count = 100 - missing});
  }
  EXPECT_THAT(Fired(), Not(Contains("GPU_GAP")));
}

TEST_F(FindingsTest, TheVerdictNamesTheCauseOfGapsInsteadOfTheGaps) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    // The gaps are longer than the waits for data.
    reader_.Range(main_, kLoader, step * kStepNs, step * kStepNs + 3 * kMs);
    Launch({.start_ns = step * kStepNs + 4 * kMs, .count = 60});
  }
  const FindingsReport report = Report();
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].rule, "INPUT_BOUND");
  // The rest of four gaps of 4 ms, over five steps.
  EXPECT_NEAR(static_cast<double>(Find("GPU_GAP").saving_ns_per_step), 0.8e6, 1e5);
  EXPECT_THAT(report.verdict, HasSubstr("First change (INPUT_BOUND)"));
}

TEST_F(FindingsTest, TheVerdictSaysThatLaunchedWorkDoesNotStart) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    reader_.Range(main_, kLoader, step * kStepNs, step * kStepNs + kMs);
    reader_.Range(main_, "forward", step * kStepNs + kMs, (step + 1) * kStepNs);
    // Launched before the gap began: the GPU is blocked, or does something that is not recorded.
    Launch({.start_ns = step * kStepNs + 4 * kMs, .count = 60, .lead_ns = 5 * kMs});
  }
  EXPECT_EQ(Report().bound, BoundBy::kLateStart);
  EXPECT_THAT(Report().verdict, HasSubstr("First change (LATE_START)"));
}

TEST_F(FindingsTest, ACaptureWithoutStepsCountsAsOne) {
  Launch({.start_ns = 0, .count = 10, .gap_ns = 100 * kUs, .lead_ns = 50 * kUs});
  const FindingsReport report = Report();
  EXPECT_EQ(report.step_count, 0);
  EXPECT_EQ(report.mean_step_ns, 1'900 * kUs);
  EXPECT_THAT(report.verdict, HasSubstr("The capture has no steps; its GPU work spans 1.9 ms"));
  EXPECT_THAT(NeedsOf("CUDA_GRAPH"), HasSubstr("two steps"));
}

TEST_F(FindingsTest, OperatorsThatRepeatAreOfferedAsSteps) {
  reader_.mutable_record().windows = {{.start_ns = 0, .end_ns = 1'500 * kMs}};
  for (int round = 0; round < 25; ++round) {
    for (int i = 0; i < 3; ++i) {
      const int64_t start_ns = (round * 60 + i * 10) * kMs;
      reader_.Range(main_, i == 2 ? "aten::argmax" : "aten::linear", start_ns, start_ns + kMs,
                    {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
    }
  }
  EXPECT_THAT(Report().verdict,
              HasSubstr("its window spans 1.5 s, in which 3 operators repeat 25 times, every 60 ms "
                        "(`profctl trace --steps N --step-source periodicity` records such rounds "
                        "as steps)"));
  const auto offers_nothing = AllOf(HasSubstr("repeat 25 times"), Not(HasSubstr("profctl")));
  reader_.mutable_record().spec.torch.step_source = StepSource::kPeriodicity;
  EXPECT_THAT(Report().verdict, offers_nothing);
  reader_.mutable_record().spec.torch.step_source = StepSource::kNone;
  reader_.mutable_record().imported.source = "torch.profiler";
  EXPECT_THAT(Report().verdict, offers_nothing);
}

TEST_F(FindingsTest, ACaptureWithoutAGpuSaysSo) {
  Steps(3);
  reader_.Range(main_, "forward", 0, kMs);
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kCpuOnly);
  EXPECT_THAT(report.verdict, HasSubstr("No GPU work was recorded"));
  EXPECT_THAT(report.verdict, HasSubstr("(mean of 3 steps): 3.33% in ranges, 96.7% on the host "
                                        "outside ranges."));
  EXPECT_THAT(NeedsOf("GPU_UNDERUSED"), HasSubstr("GPU work"));
}

TEST_F(FindingsTest, WhereNothingOfTheHostWasRecordedTheVerdictDoesNotSayThatAllIsWell) {
  Steps(3);
  const FindingsReport report = Report();
  EXPECT_THAT(NeedsOf("HOST_BOUND"), HasSubstr("operators, or ranges"));
  EXPECT_THAT(report.verdict, Not(HasSubstr("No rule found")));
  EXPECT_THAT(report.verdict, HasSubstr("where the host's time went is unknown without operators"));
}

TEST_F(FindingsTest, AnEmptyCaptureHasNothingToSay) {
  reader_.mutable_record() = {};
  const FindingsReport report = Report();
  EXPECT_EQ(report.verdict, "Nothing was recorded.");
  EXPECT_EQ(report.quality.grade, "-");
  EXPECT_THAT(report.findings, IsEmpty());
}

TEST_F(FindingsTest, ADisabledRuleIsSkipped) {
  Steps(5);
  for (int step = 0; step < 5; ++step) Launch({.start_ns = step * kStepNs, .count = 10});
  EXPECT_THAT(Fired(), testing::Contains("GPU_UNDERUSED"));
  thresholds_.disabled.insert("GPU_UNDERUSED");
  EXPECT_THAT(Fired(), Not(testing::Contains("GPU_UNDERUSED")));
  EXPECT_THAT(NeedsOf("GPU_UNDERUSED"), HasSubstr("disable"));
}

TEST_F(FindingsTest, AReaderThatFailsIsAnError) {
  Healthy();
  reader_.FailAfter(0, absl::DataLossError("chunk 3"));
  EXPECT_THAT(SummarizeFindings(reader_, {}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(FindingsTest, AnyTimesAreSafe) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  Healthy();
  reader_.Step(9, kLeast, kMost).Step(10, kMost - 5, 4).Step(11, 0, 0);
  reader_.Kernel(kTensorKernel, kMost - 10, kMost - 1, 7)
      .Kernel(kTensorKernel, kLeast, kLeast + 5, 8)
      .Copy(kLeast, -1, 9, {.bytes = ~uint64_t{0}, .copy_kind = 1, .source_kind = 1})
      .ApiCall(main_, "cudaStreamSynchronize", kLeast, kLeast + 1, 8)
      .Range(main_, kLoader, kMost - 3, kMost);
  reader_.Allocate(main_, kLeast, 1, kMost, {.total_allocated_bytes = kMost, .device_type = 1});
  EXPECT_FALSE(Report().verdict.empty());
}

// ---- thresholds ----

TEST_F(FindingsTest, ThresholdsAreReadWithTheirUnits) {
  absl::StatusOr<FindingThresholds> parsed = ParseFindingThresholds(
      "# ours\n"
      "communication.exposed_share = 15%\n"
      "gpu.busy_share=0.25\n"
      "  gap.shortest = 200 ms  # long\n"
      "copies.smallest = 1MiB\n"
      "steps.outlier_deviations = 7\n"
      "disable = STEP_OUTLIER, MEM_FRAG\n");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_DOUBLE_EQ(parsed->exposed_communication_share, 0.15);
  EXPECT_DOUBLE_EQ(parsed->gpu_busy_share, 0.25);
  EXPECT_DOUBLE_EQ(parsed->gap_shortest_ns, 200e6);
  EXPECT_DOUBLE_EQ(parsed->copy_smallest_bytes, 1 << 20);
  EXPECT_DOUBLE_EQ(parsed->step_outlier_deviations, 7);
  EXPECT_THAT(parsed->disabled, testing::ElementsAre("MEM_FRAG", "STEP_OUTLIER"));
}

TEST_F(FindingsTest, AnUnknownKeyIsAnErrorThatNamesTheLineAndTheNearest) {
  EXPECT_THAT(ParseFindingThresholds("\ngpu.busy = 3%\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("line 2: there is no threshold 'gpu.busy'; is 'gpu.busy_share' "
                                 "meant?")));
  EXPECT_THAT(ParseFindingThresholds("disable = STEP_OUT"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("STEP_OUTLIER")));
}

TEST_F(FindingsTest, ValuesThatAreNoneAreErrors) {
  for (const std::string_view line :
       {"gpu.busy_share = 200%", "gpu.busy_share = -1", "gpu.busy_share = nan",
        "gpu.busy_share = inf", "gpu.busy_share =", "gpu.busy_share = 3 s", "gap.shortest = 200",
        "gap.shortest = 3 parsecs", "copies.smallest = 1TiB", "gpu.busy_share", "= 3",
        "gpu.busy_share = 1%\ngpu.busy_share = 1%"}) {
    EXPECT_THAT(ParseFindingThresholds(line), StatusIs(absl::StatusCode::kInvalidArgument)) << line;
  }
  EXPECT_THAT(ParseFindingThresholds(std::string((1 << 20) + 1, '#')),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(FindingsTest, WhatIsPrintedIsReadBackAsItWas) {
  FindingThresholds thresholds;
  thresholds.gpu_busy_share = 0.125;
  thresholds.small_kernel_ns = 7'500;
  thresholds.disabled = {"MEM_LEAK"};
  absl::StatusOr<FindingThresholds> parsed =
      ParseFindingThresholds(FormatFindingThresholds(thresholds));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(*parsed, thresholds);
  EXPECT_EQ(*ParseFindingThresholds(FormatFindingThresholds({})), FindingThresholds());
}

// ---- quality ----

TEST_F(FindingsTest, EventsAreCheckedForTheirQuality) {
  reader_.Step(0, 0, 600)
      .ApiCall(main_, "cudaLaunchKernel", 100, 110, 1)
      .ApiCall(main_, "cudaLaunchKernel", 200, 210, 2)
      .ApiCall(main_, "cudaMalloc", 300, 310, 3)
      .Kernel("k", 90, 120, 1)
      .Kernel("k", 500, 510, 9)
      .Range(main_, "cut", 0, 50, {.flags = kRangeTruncated})
      .Range(main_, "whole", 60, 80);
  absl::StatusOr<GpuAttribution> attribution = GpuAttribution::Build(reader_);
  ASSERT_THAT(attribution, IsOk());
  absl::StatusOr<EventChecks> checks = CheckEvents(reader_, *attribution);
  ASSERT_THAT(checks, IsOk());
  EXPECT_EQ(checks->gpu_row_count, 2);
  EXPECT_EQ(checks->orphan_count, 1);
  EXPECT_EQ(checks->launch_count, 2);
  EXPECT_EQ(checks->silent_launch_count, 1);
  EXPECT_EQ(checks->inversion_count, 1);
  EXPECT_EQ(checks->worst_inversion_ns, 10);
  EXPECT_EQ(checks->range_count, 2);
  EXPECT_EQ(checks->cut_range_count, 1);
}

TEST_F(FindingsTest, HowLongAGpuDidUnrecordedWorkIsChecked) {
  constexpr int64_t kMs = 1'000'000;
  reader_.mutable_record().gpu.mode = GpuMode::kDefault;
  reader_.mutable_record().windows = {{.start_ns = 0, .end_ns = 20 * kMs}};
  reader_.ApiCall(main_, "cudaLaunchKernel", 100, 110, 1).Kernel("k", 5 * kMs, 6 * kMs, 1);
  absl::StatusOr<GpuAttribution> attribution = GpuAttribution::Build(reader_);
  ASSERT_THAT(attribution, IsOk());
  EXPECT_EQ(CheckEvents(reader_, *attribution)->unknown_gpu_ns, 5 * kMs);
}

TEST_F(FindingsTest, LaunchesIntoAGraphAreNotMissedOnTheGpu) {
  reader_.ApiCall(main_, "cudaStreamBeginCapture_v10000", 50, 60, 5)
      .ApiCall(main_, "cudaLaunchKernel", 100, 110, 1)
      .Kernel("k", 500, 510, 9);
  absl::StatusOr<Quality> quality = SummarizeQuality(reader_);
  ASSERT_THAT(quality, IsOk());
  for (const QualityCheck& check : quality->checks) {
    if (check.name == "silent_launches") {
      EXPECT_FALSE(check.failed());
    }
  }
}

TEST_F(FindingsTest, TimesWithinTheClocksErrorAreNoInversions) {
  reader_.mutable_record().gpu.clock_error_ns = 10;
  reader_.ApiCall(main_, "cudaLaunchKernel", 100, 110, 1).Kernel("k", 90, 120, 1);
  absl::StatusOr<GpuAttribution> attribution = GpuAttribution::Build(reader_);
  ASSERT_THAT(attribution, IsOk());
  EXPECT_EQ(CheckEvents(reader_, *attribution)->inversion_count, 0);
}

TEST_F(FindingsTest, AComputeBoundProgramHasItsHottestOperatorNamed) {
  Healthy();
  EXPECT_THAT(Report().verdict,
              HasSubstr("The program is compute-bound, most of all by aten::mm (100% of kernel "
                        "time)."));
}

TEST_F(FindingsTest, WithInputsTheHottestOperatorHasItsSpeed) {
  Steps(5);
  reader_.mutable_record().gpu.devices.front().name = "NVIDIA H100 80GB HBM3";
  const uint32_t inputs =
      reader_.Inputs("[[4000,1000],[1000,1000]]", R"(["c10::BFloat16","c10::BFloat16"])");
  for (int step = 0; step < 5; ++step) {
    for (int i = 0; i < 100; ++i) {
      const int64_t start_ns = step * kStepNs + i * 100 * kUs;
      Launch({.start_ns = start_ns, .count = 1, .op = ""});
      reader_.Operator(main_, "aten::mm", start_ns - 201 * kUs, start_ns - 190 * kUs,
                       {.inputs = inputs});
    }
  }
  // 8 GFLOP in 100 us are 80 TFLOP/s, of 989.4.
  EXPECT_THAT(Report().verdict,
              AllOf(HasSubstr("aten::mm (100% of kernel time; [[4000,1000],[1000,1000]] takes most "
                              "of it, at 80."),
                    HasSubstr(" TFLOP/s, 8.1"), HasSubstr("% of the GPU's bf16 peak).")));
}

TEST_F(FindingsTest, AnEmptyListOfInputsTakesNothing) {
  Steps(5);
  const uint32_t inputs = reader_.Inputs("[]", "[]");
  for (int64_t at = 0; at < 5 * kStepNs; at += 100 * kUs) {
    Launch({.start_ns = at, .count = 1, .op = ""});
    reader_.Operator(main_, "aten::mm", at - 201 * kUs, at - 190 * kUs, {.inputs = inputs});
  }
  EXPECT_THAT(Report().verdict, HasSubstr("most of all by aten::mm (100% of kernel time)."));
}

TEST_F(FindingsTest, ModulesThatDifferByTheirNumberAreHotTogether) {
  Healthy();
  for (int step = 0; step < 5; ++step) {
    for (int i = 0; i < 8; ++i) {
      const int64_t at = step * kStepNs + i * kMs - 300 * kUs;
      reader_.Range(main_, StrCat("nn.Module: Linear_", i), at, at + 900 * kUs);
    }
  }
  EXPECT_THAT(Report().verdict, HasSubstr("and in the modules Linear_* ("));
}

}  // namespace
}  // namespace profd::report
