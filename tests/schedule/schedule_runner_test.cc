#include "daemon/schedule/schedule_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/schedule/governor.h"
#include "tests/fakes/callers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_schedule_store.h"
#include "tests/fakes/fake_scheduled_captures.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

ScheduleSpec EveryMinute() {
  return {.every = absl::Minutes(1), .align = true, .capture = {.steps = 3}};
}

class ScheduleRunnerTest : public testing::Test {
 protected:
  ScheduleRunnerTest() {
    ledger_.SetLimit(quota::Resource::kSchedules, {.capacity = 4, .reserve = 1});
    store_.ledger = &ledger_;
    Restart();
  }

  void Restart() {
    runner_.reset();
    runner_ = std::make_unique<ScheduleRunner>(
        ScheduleRunner::Options{
            .node_name = "node1",
            .ledger = &ledger_,
            .rules = [this] { return rules_; },
            .on_attempt = [this](const ScheduledAttempt& attempt) { attempts_.push_back(attempt); },
            .on_window = [this](const ScheduleWindow& window) { told_.push_back(window.outcome); }},
        store_, captures_, targets_, clock_);
    EXPECT_THAT(runner_->Start(), IsOk());
  }
  TargetNumber AddTarget(int64_t pid, int64_t uid = kAlice.uid) {
    return targets_.Add({.pid = pid, .uid = uid, .process_start_ticks = 7, .command = "train.py"});
  }
  TargetNumber AddRank(int64_t pid, int64_t rank) {
    return targets_.Add({.pid = pid,
                         .uid = kAlice.uid,
                         .process_start_ticks = 7,
                         .command = "train.py",
                         .metadata = {{"job", "88123"}, {"rank", StrCat(rank)}}});
  }
  std::string CreateOrDie(const ScheduleSpec& spec, const Caller& caller = kAlice) {
    const auto view = runner_->Create(caller, spec, "");
    EXPECT_THAT(view, IsOk());
    return view.ok() ? view->record.id : "";
  }
  // To the next whole minute, and what is due then.
  void NextMinute() {
    const absl::Time now = clock_.Now();
    clock_.Advance(absl::FromUnixSeconds((absl::ToUnixSeconds(now) / 60 + 1) * 60) - now);
    runner_->RunTimersForTesting();
  }
  void EndLast(const std::function<void(CaptureRecord&)>& change = nullptr) {
    captures_.End(captures_.asked.back().id, change);
    runner_->DrainForTesting();
  }
  std::vector<WindowOutcome> Outcomes() const {
    std::vector<WindowOutcome> outcomes;
    for (const ScheduleWindow& window : store_.windows()) outcomes.push_back(window.outcome);
    return outcomes;
  }
  ScheduleWindow LastWindow() const { return store_.windows().back(); }

  FakeClock clock_;
  FakeTargetPort targets_;
  FakeScheduledCaptures captures_{targets_, clock_};
  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), clock_};
  FakeScheduleStore store_;
  std::shared_ptr<const AccessRules> rules_;
  std::vector<ScheduledAttempt> attempts_;
  std::vector<WindowOutcome> told_;
  std::unique_ptr<ScheduleRunner> runner_;
};

// ---- what a window does ----

TEST_F(ScheduleRunnerTest, AWindowCapturesWhatIsSelectedAsItsCreator) {
  const TargetNumber target = AddTarget(10);
  const std::string id = CreateOrDie(EveryMinute());
  NextMinute();
  ASSERT_THAT(captures_.asked, SizeIs(1));
  EXPECT_EQ(captures_.asked[0].target, target);
  EXPECT_EQ(captures_.asked[0].caller.principal.uid, kAlice.uid);
  EXPECT_EQ(captures_.asked[0].schedule.schedule_id, id);
  EXPECT_EQ(captures_.asked[0].schedule.window_unix_ns, absl::ToUnixNanos(clock_.Now()));
  ASSERT_THAT(attempts_, SizeIs(1));
  EXPECT_EQ(attempts_[0].creator.uid, kAlice.uid);

  EndLast();
  const ScheduleWindow window = LastWindow();
  EXPECT_EQ(window.outcome, WindowOutcome::kCaptured);
  EXPECT_EQ(window.capture_id, captures_.asked[0].id);
  EXPECT_EQ(window.pid, 10);
  EXPECT_EQ(window.bytes, 1 << 20);
  EXPECT_TRUE(window.ended);
}

