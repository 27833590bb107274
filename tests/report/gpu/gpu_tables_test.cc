#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"
#include "daemon/report/reports.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class KernelTableTest : public testing::Test {
 protected:
  KernelTable Table(const KernelOptions& options = {}) {
    absl::StatusOr<KernelTable> table = SummarizeKernels(reader_, options);
    EXPECT_THAT(table, IsOk());
    return table.ok() ? *std::move(table) : KernelTable();
  }
  std::vector<std::string> Names(const KernelOptions& options) {
    std::vector<std::string> names;
    for (const KernelRow& row : Table(options).rows) names.push_back(row.name);
    return names;
  }
  // A call at `at` that takes 5 and launches the kernel.
  void Launch(std::string_view name, int64_t at, int64_t start, int64_t end,
              const FakeGpu& gpu = {}) {
    ++correlation_;
    reader_.ApiCall(main_, "cudaLaunchKernel", at, at + 5, correlation_)
        .Kernel(name, start, end, correlation_, gpu);
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  uint32_t correlation_ = 0;
};

TEST_F(KernelTableTest, OneRowPerNameWithTheSpreadOfItsDurations) {
  for (int64_t i = 1; i <= 100; ++i) Launch("_Z3addPfi", 0, 1000 * i, 1000 * i + i);
  Launch("gemm", 0, 500'000, 505'050);
  const KernelTable table = Table();
  ASSERT_EQ(table.rows.size(), 2u);
  const KernelRow& add = table.rows[0];  // Both take 5050: by name.
  EXPECT_EQ(add.name, "_Z3addPfi");
  EXPECT_EQ(add.display_name, "add(float*, int)");
  EXPECT_EQ(add.count, 100);
  EXPECT_EQ(add.total_ns, 5050);
  EXPECT_EQ(add.mean_ns, 50);
  EXPECT_EQ(add.min_ns, 1);
  EXPECT_EQ(add.p50_ns, 50);
  EXPECT_EQ(add.p95_ns, 95);
  EXPECT_EQ(add.p99_ns, 99);
  EXPECT_EQ(add.max_ns, 100);
  EXPECT_DOUBLE_EQ(add.share, 0.5);
  EXPECT_EQ(table.rows[1].p50_ns, 5050);
  EXPECT_EQ(table.rows[1].p95_ns, 5050);
  EXPECT_EQ(table.total_ns, 10'100);
  EXPECT_EQ(table.kernel_count, 101);
  EXPECT_EQ(table.rows.size(), 2U);
}

TEST_F(KernelTableTest, GridsOfCallsThatCountWorkItemsAreInBlocks) {
  const FakeGpu gpu = {.grid = {2500, 8, 1}, .block = {256, 4, 1}};
  reader_.ApiCall(main_, "hipExtModuleLaunchKernel", 0, 5, 1).Kernel("ext", 10, 20, 1, gpu);
  reader_.ApiCall(main_, "hipModuleLaunchKernel", 30, 35, 2).Kernel("mod", 40, 50, 2, gpu);
  const KernelTable table = Table();
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(table.rows[0].grid, ElementsAre(10, 2, 1));
  EXPECT_THAT(table.rows[1].grid, ElementsAre(2500, 8, 1));
}

TEST_F(KernelTableTest, CopiesAndMemsetsAreInNoRowButMakeTheGpuBusy) {
  Launch("k", 0, 100, 200);
  reader_.Copy(150, 300, 0, {.stream = 8}).Memset(300, 310, 0, {.stream = 9});
  reader_.Kernel("k", 0, 1000, 0, {.device = 1});
  const KernelTable table = Table();
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.total_ns, 1100);
  EXPECT_EQ(table.busy_ns, 210 + 1000);
  EXPECT_EQ(table.kernel_busy_ns, 100 + 1000);
}

TEST_F(KernelTableTest, ADecompressionIsInNoRowButMakesTheGpuBusy) {
  Launch("k", 0, 100, 200);
  reader_.GpuWork(GpuRowKind::kMemDecompress, 150, 300, 0, {.stream = 8});
  const KernelTable table = Table();
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.busy_ns, 200);
  EXPECT_EQ(table.kernel_busy_ns, 100);
}

