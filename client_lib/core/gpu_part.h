// The GPU's part in a capture, as the agent sees it; client_lib/cupti/gpu_session.cc is what
// does it. Declared here because core knows nothing of CUPTI.
//
// Everything that may take time, or hang, happens on a thread of its own that lives from
// Start() until the capture is over. The agent is woken (WakeAgentForGpu()) when the answer
// to what it asked is there, and gives up by itself when it is not: LeaveSession().
//
//   kNone ── Start() ──► kArming ──► kArmed ── RequestStop() ──► kDrained
//                           └──────► kFailed
//
// A process that has not loaded CUDA needs none of that: the agent asks IsCudaLoaded() first.
//
// Threads: the agent's; Start() the helper's, while the agent waits, so that the thread it makes
//          has the program's descriptors. ResetInChild() on a forked child's only thread.
// Errors:  a CUPTI that does not come back keeps its thread, and IsStuck() says so; captures
//          without a GPU part go on.
#ifndef PROFD_CLIENT_LIB_CORE_GPU_PART_H_
#define PROFD_CLIENT_LIB_CORE_GPU_PART_H_

#include <cstdint>

#include "proto/wire/frame.h"

namespace profd::client {

struct Session;

namespace gpu_part {

enum class State : uint32_t { kNone, kArming, kArmed, kFailed, kDrained };

// Why a capture that requires the GPU is refused by a process without CUDA.
inline constexpr char kNoCudaText[] = "this process does not use CUDA yet; capture it once it does";

// False: no library of CUDA's driver is loaded, so that Start() would find none. Waits for no
// library that is being loaded.
bool IsCudaLoaded();

// Begins to arm the GPU for `session`, which stays until LeaveSession() and a Quiesce().
// False: the thread of the last capture has not ended yet, or no thread can be made.
bool Start(Session* session, const wire::ArmBody& arm);

State GetState();
// Of kFailed.
wire::ArmFailedReason FailureReason();
const char* FailureText();

// What the thread is doing: "attaching to CUPTI".
const char* Stage();

// The capture has its plan.
void OnPlan();

// The GPU is not recorded any more, because another tool has CUPTI. The capture is to end, or the
// GPU would look idle.
bool HasLeft();

// Ends recording; kDrained follows, and until then events are written.
void RequestStop();

// From the return on, and once no thread is inside a write, the session is not touched any more.
// The thread puts CUPTI back in order and ends, as soon as CUPTI lets it.
void LeaveSession();

// The thread of an earlier capture is still in a call of CUPTI that was given up.
bool IsStuck();

// Another profiler in this process is about to use CUPTI, or has ended. Between the two, captures
// have no GPU part; one that has CUPTI leaves it first, and ends. Waits for that, a second at most.
// Any thread.
void ClaimCupti();
void DropCuptiClaim();

void ResetInChild();

}  // namespace gpu_part
}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_GPU_PART_H_
