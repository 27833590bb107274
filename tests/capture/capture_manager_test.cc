#include "daemon/capture/capture_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/reason.h"
#include "daemon/capture/quality.h"
#include "tests/capture/manager_fixture.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

// ---- what is refused ----

TEST_F(CaptureManagerTest, RefusesATargetThatIsNotThere) {
  const auto result = manager_.Create(kAlice, 99, Steps(5), "");
  EXPECT_THAT(result, StatusIs(Code::kNotFound));
  EXPECT_EQ(ReasonOf(result.status()), "NO_SUCH_TARGET");
}

TEST_F(CaptureManagerTest, RefusesAnotherUsersTargetButNotRoot) {
  const TargetNumber target = targets_.Add(Training(10));
  const auto result = manager_.Create(kBob, target, Steps(5), "");
  EXPECT_THAT(result, StatusIs(Code::kPermissionDenied));
  EXPECT_EQ(ReasonOf(result.status()), "OTHER_OWNER");
  EXPECT_THAT(manager_.Create(kRoot, target, Steps(5), ""), IsOk());
}

TEST_F(CaptureManagerTest, RefusesStepsOfATargetThatMarksNone) {
  TargetInfo info = Training(10);
  info.step_mark_count = 0;
  info.current_step = -1;
  const TargetNumber target = targets_.Add(info);
  const auto result = manager_.Create(kAlice, target, Steps(5), "");
  EXPECT_THAT(result, StatusIs(Code::kFailedPrecondition,
                               AllOf(HasSubstr("--duration"), HasSubstr("optimizer"))));
  EXPECT_EQ(ReasonOf(result.status()), "NO_STEPS");
  EXPECT_THAT(targets_.arms(), IsEmpty());
}

TEST_F(CaptureManagerTest, RefusesAStartStepInThePast) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.start_step = 100;
  const auto result = manager_.Create(kAlice, target, spec, "");
  EXPECT_THAT(result, StatusIs(Code::kFailedPrecondition, HasSubstr("at step 100")));
  EXPECT_EQ(ReasonOf(result.status()), "STEP_PASSED");
}

TEST_F(CaptureManagerTest, RefusesASecondCaptureOfATargetByNameOfTheFirst) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord first = CreateOrDie(target, Steps(5));
  const auto second = manager_.Create(kAlice, target, Steps(5), "");
  EXPECT_THAT(second, StatusIs(Code::kFailedPrecondition, HasSubstr(first.id)));
  EXPECT_EQ(ReasonOf(second.status()), "TARGET_BUSY");
}

// Lets nobody act on what belongs to others, as the audit log does when it cannot be written.
class ShutGate final : public OthersGate {
 public:
  bool MayProceed() override { return false; }
};

TEST_F(CaptureManagerTest, WhatBelongsToOthersNeedsTheirGate) {
  const TargetNumber target = targets_.Add(Training(10));
  Caller root = kRoot;
  root.others = std::make_shared<ShutGate>();
  EXPECT_THAT(manager_.Create(root, target, Steps(5), ""), StatusIs(Code::kPermissionDenied));
  EXPECT_TRUE(root.May(Verb::kList, {.uid = 1000})) << "to see that it is there";
  Caller alice = kAlice;
  alice.others = root.others;
  EXPECT_THAT(manager_.Create(alice, target, Steps(5), ""), IsOk());
}

TEST_F(CaptureManagerTest, RefusesSpecsOutOfRange) {
  const TargetNumber target = targets_.Add(Training(10));
  for (const int64_t steps : {int64_t{-1}, int64_t{0}, int64_t{1'000'001}}) {
    EXPECT_THAT(manager_.Create(kAlice, target, Steps(steps), ""),
                StatusIs(Code::kInvalidArgument, HasSubstr("steps")));
  }
  CaptureSpec both = Steps(5);
  both.duration = absl::Seconds(1);
  EXPECT_THAT(manager_.Create(kAlice, target, both, ""), StatusIs(Code::kInvalidArgument));
}

