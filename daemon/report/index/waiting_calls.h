// API calls in which the host waits for a GPU: by their name, and copies that their call waited
// for.
//
// Threads: pure functions. Errors: the reader's.
#ifndef PROFD_DAEMON_REPORT_INDEX_WAITING_CALLS_H_
#define PROFD_DAEMON_REPORT_INDEX_WAITING_CALLS_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// True for "cudaStreamSynchronize", "cudaMemcpy", "hipDeviceSynchronize", "cudaFree"; false for
// calls that only order streams ("cudaStreamWaitEvent").
bool IsSyncCall(std::string_view name);
// True for "cudaMalloc", "hipFree", "cuMemAlloc_v2".
bool IsAllocatorCall(std::string_view name);
// IsAllocatorCall(), and calls that do it without waiting for the GPU: those that map memory of
// expandable segments ("cuMemMap"), page-lock it, or take it from a pool.
bool IsAllocationCall(std::string_view name);
// Those that let no work begin on the GPU that is launched while they run, whatever thread makes
// them: "cudaFree", "cudaFreeHost", "cudaHostUnregister". They wait for what was launched before.
bool StopsGpu(std::string_view name);
// IsSyncCall() without those that allocate or free memory.
bool WaitsForGpu(std::string_view name);

// CUDA makes asynchronous copies from and to memory that is not pinned wait: to the host, until the
// copy is done; to the device, until it has staged what exceeds 64 KiB. Returns, by position in
// attribution.calls(), whether the call made such a copy, which ended inside the call.
absl::StatusOr<std::vector<bool>> FindBlockingCopies(store::CaptureReader& reader,
                                                     const GpuAttribution& attribution);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_WAITING_CALLS_H_
