// Why a step is slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "daemon/report/findings/outliers.h"
#include "proto/wire/event.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class FindingOutliersTest : public FindingsFixture {
 protected:
  // Steps one after the other, each with an operator of all but its last 2 ms.
  void StepsOf(std::initializer_list<int64_t> durations_ms) {
    int64_t at = 0;
    int64_t step = 0;
    for (const int64_t ms : durations_ms) {
      reader_.Step(step++, at, ms * kMs);
      reader_.Range(main_, "aten::forward", at, at + (ms - 2) * kMs);
      at += ms * kMs;
    }
  }
};

TEST_F(FindingOutliersTest, AStepThatIsFarSlowerThanTheOthersIsFound) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t duration_ns = step == 6 ? 30 * kMs : kStepNs + step * kUs;
    reader_.Step(step, at, duration_ns);
    Launch({.start_ns = at, .count = static_cast<int>(duration_ns / (100 * kUs))});
    at += duration_ns;
  }
  const Finding finding = Find("STEP_OUTLIER");
  ASSERT_GE(finding.evidence.size(), 2u);
  EXPECT_EQ(finding.evidence[0].step, 6);
  EXPECT_EQ(finding.evidence[1].step, 6);
  EXPECT_THAT(finding.measured, HasSubstr("computing on the GPU (+"));
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 2e6, 1e4);
}

// Requests of a server, tasks of one thread: eight begin together, then none for 20 ms.
TEST_F(FindingOutliersTest, GapsBetweenBeginsOfOverlappingMarkersAreNoSlowSteps) {
  reader_.mutable_record().spec.step_marker = "request";
  reader_.StepThread(main_);
  int64_t step = 0;
  for (int64_t round = 0; round < 4; ++round) {
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t start_ns = round * 20 * kMs + i * 10 * kUs;
      reader_.Step(step++, start_ns, i == 7 ? 20 * kMs - 70 * kUs : 10 * kUs);
      const uint32_t lane = reader_.AddThread((1 << 30) | step, "overlapping ranges of 1");
      reader_.Range(lane, "request", start_ns, start_ns + 18 * kMs);
    }
  }
  EXPECT_THAT(Report().verdict,
              HasSubstr("up to 8 ranges of --step-marker are open at once, so that a step is the "
                        "time from the start of one to the start of the next"));
  for (const Finding& finding : Report().findings) EXPECT_NE(finding.rule, "STEP_OUTLIER");
}

// Steps are the ranges of one thread, the outermost ones.
TEST_F(FindingOutliersTest, MarkersOfOtherThreadsAndWithinMarkersDoNotOverlap) {
  reader_.mutable_record().spec.step_marker = "step";
  reader_.StepThread(main_);
  const uint32_t worker = reader_.AddThread(200, "worker");
  for (int64_t step = 0; step < 10; ++step) {
    const int64_t start_ns = step * 10 * kMs;
    reader_.Step(step, start_ns, 10 * kMs);
    reader_.Range(main_, "step", start_ns + 2 * kMs, start_ns + 3 * kMs);
    reader_.Range(main_, "step", start_ns, start_ns + 9 * kMs);
    reader_.Range(worker, "step", start_ns, start_ns + 9 * kMs);
  }
  EXPECT_THAT(Report().verdict, Not(HasSubstr("--step-marker")));
}

TEST_F(FindingOutliersTest, AnOutlierSaysWhatItHasMoreOfThanItsNeighbors) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t extra_ns = step == 6 ? 20 * kMs : 0;
    reader_.Step(step, at, kStepNs + extra_ns);
    reader_.Range(main_, "forward", at, at + 8 * kMs);
    if (step == 6) reader_.Range(main_, "save_checkpoint", at + 8 * kMs, at + 23 * kMs);
    at += kStepNs + extra_ns;
  }
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_THAT(finding.measured,
              HasSubstr("Step 6 took 30 ms; its neighbors took 10 ms. It has more of: "
                        "save_checkpoint (+15 ms), host time outside ranges (+5 ms)."));
  ASSERT_EQ(finding.evidence.size(), 3u);
  EXPECT_EQ(finding.evidence[1].name, "save_checkpoint");
  EXPECT_THAT(finding.evidence[1].detail, HasSubstr("1 calls instead of 0"));
}

