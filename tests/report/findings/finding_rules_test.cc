// Each rule on a trace where it fires, and on one that looks alike where it must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/group_reports.h"
#include "proto/wire/event.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FindingRulesTest : public FindingsFixture {
 protected:
  // Each step: idle for `idle_ns`, then busy until its end, with launches far ahead.
  void IdleFirst(int64_t idle_ns, int steps = 5) {
    Steps(steps);
    for (int step = 0; step < steps; ++step) {
      Launch({.start_ns = step * kStepNs + idle_ns,
              .count = static_cast<int>((kStepNs - idle_ns) / (100 * kUs))});
    }
  }
  // Each step: small kernels, each launched only when the one before it has ended.
  void HostBound(int steps, std::string_view op = "aten::mm", int count = 400) {
    Steps(steps);
    for (int step = 0; step < steps; ++step) {
      Launch({.start_ns = step * kStepNs + 100 * kUs,
              .count = count,
              .kernel_ns = 5 * kUs,
              .gap_ns = 15 * kUs,
              .lead_ns = 12 * kUs,
              .call_ns = 10 * kUs,
              .op = op});
    }
  }
  void AllocateMemory(int64_t bytes, int64_t reserved) {
    reader_.Allocate(
        main_, 1, 0x1000, bytes,
        {.total_allocated_bytes = bytes, .total_reserved_bytes = reserved, .device_type = 1});
  }
};

TEST_F(FindingRulesTest, NothingIsFoundWhereAllIsWell) {
  Healthy();
  EXPECT_THAT(Fired(), IsEmpty());
}

// ---- where the time goes ----

TEST_F(FindingRulesTest, WaitingForDataIsFoundWhereTheGpuWaitsToo) {
  IdleFirst(4 * kMs);
  for (int step = 0; step < 5; ++step) {
    reader_.Range(main_, kLoader, step * kStepNs, step * kStepNs + 4 * kMs);
  }
  const Finding finding = Find("INPUT_BOUND");
  EXPECT_NEAR(finding.value, 0.4, 0.01);
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 4e6, 1e5);
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].name, kLoader);
  EXPECT_EQ(Report().bound, BoundBy::kInput);
}

TEST_F(FindingRulesTest, ACauseComesBeforeTheSymptomsThatItExplains) {
  IdleFirst(6 * kMs);
  for (int step = 0; step < 5; ++step) {
    reader_.Range(main_, kLoader, step * kStepNs, step * kStepNs + 5 * kMs);
  }
  EXPECT_EQ(Report().findings.front().rule, "INPUT_BOUND");
  EXPECT_NEAR(static_cast<double>(Find("INPUT_BOUND").saving_ns_per_step), 5e6, 1e5);
  const Finding symptom = Find("GPU_UNDERUSED");
  const int64_t symptoms_ns = symptom.saving_ns_per_step + Find("GPU_GAP").saving_ns_per_step;
  EXPECT_NEAR(static_cast<double>(symptoms_ns), 1e6, 1e5);
  EXPECT_THAT(symptom.measured, HasSubstr("of it is also counted by INPUT_BOUND, GPU_GAP; the "
                                          "saving here is the rest"));
}

TEST_F(FindingRulesTest, WaitingForDataBehindABusyGpuIsNoFinding) {
  Healthy();
  for (int step = 0; step < 5; ++step) {
    reader_.Range(main_, kLoader, step * kStepNs + kMs, step * kStepNs + 3 * kMs);
  }
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(FindingRulesTest, WithoutADataLoaderItIsNotLookedFor) {
  Healthy();
  EXPECT_THAT(NeedsOf("INPUT_BOUND"), HasSubstr("data loader"));
}

TEST_F(FindingRulesTest, CommunicationIsFoundWhereNothingHidesIt) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 80});
    Launch({.start_ns = step * kStepNs + 8 * kMs,
            .kernel_ns = 2 * kMs,
            .kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            .op = "nccl:all_reduce",
            .gpu = {.stream = 20}});
  }
  const Finding finding = Find("COMM_EXPOSED");
  EXPECT_NEAR(finding.value, 0.2, 0.01);
  EXPECT_THAT(Fired(), Not(Contains("LOW_WAVES")));  // Collectives need few blocks.
}

