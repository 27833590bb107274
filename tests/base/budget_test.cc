#include "daemon/base/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "daemon/base/reason.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::HasSubstr;

TEST(BudgetTest, WhatIsOverItIsNamedWithBothNumbers) {
  const absl::Status status = OverBudget("the list of steps", 17, 16, "steps");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(IsOverBudget(status));
  EXPECT_EQ(LeftOut(status), "left out: the list of steps needs 17 steps, the budget is 16 steps");
  EXPECT_FALSE(IsOverBudget(absl::ResourceExhaustedError("the disk is full")));
  EXPECT_FALSE(IsOverBudget(absl::OkStatus()));
}

TEST(BudgetTest, AHeapLimitCountsWhatItsThreadHolds) {
  if (!HeapIsCounted()) GTEST_SKIP() << "SKIP: a sanitizer allocates, heap limits are not checked";
  const HeapLimit limit("the test", 1 << 20);
  EXPECT_THAT(limit.Check(), IsOk());
  auto block = std::make_unique<std::vector<char>>((1 << 20) + 1);
  EXPECT_TRUE(IsOverBudget(limit.Check()));
  EXPECT_THAT(limit.Check().message(), HasSubstr("the test needs more than 1 MiB"));
  block.reset();
  EXPECT_THAT(limit.Check(), IsOk()) << "what was freed does not count";
}

TEST(BudgetTest, TheInnermostScopedLimitCounts) {
  EXPECT_EQ(ScopedHeapLimit::Current(), nullptr);
  const ScopedHeapLimit outer("outer", 1 << 20);
  const HeapLimit* const of_outer = ScopedHeapLimit::Current();
  {
    const ScopedHeapLimit inner("inner", 1 << 10);
    EXPECT_NE(ScopedHeapLimit::Current(), of_outer);
  }
  EXPECT_EQ(ScopedHeapLimit::Current(), of_outer);
}

TEST(BudgetTest, AlignedMemoryIsCounted) {
  if (!HeapIsCounted()) GTEST_SKIP() << "SKIP: a sanitizer allocates, heap limits are not checked";
  struct alignas(256) Wide {
    char bytes[4096];
  };
  const int64_t before = ThreadHeapBytes();
  auto wide = std::make_unique<Wide>();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(wide.get()) % 256, 0u);
  EXPECT_GE(ThreadHeapBytes() - before, 4096);
  wide.reset();
  EXPECT_EQ(ThreadHeapBytes(), before);
}

}  // namespace
}  // namespace profd
