// What a finding advises fits the kind of program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AdviceTest : public FindingsFixture {
 protected:
  // Small kernels, each launched only after the one before it has ended.
  void LaunchBound(std::string_view op, const FakeGpu& gpu = {}) {
    Steps(5);
    for (int step = 0; step < 5; ++step) {
      Launch({.start_ns = step * kStepNs + 100 * kUs,
              .count = 400,
              .kernel_ns = 5 * kUs,
              .gap_ns = 15 * kUs,
              .lead_ns = 12 * kUs,
              .call_ns = 10 * kUs,
              .op = op,
              .gpu = gpu});
    }
  }
  // The GPU is idle for 3 ms after a call that waited for it.
  void Waiting(std::string_view op) {
    Steps(5);
    for (int step = 0; step < 5; ++step) {
      const int64_t at = step * kStepNs;
      Launch({.start_ns = at, .count = 69, .op = op});
      reader_.ApiCall(main_, "cudaStreamSynchronize", at + 100 * kUs, at + 9'900 * kUs, 0);
    }
  }
  void Trains(std::string_view update = "Optimizer.step#AdamW.step") {
    for (int step = 0; step < 5; ++step) {
      reader_.Range(main_, update, step * kStepNs + 9 * kMs, (step + 1) * kStepNs);
    }
  }
  // Short gaps between operators in 8 ms of each step, with or without the optimizer's step.
  void ShortGaps(std::string_view update, int64_t update_ns) {
    Steps(5);
    for (int step = 0; step < 5; ++step) {
      const int64_t begin = step * kStepNs;
      for (int64_t at = begin; at < begin + 8 * kMs; at += 50 * kUs) {
        reader_.Operator(main_, "aten::add_", at, at + 20 * kUs);
      }
      reader_.Range(main_, update, begin + 8 * kMs - update_ns, begin + 8 * kMs);
      reader_.Operator(main_, "aten::mm", begin + 8 * kMs, begin + kStepNs);
    }
  }
};

TEST_F(AdviceTest, TrainingIsToldOfOptimizers) {
  LaunchBound("aten::mm");
  Trains();
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice,
              AllOf(HasSubstr("torch.compile"), HasSubstr("optimizers")));
}

TEST_F(AdviceTest, NodesOfABackwardPassAreATraining) {
  LaunchBound("aten::mm");
  reader_.Range(main_, "SumBackward1", 4 * kMs, 4 * kMs + 50);
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice, HasSubstr("optimizers"));
}

TEST_F(AdviceTest, AFunctionOfTheProgramsOwnMayBeOneOfThem) {
  LaunchBound("aten::mm");
  reader_.Range(main_, "CompiledFunctionBackward", 4 * kMs, 4 * kMs + 50);
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice, HasSubstr("optimizers"));
}

TEST_F(AdviceTest, AnOptimizerThatIsFusedIsNotToBeFused) {
  LaunchBound("aten::mm");
  Trains();
  reader_.Range(main_, "aten::_fused_adamw_", 4 * kMs, 4 * kMs + 50);
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice,
              AllOf(HasSubstr("torch.compile"), Not(HasSubstr("optimizers"))));
}

TEST_F(AdviceTest, NoFusedOptimizerIsAdvisedWhereThereIsNone) {
  for (const std::string_view update : {"Optimizer.step#LBFGS.step", "Optimizer.step#Mine.step"}) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    reader_.mutable_record().start_unix_ns = 1;
    LaunchBound("aten::mm");
    Trains(update);
    EXPECT_THAT(Find("IDLE_HOST_WAIT").advice,
                AllOf(HasSubstr("torch.compile"), Not(HasSubstr("optimizers"))))
        << update;
  }
}

TEST_F(AdviceTest, AnOptimizerThatTakesNoTimeIsNotToBeFused) {
  LaunchBound("aten::mm");
  reader_.Range(main_, "Optimizer.step#AdamW.step", 9 * kMs, 9 * kMs + 100 * kUs);
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice, Not(HasSubstr("optimizers")));
}

TEST_F(AdviceTest, GapsInAnOptimizerAreClosedByOnesThatUpdateManyTensors) {
  ShortGaps("Optimizer.step#SGD.step", 4 * kMs);
  EXPECT_THAT(Find("HOST_BOUND").advice, HasSubstr("fused or foreach optimizers"));
}

TEST_F(AdviceTest, OfSomeThereAreNoFusedOnes) {
  ShortGaps("Optimizer.step#RMSprop.step", 4 * kMs);
  EXPECT_THAT(Find("HOST_BOUND").advice, HasSubstr("torch.compile, foreach optimizers"));
}

