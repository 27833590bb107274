#include <charconv>
#include <string_view>

#include "cli/client/from_proto.h"
#include "cli/client/resource_names.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/convert/convert.h"

namespace profd::cli {
namespace {

// A state of a newer daemon is shown as one that is not over.
CaptureState StateOf(v1::Capture::State state) {
  const bool known = v1::Capture::State_IsValid(state) && state != v1::Capture::STATE_UNSPECIFIED;
  return known ? static_cast<CaptureState>(state) : CaptureState::kPending;
}

GroupMember MemberFromProto(const v1::GroupMember& message) {
  return {.node = message.node(),
          .address = message.address(),
          .capture_id = std::string(WithoutPrefix(message.capture(), kCapturesPrefix)),
          .pid = message.pid(),
          .rank = message.rank(),
          .state = StateOf(message.state()),
          .error = message.error(),
          .clock_offset_ns = message.clock_offset_ns(),
          .clock_bound_ns = message.has_clock_bound_ns() ? message.clock_bound_ns() : -1};
}

PreparedMember PreparedOf(const v1::PreparedMember& message) {
  PreparedMember member{.prepared = message.prepared(),
                        .current_step = message.current_step(),
                        .median_step_ns = message.median_step_ns(),
                        .error_reason = message.error_reason(),
                        .error_message = message.error_message()};
  const std::string_view number = WithoutPrefix(message.target(), kTargetsPrefix);
  std::from_chars(number.data(), number.data() + number.size(), member.target);
  if (message.has_capture()) member.capture = FromProto(message.capture()).record;
  return member;
}

}  // namespace

GroupView FromProto(const v1::CaptureGroup& message) {
  GroupView view{.record = {.id = std::string(WithoutPrefix(message.name(), kGroupsPrefix)),
                            .first_step = message.has_first_step() ? message.first_step() : -1,
                            .requested_by = message.requested_by(),
                            .closed = message.closed()}};
  for (const v1::GroupMember& member : message.members()) {
    view.record.members.push_back(MemberFromProto(member));
  }
  for (const v1::Capture& capture : message.captures()) {
    view.captures.push_back(FromProto(capture));
    view.record.steps = view.captures.back().record.spec.steps;
  }
  return view;
}

GroupPreparation FromProto(const v1::GroupPreparation& message) {
  GroupPreparation preparation{.settled = message.settled()};
  for (const v1::PreparedMember& member : message.members()) {
    preparation.members.push_back(PreparedOf(member));
  }
  return preparation;
}

std::vector<MemberStart> FromProto(const v1::CommitGroupResponse& message) {
  std::vector<MemberStart> starts;
  for (const v1::CommitGroupResponse::Outcome& outcome : message.outcomes()) {
    starts.push_back({.capture_id = std::string(WithoutPrefix(outcome.capture(), kCapturesPrefix)),
                      .started = outcome.started(),
                      .current_step = outcome.current_step(),
                      .error_reason = outcome.error_reason(),
                      .error_message = outcome.error_message()});
  }
  return starts;
}

v1::PrepareGroupRequest ToProto(const GroupRequest& request) {
  v1::PrepareGroupRequest message;
  message.set_group(GroupName(request.id));
  for (const TargetNumber target : request.targets) {
    message.add_targets(TargetName(target));
  }
  rpc::SpecToProto(request.spec, *message.mutable_spec());
  message.mutable_lease()->set_seconds(absl::ToInt64Seconds(request.lease));
  if (request.lease_without_caller != absl::InfiniteDuration()) {
    message.mutable_lease_without_caller()->set_seconds(
        absl::ToInt64Seconds(request.lease_without_caller));
  }
  return message;
}

v1::CommitGroupRequest ToProto(const std::string& group_id, const GroupStart& start) {
  v1::CommitGroupRequest message;
  message.set_group(GroupName(group_id));
  if (start.first_step >= 0) message.set_first_step(start.first_step);
  if (start.time != absl::InfinitePast()) message.set_start_unix_ns(absl::ToUnixNanos(start.time));
  for (const GroupMember& member : start.members) *message.add_members() = ToProto(member);
  if (start.lease != absl::InfiniteDuration()) {
    message.mutable_lease()->set_seconds(absl::ToInt64Seconds(start.lease));
  }
  return message;
}

v1::GroupMember ToProto(const GroupMember& member) {
  v1::GroupMember message;
  message.set_node(member.node);
  message.set_address(member.address);
  if (!member.capture_id.empty()) message.set_capture(CaptureName(member.capture_id));
  message.set_pid(member.pid);
  message.set_rank(member.rank);
  message.set_state(static_cast<v1::Capture::State>(member.state));
  message.set_error(member.error);
  message.set_clock_offset_ns(member.clock_offset_ns);
  if (member.clock_bound_ns >= 0) message.set_clock_bound_ns(member.clock_bound_ns);
  return message;
}

}  // namespace profd::cli
