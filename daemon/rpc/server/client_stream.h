// Calls with many requests and one answer, without a thread each. What such a call does is an
// UploadHandler.
//
//   wait ──arrived──► admission ──► read ─► work queue: Take ─┐      ┌─► report pool: End ──►
//   Finish ──► gone
//                               ▲────────────────────────┘ ─────┘ (no more)
//
// One message is read while none is worked on: that is what a caller can make the daemon hold, and
// it is charged (kSmallMessageBytes). A
// caller that sends nothing for `idle_timeout`, or up to twice that, loses its stream: others wait
// for its place.
//
// Threads: the handler's methods run on "profd-rpc" and "profd-report", never two at once.
#ifndef PROFD_DAEMON_RPC_SERVER_CLIENT_STREAM_H_
#define PROFD_DAEMON_RPC_SERVER_CLIENT_STREAM_H_

#include <grpcpp/alarm.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/rpc/server/call.h"
#include "daemon/rpc/server/deadline.h"
#include "daemon/worker/report_pool.h"

namespace profd::rpc {

template <typename Request, typename Response>
class UploadHandler {
 public:
  virtual ~UploadHandler() = default;
  // A message came. An error ends the call.
  virtual absl::Status Take(const Request& message) = 0;
  // There are no more: the caller said so, or went away. `turn` checks what came; the rest may take
  // long once it is given up.
  virtual absl::Status End(worker::ReportTurn& turn, Response& response) = 0;
};

template <typename Request, typename Response>
struct UploadMethod {
  using Reader = grpc::ServerAsyncReader<Response, Request>;
  using MakeHandler =
      std::function<std::unique_ptr<UploadHandler<Request, Response>>(const CallInfo&)>;

  Admission* admission;
  Needs needs;
  absl::Duration idle_timeout;
  std::function<void(grpc::ServerContext*, Reader*, void* tag)> request;
  MakeHandler make_handler;
};

template <typename RequestMessage, typename Response>
class UploadCall final : public Call {
 public:
  using Method = UploadMethod<RequestMessage, Response>;
  explicit UploadCall(std::shared_ptr<const Method> method)
      : Call(*method->admission), method_(std::move(method)) {}

 private:
  Needs needs() const override { return method_->needs; }
  const google::protobuf::Message& request() const override { return message_; }
  void DropRequest() override { RequestMessage().Swap(&message_); }
  void Request(void* tag) override { method_->request(&context_, &reader_, tag); }
  void StartSuccessor() override { std::make_shared<UploadCall>(method_)->Start(); }

  void OnRefused(const absl::Status& why) override {
    AuditLater(why);
    Finish(why);
  }

  void OnAdmitted() override {
    handler_ = method_->make_handler(info_);
    ExpectProgress();
    Read();
  }

  void Read() {
    reading_.store(true, std::memory_order_release);
    reader_.Read(&message_, read_.Expect());
  }

  void OnRead(bool ok) {
    reading_.store(false, std::memory_order_release);
    progressed_.store(true, std::memory_order_release);
    absl::Status posted;
    if (!ok) {
      posted = PostToWait(admission_.reports(),
                          [self = Self()](worker::ReportTurn& turn) { self->End(turn); });
    } else if (absl::Status kept = Keep(); !kept.ok()) {
      posted = kept;
    } else if (!admission_.work().Post(info_.principal, [self = Self()] { self->Take(); })) {
      posted = admission_.TurnedAway();
    }
    if (posted.ok()) return;
    AuditLater(posted);
    Finish(posted);
  }

  void Take() {
    if (admission_.closed()) return FinishAudited(admission_.TurnedAway());
    received_bytes_ += static_cast<int64_t>(message_.ByteSizeLong());
    if (absl::Status status = handler_->Take(message_); !status.ok()) return FinishAudited(status);
    Read();
  }

