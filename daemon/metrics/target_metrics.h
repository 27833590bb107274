// What every target's status page tells, with no capture: how long its steps take.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_METRICS_TARGET_METRICS_H_
#define PROFD_DAEMON_METRICS_TARGET_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "daemon/capture/ports.h"
#include "daemon/metrics/target_labels.h"

namespace profd::metrics {

std::vector<prometheus::MetricFamily> TargetMetrics(const ShownTargets& shown,
                                                    const TargetPort& targets);

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_TARGET_METRICS_H_