TEST_F(FindingOutliersTest, AnOutlierHasTheNumbersOfItsFramework) {
  reader_.mutable_record().torch.step_source = StepSource::kOptimizer;
  int64_t at = 0;
  for (int step = 40; step < 50; ++step) {
    const int64_t duration_ns = step == 46 ? 3 * kStepNs : kStepNs;
    reader_.Step(step, at, duration_ns);
    reader_.Range(main_, "forward", at, at + duration_ns - kMs);
    at += duration_ns;
  }
  constexpr auto kStepLabel = static_cast<uint16_t>(wire::NoteKind::kStepLabel);
  reader_.Note(main_, kNoNoteTime, kStepLabel, "global_step", "step 50", 21'050)
      .Note(main_, kNoNoteTime, kStepLabel, "epoch", "step 50", 3);
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_THAT(finding.measured,
              HasSubstr("Step 46 (global step 21046, epoch 3 at step 50) took 30 ms;"));
  EXPECT_EQ(finding.evidence.at(0).name, "step 46 (global step 21046)");
  EXPECT_EQ(finding.evidence.at(0).step, 46);
}

TEST_F(FindingOutliersTest, HostTimeOutsideOperatorsNamesItsPlace) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t extra_ns = step == 6 ? 20 * kMs : 0;
    reader_.Step(step, at, kStepNs + extra_ns);
    reader_.Range(main_, "forward", at, at + 5 * kMs);
    reader_.Range(main_, "backward", at + 5 * kMs + extra_ns, at + kStepNs + extra_ns);
    at += kStepNs + extra_ns;
  }
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_THAT(finding.measured, HasSubstr("more of: host time outside ranges (+20 ms)."));
  ASSERT_EQ(finding.evidence.size(), 2u);
  EXPECT_EQ(finding.evidence[1].detail,
            "more than in neighboring steps; 20 ms between forward and backward");
  EXPECT_THAT(Fired(), Not(Contains("HOST_BOUND")));  // In the other steps there is none.
}

// Steps of Python, one of which has more of the same.
TEST_F(FindingOutliersTest, VaryingHostTimeOfHostBoundStepsIsNoOutlier) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t python_ns = step == 6 ? 17 * kMs : 9 * kMs;
    reader_.Step(step, at, kMs + python_ns);
    reader_.Range(main_, "forward", at, at + kMs);
    at += kMs + python_ns;
  }
  EXPECT_THAT(Fired(), ElementsAre("HOST_BOUND"));
}

TEST_F(FindingOutliersTest, ACheckpointInAHostBoundLoopIsAnOutlier) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t python_ns = step == 6 ? 90 * kMs : 9 * kMs;
    reader_.Step(step, at, kMs + python_ns);
    reader_.Range(main_, "forward", at, at + kMs);
    at += kMs + python_ns;
  }
  EXPECT_THAT(Fired(), UnorderedElementsAre("HOST_BOUND", "STEP_OUTLIER"));
  EXPECT_NEAR(static_cast<double>(Find("HOST_BOUND").saving_ns_per_step), 9e6, 1e3);
  EXPECT_THAT(Find("HOST_BOUND").measured,
              HasSubstr("for 9 ms (90%) of each step that is not an outlier (9 of 10 steps)"));
}

TEST_F(FindingOutliersTest, AnOutlierThatNothingExplainsSaysSo) {
  for (int step = 0; step < 10; ++step) {
    reader_.Step(step, step * 100 * kMs, step == 6 ? 2 * kStepNs : kStepNs);
  }
  EXPECT_THAT(Find("STEP_OUTLIER").measured, HasSubstr("Nothing that was recorded explains"));
}

TEST_F(FindingOutliersTest, AStepThatTheStepsNextToItMakeUpForIsNoOutlier) {
  StepsOf({10, 10, 10, 10, 16, 4, 10, 10, 10, 10});
  EXPECT_THAT(Fired(), Not(Contains("STEP_OUTLIER")));
}

