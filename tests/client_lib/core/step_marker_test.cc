// Steps that are the begins of a range: windows, threads, and what they leave alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::Phase;

profd_name g_iteration = PROFD_NAME_INIT("iteration");
profd_name g_marked = PROFD_NAME_INIT("work");

void Iterate() {
  profd_range_begin(&g_iteration);
  EmptyRange(&g_marked);
  profd_range_end();
}

void Recurse(int depth) {
  profd_range_begin(&g_iteration);
  if (depth > 1) Recurse(depth - 1);
  if (depth > 1) Iterate();
  profd_range_end();
}

// A child that does what it is told, a letter each:
//   i  an iteration: range "iteration" around range "work"
//   b  an iteration begun by its name's id, as bindings do
//   n  one iteration inside another
//   r  an iteration that calls itself: two inside one, the first with one of its own
//   t  one inside another on another thread
//   e  an iteration that another thread ends, as of asyncio
//   a  an iteration that begins before the last one of asyncio ends
//   o  an iteration on another thread
//   s  profd_step()
//   w  range "work" alone
class StepMarkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    child_ = std::make_unique<Child>(daemon_.directory(), [](Parent& parent) {
      profd_init();
      WaitConnected();
      parent.Tell('c');
      uint64_t last_task = 0;
      for (;;) {
        const char command = parent.Next();
        switch (command) {
          case 'i':
            Iterate();
            break;
          case 'b':
            profd_range_begin_id(profd_intern("iteration", 9));
            profd_range_end_id();
            break;
          case 'n':
            profd_range_begin(&g_iteration);
            Iterate();
            profd_range_end();
            break;
          case 'r':
            Recurse(3);
            break;
          case 't':
            std::thread([] { Recurse(2); }).join();
            break;
          case 'e': {
            const uint64_t range = profd_range_open_id(profd_intern("iteration", 9));
            std::thread([range] { profd_range_close(range); }).join();
            break;
          }
          case 'a': {
            const uint64_t range = profd_range_open_id(profd_intern("iteration", 9));
            if (last_task != 0) profd_range_close(last_task);
            last_task = range;
            break;
          }
          case 'o':
            std::thread(Iterate).join();
            break;
          case 's':
            profd_step();
            break;
          default:
            EmptyRange(&g_marked);
        }
        parent.Tell(command);
      }
    });
    target_ = daemon_.WaitTarget();
    child_->Await('c');
  }

  void Do(const std::string& commands) {
    for (const char command : commands) {
      child_->Tell(command);
      child_->Await(command);
    }
  }

  std::unique_ptr<FakeCapture> ArmAndFire(const wire::FireBody& plan,
                                          const std::string& marker = "iteration") {
    auto capture = target_->ArmByMarker(marker);
    capture->Fire(plan);
    capture->WaitPhase(Phase::kWaiting);
    // The flag goes on behind the phase.
    WaitUntil("recording", [&] {
      Do("w");
      return capture->Read().CountRanges("work") > 0;
    });
    return capture;
  }

  static std::vector<uint64_t> StepsOf(const CaptureContents& contents, uint32_t window) {
    std::vector<uint64_t> steps;
    for (const auto& step : contents.steps) {
      if (step.window == window) steps.push_back(step.step);
    }
    return steps;
  }

  static uint64_t CountInside(const CaptureContents& contents, const std::string& name,
                              const CaptureContents::Window& window) {
    uint64_t count = 0;
    for (const auto& range : contents.ranges) {
      count += range.name == name && range.start_ticks >= window.start_ticks &&
               range.start_ticks + range.duration_ticks <= window.end_ticks;
    }
    return count;
  }

  FakeDaemon daemon_;
  std::unique_ptr<Child> child_;
  std::unique_ptr<FakeTarget> target_;
};

TEST_F(StepMarkerTest, EveryBeginIsAStepOfTheCaptureAlone) {
  auto capture = ArmAndFire(Steps(/*active=*/2));
  Do("i");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  EXPECT_EQ(capture->header().current_step.load(), 0u);
  Do("i");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  EXPECT_EQ(capture->header().current_step.load(), 1u);
  Do("i");  // Step 2 ends the window, and is none of it.
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  Do("ii");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1, 2));
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, 0u);
  EXPECT_EQ(contents.windows[0].end_step, 2u);
  EXPECT_EQ(contents.windows[0].start_ticks, contents.steps[0].ticks);
  EXPECT_EQ(contents.windows[0].end_ticks, contents.steps[2].ticks);
  EXPECT_EQ(contents.CountRanges("iteration"), 2u);
  EXPECT_EQ(CountInside(contents, "iteration", contents.windows[0]), 2u);
  EXPECT_EQ(contents.foreign_step_marks, 0u);
  EXPECT_EQ(contents.dropped(), 0u);
  EXPECT_EQ(target_->status_page().step_mark_count.load(), 0u);
  EXPECT_EQ(target_->status_page().foreign_step_mark_count.load(), 0u);
}

