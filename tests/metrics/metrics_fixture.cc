#include "tests/metrics/metrics_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace profd::metrics {
namespace {

std::vector<const prometheus::ClientMetric*> Find(
    const std::vector<prometheus::MetricFamily>& families, std::string_view name,
    const LabelMap& labels, prometheus::MetricType* type = nullptr) {
  std::vector<const prometheus::ClientMetric*> found;
  for (const prometheus::MetricFamily& family : families) {
    if (family.name != name) continue;
    if (type != nullptr) *type = family.type;
    for (const prometheus::ClientMetric& metric : family.metric) {
      const bool has_all = std::ranges::all_of(labels, [&](const auto& label) {
        return std::ranges::count(metric.label,
                                  prometheus::ClientMetric::Label{label.first, label.second}) == 1;
      });
      if (has_all) found.push_back(&metric);
    }
  }
  return found;
}

}  // namespace

std::optional<double> ValueOf(const std::vector<prometheus::MetricFamily>& families,
                              std::string_view name, const LabelMap& labels) {
  prometheus::MetricType type = prometheus::MetricType::Untyped;
  const auto found = Find(families, name, labels, &type);
  EXPECT_LE(found.size(), 1U) << name << " is not told apart";
  if (found.empty()) return std::nullopt;
  return type == prometheus::MetricType::Counter ? found[0]->counter.value : found[0]->gauge.value;
}

int CountOf(const std::vector<prometheus::MetricFamily>& families, std::string_view name,
            const LabelMap& labels) {
  return static_cast<int>(Find(families, name, labels).size());
}

}  // namespace profd::metrics
