#include "client_lib/core/quiesce.h"

#include <errno.h>
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
constexpr int kLooks = 100;

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

// What this thread stored before is seen by writes that are entered from here on; what was entered
// before is seen as busy.
void OrderWriters() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
#if !defined(__SANITIZE_THREAD__)
  if ((g_hot.detour.load(std::memory_order_relaxed) & kDetourFence) != 0) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    syscall(SYS_membarrier, kMembarrierPrivateExpedited, 0, 0);
  }
#endif
}

// Also where it ended without our being told: by a bare exit, or a bare clone()'s.
bool HasEnded(const ThreadState& thread) {
  const uint32_t os_thread = thread.os_thread.load(std::memory_order_relaxed);
  return syscall(SYS_tgkill, getpid(), os_thread, 0) != 0 && errno == ESRCH;
}

// Whether `thread` was outside of a write once, until `deadline_ns`.
bool LeavesWrite(ThreadState* thread, uint64_t deadline_ns) {
  const auto is_busy = [&] { return thread->busy.load(std::memory_order_seq_cst) != 0; };
  // One that writes all the time is outside now and then.
  for (int i = 0; i < kLooks; ++i) {
    if (!is_busy()) return true;
  }
  if (WaitWhile(is_busy, deadline_ns)) return true;
  if (!HasEnded(*thread)) return false;
  thread->busy.store(0, std::memory_order_seq_cst);
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

uint32_t Quiesce(uint32_t timeout_ms, StuckWriters* stuck) {
  OrderWriters();
  const uint64_t deadline_ns = wire::ReadMonotonicNs() + uint64_t{timeout_ms} * 1'000'000;
  StuckWriters found{};
  const uint32_t limit = ThreadPool::high_water();
  for (uint32_t i = 0; i < limit; ++i) {
    ThreadState* const thread = ThreadPool::At(i);
    thread->is_known_stuck = !LeavesWrite(thread, thread->is_known_stuck ? 0 : deadline_ns);
    if (!thread->is_known_stuck) continue;
    ++found.count;
    if (found.listed_count < StuckWriters::kMostListed) {
      found.pool_indexes[found.listed_count++] = i;
    }
  }
  const auto guests = [] { return g_hot.guests.load(std::memory_order_seq_cst); };
  if (!WaitWhile([&] { return guests() != 0; }, deadline_ns)) found.count += guests();
  if (stuck != nullptr) *stuck = found;
  return found.count;
}

bool AwaitWriters(uint32_t timeout_ms) {
  OrderWriters();
  const uint64_t deadline_ns = wire::ReadMonotonicNs() + uint64_t{timeout_ms} * 1'000'000;
  const uint32_t limit = ThreadPool::high_water();
  for (uint32_t i = 0; i < limit; ++i) {
    const ThreadState* const thread = ThreadPool::At(i);
    const auto is_busy = [&] { return thread->busy.load(std::memory_order_seq_cst) != 0; };
    if (!WaitWhile(is_busy, deadline_ns)) return false;
  }
  return true;
}

bool AreStillStuck(StuckWriters* stuck) {
  for (uint32_t i = 0; i < stuck->listed_count;) {
    ThreadState* const thread = ThreadPool::At(stuck->pool_indexes[i]);
    if (LeavesWrite(thread, 0)) {
      thread->is_known_stuck = false;
      stuck->pool_indexes[i] = stuck->pool_indexes[--stuck->listed_count];
      --stuck->count;
    } else {
      ++i;
    }
  }
  return stuck->count != 0;
}

}  // namespace profd::client
