// How an RPC that reports on a capture file runs: its place in the report pool instead of a work
// queue, and an answer of bytes that profd-report made and profd does not look into.
//
//   wait ──arrived──► admission ──► report pool: handler ──► profd-report ──► bytes ──► Finish ──►
//   gone
#ifndef PROFD_DAEMON_RPC_SERVICES_REPORT_CALL_H_
#define PROFD_DAEMON_RPC_SERVICES_REPORT_CALL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "daemon/rpc/server/call.h"
#include "daemon/worker/report_pool.h"

namespace profd::rpc {

template <typename Request>
struct ReportMethod {
  using Responder = grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>;

  Admission* admission;
  std::function<void(grpc::ServerContext*, Request*, Responder*, void* tag)> request;
  std::function<absl::Status(const CallInfo&, const Request&, worker::ReportTurn&,
                             grpc::ByteBuffer&)>
      handle;
};

template <typename RequestMessage>
class ReportCall final : public Call {
 public:
  using Method = ReportMethod<RequestMessage>;
  explicit ReportCall(std::shared_ptr<const Method> method)
      : Call(*method->admission), method_(std::move(method)) {}

 private:
  Needs needs() const override { return Verb::kRead; }
  const google::protobuf::Message& request() const override { return request_; }
  void DropRequest() override { RequestMessage().Swap(&request_); }
  void Request(void* tag) override { method_->request(&context_, &request_, &responder_, tag); }
  void StartSuccessor() override { std::make_shared<ReportCall>(method_)->Start(); }

  void OnAdmitted() override {
    auto self = std::static_pointer_cast<ReportCall>(shared_from_this());
    const auto run = [self](worker::ReportTurn& turn) { self->Run(turn); };
    if (absl::Status posted = PostToWait(admission_.reports(), run); !posted.ok()) Finish(posted);
  }
  void OnRefused(const absl::Status& why) override {
    AuditLater(why);
    Finish(why);
  }

  void Run(worker::ReportTurn& turn) {
    EndWaiting();
    if (cancelled_->load(std::memory_order_acquire)) {
      return Finish(absl::CancelledError("the caller went away"));
    }
    // What waits when the daemon stops is not begun anymore.
    if (admission_.closed()) return Finish(admission_.TurnedAway());
    absl::Status status = method_->handle(info_, request_, turn, response_);
    if (status.ok()) status = KeepAnswer(response_.Length());
    Audit(status, nullptr, /*bytes=*/0);
    Finish(status);
  }

  void Finish(const absl::Status& status) {
    const grpc::Status answer = GrpcStatus(status);
    DropRequest();
    EndKeeping();
    if (answer.ok()) {
      responder_.Finish(response_, answer, finished_.Expect());
    } else {
      responder_.FinishWithError(answer, finished_.Expect());
    }
    response_.Clear();  // gRPC keeps its bytes.
  }
  void OnFinished(bool /*ok*/) {}

  const std::shared_ptr<const Method> method_;
  RequestMessage request_;
  grpc::ByteBuffer response_;
  typename Method::Responder responder_{&context_};
  Event finished_{*this, static_cast<void (Call::*)(bool)>(&ReportCall::OnFinished)};
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_REPORT_CALL_H_
