// Groups that whoever asked starts itself: prepared, held under a lease, committed at a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/reason.h"
#include "daemon/base/ulid.h"
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
using Code = absl::StatusCode;

class GroupCaptureTest : public testing::Test {
 protected:
  GroupCaptureTest() { targets_.SetObserver(&manager_); }
  // What a test left live ends here, as ingest would end it.
  void TearDown() override {
    targets_.AnswerByItself(DrainResult());
    for (const CaptureRecord& record : manager_.Live()) {
      targets_.Drained(record.id, DrainResult());
    }
  }

  // A process of alice's, at step 100.
  TargetNumber AddTarget(int64_t pid, int64_t rank) {
    return targets_.Add({.pid = pid,
                         .uid = kAlice.uid,
                         .process_start_ticks = 7,
                         .metadata = {{"rank", std::to_string(rank)}},
                         .state = TargetState::kRunning,
                         .step_mark_count = 101,
                         .current_step = 100,
                         .steps_per_second = 100});
  }
  void Prepare(const std::vector<TargetNumber>& targets, const CaptureSpec& spec = {.steps = 5},
               const Caller& caller = kAlice) {
    const auto watch = manager_.PrepareGroup(
        caller,
        {.id = id_,
         .targets = targets,
         .spec = spec,
         .lease = absl::Seconds(30),
         .lease_without_caller = lease_without_caller_},
        [this](const GroupPreparation& preparation) { heard_.push_back(preparation); });
    ASSERT_THAT(watch, IsOk());
    watch_ = *watch;
  }
  // Of alice's two processes, both armed.
  void PrepareBothAndArm(const CaptureSpec& spec = {.steps = 5}) {
    a_ = AddTarget(10, 0);
    b_ = AddTarget(11, 1);
    Prepare({a_, b_}, spec);
    for (const FakeTargetPort::ArmCall& arm : targets_.arms()) {
      targets_.Armed(arm.request.capture_id);
    }
    manager_.DrainForTesting();
    ASSERT_FALSE(heard_.empty());
    ASSERT_TRUE(heard_.back().settled);
  }
  std::string CaptureOf(size_t member) const {
    return heard_.back().members.at(member).capture->id;
  }
  CaptureRecord GetOrDie(std::string_view id) {
    manager_.DrainForTesting();
    absl::StatusOr<CaptureRecord> record = manager_.Get(kRoot, id);
    EXPECT_THAT(record, IsOk());
    return record.ok() ? *record : CaptureRecord();
  }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    manager_.RunTimersForTesting();
    manager_.DrainForTesting();
  }
  GroupRecord Kept() {
    absl::StatusOr<GroupRecord> group = store_.GetGroup(id_);
    EXPECT_THAT(group, IsOk());
    return group.ok() ? *group : GroupRecord();
  }

  FakeClock clock_;
  FakeTargetPort targets_;
  FakeStore store_;
  absl::Duration lease_without_caller_ = absl::InfiniteDuration();
  CaptureManager::WatchId watch_ = 0;
  std::vector<GroupPreparation> heard_;
  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), clock_};
  CaptureManager manager_{{.node_name = "node1", .ledger = &ledger_}, targets_, store_, clock_};
  const std::string id_ = NewUlid(absl::FromUnixSeconds(1'700'000'000));
  TargetNumber a_ = 0;
  TargetNumber b_ = 0;
};

// ---- preparing ----

// The record of the first member would name it, and there is none.
TEST_F(GroupCaptureTest, WhatWasRemovedForAMemberThatDoesNotBeginIsInItsError) {
  a_ = AddTarget(10, 0);
  b_ = AddTarget(11, 1);
  store_.evicted = {.ids = {"OLD1"}, .count = 1};
  store_.create_error = absl::InternalError("disk failed");
  Prepare({a_, b_});
  ASSERT_THAT(heard_.back().members, SizeIs(2));
  EXPECT_THAT(heard_.back().members[0].error_message, HasSubstr("were removed: OLD1"));
  EXPECT_EQ(heard_.back().members[1].error_message, "disk failed");
}

TEST_F(GroupCaptureTest, WhatWasRemovedForAGroupWithoutRoomIsInTheError) {
  store_.evicted = {.ids = {"OLD1"}, .count = 1};
  store_.room_error = absl::ResourceExhaustedError("full");
  const auto refused = manager_.PrepareGroup(
      kAlice,
      {.id = id_, .targets = {AddTarget(10, 0)}, .spec = {.steps = 5}, .lease = absl::Seconds(30)},
      [](const GroupPreparation&) {});
  EXPECT_THAT(refused, StatusIs(Code::kResourceExhausted, HasSubstr("were removed: OLD1")));
}

TEST_F(GroupCaptureTest, PreparedMembersAreArmedAndHeld) {
  targets_.SetMedianStepNs(1, 10'000'000);
  PrepareBothAndArm();
  EXPECT_THAT(targets_.fires(), IsEmpty());
  const GroupPreparation& last = heard_.back();
  ASSERT_THAT(last.members, SizeIs(2));
  EXPECT_TRUE(last.members[0].prepared);
  EXPECT_EQ(last.members[0].current_step, 100);
  EXPECT_EQ(last.members[0].median_step_ns, 10'000'000);
  EXPECT_EQ(last.members[1].median_step_ns, 0) << "not known";
  EXPECT_EQ(GetOrDie(CaptureOf(0)).group_id, id_);
}

TEST_F(GroupCaptureTest, HowFarItIsIsToldAtOnceAndUntilItIsSettled) {
  const TargetNumber a = AddTarget(10, 0);
  Prepare({a});
  ASSERT_THAT(heard_, SizeIs(1));
  EXPECT_FALSE(heard_.front().settled);
  targets_.Armed(targets_.LastArm().request.capture_id);
  manager_.DrainForTesting();
  EXPECT_TRUE(heard_.back().settled);
  const size_t heard = heard_.size();
  Advance(absl::Seconds(31));
  EXPECT_THAT(heard_, SizeIs(heard)) << "settled is the last that is told";
}

TEST_F(GroupCaptureTest, WhoStoppedWatchingAPreparationHearsNoMore) {
  const TargetNumber a = AddTarget(10, 0);
  const auto watch =
      manager_.PrepareGroup(kAlice, {.id = id_, .targets = {a}, .spec = {.steps = 5}},
                            [this](const GroupPreparation& p) { heard_.push_back(p); });
  ASSERT_THAT(watch, IsOk());
  manager_.StopWatching(*watch);
  targets_.Armed(targets_.LastArm().request.capture_id);
  manager_.DrainForTesting();
  EXPECT_THAT(heard_, SizeIs(1));
  EXPECT_THAT(manager_.CommitGroup(kAlice, id_, {.first_step = 200}), IsOk())
      << "ending the stream aborts nothing";
}

TEST_F(GroupCaptureTest, AMemberThatIsRefusedDoesNotFailTheOthers) {
  const TargetNumber a = AddTarget(10, 0);
  const TargetNumber bobs =
      targets_.Add({.pid = 20, .uid = kBob.uid, .step_mark_count = 50, .current_step = 49});
  Prepare({a, bobs, 99});
  targets_.Armed(targets_.LastArm().request.capture_id);
  manager_.DrainForTesting();
  ASSERT_THAT(heard_.back().members, SizeIs(3));
  EXPECT_TRUE(heard_.back().settled);
  EXPECT_TRUE(heard_.back().members[0].prepared);
  EXPECT_EQ(heard_.back().members[1].error_reason, "OTHER_OWNER");
  EXPECT_EQ(heard_.back().members[1].current_step, -1) << "no business of alice's";
  EXPECT_FALSE(heard_.back().members[1].capture.has_value());
  EXPECT_EQ(heard_.back().members[2].error_reason, "NO_SUCH_TARGET");
}

TEST_F(GroupCaptureTest, WhereAllAreRefusedThereIsNoGroup) {
  Prepare({98, 99});
  ASSERT_THAT(heard_, SizeIs(1));
  EXPECT_TRUE(heard_.front().settled);
  EXPECT_THAT(store_.GetGroup(id_), StatusIs(Code::kNotFound));
  EXPECT_THAT(manager_.CommitGroup(kAlice, id_, {.first_step = 5}), StatusIs(Code::kNotFound));
}

TEST_F(GroupCaptureTest, AMemberThatCannotArmIsSettledWithItsReason) {
  const TargetNumber a = AddTarget(10, 0);
  Prepare({a});
  targets_.ArmFailed(targets_.LastArm().request.capture_id,
                     WithReason(absl::FailedPreconditionError("busy"), "CUPTI_BUSY"));
  manager_.DrainForTesting();
  EXPECT_TRUE(heard_.back().settled);
  EXPECT_FALSE(heard_.back().members[0].prepared);
  EXPECT_EQ(heard_.back().members[0].error_reason, "CUPTI_BUSY");
}

TEST_F(GroupCaptureTest, AMemberThatDiesWhileItIsHeldIsNotStarted) {
  PrepareBothAndArm();
  const std::string dead = CaptureOf(0);
  targets_.Remove(a_);
  manager_.DrainForTesting();
  const auto started = manager_.CommitGroup(kAlice, id_, {.first_step = 200});
  ASSERT_THAT(started, IsOk());
  ASSERT_THAT(*started, SizeIs(2));
  EXPECT_FALSE((*started)[0].started);
  EXPECT_EQ((*started)[0].error_reason, "TARGET_EXITED");
  EXPECT_TRUE((*started)[1].started);
  EXPECT_THAT(targets_.fires(), SizeIs(1));
  EXPECT_EQ(GetOrDie(dead).state, CaptureState::kFailed);
}

TEST_F(GroupCaptureTest, MoreMembersThanANodeRunsAreRefused) {
  ledger_.SetLimit(quota::Resource::kLiveCaptures, {.capacity = 4});
  std::vector<TargetNumber> targets;
  for (int64_t i = 0; i < 5; ++i) targets.push_back(AddTarget(10 + i, i));
  Prepare(targets);
  EXPECT_THAT(targets_.arms(), SizeIs(4));
  EXPECT_EQ(heard_.back().members[4].error_reason, "CAPTURE_LIMIT");
}

TEST_F(GroupCaptureTest, MembersThatTheCaptureMemoryDoesNotSufficeForAreRefused) {
  ledger_.SetLimit(quota::Resource::kCaptureMemory, {.capacity = 200 << 20});
  std::vector<TargetNumber> targets;
  for (int64_t i = 0; i < 4; ++i) targets.push_back(AddTarget(10 + i, i));
  Prepare(targets, {.steps = 5, .memory_bytes = 60 << 20});
  EXPECT_THAT(targets_.arms(), SizeIs(3));
  EXPECT_EQ(heard_.back().members[3].error_reason, "MEMORY_CAP");
  EXPECT_THAT(heard_.back().members[3].error_message,
              HasSubstr("4 captures of 60 MiB each need 240 MiB"));
}

TEST_F(GroupCaptureTest, MembersShareTheCaptureMemoryByDefault) {
  ledger_.SetLimit(quota::Resource::kCaptureMemory, {.capacity = 200 << 20});
  std::vector<TargetNumber> targets;
  for (int64_t i = 0; i < 4; ++i) targets.push_back(AddTarget(10 + i, i));
  Prepare(targets);
  ASSERT_THAT(targets_.arms(), SizeIs(4));
  EXPECT_EQ(targets_.arms()[0].request.memory_bytes, 50 << 20);
}

TEST_F(GroupCaptureTest, AGroupsIdIsUsedOnce) {
  PrepareBothAndArm();
  const auto again = manager_.PrepareGroup(
      kAlice, {.id = id_, .targets = {a_}, .spec = {.steps = 5}}, [](const GroupPreparation&) {});
  EXPECT_THAT(again, StatusIs(Code::kAlreadyExists));
  EXPECT_EQ(ReasonOf(again.status()), "GROUP_EXISTS");
}

TEST_F(GroupCaptureTest, RefusesWhatNoGroupCanBe) {
  const TargetNumber a = AddTarget(10, 0);
  const auto prepare = [&](const GroupRequest& request) {
    return manager_.PrepareGroup(kAlice, request, [](const GroupPreparation&) {}).status();
  };
  const CaptureSpec spec{.steps = 5};
  const CaptureSpec with_step{.steps = 5, .start_step = 200};
  EXPECT_THAT(prepare({.id = "../../x", .targets = {a}, .spec = spec}),
              StatusIs(Code::kInvalidArgument, HasSubstr("ULID")));
  EXPECT_THAT(prepare({.id = id_, .targets = {a}, .spec = with_step}),
              StatusIs(Code::kInvalidArgument, HasSubstr("start_step")));
  EXPECT_THAT(prepare({.id = id_, .targets = {}, .spec = spec}), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(prepare({.id = id_, .targets = {a, a}, .spec = spec}),
              StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(prepare({.id = id_, .targets = {a}, .spec = spec, .lease = absl::ZeroDuration()}),
              StatusIs(Code::kInvalidArgument, HasSubstr("lease")));
  EXPECT_THAT(prepare({.id = id_, .targets = {a}, .spec = spec, .lease = absl::Hours(1)}),
              StatusIs(Code::kInvalidArgument, HasSubstr("lease")));
  EXPECT_THAT(
      prepare({.id = id_, .targets = {a}, .spec = spec, .lease_without_caller = absl::Hours(1)}),
      StatusIs(Code::kInvalidArgument, HasSubstr("lease")));
  EXPECT_THAT(targets_.arms(), IsEmpty());
}

// ---- starting ----

TEST_F(GroupCaptureTest, CommitStartsEveryMemberAtTheStep) {
  PrepareBothAndArm({.steps = 5, .warmup_steps = 2});
  const auto started = manager_.CommitGroup(kAlice, id_, {.first_step = 110});
  ASSERT_THAT(started, IsOk());
  for (const MemberStart& member : *started) EXPECT_TRUE(member.started) << member.error_message;
  ASSERT_THAT(targets_.fires(), SizeIs(2));
  for (const FakeTargetPort::FireCall& fire : targets_.fires()) {
    EXPECT_EQ(fire.plan.base_step + fire.plan.warmup_steps, 110);
  }
  EXPECT_EQ(Kept().first_step, 110);
}

TEST_F(GroupCaptureTest, ACommittedMemberWhoseCallerIsGoneEndsBeforeItsWindow) {
  PrepareBothAndArm();
  const GroupStart start{.first_step = 110, .lease = absl::Seconds(15)};
  ASSERT_THAT(manager_.CommitGroup(kAlice, id_, start), IsOk());
  Advance(absl::Seconds(14));
  EXPECT_THAT(targets_.stops(), IsEmpty());
  targets_.Reached(CaptureOf(0), {.phase = RecordingPhase::kRecording});
  manager_.DrainForTesting();
  Advance(absl::Seconds(1));
  // The one that records goes on; the other waits for nobody.
  EXPECT_THAT(targets_.stops(), ElementsAre(CaptureOf(1)));
  targets_.Drained(CaptureOf(1), DrainResult());
  EXPECT_EQ(GetOrDie(CaptureOf(1)).error_reason, "LEASE_EXPIRED");
}

TEST_F(GroupCaptureTest, ARepeatedCommitRenewsTheLease) {
  PrepareBothAndArm();
  const GroupStart start{.first_step = 110, .lease = absl::Seconds(15)};
  ASSERT_THAT(manager_.CommitGroup(kAlice, id_, start), IsOk());
  Advance(absl::Seconds(14));
  ASSERT_THAT(manager_.CommitGroup(kAlice, id_, start), IsOk());
  Advance(absl::Seconds(14));
  EXPECT_THAT(targets_.stops(), IsEmpty());
  EXPECT_THAT(targets_.fires(), SizeIs(2)) << "a renewal starts nothing again";
  Advance(absl::Seconds(1));
  EXPECT_THAT(targets_.stops(), SizeIs(2));
}

TEST_F(GroupCaptureTest, WithoutALeaseACommittedMemberWaitsForItsStep) {
  PrepareBothAndArm();
  ASSERT_THAT(manager_.CommitGroup(kAlice, id_, {.first_step = 110}), IsOk());
  Advance(absl::Minutes(4));
  EXPECT_THAT(targets_.stops(), IsEmpty());
}

TEST_F(GroupCaptureTest, AMemberPastTheStepIsNotStartedAndAnsweredSo) {
  PrepareBothAndArm();
  const std::string late = CaptureOf(1);
  targets_.Change(b_, [](TargetInfo& info) { info.current_step = 110; });
  const auto started = manager_.CommitGroup(kAlice, id_, {.first_step = 110});
  ASSERT_THAT(started, IsOk());
  EXPECT_TRUE((*started)[0].started);
  EXPECT_FALSE((*started)[1].started);
  EXPECT_EQ((*started)[1].error_reason, "MISSED_START");
  EXPECT_EQ((*started)[1].current_step, 110);
  EXPECT_THAT(targets_.fires(), SizeIs(1));
  targets_.Drained(late, DrainResult());
  const CaptureRecord record = GetOrDie(late);
  EXPECT_EQ(record.state, CaptureState::kFailed);
  EXPECT_EQ(record.ended_by, EndedBy::kMissedStart);
}

TEST_F(GroupCaptureTest, AMemberThatIsStillArmingDoesNotHoldUpTheOthers) {
  const TargetNumber a = AddTarget(10, 0);
  const TargetNumber b = AddTarget(11, 1);
  Prepare({a, b});
  targets_.Armed(CaptureOf(0));
  manager_.DrainForTesting();
  const auto started = manager_.CommitGroup(kAlice, id_, {.first_step = 110});
  ASSERT_THAT(started, IsOk());
  EXPECT_TRUE((*started)[0].started);
  EXPECT_EQ((*started)[1].error_reason, "ARM_TIMEOUT");
  EXPECT_THAT(targets_.stops(), ElementsAre(CaptureOf(1)));
}

TEST_F(GroupCaptureTest, CommitMayBeRepeatedButNotChanged) {
  PrepareBothAndArm();
  const auto first = manager_.CommitGroup(kAlice, id_, {.first_step = 110});
  targets_.Change(a_, [](TargetInfo& info) { info.current_step = 115; });
  const auto again = manager_.CommitGroup(kAlice, id_, {.first_step = 110});
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE((*again)[0].started) << "as it was answered the first time";
  EXPECT_THAT(targets_.fires(), SizeIs(2));
  const auto other = manager_.CommitGroup(kAlice, id_, {.first_step = 120});
  EXPECT_THAT(other, StatusIs(Code::kFailedPrecondition, HasSubstr("110")));
  EXPECT_EQ(ReasonOf(other.status()), "COMMITTED");
}

TEST_F(GroupCaptureTest, OnlyWhoPreparedAGroupCommitsIt) {
  PrepareBothAndArm();
  EXPECT_THAT(manager_.CommitGroup(kBob, id_, {.first_step = 110}), StatusIs(Code::kNotFound));
  EXPECT_THAT(manager_.CommitGroup(kRoot, id_, {.first_step = 110}), StatusIs(Code::kNotFound));
  EXPECT_THAT(targets_.fires(), IsEmpty());
}

TEST_F(GroupCaptureTest, StepsNeedAStepAndTimesNone) {
  PrepareBothAndArm();
  EXPECT_THAT(manager_.CommitGroup(kAlice, id_, {}),
              StatusIs(Code::kInvalidArgument, HasSubstr("first_step")));
  EXPECT_THAT(targets_.fires(), IsEmpty());
}

TEST_F(GroupCaptureTest, AStepBeyondAllStepsIsRefused) {
  PrepareBothAndArm();
  for (const int64_t step : {(int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(manager_.CommitGroup(kAlice, id_, {.first_step = step}),
                StatusIs(Code::kInvalidArgument, HasSubstr("start_step")));
  }
  EXPECT_THAT(targets_.fires(), IsEmpty());
  EXPECT_THAT(manager_.CommitGroup(kAlice, id_, {.first_step = 110}), IsOk());
}

TEST_F(GroupCaptureTest, AGroupByTimeStartsWhenTheNodesClockSaysSo) {
  PrepareBothAndArm({.duration = absl::Seconds(1)});
  EXPECT_THAT(manager_.CommitGroup(kAlice, id_, {.first_step = 110}),
              StatusIs(Code::kInvalidArgument));
  ASSERT_THAT(manager_.CommitGroup(kAlice, id_, {.time = clock_.Now() + absl::Seconds(2)}), IsOk());
  Advance(absl::Milliseconds(1'999));
  EXPECT_THAT(targets_.fires(), IsEmpty());
  Advance(absl::Milliseconds(1));
  EXPECT_THAT(targets_.fires(), SizeIs(2));
}

TEST_F(GroupCaptureTest, AStartInThePastIsMissed) {
  PrepareBothAndArm({.duration = absl::Seconds(1)});
  const auto started =
      manager_.CommitGroup(kAlice, id_, {.time = clock_.Now() - absl::Milliseconds(1)});
  ASSERT_THAT(started, IsOk());
  EXPECT_EQ((*started)[0].error_reason, "MISSED_START");
  EXPECT_THAT(targets_.fires(), IsEmpty());
}

TEST_F(GroupCaptureTest, AGroupOfStepsOfItsOwnStartsAtEachMembersNext) {
  PrepareBothAndArm({.steps = 5, .step_marker = "iteration"});
  ASSERT_THAT(manager_.CommitGroup(kAlice, id_, {}), IsOk());
  ASSERT_THAT(targets_.fires(), SizeIs(2));
  EXPECT_EQ(targets_.fires()[0].plan.base_step, -1);
}

// ---- ending ----

TEST_F(GroupCaptureTest, WhatNobodyCommitsLapsesWithItsLease) {
  PrepareBothAndArm();
  const std::string a = CaptureOf(0);
  Advance(absl::Seconds(29));
  EXPECT_THAT(targets_.stops(), IsEmpty());
  targets_.AnswerByItself(DrainResult());
  Advance(absl::Seconds(1));
  EXPECT_THAT(targets_.stops(), SizeIs(2));
  EXPECT_THAT(manager_.Live(), IsEmpty());
  const CaptureRecord record = GetOrDie(a);
  EXPECT_EQ(record.state, CaptureState::kFailed);
  EXPECT_EQ(record.ended_by, EndedBy::kLeaseExpired);
  EXPECT_THAT(manager_.CommitGroup(kAlice, id_, {.first_step = 200}), StatusIs(Code::kNotFound));
}

TEST_F(GroupCaptureTest, WhatIsHeldLapsesEarlierOnceItsCallerIsGone) {
  lease_without_caller_ = absl::Seconds(10);
  PrepareBothAndArm();
  Advance(absl::Seconds(5));
  manager_.StopWatching(watch_);
  Advance(absl::Seconds(9));
  EXPECT_THAT(targets_.stops(), IsEmpty());
  targets_.AnswerByItself(DrainResult());
  Advance(absl::Seconds(1));
  EXPECT_THAT(targets_.stops(), SizeIs(2));
  EXPECT_EQ(GetOrDie(CaptureOf(0)).ended_by, EndedBy::kLeaseExpired);
}

TEST_F(GroupCaptureTest, ACallerThatGoesLateDoesNotMakeTheLeaseLonger) {
  lease_without_caller_ = absl::Seconds(10);
  PrepareBothAndArm();
  Advance(absl::Seconds(25));
  manager_.StopWatching(watch_);
  Advance(absl::Seconds(5));
  EXPECT_THAT(targets_.stops(), SizeIs(2));
}

TEST_F(GroupCaptureTest, ACallerThatGoesBehindTheCommitChangesNoLease) {
  lease_without_caller_ = absl::Seconds(10);
  PrepareBothAndArm();
  const GroupStart start{.first_step = 110, .lease = absl::Seconds(15)};
  ASSERT_THAT(manager_.CommitGroup(kAlice, id_, start), IsOk());
  manager_.StopWatching(watch_);
  Advance(absl::Seconds(14));
  EXPECT_THAT(targets_.stops(), IsEmpty());
}

TEST_F(GroupCaptureTest, WithoutSuchALeaseACallerMayGoBeforeTheCommit) {
  PrepareBothAndArm();
  manager_.StopWatching(watch_);
  Advance(absl::Seconds(29));
  EXPECT_THAT(targets_.stops(), IsEmpty());
}

TEST_F(GroupCaptureTest, ACommittedGroupHasNoLease) {
  PrepareBothAndArm();
  ASSERT_THAT(manager_.CommitGroup(kAlice, id_, {.first_step = 110}), IsOk());
  Advance(absl::Seconds(60));
  EXPECT_THAT(targets_.stops(), IsEmpty());
}

TEST_F(GroupCaptureTest, AbortLeavesNothingArmed) {
  PrepareBothAndArm();
  targets_.AnswerByItself(DrainResult());
  EXPECT_THAT(manager_.AbortGroup(kBob, id_), StatusIs(Code::kPermissionDenied));
  EXPECT_THAT(targets_.stops(), IsEmpty());
  ASSERT_THAT(manager_.AbortGroup(kAlice, id_), IsOk());
  manager_.DrainForTesting();
  EXPECT_THAT(manager_.Live(), IsEmpty());
  EXPECT_EQ(GetOrDie(CaptureOf(0)).state, CaptureState::kCancelled);
  EXPECT_THAT(manager_.AbortGroup(kAlice, id_), IsOk()) << "idempotent";
}

TEST_F(GroupCaptureTest, AScheduleGivesWayToAGroup) {
  const TargetNumber a = AddTarget(10, 0);
  const auto scheduled = manager_.CreateScheduled(kAlice, a, {.steps = 5}, {.schedule_id = id_},
                                                  [](const CaptureRecord&) {});
  ASSERT_THAT(scheduled, IsOk());
  targets_.Armed(scheduled->id);
  Prepare({a});
  EXPECT_FALSE(heard_.back().settled);
  targets_.Drained(scheduled->id, DrainResult());
  manager_.DrainForTesting();
  EXPECT_EQ(GetOrDie(scheduled->id).ended_by, EndedBy::kPreempted);
  targets_.Armed(targets_.LastArm().request.capture_id);
  manager_.DrainForTesting();
  EXPECT_TRUE(heard_.back().members[0].prepared);
}

// The schedule's is ended at once, because it only waits for its step.
TEST_F(GroupCaptureTest, AMemberThatGetsItsTargetAndCannotArmIsSettledWithItsReason) {
  const TargetNumber a = AddTarget(10, 0);
  targets_.RunSteps(a, 63, 10'000'000'000);
  const auto scheduled = manager_.CreateScheduled(
      kAlice, a, {.steps = 5},
      {.schedule_id = id_,
       .window_unix_ns = 77,
       .common_start =
           CommonStart{
               .job = "88123", .grid = 16, .lead = 8, .decision = clock_.Now() + absl::Minutes(2)}},
      [](const CaptureRecord&) {});
  ASSERT_THAT(scheduled, IsOk());
  ASSERT_EQ(GetOrDie(scheduled->id).state, CaptureState::kPending);
  targets_.RefuseNextArm(WithReason(absl::ResourceExhaustedError("cap"), "MEMORY_CAP"));
  Prepare({a});
  EXPECT_EQ(GetOrDie(scheduled->id).ended_by, EndedBy::kPreempted);
  ASSERT_TRUE(heard_.back().settled);
  EXPECT_FALSE(heard_.back().members[0].prepared);
  EXPECT_EQ(heard_.back().members[0].error_reason, "MEMORY_CAP");
  EXPECT_THAT(manager_.Live(), IsEmpty());
}

TEST_F(GroupCaptureTest, ClosingKeepsHowAllMembersEndedAndOurOwn) {
  PrepareBothAndArm();
  const GroupMember far{.node = "node2",
                        .address = "node2:7000",
                        .capture_id = NewUlid(clock_.Now()),
                        .pid = 77,
                        .rank = 2,
                        .state = CaptureState::kComplete,
                        .clock_offset_ns = -300,
                        .clock_bound_ns = 40};
  EXPECT_THAT(manager_.CloseGroup(kBob, id_, {far}), StatusIs(Code::kPermissionDenied));
  ASSERT_THAT(manager_.CloseGroup(kAlice, id_, {far}), IsOk());
  EXPECT_TRUE(Kept().closed);
  ASSERT_THAT(Kept().members, SizeIs(3)) << "our two, which the list left out, and the other";
  EXPECT_EQ(Kept().members[0], far);
  EXPECT_THAT(manager_.CloseGroup(kAlice, NewUlid(clock_.Now()), {}), StatusIs(Code::kNotFound));
}

// ---- groups of one node ----

TEST_F(GroupCaptureTest, AGroupThatTheDaemonStartsItselfIsOnRecord) {
  const TargetNumber a = AddTarget(10, 0);
  const TargetNumber b = AddTarget(11, 1);
  const auto records = manager_.CreateGroup(kAlice, {a, b}, {.steps = 5}, "");
  ASSERT_THAT(records, IsOk());
  const std::string id = records->front().group_id;
  for (const CaptureRecord& record : *records) targets_.Armed(record.id);
  manager_.DrainForTesting();
  const auto group = store_.GetGroup(id);
  ASSERT_THAT(group, IsOk());
  EXPECT_TRUE(group->closed);
  EXPECT_EQ(group->requested_by, "uid:1000");
  ASSERT_THAT(group->members, SizeIs(2));
  EXPECT_EQ(group->members[1].rank, 1);
  ASSERT_THAT(targets_.fires(), SizeIs(2));
  EXPECT_EQ(group->first_step, targets_.fires()[0].plan.base_step + 1) << "one of warm-up";
}

TEST_F(GroupCaptureTest, MembersThatDoNotRunInStepBeginAtTheirOwn) {
  // At 100 steps a second: 10 s are 1,000 steps.
  for (const int64_t ahead : {900, 5000}) {
    for (const bool are_of_one_job : {false, true}) {
      const std::vector<TargetNumber> targets = {AddTarget(10, 0), AddTarget(11, 1)};
      targets_.Change(targets[1], [ahead](TargetInfo& info) { info.current_step += ahead; });
      for (const TargetNumber target : targets) {
        targets_.Change(target, [are_of_one_job](TargetInfo& info) {
          if (are_of_one_job) info.metadata["job"] = "88123";
        });
      }
      const auto records = manager_.CreateGroup(kAlice, targets, {.steps = 5}, "");
      ASSERT_THAT(records, IsOk());
      const size_t before = targets_.fires().size();
      for (const CaptureRecord& record : *records) targets_.Armed(record.id);
      manager_.DrainForTesting();
      const auto fires = targets_.fires();
      ASSERT_THAT(fires, SizeIs(before + 2));
      const int64_t step = ahead == 900 || are_of_one_job ? 100 + ahead + 26 : -1;
      EXPECT_EQ(fires[before].plan.base_step, step) << ahead;
      EXPECT_EQ(fires[before + 1].plan.base_step, step) << ahead;
      for (const TargetNumber target : targets) targets_.Remove(target);
      manager_.DrainForTesting();
    }
  }
}

}  // namespace
}  // namespace profd
