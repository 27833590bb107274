// The figures of a time report as Holistic Trace Analysis 0.6.1 computes them from a trace file,
// for comparison: temporal breakdown, idle time by stream, overlap, types of kernels, launches, and
// queue lengths. Its differences from our own figures:
//
//   window    If there are two or more steps, the last is left out, and all work that no call
//             before its start launched.
//   times     Whole microseconds: begins are rounded up, ends down. Shorter work may take -1 us.
//   busy      Waits in a stream ("Stream Sync", "Stream Wait Event") keep the device busy.
//   kernels   Everything except NCCL kernels and some names ("Memcpy", "Sync", ...) is compute.
//   gaps      In a stream, a gap starts at the end of the previous work, even if earlier work still
//             runs: overlaps are negative gaps, and count as kernel wait.
//   launches  Four calls (launches) or eleven (queues), by name.
//
// Threads: one. Memory: 152 bytes per GPU row, up to twice that as vectors grow.
#ifndef PROFD_DAEMON_REPORT_TIME_HTA_TIME_H_
#define PROFD_DAEMON_REPORT_TIME_HTA_TIME_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/time/time_report.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Rounds times to whole microseconds of the trace's clock, in ns since the capture's start.
class HtaRounding {
 public:
  explicit HtaRounding(const CaptureRecord& record);
  int64_t Up(int64_t time_ns) const;
  int64_t Down(int64_t time_ns) const;

 private:
  int64_t Past(int64_t time_ns) const;  // The last whole microsecond, 0..999.

  bool rounds_;  // False for a trace in whole microseconds.
  int64_t phase_ns_;
};

class HtaWindow {
 public:
  explicit HtaWindow(const store::CaptureReader& reader);
  // Returns whether work that this call launched counts; nullptr: unknown call.
  bool Holds(const GpuAttribution::Call* call) const;
  bool drops_last_step() const { return drops_last_step_; }

 private:
  const HtaRounding rounding_;
  bool drops_last_step_ = false;
  int64_t last_step_start_ns_ = std::numeric_limits<int64_t>::max();
};

// Fills `whole`, `overlap`, `streams`, `kernel_types`, `launches` and `queues` of the device at
// `device` in work.devices(); `work` contains only the work of the window.
absl::Status FillAsHta(store::CaptureReader& reader, const GpuAttribution& attribution,
                       const HtaWindow& window, const DeviceWork& work, size_t device,
                       TimeReport& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_HTA_TIME_H_
