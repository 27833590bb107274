// Tables and JSON of the reports on the GPU: what they say, not how wide they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/render/report_tables.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"
#include "tests/cli/render/squeezed.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Write>
nlohmann::json JsonOf(Write write) {
  JsonWriter json;
  write(json);
  return nlohmann::json::parse(json.TakeLine());
}

table::Report FirstRow(table::Report report) {
  for (table::Table& table : report.tables) EXPECT_THAT(table::Apply({.limit = 1}, table), IsOk());
  return report;
}

CaptureView SimulatedView() {
  CaptureRecord record;
  record.id = "01J00000000000000000000001";
  record.gpu.simulated = true;
  return ViewOf(record, {});
}

// ---- kernels ----

report::KernelTable TwoKernels() {
  report::KernelTable table;
  table.rows = {{.name = "_Z4gemmPf",
                 .display_name = "gemm(float*)",
                 .count = 2,
                 .total_ns = 30'000,
                 .mean_ns = 15'000,
                 .min_ns = 10'000,
                 .p50_ns = 10'000,
                 .p95_ns = 20'000,
                 .p99_ns = 20'000,
                 .max_ns = 20'000,
                 .share = 0.75,
                 .grid = {132, 2, 1},
                 .block = {256, 1, 1},
                 .registers_per_thread = 128,
                 .static_shared_bytes = 1024,
                 .dynamic_shared_bytes = 1024,
                 .local_bytes_per_thread = 8,
                 .configuration_count = 1,
                 .occupancy = 0.25,
                 .occupancy_limit = "registers",
                 .mean_launch_latency_ns = 5'000,
                 .mean_queue_ns = 1'000,
                 .uses_tensor_cores = true,
                 .op = "aten::mm"},
                {.name = "add",
                 .display_name = "add",
                 .count = 1,
                 .total_ns = 10'000,
                 .mean_ns = 10'000,
                 .min_ns = 10'000,
                 .p50_ns = 10'000,
                 .p95_ns = 10'000,
                 .p99_ns = 10'000,
                 .max_ns = 10'000,
                 .share = 0.25,
                 .grid = {1, 1, 4},
                 .block = {32, 1, 1},
                 .orphan_count = 1}};
  table.kernel_count = 3;
  table.total_ns = 40'000;
  table.busy_ns = 39'000;
  table.kernel_busy_ns = 35'000;
  return table;
}

TEST(RenderKernelsTest, OneLineEachAndTheTotals) {
  const std::vector<std::string> lines =
      Squeezed(RenderReport(report::ToReport(TwoKernels()), Style{}));
  ASSERT_EQ(lines.size(), 6);
  EXPECT_EQ(lines[0],
            "Kernel Total % Count Mean p50 p95 p99 Max Latency Queue Grid Block Registers Static "
            "shared Dynamic shared Occupancy Limited by Tensor Op");
  EXPECT_EQ(
      lines[2],
      "gemm(float*) 30.000us 75.00% 2 15.000us 10.000us 20.000us 20.000us 20.000us 5.000us 1.000us "
      "132x2 256 128 1.00 KiB 1.00 KiB 25.00% registers yes aten::mm");
  EXPECT_EQ(lines[3],
            "add 10.000us 25.00% 1 10.000us 10.000us 10.000us 10.000us 10.000us - - 1x1x4 32 - - - "
            "- - -");
  EXPECT_EQ(lines[4], "3 kernels, 40.000us; GPU busy 39.000us, with kernels 35.000us");
  EXPECT_EQ(lines[5], "1 kernel has no launch call in the capture");
}

TEST(RenderKernelsTest, WhatIsInNoRowIsSaid) {
  report::KernelTable table = TwoKernels();
  table.graph_launch_count = 3;
  table.graph_launch_ns = 7'000;
  table::Report report = report::ToReport(table);
  report.tables[0].row_count = 1002;
  const std::string text = RenderReport(report, Style{});
  EXPECT_THAT(text, HasSubstr("1,000 more rows"));
  EXPECT_THAT(text, HasSubstr("3 CUDA graphs took 7.000us"));
  EXPECT_THAT(RenderReport(report::ToReport(report::KernelTable()), Style{}),
              HasSubstr("No kernels were recorded"));
}

TEST(RenderKernelsTest, ANarrowTerminalKeepsTheKernelAndItsTime) {
  Style narrow;
  narrow.is_terminal = true;
  narrow.width = 60;
  const std::vector<std::string> lines =
      Squeezed(RenderReport(report::ToReport(TwoKernels()), narrow));
  EXPECT_THAT(lines[0], HasSubstr("Kernel Total % Count"));
  EXPECT_THAT(lines[0], Not(HasSubstr("Shared")));
}