TEST_F(ScheduleRunnerTest, BetweenWindowsItSleeps) {
  CreateOrDie(EveryMinute());
  const absl::Duration until = runner_->RunTimersForTesting() - clock_.Monotonic();
  EXPECT_EQ(absl::ToUnixSeconds(clock_.Now() + until) % 60, 0);
  EXPECT_GT(until, absl::ZeroDuration());
}

TEST_F(ScheduleRunnerTest, WithNothingToDoItSleepsForGood) {
  EXPECT_EQ(runner_->RunTimersForTesting(), absl::InfiniteDuration());
  const std::string id = CreateOrDie(EveryMinute());
  ASSERT_THAT(runner_->Delete(kAlice, id), IsOk());
  EXPECT_EQ(runner_->RunTimersForTesting(), absl::InfiniteDuration());
}

TEST_F(ScheduleRunnerTest, WithoutATargetTheWindowSaysSo) {
  CreateOrDie(EveryMinute());
  NextMinute();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kNoTarget));
}

TEST_F(ScheduleRunnerTest, OthersTargetsAreAsIfTheyWereNotThere) {
  AddTarget(10, kBob.uid);
  CreateOrDie(EveryMinute());
  NextMinute();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kNoTarget));
  EXPECT_THAT(captures_.asked, IsEmpty());
}

// Rules under which everybody may see everything, and capture nothing.
class SeeOnly final : public AccessRules {
 public:
  bool Allows(const Principal&, Verb verb, const Ownership&) const override {
    return verb == Verb::kList;
  }
  bool AllowsAny(const Principal&, Verb) const override { return true; }
  bool AllowsAll(const Principal&, Verb) const override { return false; }
};

TEST_F(ScheduleRunnerTest, RulesThatChangedTakeWhatACreatorMightDo) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  rules_ = std::make_shared<SeeOnly>();
  NextMinute();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kNotAllowed));
  EXPECT_THAT(captures_.asked, IsEmpty());
}

// Rules under which everybody may capture everything, but without stacks.
class NoStacks final : public AccessRules {
 public:
  bool Allows(const Principal&, Verb verb, const Ownership&) const override {
    return verb != Verb::kCaptureStacks;
  }
  bool AllowsAny(const Principal&, Verb) const override { return true; }
  bool AllowsAll(const Principal&, Verb) const override { return false; }
};

TEST_F(ScheduleRunnerTest, StacksNeedAVerbOfTheirOwn) {
  AddTarget(10);
  ScheduleSpec spec = EveryMinute();
  spec.capture.torch.stacks = true;
  CreateOrDie(spec);
  rules_ = std::make_shared<NoStacks>();
  NextMinute();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kNotAllowed));
  EXPECT_THAT(captures_.asked, IsEmpty());
}

TEST_F(ScheduleRunnerTest, WhoOptedOutIsNotSelected) {
  targets_.Add({.pid = 10, .uid = kAlice.uid, .opted_out = true});
  CreateOrDie(EveryMinute());
  NextMinute();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kNoTarget));
}

TEST_F(ScheduleRunnerTest, ABusyTargetIsLeftAlone) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  captures_.refuse = WithReason(absl::FailedPreconditionError("busy"), "TARGET_BUSY");
  NextMinute();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kBusy));
  captures_.refuse = WithReason(absl::FailedPreconditionError("off"), "CAPTURES_OFF");
  NextMinute();
  captures_.refuse = absl::InternalError("disk");
  NextMinute();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kBusy, WindowOutcome::kSwitchedOff,
                                      WindowOutcome::kFailed));
  EXPECT_THAT(LastWindow().detail, HasSubstr("disk"));
  EXPECT_THAT(attempts_, SizeIs(3));
}

TEST_F(ScheduleRunnerTest, ACaptureThatKeptNothingIsAFailedWindow) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  NextMinute();
  EndLast([](CaptureRecord& record) {
    record.state = CaptureState::kCancelled;
    record.ended_by = EndedBy::kPreempted;
    record.start_unix_ns = 0;
  });
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kFailed);
  EXPECT_EQ(LastWindow().detail, "preempted");
}

// ---- what a schedule may use ----

TEST_F(ScheduleRunnerTest, CapturesPerHourAreARollingHour) {
  AddTarget(10);
  ScheduleSpec spec = EveryMinute();
  spec.budget.captures_per_hour = 2;
  CreateOrDie(spec);
  for (int i = 0; i < 62; ++i) {
    const size_t before = captures_.asked.size();
    NextMinute();
    if (captures_.asked.size() > before) EndLast();
  }
  // Minutes 1, 2, and 61, 62: the first two are over an hour ago by then.
  EXPECT_THAT(captures_.asked, SizeIs(4));
  EXPECT_EQ(std::ranges::count(Outcomes(), WindowOutcome::kOverBudget), 58);
}

