// Collectives by what issued them: kernels without a call that says what they are, and batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/report/ranks/collectives.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::SizeIs;
using enum CollectiveKind;

// As torch 2 gives them, of one group of eight ranks.
std::string ScalarsOf(std::string_view name) {
  return StrCat(R"(["","1","","3",")", name, R"(","[]","[]","0","1","8"])");
}

class IssuedCollectivesTest : public testing::Test {
 protected:
  CollectiveTable Table() {
    absl::StatusOr<CollectiveTable> table = SummarizeCollectives(reader_, 0);
    EXPECT_THAT(table, IsOk());
    return *std::move(table);
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
};

// A trace without operators, or of which the launch is not recorded.
TEST_F(IssuedCollectivesTest, WithoutANoteTheKernelTellsTheCollective) {
  reader_.Kernel("gemm", 10, 20, 1).Kernel("ncclDevKernel_SendRecv(x)", 50, 90, 2);
  reader_.Range(main_, "nccl:all_reduce", 100, 110)
      .ApiCall(main_, "cudaLaunchKernel", 102, 105, 3)
      .Kernel("ncclDevKernel_Generic_4(x)", 120, 160, 3);
  const auto argument = [&](uint32_t row, std::string_view key, ArgumentType type, int64_t value) {
    reader_.Argument({.of = kArgumentOfGpu,
                      .of_thread = 0,
                      .row = row,
                      .key = reader_.Name(key),
                      .type = type,
                      .value = value});
  };
  for (const uint32_t row : {1U, 2U}) {
    argument(row, "Collective name", ArgumentType::kJson, reader_.Name(R"("all_to_allv")"));
    argument(row, "dtype", ArgumentType::kJson, reader_.Name(R"("BFloat16")"));
    argument(row, "In msg nelems", ArgumentType::kInteger, 1000);
    argument(row, "Group size", ArgumentType::kQuotedInteger, 8);
    argument(row, "Process Group Name", ArgumentType::kQuotedInteger, 11);
    argument(row, "Process Group Description", ArgumentType::kJson, reader_.Name(R"("TP")"));
  }
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.rows[0].kind, kAllToAll);
  EXPECT_EQ(table.rows[1].kind, kAllReduce);  // As its range says.
  for (const CollectiveRow& row : table.rows) {
    EXPECT_EQ(row.elements, 1000);
    EXPECT_EQ(row.bytes, 2000);
    EXPECT_EQ(table.communicators[row.communicator],
              (Communicator{.size = 8, .id = "11", .name = "TP"}));
  }
}

// What is between groupStart and groupEnd is issued first and launched with the end.
class CollectiveBatchTest : public IssuedCollectivesTest {
 protected:
  void Issue(std::string_view name, std::string_view dims, bool launches = false) {
    const int64_t at = 100 * ++count_;
    reader_.Operator(main_, "record_param_comms", at, at + 50,
                     {.inputs = dims.empty() ? 0 : reader_.Inputs(dims, R"(["float",""])"),
                      .scalars = reader_.Scalars(ScalarsOf(name))});
    if (!launches) return;
    reader_.ApiCall(main_, "cudaLaunchKernel", at + 10, at + 20, static_cast<uint32_t>(count_))
        .Kernel("ncclDevKernel_SendRecv(x)", at + 30, at + 90, static_cast<uint32_t>(count_));
  }

  int64_t count_ = 0;
};

TEST_F(CollectiveBatchTest, OfSendsAndReceivesIsOneOnTheDevice) {
  reader_.Step(0, 0, 1000).StepThread(main_);
  Issue("send", "[[100],[]]");
  Issue("recv", "[[60],[]]");
  Issue("send", "[[20],[]]");
  Issue("coalesced", "", /*launches=*/true);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].kind, kSend);
  EXPECT_TRUE(table.rows[0].on_device);
  EXPECT_EQ(table.rows[0].elements, 120);
  EXPECT_EQ(table.rows[0].bytes, 480);
  EXPECT_TRUE(table.exposed_on_host.empty());
}

TEST_F(CollectiveBatchTest, OfOneKindHasTheSizeOfAll) {
  Issue("_allgather_base", "[[100],[]]");
  Issue("_allgather_base", "[[50],[]]");
  Issue("allgather_into_tensor_coalesced", "", /*launches=*/true);
  const CollectiveTable table = Table();
  ASSERT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.rows[0].kind, kAllGather);
  EXPECT_EQ(table.rows[0].bytes, 600);
}

TEST_F(CollectiveBatchTest, APartThatMakesTheConnectionBlocksTheHost) {
  constexpr int64_t kMs = 1'000'000;
  reader_.Step(0, 0, 10 * kMs).StepThread(main_);
  reader_
      .Operator(main_, "record_param_comms", kMs, 4 * kMs,
                {.scalars = reader_.Scalars(ScalarsOf("send"))})
      .Operator(main_, "record_param_comms", 5 * kMs, 6 * kMs,
                {.scalars = reader_.Scalars(ScalarsOf("coalesced"))})
      .ApiCall(main_, "cudaLaunchKernel", 5 * kMs, 5 * kMs + 10, 1)
      .Kernel("ncclDevKernel_SendRecv(x)", 6 * kMs, 7 * kMs, 1);
  const CollectiveTable table = Table();
  EXPECT_THAT(table.rows, SizeIs(1));
  EXPECT_EQ(table.exposed_on_host.total_ns(), 3U * kMs);
}

TEST_F(CollectiveBatchTest, HasNothingThatLaunchedItself) {
  Issue("allreduce", "[[100],[]]", /*launches=*/true);
  Issue("send", "[[100],[]]");
  Issue("coalesced", "", /*launches=*/true);
  EXPECT_THAT(Table().rows, SizeIs(2));
}

}  // namespace
}  // namespace profd::report
