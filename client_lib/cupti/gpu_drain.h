// The end of a window: what it launched is waited for, within bounds, and what is lost counted.
//
// Records of the window's calls have come when the buffers that CUPTI had at its end are back
// (BufferPool::MarkOutstanding()). CUPTI before 13.0 has one buffer for all threads and keeps it
// until it is full (2,500 kernels) or all work in it has run, so a busy program that launches
// little makes the drain take its whole time. Later ones return it within milliseconds.
//
// If another profiler waits for CUPTI (cupti_claim.h) or the process exits, the bounds are short.
//
// Threads: the GPU thread's.
#ifndef PROFD_CLIENT_LIB_CUPTI_GPU_DRAIN_H_
#define PROFD_CLIENT_LIB_CUPTI_GPU_DRAIN_H_

#include <cstdint>

#include "client_lib/cupti/gpu_work.h"

namespace profd::client::gpu {

// Turns records of API calls off, if they are on; from then on there is work to wait for.
void DisableCalls(Work* work);

// After DisableCalls(): whether work that calls of the window launched is still to come, or may
// be.
bool AwaitsLaunches(Work* work, uint64_t now_ns);

// Has CUPTI hand over everything, turns the kinds off, and writes what the decoder still has.
void Drain(Work* work);

}  // namespace profd::client::gpu

#endif  // PROFD_CLIENT_LIB_CUPTI_GPU_DRAIN_H_
