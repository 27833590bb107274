// What a source of events that cost the program nothing while no capture is armed needs to
// know: that this changed. There is one such source, NVTX (client_lib/nvtx).
//
// A listener is told of changes, not of states: it looks at HotState itself each time, so
// that however calls race, the last one to look sees how things are.
//
// Threads: any. A listener may be called by several threads at once, and by a forked
//          child's only thread inside its fork handler: no locks.
#ifndef PROFD_CLIENT_LIB_CORE_CAPTURE_LISTENER_H_
#define PROFD_CLIENT_LIB_CORE_CAPTURE_LISTENER_H_

#include <atomic>

#include "client_lib/core/hot_state.h"

namespace profd::client {

using CaptureListener = void (*)();
inline constinit std::atomic<CaptureListener> g_capture_listener{nullptr};

// After HotState.session changed, or the flag to or from kFlagForked.
inline void TellCaptureListener() {
  const CaptureListener listener = g_capture_listener.load(std::memory_order_seq_cst);
  if (listener != nullptr) listener();
}

// Whether annotations have to be seen: a capture is armed, or the first of them is to
// register a forked child.
inline bool AnnotationsAreWanted() {
  return g_hot.session.load(std::memory_order_seq_cst) != nullptr ||
         g_hot.flag.load(std::memory_order_seq_cst) == kFlagForked;
}

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_CAPTURE_LISTENER_H_
