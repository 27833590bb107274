// Idle time in which the host does something that is recorded: calls and work that launch nothing,
// collectives, copies, and the profiler's own overhead; and steps of a host that is ahead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "tests/report/findings/idle_causes_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(IdleCausesTest, WorkOfTheHostThatLaunchesNothingIsNotDispatch) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Operator("aten::sort", at + 20 * kUs, at + 8'020 * kUs);
    reader_.Range(main_, "aten::sort", at + 30 * kUs, at + 8'010 * kUs,
                  {.category = kOperatorRange});  // Within it.
    Operator("aten::mm", at + 8'050 * kUs, at + 8'100 * kUs);
    Kernel({at + 8'060 * kUs, at + 8'068 * kUs, at + 8'080 * kUs, at + 9'950 * kUs});
  }
  EXPECT_EQ(First(), "HOST_WORK");
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kHostWork);
  EXPECT_THAT(report.verdict, HasSubstr("Have the host do less in aten::sort"));
  EXPECT_NEAR(Find("HOST_WORK").value, 4 * 8.0 / 50, 0.01);  // Without the first, before any work.
  EXPECT_THAT(Find("HOST_WORK").measured, HasSubstr(", 6.4 ms of it in aten::sort (4 gaps)."));
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT")));
  EXPECT_THAT(Fired(), Not(Contains("CUDA_GRAPH")));
}

// Nine operators, each with such a call before its launch.
class LongCallTest : public IdleCausesTest {
 protected:
  void CallBeforeEachLaunch(std::string_view call) {
    for (int i = 0; i < 9; ++i) {
      const int64_t at = i * 10 * kMs;
      Operator("aten::add", at, at + 10 * kMs);
      reader_.ApiCall(main_, std::string(call), at + 50 * kUs, at + 8'950 * kUs, 0);
      Kernel({at + 8'960 * kUs, at + 8'965 * kUs, at + 8'970 * kUs, at + 9'970 * kUs});
    }
  }
};

TEST_F(LongCallTest, TimeInOtherCallsIsNotDispatch) {
  CallBeforeEachLaunch("cudaIpcOpenMemHandle");
  EXPECT_EQ(First(), "SLOW_API_CALLS");
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kApiCalls);
  EXPECT_THAT(report.verdict, HasSubstr("First change (SLOW_API_CALLS): Calls of the CUDA API take "
                                        "long. Call cudaIpcOpenMemHandle once"));
  const Finding finding = Find("SLOW_API_CALLS");
  // The first of them is before all GPU work, where the time that counts begins.
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 8 * 8.9e6, 1e6);
  EXPECT_THAT(finding.measured, HasSubstr(", 71.2 ms of it in cudaIpcOpenMemHandle (8 gaps)."));
  EXPECT_EQ(finding.evidence.at(0).detail, "in aten::add");
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT")));
  EXPECT_THAT(Fired(), Not(Contains("CUDA_GRAPH")));
}

TEST_F(LongCallTest, WhatLoadsCodeIsToBeWarmedUp) {
  CallBeforeEachLaunch("cuLibraryLoadData");
  EXPECT_THAT(Find("SLOW_API_CALLS").advice, HasSubstr("warm up each kernel"));
}

TEST_F(LongCallTest, WhatLoadsCodeInEachStepIsNoWarmUp) {
  Steps(9);
  CallBeforeEachLaunch("cuModuleLoadData");
  EXPECT_THAT(Find("SLOW_API_CALLS").advice, HasSubstr("Load modules and libraries once"));
  EXPECT_THAT(Find("SLOW_API_CALLS").advice, Not(HasSubstr("Record after")));
}

TEST_F(LongCallTest, WhatOnlyLooksUpInEachStepIsToBeCalledOnce) {
  Steps(9);
  CallBeforeEachLaunch("cudaFuncGetAttributes");
  EXPECT_THAT(Find("SLOW_API_CALLS").advice, HasSubstr("Call cudaFuncGetAttributes less often"));
}

TEST_F(LongCallTest, WhatGivesBackIsToBeCalledLater) {
  CallBeforeEachLaunch("cuModuleUnload");
  EXPECT_THAT(Find("SLOW_API_CALLS").advice, HasSubstr("Call cuModuleUnload after the loop"));
}

TEST_F(LongCallTest, AGraphIsToBeMadeOnce) {
  CallBeforeEachLaunch("cudaGraphInstantiateWithFlags");
  EXPECT_THAT(Find("SLOW_API_CALLS").advice, HasSubstr("Make each CUDA graph once"));
}

