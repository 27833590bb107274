// Host time spent waiting for GPUs, by call: synchronization records, and copies that their call
// waited for (index/waiting_calls.h). Without any such record, the calls stand for them.
//
// Threads, memory, and errors: as kernel_table.h.
#ifndef PROFD_DAEMON_REPORT_GPU_SYNC_TABLE_H_
#define PROFD_DAEMON_REPORT_GPU_SYNC_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Waits of the host, by caller.
struct SyncRow {
  // "Stream Sync", "Context Sync", "Event Sync", "Stream Wait Event", "Blocking Copy", "Call"
  std::string name;
  std::string api;  // The API call: "cudaStreamSynchronize"; empty: not known.
  std::string op;   // The innermost range around the call; empty: none.
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t mean_ns = 0;
  int64_t max_ns = 0;
};
struct SyncTable {
  std::vector<SyncRow> rows;  // By total time.
  int64_t total_ns = 0;
  bool has_records = false;  // Of synchronization.
  bool has_calls = false;    // Of CUDA's API.
};
absl::StatusOr<SyncTable> SummarizeSyncs(store::CaptureReader& reader);

const table::Description<SyncRow>& SyncColumns();
table::Report ToReport(const SyncTable& syncs);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_SYNC_TABLE_H_