TEST_F(FindingRulesTest, HiddenCommunicationIsNoFinding) {
  Healthy();
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs + kMs,
            .kernel_ns = 8 * kMs,
            .kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            .op = "nccl:all_reduce",
            .gpu = {.stream = 20}});
  }
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(FindingRulesTest, AGpuThatIsIdleMostOfTheTimeIsFound) {
  IdleFirst(6 * kMs);
  const Finding finding = Find("GPU_UNDERUSED");
  EXPECT_NEAR(finding.value, 0.4, 0.01);
  EXPECT_FALSE(finding.evidence.empty());
  // Severity is of the saving: that of the idle time is with the finding that counts it.
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_EQ(Report().findings.front().severity, Severity::kCritical);
}

TEST_F(FindingRulesTest, AGpuThatIsBusyMoreThanHalfOfTheTimeIsNotUnderused) {
  IdleFirst(4 * kMs);
  EXPECT_THAT(Fired(), Not(Contains("GPU_UNDERUSED")));
}

TEST_F(FindingRulesTest, LongGapsAreFoundWithWhatEndedThem) {
  IdleFirst(2 * kMs);
  const Finding finding = Find("GPU_GAP");
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].kind, EvidenceKind::kGap);
  EXPECT_EQ(finding.evidence[0].duration_ns, 2 * kMs);
  EXPECT_THAT(finding.evidence[0].detail, HasSubstr("cudaLaunchKernel in aten::mm"));
}

TEST_F(FindingRulesTest, ManyShortGapsAreNoLongGap) {
  HostBound(5);
  EXPECT_THAT(Fired(), Not(Contains("GPU_GAP")));
}

TEST_F(FindingRulesTest, TimeOfTheProfilerItselfIsNoGap) {
  IdleFirst(2 * kMs);
  for (int step = 0; step < 5; ++step) {
    reader_.Overhead(/*Buffer Flush*/ 1 << 16, step * kStepNs, step * kStepNs + 2 * kMs);
  }
  EXPECT_THAT(Fired(), Not(Contains("GPU_GAP")));
}

TEST_F(FindingRulesTest, AGpuThatWaitsForLaunchesIsFound) {
  HostBound(5);
  const Finding finding = Find("IDLE_HOST_WAIT");
  EXPECT_GT(finding.value, 0.5);
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].name, "aten::mm");
  EXPECT_EQ(Report().bound, BoundBy::kHost);
}

TEST_F(FindingRulesTest, WithoutApiCallsNobodyKnowsWhyTheGpuWaits) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    reader_.Kernel(kTensorKernel, step * kStepNs, step * kStepNs + 6 * kMs, 0);
  }
  EXPECT_THAT(NeedsOf("IDLE_HOST_WAIT"), HasSubstr("CUDA API"));
  EXPECT_THAT(NeedsOf("SYNC_API"), HasSubstr("CUDA API"));
}

TEST_F(FindingRulesTest, ShortGapsBetweenLaunchedKernelsAreFound) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 400, .kernel_ns = 20 * kUs, .gap_ns = 5 * kUs});
  }
  EXPECT_NEAR(Find("IDLE_KERNEL_WAIT").value, 0.2, 0.01);
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT")));
}

TEST_F(FindingRulesTest, GapsThatAreNeitherAreFoundApart) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs,
            .count = 50,
            .kernel_ns = 100 * kUs,
            .gap_ns = 100 * kUs,
            .lead_ns = 1 * kMs});
  }
  EXPECT_NEAR(Find("IDLE_OTHER").value, 0.5, 0.01);
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT")));
  EXPECT_THAT(Fired(), Not(Contains("IDLE_KERNEL_WAIT")));
}

TEST_F(FindingRulesTest, ACallThatDrainsTheGpuIsFoundWithItsOperator) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    const int64_t at = step * kStepNs;
    Launch({.start_ns = at + kMs, .count = 90, .lead_ns = 900 * kUs});
    // .item() waits for the last kernels; without it, the host would be 1.2 ms ahead.
    reader_.Range(main_, "aten::item", at + kStepNs - 1250 * kUs, at + kStepNs + 20 * kUs)
        .ApiCall(main_, "cudaStreamSynchronize", at + kStepNs - 1200 * kUs, at + kStepNs + 10 * kUs,
                 0);
  }
  const Finding finding = Find("SYNC_API");
  EXPECT_NEAR(finding.value, 0.08, 0.01);  // 4 of 5 steps begin behind one.
  EXPECT_EQ(finding.evidence.at(0).name, "cudaStreamSynchronize");
  EXPECT_THAT(finding.evidence[0].detail, HasSubstr("aten::item"));
}

