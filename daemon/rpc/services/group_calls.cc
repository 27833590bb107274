#include "daemon/rpc/services/group_calls.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/convert/groups.h"
#include "daemon/rpc/services/capture_list.h"
#include "daemon/rpc/services/capture_watch.h"

namespace profd::rpc {
namespace {

absl::Status NoSuchGroup(std::string_view id) {
  return absl::NotFoundError(StrCat("no group ", id, "; `profctl captures` lists those there are"));
}

// Of a group that a profd made that kept none.
GroupRecord RecordOf(std::string_view id, const std::vector<CaptureRecord>& captures) {
  GroupRecord group{.id = std::string(id),
                    .steps = captures.front().spec.steps,
                    .create_time = captures.front().create_time,
                    .requested_by = captures.front().requested_by,
                    .closed = true};
  return group;
}

// What is known here of our own captures comes before what others have said of them.
void Overlay(const std::vector<CaptureRecord>& captures, std::vector<GroupMember>& members) {
  for (const CaptureRecord& capture : captures) {
    auto member = std::ranges::find(members, capture.id, &GroupMember::capture_id);
    if (member == members.end()) {
      member = members.insert(members.end(), GroupMember{.capture_id = capture.id});
    }
    member->node = capture.node;
    member->pid = capture.target.pid;
    member->rank = RankOf(capture.target);
    member->state = capture.state;
    member->error = capture.error_message;
  }
}

}  // namespace

// ---- calls with one answer ----

absl::Status GroupCalls::Create(const CallInfo& info, const v1::CreateCaptureGroupRequest& request,
                                v1::CaptureGroup& response) {
  ASSIGN_OR_RETURN(const std::vector<CaptureRecord> records, DoCreate(info, request));
  return ToProto(info.caller, records.front().group_id, response);
}

absl::StatusOr<std::vector<CaptureRecord>> GroupCalls::DoCreate(
    const CallInfo& info, const v1::CreateCaptureGroupRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<TargetNumber> targets,
                   GroupTargetsFromProto(request.targets()));
  ASSIGN_OR_RETURN(const CaptureSpec spec, SpecFromProto(request.spec()));
  RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  return parts_.manager.CreateGroup(info.caller, targets, spec, request.request_id());
}

absl::Status GroupCalls::Commit(const CallInfo& info, const v1::CommitGroupRequest& request,
                                v1::CommitGroupResponse& response) {
  ASSIGN_OR_RETURN(const std::string id, ParseGroupName(request.group()));
  ASSIGN_OR_RETURN(const GroupStart start, GroupStartFromProto(request));
  ASSIGN_OR_RETURN(const std::vector<MemberStart> outcomes,
                   parts_.manager.CommitGroup(info.caller, id, start));
  MemberStartsToProto(outcomes, response);
  return absl::OkStatus();
}

absl::Status GroupCalls::Abort(const CallInfo& info, const v1::AbortGroupRequest& request,
                               v1::CaptureGroup& response) {
  ASSIGN_OR_RETURN(const std::string id, ParseGroupName(request.group()));
  // First, for nothing may wait for the disk before the targets are stopped. NOT_FOUND comes first
  // of the errors.
  const absl::Status aborted = parts_.manager.AbortGroup(info.caller, id);
  RETURN_IF_ERROR(ToProto(info.caller, id, response));
  return aborted;
}

absl::Status GroupCalls::Close(const CallInfo& info, const v1::CloseGroupRequest& request,
                               v1::CaptureGroup& response) {
  ASSIGN_OR_RETURN(const std::string id, ParseGroupName(request.group()));
  ASSIGN_OR_RETURN(std::vector<GroupMember> members, GroupMembersFromProto(request.members()));
  RETURN_IF_ERROR(ToProto(info.caller, id, response));
  RETURN_IF_ERROR(parts_.manager.CloseGroup(info.caller, id, std::move(members)));
  response.Clear();
  return ToProto(info.caller, id, response);
}

