#include "daemon/report/ops/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "daemon/report/index/overlaps.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

OpTable TableOf(store::CaptureReader& reader, const OpOptions& options = {}) {
  absl::StatusOr<OpTable> table = SummarizeOps(reader, options);
  EXPECT_THAT(table, IsOk());
  return table.ok() ? *std::move(table) : OpTable();
}

// name -> (calls, self, total)
using TimeSums = std::map<std::string, std::tuple<int64_t, int64_t, int64_t>>;
TimeSums SumsOf(const OpTable& table) {
  TimeSums sums;
  for (const OpRow& row : table.rows) {
    const bool inserted =
        sums.emplace(row.name, std::tuple(row.calls, row.self_cpu_ns, row.cpu_total_ns)).second;
    EXPECT_TRUE(inserted) << "two rows for " << row.name;
  }
  return sums;
}

std::vector<std::string> NamesOf(const OpTable& table) {
  std::vector<std::string> names;
  for (const OpRow& row : table.rows) names.push_back(row.name);
  return names;
}

TEST(OpTableTest, SelfIsTotalLessTheDirectChildrenOnly) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.Range(main, "step", 0, 100)
      .Range(main, "forward", 10, 60)
      .Range(main, "matmul", 20, 50)
      .Range(main, "optimizer", 70, 90);
  const OpTable table = TableOf(reader);
  EXPECT_EQ(SumsOf(table), (TimeSums{{"step", {1, 30, 100}},
                                     {"forward", {1, 20, 50}},
                                     {"matmul", {1, 30, 30}},
                                     {"optimizer", {1, 20, 20}}}));
  EXPECT_EQ(table.self_cpu_total_ns, 100);
  EXPECT_EQ(table.row_count, 4);
}

TEST(OpTableTest, ARecursiveRangeWithOtherChildrenCountsAtEveryLevel) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.Range(main, "f", 0, 100)
      .Range(main, "f", 10, 60)
      .Range(main, "f", 20, 30)
      .Range(main, "f", 40, 50)
      .Range(main, "g", 70, 90);
  EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"f", {4, 80, 170}}, {"g", {1, 20, 20}}}));
}

TEST(OpTableTest, AnOperatorThatRedispatchesToItselfCountsOnce) {
  for (const size_t rows : {1, 2, 100}) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(1, "main");
    const uint32_t other = reader.AddThread(2, "other");
    reader.BatchRows(rows)
        .Range(main, "backward", 0, 200)
        .Range(main, "aten::sum", 0, 100)
        .Range(other, "aten::sum", 1, 2)
        .Range(main, "aten::sum", 10, 90)
        .Range(main, "aten::sum", 20, 80)
        .Range(main, "aten::fill_", 30, 40)
        .Range(main, "aten::copy_", 50, 60)
        .Range(main, "aten::sum", 100, 140)
        .Range(main, "aten::sum", 150, 160);
    const OpTable table = TableOf(reader);
    EXPECT_EQ(SumsOf(table), (TimeSums{{"backward", {1, 50, 200}},
                                       {"aten::sum", {4, 80 + 1 + 40 + 10, 100 + 1 + 40 + 10}},
                                       {"aten::fill_", {1, 10, 10}},
                                       {"aten::copy_", {1, 10, 10}}}));
    for (const OpRow& row : table.rows) {
      if (row.name != "aten::sum") continue;
      EXPECT_EQ(row.max_ns, 100);
    }
  }
}

TEST(OpTableTest, ARangeBelowADroppedOneOfItsNameIsACallOfItsOwn) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.mutable_record().drops[static_cast<size_t>(DropReason::kNoChunk)] = 2;
  // The parent of the first "f" was dropped, and what was between the other two.
  reader.Range(main, "f", 0, 10, {.depth = 1})
      .Range(main, "f", 20, 30, {.depth = 0})
      .Range(main, "f", 40, 90, {.depth = 0})
      .Range(main, "f", 50, 80, {.depth = 2});
  EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"f", {4, 70, 100}}}));
}

