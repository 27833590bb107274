// The middle of integers.
#ifndef PROFD_DAEMON_REPORT_MEDIAN_H_
#define PROFD_DAEMON_REPORT_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace profd::report {

// Of an even number, the mean of the middle two, rounded towards the lower; 0 of none. `values` is
// reordered.
inline int64_t Median(std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEDIAN_H_
