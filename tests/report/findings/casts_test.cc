// Conversions between types are found where they take a real part of the step, and only there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class CastsTest : public FindingsFixture {
 protected:
  static constexpr int64_t kEachNs = 100 * kUs;
  static constexpr int kSteps = 5;
  static constexpr int kAll = 1000;

  // Full steps of kernels in aten::linear, of which the first `casts` convert its inputs. Those of
  // the first `unknown` steps were launched before the window.
  void CastsOnTheGpu(int casts, int unknown = 0) {
    Steps(kSteps);
    for (int64_t at = 0; at < unknown * kStepNs; at += kEachNs) {
      reader_.Kernel(kElementwise, at, at + kEachNs, 900'000);
    }
    for (int step = unknown; step < kSteps; ++step) {
      for (int i = 0; i < kStepNs / kEachNs; ++i) {
        const int64_t start_ns = step * kStepNs + i * kEachNs;
        const int64_t call_ns = start_ns - 200 * kUs;
        reader_.Range(main_, "aten::linear", call_ns - 900, call_ns + 9'000);
        if (i < casts) {
          reader_.Range(main_, "aten::to", call_ns - 800, call_ns + 8'000)
              .Range(main_, "aten::_to_copy", call_ns - 700, call_ns + 7'000);
        }
        Launch({.start_ns = start_ns,
                .count = 1,
                .kernel_ns = kEachNs,
                .kernel = i < casts ? kElementwise : kTensorKernel,
                .op = i < casts ? "aten::copy_" : "aten::mm"});
      }
    }
  }
  // Full steps of kernels in a layer, which converts a tensor of these sizes in 30 of 100 calls.
  void CastsInALayer(std::string_view converted,
                     std::string_view layer = "[[64,1024],[512,1024],[512]]") {
    Steps(kSteps);
    const uint32_t of_layer = reader_.Inputs(layer, R"(["float","float","float"])");
    const uint32_t of_cast = reader_.Inputs(converted, R"(["float"])");
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < kStepNs / kEachNs; ++i) {
        const int64_t start_ns = step * kStepNs + i * kEachNs;
        const int64_t call_ns = start_ns - 200 * kUs;
        reader_.Operator(main_, "aten::linear", call_ns - 900, call_ns + 9'000,
                         {.inputs = of_layer});
        if (i < 30) {
          reader_.Operator(main_, "aten::_to_copy", call_ns - 700, call_ns + 7'000,
                           {.inputs = of_cast});
        }
        Launch({.start_ns = start_ns,
                .count = 1,
                .kernel_ns = kEachNs,
                .kernel = i < 30 ? kElementwise : kTensorKernel,
                .op = i < 30 ? "aten::copy_" : "aten::mm"});
      }
    }
  }
  // Steps of kernels, of which 30 are in conversions that `around` asks for.
  void CastsAskedForBy(std::string_view around) {
    Steps(kSteps);
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < kStepNs / kEachNs; ++i) {
        const int64_t start_ns = step * kStepNs + i * kEachNs;
        const int64_t call_ns = start_ns - 200 * kUs;
        if (i < 30) {
          reader_.Range(main_, around, call_ns - 900, call_ns + 9'000)
              .Range(main_, "aten::type_as", call_ns - 850, call_ns + 8'500)
              .Range(main_, "aten::to", call_ns - 800, call_ns + 8'000)
              .Range(main_, "aten::_to_copy", call_ns - 700, call_ns + 7'000);
        }
        Launch({.start_ns = start_ns,
                .count = 1,
                .kernel_ns = kEachNs,
                .kernel = i < 30 ? kElementwise : kTensorKernel,
                .op = i < 30 ? "aten::copy_" : "aten::mm"});
      }
    }
  }
  // Steps without a GPU: `casts` conversions in aten::linear, each 500 us.
  // All but the first `sized` are of single numbers; they are of these sizes, if those are given.
  void CastsOnTheCpu(int casts, std::string_view sizes = "", int sized = kAll) {
    Steps(kSteps);
    reader_.mutable_record().gpu.outcome = GpuOutcome::kNoCuda;
    reader_.mutable_record().gpu.devices.clear();
    const uint32_t of_number = reader_.Inputs("[[]]", R"(["float"])");
    const uint32_t of_tensor = sizes.empty() ? 0 : reader_.Inputs(sizes, R"(["float"])");
    for (int step = 0; step < kSteps; ++step) {
      const int64_t at = step * kStepNs;
      reader_.Operator(main_, "aten::linear", at, at + kStepNs);
      for (int i = 0; i < casts; ++i) {
        const int64_t start_ns = at + kMs + i * 600 * kUs;
        reader_.Operator(main_, "aten::to", start_ns, start_ns + 510 * kUs)
            .Operator(main_, "aten::_to_copy", start_ns + 5 * kUs, start_ns + 505 * kUs,
                      {.inputs = i < sized ? of_tensor : of_number})
            .Operator(main_, "aten::copy_", start_ns + 10 * kUs, start_ns + 500 * kUs);
      }
    }
  }
};

TEST_F(CastsTest, TheirKernelsAreFoundWithWhoNeedsThem) {
  CastsOnTheGpu(30);
  const Finding finding = Find("CASTS");
  EXPECT_NEAR(finding.value, 0.3, 0.001);
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 0.3 * kStepNs, 0.005 * kStepNs);
  EXPECT_THAT(finding.measured, HasSubstr("30 times"));
  ASSERT_EQ(finding.evidence.size(), 1u);
  EXPECT_EQ(finding.evidence[0].name, "aten::linear");
  EXPECT_EQ(finding.evidence[0].count, 30 * kSteps);
}

TEST_F(CastsTest, InTrainingUnderAutocastItsCacheIsNotTheRemedy) {
  CastsOnTheGpu(30);
  reader_.Range(main_, "Optimizer.step#SGD.step", 5 * kStepNs - 10 * kUs, 5 * kStepNs - kUs);
  const Finding finding = Find("CASTS");
  EXPECT_THAT(finding.measured, HasSubstr("100% is in operators (autocast does this)"));
  EXPECT_THAT(finding.advice, HasSubstr("cache of autocast is on by default"));
  EXPECT_THAT(finding.advice, Not(HasSubstr("model.to(")));
}

TEST_F(CastsTest, WeightsOfInferenceAreToBeHeldInTheLowerType) {
  CastsOnTheGpu(30);
  EXPECT_THAT(Find("CASTS").advice, HasSubstr("model.to(torch.bfloat16)"));
  EXPECT_THAT(Find("CASTS").advice, Not(HasSubstr("cache")));
}

TEST_F(CastsTest, RecordedSizesTellWeightsFromInputs) {
  CastsInALayer("[[512,1024]]");
  EXPECT_THAT(
      Find("CASTS").measured,
      HasSubstr(
          "100% of the time of all conversions is of weights of layers or their gradients, 0% of "
          "inputs of layers or their gradients, 0% may be of either, and 0% is of other tensors or "
          "unknown"));
  EXPECT_THAT(Find("CASTS").advice, HasSubstr("model.to(torch.bfloat16)"));
}

TEST_F(CastsTest, OfConvertedInputsTheWeightsAreNotToBlame) {
  CastsInALayer("[[64,1024]]");
  EXPECT_THAT(Find("CASTS").measured,
              HasSubstr("of weights of layers or their gradients, 100% of inputs"));
  EXPECT_THAT(Find("CASTS").advice, Not(HasSubstr("model.to(torch.bfloat16)")));
  EXPECT_THAT(Find("CASTS").advice, HasSubstr("The products convert their inputs"));
}

TEST_F(CastsTest, ASizeThatInputsAndWeightsShareTellsNothing) {
  CastsInALayer("[[64,64]]", "[[64,64],[64,64],[]]");
  EXPECT_THAT(Find("CASTS").measured, HasSubstr("100% may be of either, and 0% is of other"));
}

TEST_F(CastsTest, ASizeThatNoLayerHasIsOfAnotherTensor) {
  CastsInALayer("[[7,7]]");
  EXPECT_THAT(Find("CASTS").measured, HasSubstr("0% may be of either, and 100% is of other"));
}

TEST_F(CastsTest, WithoutALayerSizesDoNotTellWhatIsConverted) {
  CastsInALayer("[[64,1024]]", "");
  EXPECT_THAT(Find("CASTS").measured, HasSubstr("there is no layer (linear, convolution)"));
}

TEST_F(CastsTest, WithoutSizesItIsUnknownWhatIsConverted) {
  CastsOnTheGpu(30);
  EXPECT_THAT(Find("CASTS").measured,
              HasSubstr("Whether weights or inputs are converted is unknown"));
}

TEST_F(CastsTest, ConversionsThatTheProgramAsksForAreToBeMadeOnce) {
  CastsAskedForBy("my_loss");
  const Finding finding = Find("CASTS");
  EXPECT_EQ(finding.evidence.at(0).name, "my_loss");
  EXPECT_THAT(finding.measured, Not(HasSubstr("autocast")));
  EXPECT_THAT(finding.advice, HasSubstr("look at the .to(), .float(), .half(), and .type_as()"));
}

TEST_F(CastsTest, NodesOfTheBackwardPassAreKnownByTheirNames) {
  for (const std::string_view node : {"SumBackward1", "MulBackward10", "CompiledFunctionBackward",
                                      "torch::autograd::CopyBackwards"}) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    reader_.mutable_record().start_unix_ns = 1;
    CastsAskedForBy(node);
    EXPECT_THAT(Find("CASTS").measured, HasSubstr("100% is in the backward pass")) << node;
  }
}

TEST_F(CastsTest, KernelsLaunchedBeforeTheWindowAreLikeTheOthers) {
  CastsOnTheGpu(30, 1);
  const Finding finding = Find("CASTS");
  EXPECT_NEAR(finding.value, 0.3, 0.001);
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 0.3 * kStepNs, 0.005 * kStepNs);
}

