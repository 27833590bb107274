// Host calls that wait for a GPU, with the ranges of the program around each. The calls are
// recognized by name, or by a copy that ended inside them (index/waiting_calls.h), so a capture
// needs no synchronization records.
//
// Threads: one. Memory: per name of calls and ranges.
#ifndef PROFD_DAEMON_REPORT_TIME_SYNC_CALLS_H_
#define PROFD_DAEMON_REPORT_TIME_SYNC_CALLS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {

struct SyncCalls {
  struct Step {
    int64_t count = 0;
    int64_t total_ns = 0;
  };
  std::vector<SyncCallRow> rows;  // Most time first.
  std::vector<Step> steps;        // By position in attribution.steps(): calls that began in it.
};
// `attribution` must be built without kinds. `blocking_copies`: FindBlockingCopies().
SyncCalls SumSyncCalls(const GpuAttribution& attribution, std::span<const std::string> names,
                       const std::vector<bool>& blocking_copies);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_SYNC_CALLS_H_
