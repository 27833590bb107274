// The manager and the steps around a window: what it compares, and for how long the seal waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "daemon/capture/cpu_after.h"
#include "daemon/capture/quality.h"
#include "daemon/capture/slowdown.h"
#include "tests/capture/manager_fixture.h"

namespace profd {
namespace {

using ::testing::HasSubstr;

// A target of which 40 steps are known, its capture of 5 steps, and those 5 steps.
class StepsAroundAWindowTest : public CaptureManagerTest {
 protected:
  StepsAroundAWindowTest() : target_(targets_.Add(Training(10))) {
    targets_.Change(target_, [](TargetInfo& info) { info.step_source = StepSource::kMarks; });
  }
  // Returns its id when it has drained.
  std::string Record(int64_t around_ns, int64_t during_ns) {
    targets_.RunSteps(target_, 40, around_ns);
    const int64_t step = targets_.Find(target_)->current_step;
    const std::string id = CreateOrDie(target_, Steps(5)).id;
    targets_.Armed(id);
    Reach(id, RecordingPhase::kWarmup, step + 1);
    targets_.RunSteps(target_, 2, around_ns);
    Reach(id, RecordingPhase::kRecording, step + 2);
    targets_.RunSteps(target_, 5, during_ns);
    Reach(id, RecordingPhase::kEnded, step + 7);
    manager_.DrainForTesting();
    targets_.Drained(id, Window(step + 2, step + 7));
    manager_.DrainForTesting();
    return id;
  }

  const TargetNumber target_;
};

TEST_F(StepsAroundAWindowTest, TheSealWaitsForTheStepsAfterTheWindow) {
  const std::string id = Record(1'000'000, 1'200'000);
  targets_.RunSteps(target_, 10, 1'000'000);
  Advance(absl::Milliseconds(100));
  EXPECT_EQ(GetOrDie(id).state, CaptureState::kStoring);
  targets_.RunSteps(target_, 11, 1'000'000);  // The one in progress when it drained is left out.
  Advance(absl::Milliseconds(100));
  const CaptureRecord done = GetOrDie(id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.step_before_ns, 1'000'000);
  EXPECT_EQ(done.step_during_ns, 1'200'000);
  EXPECT_EQ(done.step_after_ns, 1'000'000);
  ASSERT_TRUE(done.slowdown.known) << done.slowdown.unknown_reason;
  EXPECT_NEAR(done.slowdown.estimate, 0.2, 1e-9);
  EXPECT_NEAR(done.slowdown.low, 0.2, 1e-9);
  EXPECT_EQ(done.slowdown.during_step_count, 5);
  EXPECT_EQ(done.slowdown.after_step_count, 20);
  EXPECT_EQ(QualityGrade(done), "B");
}

// A capture by time, of a program without steps, whose one thread waited for half of the window.
class CpuAfterAWindowTest : public CaptureManagerTest {
 protected:
  CpuAfterAWindowTest() : target_(targets_.Add(Training(10))) {}
  // Returns its id when it has drained.
  std::string Record(int64_t waited_ns) {
    CaptureSpec spec;
    spec.duration = absl::Seconds(1);
    const std::string id = CreateOrDie(target_, spec).id;
    targets_.Armed(id);
    Reach(id, RecordingPhase::kRecording);
    manager_.DrainForTesting();
    Advance(absl::Seconds(1));
    DrainResult result;
    result.epoch_unix_ns = 5'000'000'000;
    result.windows.push_back({.start_ns = 1'000, .end_ns = 1'000'001'000});
    result.cpu = {.watched_ns = 1'000'000'000,
                  .threads = {{.os_thread = 10, .ran_ns = 400'000'000, .waited_ns = waited_ns}}};
    result.read_cpu_times = [this] {
      ++read_count_;
      return std::vector<CpuTimes>{times_};
    };
    targets_.Drained(id, result);
    manager_.DrainForTesting();
    return id;
  }

