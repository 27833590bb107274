// What torch's allocators do, on every thread, for the CPU and for CUDA: by taking the calls of
// c10's own report functions, which every allocator makes, where libc10 and libc10_cuda make
// them (got_slots.h). torch.profiler's report goes on as if we were not there.
//
//   import torch ── AttachMemory(): where the calls go through
//   ARM          ── the calls go through us, and on
//   flag on/off  ── recorded; the CPU's allocator reports because we say that somebody listens
//   capture over ── the calls go as before
//
// The CPU's allocator reports frees only of what it allocated while somebody listened, and its
// totals begin with that, too. Of other frees torch says so itself, in its log, as it does under
// torch.profiler: one line in a thousand.
//
// Threads: AttachMemory() once, on the thread that attaches. The rest: torch_source.h.
// Errors:  a libc10 without such calls (linked statically), or slots that another tool has taken,
//          and there are no events of memory; why_missing() says which.
// Fork:    a child's calls go as before.
#ifndef PROFD_CLIENT_LIB_TORCH_MEMORY_H_
#define PROFD_CLIENT_LIB_TORCH_MEMORY_H_

#include "client_lib/torch/torch_source.h"

namespace profd::client::torch {

extern const TorchSource kMemorySource;

void AttachMemory();

// Whether torch's allocator of GPU memory was loaded when we attached.
bool HasCudaAllocator();

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_MEMORY_H_
