// WakeBell lets one thread sleep until another rings. A ring between count() and Sleep() is not
// missed.
//
//   const uint32_t seen = bell.count();
//   ... look for something to do; if there is nothing:
//   bell.Sleep(seen, timeout_ns);
//
// Threads:  one sleeps; any rings, also in CUPTI's callbacks.
// Hot path: Ring() is an atomic addition, and a system call only if the thread sleeps.
// Fork:     ResetInChild() before the child uses it.
#ifndef PROFD_CLIENT_LIB_CUPTI_WAKE_BELL_H_
#define PROFD_CLIENT_LIB_CUPTI_WAKE_BELL_H_

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace profd::client {

class WakeBell {
 public:
  constexpr WakeBell() = default;

  // Keeps errno.
  void Ring() {
    count_.fetch_add(1, std::memory_order_seq_cst);
    if (!is_sleeping_.load(std::memory_order_seq_cst)) return;
    const int saved_errno = errno;
    syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    errno = saved_errno;
  }

  // Rings so far.
  uint32_t count() const { return count_.load(std::memory_order_seq_cst); }

  // Returns at a ring, or if count() is no longer `seen`, or after `timeout_ns`.
  void Sleep(uint32_t seen, uint64_t timeout_ns) {
    constexpr uint64_t kNsPerSecond = 1'000'000'000;
    const timespec timeout{static_cast<time_t>(timeout_ns / kNsPerSecond),
                           static_cast<long>(timeout_ns % kNsPerSecond)};
    is_sleeping_.store(true, std::memory_order_seq_cst);
    syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
    is_sleeping_.store(false, std::memory_order_seq_cst);
  }

  void ResetInChild() { is_sleeping_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> count_{0};  // A futex.
  std::atomic<bool> is_sleeping_{false};
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_WAKE_BELL_H_
