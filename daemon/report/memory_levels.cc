#include "daemon/report/memory_levels.h"

#include <algorithm>
#include <utility>

namespace profd::report {
namespace {

int64_t WrappingSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

void MemoryLevels::Add(MemoryPoint point) {
  last_ = point;
  if (bucketed_) {
    AddToBucket(point);
    return;
  }
  points_.push_back(point);
  if (max_points_ > 0 && points_.size() > max_points_) StartBuckets();
}

void MemoryLevels::Shift(int64_t bytes) {
  const auto shift = [bytes](MemoryPoint& point) {
    point.allocated_bytes = WrappingSum(point.allocated_bytes, bytes);
  };
  for (MemoryPoint& point : points_) shift(point);
  for (Bucket& bucket : buckets_) {
    shift(bucket.lowest);
    shift(bucket.highest);
  }
  shift(last_);
}

std::vector<MemoryPoint> MemoryLevels::Take() {
  if (!bucketed_) return std::move(points_);
  std::vector<MemoryPoint> points = {points_.front()};
  const auto append = [&](const MemoryPoint& point) {
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

void MemoryLevels::StartBuckets() {
  bucketed_ = true;
  const std::vector<MemoryPoint> all = std::move(points_);
  points_ = {all.front()};
  for (size_t i = 1; i < all.size(); ++i) AddToBucket(all[i]);
}

void MemoryLevels::AddToBucket(MemoryPoint point) {
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

void MemoryLevels::DoubleWidth() {
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

}  // namespace profd::report