TEST_F(CaptureManagerTest, AnArmThatIsRefusedIsTheRpcsErrorAndIsOnRecord) {
  const TargetNumber target = targets_.Add(Training(10));
  targets_.RefuseNextArm(WithReason(absl::ResourceExhaustedError("memory cap"), "MEMORY_CAP"));
  const auto result = manager_.Create(kAlice, target, Steps(5), "r1");
  EXPECT_THAT(result, StatusIs(Code::kResourceExhausted));
  EXPECT_THAT(store_.discarded(), SizeIs(1));
  EXPECT_THAT(manager_.Live(), IsEmpty());
  EXPECT_THAT(manager_.Create(kAlice, target, Steps(5), ""), IsOk()) << "the target is free again";
}

// ---- the way to COMPLETE ----

TEST_F(CaptureManagerTest, ACaptureOfStepsGoesThroughItsLife) {
  const TargetNumber target = targets_.Add(Training(10));
  targets_.RunSteps(target, 40, 1'000'000);
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  EXPECT_FALSE(IsTerminal(created.state));

  std::vector<CaptureState> seen;
  ASSERT_THAT(manager_.Watch(kAlice, created.id,
                             [&](const CaptureRecord& record) {
                               if (seen.empty() || seen.back() != record.state) {
                                 seen.push_back(record.state);
                               }
                             }),
              IsOk());
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  ASSERT_THAT(targets_.fires(), SizeIs(1));
  EXPECT_EQ(targets_.fires()[0].plan.base_step, -1);
  EXPECT_EQ(targets_.fires()[0].plan.warmup_steps, 1);
  Reach(created.id, RecordingPhase::kWarmup, 141);
  Reach(created.id, RecordingPhase::kRecording, 142);
  targets_.RunSteps(target, 7, 1'000'000);
  Reach(created.id, RecordingPhase::kEnded, 147);
  manager_.DrainForTesting();
  EXPECT_THAT(targets_.stops(), ElementsAre(created.id));
  targets_.Drained(created.id, Window(142, 147));
  manager_.DrainForTesting();
  targets_.RunSteps(target, 21, 1'000'000);
  Advance(absl::Milliseconds(100));

  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.ended_by, EndedBy::kSteps);
  EXPECT_EQ(done.covered_steps, 5);
  EXPECT_EQ(done.covered_ns, 5'000'000);
  EXPECT_EQ(done.start_unix_ns, 5'000'001'000);
  EXPECT_EQ(done.windows[0].start_ns, 0);
  EXPECT_EQ(done.step_before_ns, 1'000'000);
  EXPECT_EQ(done.step_during_ns, 1'000'000);
  EXPECT_EQ(QualityGrade(done), "A");
  using enum CaptureState;
  EXPECT_THAT(seen, ElementsAre(kArming, kWaitingStep, kWarmup, kRecording, kDraining, kStoring,
                                kComplete));
  EXPECT_THAT(store_.finished(), ElementsAre(created.id));
}

TEST_F(CaptureManagerTest, ACaptureByTimeIsStoppedWhenItsTimeIsOver) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec;
  spec.duration = absl::Seconds(2);
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kRecording);
  manager_.DrainForTesting();
  Advance(absl::Milliseconds(1999));
  EXPECT_THAT(targets_.stops(), IsEmpty());
  Advance(absl::Milliseconds(1));
  EXPECT_THAT(targets_.stops(), ElementsAre(created.id));
  DrainResult result;
  result.epoch_unix_ns = 5'000'000'000;
  result.windows.push_back({.start_ns = 1'000, .end_ns = 2'000'501'000});
  result.cpu = {.watched_ns = 1, .samples = {{.time_ns = 400}, {.time_ns = 3'000}}};
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.ended_by, EndedBy::kDuration);
  // Since the window began, as other times of a capture.
  ASSERT_EQ(done.cpu.samples.size(), 2u);
  EXPECT_EQ(done.cpu.samples[0].time_ns, -600);
  EXPECT_EQ(done.cpu.samples[1].time_ns, 2'000);
}

TEST_F(CaptureManagerTest, AWindowThatIngestEndedByTimeIsComplete) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec;
  spec.duration = absl::Seconds(2);
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  ASSERT_THAT(targets_.fires(), SizeIs(1));
  EXPECT_EQ(targets_.fires()[0].plan.longest_window, absl::Seconds(2));
  Reach(created.id, RecordingPhase::kRecording);
  DrainResult result;
  result.epoch_unix_ns = 5'000'000'000;
  result.windows.push_back({.start_ns = 1'000, .end_ns = 2'000'501'000});
  result.ended_by = EndedBy::kDuration;
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.ended_by, EndedBy::kDuration);
}

