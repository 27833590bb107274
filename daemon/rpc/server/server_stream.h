// Streams: calls with many answers, without a thread each. What a stream does is a
// StreamHandler, whose Pump() is called when there may be something to do.
//
// Threads: Pump() runs on "profd-rpc", never twice at once for one stream.
#ifndef PROFD_DAEMON_RPC_SERVER_SERVER_STREAM_H_
#define PROFD_DAEMON_RPC_SERVER_SERVER_STREAM_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/rpc/server/call.h"

namespace profd::rpc {

// The stream as its handler sees it.
//
// Threads: any; but only one may write, and only while no message is on its way.
template <typename Response>
class ServerStream {
 public:
  // The caller went away, or the connection broke: any status will do for Finish().
  virtual bool cancelled() const = 0;
  // profd is stopping: streams without an end of their own finish as UNAVAILABLE.
  virtual bool closing() const = 0;
  // No message is on its way, and the stream is not finished.
  virtual bool can_write() const = 0;
  // Sends one message, which is copied. Pump() comes again when the next one may go. Without memory
  // for it (quota answer-memory) nothing is sent and cancelled() is true from now on: Finish() then
  // ends the stream with that reason, whatever status it is given.
  virtual void Write(const Response& message) = 0;
  // The last message, and OK.
  virtual void WriteLast(const Response& message) = 0;
  // Ends the stream, once what was written is on its way. No Pump() after that. Only the first call
  // counts.
  virtual void Finish(const absl::Status& status) = 0;
  // Breaks the connection's stream where the caller takes nothing: a write under way fails.
  virtual void Abort() = 0;
  // Causes Pump(), from any thread, as long as the stream lives; does not keep it alive.
  virtual std::function<void()> Waker() = 0;

 protected:
  ~ServerStream() = default;
};

// Destroyed on "profd-rpc", too, after the stream was finished.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // First when the call was admitted; then whenever a message was sent, the stream was woken
  // or cancelled, or the daemon is stopping. Never while a message is on its way.
  virtual void Pump() = 0;
};

template <typename Request, typename Response>
struct StreamMethod {
  using Responder = grpc::ServerAsyncWriter<Response>;
  using MakeHandler = std::function<std::unique_ptr<StreamHandler>(const CallInfo&, const Request&,
                                                                   ServerStream<Response>&)>;

  Admission* admission;
  Needs needs;
  std::function<void(grpc::ServerContext*, Request*, Responder*, void* tag)> request;
  MakeHandler make_handler;
};

template <typename RequestMessage, typename Response>
class StreamCall final : public Call, public ServerStream<Response> {
 public:
  using Method = StreamMethod<RequestMessage, Response>;
  explicit StreamCall(std::shared_ptr<const Method> method)
      : Call(*method->admission), method_(std::move(method)) {}

  bool cancelled() const override { return cancelled_->load(std::memory_order_acquire); }
  bool closing() const override { return admission_.closed(); }

  bool can_write() const override {
    absl::MutexLock lock(&mu_);
    return !writing_ && !finished_;
  }

  void Write(const Response& message) override {
    const size_t bytes = message.ByteSizeLong();
    if (!MayWrite(bytes)) return Wake();
    {
      absl::MutexLock lock(&mu_);
      writing_ = true;
      bytes_ += static_cast<int64_t>(bytes);
    }
    responder_.Write(message, wrote_.Expect());
  }

  void WriteLast(const Response& message) override {
    const size_t bytes = message.ByteSizeLong();
    if (!MayWrite(bytes)) return Finish(absl::OkStatus());
    {
      absl::MutexLock lock(&mu_);
      finished_ = true;
      bytes_ += static_cast<int64_t>(bytes);
    }
    responder_.WriteAndFinish(message, grpc::WriteOptions(), GrpcStatus(absl::OkStatus()),
                              ended_.Expect());
    LetGo();
  }

  void Finish(const absl::Status& status) override {
    absl::Status end;
    {
      absl::MutexLock lock(&mu_);
      if (std::exchange(finished_, true)) return;
      end = no_memory_.ok() ? status : no_memory_;
      outcome_ = end;
      if (writing_) {  // gRPC takes one thing at a time.
        finish_later_ = end;
        return;
      }
    }
    EndWith(end);
  }

  void Abort() override { context_.TryCancel(); }

  std::function<void()> Waker() override {
    return [weak = std::weak_ptr<StreamCall>(Self())] {
      if (const auto self = weak.lock()) self->Wake();
    };
  }

 private:
  Needs needs() const override { return method_->needs; }
  const google::protobuf::Message& request() const override { return request_; }
  int64_t sent_bytes() const override {
    absl::MutexLock lock(&mu_);
    return bytes_;
  }
  void DropRequest() override { RequestMessage().Swap(&request_); }
  size_t copies() const override { return 2; }  // The handler may have one.
  void Request(void* tag) override { method_->request(&context_, &request_, &responder_, tag); }
  void StartSuccessor() override { std::make_shared<StreamCall>(method_)->Start(); }
  void OnRefused(const absl::Status& why) override {
    // As AuditLater(): what is turned away for its number makes no line.
    if (!IsRefusal(why)) audited_ = true;
    Finish(why);
  }
  void OnGone() override { Wake(); }

