#include "client_lib/core/quiesce.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/log.h"
#include "client_lib/core/thread_state.h"

namespace profd::client {
namespace {

// <linux/membarrier.h> is not in every image's headers; these numbers are the kernel's ABI.
constexpr int kMembarrierPrivateExpedited = 1 << 3;
constexpr int kMembarrierRegisterPrivateExpedited = 1 << 4;

constexpr uint64_t kFirstPauseNs = 20'000;
constexpr uint64_t kLongestPauseNs = 1'000'000;

void Pause(uint64_t ns) {
  const timespec pause{0, static_cast<long>(ns)};
  nanosleep(&pause, nullptr);
}

// Whether `still_busy` turned false before `deadline_ns`.
template <typename Predicate>
bool WaitWhile(const Predicate& still_busy, uint64_t deadline_ns) {
  uint64_t pause_ns = kFirstPauseNs;
  while (still_busy()) {
    if (wire::ReadMonotonicNs() >= deadline_ns) return false;
    Pause(pause_ns);
    if (pause_ns < kLongestPauseNs) pause_ns *= 2;
  }
  return true;
}

}  // namespace

void PrepareQuiescence() {
#if !defined(__SANITIZE_THREAD__)
  const bool missing = syscall(SYS_membarrier, kMembarrierRegisterPrivateExpedited, 0, 0) != 0 ||
                       syscall(SYS_membarrier, kMembarrierPrivateExpedited, 0, 0) != 0;
  if (missing) Log(LogLevel::kInfo, "no membarrier(); recorded events cost a fence more");
  if (missing) g_hot.detour.fetch_or(kDetourFence, std::memory_order_seq_cst);
#endif
}

uint32_t Quiesce(uint32_t timeout_ms) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
#if !defined(__SANITIZE_THREAD__)
  if ((g_hot.detour.load(std::memory_order_relaxed) & kDetourFence) != 0) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    syscall(SYS_membarrier, kMembarrierPrivateExpedited, 0, 0);
  }
#endif
  const uint64_t deadline_ns = wire::ReadMonotonicNs() + uint64_t{timeout_ms} * 1'000'000;
  uint32_t stuck = 0;
  const uint32_t limit = ThreadPool::high_water();
  for (uint32_t i = 0; i < limit; ++i) {
    const std::atomic<uint32_t>& busy = ThreadPool::At(i)->busy;
    if (!WaitWhile([&] { return busy.load(std::memory_order_seq_cst) != 0; }, deadline_ns)) {
      ++stuck;
    }
  }
  const auto guests = [] { return g_hot.guests.load(std::memory_order_seq_cst); };
  if (!WaitWhile([&] { return guests() != 0; }, deadline_ns)) stuck += guests();
  return stuck;
}

}  // namespace profd::client
