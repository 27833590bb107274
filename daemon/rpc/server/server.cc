#include "daemon/rpc/server/server.h"

#include <pthread.h>

#include <utility>

#include "daemon/rpc/server/call.h"
#include "daemon/rpc/server/deadline.h"

namespace profd::rpc {

Server::Server(Admission::Limits limits, Admission::Identifier identifier,
               Admission::RulesSource rules, AuditLog& audit, WorkQueue& work,
               worker::ReportPool& reports, Watchdog* watchdog)
    : limits_(limits),
      identifier_(std::move(identifier)),
      rules_(std::move(rules)),
      audit_(audit),
      work_(work),
      reports_(reports),
      watchdog_(watchdog) {}

Server::~Server() { Shutdown(MonotonicDeadline(absl::ZeroDuration())); }

absl::Status Server::Start(grpc::ServerBuilder& builder, const MakeServices& make_services) {
  completions_ = builder.AddCompletionQueue();
  admission_ = std::make_unique<Admission>(limits_, identifier_, rules_, audit_, *completions_,
                                           work_, reports_);
  services_ = make_services(*admission_);
  for (const auto& service : services_) builder.RegisterService(&service->grpc_service());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC's server cannot be started");
  completion_thread_ = std::jthread([this] { CompletionLoop(); });
  // After the thread: the first requests complete as soon as they are asked for.
  for (const auto& service : services_) service->Serve();
  return absl::OkStatus();
}

void Server::CompletionLoop() {
  pthread_setname_np(pthread_self(), "profd-grpc");
  // Within Next() this thread also does gRPC's own work: it reads connections and parses frames.
  // So it is asked by a completion: a thread that gets it is not stuck in there.
  WatchedThread watched(watchdog_, "profd-grpc", Watchdog::Work::kNoDisk,
                        [this] { WakeCompletionLoop(); });
  void* tag = nullptr;
  bool ok = false;
  while (completions_->Next(&tag, &ok)) {
    watched.Works();
    if (tag != nullptr) {
      static_cast<CompletionTag*>(tag)->OnCompletion(ok);
    } else {
      is_asked_.store(false, std::memory_order_release);
    }
    watched.Waits();
  }
}

// Its tag is nullptr. Not called once completions_ is shut down: the watchdog's owner does that.
// gRPC frees an alarm's memory when it is destroyed or set again, also if its completion is still
// to come, so it asks nothing new before the last question is answered.
void Server::WakeCompletionLoop() {
  if (is_asked_.exchange(true, std::memory_order_acq_rel)) return;
  question_.Set(completions_.get(), MonotonicDeadline(absl::ZeroDuration()), nullptr);
}

void Server::Close() {
  if (admission_ != nullptr) admission_->Close();
}

void Server::Shutdown(gpr_timespec deadline) {
  Close();
  if (server_ != nullptr) {
    server_->Shutdown(deadline);
    // Only when no call object is left may nothing more be put into the completion queue.
    admission_->AwaitNoCalls();
    // The thread also takes the answer to the watchdog's last question, before it ends.
    completions_->Shutdown();
    completion_thread_.join();
    server_.reset();
  } else if (completions_ != nullptr) {
    completions_->Shutdown();
  }
  completions_.reset();
}

}  // namespace profd::rpc