// ---- ends before its time ----

TEST_F(CaptureManagerTest, ATargetThatDiesInTheWindowLeavesAPartialCapture) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kRecording, 102);
  manager_.DrainForTesting();
  manager_.OnTargetGone(target);
  manager_.DrainForTesting();
  targets_.Drained(created.id, Window(102, 104, /*complete=*/false));
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kPartial);
  EXPECT_EQ(done.ended_by, EndedBy::kTargetExit);
  EXPECT_EQ(done.covered_steps, 2);
  EXPECT_EQ(QualityGrade(done), "D");
}

TEST_F(CaptureManagerTest, ATargetThatOptsOutEndsItsCaptureAlone) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  const CaptureRecord other = CreateOrDie(targets_.Add(Training(11)), Steps(5));
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kRecording, 102);
  manager_.OnTargetOptedOut(target);
  manager_.DrainForTesting();
  targets_.Drained(created.id, Window(102, 104, /*complete=*/false));
  EXPECT_EQ(GetOrDie(created.id).ended_by, EndedBy::kOptOut);
  EXPECT_EQ(GetOrDie(other.id).ended_by, EndedBy::kNone);
}

TEST_F(CaptureManagerTest, ACaptureWhoseCuptiWasTakenIsPartial) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(2));
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  Reach(created.id, RecordingPhase::kEnded, 104);
  manager_.DrainForTesting();
  DrainResult result = Window(102, 104, /*complete=*/true);
  result.gpu.outcome = GpuOutcome::kBroken;
  result.gpu.cupti_taken = true;
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kPartial);
  EXPECT_EQ(ToString(done.ended_by), "cupti_taken");
}

TEST_F(CaptureManagerTest, ATargetEndsItsWindowWhereItsCuptiIsTaken) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  Reach(created.id, RecordingPhase::kEnded, 104);
  manager_.DrainForTesting();
  DrainResult result = Window(102, 104, /*complete=*/false);
  result.gpu.cupti_taken = true;
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kPartial);
  EXPECT_EQ(done.covered_steps, 2);
  EXPECT_EQ(done.ended_by, EndedBy::kCuptiTaken);
}

TEST_F(CaptureManagerTest, ACaptureFailsIfItsCuptiIsTakenBeforeItsWindow) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  Reach(created.id, RecordingPhase::kEnded, 104);
  manager_.DrainForTesting();
  DrainResult result;
  result.gpu.cupti_taken = true;
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kFailed);
  EXPECT_EQ(done.ended_by, EndedBy::kCuptiTaken);
  EXPECT_EQ(done.error_reason, "CUPTI_BUSY");
}

TEST_F(CaptureManagerTest, ALibraryThatGoesAwayIsToldFromATargetThatEnds) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  manager_.OnTargetGone(target);
  DrainResult result = Window(102, 104, /*complete=*/false);
  result.target_gone = true;
  result.library_gone = true;
  targets_.Drained(created.id, result);
  EXPECT_EQ(GetOrDie(created.id).ended_by, EndedBy::kTargetLost);
}

TEST_F(CaptureManagerTest, ATargetThatDiesAfterItsLastStepIsComplete) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  manager_.OnTargetGone(target);
  targets_.Drained(created.id, Window(102, 107));
  EXPECT_EQ(GetOrDie(created.id).state, CaptureState::kComplete);
}

TEST_F(CaptureManagerTest, ATargetThatDiesBeforeTheWindowFailsTheCapture) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  manager_.DrainForTesting();
  targets_.Remove(target);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kFailed);
  EXPECT_THAT(store_.discarded(), ElementsAre(created.id));
  EXPECT_FALSE(done.error_reason.empty());
}

// ---- the GPU ----

