// When devices and streams did nothing, and why.
//
// Threads, memory, and errors: as kernel_table.h.
#ifndef PROFD_DAEMON_REPORT_GPU_IDLE_TABLE_H_
#define PROFD_DAEMON_REPORT_GPU_IDLE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// What a device did in each step, and why it did nothing: Holistic Trace Analysis's classes. A
// gap before an activity K is host_wait if K's API call began after what ran before K had
// ended; else kernel_wait if the gap is below 30 us; else other.
//
// A step here is a time on the host, from mark to mark: only what ran within it counts, whoever
// launched it, so that busy and idle time make up the step. A gap that crosses a mark has one
// cause and is split. The whole capture is its windows; what ran on after them is in no row. Whole
// graphs count as compute.
inline constexpr int64_t kKernelWaitLimitNs = 30'000;
struct IdleRow {
  int64_t step = -1;  // -1: the whole capture.
  int64_t device = 0;
  int64_t duration_ns = 0;  // Of the step, on the host.
  int64_t busy_ns = 0;      // Union over streams.
  int64_t compute_ns = 0;   // Union of kernels that are not communication.
  int64_t communication_ns = 0;
  int64_t exposed_communication_ns = 0;  // While no compute ran.
  int64_t copy_ns = 0;
  int64_t exposed_copy_ns = 0;  // While no kernel ran.
  int64_t idle_ns = 0;          // duration - busy
  // Idle time of the device (no stream ran anything) by the cause of each gap; K is what ended it.
  int64_t host_wait_ns = 0;
  int64_t kernel_wait_ns = 0;
  int64_t other_ns = 0;  // Also before the first and after the last activity.
};
// As that tool has them: gaps of the stream by itself, over all that was recorded.
struct StreamIdleRow {
  int64_t device = 0;
  int64_t context = 0;
  int64_t stream = 0;
  int64_t activity_count = 0;
  int64_t busy_ns = 0;
  int64_t gap_count = 0;
  int64_t idle_ns = 0;  // Between its first and last activity, by cause:
  int64_t host_wait_ns = 0;
  int64_t kernel_wait_ns = 0;
  int64_t other_ns = 0;
};
struct IdleTable {
  std::vector<IdleRow> rows;  // By device, the whole first, then by step.
  std::vector<StreamIdleRow> streams;
};
absl::StatusOr<IdleTable> SummarizeIdle(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_IDLE_TABLE_H_