TEST_F(KernelTableTest, WholeGraphsAreCountedApart) {
  reader_.GraphLaunch(0, 50, 3).GraphLaunch(100, 150, 4);
  Launch("k", 0, 20, 60);
  const KernelTable table = Table();
  EXPECT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.graph_launch_count, 2);
  EXPECT_EQ(table.graph_launch_ns, 100);
  EXPECT_EQ(table.busy_ns, 110);
  EXPECT_EQ(table.kernel_busy_ns, 40);
}

TEST_F(KernelTableTest, WorkThatWasLaunchedBeforeTheWindowIsBusyTimeButCountedApart) {
  reader_.mutable_record().windows = {{.start_ns = 100, .end_ns = 1000}};
  Launch("k", 90, 150, 200);  // The host was ahead of the GPU.
  Launch("k", 100, 200, 230);
  Launch("k", 990, 1010, 1050);  // Runs after the window that launched it.
  const KernelTable table = Table();
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].count, 2);
  EXPECT_EQ(table.rows[0].total_ns, 30 + 40);
  EXPECT_EQ(table.kernel_count, 2);
  EXPECT_EQ(table.earlier_kernel_count, 1);
  EXPECT_EQ(table.earlier_kernel_ns, 50);
  EXPECT_EQ(table.busy_ns, 50 + 30 + 40);
}

TEST_F(KernelTableTest, AnImportedTraceHasNoEarlierWork) {
  reader_.mutable_record().windows = {{.start_ns = 100, .end_ns = 1000}};
  reader_.mutable_record().imported.source = "torch.profiler";
  Launch("k", 90, 150, 200);
  const KernelTable table = Table();
  EXPECT_EQ(table.kernel_count, 1);
  EXPECT_EQ(table.earlier_kernel_count, 0);
}

TEST_F(KernelTableTest, TheConfigurationIsTheOneThatTookMostOfTheTime) {
  reader_.mutable_record().gpu.devices.push_back({.number = 0,
                                                  .compute_major = 9,
                                                  .sm_count = 132,
                                                  .warp_threads = 32,
                                                  .max_threads_per_sm = 2048,
                                                  .max_blocks_per_sm = 32,
                                                  .registers_per_sm = 65536,
                                                  .shared_bytes_per_sm = 228 << 10});
  const FakeGpu small = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .registers_per_thread = 16};
  const FakeGpu large = {.grid = {1000, 2, 3},
                         .block = {128, 2, 1},
                         .registers_per_thread = 128,
                         .static_shared_bytes = 1024,
                         .dynamic_shared_bytes = 2048,
                         .local_bytes_per_thread = 8};
  Launch("k", 0, 0, 10, small);
  Launch("k", 0, 10, 20, small);
  Launch("k", 0, 20, 50, large);
  const KernelRow row = Table().rows.at(0);
  EXPECT_THAT(row.grid, ElementsAre(1000, 2, 3));
  EXPECT_THAT(row.block, ElementsAre(128, 2, 1));
  EXPECT_EQ(row.registers_per_thread, 128);
  EXPECT_EQ(row.static_shared_bytes, 1024);
  EXPECT_EQ(row.dynamic_shared_bytes, 2048);
  EXPECT_EQ(row.local_bytes_per_thread, 8);
  EXPECT_EQ(row.configuration_count, 2);
  EXPECT_DOUBLE_EQ(row.occupancy, 0.25);
  EXPECT_EQ(row.occupancy_limit, "registers");
}

TEST_F(KernelTableTest, WhatATraceDoesNotSayOfALaunchIsUnknown) {
  Launch("k", 0, 0, 10, {.grid = {0, 0, 0}, .block = {0, 0, 0}});
  const KernelTable table = Table();
  const KernelRow& row = table.rows.at(0);
  EXPECT_EQ(row.registers_per_thread, -1);
  EXPECT_EQ(row.static_shared_bytes, -1);
  EXPECT_EQ(row.dynamic_shared_bytes, -1);
  EXPECT_EQ(row.local_bytes_per_thread, -1);
  const table::Table cells = ToReport(table).tables.at(0);
  for (const std::string key : {"grid", "block", "registers_per_thread", "static_shared_bytes"}) {
    const size_t column = cells.Find(key);
    ASSERT_NE(column, table::Table::npos) << key;
    EXPECT_TRUE(table::IsUnknown(cells.columns[column], cells.cells[column], 0)) << key;
  }
}

