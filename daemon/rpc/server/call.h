// How one RPC runs, over gRPC's completion queue: from waiting for it to come, through the
// admission, its work on a queue of ours, to its end. Services only give the work.
//
//   wait ──arrived──► admission ──► work queue: handler ──► Finish ──finished──► gone
//
// Why not gRPC's callback API: on Linux it polls from 2 to 16 threads that wake up all the
// time, for good. The one thread that waits here (control_server.cc) does not.
//
// Lifetime: a call is kept alive by what it is waiting for: each event gRPC owes it and each
// piece of work on a queue holds a shared_ptr to it. It ends when nothing does.
// Threads:  events come on "profd-grpc", one after the other; handlers run on a work queue.
#ifndef PROFD_DAEMON_RPC_SERVER_CALL_H_
#define PROFD_DAEMON_RPC_SERVER_CALL_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/status_macros.h"
#include "daemon/rpc/admission/admission.h"
#include "daemon/rpc/server/status.h"

namespace profd::rpc {

// The verb that the rules must allow the caller, for at least one object, before the handler runs.
// The handler then checks the object itself. kNothing is for calls that tell nothing of the node,
// such as whether the daemon serves.
using Needs = std::optional<Verb>;
inline constexpr Needs kNothing = std::nullopt;

// What a tag of the completion queue points at.
class CompletionTag {
 public:
  virtual void OnCompletion(bool ok) = 0;