TEST_F(CaptureManagerTest, ArmingIsToldWhatToRecordOfTheGpu) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.gpu = {.mode = GpuMode::kFull, .buffer_bytes = 8 << 20, .latency = true};
  spec.step_marker = "train_step";
  CreateOrDie(target, spec);
  EXPECT_EQ(targets_.LastArm().request.gpu, spec.gpu);
  EXPECT_EQ(targets_.LastArm().request.step_marker, "train_step");
}

TEST_F(CaptureManagerTest, ArmingIsToldWhatToRecordOfTorch) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.torch = {.operators = OperatorMode::kNames, .memory = true};
  CreateOrDie(target, spec);
  EXPECT_EQ(targets_.LastArm().request.torch, spec.torch);
}

TEST_F(CaptureManagerTest, WhatArmingIsBusyWithShowsUntilItIsDone) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  std::vector<std::string> seen;
  const auto watch = manager_.Watch(
      kAlice, created.id, [&](const CaptureRecord& record) { seen.push_back(record.activity); });
  ASSERT_THAT(watch, IsOk());
  targets_.Arming(created.id, "attaching to CUPTI, 1 s");
  targets_.Arming(created.id, "attaching to CUPTI, 2 s");
  EXPECT_EQ(GetOrDie(created.id).activity, "attaching to CUPTI, 2 s");
  targets_.Armed(created.id);
  EXPECT_EQ(GetOrDie(created.id).activity, "");
  targets_.Arming(created.id, "too late");
  EXPECT_EQ(GetOrDie(created.id).activity, "");
  EXPECT_THAT(seen, ElementsAre("", "attaching to CUPTI, 1 s", "attaching to CUPTI, 2 s"));
  manager_.StopWatching(*watch);
}

TEST_F(CaptureManagerTest, WhoSaysThatItIsArmingGetsTheTimeThatCuptiMayTake) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Arming(created.id, "attaching to CUPTI, 1 s");
  manager_.DrainForTesting();
  Advance(absl::Seconds(74));
  EXPECT_THAT(targets_.stops(), IsEmpty());
  Advance(absl::Seconds(1));
  EXPECT_THAT(targets_.stops(), ElementsAre(created.id));
  targets_.Drained(created.id, DrainResult());
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.error_reason, "ARM_TIMEOUT");
  EXPECT_THAT(done.error_message, HasSubstr("attaching to CUPTI, 1 s"));
  EXPECT_THAT(done.error_message, HasSubstr("--gpu off"));
  EXPECT_EQ(done.activity, "");
}

TEST_F(CaptureManagerTest, WithoutTheGpuArmingGetsNoMoreTime) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.gpu.mode = GpuMode::kOff;
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Arming(created.id, "busy");
  manager_.DrainForTesting();
  Advance(absl::Seconds(30));
  EXPECT_THAT(targets_.stops(), ElementsAre(created.id));
}

TEST_F(CaptureManagerTest, WhatIsKnownOfTheGpuGoesOnRecord) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kEnded);
  DrainResult result = Window(102, 107);
  result.gpu.outcome = GpuOutcome::kRecorded;
  result.gpu.mode = GpuMode::kDefault;
  result.gpu.simulated = true;
  result.gpu.devices.push_back({.number = 0, .name = "GPU"});
  result.gpu.orphan_count = 9;
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.gpu.outcome, GpuOutcome::kRecorded);
  EXPECT_TRUE(done.gpu.simulated);
  ASSERT_THAT(done.gpu.devices, SizeIs(1));
  EXPECT_EQ(ComputeQuality(done).checks[2].name, "orphans");
  EXPECT_FALSE(ComputeQuality(done).checks[2].failed()) << "orphans are no loss";
}

TEST_F(CaptureManagerTest, WhatTheGpuLostLowersTheGrade) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kEnded);
  DrainResult result = Window(102, 107);
  result.event_count = 1'000;
  result.drops[static_cast<size_t>(DropReason::kCuptiDropped)] = 50;
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(QualityGrade(done), "C");
}

