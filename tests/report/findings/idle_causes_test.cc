// Each idle time has one cause, by what the host did before the launch that ended it, in that call,
// and by how long the work took to start afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "daemon/report/findings/rules.h"
#include "tests/report/findings/idle_causes_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(IdleCausesTest, AnAllocatorThatDoesNotCacheIsTheCause) {
  CallAfterEachKernel("hipFree", kMs);
  EXPECT_EQ(First(), "ALLOC_CHURN");
  EXPECT_EQ(Report().bound, BoundBy::kAllocation);
  const Finding finding = Find("ALLOC_CHURN");
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 19 * 8.8e6, 2e6);
  EXPECT_THAT(finding.measured, HasSubstr("hipFree alone takes"));
  EXPECT_THAT(finding.advice, HasSubstr("allocator that caches"));
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT")));
  EXPECT_THAT(Fired(), Not(Contains("HOST_BOUND")));
}

TEST_F(IdleCausesTest, AnAllocationThatBeginsWhileTheGpuIsIdleIsTheCauseOfItsTime) {
  CallAfterEachKernel("cudaMalloc", 3 * kMs);
  EXPECT_EQ(First(), "ALLOC_CHURN");
  EXPECT_NEAR(static_cast<double>(Find("ALLOC_CHURN").saving_ns_per_step), 19 * 6.8e6, 1e6);
  EXPECT_THAT(Find("ALLOC_CHURN").advice, Not(HasSubstr("allocator that caches")));
}

TEST_F(IdleCausesTest, PinningMemoryInEachStepIsNotForTheAllocatorOfTheGpu) {
  CallAfterEachKernel("cudaHostAlloc", kMs);
  EXPECT_EQ(First(), "ALLOC_CHURN");
  EXPECT_THAT(Find("ALLOC_CHURN").advice, HasSubstr("Keep page-locked host memory"));
}

TEST_F(IdleCausesTest, AFewAllocationsWithoutStepsAreNone) {
  KernelsOfAMillisecond(0, 100 * kMs);
  reader_.ApiCall(main_, "cudaMalloc", 50'950 * kUs, 50'990 * kUs, 0);
  EXPECT_THAT(Fired(), Not(Contains("ALLOC_CHURN")));
  EXPECT_THAT(Fired(), Not(Contains("START_UP")));
}

TEST_F(IdleCausesTest, TheFirstCallsOfAProgramLoadTheDriver) {
  Operator("aten::mm", 0, kMs);
  Kernel({0, 5 * kUs, 10 * kUs, 910 * kUs});
  Operator("aten::conv2d", kMs, 1'000 * kMs);
  reader_.ApiCall(main_, "cudaFree", kMs, 801 * kMs, 0);
  reader_.ApiCall(main_, "cudaMalloc", 802 * kMs, 902 * kMs, 0);
  KernelsOfAMillisecond(1'000 * kMs, 1'100 * kMs);
  EXPECT_EQ(Report().bound, BoundBy::kStartUp);
  EXPECT_EQ(First(), "START_UP");
  const Finding finding = Find("START_UP");
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 900e6, 5e6);
  EXPECT_EQ(finding.evidence.at(0).name, "cudaFree");
  EXPECT_THAT(finding.advice, HasSubstr("Capture later"));
  EXPECT_THAT(Report().verdict, HasSubstr("the program is starting up"));
  EXPECT_THAT(Fired(), Not(Contains("ALLOC_CHURN")));
}

