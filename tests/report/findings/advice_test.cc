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
  void Trains() { reader_.Range(main_, "Optimizer.step#AdamW.step", 4 * kMs, 4 * kMs + 100); }
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
