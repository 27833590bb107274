#include "tests/cupti_standin/clock.h"

#include <time.h>

#include <algorithm>
#include <mutex>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace sgpu {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;
// Sleeps end late by about so much; the rest of a wait is spun.
constexpr uint64_t kSleepErrorNs = 80'000;

uint64_t SystemNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

#if defined(__x86_64__)

// A pair of readings, and how many ns a cycle is, as a 32.32 fixed-point number.
struct Calibration {
  uint64_t cycles;
  uint64_t ns;
  uint64_t ns_per_cycle;  // 0: not known yet.
};

constexpr uint64_t kRecalibrateNs = 10'000'000;
// More than pass in that time; times a rate of up to 4 ns per cycle it is no overflow.
constexpr uint64_t kMaxCycles = 1ULL << 30;

// One writer at a time, readers never wait: an odd sequence number means it is being written.
class SharedCalibration {
 public:
  bool Read(Calibration& out) const {
    const uint64_t before = sequence_.load(std::memory_order_acquire);
    out.cycles = cycles_.load(std::memory_order_acquire);
    out.ns = ns_.load(std::memory_order_acquire);
    out.ns_per_cycle = ns_per_cycle_.load(std::memory_order_acquire);
    return (before & 1) == 0 && sequence_.load(std::memory_order_relaxed) == before;
  }

  // Takes a new pair of readings, unless somebody else is at it.
  void Refresh() {
    const std::unique_lock lock(mu_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    const Calibration next = Measure();
    const uint64_t old_cycles = cycles_.load(std::memory_order_relaxed);
    const uint64_t old_ns = ns_.load(std::memory_order_relaxed);
    uint64_t rate = ns_per_cycle_.load(std::memory_order_relaxed);
    const uint64_t passed = next.ns - old_ns;
    // Over too short a time the readings' own error shows; over too long, the sum overflows.
    if (old_ns == 0 || (passed >= kRecalibrateNs / 2 && passed < kNsPerSecond)) {
      rate = old_ns == 0 || next.cycles <= old_cycles ? 0
                                                      : (passed << 32) / (next.cycles - old_cycles);
    }
    sequence_.fetch_add(1, std::memory_order_acq_rel);
    cycles_.store(next.cycles, std::memory_order_release);
    ns_.store(next.ns, std::memory_order_release);
    ns_per_cycle_.store(rate, std::memory_order_release);
    sequence_.fetch_add(1, std::memory_order_release);
  }

 private:
  // The tightest of a few pairs: the thread may be preempted within one.
  static Calibration Measure() {
    Calibration best{};
    uint64_t best_width = UINT64_MAX;
    for (int i = 0; i < 4; ++i) {
      const uint64_t before = __rdtsc();
      const uint64_t ns = SystemNow();
      const uint64_t width = __rdtsc() - before;
      if (width < best_width) {
        best_width = width;
        best = {before + width / 2, ns, 0};
      }
    }
    return best;
  }

  std::mutex mu_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<uint64_t> cycles_{0};
  std::atomic<uint64_t> ns_{0};
  std::atomic<uint64_t> ns_per_cycle_{0};
};

constinit SharedCalibration shared_calibration;

uint64_t RealNow() {
  Calibration calibration;
  if (shared_calibration.Read(calibration) && calibration.ns_per_cycle != 0) {
    const uint64_t cycles = __rdtsc() - calibration.cycles;
    if (cycles < kMaxCycles) {
      const uint64_t passed = cycles * calibration.ns_per_cycle >> 32;
      if (passed < kRecalibrateNs) return calibration.ns + passed;
    }
  }
  const uint64_t now = SystemNow();
  if (calibration.ns == 0 || now - calibration.ns >= kRecalibrateNs) shared_calibration.Refresh();
  return now;
}

#else

uint64_t RealNow() { return SystemNow(); }

#endif

}  // namespace

uint64_t Clock::Now() {
  return IsVirtual() ? virtual_now_.load(std::memory_order_relaxed) : RealNow();
}

void Clock::SetVirtual(bool is_virtual) {
  virtual_now_ = SystemNow();
  virtual_ = is_virtual;
}

void Clock::WaitUntil(uint64_t time_ns) {
  if (IsVirtual()) {
    uint64_t now = virtual_now_.load(std::memory_order_relaxed);
    while (now < time_ns && !virtual_now_.compare_exchange_weak(now, time_ns)) {
    }
    return;
  }
  for (uint64_t now = Now(); now < time_ns; now = Now()) {
    const uint64_t left = time_ns - now;
    if (left > kSleepErrorNs) {
      const uint64_t sleep = std::min(left - kSleepErrorNs, kNsPerSecond);
      const timespec interval{static_cast<time_t>(sleep / kNsPerSecond),
                              static_cast<long>(sleep % kNsPerSecond)};
      nanosleep(&interval, nullptr);
    }
  }
}

void Clock::Spend(uint64_t ns) {
  if (IsVirtual()) {
    Advance(std::max<uint64_t>(ns, 1));
  } else if (ns != 0) {
    WaitUntil(Now() + ns);
  }
}

void Clock::SleepMs(int64_t ms) {
  if (ms <= 0) return;
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

}  // namespace sgpu