TEST_F(KernelTableTest, WithoutTheDevicesPropertiesThereIsNoOccupancy) {
  reader_.mutable_record().gpu.devices.push_back({.number = 1});
  Launch("k", 0, 0, 10);
  EXPECT_EQ(Table().rows.at(0).occupancy, -1);
  EXPECT_EQ(Table().rows.at(0).occupancy_limit, "");
}

TEST_F(KernelTableTest, LatencyCountsFromTheCallAndQueueFromWhenTheStreamWasFree) {
  Launch("first", 0, 100, 200);    // Latency 100; queue 95: since its call ended.
  Launch("second", 10, 230, 240);  // Latency 220; queue 30: since "first" ended.
  reader_.Copy(240, 300, 0);
  Launch("third", 20, 301, 310);                      // Latency 281; queue 1: since the copy.
  Launch("elsewhere", 290, 305, 310, {.stream = 8});  // Latency 15; queue 10.
  reader_.Kernel("orphan", 400, 410, 999);
  const KernelTable table = Table();
  std::vector<std::tuple<std::string, int64_t, int64_t>> rows;
  for (const KernelRow& row : table.rows) {
    rows.emplace_back(row.name, row.mean_launch_latency_ns, row.mean_queue_ns);
  }
  EXPECT_THAT(rows,
              UnorderedElementsAre(std::tuple("elsewhere", 15, 10), std::tuple("first", 100, 95),
                                   std::tuple("orphan", -1, -1), std::tuple("second", 220, 30),
                                   std::tuple("third", 281, 1)));
}

TEST_F(KernelTableTest, AKernelThatSeemsToBeginBeforeItsCallWaitedForNothing) {
  Launch("k", 100, 90, 95);  // Clocks differ by a little.
  EXPECT_EQ(Table().rows.at(0).mean_launch_latency_ns, 0);
  EXPECT_EQ(Table().rows.at(0).mean_queue_ns, 0);
}

TEST_F(KernelTableTest, TheOpIsTheRangeThatLaunchedMostOfItsTime) {
  reader_.Range(main_, "step", 0, 100).Range(main_, "a", 0, 40).Range(main_, "b", 50, 90);
  Launch("k", 1, 200, 210);
  Launch("k", 2, 210, 220);
  Launch("k", 60, 220, 250);
  Launch("outside", 200, 250, 260);
  const KernelTable table = Table();
  EXPECT_EQ(table.rows[0].op, "b");
  EXPECT_EQ(table.rows[1].op, "");
}

TEST_F(KernelTableTest, OrphansAndGraphNodesAreCounted) {
  reader_.Kernel("k", 0, 10, 1, {.flags = kGpuOrphan})
      .Kernel("k", 10, 20, 2, {.graph_id = 4, .graph_node_id = 9})
      .Kernel("k", 20, 30, 2, {.graph_node_id = 10});
  const KernelRow row = Table().rows.at(0);
  EXPECT_EQ(row.orphan_count, 1);
  EXPECT_EQ(row.graph_count, 2);
}

TEST_F(KernelTableTest, FamiliesAreKnownByName) {
  Launch("ampere_bf16_s16816gemm_bf16_128x64_tn", 0, 0, 30);
  Launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 0, 30, 50);
  Launch("plain", 0, 50, 60);
  const KernelTable table = Table();
  EXPECT_TRUE(table.rows[0].uses_tensor_cores);
  EXPECT_FALSE(table.rows[0].is_communication);
  EXPECT_TRUE(table.rows[1].is_communication);
  EXPECT_FALSE(table.rows[1].uses_tensor_cores);
  EXPECT_FALSE(table.rows[2].uses_tensor_cores);
  EXPECT_FALSE(table.rows[2].is_communication);
}

