// Copies, memsets, and decompression: by direction and kinds of memory.
//
// Threads, memory, and errors: as kernel_table.h.
#ifndef PROFD_DAEMON_REPORT_GPU_COPY_TABLE_H_
#define PROFD_DAEMON_REPORT_GPU_COPY_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Copies (by direction and kinds of memory), memsets, and decompression.
struct CopyRow {
  std::string name;  // As in traces: "Memcpy HtoD (Pageable -> Device)", "Memset (Device)"
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t mean_ns = 0;
  int64_t p50_ns = 0;
  int64_t p95_ns = 0;
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
  int64_t bytes = -1;  // Of the copies whose size is known; -1: no size is known.
  int64_t min_bytes = -1;
  int64_t max_bytes = -1;
  double bandwidth_gb_per_s = -1;  // bytes / total_ns, or by the recorded ones of each
  int64_t async_count = 0;
  std::string op;  // As KernelRow.op.
};
struct CopyTable {
  std::vector<CopyRow> rows;  // By total time.
  int64_t total_ns = 0;
  int64_t busy_ns = 0;  // Union over streams, devices added.
  // Copies and memsets that ran in the window but were launched before it: in no row and no total,
  // but in busy_ns.
  int64_t earlier_count = 0;
  int64_t earlier_ns = 0;
};
absl::StatusOr<CopyTable> SummarizeCopies(store::CaptureReader& reader);

const table::Description<CopyRow>& CopyColumns();
table::Report ToReport(const CopyTable& copies);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_COPY_TABLE_H_
