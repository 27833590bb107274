#include "client_lib/cupti/exit_gate.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client_lib/core/log.h"
#include "proto/wire/clock.h"

namespace profd::client {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr long kNapNs = 200'000;

// Tests of what the capture holds must not depend on how busy the machine is.
uint32_t ChosenWaitMs() {
  const char* chosen = secure_getenv("PROFD_TEST_EXIT_WAIT_MS");
  if (chosen == nullptr || chosen[0] == '\0') return ExitGate::kExitWaitMs;
  return static_cast<uint32_t>(strtoul(chosen, nullptr, 10));
}

}  // namespace

void ExitGate::Register(void (*handler)()) {
  pid_.store(getpid(), std::memory_order_relaxed);
  wait_ms_.store(ChosenWaitMs(), std::memory_order_relaxed);
  if (atexit(handler) != 0) Log(LogLevel::kWarning, "atexit() failed; exit may race with CUPTI");
}

void ExitGate::RunHandler() {
  if (getpid() != pid_.load(std::memory_order_relaxed)) return;
  const int saved_errno = errno;
  State open = State::kOpen;
  state_.compare_exchange_strong(open, State::kLeaving, std::memory_order_seq_cst);
  on_leaving_();
  const uint64_t deadline_ns =
      wire::ReadMonotonicNs() + wait_ms_.load(std::memory_order_relaxed) * kNsPerMs;
  while (is_occupied_.load(std::memory_order_seq_cst) && wire::ReadMonotonicNs() < deadline_ns) {
    const timespec nap{0, kNapNs};
    nanosleep(&nap, nullptr);
  }
  state_.store(State::kClosed, std::memory_order_seq_cst);
  errno = saved_errno;
}

void ExitGate::Park() {
  for (;;) pause();
}

}  // namespace profd::client