TEST_F(StepMarkerTest, ARangeIsItsNameHoweverItIsBegun) {
  auto capture = ArmAndFire(Steps(/*active=*/2));
  Do("bib");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  EXPECT_EQ(capture->Finish().CountRanges("iteration"), 2u);
}

TEST_F(StepMarkerTest, TheTimeFromFireOnIsWarmUpOfTheFirstWindow) {
  auto capture = ArmAndFire(Steps(/*active=*/1, /*warmup=*/1, /*wait=*/1));
  Do("wi");
  EXPECT_EQ(capture->phase(), Phase::kWaiting);
  Do("i");
  EXPECT_EQ(capture->phase(), Phase::kWarmup);
  Do("i");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  Do("i");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1, 2, 3));
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, 2u);
  EXPECT_EQ(CountInside(contents, "iteration", contents.windows[0]), 1u);
  EXPECT_EQ(contents.CountRanges("iteration"), 3u);
  for (const auto& range : contents.ranges) EXPECT_EQ(range.window, 0u);
}

TEST_F(StepMarkerTest, WindowsRepeatWithTheirOwnWaitAndWarmUp) {
  auto capture = ArmAndFire(Steps(/*active=*/2, /*warmup=*/1, /*wait=*/1, /*repeat=*/3));
  Do("iiiiiiiiiiii");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  Do("i");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.windows.size(), 3u);
  for (uint32_t window = 0; window < 3; ++window) {
    const uint64_t base = window * 4;
    EXPECT_EQ(contents.windows[window].first_step, base + 2);
    EXPECT_EQ(contents.windows[window].end_step, base + 4);
    EXPECT_THAT(StepsOf(contents, window),
                ElementsAre(base, base + 1, base + 2, base + 3, base + 4));
    EXPECT_EQ(CountInside(contents, "iteration", contents.windows[window]), 2u);
  }
  EXPECT_EQ(contents.CountRanges("iteration"), 12u);
}

TEST_F(StepMarkerTest, WindowsThatTouchBothHoldTheMarkBetweenThem) {
  auto capture = ArmAndFire(Steps(/*active=*/1, 0, 0, /*repeat=*/2));
  Do("iii");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1));
  EXPECT_THAT(StepsOf(contents, 1), ElementsAre(1, 2));
  ASSERT_EQ(contents.windows.size(), 2u);
  EXPECT_EQ(contents.windows[0].end_ticks, contents.windows[1].start_ticks);
}

TEST_F(StepMarkerTest, OfRangesInsideOneAnotherTheOutermostIsAStep) {
  auto capture = ArmAndFire(Steps(/*active=*/2));
  Do("n");
  EXPECT_EQ(capture->header().current_step.load(), 0u);
  Do("r");
  EXPECT_EQ(capture->header().current_step.load(), 1u);
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  Do("i");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1, 2));
  EXPECT_EQ(contents.foreign_step_marks, 0u);
  // The others are ranges as any.
  EXPECT_EQ(CountInside(contents, "iteration", contents.windows.at(0)), 7u);
}

TEST_F(StepMarkerTest, NestedRangesMoveNoWindowOfARepeatedPlan) {
  auto capture = ArmAndFire(Steps(/*active=*/1, /*warmup=*/1, /*wait=*/0, /*repeat=*/2));
  Do("nrnr");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  Do("n");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(StepsOf(contents, 1), ElementsAre(2, 3, 4));
}

TEST_F(StepMarkerTest, OfNestedRangesOfOtherThreadsTheOutermostIsCounted) {
  auto capture = ArmAndFire(Steps(/*active=*/2));
  Do("itt");
  EXPECT_EQ(capture->header().current_step.load(), 0u);
  EXPECT_EQ(capture->Finish().foreign_step_marks, 2u);
}