TEST_F(FindingRulesTest, ACopyThatItsCallWaitsForIsASynchronization) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    const int64_t at = step * kStepNs;
    Launch({.start_ns = at + kMs, .count = 88, .lead_ns = 900 * kUs});
    const int64_t call_ns = at + kStepNs - 1200 * kUs;
    ++correlation_;
    reader_.Range(main_, "aten::item", call_ns - 50 * kUs, at + kStepNs + 20 * kUs)
        .ApiCall(main_, "cudaMemcpyAsync", call_ns, at + kStepNs + 10 * kUs, correlation_)
        .Copy(at + kStepNs - 20 * kUs, at + kStepNs - 18 * kUs, correlation_,
              {.bytes = 4, .copy_kind = 2, .source_kind = 3, .destination_kind = 1});
  }
  const Finding finding = Find("SYNC_API");
  EXPECT_EQ(finding.evidence.at(0).name, "cudaMemcpyAsync");
  EXPECT_THAT(finding.evidence[0].detail, HasSubstr("aten::item"));
}

TEST_F(FindingRulesTest, ACallIsNotBlamedForTheHostWorkAfterIt) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    const int64_t at = step * kStepNs;
    Launch({.start_ns = at + 5 * kMs, .count = 50, .lead_ns = 10 * kUs});
    // Waits for 50 us; then the program does something else for 5 ms.
    reader_.ApiCall(main_, "cudaStreamSynchronize", at + kStepNs - 40 * kUs,
                    at + kStepNs + 10 * kUs, 0);
  }
  EXPECT_THAT(Fired(), Not(Contains("SYNC_API")));
  EXPECT_THAT(Fired(), Contains("HOST_BOUND"));
}

TEST_F(FindingRulesTest, WaitingWhileTheGpuStaysBusyIsNoFinding) {
  Healthy();
  for (int step = 0; step < 5; ++step) {
    reader_.ApiCall(main_, "cudaEventSynchronize", step * kStepNs + kMs, step * kStepNs + 6 * kMs,
                    0);
  }
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(FindingRulesTest, WhereGraphsAreRecordedIdleTimeIsNoFinding) {
  Steps(1);
  reader_.ApiCall(main_, "cudaStreamBeginCapture_v10000", kMs, kMs + kUs, 0);
  for (int i = 0; i < 100; ++i) {
    reader_.ApiCall(main_, "cudaLaunchKernel", (i + 20) * 50 * kUs, (i + 20) * 50 * kUs + kUs,
                    ++correlation_);
  }
  Launch({.start_ns = 9 * kMs});
  EXPECT_THAT(Fired(), IsEmpty());
  EXPECT_THAT(NeedsOf("GPU_UNDERUSED"), HasSubstr("captures CUDA graphs"));
  EXPECT_EQ(Report().bound, BoundBy::kUnknown);
  EXPECT_THAT(Report().verdict,
              AllOf(HasSubstr("captures CUDA graphs, and meanwhile no kernels run"),
                    HasSubstr("No rule that could be checked")));
}

// ---- what faster kernels save ----

// In each step the host works, and then waits for the GPU, or not.
class SlowKernelsTest : public FindingsFixture {
 protected:
  static constexpr int64_t kLongStepNs = 100 * kMs;

  void AddSteps(int64_t host_ns, int64_t kernel_ns, bool waits) {
    for (int step = 0; step < 5; ++step) {
      const int64_t at = step * kLongStepNs;
      reader_.Step(step, at, kLongStepNs);
      reader_.Range(main_, "aten::cat", at, at + host_ns - kMs,
                    {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
      Launch({.start_ns = at + host_ns, .kernel_ns = kernel_ns, .kernel = kPlainGemm});
      if (!waits) continue;
      reader_.ApiCall(main_, "cudaStreamSynchronize", at + host_ns + 10 * kUs,
                      at + host_ns + kernel_ns, 0);
    }
  }
};

TEST_F(SlowKernelsTest, WhereTheProgramWaitsForThemTheyCount) {
  AddSteps(60 * kMs, 39 * kMs, /*waits=*/true);
  const Finding finding = Find("TC_UNUSED");
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 19.5e6, 1e5);
  EXPECT_THAT(finding.measured, Not(HasSubstr("Fixing it")));
}

TEST_F(SlowKernelsTest, WhereTheProgramSetsThePaceTheySaveNothing) {
  AddSteps(20 * kMs, 79 * kMs, /*waits=*/false);
  const Finding finding = Find("TC_UNUSED");
  EXPECT_EQ(finding.saving_ns_per_step, 0);
  EXPECT_THAT(finding.measured, HasSubstr("saves little while the GPU waits for the program"));
}

TEST_F(SlowKernelsTest, NoMoreThanWhatTheProgramWaits) {
  AddSteps(60 * kMs, 39 * kMs, /*waits=*/false);
  for (int step = 0; step < 5; ++step) {
    reader_.ApiCall(main_, "cudaEventSynchronize", step * kLongStepNs + 94 * kMs,
                    step * kLongStepNs + 99 * kMs, 0);
  }
  const Finding finding = Find("TC_UNUSED");
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 5e6, 1e5);
  EXPECT_THAT(finding.measured, HasSubstr("no more than what the program waits for the GPU"));
}

// ---- steps ----

TEST_F(FindingRulesTest, StepsThatDifferALittleAreNoOutliers) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t duration_ns = step == 6 ? kStepNs + 2 * kMs : kStepNs;
    reader_.Step(step, at, duration_ns);
    Launch({.start_ns = at, .count = static_cast<int>(duration_ns / (100 * kUs))});
    at += duration_ns;
  }
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(FindingRulesTest, AFirstStepThatWarmsUpIsLeftOutOfAverages) {
  reader_.Step(0, 0, 50 * kMs);
  Launch({.start_ns = 49 * kMs, .count = 10});
  for (int step = 1; step < 6; ++step) {
    reader_.Step(step, 40 * kMs + step * kStepNs, kStepNs);
    Launch({.start_ns = 40 * kMs + step * kStepNs, .count = 100});
  }
  const Finding finding = Find("WARMUP_INCLUDED");
  EXPECT_DOUBLE_EQ(finding.value, 5);
  EXPECT_THAT(Fired(), testing::ElementsAre("WARMUP_INCLUDED"));
  EXPECT_EQ(Report().step_count, 5);
  EXPECT_EQ(Report().mean_step_ns, kStepNs);
}

