// Groups through the server: prepared over a stream, committed, aborted, closed, and who may
// hear of them. What becomes of captures is told by tests/capture/group_capture_test.cc.
#include "daemon/rpc/convert/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "daemon/base/ulid.h"
#include "tests/fakes/status_matchers.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Captures = v1::CaptureService::Stub;
using StatusCode = absl::StatusCode;

class GroupsTest : public RpcTest {
 protected:
  v1::PrepareGroupRequest Request(const std::vector<int64_t>& pids) {
    v1::PrepareGroupRequest request;
    request.set_group(name_);
    for (const int64_t pid : pids) {
      request.add_targets("targets/" + std::to_string(targets_.Add(MyTarget(pid))));
    }
    request.mutable_spec()->set_steps(2);
    return request;
  }
  // Reads to the end of the stream; every member that arms is answered as a target would.
  Outcome Prepare(const v1::PrepareGroupRequest& request, v1::GroupPreparation* last) {
    grpc::ClientContext context;
    const auto stream = me_->captures->PrepareGroup(&context, request);
    size_t answered = 0;
    while (stream->Read(last)) {
      for (; answered < targets_.arms().size(); ++answered) {
        targets_.Armed(targets_.arms()[answered].request.capture_id);
      }
    }
    Outcome outcome;
    outcome.status = stream->Finish();
    outcome.reason = rpc::ReasonOf(context);
    return outcome;
  }
  void PrepareTwoOrDie() {
    v1::GroupPreparation last;
    ASSERT_THAT(Prepare(Request({10, 11}), &last), Succeeds());
    ASSERT_TRUE(last.settled());
    ASSERT_THAT(last.members(), SizeIs(2));
    for (const v1::PreparedMember& member : last.members()) {
      ASSERT_TRUE(member.prepared()) << member.error_message();
      captures_.push_back(member.capture().name());
    }
  }
  Outcome Commit(int64_t first_step, v1::CommitGroupResponse* response,
                 const std::vector<v1::GroupMember>& members = {}) {
    v1::CommitGroupRequest request;
    request.set_group(name_);
    request.set_first_step(first_step);
    for (const v1::GroupMember& member : members) *request.add_members() = member;
    return Do(*me_->captures, &Captures::CommitGroup, request, response);
  }
  Outcome GetGroup(v1::CaptureGroup* group) {
    v1::GetCaptureGroupRequest request;
    request.set_name(name_);
    return Do(*me_->captures, &Captures::GetCaptureGroup, request, group);
  }
  static v1::GroupMember FarMember() {
    v1::GroupMember member;
    member.set_node("node2");
    member.set_address("node2:7000");
    member.set_capture("captures/" + NewUlid(absl::Now()));
    member.set_pid(77);
    member.set_rank(5);
    member.set_state(v1::Capture::RECORDING);
    member.set_clock_offset_ns(-1'500);
    member.set_clock_bound_ns(900);
    return member;
  }

  const std::string name_ = "groups/" + NewUlid(absl::Now());
  std::vector<std::string> captures_;
};

TEST_F(GroupsTest, AreCommittedAtOneStepOnceAllArePrepared) {
  PrepareTwoOrDie();
  v1::CommitGroupResponse response;
  ASSERT_THAT(Commit(150, &response, {FarMember()}), Succeeds());
  ASSERT_THAT(response.outcomes(), SizeIs(2));
  for (const auto& outcome : response.outcomes()) EXPECT_TRUE(outcome.started());
  ASSERT_TRUE(targets_.WaitForFires(2));
  EXPECT_EQ(targets_.fires()[0].plan.base_step, 149) << "one of warm-up";

  v1::CaptureGroup group;
  ASSERT_THAT(GetGroup(&group), Succeeds());
  EXPECT_EQ(group.first_step(), 150);
  EXPECT_THAT(group.captures(), SizeIs(2)) << "this node's";
  ASSERT_THAT(group.members(), SizeIs(3)) << "of all nodes";
  EXPECT_EQ(group.members(2).node(), "node2");
  EXPECT_EQ(group.members(2).clock_bound_ns(), 900);
  EXPECT_EQ(group.members(0).state(), v1::Capture::WAITING_STEP) << "the manager's word";
  EXPECT_FALSE(group.closed());
}

TEST_F(GroupsTest, APreparationCarriesTheNodesClock) {
  const int64_t before = absl::ToUnixNanos(clock_.Now());
  v1::GroupPreparation last;
  ASSERT_THAT(Prepare(Request({10}), &last), Succeeds());
  EXPECT_GE(last.clock().unix_ns(), before);
  v1::Node::Clock clock;
  ASSERT_THAT(Do(*me_->node, &v1::NodeService::Stub::GetClock, v1::GetClockRequest(), &clock),
              Succeeds());
  EXPECT_GE(clock.monotonic_ns(), last.clock().monotonic_ns());
}

TEST_F(GroupsTest, AStreamThatTellsOfItsCallerStaysOpenAndItsEndShortensTheLease) {
  v1::PrepareGroupRequest request = Request({10});
  request.mutable_lease_without_caller()->set_seconds(10);
  grpc::ClientContext context;
  const auto stream = me_->captures->PrepareGroup(&context, request);
  v1::GroupPreparation last;
  ASSERT_TRUE(stream->Read(&last));
  targets_.Armed(targets_.arms().at(0).request.capture_id);
  while (!last.settled()) ASSERT_TRUE(stream->Read(&last));
  manager_->DrainForTesting();
  EXPECT_THAT(manager_->Live(), SizeIs(1)) << "it is held";
  targets_.AnswerByItself(DrainResult());
  const absl::Duration gone = clock_.Monotonic();
  context.TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
  // Until then the clock stands still: the lease alone would have 30 s.
  ASSERT_TRUE(AwaitEndOf("PrepareGroup"));
  for (int i = 0; i < 3000 && !manager_->Live().empty(); ++i) {
    absl::SleepFor(absl::Milliseconds(1));
    clock_.Advance(absl::Milliseconds(9));
    manager_->RunTimersForTesting();
    manager_->DrainForTesting();
  }
  EXPECT_THAT(manager_->Live(), IsEmpty());
  EXPECT_GE(clock_.Monotonic() - gone, absl::Seconds(10));
  EXPECT_LT(clock_.Monotonic() - gone, absl::Seconds(29));
}

TEST_F(GroupsTest, AMemberThatIsRefusedIsARowNotAnError) {
  v1::PrepareGroupRequest request = Request({10});
  request.add_targets("targets/999");
  v1::GroupPreparation last;
  ASSERT_THAT(Prepare(request, &last), Succeeds());
  ASSERT_THAT(last.members(), SizeIs(2));
  EXPECT_TRUE(last.members(0).prepared());
  EXPECT_EQ(last.members(1).error_reason(), "NO_SUCH_TARGET");
  EXPECT_FALSE(last.members(1).has_capture());
}

TEST_F(GroupsTest, AreAbortedWithNothingLeftArmed) {
  PrepareTwoOrDie();
  targets_.AnswerByItself(DrainResult());
  v1::AbortGroupRequest request;
  request.set_group(name_);
  v1::CaptureGroup group;
  ASSERT_THAT(Do(*me_->captures, &Captures::AbortGroup, request, &group), Succeeds());
  manager_->DrainForTesting();
  ASSERT_THAT(Do(*me_->captures, &Captures::AbortGroup, request, &group), Succeeds());
  for (const v1::Capture& capture : group.captures()) {
    EXPECT_EQ(capture.state(), v1::Capture::CANCELLED);
  }
  v1::CommitGroupResponse response;
  EXPECT_THAT(Commit(150, &response), Fails(grpc::NOT_FOUND));
}

TEST_F(GroupsTest, AreClosedWithHowAllEnded) {
  PrepareTwoOrDie();
  v1::CloseGroupRequest request;
  request.set_group(name_);
  *request.add_members() = FarMember();
  v1::CaptureGroup group;
  ASSERT_THAT(Do(*me_->captures, &Captures::CloseGroup, request, &group), Succeeds());
  EXPECT_TRUE(group.closed());
  EXPECT_THAT(group.members(), SizeIs(3));
}

TEST_F(GroupsTest, OfOthersAreNotToldOf) {
  // Prepared by another user, of another user's process.
  const TargetNumber theirs = targets_.Add(TargetOf(20, uid_ + 1));
  targets_.AnswerByItself(DrainResult());
  ASSERT_THAT(
      manager_->PrepareGroup({.uid = uid_ + 1},
                             {.id = name_.substr(7), .targets = {theirs}, .spec = {.steps = 1}},
                             [](const GroupPreparation&) {}),
      IsOk());
  v1::CaptureGroup group;
  v1::AbortGroupRequest abort;
  abort.set_group(name_);
  v1::CloseGroupRequest close;
  close.set_group(name_);
  v1::CommitGroupResponse response;
  EXPECT_THAT(Commit(150, &response), Fails(grpc::NOT_FOUND)) << "also for root";
  if (uid_ == 0) {
    EXPECT_THAT(Do(*me_->captures, &Captures::CloseGroup, close, &group),
                Fails(grpc::PERMISSION_DENIED, "OTHER_OWNER"));
    return;
  }
  EXPECT_THAT(GetGroup(&group), Fails(grpc::NOT_FOUND));
  EXPECT_THAT(Do(*me_->captures, &Captures::AbortGroup, abort, &group), Fails(grpc::NOT_FOUND));
  EXPECT_THAT(Do(*me_->captures, &Captures::CloseGroup, close, &group), Fails(grpc::NOT_FOUND));
}

TEST_F(GroupsTest, RequestsThatMakeNoSenseAreRefused) {
  v1::GroupPreparation last;
  v1::PrepareGroupRequest request = Request({10});
  request.set_group("groups/../../etc");
  EXPECT_THAT(Prepare(request, &last), Fails(grpc::INVALID_ARGUMENT));
  request.set_group(name_);
  request.mutable_lease()->set_seconds(3'600);
  EXPECT_THAT(Prepare(request, &last), Fails(grpc::INVALID_ARGUMENT));
  request.clear_lease();
  request.mutable_spec()->set_start_step(500);
  EXPECT_THAT(Prepare(request, &last), Fails(grpc::INVALID_ARGUMENT));
  request.clear_targets();
  EXPECT_THAT(Prepare(request, &last), Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(targets_.arms(), SizeIs(0));
  v1::CommitGroupResponse response;
  EXPECT_THAT(Commit(-1, &response), Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(Commit(5, &response), Fails(grpc::NOT_FOUND));
}

// ---- what whoever asks tells of the others ----

absl::StatusOr<GroupStart> StartWith(const v1::GroupMember& member) {
  v1::CommitGroupRequest request;
  request.set_first_step(5);
  *request.add_members() = member;
  return GroupStartFromProto(request);
}

TEST(GroupMembersTest, AreHearsayAndChecked) {
  const auto with = [](auto change) {
    v1::GroupMember member;
    member.set_rank(-1);
    change(member);
    return StartWith(member).status();
  };
  using M = v1::GroupMember;
  EXPECT_THAT(with([](M&) {}), IsOk());
  EXPECT_THAT(with([](M& m) { m.set_capture("captures/01H"); }),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("members[0].capture")));
  EXPECT_THAT(with([](M& m) { m.set_capture("../x"); }), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](M& m) { m.set_pid(-1); }), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](M& m) { m.set_rank(-2); }), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](M& m) { m.set_rank(std::numeric_limits<int64_t>::max()); }),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](M& m) { m.set_state(static_cast<v1::Capture::State>(99)); }),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](M& m) { m.set_clock_bound_ns(-1); }), StatusIs(StatusCode::kInvalidArgument));
}

TEST(GroupMembersTest, TextIsCleanedAndCut) {
  v1::GroupMember member;
  member.set_node("node\x1b[31m");
  member.set_error(std::string(10'000, 'x'));
  const auto start = StartWith(member);
  ASSERT_THAT(start, IsOk());
  EXPECT_EQ(start->members[0].node, "node?[31m");
  EXPECT_LE(start->members[0].error.size(), 255);
}

TEST(GroupMembersTest, MoreThanAGroupHoldsAreRefused) {
  v1::CommitGroupRequest request;
  request.set_first_step(5);
  for (int64_t i = 0; i <= kMaxGroupMembers; ++i) request.add_members();
  EXPECT_THAT(GroupStartFromProto(request), StatusIs(StatusCode::kInvalidArgument));
}

TEST(GroupMembersTest, AStepAndATimeExcludeEachOther) {
  v1::CommitGroupRequest request;
  request.set_first_step(5);
  request.set_start_unix_ns(1);
  EXPECT_THAT(GroupStartFromProto(request), StatusIs(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace profd::rpc
