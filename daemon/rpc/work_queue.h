// WorkQueue: a few threads that do, in order of arrival, what must not be done on gRPC's.
//
// Threads:   any may post.
// Shutdown:  Stop() runs what was posted before it, then ends the threads. To drop
//            waiting work instead, let the work look at a flag of its own.
#ifndef PROFD_DAEMON_RPC_WORK_QUEUE_H_
#define PROFD_DAEMON_RPC_WORK_QUEUE_H_

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

namespace profd::rpc {

class WorkQueue {
 public:
  struct Options {
    std::string thread_name;  // At most 15 bytes.
    int threads = 1;
    int64_t max_waiting = 1024;  // For TryPost().
    int64_t max_waiting_per_principal = 1024;
    bool background = false;  // Nice 19 and the idle I/O class: never in training's way.
  };
  explicit WorkQueue(Options options);
  ~WorkQueue();  // Stop().

  // False: too much is waiting, over all or for `principal`; or stopped.
  [[nodiscard]] bool TryPost(std::string_view principal, std::function<void()> work);
  // For work that is bounded by something else (what an accepted call still owes). False:
  // stopped.
  bool Post(std::function<void()> work);

  void Stop();

 private:
  struct Item {
    std::string principal;  // Of TryPost(); empty: posted by Post().
    std::function<void()> work;
  };

  void Loop();
  bool HasWorkOrStopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  absl::Mutex mu_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t, std::less<>> waiting_by_principal_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_WORK_QUEUE_H_