TEST_F(ScheduleRunnerTest, BytesPerDayBoundEveryCaptureAlsoWhileItRuns) {
  AddTarget(10);
  AddTarget(11);
  ScheduleSpec spec = EveryMinute();
  spec.budget.bytes_per_day = 8 << 20;
  CreateOrDie(spec);
  NextMinute();
  // Both get half of what there is, and nothing is left while they run.
  ASSERT_THAT(captures_.asked, SizeIs(2));
  EXPECT_EQ(captures_.asked[0].spec.max_bytes, 4 << 20);
  EXPECT_EQ(captures_.asked[1].spec.max_bytes, 4 << 20);
  NextMinute();
  EXPECT_THAT(captures_.asked, SizeIs(2));
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kOverBudget);
  // They took 1 MiB each: 6 are left.
  captures_.End(captures_.asked[0].id);
  captures_.End(captures_.asked[1].id);
  runner_->DrainForTesting();
  NextMinute();
  ASSERT_THAT(captures_.asked, SizeIs(4));
  EXPECT_EQ(captures_.asked[2].spec.max_bytes, 3 << 20);
}

TEST_F(ScheduleRunnerTest, ATimeShareKeepsATargetFreeInProportion) {
  AddTarget(10);
  ScheduleSpec spec = EveryMinute();
  spec.budget.time_share = 0.1;
  CreateOrDie(spec);
  NextMinute();
  clock_.Advance(absl::Seconds(30));  // 30 s: not again before 300 s have passed.
  EndLast();
  std::vector<WindowOutcome> outcomes;
  for (int i = 0; i < 5; ++i) {
    NextMinute();
    outcomes.push_back(LastWindow().outcome);
  }
  EXPECT_THAT(outcomes, ElementsAre(WindowOutcome::kOverBudget, WindowOutcome::kOverBudget,
                                    WindowOutcome::kOverBudget, WindowOutcome::kOverBudget,
                                    WindowOutcome::kCaptured));
}

TEST_F(ScheduleRunnerTest, ATimeShareHasNoRoomWhileACaptureRuns) {
  AddTarget(10);
  ScheduleSpec spec = EveryMinute();
  spec.budget.time_share = 0.5;
  CreateOrDie(spec);
  NextMinute();
  NextMinute();
  EXPECT_THAT(captures_.asked, SizeIs(1));
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kOverBudget);
  EXPECT_THAT(LastWindow().detail, HasSubstr("still runs"));
}

TEST_F(ScheduleRunnerTest, ACaptureWhoseTargetWasNotFreeInTimeIsBusy) {
  AddTarget(10);
  ScheduleSpec spec = EveryMinute();
  spec.budget.time_share = 0.001;
  spec.budget.captures_per_hour = 1;
  CreateOrDie(spec);
  NextMinute();
  EndLast([](CaptureRecord& record) {
    record.start_unix_ns = 0;
    record.state = CaptureState::kFailed;
    record.error_reason = "TARGET_BUSY";
    record.error_message = "target 10 has a live capture";
  });
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kBusy);
  EXPECT_EQ(LastWindow().detail, "target 10 has a live capture");
  // It cost nothing of the budgets.
  NextMinute();
  EXPECT_THAT(captures_.asked, SizeIs(2));
}

// ---- what a window costs ----

TEST_F(ScheduleRunnerTest, ATargetThatAWindowSlowedIsSparedTheNextOnes) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  const auto slow = [](CaptureRecord& record) {
    record.slowdown = {.known = true, .estimate = 0.08, .low = 0.06, .high = 0.1};
  };
  std::vector<size_t> captured_at;
  for (size_t minute = 0; minute < 12; ++minute) {
    const size_t before = captures_.asked.size();
    NextMinute();
    if (captures_.asked.size() == before) continue;
    captured_at.push_back(minute);
    EndLast(slow);
  }
  EXPECT_THAT(captured_at, ElementsAre(0, 2, 5, 10));  // 1, 2, 4 windows in between.
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kBackedOff);
}