// As long calls, in a program that has long been running.
TEST_F(IdleCausesTest, AFewLongAllocationsLaterOnAreNoStartUp) {
  KernelsOfAMillisecond(0, 100 * kMs);
  Operator("aten::conv2d", 100 * kMs, 1'100 * kMs);
  reader_.ApiCall(main_, "cudaFree", 101 * kMs, 901 * kMs, 0);
  reader_.ApiCall(main_, "cudaMalloc", 902 * kMs, 1'002 * kMs, 0);
  KernelsOfAMillisecond(1'100 * kMs, 1'200 * kMs);
  EXPECT_EQ(Report().bound, BoundBy::kAllocation);
  EXPECT_EQ(First(), "ALLOC_CHURN");
  EXPECT_THAT(Fired(), Not(Contains("START_UP")));
}

// Of work that the host launched before its wait, and before the capture.
TEST_F(IdleCausesTest, GapsBetweenQueuedWorkAreNotBecauseOfTheWaitForIt) {
  Steps(1);
  for (int i = 0; i < 500; ++i) {
    reader_.Kernel(kTensorKernel, i * 10 * kUs, i * 10 * kUs + 8 * kUs, 0);
  }
  reader_.ApiCall(main_, "cudaDeviceSynchronize", 0, 5 * kMs, 0);
  Kernel({5'010 * kUs, 5'015 * kUs, 5'020 * kUs, kStepNs});
  EXPECT_THAT(Fired(), Not(Contains("SYNC_API")));
}

TEST_F(IdleCausesTest, WorkFromBeforeTheCaptureInItsOnlyStepIsSaid) {
  Steps(1);
  Kernel({100 * kUs, 105 * kUs, 4 * kMs, kStepNs});
  EXPECT_THAT(Report().verdict, HasSubstr("(mean of 1 step; for 4 ms of it the GPU did what was "
                                          "launched before the capture)"));
}

// As a collective waits for the backward pass.
TEST_F(IdleCausesTest, AStreamThatWaitsForAnotherOneDoesNoEarlierWork) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Kernel({at + 10 * kUs, at + 15 * kUs, at + 20 * kUs, at + 6 * kMs});
    ++correlation_;
    reader_.ApiCall(main_, "cudaLaunchKernel", at + 30 * kUs, at + 35 * kUs, correlation_)
        .Kernel("ncclDevKernel_AllReduce", at + 6'005 * kUs, at + 9 * kMs, correlation_,
                {.stream = 20});
  }
  EXPECT_EQ(Report().step_count, 5);
  EXPECT_THAT(Report().verdict, Not(HasSubstr("launched before the capture")));
}

// As the halves of a model do on two GPUs: all is launched in 100 us, and then the host waits.
class GpusInTurnTest : public IdleCausesTest {
 protected:
  // GPU 0 works for the first 4.4 ms of each step of 10 ms, GPU 1 for 4.4 ms from `second_ns` on.
  void TwoGpus(int64_t second_ns) {
    Steps(5);
    for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
      Operator("aten::mm", at, at + 100 * kUs);
      for (const uint16_t device : {0, 1}) {
        ++correlation_;
        const int64_t call_ns = at + (10 + 40 * device) * kUs;
        const int64_t start_ns = at + (device == 0 ? 100 * kUs : second_ns);
        reader_.ApiCall(main_, "cudaLaunchKernel", call_ns, call_ns + 5 * kUs, correlation_)
            .Kernel(kTensorKernel, start_ns, start_ns + 4'400 * kUs, correlation_,
                    {.device = device,
                     .grid = {132 * 64, 1, 1},
                     .block = {256, 1, 1},
                     .registers_per_thread = 32});
      }
      reader_.ApiCall(main_, "cudaDeviceSynchronize", at + 100 * kUs, at + 9 * kMs, 0);
    }
  }
};

TEST_F(GpusInTurnTest, OneWaitsForTheOtherAndNotForTheHost) {
  TwoGpus(4'600 * kUs);
  EXPECT_EQ(Report().bound, BoundBy::kOtherGpus);
  EXPECT_THAT(Report().verdict, HasSubstr("GPU 0 (of 2 that worked)"));
  // Some GPU works for 8.8 of 10 ms.
  for (const Finding& finding : Report().findings) {
    EXPECT_LE(finding.saving_ns_per_step, 1'300 * kUs) << finding.rule;
  }
}

TEST_F(GpusInTurnTest, GpusThatWorkAtTheSameTimeWaitForTheHost) {
  TwoGpus(400 * kUs);
  EXPECT_EQ(Report().bound, BoundBy::kSynchronization);
  EXPECT_EQ(First(), "SYNC_API");
}

TEST_F(IdleCausesTest, TimeInLaunchCallsThatTakeLongIsNotDispatch) {
  for (int i = 0; i < 9; ++i) {
    const int64_t at = i * 40 * kMs;
    Operator("aten::norm", at, at + 31 * kMs);
    Kernel({at + 10 * kUs, at + 30 * kMs, at + 30'020 * kUs, at + 30'070 * kUs},
           std::string("kernel") + std::to_string(i));
    Operator("aten::add", at + 31 * kMs, at + 40 * kMs);
    Kernel({at + 31'100 * kUs, at + 31'105 * kUs, at + 31'110 * kUs, at + 39'900 * kUs}, "add");
  }
  EXPECT_EQ(First(), "SLOW_LAUNCH_CALLS");
  const Finding finding = Find("SLOW_LAUNCH_CALLS");
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 8 * 30e6, 1e6);
  EXPECT_THAT(finding.measured, HasSubstr("first launch of a kernel"));
  EXPECT_THAT(finding.evidence.at(0).detail, HasSubstr("aten::norm"));
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT")));
}

TEST_F(IdleCausesTest, LaunchedWorkThatDoesNotStartIsNotTheHosts) {
  Operator("aten::cumsum", 0, 40 * kUs);
  Kernel({5 * kUs, 13 * kUs, 20 * kUs, 40 * kUs});
  Operator("aten::add", 70 * kUs, 110 * kUs);
  Kernel({75 * kUs, 83 * kUs, 400 * kMs, 401 * kMs});  // 35 us late, and starts 400 ms later.
  Operator("aten::copy_", 130 * kUs, 400 * kMs);
  reader_.ApiCall(main_, "cudaMemcpyAsync", 140 * kUs, 400 * kMs, 0);
  EXPECT_EQ(First(), "LATE_START");
  EXPECT_EQ(Report().bound, BoundBy::kLateStart);
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT")));
  EXPECT_THAT(Fired(), Not(Contains("HOST_BOUND")));
}

TEST_F(IdleCausesTest, CodeBetweenOperatorsIsNotDispatch) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Operator("aten::mm", at, at + 900 * kUs);
    Kernel({at + 10 * kUs, at + 15 * kUs, at + 20 * kUs, at + kMs});
    Operator("aten::add", at + 7 * kMs, at + kStepNs);  // After 6.1 ms of Python.
    Kernel({at + 9 * kMs, at + 9'005 * kUs, at + 9'010 * kUs, at + 9'990 * kUs});
  }
  const FindingsReport report = Report();
  EXPECT_EQ(report.findings.at(0).rule, "HOST_BOUND");
  EXPECT_NEAR(Find("HOST_BOUND").value, 0.6, 0.01);  // While the GPU is idle: from 1 to 7 ms.
  EXPECT_NEAR(Find("IDLE_HOST_WAIT").value, 0.2, 0.01);
  EXPECT_EQ(report.bound, BoundBy::kHost);
  EXPECT_THAT(report.verdict, HasSubstr("With the GPU busy for 19.6%, the program is host-bound"));
}

TEST_F(IdleCausesTest, CompilationComesBeforeTheTimeOutsideOperators) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Operator("aten::mm", at, at + kMs);
    reader_.Range(main_, "_compile.compile_inner (dynamo_timed)", at + kMs, at + 9 * kMs);
    Operator("aten::add", at + 9'500 * kUs, at + kStepNs);
  }
  EXPECT_EQ(First(), "RECOMPILES");
  EXPECT_THAT(Fired(), Not(Contains("HOST_BOUND")));  // 5 % are below its threshold.
  EXPECT_THAT(Report().verdict, HasSubstr("15% in operators, 80% compiling, 5% on the host"));
}

// ---- what a change can save, and the order ----

TEST_F(IdleCausesTest, OverlappingSavesNoMoreThanTheComputeThatIsLeft) {
  Steps(6);
  for (int64_t at = 0; at < 6 * kStepNs; at += kStepNs) {
    Copy(
        {.start_ns = at + 20 * kUs, .duration_ns = 9 * kMs, .bytes = 100 << 20, .pageable = false});
    Launch({.start_ns = at + 9'100 * kUs, .kernel_ns = 200 * kUs});
  }
  const Finding finding = Find("COPY_EXPOSED");
  EXPECT_EQ(finding.saving_ns_per_step, 200 * kUs);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_THAT(finding.measured, HasSubstr("save at most 200 us a step"));
  EXPECT_THAT(finding.advice, HasSubstr("Keep data that is used again on the GPU"));
  EXPECT_EQ(Report().bound, BoundBy::kCopies);
}

TEST_F(IdleCausesTest, CollectivesCannotHideBehindComputeThatIsOverlappedAlready) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Launch({.start_ns = at, .count = 20});  // 2 ms, of which 1.5 ms are overlapped.
    Launch({.start_ns = at + 500 * kUs,
            .kernel_ns = 9 * kMs,
            .kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            .op = "nccl:all_reduce",
            .gpu = {.stream = 20}});
  }
  const Finding finding = Find("COMM_EXPOSED");
  EXPECT_EQ(finding.saving_ns_per_step, 500 * kUs);
  EXPECT_THAT(finding.advice, HasSubstr("Communicate less"));
  EXPECT_EQ(Report().bound, BoundBy::kCommunication);
}

TEST_F(IdleCausesTest, PageableCopiesExplainExposedOnes) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Copy({.start_ns = at + 20 * kUs, .duration_ns = 4 * kMs, .bytes = 8 << 20});
    Launch({.start_ns = at + 5 * kMs, .count = 50});
  }
  const FindingsReport report = Report();
  EXPECT_EQ(report.findings.at(0).rule, "MEMCPY_PAGEABLE_ASYNC");
  EXPECT_THAT(Find("COPY_EXPOSED").measured, HasSubstr("MEMCPY_PAGEABLE_ASYNC explains"));
  EXPECT_LT(Find("COPY_EXPOSED").saving_ns_per_step, kMs);
}

