// Captures that a schedule asks for, beside those that somebody does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "daemon/base/reason.h"
#include "daemon/capture/capture_manager.h"
#include "tests/fakes/callers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_store.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

CaptureSpec Steps(int64_t steps) { return CaptureSpec{.steps = steps}; }

TargetInfo Training(int64_t pid) {
  return TargetInfo{.pid = pid,
                    .uid = kAlice.uid,
                    .state = TargetState::kRunning,
                    .step_mark_count = 101,
                    .current_step = 100,
                    .steps_per_second = 100};
}

// What ingest reports for one window of steps [first, end) of 1 ms each.
DrainResult Window(int64_t first, int64_t end, bool complete = true) {
  DrainResult result;
  result.epoch_unix_ns = 5'000'000'000;
  result.windows.push_back({.start_ns = 1'000,
                            .end_ns = 1'000 + (end - first) * 1'000'000,
                            .first_step = first,
                            .end_step = end,
                            .complete = complete});
  return result;
}

class ScheduledCaptureTest : public testing::Test {
 protected:
  ScheduledCaptureTest() { targets_.SetObserver(&manager_); }
  // What a test left live ends here, as ingest would end it.
  void TearDown() override {
    targets_.AnswerByItself(DrainResult());
    for (const CaptureRecord& record : manager_.Live()) {
      targets_.Drained(record.id, DrainResult());
    }
  }

  CaptureRecord CreateOrDie(TargetNumber target, const CaptureSpec& spec) {
    absl::StatusOr<CaptureRecord> record = manager_.Create(kAlice, target, spec, "");
    EXPECT_THAT(record, IsOk());
    return record.ok() ? *record : CaptureRecord();
  }
  CaptureRecord CreateScheduledOrDie(TargetNumber target) {
    absl::StatusOr<CaptureRecord> record =
        manager_.CreateScheduled(kAlice, target, Steps(5),
                                 {.schedule_id = "S1", .window_unix_ns = 77, .sampling_weight = 20},
                                 [this](const CaptureRecord& now) { told_.push_back(now.state); });
    EXPECT_THAT(record, IsOk());
    return record.ok() ? *record : CaptureRecord();
  }
  CaptureRecord GetOrDie(std::string_view id) {
    manager_.DrainForTesting();
    absl::StatusOr<CaptureRecord> record = manager_.Get(kRoot, id);
    EXPECT_THAT(record, IsOk());
    return record.ok() ? *record : CaptureRecord();
  }

  // Rank `pid` of a job, to begin at a step of the grid of 16 with a lead of 8.
  CaptureRecord CreateCommonOrDie(TargetNumber target, absl::Duration until_decision,
                                  std::string_view job = "88123") {
    absl::StatusOr<CaptureRecord> record = manager_.CreateScheduled(
        kAlice, target, Steps(5),
        {.schedule_id = "S1",
         .window_unix_ns = 77,
         .common_start = CommonStart{.job = std::string(job),
                                     .grid = 16,
                                     .offset = 3,
                                     .lead = 8,
                                     .decision = clock_.Now() + until_decision}},
        [this](const CaptureRecord& now) { told_.push_back(now.state); });
    EXPECT_THAT(record, IsOk());
    return record.ok() ? *record : CaptureRecord();
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    manager_.RunTimersForTesting();
  }

  FakeClock clock_;
  FakeTargetPort targets_;
  FakeStore store_;
  std::vector<CaptureState> told_;  // By on_change, on the manager's thread.
  CaptureManager manager_{{.node_name = "node1"}, targets_, store_, clock_};
};

TEST_F(ScheduledCaptureTest, ACaptureOfAScheduleSaysSoAndItsEndIsTold) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord record = CreateScheduledOrDie(target);
  EXPECT_EQ(record.schedule_id, "S1");
  EXPECT_EQ(record.schedule_window_unix_ns, 77);
  EXPECT_EQ(record.sampling_weight, 20);
  targets_.Armed(record.id);
  targets_.Drained(record.id, Window(102, 107));
  EXPECT_EQ(GetOrDie(record.id).state, CaptureState::kComplete);
  ASSERT_FALSE(told_.empty());
  EXPECT_EQ(told_.back(), CaptureState::kComplete);
}

