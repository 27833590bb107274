// MergeRuns sorts rows that consist of a few sorted runs, as profilers deliver their buffers. It
// moves rows only where runs overlap.
//
// Memory: the overlap of two runs, and 8 bytes per run; that of std::stable_sort if runs are short.
#ifndef PROFD_DAEMON_REPORT_INDEX_MERGE_RUNS_H_
#define PROFD_DAEMON_REPORT_INDEX_MERGE_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace profd::report {

// Sorts like std::stable_sort.
template <typename T, typename Less>
void MergeRuns(std::vector<T>& rows, Less is_before) {
  constexpr size_t kLeastRowsPerRun = 16;
  using Iterator = typename std::vector<T>::iterator;
  std::vector<Iterator> bounds = {rows.begin()};
  while (bounds.back() != rows.end()) {
    if (bounds.size() > 16 && bounds.size() * kLeastRowsPerRun > rows.size()) {
      return std::stable_sort(rows.begin(), rows.end(), is_before);
    }
    bounds.push_back(std::is_sorted_until(bounds.back(), rows.end(), is_before));
  }
  while (bounds.size() > 2) {
    std::vector<Iterator> merged = {rows.begin()};
    for (size_t i = 1; i + 1 < bounds.size(); i += 2) {
      const Iterator middle = bounds[i];
      const Iterator first = std::upper_bound(bounds[i - 1], middle, *middle, is_before);
      const Iterator last = std::lower_bound(middle, bounds[i + 1], *(middle - 1), is_before);
      std::inplace_merge(first, middle, last, is_before);
      merged.push_back(bounds[i + 1]);
    }
    if (merged.back() != rows.end()) merged.push_back(rows.end());
    bounds = std::move(merged);
  }
}

// Reserves room for `more` rows; the capacity at least doubles if it grows.
template <typename T>
void ReserveMore(std::vector<T>& rows, size_t more) {
  const size_t needed = rows.size() + more;
  if (needed > rows.capacity()) rows.reserve(std::max(needed, 2 * rows.capacity()));
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_MERGE_RUNS_H_
