#include "daemon/capture/task_queue.h"

#include <pthread.h>

#include <utility>

#include "absl/synchronization/notification.h"

namespace profd {

TaskQueue::TaskQueue(std::string name, Clock& clock, Watchdog* watchdog)
    : name_(std::move(name)), clock_(clock), watchdog_(watchdog), thread_([this] { Loop(); }) {}

TaskQueue::~TaskQueue() { Stop(); }

void TaskQueue::Post(absl::AnyInvocable<void()> task) {
  absl::MutexLock lock(&mu_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  changed_.Signal();
}

bool TaskQueue::Call(absl::FunctionRef<void()> task) {
  // Notifies when it is destroyed, run or not, so that a caller never waits for a task
  // that a stopping queue threw away.
  struct Ticket {
    absl::Notification* done;
    explicit Ticket(absl::Notification* d) : done(d) {}
    Ticket(Ticket&& other) noexcept : done(std::exchange(other.done, nullptr)) {}
    ~Ticket() {
      if (done != nullptr) done->Notify();
    }
  };
  absl::Notification done;
  bool ran = false;
  Post([&ran, task, ticket = Ticket(&done)]() mutable {
    task();
    ran = true;
  });
  done.WaitForNotification();
  return ran;
}

void TaskQueue::SetTimer(absl::Duration when) {
  absl::MutexLock lock(&mu_);
  timer_ = when;
}

void TaskQueue::OnTimer(absl::AnyInvocable<void()> on_timer) {
  absl::MutexLock lock(&mu_);
  on_timer_ = std::move(on_timer);
}

void TaskQueue::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

void TaskQueue::Loop() {
  pthread_setname_np(pthread_self(), name_.c_str());
  WatchedThread watched(watchdog_, name_, Watchdog::Work::kDisk, [this] {
    absl::MutexLock lock(&mu_);
    changed_.Signal();
  });
  for (;;) {
    absl::AnyInvocable<void()> task;
    bool timer_due = false;
    watched.Waits();
    {
      absl::MutexLock lock(&mu_);
      const absl::Duration wait = timer_ - clock_.Monotonic();
      if (tasks_.empty() && !stopping_ && !watched.asked() && wait > absl::ZeroDuration()) {
        changed_.WaitWithTimeout(&mu_, wait);
      }
      watched.Works();
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      } else if (stopping_) {
        return;
      } else if (clock_.Monotonic() >= timer_) {
        timer_ = absl::InfiniteDuration();
        timer_due = true;
        task = std::move(on_timer_);
      }
    }
    if (task) task();
    if (timer_due) {
      absl::MutexLock lock(&mu_);
      on_timer_ = std::move(task);
    }
  }
}

}  // namespace profd