TEST_F(FindingOutliersTest, ADrainedQueueThatSeveralStepsRefillIsNotPartOfTheOutlier) {
  StepsOf({10, 10, 10, 10, 74, 2, 2, 2, 10, 10, 10});
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_DOUBLE_EQ(finding.value, 50e6);
  EXPECT_EQ(finding.saving_ns_per_step, 40 * kMs / 11);
}

TEST_F(FindingOutliersTest, TheSameCallsThatTakeLongerAreWeakEvidence) {
  StepsOf({10, 10, 10, 10, 30, 10, 10, 30, 10, 10});
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("the same calls as its neighbors"));
}

TEST_F(FindingOutliersTest, MoreCallsAreStrongEvidence) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t length_ns = step == 4 || step == 7 ? 30 * kMs : kStepNs;
    reader_.Step(step, at, length_ns);
    for (int64_t call = 0; call < length_ns / (10 * kMs); ++call) {
      const int64_t start_ns = at + call * 10 * kMs;
      reader_.Range(main_, "aten::mm", start_ns, start_ns + 9 * kMs);
    }
    at += length_ns;
  }
  EXPECT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kHigh);
}

// As in a GAN, whose generator is updated once for five updates of its critic.
TEST_F(FindingOutliersTest, UpdatesThatSomeStepsMakeInAdditionAreNoSaving) {
  int64_t at = 0;
  for (int step = 0; step < 12; ++step) {
    const int updates = step % 5 == 4 ? 2 : 1;
    reader_.Step(step, at, updates * kStepNs);
    for (int update = 0; update < updates; ++update) {
      reader_.Range(main_, "aten::mm", at, at + 9 * kMs);
      reader_.Range(main_, "Optimizer.step#RMSprop.step", at + 9 * kMs, at + kStepNs);
      at += kStepNs;
    }
  }
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("runs an optimizer more often"));
  EXPECT_EQ(finding.saving_ns_per_step, 0);
  EXPECT_THAT(Report().verdict, Not(HasSubstr("STEP_OUTLIER")));
}

// A GAN whose generator is updated in every fifth step, for 10 ms. The last of these steps, which
// is the slowest, also has `evaluation_ns` of operators, with gradients or without.
class EvaluationInAnUpdateTest : public FindingOutliersTest {
 protected:
  void Run(int64_t evaluation_ns, bool has_gradients, bool has_sequences = true) {
    int64_t at = 0;
    int64_t sequence = has_sequences ? 0 : -1;
    const auto update = [&](std::string_view optimizer) {
      reader_.Operator(main_, "aten::linear", at, at + 4 * kMs,
                       {.sequence = has_sequences ? sequence++ : -1});
      reader_.Operator(main_, "aten::addmm", at + kMs, at + 2 * kMs);
      reader_.Operator(main_, "AddmmBackward0", at + 4 * kMs, at + 9 * kMs, {.scope = 1});
      reader_.Range(main_, optimizer, at + 9 * kMs, at + kStepNs);
      reader_.Operator(main_, "aten::linear", at + 9 * kMs, at + 9 * kMs + kUs);
      at += kStepNs;
    };
    for (int step = 0; step < 12; ++step) {
      const bool is_update = step % 5 == 4;
      const int64_t more_ns = step == 9 ? evaluation_ns : 0;
      reader_.Step(step, at, (is_update ? 2 : 1) * kStepNs + more_ns);
      update("Optimizer.step#Adam.step");
      if (is_update) update("Optimizer.step#RMSprop.step");
      for (const int64_t end = at + more_ns; at < end; at += kMs) {
        reader_.Operator(main_, "aten::randn", at, at + 10 * kUs);
        reader_.Operator(main_, "aten::linear", at + 10 * kUs, at + kMs,
                         {.sequence = has_gradients ? sequence++ : -1});
      }
    }
  }
};