TEST(KernelsJsonTest, HasEveryField) {
  const nlohmann::json parsed = JsonOf([](JsonWriter& json) {
    WriteReportJson(SimulatedView(), report::ToReport(TwoKernels()), json);
  });
  EXPECT_EQ(parsed["simulated"], true);
  EXPECT_EQ(parsed["busy_ns"], 39'000);
  EXPECT_EQ(parsed["total_ns"], 40'000);
  const nlohmann::json& row = parsed["rows"][0];
  EXPECT_EQ(row["name"], "_Z4gemmPf");
  EXPECT_EQ(row["display_name"], "gemm(float*)");
  EXPECT_EQ(row["count"], 2);
  EXPECT_EQ(row["total_ns"], 30'000);
  EXPECT_EQ(row["mean_ns"], 15'000);
  EXPECT_EQ(row["p50_ns"], 10'000);
  EXPECT_EQ(row["p95_ns"], 20'000);
  EXPECT_EQ(row["max_ns"], 20'000);
  EXPECT_EQ(row["op"], "aten::mm");
  EXPECT_EQ(row["grid"], nlohmann::json({132, 2, 1}));
  EXPECT_EQ(row["occupancy"], 0.25);
  EXPECT_EQ(row["uses_tensor_cores"], true);
  EXPECT_TRUE(parsed["rows"][1]["occupancy"].is_null()) << "it is not known";
  EXPECT_TRUE(parsed["rows"][1]["mean_queue_ns"].is_null());
}

// ---- copies ----

report::CopyTable TwoCopies() {
  report::CopyTable table;
  table.rows = {{.name = "Memcpy HtoD (Pinned -> Device)",
                 .count = 2,
                 .total_ns = 2'000,
                 .mean_ns = 1'000,
                 .p50_ns = 900,
                 .p95_ns = 1'100,
                 .p99_ns = 1'100,
                 .max_ns = 1'100,
                 .bytes = 50'000,
                 .min_bytes = 10'000,
                 .max_bytes = 40'000,
                 .bandwidth_gb_per_s = 25,
                 .async_count = 1,
                 .op = "load"},
                {.name = "Memset (Device)", .count = 1, .total_ns = 100, .mean_ns = 100}};
  table.total_ns = 2'100;
  table.busy_ns = 2'050;
  return table;
}

TEST(RenderCopiesTest, OneLineEachAndTheTotals) {
  const std::vector<std::string> lines =
      Squeezed(RenderReport(report::ToReport(TwoCopies()), Style{}));
  EXPECT_THAT(
      lines,
      ElementsAre("Copy Total Count Mean p50 p95 p99 Max Bytes GB/s Async Op", HasSubstr("---"),
                  "Memcpy HtoD (Pinned -> Device) 2.000us 2 1.000us 0.900us 1.100us "
                  "1.100us 1.100us 48.8 KiB 25.00 1 load",
                  "Memset (Device) 0.100us 1 0.100us 0.000us 0.000us 0.000us 0.000us - - 0 -",
                  "Total 2.100us; a copy or memset ran for 2.050us"));
  EXPECT_THAT(RenderReport(FirstRow(report::ToReport(TwoCopies())), Style{}),
              HasSubstr("(1 more row"));
  EXPECT_THAT(RenderReport(report::ToReport(report::CopyTable()), Style{}), HasSubstr("No copies"));
}

TEST(CopiesJsonTest, RowsUpToTheLimit) {
  const nlohmann::json parsed = JsonOf([](JsonWriter& json) {
    WriteReportJson(SimulatedView(), FirstRow(report::ToReport(TwoCopies())), json);
  });
  EXPECT_EQ(parsed["simulated"], true);
  EXPECT_EQ(parsed["busy_ns"], 2'050);
  EXPECT_EQ(parsed["row_count"], 2);
  ASSERT_EQ(parsed["rows"].size(), 1);
  EXPECT_EQ(parsed["rows"][0]["bytes"], 50'000);
  EXPECT_EQ(parsed["rows"][0]["bandwidth_gb_per_s"], 25.0);
  EXPECT_EQ(parsed["rows"][0]["async_count"], 1);
}

// ---- syncs ----

report::SyncTable TwoSyncs() {
  report::SyncTable table;
  table.rows = {{.name = "Stream Sync",
                 .api = "cudaStreamSynchronize",
                 .op = "loss.item",
                 .count = 2,
                 .total_ns = 3'000,
                 .mean_ns = 1'500,
                 .max_ns = 2'000},
                {.name = "Sync 9", .count = 1, .total_ns = 5, .mean_ns = 5, .max_ns = 5}};
  table.total_ns = 3'005;
  table.has_records = true;
  return table;
}

TEST(RenderSyncsTest, OneLineEachAndTheTotal) {
  EXPECT_THAT(Squeezed(RenderReport(report::ToReport(TwoSyncs()), Style{})),
              ElementsAre("Wait Call Op Total Count Mean Max", HasSubstr("---"),
                          "Stream Sync cudaStreamSynchronize loss.item 3.000us 2 1.500us 2.000us",
                          "Sync 9 - - 0.005us 1 0.005us 0.005us", "Total 3.005us"));
  report::SyncTable none;
  none.has_calls = true;
  EXPECT_THAT(RenderReport(report::ToReport(none), Style{}), HasSubstr("No waits"));
}

TEST(SyncsJsonTest, SaysWhoCalled) {
  const nlohmann::json parsed = JsonOf([](JsonWriter& json) {
    WriteReportJson(SimulatedView(), report::ToReport(TwoSyncs()), json);
  });
  EXPECT_EQ(parsed["simulated"], true);
  EXPECT_EQ(parsed["rows"].size(), 2);
  EXPECT_EQ(parsed["rows"][0]["api"], "cudaStreamSynchronize");
  EXPECT_EQ(parsed["rows"][0]["op"], "loss.item");
  EXPECT_EQ(parsed["rows"][1]["op"], "");
}

// ---- idle time ----

report::IdleTable IdleOfOneDevice() {
  report::IdleTable table;
  table.rows = {{.step = -1, .device = 1, .duration_ns = 200'000, .busy_ns = 50'000},
                {.step = 7,
                 .device = 1,
                 .duration_ns = 100'000,
                 .busy_ns = 25'000,
                 .compute_ns = 20'000,
                 .communication_ns = 4'000,
                 .exposed_communication_ns = 3'000,
                 .copy_ns = 2'000,
                 .exposed_copy_ns = 1'000,
                 .idle_ns = 75'000,
                 .host_wait_ns = 60'000,
                 .kernel_wait_ns = 10'000,
                 .other_ns = 5'000}};
  table.streams = {{.device = 1,
                    .context = 2,
                    .stream = 7,
                    .activity_count = 4,
                    .busy_ns = 20'000,
                    .gap_count = 3,
                    .idle_ns = 6'000,
                    .host_wait_ns = 1'000,
                    .kernel_wait_ns = 2'000,
                    .other_ns = 3'000}};
  return table;
}

TEST(RenderIdleTest, StepsThenStreams) {
  EXPECT_THAT(
      Squeezed(RenderReport(report::ToReport(IdleOfOneDevice()), Style{})),
      ElementsAre("GPU Step Duration Busy Busy % Compute Comm Comm exposed Copies Copies exposed "
                  "Idle Gaps Host wait Kernel wait Other",
                  HasSubstr("---"), HasSubstr("1 all 200.000us 50.000us 25.00%"),
                  "1 7 100.000us 25.000us 25.00% 20.000us 4.000us 3.000us 2.000us 1.000us "
                  "75.000us 0 60.000us 10.000us 5.000us",
                  "", "GPU Stream Ran Busy Gaps Idle Host wait Kernel wait Other", HasSubstr("---"),
                  "1 7 4 20.000us 3 6.000us 1.000us 2.000us 3.000us"));
  EXPECT_THAT(RenderReport(FirstRow(report::ToReport(IdleOfOneDevice())), Style{}),
              HasSubstr("(1 more row"));
  EXPECT_THAT(RenderReport(report::ToReport(report::IdleTable()), Style{}),
              HasSubstr("No GPU work"));
}

TEST(IdleJsonTest, TheWholeHasNoStep) {
  const nlohmann::json parsed = JsonOf([](JsonWriter& json) {
    WriteReportJson(SimulatedView(), report::ToReport(IdleOfOneDevice()), json);
  });
  EXPECT_EQ(parsed["simulated"], true);
  EXPECT_TRUE(parsed["rows"][0]["step"].is_null());
  EXPECT_EQ(parsed["rows"][1]["host_wait_ns"], 60'000);
  EXPECT_EQ(parsed["rows"][1]["exposed_communication_ns"], 3'000);
  EXPECT_EQ(parsed["streams"][0]["gap_count"], 3);
}

}  // namespace
}  // namespace profd::cli
