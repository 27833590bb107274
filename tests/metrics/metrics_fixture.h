// What the tests of metrics share: samples found by name and labels, and an HTTP client that says
// exactly what it is told to.
#ifndef PROFD_TESTS_METRICS_METRICS_FIXTURE_H_
#define PROFD_TESTS_METRICS_METRICS_FIXTURE_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "daemon/metrics/target_labels.h"

namespace profd::metrics {

using LabelMap = std::map<std::string, std::string>;

// The sample of `name` that has at least `labels`; nullopt if there is none. Several are a failure.
std::optional<double> ValueOf(const std::vector<prometheus::MetricFamily>& families,
                              std::string_view name, const LabelMap& labels = {});
// How many samples of `name` have at least `labels`.
int CountOf(const std::vector<prometheus::MetricFamily>& families, std::string_view name,
            const LabelMap& labels = {});

// A connection to 127.0.0.1.
UniqueFd ConnectTo(uint16_t port);
void Send(int fd, std::string_view text);
// All that comes until the other side closes.
std::string ReadAll(int fd);
// The whole answer to one request on a connection of its own.
std::string Ask(uint16_t port, std::string_view request);
std::string Get(uint16_t port, std::string_view path);

}  // namespace profd::metrics

#endif  // PROFD_TESTS_METRICS_METRICS_FIXTURE_H_