TEST_F(CaptureManagerTest, AGpuThatBrokeOffIsNoGradeA) {
  CaptureRecord record;
  record.state = CaptureState::kComplete;
  record.start_unix_ns = 1;
  record.event_count = 1;
  record.gpu.outcome = GpuOutcome::kBroken;
  EXPECT_EQ(QualityGrade(record), "D") << "nothing of the GPU came";
  record.gpu.record_count = 1;
  EXPECT_EQ(QualityGrade(record), "C");
  record.gpu = {.outcome = GpuOutcome::kBroken, .cupti_taken = true};
  EXPECT_EQ(QualityGrade(record), "B") << "another tool ended it";
}

TEST_F(CaptureManagerTest, AGpuThatCannotBeRecordedSaysWhyInTheTargetsWords) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.gpu.mode = GpuMode::kDefault;
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.ArmFailed(created.id,
                     WithReason(absl::FailedPreconditionError("held by nsys"), "CUPTI_BUSY"));
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kFailed);
  EXPECT_EQ(done.ended_by, EndedBy::kArmFailed);
  EXPECT_EQ(done.error_reason, "CUPTI_BUSY");
  EXPECT_EQ(done.error_message, "held by nsys");
}

// ---- steps by the name of a range ----

TEST_F(CaptureManagerTest, AStepMarkerStandsInForMarks) {
  TargetInfo info = Training(10);
  info.step_mark_count = 0;
  info.current_step = -1;
  const TargetNumber target = targets_.Add(info);
  CaptureSpec spec = Steps(5);
  spec.step_marker = "train_step";
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  ASSERT_THAT(targets_.fires(), SizeIs(1));
  EXPECT_EQ(targets_.fires()[0].plan.base_step, -1);
}

TEST_F(CaptureManagerTest, StepsByMarkerAreNotTheTargetsOwn) {
  const TargetNumber target = targets_.Add(Training(10));  // At step 100.
  CaptureSpec spec = Steps(5);
  spec.step_marker = "train_step";
  const CaptureRecord created = CreateOrDie(target, spec);
  EXPECT_EQ(created.current_step, -1);
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kRecording, 1);
  EXPECT_EQ(GetOrDie(created.id).current_step, 1);
  Reach(created.id, RecordingPhase::kEnded);
  targets_.Drained(created.id, Window(1, 6));
  Advance(absl::Seconds(1));
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.step_before_ns, 0);
  EXPECT_EQ(done.step_after_ns, 0);
}

TEST_F(CaptureManagerTest, StepsOfASourceAskedForNeedNoneOfTheTargets) {
  TargetInfo info = Training(10);
  info.step_mark_count = 0;
  info.current_step = -1;
  const TargetNumber target = targets_.Add(info);
  CaptureSpec spec = Steps(5);
  spec.torch.step_source = StepSource::kDataLoader;
  EXPECT_EQ(CreateOrDie(target, spec).current_step, -1);
}

TEST_F(CaptureManagerTest, StepsOfAnOptimizerNeedOneThatEndedAStep) {
  CaptureSpec spec = Steps(5);
  spec.torch.step_source = StepSource::kOptimizer;
  for (const StepSource source :
       {StepSource::kNone, StepSource::kProfiler, StepSource::kDataLoader}) {
    TargetInfo info = Training(10);
    info.step_source = source;
    const auto refused = manager_.Create(kAlice, targets_.Add(info), spec, "");
    ASSERT_THAT(refused, StatusIs(Code::kFailedPrecondition));
    EXPECT_EQ(ReasonOf(refused.status()), "NO_STEPS");
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no optimizer"));
  }
  EXPECT_TRUE(targets_.arms().empty());
  for (const StepSource source : {StepSource::kOptimizer, StepSource::kMarks}) {
    TargetInfo info = Training(10);
    info.step_source = source;
    CreateOrDie(targets_.Add(info), spec);
  }
}

TEST_F(CaptureManagerTest, AStepMarkerThatNeverBeganIsNamed) {
  CaptureSpec spec = Steps(5);
  spec.step_marker = "train_stpe";
  spec.timeout = absl::Seconds(60);
  const CaptureRecord created = CreateOrDie(targets_.Add(Training(10)), spec);
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kWaiting);
  Advance(absl::Seconds(60));
  targets_.Drained(created.id, DrainResult());
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kFailed);
  EXPECT_EQ(done.error_reason, "DEADLINE");
  EXPECT_THAT(done.error_message, HasSubstr("no range 'train_stpe' began"));
}