TEST_F(AdviceTest, GapsOutsideOptimizersAreNotClosedByThem) {
  ShortGaps("Optimizer.step#SGD.step", 100 * kUs);
  EXPECT_THAT(Find("HOST_BOUND").advice,
              AllOf(HasSubstr("torch.compile"), Not(HasSubstr("optimizers"))));
}

TEST_F(AdviceTest, GapsInAnOptimizerWithoutVariantsAreNotEither) {
  ShortGaps("Optimizer.step#LBFGS.step", 8 * kMs);
  EXPECT_THAT(Find("HOST_BOUND").advice, Not(HasSubstr("optimizers")));
}

// ---- data loaders ----

TEST_F(AdviceTest, ALoaderWithoutWorkersIsToGetSome) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Range(main_, kLoader, at, at + 8 * kMs)
        .Operator(main_, "aten::mm", at + 8 * kMs, at + kStepNs);
  }
  EXPECT_THAT(Find("INPUT_BOUND").advice, AllOf(HasSubstr("num_workers=0"), HasSubstr("pin_memory"),
                                                Not(HasSubstr("prefetch_factor"))));
  reader_.mutable_record().gpu.outcome = GpuOutcome::kNoCuda;
  EXPECT_THAT(Find("INPUT_BOUND").advice,
              AllOf(HasSubstr("num_workers=0"), Not(HasSubstr("pin_memory"))));
}

TEST_F(AdviceTest, PinnedMemoryIsForProgramsWithAGpu) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_
        .Range(main_, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at,
               at + 8 * kMs)
        .Operator(main_, "aten::mm", at + 8 * kMs, at + kStepNs);
  }
  EXPECT_THAT(Find("INPUT_BOUND").advice,
              AllOf(HasSubstr("prefetch_factor"), HasSubstr("pin_memory")));
  reader_.mutable_record().gpu.outcome = GpuOutcome::kNoCuda;
  EXPECT_THAT(Find("INPUT_BOUND").advice,
              AllOf(HasSubstr("prefetch_factor"), Not(HasSubstr("pin_memory"))));
}

// ---- Python's lock ----

class PythonLockTest : public AdviceTest {
 protected:
  // Ten steps with a gap of `gap_ns` in each, after one of two operators; then another thread ran
  // for `others` of the time.
  Finding GapsOf(int64_t gap_ns, double others, bool at_two_places = true) {
    Steps(10);
    for (int step = 0; step < 10; ++step) {
      const int64_t begin = step * kStepNs;
      const bool is_second = at_two_places && step % 2 == 1;
      reader_.Operator(main_, is_second ? "aten::relu" : "aten::linear", begin, begin + kMs)
          .Operator(main_, "aten::mm", begin + kMs + gap_ns, begin + kStepNs);
    }
    constexpr int64_t kWatchedNs = 100 * kMs;
    const auto others_ns = static_cast<int64_t>(others * static_cast<double>(kWatchedNs));
    reader_.mutable_record().cpu = {
        .watched_ns = kWatchedNs,
        .thread_count = 2,
        .ran_ns = kWatchedNs / 4 + others_ns,
        .threads = {{.os_thread = 77, .ran_ns = others_ns},
                    {.os_thread = reader_.threads()[main_].os_thread, .ran_ns = kWatchedNs / 4}}};
    return Find("HOST_BOUND");
  }
};

