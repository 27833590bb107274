// TaskQueue runs tasks one after another on a thread of its own, in the order they were
// posted: the actor's mailbox. A task never runs at the same time as another.
//
// Threads:  any. Call() waits for its task and must not be used from a task.
// Shutdown: Stop() runs what was posted before it, then joins; tasks posted later are
//           destroyed unrun, and Call() returns without having run.
#ifndef PROFD_DAEMON_CAPTURE_TASK_QUEUE_H_
#define PROFD_DAEMON_CAPTURE_TASK_QUEUE_H_

#include <deque>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/cond_var.h"
#include "daemon/base/watchdog.h"

namespace profd {

class TaskQueue {
 public:
  // `name` is the thread's, at most 15 characters. `clock` must outlive the queue, and so must
  // `watchdog`, which watches the thread; nullptr: not watched.
  TaskQueue(std::string name, Clock& clock, Watchdog* watchdog = nullptr);
  ~TaskQueue();

  void Post(absl::AnyInvocable<void()> task);
  // True if `task` has run.
  bool Call(absl::FunctionRef<void()> task);
  // The same. `late` runs on the caller's thread if `task` has not run after `patience`, while it
  // still may.
  bool Call(absl::FunctionRef<void()> task, absl::Duration patience,
            absl::FunctionRef<void()> late);

  // Runs `on_timer` once Monotonic() has reached `when`, unless moved again before.
  // InfiniteDuration: no timer. From a task only.
  void SetTimer(absl::Duration when);
  // What the timer runs. Before the first SetTimer.
  void OnTimer(absl::AnyInvocable<void()> on_timer);

  void Stop();

 private:
  void Loop();

  const std::string name_;
  Clock& clock_;
  Watchdog* const watchdog_;
  absl::Mutex mu_;
  CondVar changed_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  absl::Duration timer_ ABSL_GUARDED_BY(mu_) = absl::InfiniteDuration();
  absl::AnyInvocable<void()> on_timer_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // Last: starts when all else stands.
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_TASK_QUEUE_H_