TEST_F(StepMarkerTest, ARangeThatAnotherThreadEndedIsNotOpen) {
  auto capture = ArmAndFire(Steps(/*active=*/2));
  Do("ee");
  EXPECT_EQ(capture->header().current_step.load(), 1u);
  Do("i");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  EXPECT_THAT(StepsOf(capture->Finish(), 0), ElementsAre(0, 1, 2));
}

// At any time one of them is open, so that none would be an outermost one.
TEST_F(StepMarkerTest, RangesOfTasksThatOverlapAreAllSteps) {
  auto capture = ArmAndFire(Steps(/*active=*/2));
  Do("aa");
  EXPECT_EQ(capture->header().current_step.load(), 1u);
  Do("a");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  EXPECT_THAT(StepsOf(capture->Finish(), 0), ElementsAre(0, 1, 2));
}

TEST_F(StepMarkerTest, BeginsOnOtherThreadsAreCountedAndMoveNothing) {
  auto capture = ArmAndFire(Steps(/*active=*/2));
  Do("iooo");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  EXPECT_EQ(capture->header().current_step.load(), 0u);
  Do("ii");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.foreign_step_marks, 3u);
  EXPECT_EQ(CountInside(contents, "iteration", contents.windows.at(0)), 5u);
}

TEST_F(StepMarkerTest, TheFirstThreadThatBeginsItMarks) {
  auto capture = ArmAndFire(Steps(/*active=*/1));
  Do("o");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  Do("ii");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.foreign_step_marks, 2u);
  EXPECT_EQ(contents.steps.size(), 1u);
}

TEST_F(StepMarkerTest, TheProgramsOwnStepsAreCountedAndMoveNothing) {
  Do("ss");
  auto capture = ArmAndFire(Steps(/*active=*/2));
  Do("sissi");
  EXPECT_EQ(capture->phase(), Phase::kRecording);
  EXPECT_EQ(capture->header().current_step.load(), 1u);
  Do("i");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.phase, Phase::kEnded);
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1, 2));
  EXPECT_EQ(contents.foreign_step_marks, 3u);
  // The process has its own count, and no foreign marks.
  EXPECT_EQ(target_->status_page().step_mark_count.load(), 5u);
  EXPECT_EQ(target_->status_page().foreign_step_mark_count.load(), 0u);
}

TEST_F(StepMarkerTest, WithoutABeginThereIsNoWindow) {
  auto capture = ArmAndFire(Steps(/*active=*/1), "never");
  Do("isw");
  EXPECT_EQ(capture->phase(), Phase::kWaiting);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.phase, Phase::kEnded);
  EXPECT_THAT(contents.windows, IsEmpty());
  EXPECT_THAT(contents.steps, IsEmpty());
}

TEST_F(StepMarkerTest, OnlyExactlyThatNameCounts) {
  auto capture = ArmAndFire(Steps(/*active=*/1), "iter");
  Do("ii");
  EXPECT_EQ(capture->phase(), Phase::kWaiting);
  capture->Finish();
}

TEST_F(StepMarkerTest, StopInsideAWindowEndsItAfterTheLastWholeStep) {
  auto capture = ArmAndFire(Steps(/*active=*/10));
  Do("iii");
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].first_step, 0u);
  EXPECT_EQ(contents.windows[0].end_step, 2u);
  EXPECT_GT(contents.windows[0].end_ticks, contents.steps.back().ticks);
}

TEST_F(StepMarkerTest, TheNextCaptureHasThePlainStepsAgain) {
  auto by_marker = ArmAndFire(Steps(/*active=*/1));
  Do("ii");
  by_marker->Finish();
  auto capture = target_->Arm();
  capture->Fire(Steps(/*active=*/1));
  capture->WaitPhase(Phase::kWaiting);
  Do("isiis");
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0, 1));
  EXPECT_EQ(contents.CountRanges("iteration"), 2u);
}

TEST_F(StepMarkerTest, ASecondCaptureCountsFromZeroAndOnAnyThread) {
  auto first = ArmAndFire(Steps(/*active=*/1));
  Do("ii");
  first->Finish();
  auto second = ArmAndFire(Steps(/*active=*/1));
  Do("o");
  const CaptureContents contents = second->Finish();
  EXPECT_THAT(StepsOf(contents, 0), ElementsAre(0));
  EXPECT_EQ(contents.foreign_step_marks, 0u);
}

}  // namespace
}  // namespace profd::testing
