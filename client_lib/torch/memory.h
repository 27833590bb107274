// What torch's allocators do, on every thread, for the CPU and for CUDA: by taking the calls with
// which they tell of themselves, where libc10 and libc10_cuda make them (got_slots.h). They go on
// to where they went before: torch.profiler's report is as if we were not there.
//
//   import torch ── AttachMemory(): where the calls go through
//   ARM          ── the calls go through us, and on; what is allocated is remembered
//   flag on/off  ── recorded
//   capture over ── the calls go as before
//
// The CPU's allocator is asked at c10::ProfiledCPUMemoryReporter, in front of what that keeps for
// torch.profiler: a table of all blocks, under a lock that all threads share. It does not say how
// large a block is that is freed; live_blocks.h knows it of those allocated since ARM. Frees of
// others are not recorded, and the CPU's total is that of these blocks.
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