TEST_F(IdleCausesTest, AnUnfusedOptimizerComesBeforeItsSmallKernels) {
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
  EXPECT_EQ(First(), "TINY_KERNELS_OF_OP");
  EXPECT_THAT(Find("TINY_KERNELS_OF_OP").advice, HasSubstr("fused=True"));
}

TEST_F(IdleCausesTest, ALeakComesFirstIfItFillsTheMemorySoon) {
  Steps(8);
  int64_t total = int64_t{70} << 30;
  for (int step = 0; step < 8; ++step) {
    Launch({.start_ns = step * kStepNs + 6 * kMs, .count = 40, .lead_ns = 10 * kUs});
    total += 64 << 10;  // 22 GiB an hour.
    reader_.Allocate(main_, step * kStepNs + kMs, 0x100000 + static_cast<uint64_t>(step) * 0x100000,
                     64 << 10,
                     {.total_allocated_bytes = total,
                      .total_reserved_bytes = int64_t{75} << 30,
                      .device_type = 1});
  }
  EXPECT_EQ(First(), "MEM_LEAK");
  EXPECT_THAT(Find("MEM_LEAK").measured, HasSubstr("22 GiB an hour; memory is full after"));
  EXPECT_EQ(Find("MEM_LEAK").severity, Severity::kCritical);
}

