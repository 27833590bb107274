// Counters are what the daemon reports of itself while it works: captures that ended, calls that
// were answered, windows of schedules that passed. Everything else is read when it is scraped.
//
// Threads: any. Errors: none.
#ifndef PROFD_DAEMON_METRICS_COUNTERS_H_
#define PROFD_DAEMON_METRICS_COUNTERS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"

namespace profd::metrics {

class Counters {
 public:
  Counters();

  // Once for each capture, in its terminal state.
  void CaptureEnded(const CaptureRecord& record);

  // Once for each call. `method` ("CreateCapture") and `reason` ("NOT_ALLOWED"; empty: none) are
  // ours, never a caller's words. `sent_bytes`: of streams.
  void CallEnded(std::string_view method, absl::StatusCode code, std::string_view reason,
                 absl::Duration took, int64_t sent_bytes);

  // Once for each row of a schedule's history. `outcome` is ours: "captured", "missed".
  void WindowEnded(std::string_view outcome);

  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  prometheus::Registry registry_;  // Before what is made in it.
  prometheus::Family<prometheus::Counter>& captures_;
  prometheus::Family<prometheus::Counter>& dropped_events_;
  prometheus::Histogram& capture_duration_;
  prometheus::Counter& events_;
  prometheus::Counter& file_bytes_;
  prometheus::Family<prometheus::Histogram>& call_duration_;
  prometheus::Family<prometheus::Counter>& calls_;
  prometheus::Family<prometheus::Counter>& sent_bytes_;
  prometheus::Family<prometheus::Counter>& windows_;
};

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_COUNTERS_H_
