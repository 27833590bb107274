// Busy and idle time of devices and streams, and the causes of idle time.
//
// Threads, memory, and errors: as kernel_table.h.
#ifndef PROFD_DAEMON_REPORT_GPU_IDLE_TABLE_H_
#define PROFD_DAEMON_REPORT_GPU_IDLE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Time of a device in each step, with Holistic Trace Analysis's causes of idle time. A gap before
// an activity K is host_wait if K's API call began after the work before K had ended; else
// kernel_wait if the gap is below 30 us; else other.
//
// A step here is a time on the host, from mark to mark. All work that ran within it counts, even if
// an earlier step launched it, so busy and idle time add up to the step. A gap that crosses a mark
// has one cause and is split. The whole capture consists of its windows; work after them is in no
// row. Whole graphs count as compute.
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
  // Times between two activities in which no stream ran anything, by their begin. The time before
  // the first and after the last activity is idle, but is not a gap.
  int64_t gap_count = 0;
  // Idle time of the device (no stream ran anything) by the cause of each gap.
  int64_t host_wait_ns = 0;
  int64_t kernel_wait_ns = 0;
  int64_t other_ns = 0;  // Including time before the first and after the last activity.
};
// Gaps of one stream, regardless of other streams, over the whole recording, as in that tool.
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
  // At the start of the recording, while a GPU did what was launched before it (earlier_work.h): in
  // no row, neither busy nor idle.
  int64_t unknown_ns = 0;
  std::string unread_devices;  // UnreadDevicesClause(), for notes; not in a report from elsewhere.
  std::vector<IdleRow> rows;   // By device, the whole first, then by step.
  std::vector<StreamIdleRow> streams;
};
absl::StatusOr<IdleTable> SummarizeIdle(store::CaptureReader& reader);

const table::Description<IdleRow>& IdleColumns();
const table::Description<StreamIdleRow>& StreamIdleColumns();
table::Report ToReport(const IdleTable& idle);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_IDLE_TABLE_H_