// Windows by their number modulo 128, of two ranks: the second is slowed from window 5 on only.
TEST_F(ScheduleRunnerTest, RanksThatBackOffTakePartInTheSameWindows) {
  const int64_t minute = absl::ToUnixSeconds(clock_.Now()) / 60;
  clock_.Advance(absl::Minutes(128 - minute % 128));
  std::map<TargetNumber, std::vector<int64_t>> windows;
  const TargetNumber first = AddRank(10, 0);
  const TargetNumber second = AddRank(11, 1);
  CreateOrDie(EveryMinute());
  size_t ended = 0;
  for (int64_t window = 1; window <= 40; ++window) {
    NextMinute();
    for (; ended < captures_.asked.size(); ++ended) {
      const TargetNumber target = captures_.asked[ended].target;
      windows[target].push_back(window);
      const bool is_slow = target == first || window >= 5;
      captures_.End(captures_.asked[ended].id, [is_slow](CaptureRecord& record) {
        record.slowdown = {.known = true, .low = is_slow ? 0.06 : 0.01};
      });
      runner_->DrainForTesting();
    }
  }
  // Two in a row, then one in 2, 4, 8, ...
  EXPECT_THAT(windows[first], ElementsAre(1, 2, 4, 8, 16, 32));
  EXPECT_THAT(windows[second], ElementsAre(1, 2, 3, 4, 5, 6, 8, 12, 16, 32));
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kBackedOff);
  EXPECT_THAT(LastWindow().detail, HasSubstr("it takes part in one window in 32"));
}

TEST_F(ScheduleRunnerTest, ARankThatNoiseSlowedOnceIsInEveryWindow) {
  AddRank(10, 0);
  CreateOrDie(EveryMinute());
  for (int window = 0; window < 8; ++window) {
    NextMinute();
    ASSERT_EQ(LastWindow().outcome, WindowOutcome::kCaptured) << window;
    EndLast([window](CaptureRecord& record) {
      record.slowdown = {.known = true, .low = window % 2 == 0 ? 0.2 : 0.0};
    });
  }
}

TEST_F(ScheduleRunnerTest, ACaptureThatRunsIntoTheNextWindowIsJudgedAfterIt) {
  AddRank(10, 0);
  CreateOrDie(EveryMinute());
  const auto slow = [](CaptureRecord& record) { record.slowdown = {.known = true, .low = 0.2}; };
  for (size_t window = 0; window < 3; ++window) {
    NextMinute();
    ASSERT_THAT(captures_.asked, SizeIs(window + 1));
    if (window > 0) captures_.End(captures_.asked[window - 1].id, slow);
    runner_->DrainForTesting();
  }
  NextMinute();
  EXPECT_EQ(store_.windows().back().backoff_level, 1);
}

TEST_F(ScheduleRunnerTest, ATargetThatNoiseMayHaveSlowedIsNotSpared) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  NextMinute();
  EndLast([](CaptureRecord& record) {
    record.slowdown = {.known = true, .estimate = 3'521, .low = 0.049, .high = 9'000};
  });
  NextMinute();
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kCaptured);
  EndLast([](CaptureRecord& record) { record.slowdown = {.unknown_reason = "few steps"}; });
  NextMinute();
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kCaptured);
}

TEST_F(ScheduleRunnerTest, TheGovernorRemembersOverARestart) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  NextMinute();
  EndLast([](CaptureRecord& record) {
    record.slowdown = {.known = true, .estimate = 1, .low = 0.9, .high = 1.1};
  });
  Restart();
  NextMinute();
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kBackedOff);
  NextMinute();
  EndLast([](CaptureRecord& record) {
    record.slowdown = {.known = true, .estimate = 1, .low = 0.9, .high = 1.1};
  });
  NextMinute();
  Restart();
  NextMinute();
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kBackedOff);
  NextMinute();
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kCaptured);
}

TEST(GovernorTest, TheBackOffHasALimitAndEndsAtTheFirstGoodWindow) {
  Governor governor;
  for (int i = 0; i < 20; ++i) governor.Judge(1.0, 0.05);
  EXPECT_EQ(governor.skips_left(), 64);
  governor.Judge(std::nullopt, 0.05);
  EXPECT_EQ(governor.skips_left(), 64);
  governor.Judge(0.04, 0.05);
  EXPECT_FALSE(governor.Skip());
}

TEST(GovernorTest, WithoutALimitItNeverSkips) {
  Governor governor;
  governor.Judge(10, 0);
  EXPECT_FALSE(governor.Skip());
}

TEST(GovernorTest, WhatAFileSaysIsClamped) {
  EXPECT_EQ(Governor(99, 1'000'000).skips_left(), 64);
  EXPECT_FALSE(Governor(-5, -5).Skip());
}

// ---- pauses, ends, restarts, clocks ----