TEST_F(CastsTest, IfMostKernelsAreNotKnownOnlyThoseThatAreCount) {
  CastsOnTheGpu(30, 3);
  EXPECT_NEAR(Find("CASTS").value, 0.12, 0.001);
}

TEST_F(CastsTest, AFewAreWhatAutocastNeeds) {
  CastsOnTheGpu(8);
  EXPECT_THAT(Fired(), Not(Contains("CASTS")));
}

TEST_F(CastsTest, OneThatTakesLongIsNoStorm) {
  CastsOnTheCpu(3);
  EXPECT_THAT(Fired(), Not(Contains("CASTS")));
}

TEST_F(CastsTest, WithoutAGpuTheirOperatorsCount) {
  CastsOnTheCpu(10);
  const Finding finding = Find("CASTS");
  EXPECT_NEAR(finding.value, 0.5, 0.001);
  EXPECT_EQ(finding.saving_ns_per_step, 5 * kMs);
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
  ASSERT_EQ(finding.evidence.size(), 1u);
  EXPECT_EQ(finding.evidence[0].name, "aten::linear");
  EXPECT_EQ(finding.evidence[0].count, 10 * kSteps);
}

// A batch is converted when it arrives; Adam converts its counters of steps.
TEST_F(CastsTest, SingleNumbersMakeNoStormOfOneConversion) {
  CastsOnTheCpu(10, "[[32,3,192,192]]", 1);
  EXPECT_THAT(Fired(), Not(Contains("CASTS")));
  reader_ = FakeCaptureReader();
  reader_.StepThread(reader_.AddThread(1, "main"));
  CastsOnTheCpu(10, "[[32,3,192,192]]", 6);
  const Finding finding = Find("CASTS");
  EXPECT_THAT(finding.measured, HasSubstr("converts tensors 6 times"));
  EXPECT_THAT(finding.measured, HasSubstr("single numbers (40% of the time of all) are left out"));
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
}