// As profd.annotate() around an await records: the open range of the other task counts in the depth
// of what follows, and is itself on a lane.
TEST(OpTableTest, RangesThatFollowOneOfALaneAreNotInsideOfEachOther) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  const uint32_t lane = reader.AddThread((1 << 30) | 3, "overlapping ranges of 1");
  reader.Range(main, "decode", 0, 10, {.depth = 2})
      .Range(main, "decode", 20, 30, {.depth = 1})
      .Range(main, "decode", 40, 50, {.depth = 0})
      .Range(lane, "request", 0, 60);
  EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"request", {1, 30, 60}}, {"decode", {3, 30, 30}}}));
}

class OpTableOverlapTest : public testing::Test {
 protected:
  // An instant belongs to what began last.
  //   main    step 0 ............................................. 100
  //   main                     decode 40 .. 50
  //   loader  load 0 ............................................. 100
  //   lane 1       request 10 .......... 60
  //   lane 2              request 20 ................ 80
  OpTableOverlapTest() {
    reader_.BatchRows(2)
        .Range(main_, "decode", 40, 50, {.depth = 3})
        .Range(main_, "step", 0, 100, {.depth = 0})
        .Range(lane_, "request", 10, 60)
        .Range(other_lane_, "request", 20, 80)
        .Range(loader_, "load", 0, 100);
  }
  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  const uint32_t loader_ = reader_.AddThread(2, "loader");
  const uint32_t lane_ = reader_.AddThread((1 << 30) | 3, "overlapping ranges of 1");
  const uint32_t other_lane_ = reader_.AddThread((1 << 30) | 4, "overlapping ranges of 1");
};

TEST_F(OpTableOverlapTest, SelfTimesOfAThreadAddUpToTheTimeThatItsRangesCover) {
  const OpTable table = TableOf(reader_);
  EXPECT_EQ(SumsOf(table), (TimeSums{{"step", {1, 10 + 20, 100}},
                                     {"request", {2, 10 + (60 - 10), 50 + 60}},
                                     {"decode", {1, 10, 10}},
                                     {"load", {1, 100, 100}}}));
  EXPECT_EQ(table.self_cpu_total_ns, 2 * 100);
  for (const OpRow& row : table.rows) {
    EXPECT_EQ(row.overlapping_calls, row.name == "request" ? 2 : 0) << row.name;
  }
}

TEST_F(OpTableOverlapTest, OfOneStepTheyAreTheSame) {
  reader_.Step(7, 0, 30).Step(8, 30, 70);
  EXPECT_EQ(SumsOf(TableOf(reader_, {.step = 8})), (TimeSums{{"decode", {1, 10, 10}}}));
  const OpTable of_first = TableOf(reader_, {.step = 7});
  EXPECT_EQ(SumsOf(of_first),
            (TimeSums{{"step", {1, 30, 100}}, {"request", {2, 60, 110}}, {"load", {1, 100, 100}}}));
}

// Those of the four ranges of the thread and its lanes count, not of the other thread.
TEST_F(OpTableOverlapTest, TooManyRangesAreNotSharedOut) {
  for (const bool fits : {true, false}) {
    const auto times = OverlapSelfTimes::Build(reader_, {}, fits ? 4 : 3);
    ASSERT_THAT(times, IsOk());
    EXPECT_EQ(times->Has(main_), fits);
    EXPECT_EQ(times->is_too_much(), !fits);
    EXPECT_EQ(times->empty(), !fits);
  }
}

TEST_F(OpTableOverlapTest, ALaneOfAnUnknownThreadIsLeftToItself) {
  for (const char* name : {"", "overlapping ranges of ", "overlapping ranges of 1x",
                           "overlapping ranges of -1", "overlapping ranges of 99999999999"}) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(1, "main");
    reader.Range(main, "a", 0, 10).Range(reader.AddThread((1 << 30) | 3, name), "b", 0, 20);
    EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"a", {1, 10, 10}}, {"b", {1, 20, 20}}})) << name;
  }
}