TEST_F(ScheduleRunnerTest, APausedScheduleRecordsItsWindows) {
  AddTarget(10);
  const std::string id = CreateOrDie(EveryMinute());
  ASSERT_THAT(runner_->SetPaused(kAlice, id, true), IsOk());
  ASSERT_THAT(runner_->SetPaused(kAlice, id, true), IsOk());
  Restart();
  NextMinute();
  ASSERT_THAT(runner_->SetPaused(kAlice, id, false), IsOk());
  NextMinute();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kPaused, WindowOutcome::kCaptured));
}

TEST_F(ScheduleRunnerTest, ADeletedScheduleKeepsItsHistoryAndDoesNothing) {
  AddTarget(10);
  const std::string id = CreateOrDie(EveryMinute());
  NextMinute();
  ASSERT_THAT(runner_->Delete(kAlice, id), IsOk());
  ASSERT_THAT(runner_->Delete(kAlice, id), IsOk());
  Restart();
  NextMinute();
  EXPECT_THAT(captures_.asked, SizeIs(1));
  EXPECT_EQ(runner_->Get(kAlice, id)->state, ScheduleState::kDeleted);
  EXPECT_THAT(*runner_->ListWindows(kAlice, id, 10, absl::InfiniteFuture(), 0), SizeIs(1));
  EXPECT_THAT(*runner_->List(kAlice, false, 10, ""), IsEmpty());
  EXPECT_THAT(*runner_->List(kAlice, true, 10, ""), SizeIs(1));
  EXPECT_EQ(ReasonOf(runner_->SetPaused(kAlice, id, true).status()), "SCHEDULE_DELETED");
}

TEST_F(ScheduleRunnerTest, AnEndedScheduleDoesNothingMore) {
  AddTarget(10);
  ScheduleSpec spec = EveryMinute();
  spec.end_time = clock_.Now() + absl::Seconds(90);
  const std::string id = CreateOrDie(spec);
  for (int i = 0; i < 4; ++i) NextMinute();
  EXPECT_THAT(captures_.asked, SizeIs(1));
  EXPECT_EQ(runner_->Get(kAlice, id)->state, ScheduleState::kEnded);
  EXPECT_EQ(runner_->RunTimersForTesting(), absl::InfiniteDuration());
}

TEST_F(ScheduleRunnerTest, WindowsThatPassedWhileItWasNotRunningAreMissed) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  NextMinute();
  EndLast();
  clock_.Advance(absl::Minutes(3));
  Restart();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kCaptured, WindowOutcome::kMissed,
                                      WindowOutcome::kMissed, WindowOutcome::kMissed));
  EXPECT_EQ(told_, Outcomes());
  NextMinute();
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kCaptured);
}

TEST_F(ScheduleRunnerTest, AWindowThatItComesToTooLateIsMissed) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  // Suspended, say.
  clock_.Advance(absl::Minutes(1) + ScheduleRunner::kMaxLateness + absl::Milliseconds(1));
  runner_->RunTimersForTesting();
  EXPECT_THAT(captures_.asked, IsEmpty());
  EXPECT_THAT(Outcomes(), Each(WindowOutcome::kMissed));
}

TEST_F(ScheduleRunnerTest, AfterAVeryLongTimeTheNewestMissedWindowsHaveRows) {
  CreateOrDie(EveryMinute());
  clock_.Advance(absl::Hours(24 * 365));
  Restart();
  const absl::Time start = clock_.Now();
  EXPECT_THAT(store_.windows(), IsEmpty()) << "it is not certain what time it is";
  for (int i = 0; i < 61; ++i) NextMinute();
  std::vector<ScheduleWindow> windows = store_.windows();
  std::erase_if(windows, [&](const ScheduleWindow& window) { return window.time > start; });
  ASSERT_THAT(windows, SizeIs(ScheduleRunner::kMaxMissedRows));
  EXPECT_THAT(windows.front().detail, HasSubstr("windows before it"));
  EXPECT_LE(start - windows.back().time, absl::Minutes(1));
}

TEST_F(ScheduleRunnerTest, AClockThatIsAheadAtTheStartFillsNoHistory) {
  CreateOrDie(EveryMinute());
  NextMinute();
  const ScheduleWindow first = LastWindow();
  clock_.Step(absl::Hours(24 * 200));
  Restart();
  EXPECT_THAT(Outcomes(), ElementsAre(WindowOutcome::kNoTarget));
  clock_.Step(-absl::Hours(24 * 200));
  runner_->RunTimersForTesting();
  for (int i = 0; i < 61; ++i) NextMinute();
  EXPECT_THAT(Outcomes(), Each(WindowOutcome::kNoTarget));
  EXPECT_EQ(store_.windows().front().time, first.time);
  EXPECT_THAT(store_.windows(), SizeIs(62));
}