// Savings of one report that are idle time of the GPU, and that time.
class PromisedOnceTest : public IdleCausesTest {
 protected:
  void ExpectNoTimeTwice() {
    const FindingsReport report = Report();
    int64_t promised_ns = 0;
    std::string rules;
    for (const Finding& finding : report.findings) {
      const auto rule = std::ranges::find(Rules(), finding.rule, &Rule::id);
      // These are of idle time, too, where there is a GPU.
      constexpr std::array<std::string_view, 4> kOthers = {"INPUT_BOUND", "RECOMPILE_LIMIT",
                                                           "LATE_START", "COMM_BACKEND"};
      if (!rule->of_idle_time && std::ranges::find(kOthers, finding.rule) == kOthers.end()) {
        continue;
      }
      promised_ns += finding.saving_ns_per_step;
      rules += finding.rule + " ";
    }
    const int64_t busy_ns = reader_busy_ns_ / std::max<int64_t>(report.step_count, 1);
    EXPECT_GT(std::ranges::count(rules, ' '), 1) << rules;
    EXPECT_LE(promised_ns, report.mean_step_ns - busy_ns + 10 * kUs) << rules;
  }
  // Each step: small kernels, each launched only when the one before it has ended.
  void SmallKernels(int64_t start_ns, int count) {
    Launch({.start_ns = start_ns,
            .count = count,
            .kernel_ns = 5 * kUs,
            .gap_ns = 15 * kUs,
            .lead_ns = 12 * kUs,
            .call_ns = 10 * kUs});
    reader_busy_ns_ += count * 5 * kUs;
  }
  int64_t reader_busy_ns_ = 0;
};