TEST_F(CaptureManagerTest, AStepSourceThatNeverMarkedIsNamed) {
  CaptureSpec spec = Steps(5);
  spec.torch.step_source = StepSource::kDataLoader;
  spec.timeout = absl::Seconds(60);
  const CaptureRecord created = CreateOrDie(targets_.Add(Training(10)), spec);
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kWaiting);
  Advance(absl::Seconds(60));
  targets_.Drained(created.id, DrainResult());
  EXPECT_THAT(GetOrDie(created.id).error_message, HasSubstr("no DataLoader"));
}

TEST_F(CaptureManagerTest, ARecordSaysWhoseStepsItCounts) {
  TargetInfo info = Training(10);
  info.step_source = StepSource::kOptimizer;
  const TargetNumber target = targets_.Add(info);
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kEnded);
  DrainResult drained = Window(101, 106);
  drained.torch.outcome = TorchOutcome::kLimited;
  drained.torch.operator_count = 7;
  targets_.Drained(created.id, drained);
  Advance(absl::Seconds(1));
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.torch.outcome, TorchOutcome::kLimited);
  EXPECT_EQ(done.torch.operator_count, 7);
  EXPECT_EQ(done.torch.step_source, StepSource::kOptimizer);
}

TEST_F(CaptureManagerTest, AGroupByMarkerStartsAtEachMembersNextStep) {
  const std::vector<TargetNumber> targets = {targets_.Add(Training(10)),
                                             targets_.Add(Training(11))};
  CaptureSpec spec = Steps(5);
  spec.step_marker = "train_step";
  const auto group = manager_.CreateGroup(kAlice, targets, spec, "");
  ASSERT_THAT(group, IsOk());
  for (const CaptureRecord& record : *group) targets_.Armed(record.id);
  manager_.DrainForTesting();
  ASSERT_THAT(targets_.fires(), SizeIs(2));
  for (const FakeTargetPort::FireCall& fire : targets_.fires()) {
    EXPECT_EQ(fire.plan.base_step, -1);
  }
}

TEST_F(CaptureManagerTest, ATargetThatNeverAnswersArmFailsAtTheTimeout) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  Advance(absl::Seconds(30));
  EXPECT_THAT(targets_.stops(), ElementsAre(created.id));
  targets_.Drained(created.id, DrainResult());
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kFailed);
  EXPECT_EQ(done.error_reason, "ARM_TIMEOUT");
  EXPECT_THAT(done.error_message, HasSubstr("10"));
}

TEST_F(CaptureManagerTest, AStepThatNeverComesFailsAtTheDeadline) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.timeout = absl::Seconds(60);
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  Advance(absl::Seconds(60));
  targets_.Drained(created.id, DrainResult());
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kFailed);
  EXPECT_EQ(done.ended_by, EndedBy::kDeadline);
  EXPECT_THAT(done.error_message, HasSubstr("--timeout"));
}

TEST_F(CaptureManagerTest, CancelKeepsWhatWasRecorded) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kRecording, 102);
  manager_.DrainForTesting();
  EXPECT_THAT(manager_.Cancel(kBob, created.id), StatusIs(Code::kNotFound));
  ASSERT_THAT(manager_.Cancel(kAlice, created.id), IsOk());
  targets_.Drained(created.id, Window(102, 103, false));
  EXPECT_EQ(GetOrDie(created.id).state, CaptureState::kCancelled);
  EXPECT_THAT(store_.finished(), ElementsAre(created.id));
  ASSERT_THAT(manager_.Cancel(kAlice, created.id), IsOk()) << "a terminal one is returned as it is";
}

TEST_F(CaptureManagerTest, CancelBeforeAnythingWasRecordedKeepsNoFile) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  ASSERT_THAT(manager_.Cancel(kAlice, created.id), IsOk());
  targets_.Drained(created.id, DrainResult());
  EXPECT_EQ(GetOrDie(created.id).state, CaptureState::kCancelled);
  EXPECT_THAT(store_.discarded(), ElementsAre(created.id));
}