 protected:
  ~CompletionTag() = default;
};

// A request of 1 MiB may take 56 MiB once it is parsed: an element without a value has two bytes on
// the wire. And an answer is kept until its caller takes it, which may be never. Those that take
// more than this are charged to their principal while they are kept.
inline constexpr size_t kSmallMessageBytes = 16 << 10;

class Call : public std::enable_shared_from_this<Call> {
 public:
  explicit Call(Admission& admission) : admission_(admission) { admission_.CallBegins(); }
  virtual ~Call() {
    if (entered_) admission_.Leave(info_.principal);
    admission_.CallEnds();
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

  virtual Needs needs() const = 0;
  virtual const google::protobuf::Message& request() const = 0;
  virtual int64_t sent_bytes() const { return 0; }  // Of streams.
  // False: any caller may call, at any time.
  bool IsGuarded() const { return needs().has_value(); }
  virtual void DropRequest() = 0;              // Frees the memory of request().
  virtual size_t copies() const { return 1; }  // How many copies of request() may be kept.
  virtual void Request(void* tag) = 0;
  virtual void StartSuccessor() = 0;  // Another call object, which waits for the next RPC.
  virtual void OnAdmitted() = 0;
  virtual void OnRefused(const absl::Status& why) = 0;
  virtual void OnGone() {}  // The caller went away.

  // What the call is answered with; once, at its end.
  grpc::Status GrpcStatus(const absl::Status& outcome) {
    const absl::Status status =
        admission_.WithoutPaths(gate_ == nullptr ? outcome : gate_->Explain(outcome));
    const std::string reason = ReasonMetadata(status);
    if (!reason.empty()) context_.AddTrailingMetadata(kReasonMetadataKey, reason);
    admission_.CallEnded({.method = MethodOf(request()),
                          .code = status.code(),
                          .reason = reason,
                          .took = admission_.audit().clock().Monotonic() - arrived_monotonic_,
                          .sent_bytes = sent_bytes()});
    return ToGrpcStatus(status);
  }

  // The call's line of the audit log, if it is to have one. On a thread that may wait for the disk.
  void Audit(const absl::Status& status, const google::protobuf::Message* response, int64_t bytes) {
    if (auto entry = AuditEntryFor(status, response, bytes)) {
      admission_.audit().Write(*std::move(entry), status);
    }
  }
  // The same on a thread that must not wait.
  void AuditLater(const absl::Status& status) {
    // Of those there may be thousands a second, and they say nothing of what was tried.
    if (!IsRefusal(status)) return;
    auto entry = AuditEntryFor(status, nullptr, 0);
    if (!entry.has_value()) return;
    AuditLog& audit = admission_.audit();
    const bool posted = admission_.work().TryPost(
        "audit", [&audit, entry = *std::move(entry), status] { audit.Write(entry, status); });
    if (!posted) audit.CountUnwritten();
  }

  // Posts the call's work to `queue` and counts it among its principal's waiting calls until
  // EndWaiting(), which the work calls first. Errors: as the call is to end.
  template <typename Queue, typename Work>
  absl::Status PostToWait(Queue& queue, Work work) {
    absl::StatusOr<quota::Reservation> waiting = admission_.ReserveWaiting(info_);
    if (!waiting.ok()) return waiting.status();
    waiting_ = *std::move(waiting);
    if (queue.TryPost(info_.principal, std::move(work))) return absl::OkStatus();
    waiting_.Release();
    return admission_.TurnedAway();
  }
  void EndWaiting() { waiting_.Release(); }

  // Charges the memory of request(), if it is large, until EndKeeping() or the call's end; of a
  // stream's next request, what it takes more than those before. An error ends the call, and the
  // request is gone.
  absl::Status Keep() {
    const size_t bytes = request().SpaceUsedLong() * copies();
    if (bytes <= kSmallMessageBytes) return absl::OkStatus();
    absl::Status kept = Grow(kept_, quota::Resource::kRequestMemory, bytes);
    if (!kept.ok()) DropRequest();
    return kept;
  }
  void EndKeeping() { kept_.Release(); }

  // Whether there is room for an answer to what is about to be changed. After that, none is
  // refused.
  absl::Status CheckRoomForAnswer() {
    if (!Changes()) return absl::OkStatus();
    return ReserveAnswer(kSmallMessageBytes);
  }
  // Charges an answer until the call's end, if it is large. An error ends the call instead.
  absl::Status KeepAnswer(size_t bytes) {
    if (bytes <= kSmallMessageBytes) return absl::OkStatus();
    if (!Changes()) return ReserveAnswer(bytes);
    kept_answer_.Resize(static_cast<int64_t>(bytes));
    return absl::OkStatus();
  }
  // Of a stream: for its first message, then for each that is larger than those before.
  absl::Status ReserveAnswer(size_t bytes) {
    return Grow(kept_answer_, quota::Resource::kAnswerMemory, bytes);
  }

  Admission& admission_;
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
    arrived_at_ = admission_.audit().clock().Now();
    arrived_monotonic_ = admission_.audit().clock().Monotonic();
    if (!IsGuarded()) {
      if (request().SpaceUsedLong() <= kSmallMessageBytes) return OnAdmitted();
      return OnRefused(absl::InvalidArgumentError("the request is too large"));
    }
    absl::StatusOr<Peer> peer = admission_.Identify(context_);
    if (!peer.ok()) return OnRefused(peer.status());
    info_ = {.peer = *peer,
             .caller = admission_.CallerOf(*peer),
             .principal = PrincipalName(peer->principal),
             .holder = QuotaPrincipalOf(peer->principal),
             .cancelled = cancelled_};
    if (*needs() != Verb::kList) {
      const bool is_root = peer->principal.IsLocal() && peer->principal.uid == 0;
      gate_ = std::make_shared<AuditGate>(admission_.audit(),
                                          is_root && IsEmergency(MethodOf(request())));
      info_.caller.others = gate_;
    }
    if (absl::Status entered = admission_.Enter(info_, *needs()); !entered.ok()) {
      return OnRefused(entered);
    }
    entered_ = true;
    if (absl::Status kept = Keep(); !kept.ok()) return OnRefused(kept);
    OnAdmitted();
  }
  // Whether the RPC changes something.
  bool Changes() const { return IsGuarded() && *needs() != Verb::kList && *needs() != Verb::kRead; }
  // Makes `kept` at least `bytes`; then it is never less. What is refused leaves it as it was.
  absl::Status Grow(quota::Reservation& kept, quota::Resource resource, size_t bytes) {
    const int64_t more = static_cast<int64_t>(bytes) - kept.amount();
    if (more <= 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(quota::Reservation reserved, admission_.ReserveMemory(info_, resource, more));
    if (kept.amount() > 0) {  // Two reservations cannot become one.
      reserved.Release();
      kept.Resize(static_cast<int64_t>(bytes));
    } else {
      kept = std::move(reserved);
    }
    return absl::OkStatus();
  }
  void OnDone(bool /*ok*/) {
    if (!context_.IsCancelled()) return;
    cancelled_->store(true, std::memory_order_release);
    OnGone();
  }

  std::optional<store::AuditEntry> AuditEntryFor(const absl::Status& status,
                                                 const google::protobuf::Message* response,
                                                 int64_t bytes) {
    if (!IsGuarded()) return std::nullopt;
    const std::string principal = info_.principal.empty() ? "unknown" : info_.principal;
    if (!admission_.audit().Wants(*needs(), status, principal)) return std::nullopt;
    std::string resource = status.ok() && response != nullptr ? ResourceOf(*response) : "";
    if (resource.empty()) resource = ResourceOf(request());
    return store::AuditEntry{
        .time = arrived_at_,
        .principal = principal,
        .peer = info_.peer.address,
        .method = MethodOf(request()),
        .resource = std::move(resource),
        .duration = admission_.audit().clock().Monotonic() - arrived_monotonic_,
        .bytes = bytes,
        .kind = KindOfCall()};
  }
  store::AuditKind KindOfCall() const {
    const bool apart = *needs() == Verb::kAdmin || *needs() == Verb::kDelete ||
                       (gate_ != nullptr && gate_->asked());
    return apart ? store::AuditKind::kAdministrative : store::AuditKind::kRoutine;
  }

  std::shared_ptr<AuditGate> gate_;  // nullptr: the call touches nothing.
  bool entered_ = false;
  quota::Reservation waiting_;
  quota::Reservation kept_;
  quota::Reservation kept_answer_;
  absl::Time arrived_at_;
  absl::Duration arrived_monotonic_;
  Event arrived_{*this, &Call::OnArrived};
  Event done_{*this, &Call::OnDone};
};

// ---- calls with one answer ----

template <typename Request, typename Response>
struct UnaryMethod {
  using Responder = grpc::ServerAsyncResponseWriter<Response>;