// ---- kernels ----

TEST_F(FindingRulesTest, ProductsThatLeaveTensorCoresIdleAreFound) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 100, .kernel = kPlainGemm});
  }
  const Finding finding = Find("TC_UNUSED");
  EXPECT_DOUBLE_EQ(finding.value, 1);
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 5e6, 1e5);
  EXPECT_EQ(finding.evidence.at(0).name, "aten::mm");
  EXPECT_THAT(finding.advice, HasSubstr("TF32"));
  reader_.mutable_record().gpu.devices[0].compute_major = 7;  // Volta and Turing: float16 alone.
  EXPECT_THAT(Find("TC_UNUSED").advice, Not(HasSubstr("TF32")));
}

TEST_F(FindingRulesTest, ProductsOfAShorterTypeNeedNoOther) {
  const auto products_of = [this](std::string_view type, int64_t from_ns) {
    const FakeOperator op = {
        .inputs = reader_.Inputs("[[64,64],[64,64]]", StrCat("[\"", type, "\",\"", type, "\"]"))};
    for (int i = 0; i < 90; ++i) {
      const int64_t at = from_ns + i * 100 * kUs;
      ++correlation_;
      reader_.Operator(main_, "aten::mm", at, at + 20 * kUs, op)
          .ApiCall(main_, "cudaLaunchKernel", at + kUs, at + 5 * kUs, correlation_)
          .Kernel("my_gemm_kernel", at + 30 * kUs, at + 128 * kUs, correlation_);
    }
  };
  Steps(5);
  for (int step = 0; step < 4; ++step) products_of("c10::BFloat16", step * kStepNs);
  EXPECT_THAT(Fired(), Not(Contains("TC_UNUSED")));
  products_of("float", 4 * kStepNs);
  EXPECT_NEAR(Find("TC_UNUSED").value, 0.2, 0.01);
}

TEST_F(FindingRulesTest, ProductsOfVectorsAreNoWorkForTensorCores) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 100, .kernel = "gemv2T_kernel_val<int, float>"});
  }
  EXPECT_THAT(Fired(), Not(Contains("TC_UNUSED")));
}

// Triton names kernels after the program's functions.
TEST_F(FindingRulesTest, NamesOfTritonsKernelsDoNotTellWhetherTheyUseTensorCores) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 50, .kernel = "triton_tem_fused_mm_12"});
    Launch({.start_ns = step * kStepNs + 6 * kMs, .count = 30, .kernel = "_matmul_kernel"});
  }
  EXPECT_THAT(Fired(), Not(Contains("TC_UNUSED")));
}

TEST_F(FindingRulesTest, AGpuWithoutTensorCoresCannotUseThem) {
  Steps(5);
  reader_.mutable_record().gpu.devices[0].compute_major = 6;
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 100, .kernel = kPlainGemm});
  }
  EXPECT_THAT(Fired(), Not(Contains("TC_UNUSED")));
}