TEST_F(KernelTableTest, EverySortPutsItsLargestFirst) {
  Launch("often", 0, 0, 20);
  Launch("often", 0, 20, 40);
  Launch("often", 0, 40, 60);
  Launch("long", 0, 60, 100);
  Launch("mixed", 0, 100, 101);
  Launch("mixed", 0, 101, 146);
  EXPECT_THAT(Names({}), ElementsAre("often", "mixed", "long"));
  const auto sorted_by = [&](std::string_view key) {
    const auto report =
        MakeReport(reader_, {.report = "kernels", .options = {{"sort", std::string(key)}}});
    EXPECT_THAT(report, IsOk());
    return std::get<std::vector<std::string>>(
        report->tables[0].cells[report->tables[0].Find("name")]);
  };
  EXPECT_THAT(sorted_by("count"), ElementsAre("often", "mixed", "long"));
  EXPECT_THAT(sorted_by("mean"), ElementsAre("long", "mixed", "often"));
  EXPECT_THAT(sorted_by("max_ns"), ElementsAre("mixed", "long", "often"));
  EXPECT_THAT(sorted_by("name"), ElementsAre("long", "mixed", "often"));
}

TEST_F(KernelTableTest, TheLimitCutsRowsAndNoTotal) {
  Launch("a", 0, 0, 10);
  Launch("b", 0, 10, 30);
  const auto report = MakeReport(reader_, {.report = "kernels", .options = {{"limit", "1"}}});
  ASSERT_THAT(report, IsOk());
  const table::Table& rows = report->tables[0];
  EXPECT_THAT(std::get<std::vector<std::string>>(rows.cells[rows.Find("name")]), ElementsAre("b"));
  EXPECT_EQ(rows.row_count, 2);
  const table::Table& totals = report->totals;
  EXPECT_THAT(std::get<std::vector<int64_t>>(totals.cells[totals.Find("kernel_count")]),
              ElementsAre(2));
  EXPECT_THAT(std::get<std::vector<int64_t>>(totals.cells[totals.Find("total_ns")]),
              ElementsAre(30));
}

TEST_F(KernelTableTest, OneStepHasTheKernelsItLaunched) {
  reader_.Step(10, 0, 100).Step(11, 100, 100);
  Launch("a", 50, 150, 170);   // Launched in 10, ran in 11.
  Launch("b", 110, 180, 210);  // The queue is that of the whole stream.
  reader_.Kernel("orphan", 120, 130, 999).Copy(140, 145, 998);
  const KernelTable table = Table({.step = 11});
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].name, "b");
  EXPECT_EQ(table.rows[0].mean_queue_ns, 10);
  EXPECT_EQ(table.total_ns, 30);
  EXPECT_EQ(table.busy_ns, 30);
  EXPECT_THAT(Names({.step = 10}), ElementsAre("a"));
}

TEST_F(KernelTableTest, OptionsOutOfRangeAreRefused) {
  EXPECT_THAT(MakeReport(reader_, {.report = "kernels", .options = {{"limit", "-1"}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("limit")));
  EXPECT_THAT(SummarizeKernels(reader_, {.step = 3}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("step 3")));
}

TEST_F(KernelTableTest, ACaptureWithoutGpuHasNoRows) {
  const KernelTable table = Table();
  EXPECT_THAT(table.rows, IsEmpty());
  EXPECT_EQ(table.busy_ns, 0);
}

TEST_F(KernelTableTest, AReadersErrorIsTheReportsError) {
  Launch("k", 0, 0, 10);
  reader_.FailAfter(0, absl::DataLossError("bad chunk"));
  EXPECT_THAT(SummarizeKernels(reader_, {}), StatusIs(absl::StatusCode::kDataLoss));
}

// ---- copies ----

class CopyTableTest : public KernelTableTest {
 protected:
  CopyTable Copies() {
    absl::StatusOr<CopyTable> table = SummarizeCopies(reader_);
    EXPECT_THAT(table, IsOk());
    return table.ok() ? *std::move(table) : CopyTable();
  }
};

TEST_F(CopyTableTest, CopiesThatWereLaunchedBeforeTheWindowAreBusyTimeButCountedApart) {
  reader_.mutable_record().windows = {{.start_ns = 100, .end_ns = 1000}};
  const FakeGpu to_device = {
      .bytes = 4000, .copy_kind = 1, .source_kind = 2, .destination_kind = 3};
  reader_.ApiCall(main_, "cudaMemcpyAsync", 90, 95, 1).Copy(110, 150, 1, to_device);
  reader_.ApiCall(main_, "cudaMemcpyAsync", 120, 125, 2).Copy(150, 160, 2, to_device);
  const CopyTable table = Copies();
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].count, 1);
  EXPECT_EQ(table.rows[0].bytes, 4000);
  EXPECT_EQ(table.total_ns, 10);
  EXPECT_EQ(table.busy_ns, 50);
  EXPECT_EQ(table.earlier_count, 1);
  EXPECT_EQ(table.earlier_ns, 40);
}