absl::Status GroupCalls::Get(const CallInfo& info, const v1::GetCaptureGroupRequest& request,
                             v1::CaptureGroup& response) {
  ASSIGN_OR_RETURN(const std::string id, ParseGroupName(request.name()));
  return ToProto(info.caller, id, response);
}

absl::Status GroupCalls::ToProto(const Caller& caller, std::string_view id, v1::CaptureGroup& out) {
  CaptureList list(parts_.manager, parts_.store, caller);
  ASSIGN_OR_RETURN(const std::vector<CaptureRecord> captures, list.Group(id));
  if (captures.empty()) return NoSuchGroup(id);
  absl::StatusOr<GroupRecord> group = parts_.store.GetGroup(id);
  if (absl::IsNotFound(group.status())) group = RecordOf(id, captures);
  RETURN_IF_ERROR(group.status());
  const std::string principal = PrincipalName(caller.principal);
  // Members on other nodes belong to the job's owner. A caller who may see some captures here does
  // not learn of those.
  if (group->requested_by != principal && !caller.MayAll(Verb::kList)) {
    group->members.clear();
  }
  Overlay(captures, group->members);
  std::ranges::stable_sort(group->members, {}, [](const GroupMember& member) {
    return std::tie(member.rank, member.node, member.pid);
  });

  out.set_name(GroupName(id));
  for (const CaptureRecord& capture : captures) {
    v1::Capture& message = *out.add_captures();
    CaptureToProto(capture, message);
    EvictedToProto(parts_.store, principal, capture.id, message);
  }
  for (const GroupMember& member : group->members) GroupMemberToProto(member, *out.add_members());
  if (group->first_step >= 0) out.set_first_step(group->first_step);
  out.set_requested_by(group->requested_by);
  out.set_closed(group->closed);
  return absl::OkStatus();
}

// ---- preparing ----

void GroupPrepare::News::Set(const GroupPreparation& preparation) {
  {
    absl::MutexLock lock(&mu_);
    newest_ = preparation;
  }
  wake_();
}

std::optional<GroupPreparation> GroupPrepare::News::Take() {
  absl::MutexLock lock(&mu_);
  return std::exchange(newest_, std::nullopt);
}

GroupPrepare::GroupPrepare(const ServiceParts& parts, const CallInfo& info,
                           v1::PrepareGroupRequest request,
                           ServerStream<v1::GroupPreparation>& stream)
    : parts_(parts),
      info_(info),
      request_(std::move(request)),
      stream_(stream),
      news_(std::make_shared<News>(stream.Waker())) {}

GroupPrepare::~GroupPrepare() {
  if (watch_.has_value()) parts_.manager.StopWatching(*watch_);
}

absl::Status GroupPrepare::Begin() {
  ASSIGN_OR_RETURN(const GroupRequest request, GroupRequestFromProto(request_));
  ASSIGN_OR_RETURN(watch_, parts_.manager.PrepareGroup(
                               info_.caller, request,
                               [news = news_](const GroupPreparation& now) { news->Set(now); }));
  return absl::OkStatus();
}

void GroupPrepare::Pump() {
  if (stream_.cancelled()) return stream_.Finish(absl::CancelledError("the caller went away"));
  if (!begun_) {
    begun_ = true;
    if (absl::Status status = Begin(); !status.ok()) return stream_.Finish(status);
  }
  const std::optional<GroupPreparation> preparation = news_->Take();
  if (!preparation.has_value()) {
    if (stream_.closing()) {
      stream_.Finish(absl::UnavailableError("profd is stopping; ask again once it is back"));
    }
    return;
  }
  v1::GroupPreparation message;
  PreparationToProto(*preparation, message);
  ClockToProto(parts_, *message.mutable_clock());
  // A stream with such a lease stays open: its end says that the caller has gone.
  if (preparation->settled && !request_.has_lease_without_caller()) {
    return stream_.WriteLast(message);
  }
  stream_.Write(message);
}

}  // namespace profd::rpc
