// What core tells PyTorch's part of a capture, and when. core knows nothing of torch: the hooks
// are null until client_lib/torch has attached to one.
//
// Hot path: OnFlag() runs inside a step mark: a few hundred ns, no allocation, no waiting.
#ifndef PROFD_CLIENT_LIB_CORE_TORCH_HOOKS_H_
#define PROFD_CLIENT_LIB_CORE_TORCH_HOOKS_H_

#include <atomic>
#include <cstdint>

#include "proto/wire/frame.h"

namespace profd::client {

struct Session;

struct TorchHooks {
  // A capture is armed that wants `wanted`. Calls torch, so the helper runs it (helper.h) while
  // the agent waits.
  void (*on_arm)(const wire::ArmTorchField& wanted);
  // HotState.flag went on (a cycle opened) or off. Calls may race, so each reads the flag itself
  // instead of taking its new value as an argument: the last one to read it acts on what it is. On
  // the thread that moved the flag, which may be inside a write.
  void (*on_flag)();
  // The window is over and no thread records any more. The agent's thread; returns at once.
  void (*on_stop)();
  // Whether what on_stop() began is done. The agent's thread. WakeAgentForTorch() when it is.
  bool (*is_ready)();
  // Writes what is to be written after the window to `session`. The agent's thread, once,
  // when ready or when it has waited long enough.
  void (*write_behind)(Session* session);
  // The capture is over, drained or not. Run by the helper, as on_arm().
  void (*on_leave)();
  // In the fork handlers: of the thread that forked, and of the child's only thread.
  void (*after_fork_in_parent)();
  void (*reset_in_child)();
};

inline constinit std::atomic<const TorchHooks*> g_torch_hooks{nullptr};

// After HotState.flag changed.
inline void TellTorchOfFlag() {
  const TorchHooks* hooks = g_torch_hooks.load(std::memory_order_acquire);
  if (hooks != nullptr) hooks->on_flag();
}

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_TORCH_HOOKS_H_