struct SinkErrorCase {
  absl::Status error;
  EndedBy ended_by;
};
class SinkErrorTest : public CaptureManagerTest,
                      public testing::WithParamInterface<SinkErrorCase> {};

TEST_P(SinkErrorTest, EndsTheCaptureAsPartialByItsCause) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  targets_.Reached(created.id, Progress{.phase = RecordingPhase::kRecording,
                                        .current_step = 103,
                                        .sink_status = GetParam().error});
  manager_.DrainForTesting();
  EXPECT_THAT(targets_.stops(), ElementsAre(created.id));
  // Even if the window was covered: events inside it were lost.
  targets_.Drained(created.id, Window(102, 107));
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kPartial);
  EXPECT_EQ(done.ended_by, GetParam().ended_by);
}
INSTANTIATE_TEST_SUITE_P(
    Causes, SinkErrorTest,
    testing::Values(SinkErrorCase{absl::OutOfRangeError("cap"), EndedBy::kByteCap},
                    SinkErrorCase{absl::ResourceExhaustedError("full"), EndedBy::kDiskFull},
                    SinkErrorCase{absl::InternalError("io"), EndedBy::kStorage}));

TEST_F(CaptureManagerTest, AFileThatCannotBeFinishedFailsTheCapture) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  store_.finish_error = absl::ResourceExhaustedError("no room");
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kEnded);
  targets_.Drained(created.id, Window(102, 107));
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kFailed);
  EXPECT_EQ(done.error_reason, "DISK_FULL");
}

TEST_F(CaptureManagerTest, AMissedStartFailsTheCapture) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.start_step = 103;
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  EXPECT_EQ(targets_.fires()[0].plan.base_step, 102);
  Reach(created.id, RecordingPhase::kMissed, 110);
  targets_.Drained(created.id, DrainResult());
  EXPECT_EQ(GetOrDie(created.id).error_reason, "MISSED_START");
}

// ---- requests that repeat ----

TEST_F(CaptureManagerTest, ARepeatedRequestIdReturnsTheFirstCapture) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord first = CreateOrDie(target, Steps(5), "req-1");
  EXPECT_EQ(CreateOrDie(target, Steps(5), "req-1").id, first.id);
  EXPECT_THAT(targets_.arms(), SizeIs(1));
  const auto other = manager_.Create(kAlice, target, Steps(6), "req-1");
  EXPECT_THAT(other, StatusIs(Code::kAlreadyExists));
  EXPECT_EQ(ReasonOf(other.status()), "REQUEST_ID_REUSED");
  EXPECT_THAT(manager_.Create(kRoot, target, Steps(5), "req-1"),
              StatusIs(Code::kFailedPrecondition))
      << "another caller's request ids are apart";
}

// ---- groups ----

TEST_F(CaptureManagerTest, AGroupStartsAtOneStepThatNoneHasReached) {
  const TargetNumber a = targets_.Add(Training(10));
  TargetInfo ahead = Training(11);
  ahead.current_step = 130;
  const TargetNumber b = targets_.Add(ahead);
  const auto records = manager_.CreateGroup(kAlice, {a, b}, Steps(5), "");
  ASSERT_THAT(records, IsOk());
  ASSERT_THAT(*records, SizeIs(2));
  EXPECT_EQ((*records)[0].group_id, (*records)[1].group_id);
  targets_.Armed((*records)[0].id);
  manager_.DrainForTesting();
  EXPECT_THAT(targets_.fires(), IsEmpty()) << "nobody starts before all have armed";
  targets_.Armed((*records)[1].id);
  manager_.DrainForTesting();
  ASSERT_THAT(targets_.fires(), SizeIs(2));
  // 250 ms at 100 steps/s is a lead of 25.
  EXPECT_EQ(targets_.fires()[0].plan.base_step, 156);
  EXPECT_EQ(targets_.fires()[1].plan.base_step, 156);
  EXPECT_THAT(store_.room_made_for(), SizeIs(1)) << "they were fired together";
}