TEST_F(EvaluationInAnUpdateTest, IsNotExcusedAsThatUpdate) {
  Run(30 * kMs, /*has_gradients=*/false);
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_GT(finding.saving_ns_per_step, 2 * kMs);
  EXPECT_THAT(finding.confidence_reason, Not(HasSubstr("optimizer")));
  EXPECT_THAT(finding.measured, HasSubstr("operators without gradients for 29.7 ms longer"));
  EXPECT_THAT(finding.advice, HasSubstr("as evaluations, sampling"));
}

TEST_F(EvaluationInAnUpdateTest, IsExcusedWhereTheUpdateTakesMostOfTheTime) {
  Run(8 * kMs, /*has_gradients=*/false);
  EXPECT_EQ(Find("STEP_OUTLIER").saving_ns_per_step, 0);
  EXPECT_THAT(Find("STEP_OUTLIER").confidence_reason, HasSubstr("runs an optimizer more often"));
}

TEST_F(EvaluationInAnUpdateTest, MoreForwardPassesWithGradientsArePartOfTheUpdate) {
  Run(30 * kMs, /*has_gradients=*/true);
  EXPECT_EQ(Find("STEP_OUTLIER").saving_ns_per_step, 0);
  EXPECT_THAT(Find("STEP_OUTLIER").advice, Not(HasSubstr("evaluation")));
}

TEST_F(EvaluationInAnUpdateTest, IsNotKnownWithoutSequenceNumbers) {
  Run(30 * kMs, /*has_gradients=*/false, /*has_sequences=*/false);
  EXPECT_EQ(Find("STEP_OUTLIER").saving_ns_per_step, 0);
}

TEST_F(FindingOutliersTest, TheAdviceNamesWhatTheSlowestStepHasMoreOf) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const int64_t extra_ns = step == 6 ? 20 * kMs : 0;
    reader_.Step(step, at, kStepNs + extra_ns);
    reader_.Range(main_, "forward", at, at + 5 * kMs);
    reader_.Range(main_, "backward", at + 5 * kMs + extra_ns, at + kStepNs + extra_ns);
    at += kStepNs + extra_ns;
  }
  EXPECT_THAT(
      Find("STEP_OUTLIER").advice,
      HasSubstr("more of: host time outside ranges (+20 ms in step 6; 20 ms between forward "
                "and backward)."));
}

// A checkpoint in a step that also has the second optimizer's update.
TEST_F(FindingOutliersTest, AnUpdateDoesNotExcuseAnotherCause) {
  int64_t at = 0;
  for (int step = 0; step < 10; ++step) {
    const bool is_slow = step == 6;
    const int64_t length_ns = is_slow ? 60 * kMs : kStepNs;
    reader_.Step(step, at, length_ns);
    reader_.Range(main_, "aten::mm", at, at + 9 * kMs);
    reader_.Range(main_, "Optimizer.step#Adam.step", at + 9 * kMs, at + kStepNs);
    if (is_slow) reader_.Range(main_, "Optimizer.step#SGD.step", at + 59 * kMs, at + 60 * kMs);
    at += length_ns;
  }
  EXPECT_GT(Find("STEP_OUTLIER").saving_ns_per_step, 4 * kMs);
}

// An evaluation in a step that ends the accumulation of gradients.
TEST_F(FindingOutliersTest, AnUpdateDoesNotExcuseMoreCallsOfOthers) {
  int64_t at = 0;
  for (int step = 0; step < 12; ++step) {
    const bool is_slow = step == 7;
    const int64_t length_ns = is_slow ? 80 * kMs : kStepNs;
    reader_.Step(step, at, length_ns);
    reader_.Range(main_, "aten::mm", at, at + 8 * kMs);
    reader_.Range(main_, "MmBackward0", at + 8 * kMs, at + 9 * kMs);
    if (is_slow) {
      reader_.Range(main_, "Optimizer.step#Adam.step", at + 9 * kMs, at + kStepNs);
      for (int64_t ms = 10; ms < 80; ms += 7) {
        reader_.Range(main_, "aten::mm", at + ms * kMs, at + (ms + 7) * kMs);
      }
    }
    at += length_ns;
  }
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_GT(finding.saving_ns_per_step, 4 * kMs);
  EXPECT_THAT(finding.confidence_reason, Not(HasSubstr("optimizer")));
}

