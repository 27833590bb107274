#include "daemon/metrics/target_metrics.h"

#include <algorithm>
#include <cstdint>

namespace profd::metrics {
namespace {

constexpr int64_t kMarksKept = 64;  // On a status page.

// Seconds; 0: not known.
double StepSeconds(const TargetInfo& target, const TargetPort& targets) {
  const int64_t first = std::max<int64_t>(0, target.current_step - kMarksKept);
  const int64_t median_ns = targets.MedianStepNs(target.number, first, target.current_step);
  if (median_ns > 0) return static_cast<double>(median_ns) / 1e9;
  return target.steps_per_second > 0 ? 1 / target.steps_per_second : 0;
}

}  // namespace

std::vector<prometheus::MetricFamily> TargetMetrics(const ShownTargets& shown,
                                                    const TargetPort& targets) {
  using prometheus::MetricType;
  prometheus::MetricFamily step_time =
      Family("profd_target_step_seconds", "Median length of a target's last steps, up to 64",
             MetricType::Gauge);
  prometheus::MetricFamily steps = Family(
      "profd_target_steps_total",
      "Steps of a target's present source of steps; begins anew when a better source takes over",
      MetricType::Counter);
  prometheus::MetricFamily drops =
      Family("profd_target_dropped_events_total",
             "Events that a target could not record, over all captures", MetricType::Counter);
  for (const ShownTarget& row : shown.targets) {
    AddCounter(drops, row.labels, static_cast<double>(row.target.dropped_event_count));
    if (row.target.step_mark_count == 0) continue;
    AddCounter(steps, row.labels, static_cast<double>(row.target.step_mark_count));
    const double seconds = StepSeconds(row.target, targets);
    if (seconds > 0) AddGauge(step_time, row.labels, seconds);
  }
  return {std::move(step_time), std::move(steps), std::move(drops)};
}

}  // namespace profd::metrics