TEST_F(ScheduledCaptureTest, AScheduleTakesNoTargetFromAnybody) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord record = CreateOrDie(target, Steps(5));
  const auto refused = manager_.CreateScheduled(kAlice, target, Steps(5), {}, nullptr);
  EXPECT_EQ(ReasonOf(refused.status()), "TARGET_BUSY");
  EXPECT_EQ(GetOrDie(record.id).ended_by, EndedBy::kNone);
}

TEST_F(ScheduledCaptureTest, ARequestCancelsASchedulesCaptureAndGoesOnByItself) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord sampled = CreateScheduledOrDie(target);
  targets_.Armed(sampled.id);
  const CaptureRecord asked = CreateOrDie(target, Steps(5));
  EXPECT_EQ(asked.state, CaptureState::kPending);
  EXPECT_EQ(targets_.arms().size(), 1U);  // The target is still draining the other.
  ASSERT_THAT(targets_.stops(), ElementsAre(sampled.id));

  targets_.Drained(sampled.id, Window(102, 104, false));
  const CaptureRecord ended = GetOrDie(sampled.id);
  EXPECT_EQ(ended.state, CaptureState::kCancelled);
  EXPECT_EQ(ended.ended_by, EndedBy::kPreempted);
  EXPECT_EQ(ended.covered_steps, 2);  // What it had is kept.
  ASSERT_EQ(targets_.arms().size(), 2U);
  targets_.Armed(asked.id);
  targets_.Drained(asked.id, Window(110, 115));
  EXPECT_EQ(GetOrDie(asked.id).state, CaptureState::kComplete);
}

TEST_F(ScheduledCaptureTest, WhoeverComesAfterTheOneThatWaitsIsRefusedByItsName) {
  const TargetNumber target = targets_.Add(Training(10));
  CreateScheduledOrDie(target);
  const CaptureRecord asked = CreateOrDie(target, Steps(5));
  const auto refused = manager_.Create(kRoot, target, Steps(5), "");
  EXPECT_EQ(ReasonOf(refused.status()), "TARGET_BUSY");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(asked.id));
}

TEST_F(ScheduledCaptureTest, ARequestThatWaitsCanBeCancelled) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord sampled = CreateScheduledOrDie(target);
  targets_.Armed(sampled.id);
  const CaptureRecord asked = CreateOrDie(target, Steps(5));
  const auto cancelled = manager_.Cancel(kAlice, asked.id);
  ASSERT_THAT(cancelled, IsOk());
  EXPECT_EQ(cancelled->state, CaptureState::kCancelled);
  targets_.Drained(sampled.id, DrainResult());
  manager_.DrainForTesting();
  EXPECT_EQ(targets_.arms().size(), 1U);
}

TEST_F(ScheduledCaptureTest, ATargetThatGoesEndsAlsoTheRequestThatWaitsForIt) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord sampled = CreateScheduledOrDie(target);
  targets_.Armed(sampled.id);
  const CaptureRecord asked = CreateOrDie(target, Steps(5));
  targets_.Remove(target);
  EXPECT_EQ(GetOrDie(asked.id).state, CaptureState::kFailed);
  EXPECT_TRUE(IsTerminal(GetOrDie(sampled.id).state));
}

TEST_F(ScheduledCaptureTest, ARequestThatFindsItsTargetUnwillingSaysSoOnItsRecord) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord sampled = CreateScheduledOrDie(target);
  targets_.Armed(sampled.id);
  const CaptureRecord asked = CreateOrDie(target, Steps(5));
  targets_.RefuseNextArm(WithReason(absl::ResourceExhaustedError("cap"), "MEMORY_CAP"));
  targets_.Drained(sampled.id, DrainResult());
  const CaptureRecord failed = GetOrDie(asked.id);
  EXPECT_EQ(failed.state, CaptureState::kFailed);
  EXPECT_EQ(failed.error_reason, "MEMORY_CAP");
}

