// Medians and percentiles. Each function reorders `values`, a container of numbers, and returns 0
// if it is empty.
#ifndef PROFD_DAEMON_BASE_MEDIAN_H_
#define PROFD_DAEMON_BASE_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <ranges>

namespace profd {

// The percentile by nearest rank: a value that occurs. `percent` is 1 to 100.
template <std::ranges::random_access_range Values>
auto Percentile(Values&& values, int percent) -> std::ranges::range_value_t<Values> {
  const auto count = static_cast<size_t>(std::ranges::size(values));
  if (count == 0) return 0;
  const size_t rank = (count * static_cast<size_t>(percent) + 99) / 100;
  const auto at = std::ranges::begin(values) + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(std::ranges::begin(values), at, std::ranges::end(values));
  return *at;
}

// Of an even number of values, the mean of the middle two; of integers, rounded down.
template <std::ranges::random_access_range Values>
auto Median(Values&& values) -> std::ranges::range_value_t<Values> {
  const auto begin = std::ranges::begin(values);
  const auto count = std::ranges::ssize(values);
  if (count == 0) return 0;
  const auto middle = begin + count / 2;
  std::nth_element(begin, middle, std::ranges::end(values));
  if (count % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(begin, middle), *middle);
}

// The same of integers, not rounded.
template <std::ranges::random_access_range Values>
double ExactMedian(Values&& values) {
  const auto begin = std::ranges::begin(values);
  const auto count = std::ranges::ssize(values);
  if (count == 0) return 0;
  const auto middle = begin + count / 2;
  std::nth_element(begin, middle, std::ranges::end(values));
  const auto high = static_cast<double>(*middle);
  if (count % 2 == 1) return high;
  return std::midpoint(static_cast<double>(*std::max_element(begin, middle)), high);
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_MEDIAN_H_
