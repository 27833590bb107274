#include "daemon/capture/task_queue.h"

#include <pthread.h>

#include <utility>

namespace profd {
namespace {

// That a task is over, for the thread that waits for it.
class Answer {
 public:
  void Give() {
    const absl::MutexLock lock(&mu_);
    given_ = true;
    // With the lock: the thread that waits destroys this as soon as it may.
    changed_.Signal();
  }
  // False: it was not given within `timeout`.
  bool AwaitFor(absl::Duration timeout) {
    const absl::MutexLock lock(&mu_);
    return changed_.AwaitWithTimeout(
        &mu_, timeout, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return given_; });
  }

 private:
  absl::Mutex mu_;
  CondVar changed_;
  bool given_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

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
  return Call(task, absl::InfiniteDuration(), [] {});
}

bool TaskQueue::Call(absl::FunctionRef<void()> task, absl::Duration patience,
                     absl::FunctionRef<void()> late) {
  // Is over when it is destroyed, run or not, so that a caller never waits for a task that a
  // stopping queue threw away.
  struct Ticket {
    Answer* answer;
    explicit Ticket(Answer* a) : answer(a) {}
    Ticket(Ticket&& other) noexcept : answer(std::exchange(other.answer, nullptr)) {}
    ~Ticket() {
      if (answer != nullptr) answer->Give();
    }
  };
  Answer answer;
  bool ran = false;
  Post([&ran, task, ticket = Ticket(&answer)]() mutable {
    task();
    ran = true;
  });
  if (!answer.AwaitFor(patience)) {
    late();
    answer.AwaitFor(absl::InfiniteDuration());
  }
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