class AllocationCallTest : public LongCallTest,
                           public testing::WithParamInterface<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(, AllocationCallTest,
                         testing::Values("cudaHostRegister", "cudaHostUnregister", "hipMallocAsync",
                                         "cuMemFreeAsync", "cudaFreeAsync_ptsz", "cuMemSetAccess"));

TEST_P(AllocationCallTest, IsAllocationAndNoOtherCall) {
  Steps(9);
  CallBeforeEachLaunch(GetParam());
  EXPECT_EQ(First(), "ALLOC_CHURN");
  EXPECT_EQ(Report().bound, BoundBy::kAllocation);
  EXPECT_THAT(Fired(), Not(Contains("SLOW_API_CALLS")));
}

class MappingCallTest : public LongCallTest,
                        public testing::WithParamInterface<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(, MappingCallTest,
                         testing::Values("cuMemUnmap", "hipMemUnmap", "cuMemSetAccess"));

// torch maps memory for segments that expand alone.
TEST_P(MappingCallTest, AsksForNoExpandableSegments) {
  Steps(9);
  CallBeforeEachLaunch(GetParam());
  EXPECT_THAT(Find("ALLOC_CHURN").advice, HasSubstr("Keep mapped memory"));
  EXPECT_THAT(Find("ALLOC_CHURN").advice, Not(HasSubstr("expandable_segments")));
}

// Each launch of the main thread waits until another thread has freed memory.
TEST_F(IdleCausesTest, AFreeOfAnotherThreadThatStopsTheGpuIsAllocation) {
  const uint32_t other = reader_.AddThread(2, "other");
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Operator("aten::mm", at, at + 60 * kUs);
    reader_.ApiCall(other, "cudaFree", at + 20 * kUs, at + 8'900 * kUs, 0);
    Kernel({at + 30 * kUs, at + 38 * kUs, at + 8'915 * kUs, at + 9'990 * kUs});
  }
  EXPECT_EQ(First(), "ALLOC_CHURN");
  EXPECT_EQ(Report().bound, BoundBy::kAllocation);
  const Finding finding = Find("ALLOC_CHURN");
  // The first of them is before all GPU work.
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 4 * 8.86e6 / 5, 0.1e6);
  EXPECT_THAT(finding.measured, HasSubstr("cudaFree alone takes 7.1 ms in 4 calls."));
  EXPECT_EQ(finding.evidence.at(0).detail, "on a thread that launches nothing");
  EXPECT_THAT(Fired(), Not(Contains("LATE_START")));
}

