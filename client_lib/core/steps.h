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
// Steps are numbered by their source: its first mark is the begin of step 0. Where a better source
// takes over, the numbers begin anew with its own first mark. So all ranks of a training have the
// same numbers, whether or not a rank has taken batches before. An optimizer marks the end of its
// step(): the work before its first one is in no step. From ARM until its capture is released, the
// numbers go on; they begin anew after it.
//
// The mark that ends a window is written to it before the flag goes off, and again to the
// window that begins there, if one does.
//
// A capture may name a range whose begins are its steps (Session.step_marker), for programs
// that mark none. They count from 0 in that capture alone: the status page and
// profd_step_count() know nothing of them, and profd_step() moves none of its windows. One that
// begins inside another of that name, as in a recursion, is part of that step. Where the outer one
// began before the flag was on, it is not known: until it ends, those inside it are steps. Spans
// and ranges that are paired by identity may overlap; each is a step that begins outside of such
// ranges.
//
//   FIRE   0      1      2      3      4      begins of the range on its first thread
//    │wait │warmup│ active│ active│             base 0, warmup 1, active 2
//    n     n      n       n       0      0    flag
//
// A capture may as well name a source (Session.step_source): where torch's optimizers mark the
// steps of a process, it can count batches. Those steps are of the capture alone, too, but what
// marks them is always watched, so that the flag is off until the first of them is recorded.
// Threads: MarkStep...() any; the rest on the agent thread.
#ifndef PROFD_CLIENT_LIB_CORE_STEPS_H_
#define PROFD_CLIENT_LIB_CORE_STEPS_H_

#include <cstdint>

#include "proto/wire/frame.h"
#include "proto/wire/status_page.h"

namespace profd::client {

struct Session;
struct ThreadState;

// The start of a new step according to `source`. It counts if there was no better source so far.
// The thread whose mark of that source came first is the step thread; a mark on another one is
// foreign: it is counted, and moves nothing.
void MarkStep(wire::StepSource source);

// Counts a foreign mark. Also of the step thread, if it says so itself: of an asyncio task other
// than the one whose marks are steps.
void MarkForeignStep();

// The same, of a source that no process has, but captures may ask for.
void MarkStepOfCapture(wire::StepSource source);

// A range `name_id` begins on the calling thread, inside a write of it: a step, if that is
// how the capture counts them, and none of that name is open there. To be called while
// HotState.detour says kDetourMarker.
void MarkStepByRange(ThreadState* thread, uint32_t name_id);

// Keeps the numbers of steps as they are while a capture needs them: from before it can be seen
// until it is released. Its window ends, and Python names its steps, after the recording.
void KeepStepNumbers(bool keep);
bool StepNumbersAreKept();  // Any thread.

// Whether `plan` is one that the library can carry out.
bool IsValidPlan(const wire::FireBody& plan);

// Starts to carry out `plan`, which is valid. By time, the window opens at once.
void StartPlan(Session* session, const wire::FireBody& plan);

// How many step marks are still to come before steps are recorded, warm-up or not; 0: they are
// now; kNoSteps: never again. By time: 0. The plan must have come. Any thread.
inline constexpr uint64_t kNoSteps = UINT64_MAX;
uint64_t StepsUntilRecording(const Session& session);

// Ends what is open at `ticks`. No thread may be inside a write any more.
void EndPlan(Session* session, uint64_t ticks);

// The child of a fork has no step thread yet. On its only thread.
void ForgetStepThread();

// A new epoch for the recording flag; never one that was used before.
uint32_t NextEpoch();

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_STEPS_H_