// As on a node without a battery.
TEST_F(ScheduleRunnerTest, AClockThatBeginsIn1970FillsNoHistory) {
  CreateOrDie(EveryMinute());
  NextMinute();
  const absl::Time last_window = store_.ListSchedules()->front().last_window;
  clock_.Step(-absl::Hours(24 * 365 * 50));
  Restart();
  NextMinute();
  EXPECT_EQ(store_.ListSchedules()->front().last_window, last_window);
  clock_.Step(absl::Hours(24 * 365 * 50));
  runner_->RunTimersForTesting();
  for (int i = 0; i < 61; ++i) NextMinute();
  EXPECT_THAT(Outcomes(), Each(WindowOutcome::kNoTarget));
}

TEST_F(ScheduleRunnerTest, WindowsThatPassedBeforeAStartHaveRowsOnceTheClockIsCertain) {
  CreateOrDie(EveryMinute());
  NextMinute();
  clock_.Advance(absl::Hours(2));
  clock_.Step(absl::Hours(24 * 200));
  Restart();
  clock_.Step(-absl::Hours(24 * 200));
  runner_->RunTimersForTesting();
  EXPECT_THAT(Outcomes(), Each(WindowOutcome::kNoTarget));
  for (int i = 0; i < 61; ++i) NextMinute();
  EXPECT_EQ(std::ranges::count(Outcomes(), WindowOutcome::kMissed), 120);
}

TEST_F(ScheduleRunnerTest, EachWindowThatAClockSkipsHasOneRow) {
  CreateOrDie(EveryMinute());
  NextMinute();
  clock_.Step(absl::Hours(2));
  NextMinute();
  for (int i = 0; i < 61; ++i) NextMinute();
  std::vector<ScheduleWindow> windows = store_.windows();
  std::ranges::sort(windows, {}, &ScheduleWindow::time);
  EXPECT_EQ(std::ranges::adjacent_find(windows, {}, &ScheduleWindow::time), windows.end());
  EXPECT_THAT(windows, SizeIs(1 + 120 + 62));
  EXPECT_EQ(windows.back().time - windows.front().time, absl::Minutes(182));
}

TEST_F(ScheduleRunnerTest, TheNextStartKnowsThatTheClockWasSetBack) {
  ScheduleSpec daily = EveryMinute();
  daily.every = absl::Hours(24);
  CreateOrDie(daily);
  clock_.Advance(absl::Hours(25));
  runner_->RunTimersForTesting();
  clock_.Step(-absl::Hours(24 * 30));
  Restart();
  EXPECT_GT(store_.ListSchedules()->front().last_window, clock_.Now());
  clock_.Advance(absl::Hours(1));
  runner_->RunTimersForTesting();
  EXPECT_LE(store_.ListSchedules()->front().last_window, clock_.Now());
}

TEST_F(ScheduleRunnerTest, AClockThatWasSetBackDoesNotStopASchedule) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  clock_.Advance(absl::Hours(24 * 365));
  NextMinute();
  clock_.Advance(-absl::Hours(24 * 365));
  runner_->RunTimersForTesting();  // At most an hour later.
  captures_.asked.clear();
  NextMinute();
  EXPECT_THAT(captures_.asked, SizeIs(1));
}

// As on a node without a battery, which begins in 1970 until it hears the time.
TEST_F(ScheduleRunnerTest, AClockThatWasSetForwardByYearsSkipsWhatNobodyAsksFor) {
  CreateOrDie(EveryMinute());
  clock_.Advance(absl::Hours(24 * 365 * 50));
  runner_->RunTimersForTesting();
  const std::vector<ScheduleWindow> windows = store_.windows();
  const int64_t minutes = absl::ToInt64Minutes(kScheduleHistory);
  // The last one is due now.
  EXPECT_EQ(windows.size(), ScheduleRunner::kMaxMissedRows + 1);
  EXPECT_THAT(windows.front().detail,
              HasSubstr(StrCat("and ", minutes - 1 - ScheduleRunner::kMaxMissedRows, " windows")));
}

TEST_F(ScheduleRunnerTest, ACaptureThatADeadDaemonLeftIsClosed) {
  AddTarget(10);
  const std::string id = CreateOrDie(EveryMinute());
  NextMinute();
  runner_.reset();  // Dead: nobody hears of the end.
  captures_.Change(captures_.asked[0].id, [](CaptureRecord& record) {
    record.state = CaptureState::kFailed;
    record.ended_by = EndedBy::kDaemonStop;
  });
  Restart();
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kFailed);
  EXPECT_EQ(LastWindow().detail, "daemon_stop");
  EXPECT_TRUE(LastWindow().ended);
}

