#include "daemon/report/index/interval_set.h"

#include <algorithm>

#include "daemon/report/index/wrapping_math.h"

namespace profd::report {

void IntervalSet::Add(int64_t start_ns, int64_t end_ns) {
  if (end_ns <= start_ns) return;
  if (!intervals_.empty() && start_ns <= intervals_.back().end_ns) {
    intervals_.back().end_ns = std::max(intervals_.back().end_ns, end_ns);
    return;
  }
  intervals_.push_back({start_ns, end_ns, total_ns()});
}

uint64_t IntervalSet::total_ns() const {
  if (intervals_.empty()) return 0;
  const Interval& last = intervals_.back();
  return last.before_ns + Distance(last.start_ns, last.end_ns);
}

uint64_t IntervalSet::MeasureBefore(int64_t time_ns) const {
  const auto after =
      std::upper_bound(intervals_.begin(), intervals_.end(), time_ns,
                       [](int64_t time, const Interval& at) { return time < at.start_ns; });
  if (after == intervals_.begin()) return 0;
  const Interval& at = *std::prev(after);
  return at.before_ns + Distance(at.start_ns, std::min(time_ns, at.end_ns));
}

uint64_t IntervalSet::MeasureIn(int64_t begin_ns, int64_t end_ns) const {
  if (end_ns <= begin_ns) return 0;
  // Each interval carries the sum of those before it, so this takes two binary searches.
  return MeasureBefore(end_ns) - MeasureBefore(begin_ns);
}

}  // namespace profd::report
