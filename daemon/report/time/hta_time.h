// The figures of a time report as Holistic Trace Analysis 0.6.1 makes them from a trace file, for
// those who compare with what they know: temporal breakdown, idle time by stream, overlap, types of
// kernels, launches and queue lengths. What it does otherwise than we:
//
//   window    Of two or more steps the last is left out, and all work that no call before its start
//             launched.
//   times     Whole microseconds: begins are rounded up, ends down. Work shorter than that may take
//             -1 us.
//   busy      Waits in a stream ("Stream Sync", "Stream Wait Event") keep the device busy.
//   kernels   What is no kernel of NCCL computes, but for some names ("Memcpy", "Sync", ...).
//   gaps      In a stream, from the end of the one before, even where an earlier one still ran:
//             overlaps are gaps below zero, and count as kernel wait.
//   launches  Four calls (launches) or eleven (queues), by name.
//
// Threads: one. Memory: 152 bytes per GPU row, or twice that, as vectors grow.
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

// Times as whole microseconds of the trace's clock, in ns since the capture's start.
class HtaRounding {
 public:
  explicit HtaRounding(const CaptureRecord& record);
  int64_t Up(int64_t time_ns) const;
  int64_t Down(int64_t time_ns) const;

 private:
  int64_t Past(int64_t time_ns) const;  // The last whole microsecond, 0..999.

  bool rounds_;  // A trace in whole microseconds needs none.
  int64_t phase_ns_;
};

class HtaWindow {
 public:
  explicit HtaWindow(const store::CaptureReader& reader);
  // Whether work that this call launched counts; nullptr: none is known.
  bool Holds(const GpuAttribution::Call* call) const;
  bool drops_last_step() const { return drops_last_step_; }

 private:
  const HtaRounding rounding_;
  bool drops_last_step_ = false;
  int64_t last_step_start_ns_ = std::numeric_limits<int64_t>::max();
};

// Fills `whole`, `overlap`, `streams`, `kernel_types`, `launches` and `queues` of the device at
// `device` in work.devices(); `work` holds nothing but what the window does.
absl::Status FillAsHta(store::CaptureReader& reader, const GpuAttribution& attribution,
                       const HtaWindow& window, const DeviceWork& work, size_t device,
                       TimeReport& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_HTA_TIME_H_