TEST_F(PythonLockTest, AThreadThatHoldsItIsTheCause) {
  const Finding finding = GapsOf(5'200 * kUs, 0.75);
  EXPECT_THAT(finding.measured, AllOf(HasSubstr("10 gaps at different places took 5 to 6 ms"),
                                      HasSubstr("GIL"), HasSubstr("75% of the time")));
  EXPECT_THAT(finding.advice, HasSubstr("to another process"));
  EXPECT_THAT(finding.advice, HasSubstr("Another thread does not help"));
}

// In the steps in which the other thread runs Python.
TEST_F(PythonLockTest, SlowStepsThatWaitForItSaySo) {
  Steps(10);
  for (int step = 0; step < 10; ++step) {
    reader_.Operator(main_, "aten::mm", step * kStepNs, (step + 1) * kStepNs);
  }
  reader_.Step(10, 10 * kStepNs, 8 * kStepNs);
  for (int i = 0; i < 12; ++i) {
    const int64_t at = 10 * kStepNs + i * 6'500 * kUs;
    reader_.Operator(main_, i % 2 == 0 ? "aten::linear" : "aten::relu", at, at + kMs);
  }
  constexpr int64_t kWatchedNs = 200 * kMs;
  reader_.mutable_record().cpu = {
      .watched_ns = kWatchedNs,
      .thread_count = 2,
      .ran_ns = kWatchedNs,
      .threads = {{.os_thread = reader_.threads()[main_].os_thread, .ran_ns = kWatchedNs / 3}}};
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_THAT(finding.measured, HasSubstr("GIL"));
  EXPECT_THAT(finding.advice,
              AllOf(HasSubstr("to another process"), Not(HasSubstr("Usual causes"))));
}

TEST_F(PythonLockTest, WhereNoOtherThreadRunsItIsNot) {
  EXPECT_THAT(GapsOf(5'200 * kUs, 0.1).measured, Not(HasSubstr("GIL")));
}

// One that waits for the lock sleeps.
TEST_F(PythonLockTest, AThreadThatWaitsForACpuWaitsForNoLock) {
  GapsOf(5'200 * kUs, 0.75);
  reader_.mutable_record().cpu.threads[1].waited_ns = 60 * kMs;
  EXPECT_THAT(Find("HOST_BOUND").measured, Not(HasSubstr("GIL")));
}

TEST_F(PythonLockTest, ASleepIsAtOnePlace) {
  EXPECT_THAT(GapsOf(5'200 * kUs, 0.75, false).measured, Not(HasSubstr("GIL")));
}

TEST_F(PythonLockTest, OtherGapsAreNotSuchWaits) {
  EXPECT_THAT(GapsOf(4 * kMs, 0.75).measured, Not(HasSubstr("GIL")));
}

TEST_F(AdviceTest, AServerIsToldOfBatchesInsteadOfOptimizers) {
  LaunchBound("aten::mm");
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice,
              AllOf(HasSubstr("several requests in one batch"), Not(HasSubstr("optimizer"))));
}

TEST_F(AdviceTest, AProgramWithoutPyTorchIsToldOfCudasFunctions) {
  LaunchBound("");
  for (const std::string_view name : {"LayerBackward", "LayerBackward12"}) {
    reader_.Range(main_, name, 4 * kMs, 4 * kMs + 50);
  }
  for (const std::string_view rule : {"IDLE_HOST_WAIT", "SMALL_KERNELS", "CUDA_GRAPH"}) {
    EXPECT_THAT(Find(rule).advice,
                AllOf(HasSubstr("cudaStreamBeginCapture"), Not(HasSubstr("torch"))))
        << rule;
  }
}

// One kernel a step, and 9 ms between them.
TEST_F(AdviceTest, WhereFewLaunchesComeLateTheHostDoesSomethingElse) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    Launch({.start_ns = (step + 1) * kStepNs - kMs, .kernel_ns = kMs, .op = ""});
  }
  const Finding finding = Find("IDLE_HOST_WAIT");
  EXPECT_EQ(finding.title, "The host does something else before it launches");
  EXPECT_THAT(finding.measured, HasSubstr("before launches, which number 1 in each step"));
  EXPECT_THAT(finding.advice,
              AllOf(HasSubstr("between its launches"), Not(HasSubstr("Launch fewer"))));
}

TEST_F(AdviceTest, KernelsOfPyTorchWithoutOperatorsAreATraining) {
  LaunchBound("");
  reader_.Kernel(kElementwise, 4 * kMs, 4 * kMs + 10, 900'000);
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice, HasSubstr("torch.compile"));
}

TEST_F(AdviceTest, AProgramThatReplaysGraphsIsNotToldToUseThem) {
  LaunchBound("aten::mm", {.graph_id = 3, .grid = {132 * 64, 1, 1}, .block = {256, 1, 1}});
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice, HasSubstr("replays CUDA graphs already"));
}

TEST_F(AdviceTest, ACompiledProgramIsNotToldToCompile) {
  LaunchBound("aten::mm");
  Trains();
  reader_.Range(main_, "Torch-Compiled Region: 0/0", 3 * kMs, 3 * kMs + 100);
  EXPECT_THAT(Find("IDLE_HOST_WAIT").advice, HasSubstr("compiled already"));
}

TEST_F(AdviceTest, OnlyPyTorchHasItem) {
  Waiting("aten::mm");
  Trains();
  EXPECT_THAT(Find("SYNC_API").advice, HasSubstr(".item()"));
  reader_ = FakeCaptureReader();
  reader_.StepThread(reader_.AddThread(1, "main"));
  reader_.mutable_record().start_unix_ns = 1;
  Waiting("");
  EXPECT_THAT(Find("SYNC_API").advice,
              AllOf(HasSubstr("cudaStreamSynchronize()"), Not(HasSubstr(".item()"))));
}

}  // namespace
}  // namespace profd::report
