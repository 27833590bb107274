#include "daemon/report/index/merge_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace profd::report {
namespace {

using Row = std::pair<int64_t, size_t>;  // A time, and where it stood.

bool IsBefore(const Row& a, const Row& b) { return a.first < b.first; }

// `runs` ordered runs of `length` rows over the same stretch of time, with many equal times.
std::vector<Row> Runs(size_t runs, size_t length) {
  std::mt19937 random(7);
  std::vector<Row> rows;
  for (size_t run = 0; run < runs; ++run) {
    int64_t time = -20;
    for (size_t i = 0; i < length; ++i) {
      time += static_cast<int64_t>(random() % 3);
      rows.emplace_back(time, rows.size());
    }
  }
  return rows;
}

void ExpectAsStableSort(std::vector<Row> rows) {
  std::vector<Row> expected = rows;
  std::stable_sort(expected.begin(), expected.end(), IsBefore);
  MergeRuns(rows, IsBefore);
  EXPECT_EQ(rows, expected);
}

TEST(MergeRunsTest, SortsAsStableSortDoesHoweverManyRunsThereAre) {
  for (const size_t runs : {1, 2, 3, 4, 5, 8, 17, 45}) {
    for (const size_t length : {1, 2, 30, 300}) {
      SCOPED_TRACE(testing::Message() << runs << " runs of " << length);
      ExpectAsStableSort(Runs(runs, length));
    }
  }
}

TEST(MergeRunsTest, SortsWhatHasNoRuns) {
  std::vector<Row> rows = Runs(1, 1000);
  std::reverse(rows.begin(), rows.end());
  ExpectAsStableSort(rows);
  std::shuffle(rows.begin(), rows.end(), std::mt19937(7));
  ExpectAsStableSort(rows);
  ExpectAsStableSort({});
}

TEST(MergeRunsTest, RowsOfOneTimeKeepTheirOrder) {
  std::vector<Row> rows = {{3, 0}, {4, 1}, {1, 2}, {2, 3}, {2, 4}};
  MergeRuns(rows, IsBefore);
  EXPECT_THAT(rows, testing::ElementsAre(Row(1, 2), Row(2, 3), Row(2, 4), Row(3, 0), Row(4, 1)));
}

TEST(MergeRunsTest, RoomGrowsByTwiceAtLeast) {
  std::vector<int> rows(100);
  rows.shrink_to_fit();
  ReserveMore(rows, 1);
  EXPECT_GE(rows.capacity(), 200u);
  const size_t capacity = rows.capacity();
  ReserveMore(rows, 10);
  EXPECT_EQ(rows.capacity(), capacity);
  ReserveMore(rows, 1000);
  EXPECT_GE(rows.capacity(), 1100u);
}

}  // namespace
}  // namespace profd::report
