// MemoryLevels collects the points of one device's curve and, where their number is
// limited, thins them as they come: each bucket of time keeps its lowest and its highest
// point, and the first and last point of all stay. Buckets grow by doubling, so that
// neither the number of points nor the span of time has to be known before.
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

// INVALID_ARGUMENT: neither 0 nor at least 4.
absl::Status ValidateMaxPoints(int64_t max_points);

template <typename Point>
class BasicMemoryLevels {
 public:
  // `max_points` is 0 (no limit) or >= 4.
  explicit BasicMemoryLevels(int64_t max_points) : max_points_(static_cast<size_t>(max_points)) {}

  // Times never go back.
  void Add(const Point& point);
  // Adds `bytes` to every point so far; of a sample to its lowest layer, too.
  void Shift(int64_t bytes);
  // The points, by time; at most `max_points`. Call once, last.
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
  std::vector<Point> points_;  // Until there are too many; then the first only.
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
