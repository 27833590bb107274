// From which length on a step is an outlier: one bound for the table of steps and for the finding
// STEP_OUTLIER. The finding does not count all steps above it (findings/outliers.h).
//
// Threads: any.
#ifndef PROFD_DAEMON_REPORT_INDEX_STEP_OUTLIERS_H_
#define PROFD_DAEMON_REPORT_INDEX_STEP_OUTLIERS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/median.h"

namespace profd::report {

inline constexpr size_t kFewestStepsForOutliers = 5;
// Median absolute deviations above the median.
inline constexpr double kOutlierDeviations = 5;
// Of the median. Smaller excesses are not "much longer", however steady the other steps are.
inline constexpr double kLeastOutlierExcess = 0.25;

struct OutlierBound {
  int64_t median_ns = 0;
  double bound_ns = 0;  // Longer steps are outliers.
};
// nullopt: too few steps to tell.
inline std::optional<OutlierBound> BoundOfOutliers(std::vector<int64_t> durations_ns,
                                                   double deviations = kOutlierDeviations) {
  if (durations_ns.size() < kFewestStepsForOutliers) return std::nullopt;
  OutlierBound bound;
  bound.median_ns = Median(durations_ns);
  for (int64_t& duration_ns : durations_ns) duration_ns = std::abs(duration_ns - bound.median_ns);
  const auto median_ns = static_cast<double>(bound.median_ns);
  bound.bound_ns = median_ns + std::max(deviations * static_cast<double>(Median(durations_ns)),
                                        kLeastOutlierExcess * median_ns);
  return bound;
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STEP_OUTLIERS_H_
