// What the tests of metrics share: samples found by name and labels.
#ifndef PROFD_TESTS_METRICS_METRICS_FIXTURE_H_
#define PROFD_TESTS_METRICS_METRICS_FIXTURE_H_

#include <prometheus/metric_family.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/metrics/target_labels.h"

namespace profd::metrics {

using LabelMap = std::map<std::string, std::string>;

// The sample of `name` that has at least `labels`; nullopt if there is none. Several are a failure.
std::optional<double> ValueOf(const std::vector<prometheus::MetricFamily>& families,
                              std::string_view name, const LabelMap& labels = {});
// How many samples of `name` have at least `labels`.
int CountOf(const std::vector<prometheus::MetricFamily>& families, std::string_view name,
            const LabelMap& labels = {});

}  // namespace profd::metrics

#endif  // PROFD_TESTS_METRICS_METRICS_FIXTURE_H_
