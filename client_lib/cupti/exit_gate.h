// ExitGate takes the GPU thread out of CUPTI before the process tears down libcuda and libcupti,
// which may hang or crash if a thread is still in them.
//
// exit() runs its handlers in reverse order. Ours is registered after libcuda's and libcupti's, so
// it runs before theirs:
//
//   kOpen ── exit() ──► kLeaving ── the GPU thread is done, or the time is over ──► kClosed
//                       is_leaving(): end the session at once    Pass(): never returns
//
// Nothing is torn down by _exit(), quick_exit(), and signals, and they run no handler.
//
// Threads: Register(), Pass(), and Leave() are the GPU thread's; Enter() is for the thread that
//          starts it. is_leaving() from any thread. The handler runs on the thread that exits, and
//          blocks it for kExitWaitMs at most.
// Fork:    a child has no GPU thread, and its handler returns at once.
#ifndef PROFD_CLIENT_LIB_CUPTI_EXIT_GATE_H_
#define PROFD_CLIENT_LIB_CUPTI_EXIT_GATE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace profd::client {

class ExitGate {
 public:
  static constexpr uint32_t kExitWaitMs = 100;

  // `on_leaving` wakes the GPU thread.
  constexpr explicit ExitGate(void (*on_leaving)()) : on_leaving_(on_leaving) {}

  // Registers `handler`, which calls RunHandler(). Each call puts it before the handlers that have
  // been registered since the last one.
  void Register(void (*handler)());

  // A GPU thread starts, and is done with CUPTI.
  void Enter() { is_occupied_.store(true, std::memory_order_seq_cst); }
  void Leave() { is_occupied_.store(false, std::memory_order_seq_cst); }

  // Whether the process is exiting.
  bool is_leaving() const { return state_.load(std::memory_order_seq_cst) != State::kOpen; }

  // Call before calls of CUPTI. Never returns once the gate is closed.
  void Pass() const {
    if (__builtin_expect(state_.load(std::memory_order_seq_cst) == State::kClosed, 0)) Park();
  }

  // How long the handler waits for the GPU thread.
  uint64_t wait_ms() const { return wait_ms_.load(std::memory_order_relaxed); }

  // Has the GPU thread end its session, and waits until it is done. Keeps errno.
  void RunHandler();

 private:
  enum class State : uint32_t { kOpen, kLeaving, kClosed };

  [[noreturn]] static void Park();

  void (*const on_leaving_)();
  std::atomic<State> state_{State::kOpen};
  std::atomic<bool> is_occupied_{false};
  std::atomic<pid_t> pid_{0};  // Of the process that registered.
  std::atomic<uint32_t> wait_ms_{kExitWaitMs};
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_EXIT_GATE_H_
