// WindowMetrics tells what the last window that a schedule recorded of each live target showed: how
// busy its GPUs were, which operators took the time.
//
// Threads:   any.
// Ownership: the store must outlive it.
// Cost:      the catalog is asked only by the scrape after the end of a capture, or after a
//            target that came or went.
#ifndef PROFD_DAEMON_METRICS_WINDOW_METRICS_H_
#define PROFD_DAEMON_METRICS_WINDOW_METRICS_H_

#include <prometheus/metric_family.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/metrics/gpu_places.h"
#include "daemon/metrics/target_labels.h"
#include "daemon/store/capture_store.h"

namespace profd::metrics {

class WindowMetrics {
 public:
  struct Options {
    int64_t operators = 10;  // Of each target, on the CPU and on GPUs; 0: none.
    // Older windows are not shown: they say little of what runs now.
    absl::Duration oldest = absl::Hours(24);
    std::filesystem::path gpus_folder = kNvidiaGpusFolder;
  };
  WindowMetrics(Options options, store::CaptureStore& store, Clock& clock);

  // There may be a new window.
  void CaptureEnded() { stale_.store(true, std::memory_order_release); }

  std::vector<prometheus::MetricFamily> Collect(const ShownTargets& shown);

 private:
  // What a window's process is known by.
  struct Process {
    int64_t pid = 0;
    int64_t start_ticks = 0;
    friend bool operator==(const Process&, const Process&) = default;
    friend bool operator<(const Process& a, const Process& b) {
      return std::tie(a.pid, a.start_ticks) < std::tie(b.pid, b.start_ticks);
    }
  };
  static Process ProcessOf(const TargetInfo& target) {
    return {target.pid, target.process_start_ticks};
  }
  absl::Status Refresh(const ShownTargets& shown) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddOperators(const ShownTarget& shown, const store::CaptureSummaries& summaries, bool on_gpu,
                    prometheus::MetricFamily& family) const;

  const Options options_;
  store::CaptureStore& store_;
  Clock& clock_;
  std::atomic<bool> stale_{true};

  absl::Mutex mu_;
  std::set<Process> known_ ABSL_GUARDED_BY(mu_);  // When last looked.
  std::map<Process, store::SummarizedCapture> windows_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_WINDOW_METRICS_H_
