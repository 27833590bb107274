// How targets and GPUs are named in metrics: by dcgm-exporter's names for labels, so that series of
// both join, and never by what grows without bound. README.md has the list.
//
// What a target says of itself is cleaned and cut: nothing it says can break the text or make
// labels longer than kMaxLabelBytes.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_METRICS_TARGET_LABELS_H_
#define PROFD_DAEMON_METRICS_TARGET_LABELS_H_

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/capture/capture_types.h"

namespace profd::metrics {

inline constexpr size_t kMaxLabelBytes = 128;
// A node has a few ranks; a crowd of toy processes must not become a crowd of series.
inline constexpr size_t kMaxShownTargets = 256;

using Labels = std::vector<prometheus::ClientMetric::Label>;

struct ShownTarget {
  TargetInfo target;
  Labels labels;
};

struct ShownTargets {
  std::vector<ShownTarget> targets;  // No two with the same labels.
  size_t left_out = 0;               // Beyond kMaxShownTargets: the oldest registered.
};

// Of processes with the same labels the newest registration is shown.
ShownTargets ShowTargets(std::vector<TargetInfo> targets, std::string_view node_name);

// `text` as a label's value.
std::string LabelValue(std::string_view untrusted);

// One family, and samples in it.
prometheus::MetricFamily Family(std::string name, std::string help, prometheus::MetricType type);
void AddGauge(prometheus::MetricFamily& family, Labels labels, double value);
void AddCounter(prometheus::MetricFamily& family, Labels labels, double value);

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_TARGET_LABELS_H_