TEST_F(FindingRulesTest, FasterKernelsSaveNothingWhileTheGpuWaits) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs + 100 * kUs,
            .count = 100,
            .kernel_ns = 20 * kUs,
            .gap_ns = 70 * kUs,
            .lead_ns = 10 * kUs,
            .kernel = kPlainGemm});
  }
  const Finding finding = Find("TC_UNUSED");
  EXPECT_EQ(finding.saving_ns_per_step, 0);
  EXPECT_THAT(finding.measured, HasSubstr("while the GPU waits for the program"));
}

TEST_F(FindingRulesTest, KernelsThatTakeLessThanTheirLaunchesAreFound) {
  HostBound(5);
  const Finding finding = Find("SMALL_KERNELS");
  EXPECT_DOUBLE_EQ(finding.value, 1);
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].name, "aten::mm");
}

TEST_F(FindingRulesTest, SmallKernelsBehindEachOtherAreNoFinding) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 2000, .kernel_ns = 5 * kUs, .call_ns = 4 * kUs});
  }
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(FindingRulesTest, AnOperatorOfManySmallKernelsIsFound) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    const int64_t at = step * kStepNs;
    reader_.Range(main_, "Optimizer.step#SGD.step", at + 100, at + 4 * kMs);
    Launch({.start_ns = at + 20 * kUs,
            .count = 190,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs,
            .call_ns = 4 * kUs,
            .op = "aten::add_"});
    Launch({.start_ns = at + 4 * kMs, .count = 60});
  }
  const Finding finding = Find("TINY_KERNELS_OF_OP");
  EXPECT_DOUBLE_EQ(finding.value, 190);
  EXPECT_THAT(finding.advice, HasSubstr("fused=True"));
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].name, "Optimizer.step#SGD.step");
}

TEST_F(FindingRulesTest, AnOperatorOfManySmallKernelsIsNamedWithItsLine) {
  const uint32_t line = reader_.Stack(0, "/home/me/train.py", 98, "step");
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    const int64_t at = step * kStepNs;
    reader_.Operator(main_, "Optimizer.step#SGD.step", at + 100, at + 4 * kMs, {.stack = line});
    Launch({.start_ns = at + 20 * kUs,
            .count = 190,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs,
            .call_ns = 4 * kUs,
            .op = "aten::add_"});
    Launch({.start_ns = at + 4 * kMs, .count = 60});
  }
  const Finding finding = Find("TINY_KERNELS_OF_OP");
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_THAT(finding.evidence[0].detail, testing::StartsWith("at train.py:98 step, "));
}

TEST_F(FindingRulesTest, AWholeForwardPassMayLaunchManyKernels) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    const int64_t at = step * kStepNs;
    reader_.Range(main_, "forward", at + 100, at + 9 * kMs);
  }
  reader_.BatchRows(64);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs + 20 * kUs,
            .count = 400,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs,
            .call_ns = 4 * kUs});
  }
  EXPECT_THAT(Fired(), Not(Contains("TINY_KERNELS_OF_OP")));
}

TEST_F(FindingRulesTest, StepsThatRepeatTheirKernelsWithGapsAreWorthAGraph) {
  HostBound(5);
  const Finding finding = Find("CUDA_GRAPH");
  EXPECT_THAT(finding.measured, HasSubstr("5 of 5 steps"));
  EXPECT_GT(finding.value, 0.5);
  // Another remedy for the same time, which is counted where it comes first.
  EXPECT_GT(Find("IDLE_HOST_WAIT").saving_ns_per_step, 5 * kMs);
  EXPECT_THAT(finding.measured, HasSubstr("is also counted by IDLE_HOST_WAIT"));
}

TEST_F(FindingRulesTest, StepsThatDifferAreNotWorthAGraph) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs + 100 * kUs,
            .count = 300 + 10 * step,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs});
  }
  EXPECT_THAT(Fired(), Not(Contains("CUDA_GRAPH")));
}

TEST_F(FindingRulesTest, StepsThatAreGraphsAlreadyAreNotWorthOne) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch(
        {.start_ns = step * kStepNs + 100 * kUs,
         .count = 400,
         .kernel_ns = 5 * kUs,
         .gap_ns = 15 * kUs,
         .lead_ns = 12 * kUs,
         .gpu = {.graph_id = 1, .graph_node_id = 1, .grid = {8448, 1, 1}, .block = {256, 1, 1}}});
  }
  EXPECT_THAT(Fired(), Not(Contains("CUDA_GRAPH")));
}