TEST(OpTableTest, ThreadsDoNotSubtractFromEachOther) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  const uint32_t loader = reader.AddThread(2, "loader");
  reader.BatchRows(1)
      .Range(main, "step", 0, 100)
      .Range(loader, "load", 10, 60)
      .Range(loader, "read", 20, 30)
      .Range(main, "compute", 40, 90);
  EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"step", {1, 50, 100}},
                                               {"compute", {1, 50, 50}},
                                               {"load", {1, 40, 50}},
                                               {"read", {1, 10, 10}}}));
}

TEST(OpTableTest, BatchesDoNotCutATree) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.BatchRows(2).Range(main, "root", 0, 1000);
  for (int64_t i = 0; i < 9; ++i) {
    reader.Range(main, "child", 100 * i, 100 * i + 60).Range(main, "leaf", 100 * i, 100 * i + 20);
  }
  EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"root", {1, 1000 - 9 * 60, 1000}},
                                               {"child", {9, 9 * 40, 9 * 60}},
                                               {"leaf", {9, 9 * 20, 9 * 20}}}));
}

TEST(OpTableTest, DecodesOnlyWhatItNeeds) {
  FakeCaptureReader reader;
  reader.Range(reader.AddThread(1, "main"), "a", 0, 1).Step(0, 0, 10);
  TableOf(reader);
  TableOf(reader, {.by_step = true});
  const uint32_t base = kRangeDuration | kRangeName | kRangeDepth;
  EXPECT_THAT(reader.range_readings(), ElementsAre(base, base | kRangeStart));
}

TEST(OpTableTest, OpenAndTruncatedRangesCount) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.Range(main, "epoch", -50, 100, {.flags = 3}).Range(main, "step", 0, 100, {.flags = 1});
  EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"epoch", {1, 50, 150}}, {"step", {1, 100, 100}}}));
}

TEST(OpTableTest, ARangeThatBeganBeforeTheWindowCountsFromItsBegin) {
  for (const size_t rows : {1, 100}) {
    FakeCaptureReader reader;
    reader.BatchRows(rows);
    const uint32_t main = reader.AddThread(1, "main");
    reader.Range(main, "epoch", -1000, 90)
        .Range(main, "step", -500, 40)
        .Range(main, "mm", 10, 30)
        .Range(main, "step", 50, 80)
        .Range(main, "between", 100, 120);  // Of no window.
    CaptureRecord& record = reader.mutable_record();
    record.windows = {{.start_ns = 0, .end_ns = 95}};
    record.truncated_range_count = 2;
    EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"epoch", {1, 20, 90}},
                                                 {"step", {2, 50, 70}},
                                                 {"mm", {1, 20, 20}},
                                                 {"between", {1, 20, 20}}}))
        << rows;
  }
}

TEST(OpTableTest, StepsOfTorchsProfilerAreOneRow) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.Range(main, "ProfilerStep#7", 0, 100)
      .Range(main, "mm", 10, 60)
      .Range(main, "ProfilerStep#8", 100, 180)
      .Range(main, "ProfilerSteps", 200, 210);
  EXPECT_EQ(SumsOf(TableOf(reader)), (TimeSums{{"ProfilerStep*", {2, 130, 180}},
                                               {"mm", {1, 50, 50}},
                                               {"ProfilerSteps", {1, 10, 10}}}));
}

TEST(OpTableTest, ChildrenOfADroppedRangeFallToTheRangeAroundIt) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.mutable_record().drops[static_cast<size_t>(DropReason::kNoChunk)] = 2;
  // "forward" (depth 1) around the leaves was dropped, and so was a whole branch at depth 0
  // around "orphan".
  reader.Range(main, "orphan", 0, 40, {.depth = 2})
      .Range(main, "step", 100, 200, {.depth = 0})
      .Range(main, "leaf", 110, 130, {.depth = 2})
      .Range(main, "leaf", 140, 150, {.depth = 2})
      .Range(main, "step", 300, 400, {.depth = 0})
      .Range(main, "leaf", 310, 320, {.depth = 1});
  EXPECT_EQ(SumsOf(TableOf(reader)),
            (TimeSums{{"orphan", {1, 40, 40}}, {"step", {2, 160, 200}}, {"leaf", {3, 40, 40}}}));
}

