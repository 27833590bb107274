// MemoryLevels collects the points of one device's curve. If their number is limited, it thins them
// as they come: each time bucket keeps its lowest and its highest point, and the first and last
// point of all stay. Buckets grow by doubling, so neither the number of points nor the time span
// has to be known in advance.
//
// A point is a MemoryPoint or a MemorySample.
//
// Memory: `max_points` points; with 0, all of them.
#ifndef PROFD_DAEMON_REPORT_MEMORY_LEVELS_H_
#define PROFD_DAEMON_REPORT_MEMORY_LEVELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "daemon/report/memory/memory_report.h"
#include "daemon/report/memory/timeline.h"

namespace profd::report {

// Returns INVALID_ARGUMENT for a number that is neither 0 nor at least 4.
absl::Status ValidateMaxPoints(int64_t max_points);

template <typename Point>
class BasicMemoryLevels {
 public:
  // `max_points` is 0 (no limit) or >= 4.
  explicit BasicMemoryLevels(int64_t max_points) : max_points_(static_cast<size_t>(max_points)) {}

  // Times must not decrease from call to call.
  void Add(const Point& point);
  // Adds `bytes` to every point so far; for samples, also to the lowest layer.
  void Shift(int64_t bytes);
  // Returns the points, by time; at most `max_points`. Call once, last.
  std::vector<Point> Take();

 private:
  struct Bucket {
    uint64_t number = 0;  // Time since the first point, divided by the width.
    Point lowest;
    Point highest;
  };

  void StartBuckets();
  void AddToBucket(const Point& point);
  void DoubleWidth();
  size_t MostBuckets() const { return (max_points_ - 2) / 2; }

  const size_t max_points_;
  std::vector<Point> points_;  // All points, until there are too many; then only the first.
  bool bucketed_ = false;
  uint64_t width_ns_ = 1;
  std::vector<Bucket> buckets_;  // By number; only those with points.
  Point last_;
};

using MemoryLevels = BasicMemoryLevels<MemoryPoint>;
using SampleLevels = BasicMemoryLevels<MemorySample>;
extern template class BasicMemoryLevels<MemoryPoint>;
extern template class BasicMemoryLevels<MemorySample>;

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_LEVELS_H_
