// Medians and percentiles.
#ifndef PROFD_DAEMON_REPORT_INDEX_MEDIAN_H_
#define PROFD_DAEMON_REPORT_INDEX_MEDIAN_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace profd::report {

// Each function reorders `values`.

// Returns the median of integers; of an even number, the mean of the middle two, rounded down.
// 0 if `values` is empty.
inline int64_t Median(std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

// Returns the median; of an even number, the mean of the middle two. 0 if `values` is empty.
inline double Median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

// Returns the percentile by nearest rank; `percent` in (0, 100]. 0 if `values` is empty.
inline double Percentile(std::vector<double>& values, double percent) {
  if (values.empty()) return 0;
  const auto rank =
      static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_MEDIAN_H_
