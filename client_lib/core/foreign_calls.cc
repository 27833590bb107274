#include "client_lib/core/foreign_calls.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "proto/wire/clock.h"

namespace profd::client {
namespace {

constexpr uint64_t kPauseNs = 50'000;

// Calls in the lower half; threads that fork in the upper one.
constexpr uint64_t kCall = 1;
constexpr uint64_t kFork = uint64_t{1} << 32;
constinit std::atomic<uint64_t> g_counts{0};
// A fork has waited long enough for the calls that are under way.
constinit std::atomic<bool> g_is_slow{false};

bool HasCalls(uint64_t counts) { return (counts & (kFork - 1)) != 0; }

// Not nanosleep(), where a thread can be cancelled: fork() is no such place.
void Pause() {
  const timespec pause{0, static_cast<long>(kPauseNs)};
  syscall(SYS_nanosleep, &pause, nullptr);
}

}  // namespace

bool TryBeginForeignCall() {
  uint64_t counts = g_counts.load(std::memory_order_seq_cst);
  do {
    if (counts >= kFork) return false;
  } while (!g_counts.compare_exchange_weak(counts, counts + kCall, std::memory_order_seq_cst));
  return true;
}

void EndForeignCall() {
  const uint64_t before = g_counts.fetch_sub(kCall, std::memory_order_seq_cst);
  if (!HasCalls(before - kCall)) g_is_slow.store(false, std::memory_order_seq_cst);
}

ForeignCall::ForeignCall() {
  while (!TryBeginForeignCall()) Pause();
}

void HoldForeignCalls() {
  uint64_t counts = g_counts.fetch_add(kFork, std::memory_order_seq_cst);
  if (!HasCalls(counts) || g_is_slow.load(std::memory_order_seq_cst)) return;
  const uint64_t deadline_ns = wire::ReadMonotonicNs() + kMostForkWaitNs;
  while (HasCalls(g_counts.load(std::memory_order_seq_cst))) {
    if (wire::ReadMonotonicNs() > deadline_ns) return g_is_slow.store(true);
    Pause();
  }
}

void ReleaseForeignCalls() { g_counts.fetch_sub(kFork, std::memory_order_seq_cst); }

void ForgetForeignCalls() {
  g_counts.store(0, std::memory_order_seq_cst);
  g_is_slow.store(false, std::memory_order_seq_cst);
}

}  // namespace profd::client