TEST(OpTableTest, ARangeWithVeryManyChildrenKeepsItsSelfTimeDespiteDrops) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.mutable_record().drops[static_cast<size_t>(DropReason::kNoChunk)] = 1;
  constexpr int64_t kChildren = 50'000;
  reader.Range(main, "root", 0, kChildren * 10);
  for (int64_t i = 0; i < kChildren; ++i) reader.Range(main, "child", i * 10, i * 10 + 7);
  EXPECT_EQ(SumsOf(TableOf(reader)),
            (TimeSums{{"root", {1, kChildren * 3, kChildren * 10}},
                      {"child", {kChildren, kChildren * 7, kChildren * 7}}}));
}

TEST(OpTableTest, NamesThatReadTheSameShareARow) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  reader.RangeById(main, reader.SecondName("a"), 0, 10)
      .RangeById(main, reader.SecondName("a"), 20, 50);
  EXPECT_THAT(TableOf(reader).rows,
              ElementsAre(AllOf(Field(&OpRow::name, "a"), Field(&OpRow::calls, 2),
                                Field(&OpRow::min_ns, 10), Field(&OpRow::max_ns, 30),
                                Field(&OpRow::step, -1))));
  reader.Step(7, 0, 100);
  EXPECT_THAT(TableOf(reader, {.by_step = true}).rows,
              ElementsAre(AllOf(Field(&OpRow::name, "a"), Field(&OpRow::calls, 2),
                                Field(&OpRow::step, 7))));
}

TEST(OpTableTest, NamesAreKeptAsRecorded) {
  FakeCaptureReader reader;
  const std::string hostile("\"\\\n\x01\xff\0x", 7);
  reader.Range(reader.AddThread(1, "main"), hostile, 0, 10);
  EXPECT_THAT(NamesOf(TableOf(reader)), ElementsAre(hostile));
}

class OpTableSortTest : public testing::Test {
 protected:
  OpTableSortTest() {
    const uint32_t main = reader_.AddThread(1, "main");
    // total: outer 100, often 3 x 20, once 30; self: often 60, once 30, outer 10
    reader_.Range(main, "outer", 0, 100).Range(main, "often", 0, 20).Range(main, "often", 20, 40);
    reader_.Range(main, "often", 40, 60).Range(main, "once", 60, 90);
  }
  std::vector<std::string> SortedBy(OpSort sort) {
    return NamesOf(TableOf(reader_, {.sort = sort}));
  }
  FakeCaptureReader reader_;
};

TEST_F(OpTableSortTest, EverySortPutsItsLargestFirst) {
  EXPECT_THAT(SortedBy(OpSort::kSelfCpu), ElementsAre("often", "once", "outer"));
  EXPECT_THAT(SortedBy(OpSort::kCpuTotal), ElementsAre("outer", "often", "once"));
  EXPECT_THAT(SortedBy(OpSort::kCalls), ElementsAre("often", "once", "outer"));
  EXPECT_THAT(SortedBy(OpSort::kAverage), ElementsAre("outer", "once", "often"));
  EXPECT_THAT(SortedBy(OpSort::kMax), ElementsAre("outer", "once", "often"));
  EXPECT_THAT(SortedBy(OpSort::kName), ElementsAre("often", "once", "outer"));
}

TEST_F(OpTableSortTest, TheTotalAndTheCountAreOfAllRowsDespiteTheLimit) {
  const OpTable table = TableOf(reader_, {.limit = 1});
  EXPECT_THAT(NamesOf(table), ElementsAre("often"));
  EXPECT_EQ(table.row_count, 3);
  EXPECT_EQ(table.self_cpu_total_ns, 100);
}

