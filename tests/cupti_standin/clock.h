// The clock of the stand-in: CLOCK_REALTIME in nanoseconds, or one that only its calls move.
//
// The software GPU keeps its times as Now() gives them; what goes into a record is Stamp() of that,
// so that a step of the clock moves the timestamps and not the work.
//
// Threads:  any.
// Hot path: Now() is read twice in every call of the software GPU, so it counts the processor's
//           cycles between readings of CLOCK_REALTIME, at most 10 ms apart.
#ifndef PROFD_TESTS_CUPTI_STANDIN_CLOCK_H_
#define PROFD_TESTS_CUPTI_STANDIN_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace sgpu {

class Clock {
 public:
  static uint64_t Now();
  static uint64_t Stamp(uint64_t time_ns) {
    return time_ns + static_cast<uint64_t>(step_.load(std::memory_order_relaxed));
  }

  static bool IsVirtual() { return virtual_.load(std::memory_order_relaxed); }
  static void SetVirtual(bool is_virtual);
  // Virtual time only.
  static void Advance(uint64_t ns) { virtual_now_.fetch_add(ns, std::memory_order_relaxed); }

  // Until Now() is `time_ns` or more: waits, or jumps there.
  static void WaitUntil(uint64_t time_ns);
  // Takes `ns` of the caller's time.
  static void Spend(uint64_t ns);
  // Real milliseconds, in virtual time too: what a setting makes a function take. None if negative.
  static void SleepMs(int64_t ms);

  static void Step(int64_t ns) { step_.fetch_add(ns, std::memory_order_relaxed); }
  static void ForgetSteps() { step_ = 0; }

 private:
  static inline std::atomic<bool> virtual_{false};
  static inline std::atomic<uint64_t> virtual_now_{0};
  static inline std::atomic<int64_t> step_{0};
};

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_CLOCK_H_
