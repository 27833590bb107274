#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

// Aborting is for who wants to leave.
constexpr std::chrono::seconds kAbortDeadline(5);

// Waits for the operation in flight, whose tag is null; asks `keep_waiting` meanwhile, and ends
// the call where that says no. False: there is nothing more to read.
bool Await(grpc::CompletionQueue& queue, grpc::ClientContext& context,
           absl::FunctionRef<bool()> keep_waiting) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kIdleInterval) ==
         grpc::CompletionQueue::TIMEOUT) {
    if (!keep_waiting()) context.TryCancel();
  }
  return ok;
}

}  // namespace

absl::StatusOr<GroupPreparation> DaemonClient::PrepareGroup(
    const GroupRequest& request, absl::FunctionRef<bool(const GroupPreparation&)> keep_waiting) {
  grpc::CompletionQueue queue;
  Impl::Call call(*impl_, std::nullopt);
  GroupPreparation preparation;
  v1::GroupPreparation message;
  absl::Status answer;
  bool heard = false;
  bool given_up = false;
  const auto waits = [&] {
    given_up = given_up || !keep_waiting(preparation);
    return !given_up;
  };
  const auto reader =
      impl_->captures_->AsyncPrepareGroup(call.context(), ToProto(request), &queue, nullptr);
  bool ok = Await(queue, *call.context(), waits);
  while (ok) {
    reader->Read(&message, nullptr);
    ok = Await(queue, *call.context(), waits);
    if (!ok) break;
    heard = true;
    answer = impl_->Check(message);
    if (!answer.ok()) {
      call.context()->TryCancel();
      break;
    }
    preparation = FromProto(message);
  }
  grpc::Status status;
  reader->Finish(&status, nullptr);
  Await(queue, *call.context(), [] { return true; });
  queue.Shutdown();
  void* tag = nullptr;
  while (queue.Next(&tag, &ok)) {
  }
  RETURN_IF_ERROR(answer);
  if (status.ok() || (given_up && heard)) return preparation;
  return call.Result(status);
}

absl::StatusOr<std::vector<MemberStart>> DaemonClient::CommitGroup(const std::string& group_id,
                                                                   const GroupStart& start) {
  ASSIGN_OR_RETURN(const v1::CommitGroupResponse response,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::CommitGroup,
                                ToProto(group_id, start), kCallDeadline));
  return FromProto(response);
}

absl::Status DaemonClient::RenewGroup(const std::string& group_id, const GroupStart& start,
                                      absl::Duration deadline) {
  return impl_
      ->Unary(*impl_->captures_, &v1::CaptureService::Stub::CommitGroup, ToProto(group_id, start),
              absl::ToChronoSeconds(absl::Ceil(deadline, absl::Seconds(1))))
      .status();
}

absl::Status DaemonClient::AbortGroup(const std::string& group_id) {
  v1::AbortGroupRequest request;
  request.set_group(GroupName(group_id));
  return impl_
      ->Unary(*impl_->captures_, &v1::CaptureService::Stub::AbortGroup, request, kAbortDeadline,
              /*abortable=*/false)
      .status();
}

absl::Status DaemonClient::CloseGroup(const std::string& group_id,
                                      const std::vector<GroupMember>& members) {
  v1::CloseGroupRequest request;
  request.set_group(GroupName(group_id));
  for (const GroupMember& member : members) *request.add_members() = ToProto(member);
  return impl_
      ->Unary(*impl_->captures_, &v1::CaptureService::Stub::CloseGroup, request, kCallDeadline)
      .status();
}

absl::StatusOr<GroupView> DaemonClient::GetCaptureGroup(const std::string& id) {
  v1::GetCaptureGroupRequest request;
  request.set_name(GroupName(id));
  ASSIGN_OR_RETURN(const v1::CaptureGroup group,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::GetCaptureGroup,
                                request, kCallDeadline));
  return FromProto(group);
}

absl::StatusOr<int64_t> DaemonClient::ReadClock(absl::Duration deadline) {
  ASSIGN_OR_RETURN(
      const v1::Node::Clock clock,
      impl_->Unary(*impl_->nodes_, &v1::NodeService::Stub::GetClock, v1::GetClockRequest(),
                   absl::ToChronoSeconds(absl::Ceil(deadline, absl::Seconds(1)))));
  return clock.unix_ns();
}

}  // namespace profd::cli