TEST_F(FindingRulesTest, AProgramThatLaunchesGraphsKnowsThem) {
  HostBound(5);
  ASSERT_THAT(Fired(), Contains("CUDA_GRAPH"));
  // Behind the steps' other work, and with work of its own that does not name its graph.
  for (int step = 0; step < 5; ++step) {
    const int64_t at = step * kStepNs + 9900 * kUs;
    ++correlation_;
    reader_.ApiCall(main_, "cudaGraphLaunch", at, at + 5 * kUs, correlation_)
        .Kernel(kElementwise, at + 10 * kUs, at + 15 * kUs, correlation_, {});
  }
  EXPECT_THAT(Fired(), Not(Contains("CUDA_GRAPH")));
}

TEST_F(FindingRulesTest, RunsOfElementwiseKernelsAreFound) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    for (int run = 0; run < 20; ++run) {
      const int64_t at = step * kStepNs + run * 500 * kUs;
      Launch({.start_ns = at, .count = 3});
      Launch({.start_ns = at + 300 * kUs, .count = 2, .kernel = kElementwise, .op = "aten::add"});
    }
  }
  const Finding finding = Find("MISSING_FUSION");
  EXPECT_NEAR(finding.value, 0.2, 0.001);  // One of each two.
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].name, "aten::add");
}

TEST_F(FindingRulesTest, SingleElementwiseKernelsHaveNothingToFuseWith) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    for (int run = 0; run < 20; ++run) {
      const int64_t at = step * kStepNs + run * 500 * kUs;
      Launch({.start_ns = at, .count = 4});
      Launch({.start_ns = at + 400 * kUs, .kernel = kElementwise, .op = "aten::add"});
    }
  }
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(FindingRulesTest, KernelsThatDoNotFillTheGpuAreFound) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = step * kStepNs,
            .count = 100,
            .gpu = {.grid = {33, 1, 1}, .block = {256, 1, 1}, .registers_per_thread = 32}});
  }
  const Finding finding = Find("LOW_WAVES");
  EXPECT_DOUBLE_EQ(finding.value, 1);
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 7.5e6, 1e5);
}

// Ten blocks of 256 work-items.
TEST_F(FindingRulesTest, AGridOfWorkItemsIsCountedInBlocks) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += 100 * kUs) {
    ++correlation_;
    reader_.ApiCall(main_, "hipExtModuleLaunchKernel", at, at + 5 * kUs, correlation_)
        .Kernel(kTensorKernel, at + 10 * kUs, at + 99 * kUs, correlation_,
                {.grid = {2560, 1, 1}, .block = {256, 1, 1}, .registers_per_thread = 32});
  }
  EXPECT_DOUBLE_EQ(Find("LOW_WAVES").value, 1);
}

TEST_F(FindingRulesTest, WithoutTheDeviceNobodyKnowsWhatFillsIt) {
  Healthy();
  reader_.mutable_record().gpu.devices.clear();
  EXPECT_THAT(NeedsOf("LOW_WAVES"), HasSubstr("multiprocessors"));
  EXPECT_THAT(NeedsOf("TC_UNUSED"), HasSubstr("compute capability"));
}

TEST_F(FindingRulesTest, GraphBreaksAreFoundWithTheirPlaces) {
  Healthy();
  EXPECT_THAT(NeedsOf("GRAPH_BREAKS"), HasSubstr("torch.compile"));
  reader_.Operator(main_, "Torch-Compiled Region: 0/0", kMs, 2 * kMs);
  EXPECT_THAT(Fired(), IsEmpty());  // Compiled in one piece.
  reader_.Note(main_, kMs, static_cast<uint16_t>(wire::NoteKind::kGraphBreak), "train.py:19 in f",
               "call to print", 1);
  const Finding finding = Find("GRAPH_BREAKS");
  ASSERT_EQ(finding.evidence.size(), 1u);
  EXPECT_EQ(finding.evidence[0].name, "train.py:19 in f");
  EXPECT_EQ(finding.evidence[0].detail, "call to print");
}

TEST_F(FindingRulesTest, CompilingInLaterStepsIsFound) {
  Healthy();
  reader_.Operator(main_, "Torch-Compiled Region: 0/0", kMs, 2 * kMs);
  EXPECT_THAT(Fired(), IsEmpty());
  reader_.Range(main_, "_compile.compile_inner (dynamo_timed)", 2 * kStepNs + kMs,
                2 * kStepNs + 6 * kMs);
  EXPECT_NEAR(Find("RECOMPILES").value, 0.1, 0.001);
}

// ---- memory ----