TEST_F(PromisedOnceTest, OfRemediesForLateLaunchesTheFirstHasTheTime) {
  Steps(5);
  for (int step = 0; step < 5; ++step) SmallKernels(step * kStepNs + 100 * kUs, 450);
  EXPECT_THAT(Fired(), Contains("CUDA_GRAPH"));
  EXPECT_THAT(Fired(), Contains("IDLE_HOST_WAIT"));
  EXPECT_THAT(Fired(), Contains("GPU_UNDERUSED"));
  ExpectNoTimeTwice();
}

TEST_F(PromisedOnceTest, LongGapsCountWhatTheirCausesDoNot) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Range(main_, kLoader, at, at + 4 * kMs);
    Operator("aten::mm", at + 7 * kMs, at + kStepNs);  // After 3 ms of Python.
    Launch({.start_ns = at + 7'200 * kUs, .count = 28, .lead_ns = 100 * kUs});
    reader_busy_ns_ += 2'800 * kUs;
  }
  EXPECT_THAT(Fired(), Contains("INPUT_BOUND"));
  EXPECT_THAT(Fired(), Contains("HOST_BOUND"));
  EXPECT_THAT(Fired(), Contains("GPU_GAP"));
  EXPECT_THAT(Fired(), Contains("GPU_UNDERUSED"));
  ExpectNoTimeTwice();
  EXPECT_LT(Find("GPU_GAP").saving_ns_per_step, kMs);
  EXPECT_EQ(First(), "INPUT_BOUND");
}

TEST_F(PromisedOnceTest, CausesInWhichOneIsNotSureCountToo) {
  Steps(10);
  for (int step = 0; step < 10; ++step) {
    const int64_t at = step * kStepNs;
    // Python in two steps, which another process may explain.
    const int64_t python_ns = step == 3 || step == 7 ? 6 * kMs : 0;
    Operator("aten::add", at, at + 10 * kUs);
    Operator("aten::mm", at + python_ns, at + python_ns + 100 * kUs);
    SmallKernels(at + 200 * kUs + python_ns, 150);
  }
  ExpectNoTimeTwice();
}

