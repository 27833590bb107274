// Reports over captures with more memory events than budgets allow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "daemon/base/budget.h"
#include "daemon/report/catalog_summaries.h"
#include "daemon/report/findings/quality.h"
#include "daemon/report/ops/memory.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/store/file/forwarding_reader.h"
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

// A capture whose every look takes more memory than a summary may have.
class GreedyReader final : public store::ForwardingReader {
 public:
  explicit GreedyReader(store::CaptureReader& reader) : ForwardingReader(reader) {}
  absl::Status Scan(RowKind /*kind*/, uint32_t /*columns*/, const store::TimeFilter& /*filter*/,
                    absl::FunctionRef<absl::Status(const EventBatch&)> /*fn*/) override {
    if (ScopedHeapLimit::Current() == nullptr) return absl::OkStatus();
    const std::vector<char> taken(kSummaryHeapBytes + 1);
    return ScopedHeapLimit::Current()->Check();
  }
};

TEST(SealBudgetTest, ChecksAndSummariesThatTakeTooMuchMemoryAreRefused) {
  if (!HeapIsCounted()) GTEST_SKIP() << "a sanitizer allocates: heap budgets are not checked";
  GeneratedMemoryReader generated({.allocations = 10, .has_range = true});
  GreedyReader reader(generated);
  const store::EventSummaries made = SummarizeForCatalog(reader, {.devices = true, .ranks = true});
  EXPECT_TRUE(IsOverBudget(made.ops.status())) << made.ops.status();
  EXPECT_TRUE(IsOverBudget(made.devices.status())) << made.devices.status();
  EXPECT_TRUE(IsOverBudget(made.ranks.status())) << made.ranks.status();
  const absl::Status checks = CheckEventsForSeal(reader).status();
  EXPECT_TRUE(IsOverBudget(checks)) << checks;
  EXPECT_THAT(checks.message(), HasSubstr("the quality check needs more than 128 MiB"));
}

}  // namespace
}  // namespace profd::report
