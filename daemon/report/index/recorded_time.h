// The times between the windows of a capture, of which nothing is known: they are neither busy nor
// idle.
#ifndef PROFD_DAEMON_REPORT_INDEX_RECORDED_TIME_H_
#define PROFD_DAEMON_REPORT_INDEX_RECORDED_TIME_H_

#include <algorithm>
#include <vector>

#include "daemon/capture/capture_types.h"
#include "daemon/report/index/interval_set.h"

namespace profd::report {

// Empty for a capture of one window.
inline IntervalSet HolesOf(const CaptureRecord& record) {
  std::vector<WindowRecord> windows = record.windows;
  std::ranges::sort(windows, {}, &WindowRecord::start_ns);
  IntervalSet holes;
  for (size_t i = 1; i < windows.size(); ++i) {
    holes.Add(windows[i - 1].end_ns, windows[i].start_ns);
  }
  return holes;
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_RECORDED_TIME_H_
