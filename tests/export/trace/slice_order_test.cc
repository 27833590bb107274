#include "daemon/export/trace/slice_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::ElementsAre;

// "+a@5" begins, "-@7" ends; one list per thread, batches marked by "|".
using Edges = std::map<uint32_t, std::vector<std::string>>;

absl::StatusOr<Edges> EdgesOf(FakeCaptureReader& reader) {
  SliceOrder order;
  const absl::Status learnt = reader.ForEach<RangeRow>(
      SliceOrder::kColumns, {}, [&](const RangeBatch& batch) { return order.Learn(batch); });
  if (!learnt.ok()) return learnt;
  Edges edges;
  const absl::Status ordered =
      reader.ForEach<RangeRow>(SliceOrder::kColumns, {}, [&](const RangeBatch& batch) {
        std::vector<std::string>& out = edges[batch.thread];
        for (const SliceEdge& edge : order.Order(batch)) {
          out.push_back(edge.is_begin ? StrCat("+", reader.names()[edge.name], "@", edge.time_ns)
                                      : StrCat("-@", edge.time_ns));
        }
        return absl::OkStatus();
      });
  if (!ordered.ok()) return ordered;
  return edges;
}

class SliceOrderTest : public testing::TestWithParam<size_t> {
 protected:
  SliceOrderTest() : main_(reader_.AddThread(1, "main")) { reader_.BatchRows(GetParam()); }
  std::vector<std::string> MainEdges() {
    absl::StatusOr<Edges> edges = EdgesOf(reader_);
    EXPECT_THAT(edges, IsOk());
    return edges.ok() ? (*edges)[main_] : std::vector<std::string>();
  }
  FakeCaptureReader reader_;
  const uint32_t main_;
};
INSTANTIATE_TEST_SUITE_P(BatchRows, SliceOrderTest, testing::Values(1, 2, 3, 100));

TEST_P(SliceOrderTest, RangesBecomeBeginsAndEndsByTime) {
  reader_.Range(main_, "a", 0, 100).Range(main_, "b", 10, 40).Range(main_, "c", 20, 30);
  reader_.Range(main_, "d", 50, 60).Range(main_, "e", 120, 130);
  EXPECT_THAT(MainEdges(), ElementsAre("+a@0", "+b@10", "+c@20", "-@30", "-@40", "+d@50", "-@60",
                                       "-@100", "+e@120", "-@130"));
}

TEST_P(SliceOrderTest, OfEqualTimesTheEnclosingBeginsFirst) {
  reader_.Range(main_, "outer", 0, 100).Range(main_, "middle", 0, 50).Range(main_, "inner", 0, 50);
  EXPECT_THAT(MainEdges(),
              ElementsAre("+outer@0", "+middle@0", "+inner@0", "-@50", "-@50", "-@100"));
}

TEST_P(SliceOrderTest, OfEqualTimesAnEndComesBeforeTheNextBegin) {
  reader_.Range(main_, "root", 0, 30);
  reader_.Range(main_, "a", 0, 10).Range(main_, "b", 10, 20).Range(main_, "c", 20, 30);
  EXPECT_THAT(MainEdges(),
              ElementsAre("+root@0", "+a@0", "-@10", "+b@10", "-@20", "+c@20", "-@30", "-@30"));
}

TEST_P(SliceOrderTest, RangesWithoutLengthStandWhereTheirDepthSays) {
  reader_.Range(main_, "a", 0, 10, {.depth = 0})
      .Range(main_, "between", 10, 10, {.depth = 0})
      .Range(main_, "b", 10, 20, {.depth = 0});
  EXPECT_THAT(MainEdges(), ElementsAre("+a@0", "-@10", "+between@10", "-@10", "+b@10", "-@20"));
}

TEST_P(SliceOrderTest, AChildWithoutLengthAtItsParentsStartIsInside) {
  reader_.BatchRows(100);
  reader_.Range(main_, "a", 10, 20, {.depth = 0}).Range(main_, "inside", 10, 10, {.depth = 1});
  EXPECT_THAT(MainEdges(), ElementsAre("+a@10", "+inside@10", "-@10", "-@20"));
}

TEST_P(SliceOrderTest, OrphansOfDroppedRangesStandBesideTheNextOne) {
  reader_.Range(main_, "orphan", 0, 10, {.depth = 5}).Range(main_, "next", 20, 30, {.depth = 0});
  EXPECT_THAT(MainEdges(), ElementsAre("+orphan@0", "-@10", "+next@20", "-@30"));
}