TEST_F(OpTableSortTest, ANegativeLimitIsRefused) {
  EXPECT_THAT(SummarizeOps(reader_, {.limit = -1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("limit")));
}

TEST(OpSortTest, EveryNameReadsBack) {
  for (const OpSort sort : {OpSort::kSelfCpu, OpSort::kCpuTotal, OpSort::kCalls, OpSort::kAverage,
                            OpSort::kMax, OpSort::kName}) {
    EXPECT_EQ(OpSortFromString(ToString(sort)), sort);
  }
  EXPECT_EQ(OpSortFromString("nonsense"), std::nullopt);
}

class OpTableStepTest : public testing::Test {
 protected:
  OpTableStepTest() {
    const uint32_t main = reader_.AddThread(1, "main");
    reader_.Step(10, 0, 100).Step(11, 100, 100);
    reader_.BatchRows(2)
        .Range(main, "before", -20, -10)
        .Range(main, "a", 0, 50)
        .Range(main, "straddles", 90, 120)
        .Range(main, "inner", 100, 110)
        .Range(main, "a", 150, 170)
        .Range(main, "after", 200, 210);
  }
  FakeCaptureReader reader_;
};

TEST_F(OpTableStepTest, ByStepARangeBelongsToTheStepItBeganIn) {
  const OpTable table = TableOf(reader_, {.sort = OpSort::kName, .by_step = true});
  std::vector<std::tuple<std::string, int64_t, int64_t>> rows;  // name, step, self
  for (const OpRow& row : table.rows) rows.emplace_back(row.name, row.step, row.self_cpu_ns);
  EXPECT_THAT(rows, ElementsAre(std::tuple("a", 10, 50), std::tuple("a", 11, 20),
                                std::tuple("after", -1, 10), std::tuple("before", -1, 10),
                                std::tuple("inner", 11, 10), std::tuple("straddles", 10, 20)));
}

TEST_F(OpTableStepTest, OneStepHasOnlyTheRangesThatBeganInItWithTheirWholeSelfTime) {
  EXPECT_EQ(SumsOf(TableOf(reader_, {.step = 10})),
            (TimeSums{{"a", {1, 50, 50}}, {"straddles", {1, 20, 30}}}));
  EXPECT_EQ(SumsOf(TableOf(reader_, {.step = 11})),
            (TimeSums{{"a", {1, 20, 20}}, {"inner", {1, 10, 10}}}));
}

TEST_F(OpTableStepTest, OneStepByStepNamesItInEveryRow) {
  const OpTable table = TableOf(reader_, {.by_step = true, .step = 11});
  EXPECT_THAT(table.rows,
              UnorderedElementsAre(AllOf(Field(&OpRow::name, "a"), Field(&OpRow::step, 11)),
                                   AllOf(Field(&OpRow::name, "inner"), Field(&OpRow::step, 11))));
}

TEST_F(OpTableStepTest, AStepThatIsNotThereIsRefusedByNamingThoseThatAre) {
  EXPECT_THAT(SummarizeOps(reader_, {.step = 12}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("step 12"), HasSubstr("10, 11"))));
  FakeCaptureReader by_time;
  EXPECT_THAT(SummarizeOps(by_time, {.step = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("taken by time")));
}

TEST(OpTableTest, AnEmptyCaptureHasNoRows) {
  FakeCaptureReader reader;
  const OpTable table = TableOf(reader);
  EXPECT_THAT(table.rows, IsEmpty());
  EXPECT_EQ(table.self_cpu_total_ns, 0);
}

TEST(OpTableTest, AReadersErrorIsTheReportsError) {
  FakeCaptureReader reader;
  reader.Range(reader.AddThread(1, "main"), "a", 0, 1)
      .FailAfter(0, absl::DataLossError("bad chunk"));
  EXPECT_THAT(SummarizeOps(reader, {}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(OpTableTest, DurationsOfAHostileFileDoNotOverflow) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 4; ++i) reader.Range(main, "a", 0, kHuge, {.depth = 3});
  EXPECT_EQ(TableOf(reader).rows.at(0).calls, 4);
}

}  // namespace
}  // namespace profd::report
