// Host calls that wait for a GPU, with the ranges of the program around each. The calls are
// recognized by name, so a capture needs no synchronization records.
//
// Threads: one. Memory: per name of calls and ranges.
#ifndef PROFD_DAEMON_REPORT_TIME_SYNC_CALLS_H_
#define PROFD_DAEMON_REPORT_TIME_SYNC_CALLS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {

// True for "cudaStreamSynchronize", "cudaMemcpy", "hipDeviceSynchronize", "cudaFree"; false for
// calls that only order streams ("cudaStreamWaitEvent").
bool IsSyncCall(std::string_view name);
// The same without those that allocate or free memory.
bool WaitsForGpu(std::string_view name);

struct SyncCalls {
  struct Step {
    int64_t count = 0;
    int64_t total_ns = 0;
  };
  std::vector<SyncCallRow> rows;  // Most time first.
  std::vector<Step> steps;        // By position in attribution.steps(): calls that began in it.
};
// `attribution` must be built without kinds.
SyncCalls SumSyncCalls(const GpuAttribution& attribution, std::span<const std::string> names);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_SYNC_CALLS_H_
