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

}  // namespace
}  // namespace profd