TEST_F(ScheduledCaptureTest, AGroupWaitsForTheMemberThatASchedulePreempts) {
  const TargetNumber busy = targets_.Add(Training(10));
  const TargetNumber free = targets_.Add(Training(11));
  const CaptureRecord sampled = CreateScheduledOrDie(busy);
  targets_.Armed(sampled.id);
  const auto group = manager_.CreateGroup(kAlice, {busy, free}, Steps(5), "");
  ASSERT_THAT(group, IsOk());
  targets_.Armed((*group)[1].id);
  manager_.DrainForTesting();
  EXPECT_THAT(targets_.fires(), SizeIs(1));  // The schedule's.
  targets_.Drained(sampled.id, DrainResult());
  manager_.DrainForTesting();
  targets_.Armed((*group)[0].id);
  manager_.DrainForTesting();
  const auto fires = targets_.fires();
  ASSERT_THAT(fires, SizeIs(3));
  EXPECT_EQ(fires[1].plan.base_step, fires[2].plan.base_step);
}

// ---- ranks of a job ----

TEST_F(ScheduledCaptureTest, RanksOfAJobBeginAtOneStepAndAreAGroup) {
  std::vector<CaptureRecord> records;
  for (const int64_t pid : {10, 11, 12}) {
    const TargetNumber target = targets_.Add(Training(pid));
    targets_.RunSteps(target, 63, 10'000'000);  // To step 163.
    records.push_back(CreateCommonOrDie(target, absl::Seconds(1)));
    targets_.Armed(records.back().id);
  }
  manager_.DrainForTesting();
  EXPECT_THAT(targets_.fires(), SizeIs(0));  // Where they begin is not decided.
  Advance(absl::Seconds(1));
  const auto fires = targets_.fires();
  ASSERT_THAT(fires, SizeIs(3));
  // 163 + 1 + the lead + the warm-up is 173; the first step that is 3 modulo 16 is 179.
  for (const auto& fire : fires) EXPECT_EQ(fire.plan.base_step, 178);
  const std::string group_id = GetOrDie(records[0].id).group_id;
  EXPECT_EQ(group_id, CommonGroupId("S1", 77, "88123", 179));
  for (const CaptureRecord& record : records) {
    EXPECT_EQ(GetOrDie(record.id).group_id, group_id);
    EXPECT_EQ(GetOrDie(record.id).state, CaptureState::kWaitingStep);
    ASSERT_THAT(store_.GetCapture(record.id), IsOk());
    EXPECT_EQ(store_.GetCapture(record.id)->group_id, group_id);
  }
  const auto group = store_.GetGroup(group_id);
  ASSERT_THAT(group, IsOk());
  EXPECT_EQ(group->first_step, 179);
  EXPECT_THAT(group->members, SizeIs(3));
  for (const CaptureRecord& record : records) {
    targets_.Drained(record.id, Window(179, 184));
    EXPECT_EQ(GetOrDie(record.id).state, CaptureState::kComplete);
  }
}

TEST_F(ScheduledCaptureTest, ARankThatIsElsewhereIsInAnotherGroup) {
  const TargetNumber here = targets_.Add(Training(10));
  const TargetNumber ahead = targets_.Add(Training(11));
  targets_.RunSteps(here, 63, 10'000'000);
  targets_.RunSteps(ahead, 80, 10'000'000);
  const CaptureRecord first = CreateCommonOrDie(here, absl::Seconds(1));
  const CaptureRecord second = CreateCommonOrDie(ahead, absl::Seconds(1));
  targets_.Armed(first.id);
  targets_.Armed(second.id);
  manager_.DrainForTesting();
  Advance(absl::Seconds(1));
  ASSERT_THAT(targets_.fires(), SizeIs(2));
  EXPECT_NE(GetOrDie(first.id).group_id, GetOrDie(second.id).group_id);
  EXPECT_EQ(store_.GetGroup(GetOrDie(second.id).group_id)->first_step, 195);
}

