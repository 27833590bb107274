#include "daemon/rpc/convert/groups.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"

namespace profd::rpc {
namespace {

// Of one node; kMaxGroupMembers is for all nodes of a group.
constexpr int kMaxGroupTargets = 256;
// Of a member's node, address and error each: what is longer is cut.
constexpr size_t kMaxMemberTextBytes = 255;
constexpr int64_t kMaxRank = 10'000'000;

absl::Status WrongMember(int index, std::string_view what) {
  return absl::InvalidArgumentError(StrCat("members[", index, "].", what));
}

absl::StatusOr<GroupMember> MemberFromProto(const v1::GroupMember& member, int index) {
  GroupMember out{.node = ForDisplay(member.node(), kMaxMemberTextBytes),
                  .address = ForDisplay(member.address(), kMaxMemberTextBytes),
                  .pid = member.pid(),
                  .rank = member.rank(),
                  .error = ForDisplay(member.error(), kMaxMemberTextBytes),
                  .clock_offset_ns = member.clock_offset_ns()};
  if (!member.capture().empty()) {
    const absl::StatusOr<std::string> id = ParseCaptureName(member.capture());
    // Where an ID is typed, its beginning is enough. A record that is kept needs all of it.
    if (!id.ok() || !IsUlid(*id)) {
      return WrongMember(index, "capture: captures/{id} was expected, with a whole id");
    }
    out.capture_id = *id;
  }
  if (out.pid < 0 || out.pid > std::numeric_limits<int32_t>::max()) {
    return WrongMember(index, StrCat("pid: ", out.pid, " is not a process ID"));
  }
  if (out.rank < -1 || out.rank > kMaxRank) {
    return WrongMember(index, StrCat("rank: ", out.rank, " is not a rank"));
  }
  if (member.state() != v1::Capture::STATE_UNSPECIFIED) {
    const absl::StatusOr<CaptureState> state = StateFromProto(member.state());
    if (!state.ok()) return WrongMember(index, "state: is not a state of a capture");
    out.state = *state;
  }
  if (member.has_clock_bound_ns()) {
    if (member.clock_bound_ns() < 0) {
      return WrongMember(index, "clock_bound_ns: must not be negative");
    }
    out.clock_bound_ns = member.clock_bound_ns();
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<TargetNumber>> GroupTargetsFromProto(
    const google::protobuf::RepeatedPtrField<std::string>& names) {
  if (names.empty() || names.size() > kMaxGroupTargets) {
    return absl::InvalidArgumentError(
        StrCat("targets: ", names.size(), " given; from 1 to ", kMaxGroupTargets, " go"));
  }
  std::vector<TargetNumber> targets;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const TargetNumber target, ParseTargetName(name));
    if (std::ranges::find(targets, target) != targets.end()) {
      return absl::InvalidArgumentError(StrCat("targets: ", name, " is named twice"));
    }
    targets.push_back(target);
  }
  return targets;
}

absl::StatusOr<GroupRequest> GroupRequestFromProto(const v1::PrepareGroupRequest& request) {
  GroupRequest out;
  ASSIGN_OR_RETURN(out.id, ParseGroupName(request.group()));
  ASSIGN_OR_RETURN(out.targets, GroupTargetsFromProto(request.targets()));
  ASSIGN_OR_RETURN(out.spec, SpecFromProto(request.spec()));
  if (request.has_lease()) {
    ASSIGN_OR_RETURN(out.lease, DurationFromProto(request.lease(), "lease"));
  }
  if (request.has_lease_without_caller()) {
    ASSIGN_OR_RETURN(out.lease_without_caller,
                     DurationFromProto(request.lease_without_caller(), "lease_without_caller"));
  }
  return out;
}

absl::StatusOr<GroupStart> GroupStartFromProto(const v1::CommitGroupRequest& request) {
  GroupStart start;
  if (request.has_first_step()) {
    if (request.first_step() < 0) {
      return absl::InvalidArgumentError("first_step: must not be negative");
    }
    if (request.start_unix_ns() != 0) {
      return absl::InvalidArgumentError("first_step and start_unix_ns are mutually exclusive");
    }
    start.first_step = request.first_step();
  }
  if (request.start_unix_ns() < 0) {
    return absl::InvalidArgumentError("start_unix_ns: must not be negative");
  }
  if (request.start_unix_ns() > 0) start.time = absl::FromUnixNanos(request.start_unix_ns());
  if (request.has_lease()) {
    ASSIGN_OR_RETURN(start.lease, DurationFromProto(request.lease(), "lease"));
  }
  ASSIGN_OR_RETURN(start.members, GroupMembersFromProto(request.members()));
  return start;
}

absl::StatusOr<std::vector<GroupMember>> GroupMembersFromProto(
    const google::protobuf::RepeatedPtrField<v1::GroupMember>& members) {
  if (members.size() > kMaxGroupMembers) {
    return absl::InvalidArgumentError(
        StrCat("members: ", members.size(), " given; at most ", kMaxGroupMembers, " go"));
  }
  std::vector<GroupMember> out;
  for (int i = 0; i < members.size(); ++i) {
    ASSIGN_OR_RETURN(out.emplace_back(), MemberFromProto(members[i], i));
  }
  return out;
}

void PreparationToProto(const GroupPreparation& preparation, v1::GroupPreparation& out) {
  out.set_settled(preparation.settled);
  for (const PreparedMember& member : preparation.members) {
    v1::PreparedMember& row = *out.add_members();
    row.set_target(TargetName(member.target));
    if (member.capture.has_value()) CaptureToProto(*member.capture, *row.mutable_capture());
    row.set_prepared(member.prepared);
    row.set_current_step(member.current_step);
    row.set_median_step_ns(member.median_step_ns);
    row.set_error_reason(ToValidUtf8(member.error_reason));
    row.set_error_message(ToValidUtf8(member.error_message));
  }
}

void MemberStartsToProto(std::span<const MemberStart> outcomes, v1::CommitGroupResponse& out) {
  for (const MemberStart& outcome : outcomes) {
    v1::CommitGroupResponse::Outcome& row = *out.add_outcomes();
    row.set_capture(CaptureName(outcome.capture_id));
    row.set_started(outcome.started);
    row.set_current_step(outcome.current_step);
    row.set_error_reason(ToValidUtf8(outcome.error_reason));
    row.set_error_message(ToValidUtf8(outcome.error_message));
  }
}

void GroupMemberToProto(const GroupMember& member, v1::GroupMember& out) {
  out.set_node(ToValidUtf8(member.node));
  out.set_address(ToValidUtf8(member.address));
  if (!member.capture_id.empty()) out.set_capture(CaptureName(member.capture_id));
  out.set_pid(member.pid);
  out.set_rank(member.rank);
  out.set_state(static_cast<v1::Capture::State>(member.state));
  out.set_error(ToValidUtf8(member.error));
  out.set_clock_offset_ns(member.clock_offset_ns);
  if (member.clock_bound_ns >= 0) out.set_clock_bound_ns(member.clock_bound_ns);
}

}  // namespace profd::rpc