TEST_F(FindingRulesTest, AnAllocationThatFailsIsFoundBeforeAllElse) {
  Healthy();
  AllocateMemory(int64_t{60} << 30, int64_t{61} << 30);
  reader_.Note(main_, kMs, static_cast<uint16_t>(wire::NoteKind::kOutOfMemory), "cuda:0", "",
               int64_t{30} << 30);
  const Finding finding = Find("OUT_OF_MEMORY");
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_THAT(finding.measured, HasSubstr("An allocation of 30 GiB on cuda:0 failed"));
  EXPECT_THAT(Report().verdict, HasSubstr("An allocation of 30 GiB"));
}

TEST_F(FindingRulesTest, AnAllocationThatFailsHasTheFrameworksNumberOfItsStep) {
  Healthy();
  AllocateMemory(int64_t{60} << 30, int64_t{61} << 30);
  reader_.Note(main_, 2 * kStepNs + kMs, static_cast<uint16_t>(wire::NoteKind::kOutOfMemory),
               "cuda:0", "", int64_t{30} << 30);
  reader_.mutable_record().torch.step_source = StepSource::kOptimizer;
  constexpr auto kStepLabel = static_cast<uint16_t>(wire::NoteKind::kStepLabel);
  reader_.Note(main_, kNoNoteTime, kStepLabel, "global_step", "step 4", 1'004)
      .Note(main_, kNoNoteTime, kStepLabel, "epoch", "step 4", 3);
  const Finding finding = Find("OUT_OF_MEMORY");
  EXPECT_THAT(finding.measured,
              HasSubstr("failed in step 2 (global step 1002, epoch 3 at step 4)"));
  EXPECT_EQ(finding.evidence.at(0).step, 2);
  EXPECT_EQ(finding.evidence.at(0).global_step, 1'002);
}

TEST_F(FindingRulesTest, WithoutMemoryEventsNoMemoryRuleIsLookedAt) {
  Healthy();
  for (const std::string_view rule : {"MEM_NEAR_LIMIT", "MEM_FRAG", "MEM_LEAK", "OUT_OF_MEMORY"}) {
    EXPECT_THAT(NeedsOf(rule), HasSubstr("--with memory")) << rule;
  }
}

TEST_F(FindingRulesTest, StepsThatAllocateDeviceMemoryAreFound) {
  Healthy();
  for (int step = 0; step < 5; ++step) {
    reader_.ApiCall(main_, "cudaMalloc", step * kStepNs + kMs, step * kStepNs + 2 * kMs, 0);
  }
  EXPECT_NEAR(Find("ALLOC_CHURN").value, 0.1, 0.001);
}

TEST_F(FindingRulesTest, AllocationsInAWarmUpStepAreNoFinding) {
  reader_.Step(0, 0, 50 * kMs).ApiCall(main_, "cudaMalloc", kMs, 40 * kMs, 0);
  for (int step = 1; step < 6; ++step) {
    reader_.Step(step, 40 * kMs + step * kStepNs, kStepNs);
    Launch({.start_ns = 40 * kMs + step * kStepNs, .count = 100});
  }
  EXPECT_THAT(Fired(), Not(Contains("ALLOC_CHURN")));
}

// ---- the program ----

TEST_F(FindingRulesTest, DataParallelOfTwoGpusIsFound) {
  Healthy();
  reader_.Range(main_, "DataParallel.forward", kMs, 2 * kMs);
  EXPECT_THAT(Fired(), Not(Contains("DATA_PARALLEL")));  // One GPU.
  reader_.Kernel(kTensorKernel, 0, kMs, 0, {.device = 1});
  EXPECT_THAT(Fired(), Contains("DATA_PARALLEL"));
}

TEST_F(FindingRulesTest, CollectivesOfGlooBesideAGpuAreFound) {
  IdleFirst(3 * kMs);
  for (int step = 0; step < 5; ++step) {
    reader_.Range(main_, "gloo:all_reduce", step * kStepNs, step * kStepNs + 2 * kMs);
  }
  EXPECT_NEAR(Find("COMM_BACKEND").value, 0.2, 0.01);
}

TEST_F(FindingRulesTest, AFewCollectivesOfGlooAreNoFinding) {
  Healthy();
  reader_.Range(main_, "gloo:barrier", kMs, 2 * kMs);
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(FindingRulesTest, OneRankAloneTellsNothingOfStragglers) {
  Healthy();
  EXPECT_THAT(NeedsOf("STRAGGLER_RANK"), HasSubstr("three ranks"));
}

// ---- ranks ----

class RankRulesTest : public FindingRulesTest {
 protected:
  // Five healthy steps, and ranks that all-reduce at the end of each: each rank's own work before.
  void Ranks(const std::vector<int64_t>& own_ns, bool has_collectives = true) {
    Healthy();
    const int64_t last_ns = *std::max_element(own_ns.begin(), own_ns.end());
    std::vector<CollectiveTable> tables;
    for (size_t rank = 0; rank < own_ns.size(); ++rank) {
      CollectiveTable& table = tables.emplace_back();
      table.communicators = {{.size = static_cast<int64_t>(own_ns.size())}};
      for (int64_t step = 0; step < 5; ++step) {
        const int64_t in_collective_ns = has_collectives ? last_ns - own_ns[rank] + 100 * kUs : 0;
        if (has_collectives) {
          table.rows.push_back({.duration_ns = in_collective_ns,
                                .exposed_ns = in_collective_ns,
                                .sequence = step,
                                .step = step,
                                .kind = CollectiveKind::kAllReduce});
        }
        table.steps.push_back({.step = step,
                               .duration_ns = own_ns[rank] + in_collective_ns,
                               .exposed_ns = in_collective_ns});
      }
      ranks_.names.push_back(StrCat("rank ", rank));
    }
    std::vector<const CollectiveTable*> members;
    for (const CollectiveTable& table : tables) members.push_back(&table);
    ranks_.steps = CompareSteps(members, MatchCollectives(members));
  }
};

TEST_F(RankRulesTest, ARankWithMoreOwnWorkThanTheOthersIsFound) {
  Ranks({5 * kMs, 5 * kMs + 10 * kUs, 8 * kMs, 5 * kMs - 10 * kUs});
  const Finding finding = Find("STRAGGLER_RANK");
  EXPECT_EQ(finding.value, ranks_.steps.ranking[0].score);  // As `profctl stragglers` has it.
  EXPECT_EQ(finding.threshold, kStragglerScore);
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 3 * kMs, 20 * kUs);
  ASSERT_EQ(finding.evidence.size(), 1u);
  EXPECT_EQ(finding.evidence[0].kind, EvidenceKind::kRank);
  EXPECT_EQ(finding.evidence[0].name, "rank 2");
  EXPECT_EQ(finding.evidence[0].duration_ns, 8 * kMs);
  EXPECT_THAT(finding.measured, HasSubstr("rank 2"));
}

TEST_F(RankRulesTest, RanksThatWaitForEachOtherInTurnAreNoStragglers) {
  Ranks({5 * kMs, 5 * kMs + 30 * kUs, 5 * kMs + 60 * kUs, 5 * kMs - 20 * kUs});
  EXPECT_THAT(Fired(), IsEmpty());
  EXPECT_THAT(NeedsOf("STRAGGLER_RANK"), IsEmpty());  // It was looked at.
}

TEST_F(RankRulesTest, ARankThatDelaysTheOthersInSomeStepsIsFoundWithTheSteps) {
  Ranks({5 * kMs, 5 * kMs, 5 * kMs, 5 * kMs});
  RankScore& slow = ranks_.steps.ranking[0];
  ranks_.steps.verdict = StragglerVerdict::kStraggler;
  slow.straggler = slow.is_slow_in_steps = true;
  slow.step_count = 12;
  slow.slow_steps = {2, 5, 8, 11};
  slow.slow_step_period = 3;
  slow.slow_step_delay_ns = 6 * kMs;
  slow.least_slow_step_delay_ns = slow.most_slow_step_delay_ns = 6 * kMs;
  const Finding finding = Find("STRAGGLER_RANK");
  EXPECT_THAT(finding.measured, HasSubstr("rank 0 delays the other ranks in 4 of 12 steps, by "
                                          "6.000ms each (every 3rd step: 2, 5, 8, 11)."));
  EXPECT_EQ(finding.saving_ns_per_step, 2 * kMs);
  EXPECT_EQ(finding.value, 4);
  EXPECT_EQ(finding.threshold, 3);
}

TEST_F(RankRulesTest, ItsThresholdIsAThreshold) {
  Ranks({5 * kMs, 5 * kMs + 10 * kUs, 8 * kMs, 5 * kMs - 10 * kUs});
  thresholds_.straggler_score = 1000;
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(RankRulesTest, TwoRanksTellNothing) {
  Ranks({5 * kMs, 8 * kMs});
  EXPECT_THAT(NeedsOf("STRAGGLER_RANK"), HasSubstr("three ranks"));
}

TEST_F(RankRulesTest, RanksThatDoNotMeetInCollectivesHoldNobodyUp) {
  Ranks({5 * kMs, 5 * kMs, 8 * kMs, 5 * kMs}, /*has_collectives=*/false);
  EXPECT_THAT(NeedsOf("STRAGGLER_RANK"), HasSubstr("collectives"));
}

}  // namespace
}  // namespace profd::report
