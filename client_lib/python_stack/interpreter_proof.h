// ProveLayout() compares what an InterpreterLayout leads to with what Python's own functions say of
// the same moment, before any of it is relied on:
//
//   frames   the calling thread's, each one's code and line
//   code     file, name, line table and first line, by their addresses
//   texts    strings of each width, made for this
//   locals   the first argument of a function that is running
//   dicts    the versions of some that are made for this
//
// Frames are read by the kernel (core/safe_memory.h) until they are proved.
//
// Threads: any that holds Python's lock and runs Python code; once.
// Errors:  what differs is refused, and `why` says what. A version of code objects, or of dicts,
//          that is not one is forgotten.
#ifndef PROFD_CLIENT_LIB_PYTHON_STACK_INTERPRETER_PROOF_H_
#define PROFD_CLIENT_LIB_PYTHON_STACK_INTERPRETER_PROOF_H_

#include <cstddef>

#include "client_lib/python_stack/frame_walker.h"
#include "client_lib/python_stack/interpreter_layout.h"

namespace profd::client::python_stack {

struct Proof {
  bool has_locals;  // Else modules cannot be read.
};

bool ProveLayout(InterpreterLayout* layout, Proof* proof, char* why, size_t why_bytes);

// The code of torch.nn.Module's calls. `outer` is 0: `why` says why. Under Python's lock.
ModuleCalls FindModuleCalls(char* why, size_t why_bytes);

}  // namespace profd::client::python_stack

#endif  // PROFD_CLIENT_LIB_PYTHON_STACK_INTERPRETER_PROOF_H_
