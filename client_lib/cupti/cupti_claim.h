// CuptiClaim lets another profiler in the process have CUPTI before it begins to use it. CUPTI has
// one set of buffers and settings: a profiler that begins while we record gets none of the records
// that go to buffers of ours.
//
//   GPU thread      Hold(); ... look at is_requested() now and then, and leave CUPTI; Release()
//   its side        Claim(); ... the other profiler records ...; Drop()
//
// Threads: Hold(), Release(): the GPU thread's, and Hold() the one that starts it. The rest: any.
// Blocks:  Claim(), until the GPU thread is out of CUPTI, kTimeoutNs at most.
// Fork:    ResetInChild() before the child uses it.
#ifndef PROFD_CLIENT_LIB_CUPTI_CUPTI_CLAIM_H_
#define PROFD_CLIENT_LIB_CUPTI_CUPTI_CLAIM_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "proto/wire/clock.h"

namespace profd::client {

class CuptiClaim {
 public:
  // For turning kinds off and taking back what CUPTI has (gpu_drain.h).
  static constexpr uint64_t kTimeoutNs = 1'000'000'000;

  constexpr CuptiClaim() = default;

  void Hold() {
    is_requested_.store(false, std::memory_order_seq_cst);
    is_held_.store(1, std::memory_order_seq_cst);
  }
  void Release() {
    is_held_.store(0, std::memory_order_seq_cst);
    syscall(SYS_futex, &is_held_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }

  // `ring` wakes the GPU thread, if it holds CUPTI. False: it still does at the end of the time.
  template <typename Ring>
  bool Claim(const Ring& ring) {
    claims_.fetch_add(1, std::memory_order_seq_cst);
    is_requested_.store(true, std::memory_order_seq_cst);
    if (is_held_.load(std::memory_order_seq_cst) == 0) return true;
    ring();
    const uint64_t deadline_ns = wire::ReadMonotonicNs() + kTimeoutNs;
    while (is_held_.load(std::memory_order_seq_cst) != 0) {
      const uint64_t now_ns = wire::ReadMonotonicNs();
      if (now_ns >= deadline_ns) return false;
      const timespec left{static_cast<time_t>((deadline_ns - now_ns) / kNsPerSecond),
                          static_cast<long>((deadline_ns - now_ns) % kNsPerSecond)};
      syscall(SYS_futex, &is_held_, FUTEX_WAIT_PRIVATE, 1, &left, nullptr, 0);
    }
    return true;
  }
  // Ends a claim; without one, it only tells that claims are made here.
  void Drop() {
    is_in_use_.store(true, std::memory_order_relaxed);
    uint32_t claims = claims_.load(std::memory_order_relaxed);
    while (claims != 0 && !claims_.compare_exchange_weak(claims, claims - 1)) {
    }
  }

  // Another profiler has CUPTI, or is about to take it.
  bool is_claimed() const { return claims_.load(std::memory_order_seq_cst) != 0; }
  // Profilers of torch that take CUPTI claim it in this process: one that does not is of the CPU.
  bool is_in_use() const { return is_in_use_.load(std::memory_order_relaxed); }
  // It has been claimed since Hold().
  bool is_requested() const {
    return is_claimed() || is_requested_.load(std::memory_order_seq_cst);
  }

  void ResetInChild() {
    claims_.store(0, std::memory_order_relaxed);
    is_requested_.store(false, std::memory_order_relaxed);
    is_held_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kNsPerSecond = 1'000'000'000;

  std::atomic<uint32_t> claims_{0};
  std::atomic<bool> is_requested_{false};
  std::atomic<bool> is_in_use_{false};
  std::atomic<uint32_t> is_held_{0};  // A futex.
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_CUPTI_CLAIM_H_
