// Python stacks of operators, as client_lib/torch uses them.
//
//   import torch ──► Attach(): layout, proof, torch.nn.Module's call   (interpreter_layout.h)
//   ARM          ──► Want(): what this capture asks for
//   operator     ──► IdOf(&begin) ──► FinishOperator() ──► SetStart()  (thread_stacks.h)
//   exit         ──► Leave(): Python's threads are about to go
//
// Threads:  IdOf() and SetStart() inside a write of an operator, on its thread; Attach() once,
// under
//           Python's lock; the rest the agent's.
// Hot path: IdOf() and SetStart(): no lock, no allocation, nothing of Python but
//           PyGILState_GetThisThreadState(), which reads a thread-local. (tests/bench)
// Fork:     a child goes on.
// Errors:   what cannot be proved is not in features(), and why_not() says why.
#ifndef PROFD_CLIENT_LIB_PYTHON_STACK_STACKS_H_
#define PROFD_CLIENT_LIB_PYTHON_STACK_STACKS_H_

#include <cstdint>

#include "client_lib/core/recorder.h"

namespace profd::client::python_stack {

// Finds out whether this Python's stacks can be read.
void Attach();

// wire::kTorchStacks, wire::kTorchModules.
uint32_t features();
// Why `feature`, one of those, does not work.
const char* why_not(uint32_t feature);

// While no thread records. What does not work is not wanted.
void Want(bool frames, bool modules);
bool IsWanted();

// The stack of the operator that `begin` has started, written to the capture if need be.
uint32_t IdOf(OperatorBegin* begin);
// After FinishOperator() of it.
void SetStart(ThreadState* thread, uint64_t start_ticks, bool may_outlive_call);

// Of the capture, since Want().
uint64_t odd_frame_count();
uint64_t full_count();

// Reads no frame any more, for good: returns when no thread does.
void Leave();

}  // namespace profd::client::python_stack

#endif  // PROFD_CLIENT_LIB_PYTHON_STACK_STACKS_H_
