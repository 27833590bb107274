#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <utility>

#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

// Aborting is for who wants to leave.
constexpr std::chrono::seconds kAbortDeadline(5);

}  // namespace

// The stream of PrepareGroup().
class DaemonClient::Presence {
 public:
  // Keeps the client's channel: a fleet drops clients that have failed.
  Presence(std::shared_ptr<Impl> impl, const GroupRequest& request)
      : impl_(std::move(impl)),
        call_(*impl_, std::nullopt),
        reader_(impl_->captures_->AsyncPrepareGroup(call_.context(), ToProto(request), &queue_,
                                                    nullptr)) {}
  ~Presence() { Cancel().IgnoreError(); }
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  // Until `keep_waiting` says no, or it is settled. False: the stream has ended, see Finish().
  absl::StatusOr<bool> Read(absl::FunctionRef<bool(const GroupPreparation&)> keep_waiting) {
    bool is_begun = false;  // The first operation is the call itself.
    while (true) {
      while (is_in_flight_ && !AwaitOperation()) {
        if (!keep_waiting(preparation_)) return true;
      }
      if (!ok_) return false;
      if (is_begun) {
        RETURN_IF_ERROR(impl_->Check(message_));
        preparation_ = FromProto(message_);
        is_heard_ = true;
      }
      is_begun = true;
      reader_->Read(&message_, nullptr);
      is_in_flight_ = true;
      if (preparation_.settled) return true;
    }
  }

  // Ends the stream. Returns how it ended.
  absl::Status Cancel() {
    if (is_finished_) return absl::OkStatus();
    call_.context()->TryCancel();
    // gRPC may write to message_ until the operation has ended, also after a cancellation.
    while (is_in_flight_) AwaitOperation();
    return Finish();
  }

  // Once Read() returned false.
  absl::Status Finish() {
    is_finished_ = true;
    grpc::Status status;
    reader_->Finish(&status, nullptr);
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    // A completion queue has to be empty before it is destroyed.
    while (queue_.Next(&tag, &ok)) {
    }
    return status.ok() ? absl::OkStatus() : call_.Result(status);
  }

  bool is_heard() const { return is_heard_; }
  const GroupPreparation& preparation() const { return preparation_; }

 private:
  // False: it is still in flight.
  bool AwaitOperation() {
    void* tag = nullptr;
    if (queue_.AsyncNext(&tag, &ok_, MonotonicDeadline(kIdleInterval)) ==
        grpc::CompletionQueue::TIMEOUT) {
      return false;
    }
    is_in_flight_ = false;
    return true;
  }

  const std::shared_ptr<Impl> impl_;
  grpc::CompletionQueue queue_;
  Impl::Call call_;
  v1::GroupPreparation message_;
  GroupPreparation preparation_;
  const std::unique_ptr<grpc::ClientAsyncReader<v1::GroupPreparation>> reader_;
  bool ok_ = false;
  bool is_in_flight_ = true;
  bool is_heard_ = false;
  bool is_finished_ = false;
};

absl::StatusOr<GroupPreparation> DaemonClient::PrepareGroup(
    const GroupRequest& request, absl::FunctionRef<bool(const GroupPreparation&)> keep_waiting,
    std::shared_ptr<Presence>* presence) {
  auto stream = std::make_shared<Presence>(impl_, request);
  ASSIGN_OR_RETURN(const bool is_open, stream->Read(keep_waiting));
  if (!is_open) {
    RETURN_IF_ERROR(stream->Finish());
  } else if (!stream->is_heard()) {
    RETURN_IF_ERROR(stream->Cancel());
  }
  GroupPreparation preparation = stream->preparation();
  if (is_open) *presence = std::move(stream);
  return preparation;
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
