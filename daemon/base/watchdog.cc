#include "daemon/base/watchdog.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

constexpr int kNoDiskShare = 3;  // Of the period.
constexpr int kDiskPeriods = 3;

thread_local WatchedThread* t_watched = nullptr;

}  // namespace

Watchdog::Watchdog(Clock& clock, absl::Duration period)
    : clock_(clock), period_(period), log_limiter_(absl::Minutes(1), clock) {}

absl::Duration Watchdog::MostFor(Work work) const {
  return work == Work::kDisk ? period_ * kDiskPeriods : period_ / kNoDiskShare;
}

int64_t Watchdog::NowNs() const { return absl::ToInt64Nanoseconds(clock_.Monotonic()); }

Watchdog::Entry& Watchdog::Add(std::string_view name, Work work, std::function<void()> wake) {
  absl::MutexLock lock(&mu_);
  Entry& entry = entries_.emplace_back();
  entry.name = name;
  entry.work = work;
  entry.wake = std::move(wake);
  return entry;
}

void Watchdog::Remove(Entry& entry) {
  absl::MutexLock lock(&mu_);
  entries_.remove_if([&entry](const Entry& each) { return &each == &entry; });
}

bool Watchdog::Check() {
  bool log_again = false;
  {
    absl::MutexLock lock(&mu_);
    const int64_t now = NowNs();
    for (Entry& entry : entries_) {
      int64_t waits = kWaits;
      if (entry.wake && entry.since.compare_exchange_strong(waits, now)) entry.wake();
    }
    log_again = !was_stuck_;
  }
  const std::vector<ThreadState> threads = Threads();
  const bool is_stuck = std::ranges::any_of(threads, &ThreadState::is_stuck);
  if (is_stuck && (log_limiter_.Allow().has_value() || log_again)) {
    for (const ThreadState& thread : threads) {
      if (!thread.is_stuck) continue;
      LogError(StrCat("thread ", thread.name, " has made no progress for ",
                      absl::ToInt64Seconds(thread.unfed),
                      " s; systemd gets no WATCHDOG=1 until it does"));
    }
  }
  absl::MutexLock lock(&mu_);
  if (std::exchange(was_stuck_, is_stuck) && !is_stuck) {
    LogInfo("all threads make progress again");
  }
  return !is_stuck;
}

std::vector<Watchdog::ThreadState> Watchdog::Threads() const {
  std::map<std::string_view, ThreadState> by_name;
  absl::MutexLock lock(&mu_);
  const int64_t now = NowNs();
  for (const Entry& entry : entries_) {
    const int64_t since = entry.since.load(std::memory_order_relaxed);
    const absl::Duration unfed = since == kWaits
                                     ? absl::ZeroDuration()
                                     : absl::Nanoseconds(std::max<int64_t>(0, now - since));
    ThreadState& state =
        by_name.try_emplace(entry.name, ThreadState{.name = entry.name}).first->second;
    state.unfed = std::max(state.unfed, unfed);
    state.is_stuck = state.is_stuck || unfed > MostFor(entry.work);
  }
  std::vector<ThreadState> threads;
  for (auto& [name, state] : by_name) threads.push_back(std::move(state));
  return threads;
}

WatchedThread::WatchedThread(Watchdog* watchdog, std::string_view name, Watchdog::Work work,
                             std::function<void()> wake)
    : watchdog_(watchdog),
      entry_(watchdog != nullptr ? &watchdog->Add(name, work, std::move(wake)) : nullptr),
      outer_(std::exchange(t_watched, this)) {}

WatchedThread::~WatchedThread() {
  t_watched = outer_;
  if (entry_ != nullptr) watchdog_->Remove(*entry_);
}

void WatchedThread::Works() {
  if (entry_ != nullptr) entry_->since.store(watchdog_->NowNs(), std::memory_order_relaxed);
}

// A store, although Check() may have asked in between: what is after it is a wait that starts anew,
// and `wake` ends that.
void WatchedThread::Waits() {
  if (entry_ != nullptr) entry_->since.store(Watchdog::kWaits, std::memory_order_relaxed);
}

bool WatchedThread::asked() const {
  return entry_ != nullptr && entry_->since.load(std::memory_order_relaxed) != Watchdog::kWaits;
}

void ReportProgress() {
  if (t_watched != nullptr) t_watched->Works();
}

}  // namespace profd
