// Calls of the host that wait for a GPU, and what in the program made them: by the names of the
// ranges around each. They are told by the names of the calls, so that a capture needs no records
// of synchronisation.
//
// Threads: one. Memory: by names of calls and ranges.
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

// "cudaStreamSynchronize", "cudaMemcpy", "hipDeviceSynchronize", "cudaFree"; not what only orders
// streams ("cudaStreamWaitEvent").
bool IsSyncCall(std::string_view name);

struct SyncCalls {
  struct Step {
    int64_t count = 0;
    int64_t total_ns = 0;
  };
  std::vector<SyncCallRow> rows;  // Most time first.
  std::vector<Step> steps;        // By position in attribution.steps(): calls that began in it.
};
// `attribution` is by names.
SyncCalls SumSyncCalls(const GpuAttribution& attribution, std::span<const std::string> names);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_SYNC_CALLS_H_