TEST_F(IdleCausesTest, ALaunchCallThatWaitsForAFreeOfAnotherThreadIsAllocation) {
  const uint32_t other = reader_.AddThread(2, "other");
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Operator("aten::mm", at, at + 9'000 * kUs);
    reader_.ApiCall(other, "hipHostFree", at + 20 * kUs, at + 8'900 * kUs, 0);
    Kernel({at + 30 * kUs, at + 8'905 * kUs, at + 8'915 * kUs, at + 9'990 * kUs});
  }
  EXPECT_EQ(First(), "ALLOC_CHURN");
  EXPECT_THAT(Fired(), Not(Contains("SLOW_LAUNCH_CALLS")));
}

// As on a GPU that another process uses.
TEST_F(IdleCausesTest, AFreeThatBeginsAfterTheLaunchDoesNotHoldItUp) {
  const uint32_t other = reader_.AddThread(2, "other");
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Operator("aten::mm", at, at + 60 * kUs);
    reader_.ApiCall(other, "cudaFree", at + 45 * kUs, at + 8'950 * kUs, 0);
    Kernel({at + 30 * kUs, at + 38 * kUs, at + 8'915 * kUs, at + 9'990 * kUs});
  }
  EXPECT_THAT(Fired(), Contains("LATE_START"));
  EXPECT_THAT(Fired(), Not(Contains("ALLOC_CHURN")));
}

TEST_F(IdleCausesTest, AFreeOfAnotherThreadWhileNothingIsLaunchedIsNot) {
  const uint32_t other = reader_.AddThread(2, "other");
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.ApiCall(other, "cudaFree", at + 20 * kUs, at + 8'900 * kUs, 0);
    Operator("aten::mm", at + 8'910 * kUs, at + 8'930 * kUs);
    Kernel({at + 8'912 * kUs, at + 8'920 * kUs, at + 8'925 * kUs, at + 9'990 * kUs});
  }
  EXPECT_THAT(Fired(), Not(Contains("ALLOC_CHURN")));
}

// Whatever the kernel's name is.
class OperatorsKernelTest : public IdleCausesTest {
 protected:
  void KernelOfHalfTheStep(std::string_view op, std::string_view kernel) {
    Steps(5);
    for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
      Launch({.start_ns = at + 300 * kUs, .kernel_ns = 4 * kMs});
      Launch({.start_ns = at + 4'310 * kUs, .kernel_ns = 5 * kMs, .kernel = kernel, .op = op});
    }
  }
};

TEST_F(OperatorsKernelTest, WhatACollectiveLaunchesIsCommunication) {
  KernelOfHalfTheStep("vllm::all_reduce", "some_kernel");
  EXPECT_EQ(First(), "COMM_EXPOSED");
  EXPECT_EQ(Report().bound, BoundBy::kCommunication);
  EXPECT_THAT(Report().verdict, HasSubstr("computes for 40% of it, has exposed communication for "
                                          "50%"));
}

TEST_F(OperatorsKernelTest, AProductIsComputeInWhateverRange) {
  KernelOfHalfTheStep("vllm::all_reduce", "nvjet_tst_128x256_64x4_2x1_v_bz_TNT");
  EXPECT_THAT(Fired(), Not(Contains("COMM_EXPOSED")));
}

TEST_F(OperatorsKernelTest, WhatAFusedProductLaunchesIsNot) {
  KernelOfHalfTheStep("symm_mem::fused_all_gather_matmul", "some_kernel");
  EXPECT_THAT(Fired(), Not(Contains("COMM_EXPOSED")));
}

TEST_F(OperatorsKernelTest, WhatAnAtenOperatorLaunchesIsNot) {
  KernelOfHalfTheStep("aten::scatter_reduce", "reduce_scatter_sum");
  EXPECT_THAT(Fired(), Not(Contains("COMM_EXPOSED")));
}

TEST_F(OperatorsKernelTest, OfARangeOfTheProgramNothingFollows) {
  KernelOfHalfTheStep("all_reduce", "some_kernel");
  EXPECT_THAT(Fired(), Not(Contains("COMM_EXPOSED")));
}

// Of copies, those count for the advice that take most of the time.
TEST_F(IdleCausesTest, CopiesWithinTheGpuAreToBeAvoidedWhateverElseIsCopied) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    ++correlation_;
    reader_.ApiCall(main_, "cudaMemcpyAsync", at + 10 * kUs, at + 15 * kUs, correlation_)
        .Copy(at + 20 * kUs, at + 9 * kMs, correlation_, {.bytes = 1 << 30, .copy_kind = 8});
    Copy({.start_ns = at + 9'010 * kUs, .duration_ns = 4 * kUs, .bytes = 64, .pageable = false});
    Launch({.start_ns = at + 9'100 * kUs, .kernel_ns = 200 * kUs});
  }
  const Finding finding = Find("COPY_EXPOSED");
  EXPECT_THAT(finding.advice, HasSubstr("Avoid copies within the GPU"));
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 9e6, 0.1e6);
}

TEST_F(IdleCausesTest, CopiesBetweenGpusAreNotWithinOne) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    ++correlation_;
    reader_.ApiCall(main_, "cudaMemcpyPeerAsync", at + 10 * kUs, at + 15 * kUs, correlation_)
        .Copy(at + 20 * kUs, at + 4 * kMs, correlation_, {.bytes = 1 << 30, .copy_kind = 10});
    Launch({.start_ns = at + 4'100 * kUs, .kernel_ns = 5 * kMs});
  }
  EXPECT_THAT(Find("COPY_EXPOSED").advice, HasSubstr("Send what another GPU needs"));
}

// The host makes a step in 1 ms, the GPU in 4 ms; in every third step the program reads the loss.
TEST_F(IdleCausesTest, AStepThatWaitsForTheQueueIsNoOutlier) {
  int64_t host_ns = 0;
  int64_t gpu_ns = 0;
  for (int step = 0; step < 12; ++step) {
    const int64_t begin_ns = host_ns;
    gpu_ns = std::max(gpu_ns, host_ns + 20 * kUs);
    for (int i = 0; i < 4; ++i) {
      const int64_t call_ns = begin_ns + i * 100 * kUs;
      Operator("aten::mm", call_ns, call_ns + 50 * kUs);
      Kernel({call_ns + kUs, call_ns + 5 * kUs, gpu_ns, gpu_ns + 995 * kUs});
      gpu_ns += kMs;
    }
    host_ns += kMs;
    if (step % 3 == 2) {
      Operator("aten::item", begin_ns + 850 * kUs, gpu_ns + 10 * kUs);
      reader_.ApiCall(main_, "cudaStreamSynchronize", begin_ns + 855 * kUs, gpu_ns + 5 * kUs, 0);
      host_ns = gpu_ns + 50 * kUs;
    }
    reader_.Step(step, begin_ns, host_ns - begin_ns);
  }
  const FindingsReport report = Report();
  EXPECT_NEAR(static_cast<double>(report.mean_step_ns), 4e6, 0.05e6);
  EXPECT_EQ(report.bound, BoundBy::kCompute);
  EXPECT_TRUE(report.steps_of_gpu);
  EXPECT_THAT(Fired(), Not(Contains("STEP_OUTLIER")));
}

TEST_F(IdleCausesTest, OneStepTakesAtLeastAsLongAsItsGpuWork) {
  reader_.Step(0, 0, kMs);
  for (int i = 0; i < 4; ++i) {
    Kernel({i * 100 * kUs, i * 100 * kUs + 5 * kUs, i * kMs + 50 * kUs, (i + 1) * kMs});
  }
  EXPECT_NEAR(static_cast<double>(Report().mean_step_ns), 4e6, 0.1e6);
}

// As torch.profiler.schedule() records several windows: nothing is known of the time between them.
TEST_F(IdleCausesTest, AStepDoesNotLastUntilTheNextWindow) {
  CaptureRecord& record = reader_.mutable_record();
  for (int window = 0; window < 2; ++window) {
    const int64_t begin_ns = window * 5'000 * kMs;
    for (int step = 0; step < 4; ++step) {
      reader_.Step(10 * window + step, begin_ns + step * kMs, kMs);
      for (int i = 0; i < 4; ++i) {
        const int64_t call_ns = begin_ns + step * kMs + i * 100 * kUs;
        const int64_t start_ns = begin_ns + step * 4 * kMs + i * kMs + 50 * kUs;
        Kernel({call_ns + kUs, call_ns + 5 * kUs, start_ns, start_ns + kMs});
      }
    }
    record.windows.push_back({.start_ns = begin_ns,
                              .end_ns = begin_ns + 17 * kMs,
                              .first_step = 10 * window,
                              .end_step = 10 * window + 4});
  }
  EXPECT_EQ(Report().mean_step_ns, 4 * kMs);
  EXPECT_THAT(Fired(), Not(Contains("STEP_OUTLIER")));
}

// What CUPTI takes for itself; what loading code takes, the program would take without it.
class OverheadTest : public IdleCausesTest {
 protected:
  // Of 8 ms, between operators.
  void BeforeEachStep(uint32_t kind) {
    Steps(5);
    for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
      reader_.Overhead(kind, at, at + 8 * kMs);
      Operator("aten::mm", at + 8'010 * kUs, at + 8'100 * kUs);
      Kernel({at + 8'020 * kUs, at + 8'028 * kUs, at + 8'040 * kUs, at + 9'990 * kUs});
    }
  }
};

TEST_F(OverheadTest, OfTheProfilerSavesNothing) {
  BeforeEachStep(uint32_t{7} << 16);  // Activity Buffer Request
  for (const std::string_view rule : {"HOST_BOUND", "GPU_UNDERUSED", "GPU_GAP", "IDLE_HOST_WAIT"}) {
    for (const Finding& finding : Report().findings) {
      if (finding.rule == rule) {
        EXPECT_LT(finding.saving_ns_per_step, kMs) << rule;
      }
    }
  }
  EXPECT_THAT(Report().verdict, Not(HasSubstr("First change (HOST_BOUND)")));
  EXPECT_EQ(Report().bound, BoundBy::kProfiler);
  EXPECT_THAT(Report().verdict, HasSubstr("held up by its recording"));
}

TEST_F(OverheadTest, OfLoadingCodeIsTheFirstUseOfIt) {
  BeforeEachStep(uint32_t{5} << 16);  // Lazy Function Loading
  EXPECT_EQ(First(), "SLOW_API_CALLS");
  EXPECT_THAT(Find("SLOW_API_CALLS").measured, HasSubstr(" of it in Lazy Function Loading ("));
  EXPECT_THAT(Find("SLOW_API_CALLS").advice, HasSubstr("Code is loaded in most steps"));
  EXPECT_THAT(Fired(), Not(Contains("HOST_BOUND")));
}

}  // namespace
}  // namespace profd::report