TEST_F(CaptureManagerTest, AGroupGoesOnWithoutAMemberThatCannotArm) {
  const TargetNumber a = targets_.Add(Training(10));
  const TargetNumber b = targets_.Add(Training(11));
  const auto records = manager_.CreateGroup(kAlice, {a, b}, Steps(5), "");
  ASSERT_THAT(records, IsOk());
  targets_.Armed((*records)[0].id);
  targets_.ArmFailed((*records)[1].id,
                     WithReason(absl::FailedPreconditionError("busy"), "CUPTI_BUSY"));
  manager_.DrainForTesting();
  EXPECT_THAT(targets_.fires(), SizeIs(1));
  const CaptureRecord missed = GetOrDie((*records)[1].id);
  EXPECT_EQ(missed.state, CaptureState::kFailed);
  EXPECT_EQ(missed.error_reason, "CUPTI_BUSY");
}

TEST_F(CaptureManagerTest, AGroupWithABusyTargetStartsNothing) {
  const TargetNumber a = targets_.Add(Training(10));
  const TargetNumber b = targets_.Add(Training(11));
  CreateOrDie(b, Steps(5));
  EXPECT_THAT(manager_.CreateGroup(kAlice, {a, b}, Steps(5), ""),
              StatusIs(Code::kFailedPrecondition));
  EXPECT_THAT(targets_.arms(), SizeIs(1));
  EXPECT_THAT(manager_.CreateGroup(kAlice, {a, a}, Steps(5), ""), StatusIs(Code::kInvalidArgument));
}

// ---- deleting, watching, shutting down ----

TEST_F(CaptureManagerTest, DeleteWaitsForTheEnd) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  const auto live = manager_.Delete(kAlice, created.id);
  EXPECT_THAT(live, StatusIs(Code::kFailedPrecondition));
  EXPECT_EQ(ReasonOf(live.status()), "CAPTURE_LIVE");
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kEnded);
  targets_.Drained(created.id, Window(102, 107));
  manager_.DrainForTesting();
  EXPECT_THAT(manager_.Delete(kBob, created.id), StatusIs(Code::kNotFound));
  EXPECT_THAT(manager_.Delete(kAlice, created.id), IsOk());
  EXPECT_THAT(manager_.Delete(kAlice, created.id),
              StatusIs(Code::kNotFound, HasSubstr("its events were deleted already")));
}

TEST_F(CaptureManagerTest, AStoppedWatchHearsNoMore) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  int calls = 0;
  const auto watch = manager_.Watch(kAlice, created.id, [&](const CaptureRecord&) { ++calls; });
  ASSERT_THAT(watch, IsOk());
  manager_.StopWatching(*watch);
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(manager_.Watch(kBob, created.id, [](const CaptureRecord&) {}),
              StatusIs(Code::kNotFound));
}

TEST_F(CaptureManagerTest, ShutdownEndsLiveCapturesAndKeepsWhatTheyHave) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5));
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kRecording, 102);
  manager_.DrainForTesting();
  targets_.AnswerByItself(Window(102, 104, false));
  manager_.Shutdown();
  const auto done = store_.GetCapture(created.id);
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->state, CaptureState::kPartial);
  EXPECT_EQ(done->ended_by, EndedBy::kDaemonStop);
  EXPECT_THAT(manager_.Create(kAlice, target, Steps(5), ""), StatusIs(Code::kUnavailable));
}

// ---- the drawing of the life ----

TEST(CaptureStateTest, NothingLeavesATerminalState) {
  for (int from = 8; from <= 11; ++from) {
    for (int to = 1; to <= 11; ++to) {
      EXPECT_FALSE(CanAdvance(static_cast<CaptureState>(from), static_cast<CaptureState>(to)));
    }
  }
}

TEST(CaptureStateTest, OnlyStoringCompletes) {
  for (int from = 1; from <= 11; ++from) {
    const auto state = static_cast<CaptureState>(from);
    EXPECT_EQ(CanAdvance(state, CaptureState::kComplete), state == CaptureState::kStoring);
    EXPECT_EQ(CanAdvance(state, CaptureState::kFailed), !IsTerminal(state));
    EXPECT_EQ(CaptureStateFromString(ToString(state)), state);
  }
}

}  // namespace
}  // namespace profd