TEST_F(ScheduledCaptureTest, OneThatArmsAfterTheDecisionBeginsWithTheOthers) {
  const TargetNumber target = targets_.Add(Training(10));
  targets_.RunSteps(target, 63, 10'000'000);
  const CaptureRecord record = CreateCommonOrDie(target, absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_THAT(targets_.fires(), SizeIs(0));
  targets_.RunSteps(target, 5, 10'000'000);
  targets_.Armed(record.id);
  manager_.DrainForTesting();
  ASSERT_THAT(targets_.fires(), SizeIs(1));
  EXPECT_EQ(targets_.fires()[0].plan.base_step, 178);
}

TEST_F(ScheduledCaptureTest, OneThatArmsAfterTheStepIsNamedAndRecordsNothing) {
  const TargetNumber target = targets_.Add(Training(10));
  targets_.RunSteps(target, 63, 10'000'000);
  const CaptureRecord record = CreateCommonOrDie(target, absl::Seconds(1));
  Advance(absl::Seconds(1));
  targets_.RunSteps(target, 20, 10'000'000);
  targets_.Armed(record.id);
  manager_.DrainForTesting();
  targets_.Drained(record.id, DrainResult());
  const CaptureRecord ended = GetOrDie(record.id);
  EXPECT_EQ(ended.state, CaptureState::kFailed);
  EXPECT_EQ(ended.error_reason, "MISSED_START");
  EXPECT_THAT(ended.error_message, HasSubstr("--step-lead"));
  EXPECT_FALSE(ended.group_id.empty());  // It is named there.
  EXPECT_THAT(targets_.fires(), SizeIs(0));
}

TEST_F(ScheduledCaptureTest, ATargetWithLongStepsIsArmedShortlyBeforeItsStep) {
  const TargetNumber target = targets_.Add(Training(10));
  targets_.RunSteps(target, 63, 1'000'000'000);
  const CaptureRecord record = CreateCommonOrDie(target, absl::Seconds(1));
  EXPECT_EQ(record.state, CaptureState::kPending);
  Advance(absl::Seconds(1));
  EXPECT_EQ(GetOrDie(record.id).state, CaptureState::kPending);
  EXPECT_FALSE(GetOrDie(record.id).group_id.empty());
  EXPECT_THAT(targets_.arms(), SizeIs(0));  // 15 s ahead.
  targets_.RunSteps(target, 10, 1'000'000'000);
  Advance(absl::Seconds(10));
  ASSERT_THAT(targets_.arms(), SizeIs(1));
  targets_.Armed(record.id);
  manager_.DrainForTesting();
  ASSERT_THAT(targets_.fires(), SizeIs(1));
  EXPECT_EQ(targets_.fires()[0].plan.base_step, 178);
}

TEST_F(ScheduledCaptureTest, ARequestTakesATargetThatIsNotArmedYetAtOnce) {
  const TargetNumber target = targets_.Add(Training(10));
  targets_.RunSteps(target, 63, 1'000'000'000);
  const CaptureRecord sampled = CreateCommonOrDie(target, absl::Seconds(1));
  const CaptureRecord asked = CreateOrDie(target, Steps(5));
  EXPECT_EQ(GetOrDie(sampled.id).state, CaptureState::kCancelled);
  EXPECT_EQ(GetOrDie(sampled.id).ended_by, EndedBy::kPreempted);
  ASSERT_THAT(targets_.arms(), SizeIs(1));
  EXPECT_EQ(targets_.arms()[0].request.capture_id, asked.id);
}

TEST_F(ScheduledCaptureTest, ATargetThatGoesBeforeItIsArmedEndsItsCapture) {
  const TargetNumber target = targets_.Add(Training(10));
  targets_.RunSteps(target, 63, 1'000'000'000);
  const CaptureRecord record = CreateCommonOrDie(target, absl::Seconds(1));
  targets_.Remove(target);
  EXPECT_EQ(GetOrDie(record.id).state, CaptureState::kFailed);
  EXPECT_EQ(GetOrDie(record.id).ended_by, EndedBy::kTargetExit);
}

// ---- ranks whose previous window still runs ----

// A target at step 163, whose window of steps [179, 184) is armed and told.
class NextWindowTest : public ScheduledCaptureTest {
 protected:
  NextWindowTest() {
    targets_.RunSteps(target_, 63, 10'000'000);
    before_ = CreateCommonOrDie(target_, absl::Seconds(1)).id;
    targets_.Armed(before_);
    manager_.DrainForTesting();
    Advance(absl::Seconds(1));
    EXPECT_THAT(targets_.fires(), SizeIs(1));
  }

  const TargetNumber target_ = targets_.Add(Training(10));
  std::string before_;
};

TEST_F(NextWindowTest, ARankWaitsForItsWindowBeforeAndBeginsWithTheOthers) {
  targets_.RunSteps(target_, 12, 10'000'000);  // To step 175.
  const CaptureRecord next = CreateCommonOrDie(target_, absl::Seconds(1));
  EXPECT_EQ(next.state, CaptureState::kPending);
  Advance(absl::Seconds(1));
  EXPECT_THAT(targets_.arms(), SizeIs(1));
  EXPECT_THAT(targets_.stops(), SizeIs(0));  // It takes the target from nothing.
  EXPECT_EQ(GetOrDie(next.id).group_id, CommonGroupId("S1", 77, "88123", 195));

  targets_.Drained(before_, Window(179, 184));
  EXPECT_EQ(GetOrDie(next.id).state, CaptureState::kArming);
  targets_.Armed(next.id);
  manager_.DrainForTesting();
  ASSERT_THAT(targets_.fires(), SizeIs(2));
  EXPECT_EQ(targets_.fires()[1].plan.base_step, 194);
}

TEST_F(NextWindowTest, ATargetThatIsFreeBeforeTheDecisionIsArmedAtOnce) {
  targets_.RunSteps(target_, 12, 10'000'000);
  const CaptureRecord next = CreateCommonOrDie(target_, absl::Seconds(1));
  targets_.Drained(before_, Window(179, 184));
  EXPECT_EQ(GetOrDie(next.id).state, CaptureState::kArming);
  targets_.Armed(next.id);
  manager_.DrainForTesting();
  Advance(absl::Seconds(1));
  ASSERT_THAT(targets_.fires(), SizeIs(2));
  EXPECT_EQ(targets_.fires()[1].plan.base_step, 194);
}

// All ranks know both steps, so none of them records such a window.
TEST_F(NextWindowTest, AWindowThatBeginsLessThanTheLeadAfterTheOneBeforeIsLeftOut) {
  const TargetNumber other = targets_.Add(Training(11));
  targets_.RunSteps(other, 67, 10'000'000);
  targets_.RunSteps(target_, 4, 10'000'000);  // To step 167: 179 again.
  const CaptureRecord next = CreateCommonOrDie(target_, absl::Seconds(1));
  Advance(absl::Seconds(1));
  const CaptureRecord ended = GetOrDie(next.id);
  EXPECT_EQ(ended.state, CaptureState::kFailed);
  EXPECT_EQ(ended.error_reason, "TARGET_BUSY");
  EXPECT_THAT(ended.error_message,
              testing::AllOf(HasSubstr(before_), HasSubstr("up to step 184"),
                             HasSubstr("begins at step 179, less than 8 steps later")));
  EXPECT_FALSE(ended.group_id.empty());  // It is named there.
  EXPECT_EQ(GetOrDie(before_).ended_by, EndedBy::kNone);
}

TEST_F(NextWindowTest, ATargetThatIsNotFreeByTheStartStepIsNamedBusy) {
  targets_.RunSteps(target_, 12, 10'000'000);
  const CaptureRecord next = CreateCommonOrDie(target_, absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_EQ(GetOrDie(next.id).state, CaptureState::kPending);
  targets_.RunSteps(target_, 20, 10'000'000);  // To step 195; the previous window still drains.
  Advance(absl::Seconds(1));
  EXPECT_EQ(GetOrDie(next.id).state, CaptureState::kFailed);
  EXPECT_EQ(GetOrDie(next.id).error_reason, "TARGET_BUSY");
}

TEST_F(NextWindowTest, OneWindowWaitsForATargetAtMost) {
  targets_.RunSteps(target_, 12, 10'000'000);
  const CaptureRecord next = CreateCommonOrDie(target_, absl::Seconds(1));
  const auto third = manager_.CreateScheduled(
      kAlice, target_, Steps(5),
      {.schedule_id = "S1", .window_unix_ns = 78, .common_start = CommonStart{.job = "88123"}},
      nullptr);
  EXPECT_EQ(ReasonOf(third.status()), "TARGET_BUSY");
  EXPECT_THAT(std::string(third.status().message()), HasSubstr(next.id));
}

TEST_F(NextWindowTest, ATargetThatAUserCapturesIsNotWaitedFor) {
  const TargetNumber traced = targets_.Add(Training(12));
  CreateOrDie(traced, Steps(5));
  const auto refused = manager_.CreateScheduled(
      kAlice, traced, Steps(5),
      {.schedule_id = "S1", .window_unix_ns = 78, .common_start = CommonStart{.job = "88123"}},
      nullptr);
  EXPECT_EQ(ReasonOf(refused.status()), "TARGET_BUSY");
}

TEST_F(NextWindowTest, ARequestEndsTheWindowThatRunsAndTheOneThatWaits) {
  targets_.RunSteps(target_, 12, 10'000'000);
  const CaptureRecord next = CreateCommonOrDie(target_, absl::Seconds(1));
  const CaptureRecord asked = CreateOrDie(target_, Steps(5));
  EXPECT_EQ(GetOrDie(next.id).ended_by, EndedBy::kPreempted);
  ASSERT_THAT(targets_.stops(), ElementsAre(before_));
  targets_.Drained(before_, DrainResult());
  EXPECT_EQ(GetOrDie(before_).ended_by, EndedBy::kPreempted);
  ASSERT_THAT(targets_.arms(), SizeIs(2));
  EXPECT_EQ(targets_.LastArm().request.capture_id, asked.id);
}

// The schedule's captures only wait for their step, so that they end at once.
TEST_F(ScheduledCaptureTest, WhereAMemberGetsItsTargetAndCannotArmNoneOfTheGroupIs) {
  const TargetNumber free = targets_.Add(Training(10));
  const TargetNumber sampled = targets_.Add(Training(11));
  targets_.RunSteps(sampled, 63, 10'000'000'000);
  const CaptureRecord waiting = CreateCommonOrDie(sampled, absl::Minutes(2));
  ASSERT_EQ(GetOrDie(waiting.id).state, CaptureState::kPending);
  targets_.RefuseNextArm(WithReason(absl::ResourceExhaustedError("cap"), "MEMORY_CAP"));
  const auto refused = manager_.Create(kAlice, sampled, Steps(5), "");
  EXPECT_EQ(ReasonOf(refused.status()), "MEMORY_CAP");
  EXPECT_EQ(GetOrDie(waiting.id).ended_by, EndedBy::kPreempted);
  EXPECT_THAT(manager_.Live(), IsEmpty());
  EXPECT_THAT(manager_.Create(kAlice, free, Steps(5), ""), IsOk());
}

TEST_F(ScheduledCaptureTest, AGroupOfSomebodyElseIsNotJoined) {
  ASSERT_THAT(
      store_.PutGroup({.id = CommonGroupId("S1", 77, "88123", 179), .requested_by = "uid:12345"}),
      IsOk());
  const TargetNumber target = targets_.Add(Training(10));
  targets_.RunSteps(target, 63, 10'000'000);
  const CaptureRecord record = CreateCommonOrDie(target, absl::Seconds(1));
  targets_.Armed(record.id);
  manager_.DrainForTesting();
  Advance(absl::Seconds(1));
  targets_.Drained(record.id, DrainResult());
  EXPECT_EQ(GetOrDie(record.id).state, CaptureState::kFailed);
  EXPECT_THAT(GetOrDie(record.id).error_message, HasSubstr("uid:12345"));
  EXPECT_THAT(store_.GetGroup(CommonGroupId("S1", 77, "88123", 179))->members, SizeIs(0));
}

}  // namespace
}  // namespace profd
