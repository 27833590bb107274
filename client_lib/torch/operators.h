// Operators: torch's calls at the begin and end of each, and what becomes of them in a capture.
//
//   begin ──► name ──► StartOperator ──► stack, fields, inputs ──► FinishOperator (core/recorder.h)
//   end   ──► EndOperator
//
// Callbacks are registered while a capture is armed, and disabled but while it records, so that
// operators pay nothing: of names alone, or of inputs too, since torch collects inputs only for
// those who ask; of each, one for record_function("...") and one for the rest. Between
// captures there are none: from 2.0 on torch copies the list of all of them, disabled or not, at
// every node of a backward pass.
//
// What is within a compilation is left out; see compilations.h.
//
// A record_function() that may end on another thread is a span (BeginSpan()) without inputs.
//
// Threads:  callbacks any; AttachOperators() and AttachInputs() under the lock of attach.cc; the
//           rest as torch_source.h says.
// Hot path: no lock, no allocation, no system call but at a thread's first operator. Nothing of
//           torch is called but RecordFunction::name() and, of record_function()s, isAsync().
//           (tests/bench/torch_op_benchmark.py)
// Fork:     a child's operators are not recorded until it takes part in a capture of its own.
// Errors:   see operator_inputs.h; what finds no chunk is counted by core.
#ifndef PROFD_CLIENT_LIB_TORCH_OPERATORS_H_
#define PROFD_CLIENT_LIB_TORCH_OPERATORS_H_

#include "client_lib/torch/record_function.h"
#include "client_lib/torch/tensor_layout.h"
#include "client_lib/torch/torch_library.h"
#include "client_lib/torch/torch_source.h"

namespace profd::client::torch {

extern const TorchSource kOperatorSource;

// From here on captures may have names. Once. `features`: those of RecordFunction.
void AttachOperators(const TorchLibrary& library, const RecordFunctionLayout& layout,
                     uint32_t features);

// There are none to register: `why`, which must stay.
void RefuseOperators(const char* why);

// Calls torch no more, for good: it is about to be destroyed, while the agent's thread goes on.
// Waits for a call that is under way, a second at most. Any thread.
void LeaveTorch();

// Surround calls of torch that take the lock of its observers. False: do not call torch (another
// thread does, one forks, or the interpreter ends), nor EndSwitching().
[[nodiscard]] bool BeginSwitching();
void EndSwitching();
// Switches operators on or off if that was not possible when it was due. Any thread; does not wait.
void FollowSwitching();
// Also waits until no other thread does, which takes microseconds. Only on threads of the library.
[[nodiscard]] bool AwaitSwitching();

// And inputs, if `features` say that they can be read. After AttachOperators().
void AttachInputs(const TensorLayout& layout, uint32_t features);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_OPERATORS_H_