TEST_F(CopyTableTest, RowsAreKindsOfCopiesWithTheirBandwidth) {
  reader_.Range(main_, "load", 0, 50).ApiCall(main_, "cudaMemcpyAsync", 10, 12, 1);
  const FakeGpu to_device = {
      .flags = kGpuAsync, .bytes = 4000, .copy_kind = 1, .source_kind = 2, .destination_kind = 3};
  FakeGpu blocking = to_device;
  blocking.flags = 0;
  blocking.bytes = 1000;
  reader_.Copy(100, 300, 1, to_device).Copy(300, 400, 2, blocking);
  reader_.Copy(150, 250, 3,
               {.stream = 9, .bytes = 50, .copy_kind = 2, .source_kind = 3, .destination_kind = 1});
  reader_.Memset(400, 410, 4, {.bytes = 64, .destination_kind = 3});
  reader_.Kernel("k", 0, 1000, 5);
  const CopyTable table = Copies();
  ASSERT_EQ(table.rows.size(), 3u);
  const CopyRow& first = table.rows[0];
  EXPECT_EQ(first.name, "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(first.count, 2);
  EXPECT_EQ(first.total_ns, 300);
  EXPECT_EQ(first.mean_ns, 150);
  EXPECT_EQ(first.p50_ns, 100);
  EXPECT_EQ(first.p95_ns, 200);
  EXPECT_EQ(first.max_ns, 200);
  EXPECT_EQ(first.bytes, 5000);
  EXPECT_EQ(first.min_bytes, 1000);
  EXPECT_EQ(first.max_bytes, 4000);
  EXPECT_DOUBLE_EQ(first.bandwidth_gb_per_s, 5000.0 / 300);
  EXPECT_EQ(first.async_count, 1);
  EXPECT_EQ(first.op, "load");
  EXPECT_EQ(table.rows[1].name, "Memcpy DtoH (Device -> Pageable)");
  EXPECT_EQ(table.rows[2].name, "Memset (Device)");
  EXPECT_EQ(table.rows[2].op, "");
  EXPECT_EQ(table.total_ns, 410);
  EXPECT_EQ(table.busy_ns, 310);
}

TEST_F(CopyTableTest, ADecompressionHasARowWithTheBytesThatItRead) {
  reader_.Range(main_, "load", 0, 50).ApiCall(main_, "cuMemBatchDecompressAsync", 10, 12, 1);
  reader_.GpuWork(GpuRowKind::kMemDecompress, 100, 300, 1, {.flags = kGpuAsync, .bytes = 4000});
  const CopyTable table = Copies();
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].name, "Memcpy Decompress");
  EXPECT_EQ(table.rows[0].bytes, 4000);
  EXPECT_DOUBLE_EQ(table.rows[0].bandwidth_gb_per_s, 20);
  EXPECT_EQ(table.rows[0].async_count, 1);
  EXPECT_EQ(table.rows[0].op, "load");
  EXPECT_EQ(table.busy_ns, 200);
}

