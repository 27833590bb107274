// Operators: torch's calls at the begin and end of each, and what becomes of them in a capture.
//
//   begin ──► name ──► StartOperator ──► fields, inputs ──► FinishOperator    (core/recorder.h)
//   end   ──► EndOperator
//
// Four callbacks are registered once, for good, and are disabled, which costs an operator nothing,
// but while a capture records: one of names alone and one of inputs too, since torch collects
// inputs only for those who ask; of each, one for record_function("...") and one for the rest.
//
// What is within a compilation is left out; see compilations.h.
//
// A record_function() that may end on another thread is a span (BeginSpan()) without inputs.
//
// Threads:  callbacks any; AttachOperators() and AttachInputs() under the lock of attach.cc; the
//           rest as torch_source.h says.
// Hot path: no lock, no allocation, no system call but at a thread's first operator. Nothing of
//           torch is called but RecordFunction::name() and, of record_function()s, isAsync().
//           (tests/bench/torch_op_benchmark.cc)
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

// Registers the callbacks of names. Once. `features`: those of RecordFunction.
void AttachOperators(const TorchLibrary& library, const RecordFunctionLayout& layout,
                     uint32_t features);

// There are none to register: `why`, which must stay.
void RefuseOperators(const char* why);

// Calls torch no more, for good: it is about to be destroyed, while the agent's thread goes on.
// Waits for a call that is under way. Any thread.
void LeaveTorch();

// Registers those of inputs, once, if `features` say that they can be read. Behind
// AttachOperators().
void AttachInputs(const TensorLayout& layout, uint32_t features);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_OPERATORS_H_