// Pages of a memory-mapped file come from the disk in aten::_to_copy.
TEST_F(CastsTest, OnesThatTakeFarLongerThanTheirSizesNeedWaitForSomething) {
  CastsOnTheCpu(10, "[[64]]");
  EXPECT_EQ(Find("CASTS").confidence, Confidence::kLow);
  EXPECT_THAT(Find("CASTS").confidence_reason, HasSubstr("memory-mapped file"));
}

TEST_F(CastsTest, CopiesToADeviceAreNoConversions) {
  Healthy(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < 8; ++i) {
      const int64_t at = step * kStepNs + i * kMs;
      reader_.Range(main_, "aten::_to_copy", at + 85 * kUs, at + 98 * kUs);
      Copy({.start_ns = at + 100 * kUs, .duration_ns = 500 * kUs, .bytes = 1 << 20});
    }
  }
  EXPECT_THAT(Fired(), Not(Contains("CASTS")));
}

TEST_F(CastsTest, WithoutGpuRecordsAProgramMayCopyToADevice) {
  CastsOnTheCpu(10);
  reader_.mutable_record().gpu.outcome = GpuOutcome::kOff;
  EXPECT_THAT(NeedsOf("CASTS"), HasSubstr("kernels"));
}

TEST_F(CastsTest, OtherCopiesAreNone) {
  Steps(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    Launch({.start_ns = step * kStepNs, .count = 50, .op = "aten::copy_"});
    Launch({.start_ns = step * kStepNs + 5 * kMs, .count = 50});
  }
  EXPECT_THAT(Fired(), Not(Contains("CASTS")));
}

// Operators with Python numbers make them; autocast does not.
TEST_F(CastsTest, ConversionsOfSingleNumbersAreNotCounted) {
  CastsInALayer("[[]]");
  EXPECT_THAT(Fired(), Not(Contains("CASTS")));
}

}  // namespace
}  // namespace profd::report