TEST_P(SliceOrderTest, ThreadsAreOrderedApart) {
  const uint32_t other = reader_.AddThread(2, "other");
  reader_.Range(main_, "a", 0, 100).Range(main_, "b", 10, 20);
  reader_.Range(other, "x", 5, 50).Range(other, "y", 5, 40);
  absl::StatusOr<Edges> edges = EdgesOf(reader_);
  ASSERT_THAT(edges, IsOk());
  EXPECT_THAT((*edges)[main_], ElementsAre("+a@0", "+b@10", "-@20", "-@100"));
  EXPECT_THAT((*edges)[other], ElementsAre("+x@5", "+y@5", "-@40", "-@50"));
}

// Adds a random tree whose times collide often; what Order() must give, by recursion.
class TreeMaker {
 public:
  TreeMaker(FakeCaptureReader& reader, uint32_t thread, uint64_t seed)
      : reader_(reader), thread_(thread), random_(seed) {}

  void Make(int64_t start_ns, int64_t end_ns, int depth) {
    const std::string name = StrCat("n", count_++);
    reader_.Range(thread_, name, start_ns, end_ns, {.depth = static_cast<uint16_t>(depth)});
    edges_.push_back(StrCat("+", name, "@", start_ns));
    int64_t at = start_ns;
    while (depth < 20 && random_() % 4 != 0) {
      at += Pick(end_ns - at);
      const int64_t child_end = at + Pick(end_ns - at);
      // Two ranges without length at one place have no order that times could tell.
      if (child_end == at) break;
      Make(at, child_end, depth + 1);
      at = child_end;
    }
    edges_.push_back(StrCat("-@", end_ns));
  }
  const std::vector<std::string>& edges() const { return edges_; }

 private:
  int64_t Pick(int64_t room) {
    if (room <= 0 || random_() % 3 == 0) return 0;
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(room + 1));
  }
  FakeCaptureReader& reader_;
  const uint32_t thread_;
  std::mt19937_64 random_;
  int count_ = 0;
  std::vector<std::string> edges_;
};

TEST_P(SliceOrderTest, AnyTreeComesOutAsItWasWalked) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(1, "main");
    reader.BatchRows(GetParam());
    TreeMaker tree(reader, main, seed);
    for (int64_t i = 0; i < 5; ++i) tree.Make(i * 40, i * 40 + 40, 0);
    absl::StatusOr<Edges> edges = EdgesOf(reader);
    ASSERT_THAT(edges, IsOk());
    ASSERT_EQ((*edges)[main], tree.edges()) << "seed " << seed;
  }
}

TEST_P(SliceOrderTest, RangesThatOverlapStillGiveBalancedEdgesByTime) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100; ++round) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(1, "main");
    reader.BatchRows(GetParam());
    for (int i = 0; i < 12; ++i) {
      const auto start_ns = static_cast<int64_t>(random() % 50);
      reader.Range(main, "r", start_ns, start_ns + static_cast<int64_t>(random() % 50),
                   {.depth = static_cast<uint16_t>(random() % 3)});
    }
    SliceOrder order;
    ASSERT_THAT(
        reader.ForEach<RangeRow>(SliceOrder::kColumns, {},
                                 [&](const RangeBatch& batch) { return order.Learn(batch); }),
        IsOk());
    int open = 0;
    int begins = 0;
    int64_t last_ns = -1;
    ASSERT_THAT(reader.ForEach<RangeRow>(SliceOrder::kColumns, {},
                                         [&](const RangeBatch& batch) {
                                           for (const SliceEdge& edge : order.Order(batch)) {
                                             EXPECT_GE(edge.time_ns, last_ns);
                                             last_ns = edge.time_ns;
                                             begins += edge.is_begin ? 1 : 0;
                                             open += edge.is_begin ? 1 : -1;
                                             EXPECT_GE(open, 0);
                                           }
                                           return absl::OkStatus();
                                         }),
                IsOk());
    EXPECT_EQ(begins, 12);
    EXPECT_EQ(open, 0);
  }
}

TEST(SliceOrderLimitTest, MoreOpenRangesThanCanNestAreDamage) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.BatchRows(1000);
  for (int64_t i = 0; i < 1000; ++i) reader.Range(main, "early", i, i, {.depth = 0});
  for (int64_t i = 0; i < 1000; ++i) reader.Range(main, "late", 500, 2000 + i, {.depth = 0});
  EXPECT_THAT(EdgesOf(reader), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::exporter
