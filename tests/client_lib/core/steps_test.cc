// Step marks, the status page, and windows that begin and end at marks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "client_lib/core/python_calls.h"
#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Phase;

profd_name g_work = PROFD_NAME_INIT("work");

// A child that marks a step at each 's' and stops at 'x'. One range lies in each step.
class StepsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    child_ = std::make_unique<Child>(daemon_.directory(), [](Parent& parent) {
      profd_init();
      WaitConnected();
      parent.Tell('c');
      for (uint64_t step = 0;; ++step) {
        parent.Await('s');
        profd_step();
        CHILD_EXPECT(profd_step_count() == step + 1);
        EmptyRange(&g_work);
        parent.Tell('s');
      }
    });
    target_ = daemon_.WaitTarget();
    child_->Await('c');
  }

  void Step(int count = 1) {
    for (int i = 0; i < count; ++i) {
      child_->Tell('s');
      child_->Await('s');
    }
  }

  static std::vector<uint64_t> StepsOf(const CaptureContents& contents, uint32_t window) {
    std::vector<uint64_t> steps;
    for (const auto& step : contents.steps) {
      if (step.window == window) steps.push_back(step.step);
    }
    return steps;
  }

  static uint64_t TicksOf(const CaptureContents& contents, uint64_t step) {
    for (const auto& mark : contents.steps) {
      if (mark.step == step) return mark.ticks;
    }
    return 0;
  }

  FakeDaemon daemon_;
  std::unique_ptr<Child> child_;
  std::unique_ptr<FakeTarget> target_;
};

TEST_F(StepsTest, TheStatusPageShowsTheLastMarks) {
  Step(70);
  wire::StatusPage& page = target_->status_page();
  EXPECT_EQ(page.step_mark_count.load(), 70u);
  EXPECT_EQ(page.step_thread.load(), static_cast<uint32_t>(child_->pid()));
  uint64_t before = 0;
  for (uint64_t step = 6; step < 70; ++step) {
    const wire::StatusStep& entry = page.steps[step % wire::kStatusPageSteps];
    EXPECT_EQ(entry.step_plus_1.load(), step + 1);
    EXPECT_GE(entry.ticks.load(), before);
    before = entry.ticks.load();
  }
}

TEST_F(StepsTest, AWindowHoldsItsStepsFromMarkToMark) {
  Step(3);
  auto capture = target_->Arm();
  EXPECT_EQ(capture->phase(), Phase::kArmed);
  capture->Fire(Steps(/*active=*/3, /*warmup=*/1));
  capture->WaitPhase(Phase::kWaiting);
  Step();  // 3: warm-up
  EXPECT_EQ(capture->phase(), Phase::kWarmup);
  Step();  // 4: recorded
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  Step(2);
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  Step();  // 7: ends it
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  Step(2);
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(3, 4, 5, 6, 7));
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, 4u);
  EXPECT_EQ(contents.windows[0].end_step, 7u);
  EXPECT_EQ(contents.windows[0].start_ticks, TicksOf(contents, 4));
  EXPECT_EQ(contents.windows[0].end_ticks, TicksOf(contents, 7));
  EXPECT_EQ(contents.ranges.size(), 4u);  // One of the warm-up.
  EXPECT_EQ(contents.current_step, 9u);
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_F(StepsTest, RepeatedWindowsAreNumbered) {
  auto capture = target_->Arm();
  capture->Fire(Steps(/*active=*/2, /*warmup=*/1, /*wait=*/1, /*repeat=*/3));
  capture->WaitPhase(Phase::kWaiting);
  Step(12);
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  Step();
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.windows.size(), 3u);
  for (uint32_t window = 0; window < 3; ++window) {
    const uint64_t base = window * 4;
    EXPECT_EQ(contents.windows[window].first_step, base + 2);
    EXPECT_EQ(contents.windows[window].end_step, base + 4);
    EXPECT_THAT(StepsOf(contents, window), ElementsAre(base + 1, base + 2, base + 3, base + 4));
  }
  EXPECT_EQ(contents.ranges.size(), 9u);
}

