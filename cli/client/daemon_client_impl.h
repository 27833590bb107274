// What the files of DaemonClient share: the channel, the stubs, and how a call is made. Nothing
// else includes it.
//
// How do I call another RPC?  A method in daemon_client.h, its body in the daemon_client_*.cc of
// its kind: conversion by from_proto.h, the call by Impl::Unary() or, for a stream, Impl::Call
// and, for each of its messages, Impl::Check(). A list is read by Impl::ForEachRow(), which also
// ends one that the daemon does not end.
#ifndef PROFD_CLI_CLIENT_DAEMON_CLIENT_IMPL_H_
#define PROFD_CLI_CLIENT_DAEMON_CLIENT_IMPL_H_

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/client/daemon_client.h"
#include "cli/client/page_walk.h"
#include "cli/client/resource_names.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "profd/v1/captures.grpc.pb.h"
#include "profd/v1/export.grpc.pb.h"
#include "profd/v1/node.grpc.pb.h"
#include "profd/v1/reports.grpc.pb.h"
#include "profd/v1/schedules.grpc.pb.h"
#include "profd/v1/targets.grpc.pb.h"

namespace profd::cli {

// A daemon under attack, on a machine whose cores are all busy, was seen to take more than 5 s.
inline constexpr std::chrono::seconds kConnectDeadline(15);
inline constexpr std::chrono::seconds kCallDeadline(30);
// A purge removes files and records one by one.
inline constexpr std::chrono::seconds kPurgeDeadline(600);
inline constexpr int kListPageSize = 500;
// How often a wait for a stream's next message asks whether to go on.
inline constexpr absl::Duration kIdleInterval = absl::Milliseconds(100);

// A deadline of gRPC that does not move when the clock is set.
inline gpr_timespec MonotonicDeadline(absl::Duration from_now) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(from_now), GPR_TIMESPAN));
}

// The connection is made by the first call. What is wrong with the endpoint's certificates goes
// into `status`; the calls of such a channel fail.
std::shared_ptr<grpc::Channel> OpenChannel(const Endpoint& endpoint, absl::Status& status);

class DaemonClient::Impl {
 public:
  explicit Impl(const Endpoint& endpoint)
      : endpoint_(endpoint),
        channel_(OpenChannel(endpoint, channel_status_)),
        captures_(v1::CaptureService::NewStub(channel_)),
        targets_(v1::TargetService::NewStub(channel_)),
        reports_(v1::ReportService::NewStub(channel_)),
        exports_(v1::ExportService::NewStub(channel_)),
        nodes_(v1::NodeService::NewStub(channel_)),
        schedules_(v1::ScheduleService::NewStub(channel_)) {}

  // One call's context, ended by Abort() while it lives.
  class Call {
   public:
    Call(Impl& impl, std::optional<std::chrono::seconds> deadline, bool abortable = true)
        : impl_(impl) {
      const absl::MutexLock lock(&impl_.mu_);
      absl::Duration left = impl_.limit_ - Clock::Real().Monotonic();
      if (deadline.has_value()) left = std::min(left, absl::FromChrono(*deadline));
      if (left < absl::InfiniteDuration()) context_.set_deadline(MonotonicDeadline(left));
      if (!abortable) return;
      impl_.calls_.insert(&context_);
      if (impl_.aborted_) context_.TryCancel();
    }
    ~Call() {
      const absl::MutexLock lock(&impl_.mu_);
      impl_.calls_.erase(&context_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    grpc::ClientContext* context() { return &context_; }

    absl::Status Result(const grpc::Status& status) { return impl_.Translate(status, context_); }

   private:
    Impl& impl_;
    grpc::ClientContext context_;
  };

  void LimitCalls(absl::Duration deadline) {
    const absl::MutexLock lock(&mu_);
    limit_ = deadline;
  }

  void Abort() {
    const absl::MutexLock lock(&mu_);
    aborted_ = true;
    for (grpc::ClientContext* context : calls_) context->TryCancel();
  }

  bool Aborted() {
    const absl::MutexLock lock(&mu_);
    return aborted_;
  }

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Unary(
      Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
      const Request& request, std::chrono::seconds deadline, bool abortable = true) {
    Call call(*this, deadline, abortable);
    Response response;
    const grpc::Status status = (stub.*method)(call.context(), request, &response);
    if (!status.ok()) return call.Result(status);
    RETURN_IF_ERROR(Check(response));
    return response;
  }

  // Calls `take` with every row of a list, page after page, until there are `limit` of them (0:
  // all) or `take` returns false. `rows` returns those of a response. DATA_LOSS: the list does not
  // end.
  template <typename Stub, typename Request, typename Response, typename Rows, typename Take>
  absl::Status ForEachRow(
      Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
      Request request, std::chrono::seconds deadline, int64_t limit, Rows rows, Take take) {
    PageWalk walk;
    for (int64_t taken = 0;;) {
      ASSIGN_OR_RETURN(const Response response, Unary(stub, method, request, deadline));
      for (const auto& row : rows(response)) {
        if (limit != 0 && taken == limit) return absl::OkStatus();
        ASSIGN_OR_RETURN(const bool wants_more, take(row));
        if (!wants_more) return absl::OkStatus();
        ++taken;
      }
      const std::string& next = response.next_page_token();
      if (next.empty() || (limit != 0 && taken == limit)) return absl::OkStatus();
      if (absl::Status status = walk.Advance(static_cast<int64_t>(response.ByteSizeLong()), next);
          !status.ok()) {
        return EndlessList(status);
      }
      request.set_page_token(next);
      if (limit != 0) request.set_page_size(PageSizeFor(limit - taken));
    }
  }
  static int32_t PageSizeFor(int64_t wanted) {
    return static_cast<int32_t>(wanted == 0 ? kListPageSize
                                            : std::min<int64_t>(wanted, kListPageSize));
  }

  absl::Status Translate(const grpc::Status& status, const grpc::ClientContext& context);
  // Must precede every use of an answer. DATA_LOSS names this daemon and the invalid field.
  absl::Status Check(const google::protobuf::Message& answer) const;
  // Names this daemon as one whose list does not end.
  absl::Status EndlessList(const absl::Status& why) const;
  absl::Status AskWhoAnswers();
  // A daemon that went away during a watch: the next one ends what the last one left before
  // it answers, so it knows.
  absl::StatusOr<CaptureView> AskNextDaemon(const std::string& id);

  const Endpoint endpoint_;
  absl::Status channel_status_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::CaptureService::Stub> captures_;
  const std::unique_ptr<v1::TargetService::Stub> targets_;
  const std::unique_ptr<v1::ReportService::Stub> reports_;
  const std::unique_ptr<v1::ExportService::Stub> exports_;
  const std::unique_ptr<v1::NodeService::Stub> nodes_;
  const std::unique_ptr<v1::ScheduleService::Stub> schedules_;
  NodeInfo node_;

 private:
  absl::Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration limit_ ABSL_GUARDED_BY(mu_) = absl::InfiniteDuration();  // Monotonic.
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_DAEMON_CLIENT_IMPL_H_