TEST_F(PromisedOnceTest, CodeThatIsLookedUpInVainHasTheTimeOfItsLaunches) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    SmallKernels(at + 100 * kUs, 450);
    reader_.Range(main_, "TorchDynamo Cache Lookup", at + 9'500 * kUs, at + 9'550 * kUs);
  }
  EXPECT_THAT(Fired(), Contains("RECOMPILE_LIMIT"));
  EXPECT_THAT(Fired(), Contains("IDLE_HOST_WAIT"));
  ExpectNoTimeTwice();
  EXPECT_GT(Find("RECOMPILE_LIMIT").saving_ns_per_step, 3 * kMs);
  const Finding launches = Find("IDLE_HOST_WAIT");
  EXPECT_EQ(launches.saving_ns_per_step, 0);
  EXPECT_EQ(launches.severity, Severity::kInfo);
  EXPECT_TRUE(launches.counted_elsewhere);
}

TEST_F(PromisedOnceTest, CodeThatIsLookedUpInVainDoesNotExplainLongHostTime) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    SmallKernels(at + 100 * kUs, 300);
    reader_.Range(main_, "TorchDynamo Cache Lookup", at + 6'110 * kUs, at + 6'115 * kUs);
    Operator("aten::mm", at + 9'800 * kUs, at + kStepNs);  // After 3.7 ms of Python.
    Launch({.start_ns = at + 9'900 * kUs, .lead_ns = 20 * kUs});
    reader_busy_ns_ += 100 * kUs;
  }
  EXPECT_THAT(Fired(), Contains("RECOMPILE_LIMIT"));
  EXPECT_THAT(Find("HOST_BOUND").measured, Not(HasSubstr("RECOMPILE_LIMIT")));
  EXPECT_GT(Find("HOST_BOUND").saving_ns_per_step, 3 * kMs);
  ExpectNoTimeTwice();
}

TEST_F(PromisedOnceTest, CompilationWhileTheGpuWorksLeavesIdleTimeToOthers) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Range(main_, kLoader, at, at + 3 * kMs);  // The GPU is idle.
    reader_.Range(main_, "_compile.compile_inner (dynamo_timed)", at + 5 * kMs, at + 9 * kMs);
    reader_.Range(main_, "Torch-Compiled Region: 0/1", at + 9 * kMs, at + 9'500 * kUs);
    Launch({.start_ns = at + 3'100 * kUs, .count = 69});
  }
  EXPECT_NEAR(static_cast<double>(Find("RECOMPILES").saving_ns_per_step), 4e6, 1e5);
  EXPECT_NEAR(static_cast<double>(Find("INPUT_BOUND").saving_ns_per_step), 3e6, 1e5);
}

TEST_F(PromisedOnceTest, ASlowStepInWhichTheGpuWorksKeepsItsSaving) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t work_ns = step == 6 ? 30 * kMs : 8 * kMs;
    reader_.Step(step, at, work_ns + kMs);
    reader_.Range(main_, kLoader, at, at + kMs);  // The GPU is idle for 1 ms of each step.
    Launch({.start_ns = at + kMs, .count = static_cast<int>(work_ns / (100 * kUs))});
    at += work_ns + kMs;
  }
  EXPECT_NEAR(static_cast<double>(Find("INPUT_BOUND").saving_ns_per_step), 1e6, 1e5);
  EXPECT_NEAR(static_cast<double>(Find("STEP_OUTLIER").saving_ns_per_step), 2.2e6, 1e5);
}

// ---- what is not known, and whose step it is ----

TEST_F(IdleCausesTest, KernelsWithoutGridsDoNotTellHowTheyFillTheGpu) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch(
        {.start_ns = step * kStepNs, .count = 100, .gpu = {.grid = {0, 0, 0}, .block = {0, 0, 0}}});
  }
  EXPECT_THAT(Fired(), Not(Contains("LOW_WAVES")));
  EXPECT_THAT(NeedsOf("LOW_WAVES"), HasSubstr("grids of kernels"));
}

// ---- launches without GPU work ----

