// Reports over captures with more memory events than budgets allow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/budget.h"
#include "daemon/report/ops/memory.h"
#include "daemon/report/ops/op_table.h"
#include "tests/fakes/generated_memory_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::HasSubstr;

TEST(OpMemoryBudgetTest, EventsOfAThreadWithoutRangesAreNotKept) {
  GeneratedMemoryReader reader({.allocations = 2 * kMaxOperatorMemoryEvents});
  const int64_t before = ThreadHeapBytes();
  OpMemory memory;
  EXPECT_THAT(memory.Read(reader), IsOk());
  EXPECT_FALSE(memory.empty());
  if (!HeapIsCounted()) return;
  EXPECT_LT(ThreadHeapBytes() - before, 16 << 20);
}

TEST(OpMemoryBudgetTest, AsManyEventsAsTheBudgetAreCountedExactly) {
  GeneratedMemoryReader reader({.allocations = kMaxOperatorMemoryEvents, .has_range = true});
  const absl::StatusOr<OpTable> table = SummarizeOps(reader, {});
  ASSERT_THAT(table, IsOk());
  EXPECT_TRUE(table->has_memory);
  ASSERT_EQ(table->rows.size(), 1u);
  EXPECT_EQ(table->rows[0].cpu_memory_bytes, 64 * kMaxOperatorMemoryEvents);
}

TEST(OpMemoryBudgetTest, MoreEventsInRangesThanTheBudgetAreRefusedByNumber) {
  GeneratedMemoryReader reader({.allocations = kMaxOperatorMemoryEvents + 5, .has_range = true});
  OpMemory memory;
  const absl::Status status = memory.Read(reader);
  EXPECT_TRUE(IsOverBudget(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("needs 2097157 memory events, the budget is 2097152"));
}

TEST(OpMemoryBudgetTest, FreesWithoutASizeNeedTheirBlocksAndTheseHaveABudget) {
  GeneratedMemoryReader within(
      {.allocations = kMaxTrackedBlocks, .has_range = true, .frees_last_without_size = true});
  const absl::StatusOr<OpTable> table = SummarizeOps(within, {});
  ASSERT_THAT(table, IsOk());
  ASSERT_EQ(table->rows.size(), 1u);
  EXPECT_EQ(table->rows[0].cpu_memory_bytes, 64 * (kMaxTrackedBlocks - 1));

  GeneratedMemoryReader beyond(
      {.allocations = kMaxTrackedBlocks + 1, .has_range = true, .frees_last_without_size = true});
  OpMemory memory;
  EXPECT_TRUE(IsOverBudget(memory.Read(beyond)));
}

}  // namespace
}  // namespace profd::report
