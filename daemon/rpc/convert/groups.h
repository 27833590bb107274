// Groups between the daemon's structs and the messages of proto/profd/v1, both ways. What
// whoever asked tells of members elsewhere is hearsay: it is checked for its form, and cleaned.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_RPC_CONVERT_GROUPS_H_
#define PROFD_DAEMON_RPC_CONVERT_GROUPS_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/group_types.h"
#include "profd/v1/captures.pb.h"

namespace profd::rpc {

// `group` and `targets` as PrepareGroup and CreateCaptureGroup take them. INVALID_ARGUMENT.
absl::StatusOr<std::vector<TargetNumber>> GroupTargetsFromProto(
    const google::protobuf::RepeatedPtrField<std::string>& targets);
absl::StatusOr<GroupRequest> GroupRequestFromProto(const v1::PrepareGroupRequest& request);
absl::StatusOr<GroupStart> GroupStartFromProto(const v1::CommitGroupRequest& request);
absl::StatusOr<std::vector<GroupMember>> GroupMembersFromProto(
    const google::protobuf::RepeatedPtrField<v1::GroupMember>& members);

// Without the clock.
void PreparationToProto(const GroupPreparation& preparation, v1::GroupPreparation& out);
void MemberStartsToProto(std::span<const MemberStart> outcomes, v1::CommitGroupResponse& out);
void GroupMemberToProto(const GroupMember& member, v1::GroupMember& out);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_GROUPS_H_