// ---- who may ----

TEST_F(ScheduleRunnerTest, CreatingAgainGivesTheSameAndNothingElse) {
  const auto first = runner_->Create(kAlice, EveryMinute(), "01HZZZZZZZZZZZZZZZZZZZZZZA");
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(runner_->Create(kAlice, EveryMinute(), first->record.id), IsOk());
  ScheduleSpec other = EveryMinute();
  other.capture.steps = 4;
  EXPECT_EQ(ReasonOf(runner_->Create(kAlice, other, first->record.id).status()), "SCHEDULE_EXISTS");
  EXPECT_EQ(ReasonOf(runner_->Create(kBob, EveryMinute(), first->record.id).status()),
            "SCHEDULE_EXISTS");
  EXPECT_THAT(*runner_->List(kRoot, true, 10, ""), SizeIs(1));
}

TEST_F(ScheduleRunnerTest, AnIdThatIsNoneIsRefused) {
  EXPECT_THAT(runner_->Create(kAlice, EveryMinute(), "../etc"), StatusIs(Code::kInvalidArgument));
}

TEST_F(ScheduleRunnerTest, ANodeTakesOnlySoMany) {
  const std::string first = CreateOrDie(EveryMinute());
  CreateOrDie(EveryMinute());
  CreateOrDie(EveryMinute());
  EXPECT_EQ(ReasonOf(runner_->Create(kAlice, EveryMinute(), "").status()), "QUOTA_EXCEEDED");
  ASSERT_THAT(runner_->Delete(kAlice, first), IsOk());
  EXPECT_THAT(runner_->Create(kAlice, EveryMinute(), ""), IsOk());
}

TEST_F(ScheduleRunnerTest, DeletedSchedulesCountAndMakeRoom) {
  const std::string first = CreateOrDie(EveryMinute());
  const std::string second = CreateOrDie(EveryMinute());
  ASSERT_THAT(runner_->Delete(kAlice, first), IsOk());
  clock_.Advance(absl::Seconds(1));
  ASSERT_THAT(runner_->Delete(kAlice, second), IsOk());
  const quota::Principal alice = quota::PrincipalFromName("uid:1000", geteuid());
  EXPECT_EQ(ledger_.Use(alice, quota::Resource::kSchedules), 2);
  CreateOrDie(EveryMinute());
  CreateOrDie(EveryMinute());
  EXPECT_EQ(ledger_.Use(alice, quota::Resource::kSchedules), 3);
  EXPECT_THAT(runner_->Get(kAlice, first), StatusIs(Code::kNotFound));
  EXPECT_EQ(runner_->Get(kAlice, second)->state, ScheduleState::kDeleted);
}

TEST_F(ScheduleRunnerTest, OnePrincipalDoesNotTakeTheSchedulesOfAll) {
  for (int i = 0; i < 3; ++i) CreateOrDie(EveryMinute());
  const absl::Status refused = runner_->Create(kAlice, EveryMinute(), "").status();
  EXPECT_EQ(ReasonOf(refused), "QUOTA_EXCEEDED");
  EXPECT_THAT(refused, StatusIs(Code::kResourceExhausted,
                                AllOf(HasSubstr("quota 'schedules' of uid:1000"),
                                      HasSubstr("largest holder: uid:1000 with 3"))));
  const absl::Status of_bob = runner_->Create(kBob, EveryMinute(), "").status();
  EXPECT_THAT(of_bob,
              StatusIs(Code::kResourceExhausted, HasSubstr("largest holder: uid 1000 with 3")));
  EXPECT_THAT(runner_->Create(kRoot, EveryMinute(), ""), IsOk()) << "the reserve";
  const auto root = runner_->Create(kRoot, EveryMinute(), "");
  EXPECT_EQ(ReasonOf(root.status()), "QUOTA_EXCEEDED") << "all 4 are taken";
}

TEST_F(ScheduleRunnerTest, RecordsOfDeletedSchedulesCountToo) {
  store_.record_bytes = 1 << 20;
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(runner_->Delete(kAlice, CreateOrDie(EveryMinute())), IsOk());
  }
  EXPECT_THAT(runner_->Create(kAlice, EveryMinute(), ""),
              StatusIs(Code::kResourceExhausted, HasSubstr("2097152 bytes")));
  EXPECT_THAT(runner_->Create(kBob, EveryMinute(), ""), IsOk());
}