TEST_F(CopyTableTest, ADecompressionWithoutTheFlagIsAsynchronousByItsCall) {
  reader_.ApiCall(main_, "cuMemBatchDecompressAsync", 10, 12, 1, {.is_driver = true});
  reader_.GpuWork(GpuRowKind::kMemDecompress, 100, 300, 1, {.bytes = 4000});
  const CopyTable table = Copies();
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].async_count, 1);
}

TEST_F(CopyTableTest, WhatIsNotInTheNameOfACopyMakesNoRow) {
  for (uint8_t kind = 0; kind < 3; ++kind) {
    reader_.GpuWork(GpuRowKind::kMemDecompress, 100, 110, 1,
                    {.copy_kind = kind, .source_kind = kind, .destination_kind = kind});
    reader_.Memset(200, 210, 2, {.copy_kind = kind, .source_kind = kind, .destination_kind = 3});
  }
  const CopyTable table = Copies();
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].count, 3);
  EXPECT_EQ(table.rows[1].count, 3);
}

TEST_F(CopyTableTest, OfCopiesWithoutTheFlagTheCallSaysWhetherTheyAreAsynchronous) {
  const FakeGpu to_device = {.bytes = 64, .copy_kind = 1, .source_kind = 2, .destination_kind = 3};
  reader_.ApiCall(main_, "hipMemcpyAsync", 90, 95, 1).Copy(110, 150, 1, to_device);
  reader_.ApiCall(main_, "hipMemcpy", 160, 205, 2).Copy(170, 200, 2, to_device);
  const CopyTable table = Copies();
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].count, 2);
  EXPECT_EQ(table.rows[0].async_count, 1);
}

// ROCm copies and fills with kernels.
TEST_F(CopyTableTest, KernelsThatCallsForCopiesLaunchAreCopies) {
  reader_.ApiCall(main_, "hipMemcpyAsync", 90, 95, 101).Kernel("copy_kernel", 110, 150, 101);
  reader_.ApiCall(main_, "hipMemset", 160, 205, 102)
      .Kernel("__amd_rocclr_fillBufferAligned", 170, 200, 102);
  reader_.Kernel("__amd_rocclr_copyBuffer", 200, 220, 0);
  Launch("gemm", 300, 310, 400);
  const CopyTable table = Copies();
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0].name, "copy_kernel");
  EXPECT_EQ(table.rows[0].async_count, 1);
  EXPECT_EQ(table.rows[1].name, "__amd_rocclr_fillBufferAligned");
  EXPECT_EQ(table.rows[2].name, "__amd_rocclr_copyBuffer");
  EXPECT_LT(table.rows[2].bytes, 0);  // Not known.
  EXPECT_LT(table.rows[2].bandwidth_gb_per_s, 0);
  EXPECT_EQ(table.busy_ns, 90);
}

TEST_F(CopyTableTest, KindsOfAStrangersFileAreNumbers) {
  reader_.Copy(0, 0, 0, {.copy_kind = 77, .source_kind = 200, .destination_kind = 255});
  const CopyTable table = Copies();
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].name, "Memcpy Kind 77 (Kind 200 -> Kind 255)");
  EXPECT_LT(table.rows[0].bandwidth_gb_per_s, 0);  // Not known.
}

// ---- syncs ----

TEST_F(KernelTableTest, SyncsAreByKindCallAndRange) {
  reader_.Range(main_, "loss.item", 0, 100)
      .ApiCall(main_, "cudaStreamSynchronize", 10, 50, 1)
      .ApiCall(main_, "cudaStreamSynchronize", 60, 90, 2)
      .ApiCall(main_, "cudaDeviceSynchronize", 200, 300, 3);
  reader_.Sync(3, 12, 48, 1).Sync(3, 61, 81, 2).Sync(4, 210, 300, 3).Sync(2, 400, 400, 99);
  absl::StatusOr<SyncTable> table = SummarizeSyncs(reader_);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(table->total_ns, 146);
  ASSERT_EQ(table->rows.size(), 3u);
  EXPECT_EQ(table->rows[0].name, "Context Sync");
  EXPECT_EQ(table->rows[0].api, "cudaDeviceSynchronize");
  EXPECT_EQ(table->rows[0].op, "");
  EXPECT_EQ(table->rows[1].name, "Stream Sync");
  EXPECT_EQ(table->rows[1].op, "loss.item");
  EXPECT_EQ(table->rows[1].count, 2);
  EXPECT_EQ(table->rows[1].total_ns, 56);
  EXPECT_EQ(table->rows[1].mean_ns, 28);
  EXPECT_EQ(table->rows[1].max_ns, 36);
  EXPECT_EQ(table->rows[2].name, "Stream Wait Event");
  EXPECT_EQ(table->rows[2].api, "");
}

