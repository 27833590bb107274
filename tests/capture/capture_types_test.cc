// The names of what one can ask of PyTorch, and what does not go together.
#include "daemon/capture/capture_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

CaptureSpec FiveSteps() { return {.steps = 5}; }

TEST(CaptureTypesTest, NamesGoThereAndBack) {
  for (const OperatorMode mode :
       {OperatorMode::kAuto, OperatorMode::kOff, OperatorMode::kNames, OperatorMode::kShapes}) {
    EXPECT_EQ(OperatorModeFromString(ToString(mode)), mode);
  }
  for (const StepSource source :
       {StepSource::kNone, StepSource::kMarks, StepSource::kOptimizer, StepSource::kProfiler,
        StepSource::kDataLoader, StepSource::kPeriodicity}) {
    EXPECT_EQ(StepSourceFromString(ToString(source)), source);
  }
  EXPECT_EQ(OperatorModeFromString("SHAPES"), std::nullopt);
  EXPECT_EQ(StepSourceFromString(""), std::nullopt);
  EXPECT_EQ(ToString(TorchOutcome::kNoTorch), "no_torch");
  EXPECT_EQ(ToString(TorchOutcome::kLimited), "limited");
}

TEST(CaptureTypesTest, NothingOfTorchIsWantedOnlyWhereAllIsOff) {
  EXPECT_TRUE(WantsTorch({}));
  EXPECT_FALSE(WantsTorch({.operators = OperatorMode::kOff}));
  EXPECT_TRUE(WantsTorch({.operators = OperatorMode::kOff, .memory = true}));
  EXPECT_TRUE(WantsTorch({.operators = OperatorMode::kOff, .step_source = StepSource::kMarks}));
}

TEST(CaptureTypesTest, StridesNeedShapes) {
  CaptureSpec spec = FiveSteps();
  spec.torch.strides = true;
  EXPECT_THAT(ValidateSpec(spec), IsOk());
  spec.torch.operators = OperatorMode::kShapes;
  EXPECT_THAT(ValidateSpec(spec), IsOk());
  for (const OperatorMode mode : {OperatorMode::kNames, OperatorMode::kOff}) {
    spec.torch.operators = mode;
    EXPECT_THAT(ValidateSpec(spec),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("torch.strides")));
  }
}

TEST(CaptureTypesTest, ASourceOfStepsGoesWithStepsThatNothingElseNames) {
  CaptureSpec spec = FiveSteps();
  spec.torch.step_source = StepSource::kOptimizer;
  EXPECT_THAT(ValidateSpec(spec), IsOk());
  EXPECT_TRUE(CountsOwnSteps(spec));

  const auto refused = StatusIs(StatusCode::kInvalidArgument, HasSubstr("torch.step_source"));
  CaptureSpec from_a_step = spec;
  from_a_step.start_step = 100;
  EXPECT_THAT(ValidateSpec(from_a_step), refused);
  CaptureSpec with_marker = spec;
  with_marker.step_marker = "train";
  EXPECT_THAT(ValidateSpec(with_marker), refused);
  CaptureSpec by_time = spec;
  by_time.steps = 0;
  by_time.duration = absl::Seconds(2);
  EXPECT_THAT(ValidateSpec(by_time), refused);
}

TEST(CaptureTypesTest, AMarkersStepsAreTheCapturesOwn) {
  CaptureSpec spec = FiveSteps();
  EXPECT_FALSE(CountsOwnSteps(spec));
  spec.step_marker = "train";
  EXPECT_TRUE(CountsOwnSteps(spec));
}

}  // namespace
}  // namespace profd
