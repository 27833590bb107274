// WorkQueue: a few threads that do what must not be done on gRPC's. Principals take turns, one
// piece of work each; the work of one principal runs in order of arrival. One principal never
// occupies the last thread, so what others ask for never waits for all of its work.
//
// Threads:   any may post.
// Shutdown:  Stop() runs what was posted before it, then ends the threads. To drop
//            waiting work instead, let the work look at a flag of its own.
#ifndef PROFD_DAEMON_RPC_ADMISSION_WORK_QUEUE_H_
#define PROFD_DAEMON_RPC_ADMISSION_WORK_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/watchdog.h"

namespace profd::rpc {

class WorkQueue {
 public:
  struct Options {
    std::string thread_name;  // At most 15 bytes.
    int threads = 1;
    int64_t max_waiting = 1024;  // For TryPost().
    int64_t max_waiting_per_principal = 1024;
    Watchdog* watchdog = nullptr;  // Must outlive the queue; nullptr: not watched.
  };
  explicit WorkQueue(Options options);
  ~WorkQueue();  // Stop().

  // False: too much is waiting, over all or for `principal` (empty: callers without a name); or
  // stopped.
  [[nodiscard]] bool TryPost(std::string_view principal, std::function<void()> work);
  // For work that is bounded by something else (what an accepted call still owes). False:
  // stopped.
  bool Post(std::string_view principal, std::function<void()> work);

  void Stop();

 private:
  struct Item {
    std::function<void()> work;
    bool counts = false;  // Of TryPost().
  };
  struct Lane {
    std::deque<Item> items;
    int64_t waiting = 0;  // Of TryPost().
    int running = 0;
  };
  // By principal. A lane exists while it has items or some of them run.
  using Lanes = std::map<std::string, Lane, std::less<>>;

  void Loop();
  void Add(std::string_view principal, Item item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayRun(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasWorkOrStopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the next item and its lane; lanes_.end(): none may run.
  Lanes::iterator Next(Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  absl::Mutex mu_;
  Lanes lanes_ ABSL_GUARDED_BY(mu_);
  // Lanes with items, the next one first.
  std::deque<Lanes::iterator> turns_ ABSL_GUARDED_BY(mu_);
  int64_t waiting_ ABSL_GUARDED_BY(mu_) = 0;  // Of TryPost().
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_WORK_QUEUE_H_