TEST_F(StepsTest, WindowsThatTouchBothHoldTheMarkBetweenThem) {
  auto capture = target_->Arm();
  capture->Fire(Steps(/*active=*/2, 0, 0, /*repeat=*/2));
  capture->WaitPhase(Phase::kWaiting);
  Step(5);
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(StepsOf(contents, 1), ElementsAre(2, 3, 4));
  ASSERT_EQ(contents.windows.size(), 2u);
  EXPECT_EQ(contents.windows[0].end_ticks, contents.windows[1].start_ticks);
}

TEST_F(StepsTest, OneStepWithoutWarmupIsOneStep) {
  auto capture = target_->Arm();
  capture->Fire(Steps(1));
  capture->WaitPhase(Phase::kWaiting);
  Step(2);
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1));
  EXPECT_EQ(contents.ranges.size(), 1u);
}

TEST_F(StepsTest, AnAbsoluteStartStepIsWaitedFor) {
  Step(3);
  auto capture = target_->Arm();
  capture->Fire(Steps(2, 1, 0, 1, /*base_step=*/6));
  capture->WaitPhase(Phase::kWaiting);
  Step(3);  // 3, 4, 5
  EXPECT_EQ(capture->phase(), Phase::kWaiting);
  Step();  // 6
  EXPECT_EQ(capture->phase(), Phase::kWarmup);
  Step(3);
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, 7u);
  EXPECT_EQ(contents.windows[0].end_step, 9u);
}

TEST_F(StepsTest, AStartStepInThePastIsMissed) {
  Step(10);
  auto capture = target_->Arm();
  capture->Fire(Steps(2, 1, 0, 1, /*base_step=*/8));  // Records from 9, which has begun.
  capture->WaitPhase(Phase::kMissed);
  Step(3);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.phase, Phase::kMissed);
  EXPECT_THAT(contents.windows, IsEmpty());
  EXPECT_THAT(contents.ranges, IsEmpty());
}

TEST_F(StepsTest, AWarmupThatHasBegunIsJoined) {
  Step(10);
  auto capture = target_->Arm();
  capture->Fire(Steps(2, /*warmup=*/3, 0, 1, /*base_step=*/8));  // Warm-up 8 9 10, records 11.
  capture->WaitPhase(Phase::kWaiting);
  Step();
  EXPECT_EQ(capture->phase(), Phase::kWarmup);
  Step(3);
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, 11u);
  EXPECT_EQ(contents.windows[0].end_step, 13u);
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(10, 11, 12, 13));
}

TEST_F(StepsTest, AWindowByTimeHoldsTheMarksInsideIt) {
  Step(2);
  auto capture = target_->Arm();
  capture->Fire(ByTime());
  capture->WaitPhase(Phase::kRecording);
  Step(2);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.phase, Phase::kEnded);
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, wire::kNextStep);
  EXPECT_EQ(contents.windows[0].end_step, wire::kNextStep);
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(2, 3));
  EXPECT_LT(contents.windows[0].start_ticks, TicksOf(contents, 2));
  EXPECT_GT(contents.windows[0].end_ticks, TicksOf(contents, 3));
}

TEST_F(StepsTest, StopInsideAWindowEndsItAfterTheLastWholeStep) {
  auto capture = target_->Arm();
  capture->Fire(Steps(10));
  capture->WaitPhase(Phase::kWaiting);
  Step(4);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.phase, Phase::kEnded);
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, 0u);
  EXPECT_EQ(contents.windows[0].end_step, 3u);
  EXPECT_GT(contents.windows[0].end_ticks, TicksOf(contents, 3));
  EXPECT_EQ(contents.ranges.size(), 4u);
  Step();
  EXPECT_EQ(capture->Read().steps.size(), contents.steps.size());
}

