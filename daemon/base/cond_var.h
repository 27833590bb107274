// CondVar is a condition variable of an absl::Mutex that waits by the monotonic clock. Those of
// absl, of the version that Debian 12 has, wait until a wall time: a clock that is set back by an
// hour makes them an hour late.
//
// Threads: any.
#ifndef PROFD_DAEMON_BASE_COND_VAR_H_
#define PROFD_DAEMON_BASE_COND_VAR_H_

#include <chrono>
#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace profd {

class CondVar {
 public:
  void Signal() { condition_.notify_one(); }

  // Returns when it is signalled, after `timeout`, or for no reason. `mu` is released meanwhile.
  void WaitWithTimeout(absl::Mutex* mu, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    Lock lock{*mu};
    if (timeout >= kLongest) return condition_.wait(lock);
    condition_.wait_for(lock, absl::ToChronoNanoseconds(timeout));
  }

  // Returns true once `is_met()` is, false if it is not after `timeout`. It is asked with `mu`
  // held, at first and whenever this is signalled.
  template <typename Predicate>
  bool AwaitWithTimeout(absl::Mutex* mu, absl::Duration timeout, Predicate is_met)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    Lock lock{*mu};
    if (timeout < kLongest) {
      return condition_.wait_for(lock, absl::ToChronoNanoseconds(timeout), is_met);
    }
    condition_.wait(lock, is_met);
    return true;
  }

 private:
  // Longer times do not fit the clock of the standard library.
  static constexpr absl::Duration kLongest = absl::Hours(24 * 365);

  // As the standard library wants it.
  struct Lock {
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mu.Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mu.Unlock(); }
    absl::Mutex& mu;
  };

  std::condition_variable_any condition_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_COND_VAR_H_