TEST_F(ScheduleRunnerTest, IdsOfDeletedSchedulesAreTaken) {
  const std::string id = CreateOrDie(EveryMinute());
  ASSERT_THAT(runner_->Delete(kAlice, id), IsOk());
  EXPECT_EQ(ReasonOf(runner_->Create(kAlice, EveryMinute(), id).status()), "SCHEDULE_EXISTS");
  EXPECT_EQ(runner_->Get(kAlice, id.substr(0, 20))->record.id, id);
}

TEST_F(ScheduleRunnerTest, OthersSchedulesAreNotThere) {
  const std::string id = CreateOrDie(EveryMinute());
  EXPECT_THAT(runner_->Get(kBob, id), StatusIs(Code::kNotFound));
  EXPECT_THAT(runner_->SetPaused(kBob, id, true), StatusIs(Code::kNotFound));
  EXPECT_THAT(runner_->Delete(kBob, id), StatusIs(Code::kNotFound));
  EXPECT_THAT(runner_->ListWindows(kBob, id, 10, absl::InfiniteFuture(), 0),
              StatusIs(Code::kNotFound));
  EXPECT_THAT(*runner_->List(kBob, true, 10, ""), IsEmpty());
  EXPECT_EQ(runner_->Get(kRoot, id)->state, ScheduleState::kActive);
}

TEST_F(ScheduleRunnerTest, WhoMaySeeMayNotChange) {
  const std::string id = CreateOrDie(EveryMinute());
  const Caller viewer{.uid = 2000, .rules = std::make_shared<SeeOnly>()};
  EXPECT_THAT(runner_->Get(viewer, id), IsOk());
  EXPECT_THAT(runner_->Delete(viewer, id), StatusIs(Code::kPermissionDenied));
  EXPECT_EQ(runner_->Get(kAlice, id)->state, ScheduleState::kActive);
}

TEST_F(ScheduleRunnerTest, ARemotePrincipalOwnsWhatItMade) {
  Caller remote{.uid = -1, .principal = {.common_name = "carol"}};
  remote.rules = std::make_shared<SeeOnly>();  // Which says that carol may schedule something.
  const std::string id = CreateOrDie(EveryMinute(), remote);
  EXPECT_THAT(runner_->Delete(remote, id), IsOk());
}

TEST_F(ScheduleRunnerTest, AUniquePrefixWillDoAndAnotherIsToldApart) {
  ASSERT_THAT(runner_->Create(kAlice, EveryMinute(), "01HZZZZZZZZZZZZZZZZZZZZZZA"), IsOk());
  ASSERT_THAT(runner_->Create(kAlice, EveryMinute(), "01HZZZZZZZZZZZZZZZZZZZZZZB"), IsOk());
  ASSERT_THAT(runner_->Create(kBob, EveryMinute(), "01J00000000000000000000000"), IsOk());
  EXPECT_THAT(runner_->Get(kBob, "01J"), IsOk());
  EXPECT_EQ(ReasonOf(runner_->Get(kAlice, "01H").status()), "AMBIGUOUS_ID");
  // Others' do not make it ambiguous, nor known.
  EXPECT_THAT(runner_->Get(kBob, "01"), IsOk());
  EXPECT_THAT(runner_->Get(kAlice, "01J"), StatusIs(Code::kNotFound));
}

TEST_F(ScheduleRunnerTest, ADeletedScheduleIsFoundAfterHundredsOfOthers) {
  const std::string id = "01HZZZZZZZZZZZZZZZZZZZZZZA";
  ASSERT_THAT(runner_->Create(kAlice, EveryMinute(), id), IsOk());
  ASSERT_THAT(runner_->Delete(kAlice, id), IsOk());
  for (int i = 0; i < 250; ++i) {
    const ScheduleRecord others = {.id = StrCat("01H00000000000000000000", 100 + i),
                                   .creator = {.uid = kBob.uid},
                                   .create_time = clock_.Now(),
                                   .delete_time = clock_.Now()};
    ASSERT_THAT(store_.InsertSchedule(others), IsOk());
  }
  const auto found = runner_->Get(kAlice, "01H");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->record.id, id);
}

TEST_F(ScheduleRunnerTest, AHistoryThatCannotBeWrittenStopsNothing) {
  AddTarget(10);
  CreateOrDie(EveryMinute());
  store_.error = absl::ResourceExhaustedError("disk full");
  NextMinute();
  store_.error = absl::OkStatus();
  NextMinute();
  EXPECT_EQ(LastWindow().outcome, WindowOutcome::kCaptured);
}

}  // namespace
}  // namespace profd