class LaunchesWithoutWorkTest : public IdleCausesTest {
 protected:
  // Steps of 10 ms with `launches` launches each; the GPU does the work of the first `done` only.
  void StepsWith(int launches, int done, std::string_view call = "cudaLaunchKernel") {
    reader_.mutable_record().imported.source = "trace.json";
    Steps(3);
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; i < launches; ++i) {
        const int64_t at = step * kStepNs + i * 400 * kUs;
        Operator("aten::mm", at, at + 40 * kUs);
        reader_.ApiCall(main_, call, at + 5 * kUs, at + 10 * kUs, ++correlation_);
        if (i < done) reader_.Kernel(kTensorKernel, at + 20 * kUs, at + 120 * kUs, correlation_);
      }
    }
  }
  const QualityCheck& Check(const FindingsReport& report) {
    const auto found =
        std::ranges::find(report.quality.checks, "silent_launches", &QualityCheck::name);
    return *found;
  }
};

// CUPTI from 13.3 on has no records of graphs that are older than some of its settings.
TEST_F(LaunchesWithoutWorkTest, AGraphWithoutRecordsIsNoIdleTime) {
  StepsWith(20, 20, "cudaLaunchKernel");
  ASSERT_NE(Report().bound, BoundBy::kUnknown);
  for (int step = 0; step < 3; ++step) {
    const int64_t at = step * kStepNs + 8500 * kUs;
    reader_.ApiCall(main_, "cudaGraphLaunch", at, at + 10 * kUs, ++correlation_);
  }
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kUnknown);
  EXPECT_THAT(report.verdict, HasSubstr("3 of 3 launches of graphs have no GPU work"));
}

TEST_F(LaunchesWithoutWorkTest, NothingIsConcludedIfTheGpuWorkIsNotRecorded) {
  for (const std::string_view call :
       {"cudaLaunchKernel", "hipModuleLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch"}) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    reader_.mutable_record().start_unix_ns = 1;
    StepsWith(20, 0, call);
    const FindingsReport report = Report();
    EXPECT_EQ(report.bound, BoundBy::kUnknown);
    EXPECT_EQ(report.quality.grade, "D");
    EXPECT_THAT(report.verdict, HasSubstr("60 of 60 launches have no GPU work in the recording: "
                                          "what the GPU did is unknown"));
    EXPECT_THAT(report.verdict, Not(HasSubstr("No GPU work was recorded")));
    EXPECT_THAT(NeedsOf("GPU_UNDERUSED"), HasSubstr("all GPU work, at its right time"));
    EXPECT_THAT(NeedsOf("HOST_BOUND"), HasSubstr("60 of 60 launches"));
  }
}

TEST_F(LaunchesWithoutWorkTest, NothingIsConcludedIfMostOfItIsMissing) {
  StepsWith(24, 6);
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kUnknown);
  EXPECT_THAT(report.verdict, HasSubstr("54 of 72 launches have no GPU work in the recording"));
  EXPECT_THAT(report.verdict, Not(HasSubstr("idle for")));
  EXPECT_TRUE(Check(report).failed());
  EXPECT_THAT(Fired(), Not(Contains("IDLE_HOST_WAIT")));
  EXPECT_THAT(Fired(), Not(Contains("GPU_GAP")));
}

TEST_F(LaunchesWithoutWorkTest, AFewLowerTheConfidence) {
  StepsWith(24, 23);
  const FindingsReport report = Report();
  EXPECT_EQ(report.quality.grade, "B");
  EXPECT_EQ(Find("GPU_UNDERUSED").confidence, Confidence::kMedium);
  EXPECT_THAT(Find("GPU_UNDERUSED").confidence_reason, HasSubstr("3 of 72 launches"));
}