  Admission* admission;
  Needs needs;
  WorkQueue* queue;
  std::function<void(grpc::ServerContext*, Request*, Responder*, void* tag)> request;
  std::function<absl::Status(const CallInfo&, const Request&, Response&)> handle;
};

template <typename RequestMessage, typename Response>
class UnaryCall final : public Call {
 public:
  using Method = UnaryMethod<RequestMessage, Response>;
  explicit UnaryCall(std::shared_ptr<const Method> method)
      : Call(*method->admission), method_(std::move(method)) {}

 private:
  Needs needs() const override { return method_->needs; }
  const google::protobuf::Message& request() const override { return request_; }
  void DropRequest() override { RequestMessage().Swap(&request_); }
  void Request(void* tag) override { method_->request(&context_, &request_, &responder_, tag); }
  void StartSuccessor() override { std::make_shared<UnaryCall>(method_)->Start(); }

  void OnAdmitted() override {
    auto self = std::static_pointer_cast<UnaryCall>(shared_from_this());
    if (absl::Status posted = PostToWait(*method_->queue, [self] { self->Run(); }); !posted.ok()) {
      Finish(posted);
    }
  }
  void OnRefused(const absl::Status& why) override {
    AuditLater(why);
    Finish(why);
  }

  void Run() {
    EndWaiting();
    if (cancelled_->load(std::memory_order_acquire)) {
      return Finish(absl::CancelledError("the caller went away"));
    }
    // What waits when the daemon stops is not begun any more.
    if (IsGuarded() && admission_.closed()) return Finish(admission_.TurnedAway());
    if (absl::Status room = CheckRoomForAnswer(); !room.ok()) return Finish(room);
    absl::Status status = method_->handle(info_, request_, response_);
    if (status.ok()) status = KeepAnswer(response_.ByteSizeLong());
    Audit(status, &response_, /*bytes=*/0);
    Finish(status);
  }

  void Finish(const absl::Status& status) {
    const grpc::Status answer = GrpcStatus(status);
    DropRequest();
    EndKeeping();
    responder_.Finish(response_, answer, finished_.Expect());
    Response().Swap(&response_);  // gRPC keeps its bytes.
  }
  void OnFinished(bool /*ok*/) {}

  const std::shared_ptr<const Method> method_;
  RequestMessage request_;
  Response response_;
  grpc::ServerAsyncResponseWriter<Response> responder_{&context_};
  Event finished_{*this, static_cast<void (Call::*)(bool)>(&UnaryCall::OnFinished)};
};

// Answers every RPC of one method, from now on. `requester` is the generated
// `&v1::XService::AsyncService::RequestMethod`; `needs` the verb of the RPC.
template <typename Service, typename Base, typename Request, typename Response>
void ServeUnary(
    Admission& admission, WorkQueue& queue, Service& service,
    void (Base::*requester)(grpc::ServerContext*, Request*,
                            grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
                            grpc::ServerCompletionQueue*, void*),
    Needs needs,
    std::type_identity_t<std::function<absl::Status(const CallInfo&, const Request&, Response&)>>
        handle) {
  // The audit log names calls by it; built now, by one thread, not by the first calls.
  (void)Request::descriptor();
  auto method = std::make_shared<UnaryMethod<Request, Response>>();
  method->admission = &admission;
  method->needs = needs;
  method->queue = &queue;
  method->request = [&admission, &service, requester](
                        grpc::ServerContext* context, Request* request,
                        grpc::ServerAsyncResponseWriter<Response>* responder, void* tag) {
    (service.*requester)(context, request, responder, &admission.completions(),
                         &admission.completions(), tag);
  };
  method->handle = std::move(handle);
  std::make_shared<UnaryCall<Request, Response>>(std::move(method))->Start();
}

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_CALL_H_