TEST_F(KernelTableTest, CallsOfOtherRuntimesThatWaitAreWaits) {
  int64_t at = 0;
  for (const std::string_view call :
       {"urEventWait", "urQueueFinish", "zeEventHostSynchronize", "aclrtSynchronizeStream",
        "musaStreamSynchronize", "mtiaStreamSynchronize", "synStreamSynchronize"}) {
    reader_.ApiCall(main_, call, at, at + 10, 0);
    at += 20;
  }
  reader_
      .ApiCall(main_, "urEnqueueEventsWait", at, at + 10, 0)  // On the device.
      .ApiCall(main_, "zeCommandListAppendLaunchKernel", at + 20, at + 30, 0);
  absl::StatusOr<SyncTable> table = SummarizeSyncs(reader_);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(table->rows.size(), 7u);
  EXPECT_EQ(table->total_ns, 70);
}

TEST_F(KernelTableTest, WithoutSyncRecordsTheCallsAreTheWaits) {
  reader_.Range(main_, "loss.item", 0, 100)
      .ApiCall(main_, "cudaStreamSynchronize", 10, 50, 1)
      .ApiCall(main_, "cudaLaunchKernel", 60, 90, 2);
  absl::StatusOr<SyncTable> table = SummarizeSyncs(reader_);
  ASSERT_THAT(table, IsOk());
  ASSERT_EQ(table->rows.size(), 1u);
  EXPECT_EQ(table->rows[0].name, "Call");
  EXPECT_EQ(table->rows[0].api, "cudaStreamSynchronize");
  EXPECT_EQ(table->rows[0].op, "loss.item");
  EXPECT_EQ(table->rows[0].total_ns, 40);
  EXPECT_THAT(ToReport(*table).notes, Contains(HasSubstr("no synchronization records")));
}

TEST_F(KernelTableTest, WithoutCallsItIsNotSaidThatNothingWaited) {
  reader_.Kernel("gemm", 0, 10, 1);
  absl::StatusOr<SyncTable> table = SummarizeSyncs(reader_);
  ASSERT_THAT(table, IsOk());
  EXPECT_THAT(ToReport(*table).notes, Contains(HasSubstr("unknown")));
  reader_.ApiCall(main_, "cudaLaunchKernel", 0, 5, 1);
  table = SummarizeSyncs(reader_);
  ASSERT_THAT(table, IsOk());
  EXPECT_THAT(ToReport(*table).notes, Contains(HasSubstr("No waits")));
}

TEST_F(KernelTableTest, CopiesThatTheirCallWaitsForAreWaits) {
  reader_.ApiCall(main_, "cudaDeviceSynchronize", 200, 300, 1).Sync(4, 210, 300, 1);
  const FakeGpu staged = {.bytes = 65'536, .copy_kind = 1, .source_kind = 1, .destination_kind = 3};
  FakeGpu large = staged;
  ++large.bytes;
  reader_.ApiCall(main_, "cudaMemcpyAsync", 400, 480, 2).Copy(420, 470, 2, staged);
  reader_.ApiCall(main_, "cudaMemcpyAsync", 500, 580, 3).Copy(520, 570, 3, large);
  absl::StatusOr<SyncTable> table = SummarizeSyncs(reader_);
  ASSERT_THAT(table, IsOk());
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[1].name, "Blocking Copy");
  EXPECT_EQ(table->rows[1].count, 1);
  EXPECT_EQ(table->rows[1].total_ns, 80);
}

}  // namespace
}  // namespace profd::report