  void OnAdmitted() override {
    const auto begin = [self = Self()] {
      self->EndWaiting();
      self->handler_ = self->method_->make_handler(self->info_, self->request_, *self);
      self->RunPump();
    };
    {
      absl::MutexLock lock(&mu_);
      pump_pending_ = true;
      until_finished_ = Self();
    }
    if (absl::Status kept = ReserveAnswer(kSmallMessageBytes); !kept.ok()) return Finish(kept);
    if (absl::Status posted = PostToWait(admission_.work(), begin); !posted.ok())
      return Finish(posted);
    admission_.WakeOnClose(Self(), Waker());
  }

  // False: there is no memory for the message. Its handler ends the stream, not this: a thread that
  // the handler uses may still need it.
  bool MayWrite(size_t bytes) {
    {
      absl::MutexLock lock(&mu_);
      if (finished_) return false;
    }
    const absl::Status kept = ReserveAnswer(bytes);
    if (kept.ok()) return true;
    {
      absl::MutexLock lock(&mu_);
      no_memory_ = kept;
    }
    cancelled_->store(true, std::memory_order_release);
    return false;
  }

  // One pump at a time: a caller that comes while it runs makes it go round again.
  void Wake() {
    {
      absl::MutexLock lock(&mu_);
      if (pump_pending_) {
        pump_again_ = true;
        return;
      }
      pump_pending_ = true;
    }
    admission_.work().Post(info_.principal, [self = Self()] { self->RunPump(); });
  }

  void RunPump() {
    while (true) {
      bool finished = false;
      bool writing = false;
      {
        absl::MutexLock lock(&mu_);
        pump_again_ = false;
        finished = finished_;
        writing = writing_;
      }
      if (finished) {
        handler_.reset();
        AuditOnce();
        DropRequest();
      } else if (!writing) {
        handler_->Pump();
      }
      absl::MutexLock lock(&mu_);
      if (pump_again_ || (finished_ && !finished)) continue;
      pump_pending_ = false;
      return;
    }
  }

  void AuditOnce() {
    if (std::exchange(audited_, true)) return;
    absl::Status outcome;
    int64_t bytes = 0;
    {
      absl::MutexLock lock(&mu_);
      outcome = outcome_;
      bytes = bytes_;
    }
    Audit(outcome, nullptr, bytes);
  }

  void OnWritten(bool ok) {
    if (!ok) cancelled_->store(true, std::memory_order_release);
    std::optional<absl::Status> finish;
    {
      absl::MutexLock lock(&mu_);
      writing_ = false;
      finish = std::exchange(finish_later_, std::nullopt);
    }
    if (finish.has_value()) return EndWith(*finish);
    Wake();
  }

  void EndWith(const absl::Status& status) {
    responder_.Finish(GrpcStatus(status), ended_.Expect());
    LetGo();
  }

  // gRPC holds the call from now on; the pump, once more, takes the handler down.
  void LetGo() {
    Wake();
    std::shared_ptr<StreamCall> self;
    absl::MutexLock lock(&mu_);
    self.swap(until_finished_);
  }
  void OnEnded(bool /*ok*/) {}

  std::shared_ptr<StreamCall> Self() {
    return std::static_pointer_cast<StreamCall>(shared_from_this());
  }

  const std::shared_ptr<const Method> method_;
  RequestMessage request_;
  grpc::ServerAsyncWriter<Response> responder_{&context_};
  Event wrote_{*this, static_cast<void (Call::*)(bool)>(&StreamCall::OnWritten)};
  Event ended_{*this, static_cast<void (Call::*)(bool)>(&StreamCall::OnEnded)};
  std::unique_ptr<StreamHandler> handler_;  // Whoever runs the pump.
  bool audited_ = false;                    // Whoever runs the pump.

  mutable absl::Mutex mu_;
  // The handler may work for a stream of which gRPC expects nothing just now.
  std::shared_ptr<StreamCall> until_finished_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool pump_pending_ ABSL_GUARDED_BY(mu_) = false;
  bool pump_again_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status no_memory_ ABSL_GUARDED_BY(mu_);  // Not OK: why a message could not be sent.
  absl::Status outcome_ ABSL_GUARDED_BY(mu_);    // Once finished.
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;       // Of messages given to gRPC.
  std::optional<absl::Status> finish_later_ ABSL_GUARDED_BY(mu_);
};

// As ServeUnary(), for a method with a stream of answers.
template <typename Service, typename Base, typename Request, typename Response>
void ServeStream(Admission& admission, Service& service,
                 void (Base::*requester)(grpc::ServerContext*, Request*,
                                         grpc::ServerAsyncWriter<Response>*, grpc::CompletionQueue*,
                                         grpc::ServerCompletionQueue*, void*),
                 Needs needs, typename StreamMethod<Request, Response>::MakeHandler make_handler) {
  (void)Request::descriptor();  // As ServeUnary() does.
  auto method = std::make_shared<StreamMethod<Request, Response>>();
  method->admission = &admission;
  method->needs = needs;
  method->request = [&admission, &service, requester](
                        grpc::ServerContext* context, Request* request,
                        grpc::ServerAsyncWriter<Response>* responder, void* tag) {
    (service.*requester)(context, request, responder, &admission.completions(),
                         &admission.completions(), tag);
  };
  method->make_handler = std::move(make_handler);
  std::make_shared<StreamCall<Request, Response>>(std::move(method))->Start();
}

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_SERVER_STREAM_H_
