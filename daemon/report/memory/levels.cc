#include "daemon/report/memory/levels.h"

#include <algorithm>
#include <utility>

#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

void ShiftPoint(MemoryPoint& point, int64_t bytes) {
  point.allocated_bytes = Sum(point.allocated_bytes, bytes);
}
void ShiftPoint(MemorySample& sample, int64_t bytes) {
  sample.allocated_bytes = Sum(sample.allocated_bytes, bytes);
  int64_t& older = sample.layer_bytes[static_cast<size_t>(MemoryLayer::kOlder)];
  older = Sum(older, bytes);
}

}  // namespace

absl::Status ValidateMaxPoints(int64_t max_points) {
  if (max_points == 0 || max_points >= 4) return absl::OkStatus();
  return absl::InvalidArgumentError("max_points must be 0 (all points) or at least 4");
}

template <typename Point>
void BasicMemoryLevels<Point>::Add(const Point& point) {
  last_ = point;
  if (bucketed_) {
    AddToBucket(point);
    return;
  }
  points_.push_back(point);
  if (max_points_ > 0 && points_.size() > max_points_) StartBuckets();
}

template <typename Point>
void BasicMemoryLevels<Point>::Shift(int64_t bytes) {
  for (Point& point : points_) ShiftPoint(point, bytes);
  for (Bucket& bucket : buckets_) {
    ShiftPoint(bucket.lowest, bytes);
    ShiftPoint(bucket.highest, bytes);
  }
  ShiftPoint(last_, bytes);
}

template <typename Point>
std::vector<Point> BasicMemoryLevels<Point>::Take() {
  if (!bucketed_) return std::move(points_);
  std::vector<Point> points = {points_.front()};
  const auto append = [&](const Point& point) {
    const bool repeated = point.time_ns == points.back().time_ns &&
                          point.allocated_bytes == points.back().allocated_bytes;
    if (!repeated) points.push_back(point);
  };
  for (const Bucket& bucket : buckets_) {
    const bool low_first = bucket.lowest.time_ns <= bucket.highest.time_ns;
    append(low_first ? bucket.lowest : bucket.highest);
    append(low_first ? bucket.highest : bucket.lowest);
  }
  append(last_);
  return points;
}

template <typename Point>
void BasicMemoryLevels<Point>::StartBuckets() {
  bucketed_ = true;
  const std::vector<Point> all = std::move(points_);
  points_ = {all.front()};
  for (size_t i = 1; i < all.size(); ++i) AddToBucket(all[i]);
}

template <typename Point>
void BasicMemoryLevels<Point>::AddToBucket(const Point& point) {
  const uint64_t since_first = std::min(
      static_cast<uint64_t>(point.time_ns) - static_cast<uint64_t>(points_.front().time_ns),
      uint64_t{1} << 62);
  while (since_first / width_ns_ >= MostBuckets()) DoubleWidth();
  const uint64_t number = since_first / width_ns_;
  if (buckets_.empty() || buckets_.back().number != number) {
    buckets_.push_back({number, point, point});
    return;
  }
  Bucket& bucket = buckets_.back();
  if (point.allocated_bytes < bucket.lowest.allocated_bytes) bucket.lowest = point;
  if (point.allocated_bytes > bucket.highest.allocated_bytes) bucket.highest = point;
}

template <typename Point>
void BasicMemoryLevels<Point>::DoubleWidth() {
  width_ns_ *= 2;
  size_t kept = 0;
  for (const Bucket& bucket : buckets_) {
    const uint64_t number = bucket.number / 2;
    if (kept == 0 || buckets_[kept - 1].number != number) {
      buckets_[kept] = bucket;
      buckets_[kept++].number = number;
      continue;
    }
    Bucket& into = buckets_[kept - 1];
    if (bucket.lowest.allocated_bytes < into.lowest.allocated_bytes) into.lowest = bucket.lowest;
    if (bucket.highest.allocated_bytes > into.highest.allocated_bytes) {
      into.highest = bucket.highest;
    }
  }
  buckets_.resize(kept);
}

template class BasicMemoryLevels<MemoryPoint>;
template class BasicMemoryLevels<MemorySample>;

}  // namespace profd::report