  const TargetNumber target_;
  CpuTimes times_ = {.ran_ns = 7'000'000'000, .waited_ns = 600'000'000};
  int read_count_ = 0;
};

TEST_F(CpuAfterAWindowTest, TheSealWaitsForHowThreadsWaitWithoutTheRecording) {
  const std::string id = Record(500'000'000);
  Advance(absl::Milliseconds(199));
  EXPECT_EQ(GetOrDie(id).state, CaptureState::kStoring);
  times_ = {.ran_ns = 7'160'000'000, .waited_ns = 640'000'000};
  Advance(absl::Milliseconds(1));
  const CaptureRecord done = GetOrDie(id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.cpu.after_watched_ns, 200'000'000);
  EXPECT_EQ(done.cpu.threads[0].after_ran_ns, 160'000'000);
  EXPECT_EQ(done.cpu.threads[0].after_waited_ns, 40'000'000);
  EXPECT_EQ(WaitsAsAfter(done.cpu, done.cpu.threads[0]), 100'000'000);
  EXPECT_DOUBLE_EQ(DelayShareBeyondAfter(done.cpu), 0.4);
}

TEST_F(CpuAfterAWindowTest, OneWithoutWaitsIsSealedAtOnce) {
  const CaptureRecord done = GetOrDie(Record(10'000'000));
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.cpu.after_watched_ns, 0);
  EXPECT_EQ(read_count_, 0);
}

TEST_F(CpuAfterAWindowTest, ATargetThatEndsMeanwhileIsSealedWithWhatWasSeen) {
  const std::string id = Record(500'000'000);
  Advance(absl::Milliseconds(50));
  times_.ran_ns += 20'000'000;
  targets_.Remove(target_);
  const CaptureRecord done = GetOrDie(id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.cpu.after_watched_ns, 50'000'000);
  EXPECT_EQ(done.cpu.threads[0].after_ran_ns, 20'000'000);
}

TEST_F(CpuAfterAWindowTest, AShortLookSaysNothing) {
  const std::string id = Record(500'000'000);
  Advance(absl::Milliseconds(49));
  times_.ran_ns += 20'000'000;
  targets_.Remove(target_);
  EXPECT_EQ(GetOrDie(id).cpu.after_watched_ns, 0);
}

TEST_F(CpuAfterAWindowTest, AnotherThreadWithItsNumberSaysNothing) {
  const std::string id = Record(500'000'000);
  times_ = {.ran_ns = 5, .waited_ns = 5};
  Advance(absl::Milliseconds(200));
  const CaptureRecord done = GetOrDie(id);
  EXPECT_EQ(done.cpu.threads[0].after_ran_ns, 0);
  EXPECT_EQ(WaitsAsAfter(done.cpu, done.cpu.threads[0]), std::nullopt);
  EXPECT_DOUBLE_EQ(DelayShareBeyondAfter(done.cpu), 0.5);
}

// Arming it disturbs the target.
TEST_F(CpuAfterAWindowTest, AnotherCaptureOfTheTargetEndsTheLook) {
  const std::string id = Record(500'000'000);
  Advance(absl::Milliseconds(60));
  times_.ran_ns += 60'000'000;
  CreateOrDie(target_, Steps(5));
  Advance(absl::Milliseconds(40));
  const CaptureRecord done = GetOrDie(id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_EQ(done.cpu.after_watched_ns, 0);
}

TEST_F(CaptureManagerTest, ADeadlineOfAStoppedTargetSaysSo) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.timeout = absl::Seconds(60);
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  Advance(absl::Seconds(60));
  DrainResult result;
  result.target_is_stopped = true;
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.error_reason, "DEADLINE");
  EXPECT_THAT(done.error_message, HasSubstr("is stopped (SIGSTOP, Ctrl-Z, a debugger)"));
}

TEST_F(CaptureManagerTest, AStartStepThatIsNotReachedIsNamed) {
  const TargetNumber target = targets_.Add(Training(10));
  CaptureSpec spec = Steps(5);
  spec.start_step = 1'000'000;
  spec.timeout = absl::Seconds(60);
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  Advance(absl::Seconds(60));
  targets_.Drained(created.id, DrainResult());
  EXPECT_THAT(GetOrDie(created.id).error_message, HasSubstr("did not reach step 1000000"));
}

TEST_F(StepsAroundAWindowTest, TheSealWaitsForASecondAtMost) {
  const std::string id = Record(1'000'000, 1'000'000);
  Advance(absl::Milliseconds(999));
  EXPECT_EQ(GetOrDie(id).state, CaptureState::kStoring);
  Advance(absl::Milliseconds(1));
  const CaptureRecord done = GetOrDie(id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_TRUE(done.slowdown.known);
  EXPECT_EQ(done.slowdown.after_step_count, 0);
}

TEST_F(StepsAroundAWindowTest, StepsThatComeLaterChangeNothing) {
  const std::string id = Record(1'000'000, 1'000'000);
  Advance(absl::Seconds(1));
  const CaptureRecord done = GetOrDie(id);
  targets_.RunSteps(target_, 60, 3'000'000);
  Advance(absl::Seconds(20));
  const CaptureRecord later = GetOrDie(id);
  EXPECT_EQ(later.slowdown, done.slowdown);
  EXPECT_EQ(later.step_after_ns, done.step_after_ns);
}

TEST_F(StepsAroundAWindowTest, LongStepsAreNotAwaited) {
  const std::string id = Record(300'000'000, 300'000'000);
  EXPECT_EQ(GetOrDie(id).state, CaptureState::kComplete);
}

TEST_F(StepsAroundAWindowTest, TheSealDoesNotWaitForAProcessThatEnds) {
  const std::string id = Record(1'000'000, 1'000'000);
  targets_.Remove(target_);
  EXPECT_EQ(GetOrDie(id).state, CaptureState::kComplete);
}

TEST_F(StepsAroundAWindowTest, TheSealDoesNotWaitBesideAnotherCapture) {
  const std::string id = Record(1'000'000, 1'000'000);
  CreateOrDie(target_, Steps(5));
  Advance(absl::Milliseconds(100));
  EXPECT_EQ(GetOrDie(id).state, CaptureState::kComplete);
}

TEST_F(StepsAroundAWindowTest, ACaptureThatHasDrainedDoesNotDisturbTheNext) {
  const std::string first = Record(1'000'000, 1'000'000);
  const std::string second = Record(1'000'000, 1'000'000);
  EXPECT_EQ(GetOrDie(first).state, CaptureState::kStoring);
  EXPECT_EQ(GetOrDie(second).state, CaptureState::kStoring);
  targets_.RunSteps(target_, 21, 1'000'000);
  Advance(absl::Milliseconds(100));
  EXPECT_EQ(GetOrDie(second).slowdown.after_step_count, 20);
}

// Those that it recorded, and before and after them, were as long as recording made them.
TEST_F(StepsAroundAWindowTest, StepsOfAnEarlierCaptureAreNotThoseAroundTheNext) {
  Record(1'000'000, 10'000'000);
  const std::string second = Record(1'000'000, 1'000'000);
  targets_.RunSteps(target_, 21, 1'000'000);
  Advance(absl::Milliseconds(100));
  const CaptureRecord done = GetOrDie(second);
  EXPECT_GT(done.around_step_count, 60);
  EXPECT_EQ(done.around_slow_step_count, 0);
  EXPECT_EQ(done.around_step_mean_ns, 1'000'000);
}

TEST_F(StepsAroundAWindowTest, ACaptureByTimeIsComparedWithTheStepsAroundIt) {
  targets_.RunSteps(target_, 40, 1'000'000);
  CaptureSpec spec;
  spec.duration = absl::Milliseconds(12);
  const std::string id = CreateOrDie(target_, spec).id;
  targets_.Armed(id);
  Reach(id, RecordingPhase::kRecording);
  manager_.DrainForTesting();
  targets_.RunSteps(target_, 10, 1'200'000);
  Advance(absl::Milliseconds(12));
  DrainResult result;
  result.epoch_unix_ns = 5'000'000'000;
  result.event_count = 10;
  result.windows.push_back({.start_ns = 0, .end_ns = 12'000'000});
  targets_.Drained(id, result);
  manager_.DrainForTesting();
  targets_.RunSteps(target_, 21, 1'000'000);
  Advance(absl::Milliseconds(100));
  const CaptureRecord done = GetOrDie(id);
  ASSERT_TRUE(done.slowdown.known) << done.slowdown.unknown_reason;
  EXPECT_NEAR(done.slowdown.low, 0.2, 1e-9);
  EXPECT_EQ(done.slowdown.during_step_count, 9) << "the first step began before the window";
}

TEST_F(StepsAroundAWindowTest, StepsOfAnotherKindAreNotCompared) {
  targets_.Change(target_, [](TargetInfo& info) { info.step_source = StepSource::kDataLoader; });
  targets_.RunSteps(target_, 40, 1'000);
  const std::string id = CreateOrDie(target_, Steps(5)).id;
  targets_.Armed(id);
  Reach(id, RecordingPhase::kRecording, 142);
  targets_.Change(target_, [](TargetInfo& info) { info.step_source = StepSource::kOptimizer; });
  targets_.RunSteps(target_, 7, 40'000'000);
  Reach(id, RecordingPhase::kEnded, 147);
  manager_.DrainForTesting();
  targets_.Drained(id, Window(142, 147));
  const CaptureRecord done = GetOrDie(id);
  EXPECT_EQ(done.state, CaptureState::kComplete) << "there is nothing to wait for";
  EXPECT_FALSE(done.slowdown.known);
  EXPECT_THAT(done.slowdown.unknown_reason, HasSubstr("another kind"));
  EXPECT_EQ(QualityGrade(done), "B");
}

TEST_F(CaptureManagerTest, WithoutStepsTheSlowDownIsUnknownAndSaysWhy) {
  TargetInfo server = Training(10);
  server.step_mark_count = 0;
  server.current_step = -1;
  server.step_source = StepSource::kNone;
  const TargetNumber target = targets_.Add(server);
  CaptureSpec spec;
  spec.duration = absl::Seconds(2);
  const CaptureRecord created = CreateOrDie(target, spec);
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kRecording);
  manager_.DrainForTesting();
  Advance(absl::Seconds(2));
  DrainResult result;
  result.epoch_unix_ns = 5'000'000'000;
  result.event_count = 10;
  result.windows.push_back({.start_ns = 0, .end_ns = 2'000'500'000});
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kComplete);
  EXPECT_THAT(done.slowdown.unknown_reason, HasSubstr("has no steps"));
  EXPECT_EQ(QualityGrade(done), "B");
}

}  // namespace
}  // namespace profd
