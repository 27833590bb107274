// Compilations: while torch.compile compiles on a thread, thousands of operators run there on
// tensors that are none. They are counted and left out; the compilation itself is one range.
//
// A compilation is known by the record_function() that Dynamo puts around it, "... (dynamo_timed)",
// or, in releases that do that for torch.profiler alone, by what Python hears of it (Tell()).
//
//   state of a thread        begin of one      operator begins     operator ends
//   kNone                    ─► kInside                            recorded
//   kInside                                    ─► kInside + 1      the compilation's own: ─► kNone
//   kInside + n                                ─► kInside + n+1    ─► kInside + n-1
//
// Threads:  each its own state, but ResetCounts(), count() and WriteNotes(), which are for when
//           no thread records.
// Hot path: IsInside() is a load. Within a compilation, no lock and no allocation.
// Errors:   of a compilation without a reported end, the next "TorchDynamo Cache Lookup" or window
//           is the end.
#ifndef PROFD_CLIENT_LIB_TORCH_COMPILATIONS_H_
#define PROFD_CLIENT_LIB_TORCH_COMPILATIONS_H_

#include <cstdint>

namespace profd::client {

class LateWriter;

namespace torch::compilations {

extern __thread uint32_t t_state __attribute__((tls_model("initial-exec")));

// Whether anything has to be asked of the calling thread's next begin or end.
inline bool IsInside() { return t_state != 0; }

// Whether a record_function() of that name is a compilation.
bool IsOne(const char* name);

// It began, and will be recorded; its end comes by EndInside().
void Open(uint32_t name_id);

// Of an operator that begins inside. False: it is not inside any more, and is to be recorded.
bool BeginInside(const char* name);
// Of one that ends. False: its begin was recorded.
bool EndInside();
// Counts one that has no begin and end of its own on this thread.
void CountAsync();

// Python's word that a compilation begins or is over on the calling thread, outside of operators'
// callbacks.
void Tell(bool begins);

void ResetCounts();
uint64_t count();
// What was left out, by what it was in.
void WriteNotes(LateWriter* writer);

}  // namespace torch::compilations
}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_TORCH_COMPILATIONS_H_
