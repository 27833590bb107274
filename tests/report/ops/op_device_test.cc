// The device columns of the operator table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "daemon/report/ops/op_table.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;

// name -> (self, total, busy) on the device
using DeviceSums = std::map<std::string, std::tuple<int64_t, int64_t, int64_t>>;

class OpDeviceTest : public testing::Test {
 protected:
  OpTable Table(const OpOptions& options = {}) {
    absl::StatusOr<OpTable> table = SummarizeOps(reader_, options);
    EXPECT_THAT(table, IsOk());
    return table.ok() ? *std::move(table) : OpTable();
  }
  static DeviceSums SumsOf(const OpTable& table) {
    DeviceSums sums;
    for (const OpRow& row : table.rows) {
      sums[row.name] = {row.self_device_ns, row.device_total_ns, row.busy_device_ns};
    }
    return sums;
  }
  static const OpRow& RowOf(const OpTable& table, std::string_view name) {
    for (const OpRow& row : table.rows) {
      if (row.name == name) return row;
    }
    ADD_FAILURE() << "no row " << name;
    static const OpRow none;
    return none;
  }
  // A call at `at` that launches a kernel.
  void Launch(int64_t at, int64_t kernel_start, int64_t kernel_end, const FakeGpu& gpu = {}) {
    ++correlation_;
    reader_.ApiCall(main_, "cudaLaunchKernel", at, at + 2, correlation_)
        .Kernel("k", kernel_start, kernel_end, correlation_, gpu);
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  uint32_t correlation_ = 0;
};

TEST_F(OpDeviceTest, AKernelBelongsToTheInnermostRangeAroundItsLaunchWheneverItRan) {
  reader_.Range(main_, "step", 0, 100).Range(main_, "forward", 10, 50);
  Launch(20, 500, 530);
  Launch(60, 530, 540);
  const OpTable table = Table();
  EXPECT_EQ(SumsOf(table), (DeviceSums{{"step", {10, 40, 40}},
                                       {"forward", {30, 30, 30}},
                                       {"cudaLaunchKernel", {0, 0, 0}}}));
  EXPECT_TRUE(table.has_device);
  EXPECT_EQ(table.self_device_total_ns, 40);
  EXPECT_EQ(table.unattributed_device_ns, 0);
}

TEST_F(OpDeviceTest, StreamsThatOverlapAreSummedAndTheirUnionIsBusy) {
  reader_.Range(main_, "step", 0, 100).Range(main_, "a", 0, 20).Range(main_, "b", 20, 40);
  Launch(5, 200, 300, {.stream = 7});
  Launch(25, 250, 350, {.stream = 8});
  Launch(26, 260, 270, {.stream = 9});
  Launch(27, 400, 410, {.stream = 9});
  EXPECT_EQ(SumsOf(Table()), (DeviceSums{{"step", {0, 220, 160}},
                                         {"a", {100, 100, 100}},
                                         {"b", {120, 120, 110}},
                                         {"cudaLaunchKernel", {0, 0, 0}}}));
}

TEST_F(OpDeviceTest, DevicesAreBusySideBySide) {
  reader_.Range(main_, "step", 0, 100);
  Launch(5, 200, 300, {.device = 0});
  Launch(6, 200, 300, {.device = 1});
  Launch(7, 250, 310, {.device = 0});
  EXPECT_EQ(std::get<2>(SumsOf(Table()).at("step")), 110 + 100);
}

// An API call is a child, too.
TEST_F(OpDeviceTest, AnOperatorThatLaunchesBesideItsOwnNameDoesNotRedispatch) {
  reader_.Range(main_, "aten::copy_", 0, 100).Range(main_, "aten::copy_", 10, 90);
  Launch(20, 500, 530);
  EXPECT_EQ(RowOf(Table(), "aten::copy_").calls, 1);
  EXPECT_EQ(RowOf(Table(), "aten::copy_").self_cpu_ns, 98);
  EXPECT_EQ(RowOf(Table(), "aten::copy_").self_device_ns, 30);
  Launch(95, 530, 540);
  EXPECT_EQ(RowOf(Table(), "aten::copy_").calls, 2);
  EXPECT_EQ(RowOf(Table(), "aten::copy_").self_cpu_ns, 18 + 78);
  EXPECT_EQ(RowOf(Table(), "aten::copy_").self_device_ns, 40);
}

TEST_F(OpDeviceTest, WorkOfARecursiveRangeCountsOnce) {
  reader_.Range(main_, "f", 0, 100).Range(main_, "f", 10, 90);
  Launch(20, 200, 250);
  EXPECT_EQ(SumsOf(Table()).at("f"), std::tuple(50, 50, 50));
}

TEST_F(OpDeviceTest, ApiCallsAreChildrenOfTheRangeTheyWereMadeIn) {
  reader_.mutable_record().gpu.outcome = GpuOutcome::kRecorded;
  reader_.Range(main_, "step", 0, 100).Range(main_, "op", 10, 50);
  reader_.ApiCall(main_, "cudaLaunchKernel", 15, 25, 1)
      .ApiCall(main_, "cudaLaunchKernel", 30, 35, 2)
      .ApiCall(main_, "cudaDeviceSynchronize", 60, 90, 3)
      .ApiCall(main_, "cudaDeviceSynchronize", 200, 201, 4);  // Outside any range.
  const OpTable table = Table();
  const OpRow& step = RowOf(table, "step");
  EXPECT_EQ(step.self_cpu_ns, 100 - 40 - 30);
  EXPECT_EQ(step.cpu_total_ns, 100);
  EXPECT_EQ(RowOf(table, "op").self_cpu_ns, 40 - 15);
  const OpRow& launch = RowOf(table, "cudaLaunchKernel");
  EXPECT_EQ(launch.calls, 2);
  EXPECT_EQ(launch.self_cpu_ns, 15);
  EXPECT_EQ(launch.cpu_total_ns, 15);
  EXPECT_EQ(launch.min_ns, 5);
  EXPECT_EQ(launch.max_ns, 10);
  EXPECT_EQ(RowOf(table, "cudaDeviceSynchronize").self_cpu_ns, 31);
  EXPECT_EQ(table.self_cpu_total_ns, 101);
  EXPECT_FALSE(table.has_device);  // Nothing ran there.
}

TEST_F(OpDeviceTest, ApiCallsLeaveOtherThreadsSelfTimesAlone) {
  const uint32_t other = reader_.AddThread(2, "other");
  reader_.Range(main_, "a", 0, 100).Range(other, "b", 0, 100);
  reader_.ApiCall(other, "cudaLaunchKernel", 10, 20, 1).Kernel("k", 30, 40, 1);
  const OpTable table = Table();
  EXPECT_EQ(RowOf(table, "a").self_cpu_ns, 100);
  EXPECT_EQ(RowOf(table, "b").self_cpu_ns, 90);
}

TEST_F(OpDeviceTest, ApiCallsBelowOverlappingRangesCountOnce) {
  const uint32_t lane = reader_.AddThread((1 << 30) | 3, "overlapping ranges of 1");
  reader_.mutable_record().gpu.outcome = GpuOutcome::kRecorded;
  reader_.Range(main_, "step", 0, 100).Range(lane, "request", 10, 60);
  reader_.ApiCall(main_, "cudaLaunchKernel", 20, 25, 1)
      .ApiCall(main_, "cudaDeviceSynchronize", 50, 90, 2);
  const OpTable table = Table();
  EXPECT_EQ(RowOf(table, "step").self_cpu_ns, 10 + 10);
  EXPECT_EQ(RowOf(table, "request").self_cpu_ns, 50 - 5 - 10);
  EXPECT_EQ(RowOf(table, "cudaLaunchKernel").self_cpu_ns, 5);
  EXPECT_EQ(RowOf(table, "cudaDeviceSynchronize").self_cpu_ns, 40);
  EXPECT_EQ(table.self_cpu_total_ns, 100);
}

TEST_F(OpDeviceTest, AllNodesOfAGraphBelongToItsLaunch) {
  reader_.Range(main_, "replay", 0, 100).ApiCall(main_, "cudaGraphLaunch", 10, 20, 9);
  reader_.Kernel("a", 50, 60, 9, {.graph_id = 3, .graph_node_id = 1})
      .Kernel("b", 60, 80, 9, {.graph_id = 3, .graph_node_id = 2})
      .Memset(80, 85, 9, {.graph_id = 3, .graph_node_id = 3})
      .GraphLaunch(100, 120, 9);
  EXPECT_EQ(SumsOf(Table()).at("replay"), std::tuple(55, 55, 55));
}

TEST_F(OpDeviceTest, WorkLaunchedBeforeTheWindowIsInNoRow) {
  reader_.mutable_record().windows = {{.start_ns = 100, .end_ns = 1000}};
  reader_.Range(main_, "matmul", 50, 200);
  reader_.ApiCall(main_, "cudaLaunchKernel", 90, 95, 1).Kernel("k", 110, 150, 1);
  reader_.ApiCall(main_, "cudaLaunchKernel", 120, 125, 2).Kernel("k", 150, 160, 2);
  const OpTable table = Table();
  EXPECT_EQ(RowOf(table, "matmul").device_total_ns, 10);
  EXPECT_EQ(RowOf(table, "cudaLaunchKernel").calls, 1);
  EXPECT_EQ(table.self_device_total_ns, 10);
}

TEST_F(OpDeviceTest, OrphansAndLaunchesOutsideRangesAreUnattributed) {
  reader_.Range(main_, "op", 0, 10);
  Launch(5, 20, 30);
  Launch(50, 60, 80);
  reader_.Kernel("orphan", 0, 7, 999, {.flags = kGpuOrphan}).Copy(90, 93, 0);
  const OpTable table = Table();
  EXPECT_EQ(table.self_device_total_ns, 40);
  EXPECT_EQ(table.unattributed_device_ns, 30);
  EXPECT_EQ(SumsOf(table).at("op"), std::tuple(10, 10, 10));
}

class OpDeviceStepTest : public OpDeviceTest {
 protected:
  OpDeviceStepTest() {
    reader_.Step(10, 0, 100).Step(11, 100, 100);
    reader_.Range(main_, "epoch", -10, 300).Range(main_, "op", 10, 50);
    reader_.Range(main_, "straddles", 90, 120);
    Launch(20, 150, 190);  // Launched in step 10, ran in 11.
    Launch(95, 190, 200);
    Launch(110, 200, 220);  // In step 11, in a range that began in 10.
    Launch(250, 260, 261);  // In no step.
    reader_.Kernel("orphan", 10, 20, 999);
  }
};

TEST_F(OpDeviceStepTest, WorkBelongsToTheStepThatLaunchedIt) {
  const OpTable table = Table({.sort = OpSort::kName, .by_step = true});
  std::vector<std::tuple<std::string, int64_t, int64_t, int64_t, int64_t>> rows;
  for (const OpRow& row : table.rows) {
    rows.emplace_back(row.name, row.step, row.calls, row.self_device_ns, row.device_total_ns);
  }
  EXPECT_THAT(
      rows,
      ElementsAre(std::tuple("cudaLaunchKernel", -1, 1, 0, 0),
                  std::tuple("cudaLaunchKernel", 10, 2, 0, 0),
                  std::tuple("cudaLaunchKernel", 11, 1, 0, 0), std::tuple("epoch", -1, 1, 1, 1),  //
                  std::tuple("epoch", 10, 0, 0, 50), std::tuple("epoch", 11, 0, 0, 20),
                  std::tuple("op", 10, 1, 40, 40), std::tuple("straddles", 10, 1, 10, 10),
                  std::tuple("straddles", 11, 0, 20, 20)));
  EXPECT_EQ(table.self_device_total_ns, 81);
  EXPECT_EQ(table.unattributed_device_ns, 10);
}

TEST_F(OpDeviceStepTest, OneStepHasOnlyWhatItLaunched) {
  const OpTable table = Table({.step = 11});
  EXPECT_EQ(SumsOf(table), (DeviceSums{{"cudaLaunchKernel", {0, 0, 0}},
                                       {"epoch", {0, 20, 20}},
                                       {"straddles", {20, 20, 20}}}));
  EXPECT_EQ(table.self_device_total_ns, 20);
  EXPECT_EQ(table.unattributed_device_ns, 0);
  EXPECT_EQ(RowOf(table, "cudaLaunchKernel").calls, 1);
}

TEST_F(OpDeviceStepTest, SelfTimesOfOneStepAreThoseOfTheWholeTable) {
  const OpTable table = Table({.step = 10});
  EXPECT_EQ(RowOf(table, "op").self_cpu_ns, 38);
  EXPECT_EQ(RowOf(table, "straddles").self_cpu_ns, 26);
}

TEST_F(OpDeviceTest, DeviceSortsPutTheirLargestFirst) {
  reader_.Range(main_, "outer", 0, 100).Range(main_, "a", 10, 20).Range(main_, "b", 20, 30);
  Launch(12, 200, 230, {.stream = 1});
  Launch(13, 200, 230, {.stream = 2});
  Launch(22, 200, 240, {.stream = 3});
  const auto first_of = [&](OpSort sort) { return Table({.sort = sort, .limit = 1}).rows[0].name; };
  EXPECT_EQ(first_of(OpSort::kSelfDevice), "a");
  EXPECT_EQ(first_of(OpSort::kDeviceTotal), "outer");
  // Both are busy for 40; "b" comes first by name.
  EXPECT_EQ(first_of(OpSort::kBusyDevice), "b");
  for (const OpSort sort : {OpSort::kSelfDevice, OpSort::kDeviceTotal, OpSort::kBusyDevice}) {
    EXPECT_EQ(OpSortFromString(ToString(sort)), sort);
  }
}

TEST_F(OpDeviceTest, ACaptureWithoutGpuHasNoDevice) {
  reader_.Range(main_, "op", 0, 10);
  const OpTable table = Table();
  EXPECT_FALSE(table.has_device);
  EXPECT_EQ(table.self_device_total_ns, 0);
  // And reads no column that it did not read before there were GPUs.
  EXPECT_THAT(reader_.range_readings(), ElementsAre(kRangeDuration | kRangeName | kRangeDepth));
}

TEST_F(OpDeviceTest, NamesThatReadTheSameShareARow) {
  reader_.RangeById(main_, reader_.SecondName("op"), 0, 10)
      .RangeById(main_, reader_.SecondName("op"), 20, 30);
  Launch(5, 100, 110);
  Launch(25, 110, 130);
  EXPECT_EQ(SumsOf(Table()).at("op"), std::tuple(30, 30, 30));
}

TEST_F(OpDeviceTest, TimesOfAHostileFileDoNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  reader_.Range(main_, "op", 0, 10);
  for (int i = 0; i < 4; ++i) Launch(5, 0, kMax, {.device = static_cast<uint16_t>(i % 2)});
  EXPECT_EQ(RowOf(Table(), "op").calls, 1);
}

TEST_F(OpDeviceTest, AReadersErrorIsTheReportsError) {
  Launch(5, 0, 10);
  reader_.FailAfter(0, absl::DataLossError("bad chunk"));
  EXPECT_THAT(SummarizeOps(reader_, {}), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::report
