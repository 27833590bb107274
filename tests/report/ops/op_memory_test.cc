// The memory columns of the operator table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "daemon/report/ops/op_table.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

// name -> (self, total)
using ByteSums = std::map<std::string, std::pair<int64_t, int64_t>>;

class OpMemoryTest : public testing::Test {
 protected:
  OpMemoryTest() : main_(reader_.AddThread(1, "main")), other_(reader_.AddThread(2, "")) {}

  OpTable Table(const OpOptions& options = {}) {
    absl::StatusOr<OpTable> table = SummarizeOps(reader_, options);
    EXPECT_THAT(table, IsOk());
    return table.ok() ? *std::move(table) : OpTable();
  }
  ByteSums CpuSums(const OpOptions& options = {}) {
    ByteSums sums;
    for (const OpRow& row : Table(options).rows) {
      sums[row.name] = {row.self_cpu_memory_bytes, row.cpu_memory_bytes};
    }
    return sums;
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
  const uint32_t other_;
};

TEST_F(OpMemoryTest, ARedispatchHasItsBytesOnce) {
  for (const size_t rows : {1, 100}) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(1, "main");
    reader.BatchRows(rows)
        .Range(main, "aten::empty", 0, 100)
        .Range(main, "aten::empty", 10, 90)
        .Allocate(main, 5, 0x1, 1)
        .Allocate(main, 50, 0x2, 64);
    const OpRow row = SummarizeOps(reader, {})->rows.at(0);
    EXPECT_EQ(row.calls, 1);
    EXPECT_EQ(row.self_cpu_memory_bytes, 65);
    EXPECT_EQ(row.cpu_memory_bytes, 65);
  }
}

TEST_F(OpMemoryTest, TotalIsAllocatedLessFreedInsideAndSelfIsWithoutChildren) {
  reader_.Range(main_, "step", 0, 1000)
      .Range(main_, "linear", 100, 300)
      .Range(main_, "empty", 150, 200)
      .Range(main_, "resize", 220, 240)
      .Range(main_, "relu", 400, 500)
      .Allocate(main_, 50, 0x1, 1)     // step
      .Allocate(main_, 160, 0x2, 64)   // empty
      .Allocate(main_, 210, 0x3, 8)    // linear
      .Allocate(main_, 230, 0x4, 100)  // resize
      .Free(main_, 235, 0x4, 100)      // resize, too
      .Free(main_, 450, 0x2, 64)       // relu
      .Free(main_, 900, 0x9, 7)        // step
      .Allocate(main_, 2000, 0x5, 4);  // in none
  for (const size_t rows : {1, 2, 100}) {
    reader_.BatchRows(rows);
    EXPECT_EQ(CpuSums(), (ByteSums{{"step", {-6, 2}},
                                   {"linear", {8, 72}},
                                   {"empty", {64, 64}},
                                   {"resize", {0, 0}},
                                   {"relu", {-64, -64}}}));
  }
}

TEST_F(OpMemoryTest, ARangeHasWhatItsOwnThreadDidOnly) {
  reader_.Range(main_, "forward", 0, 100)
      .Range(other_, "backward", 0, 100)
      .Allocate(main_, 10, 0x1, 10)
      .Free(other_, 20, 0x1, 10);
  EXPECT_EQ(CpuSums(), (ByteSums{{"forward", {10, 10}}, {"backward", {-10, -10}}}));
}

TEST_F(OpMemoryTest, CallsOfOneNameAreSummed) {
  for (int64_t i = 0; i < 3; ++i) {
    reader_.Range(main_, "mm", 10 * i, 10 * i + 5)
        .Allocate(main_, 10 * i + 1, static_cast<uint64_t>(i), 16);
  }
  EXPECT_EQ(CpuSums(), (ByteSums{{"mm", {48, 48}}}));
}

TEST_F(OpMemoryTest, GpusAreAnotherColumnAndCudasOwnAllocationsAreInNone) {
  reader_.Range(main_, "mm", 0, 100)
      .Allocate(main_, 10, 0x1, 5)
      .Allocate(main_, 20, 0x2, 512, {.device_type = 1})
      .Allocate(main_, 30, 0x3, 1024, {.device_type = 1, .device_index = 3})
      .Allocate(main_, 40, 0x4, 2 << 20, {.device_type = 64})
      .Allocate(main_, 50, 0x5, 2 << 20, {.device_type = 65});
  const OpTable table = Table();
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_TRUE(table.has_memory);
  EXPECT_EQ(table.rows[0].cpu_memory_bytes, 5);
  EXPECT_EQ(table.rows[0].device_memory_bytes, 1536);
  EXPECT_EQ(table.rows[0].self_device_memory_bytes, 1536);
}

TEST_F(OpMemoryTest, AFreeThatDoesNotSayTakesTheBlocksSize) {
  reader_.Range(main_, "make", 0, 10)
      .Range(other_, "drop", 20, 30)
      .Allocate(main_, 5, 0x1, 40)
      .Free(other_, 25, 0x1, 0);
  EXPECT_EQ(CpuSums(), (ByteSums{{"make", {40, 40}}, {"drop", {-40, -40}}}));
}

TEST_F(OpMemoryTest, ByStepMemoryBelongsToTheStepItsRangeBeganIn) {
  reader_.Step(1, 0, 100).Step(2, 100, 100);
  reader_.Range(main_, "mm", 50, 60)
      .Range(main_, "mm", 150, 160)
      .Range(main_, "quiet", 170, 180)
      .Allocate(main_, 55, 0x1, 3)
      .Allocate(main_, 155, 0x2, 4);
  std::map<std::pair<std::string, int64_t>, int64_t> bytes;
  for (const OpRow& row : Table({.by_step = true}).rows) {
    bytes[{row.name, row.step}] = row.cpu_memory_bytes;
  }
  EXPECT_EQ(bytes, (std::map<std::pair<std::string, int64_t>, int64_t>{
                       {{"mm", 1}, 3}, {{"mm", 2}, 4}, {{"quiet", 2}, 0}}));
  EXPECT_EQ(CpuSums({.step = 2}), (ByteSums{{"mm", {4, 4}}, {"quiet", {0, 0}}}));
}

TEST_F(OpMemoryTest, ACaptureWithoutAllocatorsEventsHasNoMemory) {
  reader_.Range(main_, "mm", 0, 100);
  EXPECT_FALSE(Table().has_memory);
}

TEST_F(OpMemoryTest, BytesOfAHostileFileDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  reader_.Range(main_, "a", 0, 100).Range(main_, "b", 10, 90);
  for (int64_t i = 0; i < 5; ++i) {
    reader_.Allocate(main_, 20 + i, static_cast<uint64_t>(i), kHuge)
        .Free(main_, 40 + i, 0xF0, std::numeric_limits<int64_t>::min());
  }
  EXPECT_EQ(Table().rows.size(), 2U);
}

}  // namespace
}  // namespace profd::report