TEST_F(StepsTest, StopBeforeTheWindowLeavesNone) {
  auto capture = target_->Arm();
  capture->Fire(Steps(1, 0, /*wait=*/5));
  capture->WaitPhase(Phase::kWaiting);
  Step(2);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.phase, Phase::kEnded);
  EXPECT_THAT(contents.windows, IsEmpty());
  EXPECT_THAT(contents.ranges, IsEmpty());
}

TEST_F(StepsTest, ACaptureThatNeverFiredEndsEmpty) {
  auto capture = target_->Arm();
  Step(2);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.phase, Phase::kEnded);
  EXPECT_EQ(contents.current_step, 1u);
  EXPECT_THAT(contents.steps, IsEmpty());
}

TEST_F(StepsTest, ASecondFireIsIgnored) {
  auto capture = target_->Arm();
  capture->Fire(Steps(1));
  capture->Fire(Steps(50));
  capture->WaitPhase(Phase::kWaiting);
  Step(2);
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  capture->Finish();
}

TEST(StepThreadTest, MarksOfOtherTasksAreCountedAndMoveNothing) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_step_of_other_task();  // Starts nothing: it is no step.
    profd_init();
    WaitConnected();
    profd_step();
    profd_step_of_other_task();
    parent.Tell('a');
    WaitRecording();
    profd_step_of_other_task();
    profd_step();
    profd_step_of_other_task();
    CHILD_EXPECT(profd_step_count() == 2);
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('a');
  EXPECT_EQ(target->status_page().step_mark_count.load(), 1u);
  EXPECT_EQ(target->status_page().foreign_step_mark_count.load(), 1u);
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.steps.size(), 1u);
  EXPECT_EQ(contents.foreign_step_marks, 2u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(StepThreadTest, MarksOnOtherThreadsAreCountedAndMoveNothing) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    profd_step();
    std::thread([] {
      profd_step();
      profd_step();
    }).join();
    parent.Tell('a');
    WaitRecording();
    std::thread([] { profd_step(); }).join();
    profd_step();
    CHILD_EXPECT(profd_step_count() == 2);
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('a');
  EXPECT_EQ(target->status_page().step_mark_count.load(), 1u);
  EXPECT_EQ(target->status_page().foreign_step_mark_count.load(), 2u);
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.steps.size(), 1u);
  EXPECT_EQ(contents.foreign_step_marks, 1u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(StepThreadTest, TheFirstMarkStartsTheLibrary) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_step();
    profd_step();
    parent.Tell('m');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('m');
  target->WaitStepMarks(2);
  EXPECT_NE(target->status_page().steps[1].ticks.load(), 0u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(StepThreadTest, ANewDaemonSeesTheStepsMarkedBefore) {
  auto daemon = std::make_unique<FakeDaemon>();
  const std::string directory = daemon->directory();
  Child child(directory, [](Parent& parent) {
    profd_init();
    WaitConnected();
    for (int i = 0; i < 5; ++i) profd_step();
    parent.Tell('m');
    WaitDisconnected();
    profd_step();
    parent.Tell('l');
    WaitConnected();
    profd_step();
    parent.Tell('c');
    parent.Await('x');
  });
  auto target = daemon->WaitTarget();
  child.Await('m');
  target.reset();
  child.Await('l');
  target = daemon->Accept();
  target->ReadHello();
  EXPECT_EQ(target->hello().step_mark_count, 6u);
  target->SendWelcome();
  child.Await('c');
  wire::StatusPage& page = target->status_page();
  EXPECT_EQ(page.step_mark_count.load(), 7u);
  EXPECT_EQ(page.step_thread.load(), static_cast<uint32_t>(child.pid()));
  for (uint64_t step = 0; step < 7; ++step) {
    EXPECT_EQ(page.steps[step].step_plus_1.load(), step + 1);
  }
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
