#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/render/report_tables.h"
#include "cli/render/time.h"
#include "daemon/base/json_writer.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

report::TimeReport ATimeReport() {
  report::TimeReport report;
  report.has_device = true;
  report.device = 3;
  report.devices = {{2, 10}, {3, 300'000}};
  report.whole = {.kernel_time_ns = 400'000,
                  .busy_ns = 300'000,
                  .idle_ns = 100'000,
                  .compute_ns = 200'000,
                  .communication_ns = 150'000,
                  .exposed_communication_ns = 90'000,
                  .overlapped_communication_ns = 60'000,
                  .copy_ns = 20'000,
                  .exposed_copy_ns = 10'000,
                  .idle_by_cause = {60'000, 30'000, 10'000},
                  .host_only_ns = 55'000};
  report.overlap = 0.4;
  report.steps = {{.index = 7,
                   .duration_ns = 200'000,
                   .device = {.kernel_time_ns = 200'000, .busy_ns = 150'000, .idle_ns = 50'000},
                   .launch_count = 12,
                   .sync_ns = 5'000,
                   .data_loader_ns = 40'000},
                  {.index = 8, .duration_ns = 200'000}};
  report.streams = {{.device = 3,
                     .context = 1,
                     .stream = 21,
                     .activity_count = 4,
                     .idle_ns = -1'000,
                     .kernel_wait_ns = -1'000}};
  report.kernel_types = {{.compute = true, .communication = true, .total_ns = 60'000, .share = 1}};
  report.launches = {.count = 1, .call_ns = 4'000, .slow_call_count = 1, .kernel_count = 2};
  report.launching_ops = {
      {.name = "aten::add_\x1b[31m", .host_wait_ns = 9'000, .launch_bound = true}, {.name = ""}};
  report.queues = {{.stream = 21, .change_count = 8, .mean = 1.25, .max = 3}};
  report.collectives = {{.kind = report::CollectiveKind::kAllReduce,
                         .group_size = 8,
                         .on_device = true,
                         .bytes = 4096,
                         .count = 2,
                         .exposed_ns = 90'000,
                         .algorithm_gb_per_s = 4,
                         .bus_gb_per_s = 7}};
  report.syncs = {{.call = "cudaStreamSynchronize",
                   .cause = report::SyncCause::kItem,
                   .op = "aten::item",
                   .where = "loss",
                   .count = 4,
                   .total_ns = 5'000,
                   .per_step = 2}};
  report.data_loader = {.count = 1, .total_ns = 40'000, .max_ns = 40'000, .in_steps_ns = 40'000};
  report.steps[0].host = {.operators_ns = 20'000,
                          .collectives_ns = 2'000,
                          .data_loader_ns = 40'000,
                          .gpu_wait_ns = 8'000,
                          .outside_ns = 129'000,
                          .other_ns = 1'000};
  report.host_gap_table = {.rows = {{.after = "aten::add_",
                                     .before = "",
                                     .where = "log\x1b[31m",
                                     .count = 3,
                                     .step_count = 2,
                                     .total_ns = 120'000,
                                     .median_ns = 39'000,
                                     .max_ns = 50'000,
                                     .longest_start_ns = 77,
                                     .longest_step = 7}},
                           .long_ns = 120'000,
                           .short_count = 4,
                           .short_ns = 9'000};
  report.compiled_region_count = 2;
  report.graph_break_count = 3;
  return report;
}

TEST(RenderTimeTest, SaysWhatTheDeviceDidAndWhatHeldItUp) {
  const std::string text = RenderTime(ATimeReport(), 0, Style{});
  EXPECT_THAT(text, HasSubstr("GPU 3 (of 2 with work; --device N shows another): 400.000us from "
                              "its first work to its last, busy 75.00%"));
  EXPECT_THAT(text, HasSubstr("Idle: host wait"));
  EXPECT_THAT(text, HasSubstr("Of 150.000us of communication, 40.00% overlapped with compute"));
  EXPECT_THAT(text, HasSubstr("nothing launched for 55.000us"));
  EXPECT_THAT(text, HasSubstr("COMPUTATION overlapping COMMUNICATION"));
  EXPECT_THAT(text, HasSubstr("1 launch took the host 4.000us"));
  EXPECT_THAT(text, HasSubstr("1 call took more than 50.000us"));
  EXPECT_THAT(text, HasSubstr("(no range)"));
  EXPECT_THAT(text, HasSubstr("4.00 KiB"));
  EXPECT_THAT(text, HasSubstr("aten::item"));
  EXPECT_THAT(text, HasSubstr("Data loader: 1 wait took 40.000us, the longest 40.000us; 10.00% of "
                              "the steps"));
  EXPECT_THAT(text, HasSubstr("torch.compile: 2 regions, 3 graph breaks"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));  // A name is a stranger's.
}

TEST(RenderTimeTest, TheHostsTimeIsSplitAndItsGapsAreNamed) {
  const std::string text = RenderTime(ATimeReport(), 0, Style{});
  EXPECT_THAT(text, HasSubstr("Host time of each step"));
  EXPECT_THAT(text, HasSubstr("64.50%"));
  EXPECT_THAT(text, HasSubstr("Gaps on the host, outside operators"));
  EXPECT_THAT(text, HasSubstr("39.000us"));
  EXPECT_THAT(text, HasSubstr("4 gaps below 100.000us add up to 9.000us"));
  report::TimeReport unknown = ATimeReport();
  unknown.host_needs = "operators";
  unknown.host_gap_table = {};
  EXPECT_THAT(RenderTime(unknown, 0, Style{}),
              AllOf(HasSubstr("unknown without operators"), Not(HasSubstr("Host time of each"))));
}

TEST(RenderTimeTest, StepsHaveColumnsOnlyForWhatThereIs) {
  EXPECT_THAT(RenderTime(ATimeReport(), 0, Style{}),
              AllOf(HasSubstr("Data loader\n"), HasSubstr("Launches"), Not(HasSubstr("Copies ")),
                    Not(HasSubstr("Regions"))));
}

TEST(RenderTimeTest, RowsBeyondTheLimitAreCounted) {
  EXPECT_THAT(RenderTime(ATimeReport(), 1, Style{}), HasSubstr("(1 more row: --limit 0)"));
}

TEST(RenderTimeTest, WithoutGpuTheHostsPartsRemain) {
  report::TimeReport report;
  report.steps = {{.index = 1, .duration_ns = 100, .data_loader_ns = 40}};
  const std::string text = RenderTime(report, 0, Style{});
  EXPECT_THAT(text, HasSubstr("No GPU work was recorded"));
  EXPECT_THAT(text, AllOf(HasSubstr("Data loader"), Not(HasSubstr("Host wait"))));
  EXPECT_THAT(RenderTime({}, 0, Style{}), HasSubstr("No GPU work was recorded"));
}

nlohmann::json Parsed(const report::TimeReport& report) {
  JsonWriter json;
  WriteReportJson({}, report::ToReport(report), json);
  return nlohmann::json::parse(json.TakeLine(), nullptr, false);
}

TEST(TimeJsonTest, HasTheFieldsThatScriptsRelyOn) {
  const nlohmann::json parsed = Parsed(ATimeReport());
  EXPECT_EQ(parsed["device"], 3);
  EXPECT_EQ(parsed["kernel_time_ns"], 400'000);
  EXPECT_EQ(parsed["busy_ns"], 300'000);
  EXPECT_EQ(parsed["idle_ns"], 100'000);
  EXPECT_EQ(parsed["compute_ns"], 200'000);
  EXPECT_EQ(parsed["communication_ns"], 150'000);
  EXPECT_EQ(parsed["exposed_communication_ns"], 90'000);
  EXPECT_EQ(parsed["copy_ns"], 20'000);
  EXPECT_EQ(parsed["host_wait_ns"], 60'000);
  EXPECT_EQ(parsed["kernel_wait_ns"], 30'000);
  EXPECT_EQ(parsed["other_ns"], 10'000);
  EXPECT_EQ(parsed["steps"][0]["index"], 7);
  EXPECT_EQ(parsed["steps"][0]["duration_ns"], 200'000);
  EXPECT_EQ(parsed["steps"][0]["busy_ns"], 150'000);
  EXPECT_EQ(parsed["steps"][0]["host_wait_ns"], 0);
  EXPECT_EQ(parsed["host_steps"][0]["operators_ns"], 20'000);
  EXPECT_EQ(parsed["host_steps"][0]["collectives_ns"], 2'000);
  EXPECT_EQ(parsed["host_steps"][0]["data_loader_ns"], 40'000);
  EXPECT_EQ(parsed["host_steps"][0]["gpu_wait_ns"], 8'000);
  EXPECT_EQ(parsed["host_steps"][0]["outside_ns"], 129'000);
  EXPECT_EQ(parsed["host_steps"][0]["other_ns"], 1'000);
  EXPECT_EQ(parsed["host_needs"], "");
  EXPECT_EQ(parsed["host_gaps"][0]["after"], "aten::add_");
  EXPECT_EQ(parsed["host_gaps"][0]["step_count"], 2);
  EXPECT_EQ(parsed["host_gaps"][0]["median_ns"], 39'000);
  EXPECT_EQ(parsed["host_gaps"][0]["longest_step"], 7);
  EXPECT_EQ(parsed["long_gap_ns"], 120'000);
  EXPECT_EQ(parsed["short_gap_ns"], 9'000);
  EXPECT_EQ(parsed["streams"][0]["stream"], 21);
  EXPECT_EQ(parsed["kernel_types"][0]["type"], "COMPUTATION overlapping COMMUNICATION");
  EXPECT_EQ(parsed["launch_count"], 1);
  EXPECT_EQ(parsed["queues"][0]["mean"], 1.25);
  EXPECT_EQ(parsed["collectives"][0]["kind"], "all_reduce");
  EXPECT_EQ(parsed["syncs"][0]["cause"], "item");
  EXPECT_EQ(parsed["data_loader_in_steps_ns"], 40'000);
  EXPECT_EQ(parsed["graph_break_count"], 3);
  EXPECT_EQ(parsed["overlap"], 0.4);
}

TEST(TimeJsonTest, WhatIsUnknownIsNull) {
  report::TimeReport report;
  report.steps = {{.index = 7}};
  report.host_needs = "operators";
  const nlohmann::json parsed = Parsed(report);
  EXPECT_TRUE(parsed["device"].is_null());
  EXPECT_EQ(parsed["kernel_time_ns"], 0);
  EXPECT_TRUE(parsed["overlap"].is_null());
  EXPECT_TRUE(parsed["streams"].empty());
  EXPECT_EQ(parsed["steps"].size(), 1);
  EXPECT_TRUE(parsed["host_steps"].empty());
  EXPECT_EQ(parsed["host_needs"], "operators");
}

}  // namespace
}  // namespace profd::cli
