// The figures of a time report as Holistic Trace Analysis 0.6.1 computes them from a trace file, so
// that its answers can be compared to the microsecond: temporal breakdown, idle time by stream,
// overlap, types of kernels, launches, and queue lengths. Its differences from our own figures:
//
//   window    If there are two or more steps, the last is left out, and all work that no call
//             before its start launched.
//   times     Whole microseconds: begins are rounded up, ends down. Shorter work may take -1 us.
//   busy      Waits in a stream ("Stream Sync", "Stream Wait Event") keep the device busy.
//   kernels   Everything except NCCL kernels and some names ("Memcpy", "Sync", ...) is compute.
//   gaps      In a stream, a gap starts at the end of the previous work, even if earlier work still
//             runs: overlaps are negative gaps, and count as kernel wait.
//   launches  Four calls (launches) or eleven (queues), by name.
#ifndef PROFD_TESTS_REPORT_TIME_HTA_TIME_H_
#define PROFD_TESTS_REPORT_TIME_HTA_TIME_H_

#include "absl/status/statusor.h"
#include "daemon/report/time/time_report.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Of the device that works most. Fills `whole`, `overlap`, `streams`, `kernel_types`, `launches`,
// and `queues`; NOT_FOUND without work of a GPU.
absl::StatusOr<TimeReport> SummarizeAsHta(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_TESTS_REPORT_TIME_HTA_TIME_H_
