// Steps: the program's step marks, and the windows that begin and end at them.
//
// The plan of a capture (FIRE) is evaluated inside the marks, by the thread that makes
// them, so that a window begins and ends exactly at one; all that happens there is a few
// stores.
//
//   mark       5      6      7      8      9      10          plan: base 6, wait 1,
//              │      │ wait │warm-up│ active│ active│              warmup 1, active 2
//   phase    Armed Waiting Warmup Recording      Ended
//   flag       0      0      n       n       n     0
//   mark written              7      8       9    10
//
// The mark that ends a window is written to it before the flag goes off, and again to the
// window that begins there, if one does.
//
// Threads: MarkStep() any; the rest on the agent thread.
#ifndef PROFD_CLIENT_LIB_CORE_STEPS_H_
#define PROFD_CLIENT_LIB_CORE_STEPS_H_

#include <cstdint>

#include "proto/wire/frame.h"

namespace profd::client {

struct Session;

// The start of a new step, if the calling thread is the step thread (the first that calls
// this); else a foreign mark, which is counted and moves nothing.
void MarkStep();

// Whether `plan` is one that the library can carry out.
bool IsValidPlan(const wire::FireBody& plan);

// Starts to carry out `plan`, which is valid. By time, the window opens at once.
void StartPlan(Session* session, const wire::FireBody& plan);

// Ends what is open at `ticks`. No thread may be inside a write any more.
void EndPlan(Session* session, uint64_t ticks);

// The child of a fork has no step thread yet. On its only thread.
void ForgetStepThread();

// A new epoch for the recording flag; never one that was used before.
uint32_t NextEpoch();

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_STEPS_H_