TEST_F(FindingOutliersTest, OneSlowStepOfFewMayBeChance) {
  StepsOf({10, 10, 14, 10, 10});
  EXPECT_THAT(Find("STEP_OUTLIER").confidence, Confidence::kLow);
}

TEST_F(FindingOutliersTest, OneStepThatCostsLittleMayBeChance) {
  int64_t at = 0;
  for (int step = 0; step < 20; ++step) {
    const int64_t length_ns = step == 6 ? 16 * kMs : kStepNs;
    reader_.Step(step, at, length_ns);
    at += length_ns;
  }
  const Finding finding = Find("STEP_OUTLIER");
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("one slow step of 20 may be chance"));
}

TEST_F(FindingOutliersTest, SlowStepsAtEqualDistancesHaveARhythm) {
  StepsOf({10, 10, 10, 40, 10, 10, 10, 40, 10, 10, 10, 40, 10, 10});
  EXPECT_THAT(Find("STEP_OUTLIER").measured, HasSubstr("They come every 4 steps."));
}

TEST_F(FindingOutliersTest, SlowStepsAtOtherDistancesHaveNone) {
  StepsOf({10, 10, 40, 10, 10, 10, 40, 10, 10, 40, 10, 10, 10, 10});
  EXPECT_THAT(Find("STEP_OUTLIER").measured,
              AllOf(Not(HasSubstr("every")), Not(HasSubstr("apart"))));
}

class SlowFirstStepTest : public FindingOutliersTest {
 protected:
  // Steps of these lengths, in ms, from `first_step` on.
  void StepsFrom(int64_t first_step, const std::vector<int64_t>& lengths) {
    int64_t at_ns = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      reader_.Step(first_step + static_cast<int64_t>(i), at_ns, lengths[i] * kMs);
      Launch({.start_ns = at_ns, .count = static_cast<int>(10 * lengths[i])});
      at_ns += lengths[i] * kMs;
    }
  }
};

TEST_F(SlowFirstStepTest, InATraceOfAProgramThatHadRunLongBeforeItIsHardlyWarmUp) {
  reader_.mutable_record().imported.source = "trace.json";
  StepsFrom(100, {50, 10, 10, 10, 10, 10});
  const Finding finding = Find("WARMUP_INCLUDED");
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("had run 100 steps before"));
}

TEST_F(SlowFirstStepTest, OfACaptureThatWarmedUpItIsASlowStep) {
  StepsFrom(100, {50, 10, 10, 10, 10, 10});
  EXPECT_THAT(Fired(), ElementsAre("STEP_OUTLIER"));
  EXPECT_EQ(Report().mean_step_ns, 100 * kMs / 6);
  reader_.mutable_record().spec.warmup_steps = 0;
  EXPECT_EQ(Find("WARMUP_INCLUDED").confidence, Confidence::kLow);
}

// As where two workers load batches in turn, each for longer than two steps take.
TEST_F(SlowFirstStepTest, OfStepsThatAlternateItIsOneOfTheSlowOnes) {
  StepsFrom(0, {66, 3, 66, 3, 66, 3, 66, 3, 66, 3});
  EXPECT_THAT(Fired(), Not(Contains("WARMUP_INCLUDED")));
  EXPECT_EQ(Report().mean_step_ns, 345 * kMs / 10);
}

TEST_F(SlowFirstStepTest, LateInAProgramOneMoreSlowStepIsEnough) {
  reader_.mutable_record().imported.source = "trace.json";
  StepsFrom(81, {66, 3, 3, 3, 3, 66, 3, 3});
  EXPECT_THAT(Fired(), Not(Contains("WARMUP_INCLUDED")));
}

TEST_F(SlowFirstStepTest, WarmUpMayLastForSeveralStepsAndOneLaterStepMayBeAsSlow) {
  StepsFrom(0, {50, 40, 10, 10, 10, 60, 10, 10});
  EXPECT_EQ(Find("WARMUP_INCLUDED").confidence, Confidence::kHigh);
}

}  // namespace
}  // namespace profd::report