TEST_F(LaunchesWithoutWorkTest, WorkThatDoesNotNameItsLaunchIsThere) {
  StepsWith(20, 0);
  for (int i = 0; i < 60; ++i) {
    reader_.Kernel(kTensorKernel, i * 500 * kUs, i * 500 * kUs + 400 * kUs, 10'000);
  }
  EXPECT_THAT(Report().verdict, HasSubstr("compute-bound"));
}

// An excerpt by GPU time, of a host that runs ahead.
TEST_F(LaunchesWithoutWorkTest, WorkAfterTheRecordingIsNotMissingInIt) {
  for (int i = 0; i < 60; ++i) {
    const int64_t at = i * 100 * kUs;
    reader_.ApiCall(main_, "cudaLaunchKernel", at, at + 5 * kUs, ++correlation_);
    if (i >= 30) continue;  // The rest of it runs later.
    reader_.Kernel(kTensorKernel, i * kMs, (i + 1) * kMs, correlation_);
  }
  EXPECT_THAT(Report().verdict, HasSubstr("compute-bound"));
  EXPECT_FALSE(Check(Report()).failed());
}

TEST_F(LaunchesWithoutWorkTest, ACallOfTheDriverInOneOfTheRuntimeIsTheSameLaunch) {
  StepsWith(20, 20);
  for (uint32_t i = 1; i <= 60; ++i) {
    const int64_t at = (i - 1) / 20 * kStepNs + (i - 1) % 20 * 400 * kUs;
    reader_.ApiCall(main_, "cuLaunchKernel", at + 6 * kUs, at + 9 * kUs, i, {.is_driver = true});
  }
  EXPECT_FALSE(Check(Report()).failed());
}

TEST_F(IdleCausesTest, AStepOfAProgramThatNeverWaitsTakesAsLongAsItsGpuWork) {
  for (int step = 0; step < 6; ++step) {
    reader_.Step(step, step * kMs, kMs);
    for (int i = 0; i < 4; ++i) {
      const int64_t call_ns = step * kMs + i * 100 * kUs;
      const int64_t start_ns = step * 4 * kMs + i * kMs + 50 * kUs;
      Operator("aten::mm", call_ns, call_ns + 50 * kUs);
      Kernel({call_ns + kUs, call_ns + 5 * kUs, start_ns, start_ns + kMs});
    }
  }
  const FindingsReport report = Report();
  EXPECT_EQ(report.mean_step_ns, 4 * kMs);
  EXPECT_EQ(report.bound, BoundBy::kCompute);
  EXPECT_THAT(report.verdict, HasSubstr("A step takes 4 ms (mean of 6 steps, from the GPU's work: "
                                        "the host runs ahead)"));
}

TEST_F(IdleCausesTest, AStreamThatIsAheadOfTheOneThatComputesMakesNoStepLonger) {
  for (int step = 0; step < 8; ++step) {
    reader_.Step(step, step * kMs, kMs);
    for (int i = 0; i < 4; ++i) {
      const int64_t call_ns = step * kMs + i * 100 * kUs;
      const int64_t start_ns = step * 4 * kMs + i * kMs + 50 * kUs;
      Operator("aten::mm", call_ns, call_ns + 50 * kUs);
      Kernel({call_ns + kUs, call_ns + 5 * kUs, start_ns, start_ns + kMs});
    }
    // Runs at once, while its step's kernels wait behind those of the steps before.
    ++correlation_;
    const int64_t copy_ns = step * kMs + 500 * kUs;
    reader_.ApiCall(main_, "cudaMemcpyAsync", copy_ns, copy_ns + 5 * kUs, correlation_)
        .Copy(copy_ns + 10 * kUs, copy_ns + 110 * kUs, correlation_,
              {.stream = 12,
               .bytes = 1 << 20,
               .copy_kind = 1,
               .source_kind = 2,
               .destination_kind = 3});
  }
  const FindingsReport report = Report();
  EXPECT_EQ(report.mean_step_ns, 4 * kMs);
  EXPECT_THAT(Fired(), Not(Contains("STEP_OUTLIER")));
}

}  // namespace
}  // namespace profd::report
