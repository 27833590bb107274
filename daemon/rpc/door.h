// Door: what every call passes on its way in. It tells who calls, counts, and turns away;
// behind it stand the services.
//
// Threads:   any.
// Ownership: everything it refers to must outlive it, and it all calls.
// Shutdown:  Close() turns new calls away and wakes streams, so that those that never end
//            by themselves do. AwaitNoCalls() returns once every call object is gone.
#ifndef PROFD_DAEMON_RPC_DOOR_H_
#define PROFD_DAEMON_RPC_DOOR_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/rpc/peer_table.h"
#include "daemon/rpc/work_queue.h"

namespace profd::rpc {

// What a handler knows of its call beside the request.
struct CallInfo {
  Peer peer;
  Caller caller;
  // Becomes true when the caller went away or its deadline passed; nobody hears the answer.
  std::shared_ptr<const std::atomic<bool>> cancelled;
};

class Door {
 public:
  struct Limits {
    int64_t max_calls_per_uid = 1024;  // Streams are calls, too.
  };
  Door(Limits limits, PeerTable& peers, grpc::ServerCompletionQueue& completions, WorkQueue& work,
       WorkQueue& reports);

  grpc::ServerCompletionQueue& completions() { return completions_; }
  WorkQueue& work() { return work_; }        // "profd-rpc"
  WorkQueue& reports() { return reports_; }  // "profd-report"

  // UNAUTHENTICATED, PERMISSION_DENIED (OUTSIDE), RESOURCE_EXHAUSTED, UNAVAILABLE. After OK,
  // Leave(uid) follows.
  absl::StatusOr<Peer> Enter(const grpc::ServerContext& context);
  void Leave(int64_t uid);

  // Why work was not taken by a queue.
  absl::Status TurnedAway() const;

  bool closed() const { return closed_.load(std::memory_order_acquire); }
  void Close();

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
  PeerTable& peers_;
  grpc::ServerCompletionQueue& completions_;
  WorkQueue& work_;
  WorkQueue& reports_;
  std::atomic<bool> closed_{false};

  absl::Mutex mu_;
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, int64_t> calls_by_uid_ ABSL_GUARDED_BY(mu_);
  std::vector<Waker> wakers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_DOOR_H_