  void End(worker::ReportTurn& turn) {
    EndWaiting();
    if (cancelled_->load(std::memory_order_acquire)) {
      return FinishAudited(absl::CancelledError("the caller went away"));
    }
    if (admission_.closed()) return FinishAudited(admission_.TurnedAway());
    absl::Status status = handler_->End(turn, response_);
    // A caller that asks again with the same request ID gets the same answer.
    if (status.ok()) status = ReserveAnswer(response_.ByteSizeLong());
    FinishAudited(status);
  }

  void FinishAudited(const absl::Status& status) {
    handler_.reset();  // What it kept is gone before the caller hears of it.
    Audit(status, &response_, received_bytes_);
    Finish(status);
  }

  void Finish(const absl::Status& status) {
    {
      const absl::MutexLock lock(&mu_);
      over_ = true;
      alarm_.Cancel();
    }
    const grpc::Status answer = GrpcStatus(status);
    DropRequest();
    EndKeeping();
    if (answer.ok()) {
      reader_.Finish(response_, answer, finished_.Expect());
    } else {
      reader_.FinishWithError(answer, finished_.Expect());
    }
    Response().Swap(&response_);  // gRPC keeps its bytes.
  }
  void OnFinished(bool /*ok*/) {}

  // ---- callers that send nothing ----

  void ExpectProgress() {
    const absl::MutexLock lock(&mu_);
    if (over_) return;
    alarm_.Set(&admission_.completions(), MonotonicDeadline(method_->idle_timeout), idle_.Expect());
  }
  void OnIdle(bool expired) {
    if (!expired) return;  // The call is over.
    const bool progressed = progressed_.exchange(false, std::memory_order_acq_rel);
    // Once all came, it is the daemon that takes its time.
    if (!progressed && reading_.load(std::memory_order_acquire)) return context_.TryCancel();
    ExpectProgress();
  }

  std::shared_ptr<UploadCall> Self() {
    return std::static_pointer_cast<UploadCall>(shared_from_this());
  }

  const std::shared_ptr<const Method> method_;
  RequestMessage message_;
  Response response_;
  grpc::ServerAsyncReader<Response, RequestMessage> reader_{&context_};
  std::unique_ptr<UploadHandler<RequestMessage, Response>> handler_;  // Whoever works.
  int64_t received_bytes_ = 0;                                        // Likewise.
  Event read_{*this, static_cast<void (Call::*)(bool)>(&UploadCall::OnRead)};
  Event idle_{*this, static_cast<void (Call::*)(bool)>(&UploadCall::OnIdle)};
  Event finished_{*this, static_cast<void (Call::*)(bool)>(&UploadCall::OnFinished)};
  std::atomic<bool> reading_{false};     // It is the caller's turn.
  std::atomic<bool> progressed_{false};  // Since the alarm was last looked at.

  absl::Mutex mu_;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mu_);
  bool over_ ABSL_GUARDED_BY(mu_) = false;
};

// As ServeUnary(), for a method with a stream of requests.
template <typename Service, typename Base, typename Request, typename Response>
void ServeUpload(Admission& admission, Service& service,
                 void (Base::*requester)(grpc::ServerContext*,
                                         grpc::ServerAsyncReader<Response, Request>*,
                                         grpc::CompletionQueue*, grpc::ServerCompletionQueue*,
                                         void*),
                 Needs needs, absl::Duration idle_timeout,
                 typename UploadMethod<Request, Response>::MakeHandler make_handler) {
  (void)Request::descriptor();  // As ServeUnary() does.
  auto method = std::make_shared<UploadMethod<Request, Response>>();
  method->admission = &admission;
  method->needs = needs;
  method->idle_timeout = idle_timeout;
  method->request = [&admission, &service, requester](
                        grpc::ServerContext* context,
                        grpc::ServerAsyncReader<Response, Request>* reader, void* tag) {
    (service.*requester)(context, reader, &admission.completions(), &admission.completions(), tag);
  };
  method->make_handler = std::move(make_handler);
  std::make_shared<UploadCall<Request, Response>>(std::move(method))->Start();
}

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_CLIENT_STREAM_H_
