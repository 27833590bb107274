// How one RPC runs, over gRPC's completion queue: from waiting for it to come, through the
// door, its work on a queue of ours, to its end. Services only give the work.
//
//   wait ──arrived──► door ──► work queue: handler ──► Finish ──finished──► gone
//
// Why not gRPC's callback API: on Linux it polls from 2 to 16 threads that wake up all the
// time, for good. The one thread that waits here (control_server.cc) does not.
//
// Lifetime: a call is kept alive by what it is waiting for: each event gRPC owes it and each
// piece of work on a queue holds a shared_ptr to it. It ends when nothing does.
// Threads:  events come on "profd-grpc", one after the other; handlers run on a work queue.
#ifndef PROFD_DAEMON_RPC_CALL_H_
#define PROFD_DAEMON_RPC_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/rpc/door.h"
#include "daemon/rpc/status.h"

namespace profd::rpc {

// What a tag of the completion queue points at.
class CompletionTag {
 public:
  virtual void OnCompletion(bool ok) = 0;

 protected:
  ~CompletionTag() = default;
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  explicit Call(Door& door) : door_(door) { door_.CallBegins(); }
  virtual ~Call() {
    if (entered_) door_.Leave(info_.peer.uid);
    door_.CallEnds();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Waits for an RPC of its method.
  void Start() {
    context_.AsyncNotifyWhenDone(done_.Expect());
    Request(arrived_.Expect());
  }

 protected:
  // Something gRPC owes this call.
  class Event final : public CompletionTag {
   public:
    Event(Call& call, void (Call::*handler)(bool)) : call_(call), handler_(handler) {}
    void* Expect() {
      keep_ = call_.shared_from_this();
      expected_.store(true, std::memory_order_release);
      return static_cast<CompletionTag*>(this);
    }
    void DoNotExpect() { keep_.reset(); }
    void OnCompletion(bool ok) override {
      // Pairs with Expect(), which may have run on another thread.
      (void)expected_.load(std::memory_order_acquire);
      const std::shared_ptr<Call> keep = std::move(keep_);
      (call_.*handler_)(ok);
    }

   private:
    Call& call_;
    void (Call::*const handler_)(bool);
    std::shared_ptr<Call> keep_;
    std::atomic<bool> expected_{false};
  };

  virtual bool IsGuarded() const = 0;  // False: anybody may call, at any time.
  virtual void Request(void* tag) = 0;
  virtual void StartSuccessor() = 0;  // Another call object, which waits for the next RPC.
  virtual void OnAdmitted() = 0;
  virtual void OnRefused(const absl::Status& why) = 0;
  virtual void OnGone() {}  // The caller went away.

  grpc::Status GrpcStatus(const absl::Status& status) {
    if (std::string reason = ReasonMetadata(status); !reason.empty()) {
      context_.AddTrailingMetadata(kReasonMetadataKey, reason);
    }
    return ToGrpcStatus(status);
  }

  Door& door_;
  grpc::ServerContext context_;
  CallInfo info_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);

 private:
  void OnArrived(bool ok) {
    if (!ok) {  // The server is shutting down; a call that never came has no end, either.
      done_.DoNotExpect();
      return;
    }
    StartSuccessor();
    if (!IsGuarded()) return OnAdmitted();
    absl::StatusOr<Peer> peer = door_.Enter(context_);
    if (!peer.ok()) return OnRefused(peer.status());
    entered_ = true;
    info_ = {.peer = *peer, .caller = {.uid = peer->uid}, .cancelled = cancelled_};
    OnAdmitted();
  }
  void OnDone(bool /*ok*/) {
    if (!context_.IsCancelled()) return;
    cancelled_->store(true, std::memory_order_release);
    OnGone();
  }

  bool entered_ = false;
  Event arrived_{*this, &Call::OnArrived};
  Event done_{*this, &Call::OnDone};
};

// ---- calls with one answer ----

enum class Access {
  kCallers,  // Whom the door knows.
  kAnybody,  // For what tells nothing: is the daemon serving?
};

template <typename Request, typename Response>
struct UnaryMethod {
  using Responder = grpc::ServerAsyncResponseWriter<Response>;

  Door* door;
  Access access;
  WorkQueue* queue;
  std::function<void(grpc::ServerContext*, Request*, Responder*, void* tag)> request;
  std::function<absl::Status(const CallInfo&, const Request&, Response&)> handle;
};

template <typename RequestMessage, typename Response>
class UnaryCall final : public Call {
 public:
  using Method = UnaryMethod<RequestMessage, Response>;
  explicit UnaryCall(std::shared_ptr<const Method> method)
      : Call(*method->door), method_(std::move(method)) {}

 private:
  bool IsGuarded() const override { return method_->access == Access::kCallers; }
  void Request(void* tag) override { method_->request(&context_, &request_, &responder_, tag); }
  void StartSuccessor() override { std::make_shared<UnaryCall>(method_)->Start(); }

  void OnAdmitted() override {
    auto self = std::static_pointer_cast<UnaryCall>(shared_from_this());
    if (!method_->queue->TryPost(info_.peer.uid, [self] { self->Run(); })) {
      Finish(door_.TurnedAway());
    }
  }
  void OnRefused(const absl::Status& why) override { Finish(why); }

  void Run() {
    if (cancelled_->load(std::memory_order_acquire)) {
      return Finish(absl::CancelledError("the caller went away"));
    }
    // What waits when the daemon stops is not begun any more.
    if (IsGuarded() && door_.closed()) return Finish(door_.TurnedAway());
    Finish(method_->handle(info_, request_, response_));
  }

  void Finish(const absl::Status& status) {
    responder_.Finish(response_, GrpcStatus(status), finished_.Expect());
  }
  void OnFinished(bool /*ok*/) {}

  const std::shared_ptr<const Method> method_;
  RequestMessage request_;
  Response response_;
  grpc::ServerAsyncResponseWriter<Response> responder_{&context_};
  Event finished_{*this, static_cast<void (Call::*)(bool)>(&UnaryCall::OnFinished)};
};

// Answers every RPC of one method, from now on. `requester` is the generated
// `&v1::XService::AsyncService::RequestMethod`.
template <typename Service, typename Base, typename Request, typename Response>
void ServeUnary(
    Door& door, WorkQueue& queue, Service& service,
    void (Base::*requester)(grpc::ServerContext*, Request*,
                            grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
                            grpc::ServerCompletionQueue*, void*),
    std::type_identity_t<std::function<absl::Status(const CallInfo&, const Request&, Response&)>>
        handle,
    Access access = Access::kCallers) {
  auto method = std::make_shared<UnaryMethod<Request, Response>>();
  method->door = &door;
  method->access = access;
  method->queue = &queue;
  method->request = [&door, &service, requester](
                        grpc::ServerContext* context, Request* request,
                        grpc::ServerAsyncResponseWriter<Response>* responder, void* tag) {
    (service.*requester)(context, request, responder, &door.completions(), &door.completions(),
                         tag);
  };
  method->handle = std::move(handle);
  std::make_shared<UnaryCall<Request, Response>>(std::move(method))->Start();
}

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CALL_H_
