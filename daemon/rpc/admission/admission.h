// Admission: the checks that every call passes before its service sees it. It identifies the
// caller, applies the access rules, counts calls, and refuses those above the limits. Limits are
// per principal, so no caller can use up what others need.
//
// Threads:   any.
// Ownership: everything it refers to must outlive it, and it all calls.
// Shutdown:  Close() turns new calls away and wakes streams, so that those that never end
//            by themselves do. AwaitNoCalls() returns once every call object is gone.
#ifndef PROFD_DAEMON_RPC_ADMISSION_ADMISSION_H_
#define PROFD_DAEMON_RPC_ADMISSION_ADMISSION_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/access.h"
#include "daemon/quota/ledger.h"
#include "daemon/rpc/admission/audit.h"
#include "daemon/rpc/admission/call_stats.h"
#include "daemon/rpc/admission/peer.h"
#include "daemon/rpc/admission/rate_limit.h"
#include "daemon/rpc/admission/work_queue.h"

namespace profd::worker {
class ReportPool;
}

namespace profd::rpc {

// `text` without `path`: files in that folder are named from there ("captures/ID.profd"), and the
// folder itself is "the data directory". Longer paths that contain it stay as they are.
std::string WithoutPath(std::string_view text, std::string_view path);

// What a handler knows of its call besides the request.
struct CallInfo {
  Peer peer;
  Caller caller;
  std::string principal;    // PrincipalName(): whom limits count, and the logs name.
  quota::Principal holder;  // Whom quotas count.
  // Becomes true when the caller went away or its deadline passed; the answer is not heard.
  std::shared_ptr<const std::atomic<bool>> cancelled;
};

// What a peer that is `outside` is told by a profd that runs as `own_uid`.
std::string WhyOutside(const Peer& peer, uid_t own_uid);

class Admission {
 public:
  struct Limits {
    int64_t max_calls_per_principal = 1024;  // At once; streams are calls, too.
    // Calls begun per second, and as many as this at once after a pause.
    double max_call_rate_per_principal = 2000;
    double max_call_burst_per_principal = 10'000;
    // Limits the calls that wait; must outlive admission. nullptr: only the queues do.
    quota::Ledger* ledger = nullptr;
  };
  // The rules that hold now; any thread. nullptr: an owner's and root's.
  using RulesSource = std::function<std::shared_ptr<const AccessRules>()>;
  // Who is at the other end of a call's connection; UNAUTHENTICATED if that cannot be told.
  using Identifier = std::function<absl::StatusOr<Peer>(const grpc::ServerContext&)>;
  Admission(Limits limits, Identifier identifier, RulesSource rules, AuditLog& audit,
            grpc::ServerCompletionQueue& completions, WorkQueue& work, worker::ReportPool& reports);

  grpc::ServerCompletionQueue& completions() { return completions_; }
  WorkQueue& work() { return work_; }  // "profd-rpc"
  worker::ReportPool& reports() { return reports_; }
  AuditLog& audit() { return audit_; }

  // Who calls.
  absl::StatusOr<Peer> Identify(const grpc::ServerContext& context) const {
    return identifier_(context);
  }
  Caller CallerOf(const Peer& peer) const;
  // Whether the call may go on to its handler, which `verb` it needs for anything at all; what it
  // may touch, the handler asks. PERMISSION_DENIED (OUTSIDE, NOT_ALLOWED), RESOURCE_EXHAUSTED,
  // UNAVAILABLE. After OK, Leave(info.principal) follows.
  absl::Status Enter(const CallInfo& info, Verb verb);
  void Leave(std::string_view principal);

  // A place among the calls that wait for their work to begin. RESOURCE_EXHAUSTED
  // (QUOTA_EXCEEDED).
  absl::StatusOr<quota::Reservation> ReserveWaiting(const CallInfo& info);
  // Memory for a request or an answer that is kept. RESOURCE_EXHAUSTED (QUOTA_EXCEEDED).
  absl::StatusOr<quota::Reservation> ReserveMemory(const CallInfo& info, quota::Resource resource,
                                                   int64_t bytes);
  // Why work was not taken by a queue.
  absl::Status TurnedAway() const;

  bool closed() const { return closed_.load(std::memory_order_acquire); }
  void Close();

  // Who hears of every call's end. Before the first call.
  void SetCallObserver(CallObserver observer) { call_observer_ = std::move(observer); }
  void CallEnded(const CallStats& end) const {
    if (call_observer_) call_observer_(end);
  }

  // A path that no caller is to read in a message. Before the first call.
  void HidePath(std::string path) { hidden_path_ = std::move(path); }
  // `status` without it; then the whole message is logged.
  absl::Status WithoutPaths(const absl::Status& status) const;

  // Call objects, also those that wait for a call to come.
  void CallBegins();
  void CallEnds();
  void AwaitNoCalls();

  // Streams that want to hear of Close(). Removed by themselves once expired.
  void WakeOnClose(std::weak_ptr<void> owner, const std::function<void()>& wake);

 private:
  struct Waker {
    std::weak_ptr<void> owner;
    std::function<void()> wake;
  };
  bool NoCalls() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return calls_ == 0; }

  const Limits limits_;
  const Identifier identifier_;
  const RulesSource rules_;
  grpc::ServerCompletionQueue& completions_;
  WorkQueue& work_;
  worker::ReportPool& reports_;
  AuditLog& audit_;
  RateLimit call_rate_;
  CallObserver call_observer_;
  std::string hidden_path_;
  std::atomic<bool> closed_{false};

  absl::Mutex mu_;
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, int64_t, std::less<>> calls_by_principal_ ABSL_GUARDED_BY(mu_);
  std::vector<Waker> wakers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_ADMISSION_H_
