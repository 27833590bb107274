// Watchdog knows whether the threads that profd cannot do without make progress. A thread is stuck
// if one piece of work takes too long, or if it does not wake when it is asked to.
//
//   thread: WatchedThread ── Works(), Waits() ──► one atomic time per thread
//              ▲                                        │
//              └── asks who waits: wakes it ── Check() ◄┘   a few times per period, by main
//
// While a thread is stuck, profd sends systemd no WATCHDOG=1, and systemd restarts it after
// WatchdogSec= (the period). Waiting on purpose is not being stuck: a thread that waits is asked at
// each Check(), and goes through its loop once to answer.
//
// Threads:   any; Check() one at a time, by whoever also ends the watched threads.
// Hot path:  Works() is a clock reading and a relaxed store, Waits() a relaxed store.
// Ownership: the watchdog must outlive the threads that it watches.
// Locks:     Check() wakes threads while it holds its own lock. So a thread may hold no lock that
//            its `wake` takes when its WatchedThread begins or ends.
#ifndef PROFD_DAEMON_BASE_WATCHDOG_H_
#define PROFD_DAEMON_BASE_WATCHDOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace profd {

class Watchdog {
 public:
  // WatchdogSec= of profd.service; the period where systemd names none.
  static constexpr absl::Duration kDefaultPeriod = absl::Minutes(3);
  static constexpr int kChecksPerPeriod = 4;

  // What a thread's work may wait for, which decides how long it may take: a third of the period,
  // or, where one slow write is no defect of profd, three periods.
  enum class Work { kNoDisk, kDisk };

  // The longest that a thread of this name has gone without progress.
  struct ThreadState {
    std::string name;
    absl::Duration unfed;  // 0: it waits.
    bool is_stuck = false;
  };

  explicit Watchdog(Clock& clock = Clock::Real(), absl::Duration period = kDefaultPeriod);

  absl::Duration check_interval() const { return period_ / kChecksPerPeriod; }
  absl::Duration MostFor(Work work) const;

  // Asks the threads that wait. Returns whether no thread is stuck; logs those that are.
  bool Check();

  // By name.
  std::vector<ThreadState> Threads() const;

 private:
  friend class WatchedThread;
  static constexpr int64_t kWaits = -1;

  struct Entry {
    std::string name;
    Work work = Work::kNoDisk;
    std::function<void()> wake;          // Empty: it is not asked.
    std::atomic<int64_t> since{kWaits};  // Monotonic ns of the last sign of progress.
  };

  int64_t NowNs() const;
  Entry& Add(std::string_view name, Work work, std::function<void()> wake);
  void Remove(Entry& entry);

  Clock& clock_;
  const absl::Duration period_;
  RateLimiter log_limiter_;
  mutable absl::Mutex mu_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mu_);
  bool was_stuck_ ABSL_GUARDED_BY(mu_) = false;
};

// WatchedThread watches the thread that made it, for as long as it lives.
//
//   WatchedThread watched(watchdog, "profd-ingest", Watchdog::Work::kNoDisk, [this] { Wake(); });
//   for (;;) {
//     watched.Waits();
//     epoll_wait(...);
//     watched.Works();
//     ...
//   }
//
// A loop that waits for an absl::Condition includes asked() in it, and `wake` locks and unlocks the
// mutex.
class WatchedThread {
 public:
  // nullptr: not watched. An empty `wake`: the thread is not asked while it waits.
  WatchedThread(Watchdog* watchdog, std::string_view name, Watchdog::Work work,
                std::function<void()> wake = nullptr);
  ~WatchedThread();
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  // A piece of work begins, or gets somewhere.
  void Works();
  // What comes next is a wait, which may take as long as it likes.
  void Waits();
  // Whether Check() has asked since Waits().
  bool asked() const;

 private:
  Watchdog* const watchdog_;
  Watchdog::Entry* const entry_;  // nullptr: not watched.
  WatchedThread* const outer_;
};

// A long piece of work has got somewhere, if the calling thread is watched. For code that does not
// know its thread: loops over the chunks of a file.
void ReportProgress();

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_WATCHDOG_H_
