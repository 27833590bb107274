// Calls of the host that are recorded longer than they can have lasted are counted and named, and
// no figure is made of their recorded times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "daemon/report/gpu/sync_table.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/ops/op_table.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::HasSubstr;

class ImpossibleCallsTest : public FindingsFixture {
 protected:
  static constexpr int64_t kSecond = 1'000'000'000;

  // Operators of 1 ms with a kernel each; the one numbered `odd` calls `call` for `call_ns`.
  void Operators(int count, int odd, std::string_view call, int64_t call_ns) {
    Steps(count / 5);
    for (int i = 0; i < count; ++i) {
      const int64_t at = i * 2 * kMs;
      reader_.Range(main_, "aten::add", at, at + kMs);
      if (i == odd) reader_.ApiCall(main_, call, at + 10 * kUs, at + 10 * kUs + call_ns, 500);
      Launch({.start_ns = at + 900 * kUs, .kernel_ns = 500 * kUs, .op = ""});
    }
  }
  QualityCheck Check() {
    for (const QualityCheck& check : Report().quality.checks) {
      if (check.name == "impossible_times") return check;
    }
    ADD_FAILURE();
    return {};
  }
};

TEST_F(ImpossibleCallsTest, ACallEndsAtTheLatestWhenItsThreadDoesTheNextThing) {
  Operators(40, 7, "cudaMalloc", 4 * kSecond);
  const QualityCheck check = Check();
  EXPECT_EQ(check.value, 1);
  EXPECT_EQ(check.grade, 'C');
  EXPECT_THAT(check.sentence, HasSubstr("1 of 41"));
  EXPECT_THAT(check.sentence, HasSubstr("cudaMalloc: 4 s recorded, at most 690 us possible"));
  const auto ops = SummarizeOps(reader_, {});
  ASSERT_THAT(ops, IsOk());
  const auto row = std::ranges::find(ops->rows, "cudaMalloc", &OpRow::name);
  ASSERT_NE(row, ops->rows.end());
  EXPECT_EQ(row->cpu_total_ns, 690 * kUs);
}

TEST_F(ImpossibleCallsTest, ARangeThatBeginsInACallTellsItsEnd) {
  Steps(2);
  reader_.ApiCall(main_, "cudaMalloc", kMs, 4 * kSecond, 500);
  reader_.Range(main_, "aten::mul", 3 * kMs, 4 * kMs);
  EXPECT_EQ(Check().value, 1);
  EXPECT_THAT(Check().sentence, HasSubstr("at most 2 ms possible"));
}

// A range that began before the window has the window's begin.
TEST_F(ImpossibleCallsTest, ARangeThatBeganBeforeTheWindowTellsNothing) {
  Steps(8);
  reader_.ApiCall(main_, "cudaMalloc", -40 * kMs, 40 * kMs, 500);
  reader_.Range(main_, "aten::mul", 0, 50 * kMs, {.flags = kRangeTruncated});
  EXPECT_FALSE(Check().failed());
}

TEST_F(ImpossibleCallsTest, ARecordOfAWaitEndsWithItsCall) {
  Operators(40, 7, "cudaDeviceSynchronize", 4 * kSecond);
  reader_.Sync(kStreamSync, 7 * 2 * kMs + 20 * kUs, 4 * kSecond, 500);
  const auto syncs = SummarizeSyncs(reader_);
  ASSERT_THAT(syncs, IsOk());
  ASSERT_EQ(syncs->rows.size(), 1u);
  EXPECT_EQ(syncs->rows[0].total_ns, 680 * kUs);
}

TEST_F(ImpossibleCallsTest, ThreeLaterCallsOfTheSameApiTellTheEnd) {
  Steps(2);
  reader_.ApiCall(main_, "cudaMalloc", kMs, 4 * kSecond, 500);
  for (int i = 0; i < 3; ++i) {
    Launch({.start_ns = (3 + i) * kMs, .kernel_ns = 100 * kUs, .lead_ns = 0, .op = ""});
  }
  EXPECT_EQ(Check().value, 1);
  EXPECT_THAT(Check().sentence, HasSubstr("at most 2 ms possible"));
}

// A call of the runtime makes calls of the driver, and HIP's make others of HIP.
TEST_F(ImpossibleCallsTest, CallsThatACallMakesItselfDoNotShortenIt) {
  Steps(8);
  reader_.ApiCall(main_, "cudaFree", kMs, 41 * kMs, 500);
  reader_.ApiCall(main_, "hipFree", 42 * kMs, 79 * kMs, 501);
  for (int i = 0; i < 8; ++i) {
    reader_.ApiCall(main_, "cuModuleLoadData", (2 + i) * kMs, (2 + i) * kMs + 900 * kUs, 600 + i,
                    {.is_driver = true});
    reader_.ApiCall(main_, "hipModuleLoadData", (43 + i) * kMs, (43 + i) * kMs + 900 * kUs,
                    700 + i);
  }
  EXPECT_FALSE(Check().failed());
}

TEST_F(ImpossibleCallsTest, LongCallsOfOtherThreadsAreBelieved) {
  Healthy(8);
  const uint32_t other = reader_.AddThread(2, "loader");
  reader_.ApiCall(other, "cudaStreamSynchronize", 0, 79 * kMs, 500);
  EXPECT_FALSE(Check().failed());
}

// What began in the last 10 ms of a call may be an error of its clock.
TEST_F(ImpossibleCallsTest, CallsThatEndALittleLateAreBelieved) {
  Operators(40, 7, "cudaMalloc", 11 * kMs);
  EXPECT_FALSE(Check().failed());
}

TEST_F(ImpossibleCallsTest, TheErrorOfTheGpusClockIsTolerated) {
  Operators(40, 7, "cudaMalloc", 25 * kMs);
  EXPECT_TRUE(Check().failed());
  reader_.mutable_record().gpu.clock_error_ns = 20 * kMs;
  EXPECT_FALSE(Check().failed());
}

}  // namespace
}  // namespace profd::report
