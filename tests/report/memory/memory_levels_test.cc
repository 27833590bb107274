#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "daemon/report/memory/levels.h"

namespace profd::report {
namespace {

int64_t Highest(const std::vector<MemoryPoint>& points) {
  int64_t highest = std::numeric_limits<int64_t>::min();
  for (const MemoryPoint& point : points) highest = std::max(highest, point.allocated_bytes);
  return highest;
}
int64_t Lowest(const std::vector<MemoryPoint>& points) {
  int64_t lowest = std::numeric_limits<int64_t>::max();
  for (const MemoryPoint& point : points) lowest = std::min(lowest, point.allocated_bytes);
  return lowest;
}
bool ByTime(const std::vector<MemoryPoint>& points) {
  return std::is_sorted(
      points.begin(), points.end(),
      [](const MemoryPoint& a, const MemoryPoint& b) { return a.time_ns < b.time_ns; });
}

class MemoryLevelsLimitTest : public testing::TestWithParam<int64_t> {};

TEST_P(MemoryLevelsLimitTest, KeepsFirstLastLowestAndHighestWithinTheLimit) {
  std::mt19937_64 random(42);
  for (const int64_t count : {1, 2, 3, 4, 5, 100, 10'000}) {
    MemoryLevels levels(GetParam());
    std::vector<MemoryPoint> all;
    int64_t time_ns = -500;
    for (int64_t i = 0; i < count; ++i) {
      time_ns += static_cast<int64_t>(random() % 3 == 0 ? random() % 1'000'000 : random() % 10);
      all.push_back({time_ns, static_cast<int64_t>(random() % 1'000'000)});
      levels.Add(all.back());
    }
    const std::vector<MemoryPoint> kept = levels.Take();
    EXPECT_LE(static_cast<int64_t>(kept.size()), GetParam());
    EXPECT_GE(static_cast<int64_t>(kept.size()), std::min<int64_t>(count, GetParam() / 8));
    EXPECT_EQ(kept.front().allocated_bytes, all.front().allocated_bytes);
    EXPECT_EQ(kept.back().allocated_bytes, all.back().allocated_bytes);
    EXPECT_EQ(kept.back().time_ns, all.back().time_ns);
    EXPECT_EQ(Highest(kept), Highest(all));
    EXPECT_EQ(Lowest(kept), Lowest(all));
    EXPECT_TRUE(ByTime(kept));
  }
}
INSTANTIATE_TEST_SUITE_P(Limits, MemoryLevelsLimitTest, testing::Values(4, 5, 6, 7, 64, 1001));

TEST(MemoryLevelsTest, AsManyPointsAsTheLimitAreKeptAsTheyAre) {
  MemoryLevels levels(4);
  for (int64_t i = 0; i < 4; ++i) levels.Add({i, i});
  EXPECT_EQ(levels.Take().size(), 4U);
}

TEST(MemoryLevelsTest, WithoutALimitEveryPointStays) {
  MemoryLevels levels(0);
  for (int64_t i = 0; i < 5000; ++i) levels.Add({i, 7});
  EXPECT_EQ(levels.Take().size(), 5000U);
}

TEST(MemoryLevelsTest, AShiftMovesAllPointsSoFarAndNoneToCome) {
  for (const int64_t limit : {0, 4}) {
    MemoryLevels levels(limit);
    for (int64_t i = 0; i < 10; ++i) levels.Add({i, 100});
    levels.Shift(1000);
    levels.Add({10, 5000});
    const std::vector<MemoryPoint> points = levels.Take();
    EXPECT_EQ(points.front().allocated_bytes, 1100);
    EXPECT_EQ(Lowest(points), 1100);
    EXPECT_EQ(points.back().allocated_bytes, 5000);
  }
}

TEST(MemoryLevelsTest, TimesAsFarApartAsNumbersAllowDoNotOverflow) {
  MemoryLevels levels(4);
  levels.Add({std::numeric_limits<int64_t>::min(), 1});
  for (int64_t i = 0; i < 8; ++i) levels.Add({std::numeric_limits<int64_t>::max() - 8 + i, i});
  EXPECT_LE(levels.Take().size(), 4U);
}

}  // namespace
}  // namespace profd::report
