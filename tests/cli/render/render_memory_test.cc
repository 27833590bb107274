// The memory report for people and for scripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/render/memory.h"
#include "cli/render/memory_plot.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kMiB = 1 << 20;

CaptureView TwoStepsView() {
  CaptureRecord record;
  record.id = "01J00000000000000000000001";
  record.state = CaptureState::kComplete;
  record.windows = {{.start_ns = 0, .end_ns = 20'000'000, .first_step = 7, .end_step = 9}};
  return ViewOf(record,
                {{.index = 7, .window = 0, .start_ns = 0, .duration_ns = 10'000'000},
                 {.index = 8, .window = 0, .start_ns = 10'000'000, .duration_ns = 10'000'000}});
}

report::MemorySample Sample(int64_t time_ns, int64_t older, int64_t activation = 0,
                            int64_t reserved = -1) {
  report::MemorySample sample = {
      .time_ns = time_ns, .allocated_bytes = older + activation, .reserved_bytes = reserved};
  sample.layer_bytes[static_cast<size_t>(report::MemoryLayer::kOlder)] = older;
  sample.layer_bytes[static_cast<size_t>(report::MemoryLayer::kActivation)] = activation;
  return sample;
}

report::MemoryReport MemoryOfOneDevice() {
  report::DeviceMemoryReport device;
  device.memory.device = "cuda:0";
  device.memory.peak_bytes = 3 * kMiB;
  device.memory.peak_time_ns = 12'000'000;
  device.memory.peak_reserved_bytes = 5 * kMiB;
  device.memory.unknown_free_count = 2;
  device.memory.unknown_free_bytes = 2048;
  device.memory.allocation_count = 3;
  device.memory.peak_by_category = {{.name = "activation", .bytes = 2 * kMiB, .blocks = 2}};
  device.memory.peak_by_op = {{.name = "aten::linear", .bytes = 2 * kMiB, .blocks = 2}};
  device.memory.peak_older_bytes = kMiB;
  device.memory.peak_unknown_bytes = kMiB;
  device.peak_by_lifetime = {{.name = "within_step", .bytes = 2 * kMiB, .blocks = 2}};
  device.peak_blocks = {{.bytes = 2 * kMiB,
                         .allocated_ns = 11'000'000,
                         .freed_ns = 12'500'000,
                         .step = 8,
                         .category = "activation",
                         .op = "aten::linear",
                         .module = "Net_0 > Linear_1",
                         .stack = {"nn.Module: Net_0", "aten::linear"}}};
  device.reserved_at_peak_bytes = 4 * kMiB;
  device.peak_reserved_time_ns = 15'000'000;
  device.allocated_at_peak_reserved_bytes = 0;
  device.capacity_bytes = 12 * kMiB;
  device.steps = {{.step = 7, .start_bytes = kMiB, .end_bytes = kMiB, .peak_bytes = 2 * kMiB},
                  {.step = 8, .start_bytes = kMiB, .peak_bytes = 3 * kMiB}};
  device.samples = {Sample(0, kMiB), Sample(12'000'000, kMiB, 2 * kMiB, 4 * kMiB),
                    Sample(15'000'000, 0, 0, 5 * kMiB)};
  return {{device}, {}};
}

std::string RenderedMemory(const report::MemoryReport& report, int64_t limit = 0) {
  return RenderMemory(TwoStepsView(), report, limit, Style{});
}

TEST(RenderMemoryTest, SaysThePeakItsStepAndWhatWasAlive) {
  const std::string text = RenderedMemory(MemoryOfOneDevice());
  EXPECT_THAT(text, HasSubstr("Device cuda:0"));
  EXPECT_THAT(text, HasSubstr("Peak 3.00 MiB at 12.000ms (step 8), 25.00% of 12.0 MiB;"));
  EXPECT_THAT(text, HasSubstr("2 frees (2.00 KiB) were of blocks allocated before the window"));
  EXPECT_THAT(text, HasSubstr("activation"));
  EXPECT_THAT(text, HasSubstr("At the peak, by operator"));
  EXPECT_THAT(text, HasSubstr("66.67%"));
  EXPECT_THAT(text, HasSubstr("(allocated before the window)"));
  EXPECT_THAT(text, HasSubstr("1.500ms"));  // The block lived.
  EXPECT_THAT(text, Not(HasSubstr("by module")));
}

TEST(RenderMemoryTest, SaysHowMuchTheAllocatorHeldUnused) {
  const std::string text = RenderedMemory(MemoryOfOneDevice());
  EXPECT_THAT(text,
              HasSubstr("At the peak: 4.00 MiB reserved at that time, 1.00 MiB (25.00%) of it "
                        "unused."));
  EXPECT_THAT(text, HasSubstr("Reserved most at 15.000ms: 5.00 MiB reserved at that time, 5.00 MiB "
                              "(100.00%) of it unused."));
  report::MemoryReport cpu = MemoryOfOneDevice();
  cpu.devices[0].memory.peak_reserved_bytes = 0;
  EXPECT_THAT(RenderedMemory(cpu), Not(HasSubstr("reserved at that time")));
}

TEST(RenderMemoryTest, TheDeviceThatHeldMostComesFirst) {
  report::MemoryReport report = MemoryOfOneDevice();
  report.devices.insert(report.devices.begin(), report.devices.front());
  report.devices.front().memory.device = "cpu";
  report.devices.front().memory.peak_bytes = 16;
  const std::string text = RenderedMemory(report);
  EXPECT_LT(text.find("Device cuda:0"), text.find("Device cpu"));
}

TEST(RenderMemoryTest, RelativeBytesAreCalledSo) {
  report::MemoryReport report = MemoryOfOneDevice();
  report.devices[0].memory.relative = true;
  EXPECT_THAT(RenderedMemory(report),
              AllOf(HasSubstr("Relative to the window start:"), Not(HasSubstr("of 12.0 MiB"))));
}

TEST(RenderMemoryTest, GrowthIsToldFromThreeStepsOn) {
  report::MemoryReport report = MemoryOfOneDevice();
  EXPECT_THAT(RenderedMemory(report), Not(HasSubstr("per step")));
  report.devices[0].growth = {.step_count = 5,
                              .rising_count = 4,
                              .bytes_per_step = 3 * kMiB,
                              .suspects_by_op = {{"aten::cat", 12 * kMiB, 4}}};
  EXPECT_THAT(RenderedMemory(report),
              AllOf(HasSubstr("Grows by 3.00 MiB per step: 4 of 4 steps ended with more"),
                    HasSubstr("Left by all steps but the last"), HasSubstr("aten::cat"),
                    Not(HasSubstr("by line"))));
  report.devices[0].growth.suspects_by_source = {{"train.py(7): step", 12 * kMiB, 4}};
  EXPECT_THAT(RenderedMemory(report), AllOf(HasSubstr("Left by all steps but the last, by line"),
                                            HasSubstr("train.py(7): step")));
  report.devices[0].growth.bytes_per_step = -kMiB;
  EXPECT_THAT(RenderedMemory(report), HasSubstr("Shrinks by 1.00 MiB per step"));
  report.devices[0].growth.bytes_per_step = 0;
  EXPECT_THAT(RenderedMemory(report), HasSubstr("Steady from step to step"));
}

TEST(RenderMemoryTest, CategoriesOverTheWindowAreThereWhereOneIsKnown) {
  report::MemoryReport report = MemoryOfOneDevice();
  auto& categories = report.devices[0].memory.categories;
  categories = {{.name = "unknown", .peak_bytes = 1, .byte_seconds = 1, .block_count = 1}};
  EXPECT_THAT(RenderedMemory(report), Not(HasSubstr("Over the window")));
  categories.push_back(
      {.name = "parameter", .peak_bytes = 4096, .byte_seconds = 1024, .block_count = 1200});
  EXPECT_THAT(RenderedMemory(report), AllOf(HasSubstr("Over the window, by category"),
                                            HasSubstr("99.90%"), HasSubstr("1,200")));
}

TEST(RenderMemoryTest, TablesKeepToTheirLimitAndSaySo) {
  report::MemoryReport report = MemoryOfOneDevice();
  report.devices[0].memory.peak_by_op = {{"a", 3, 1}, {"b", 2, 1}, {"c", 1, 1}};
  EXPECT_THAT(RenderedMemory(report, 2), HasSubstr("(2 more rows: --limit 0)"));
  EXPECT_THAT(RenderedMemory(report, 0), Not(HasSubstr("more row")));
}

TEST(RenderMemoryTest, FailedAllocationsComeFirstWithWhatTheDeviceHeld) {
  report::MemoryReport report;
  report::FailedAllocation& first = report.out_of_memory.emplace_back();
  first.asked.time_ns = 12'000'000;
  first.asked.device = "cuda:\x1b[0m";
  first.asked.bytes = 2 * kMiB;
  first.step = 8;
  first.allocated_bytes = 7 * kMiB;
  first.reserved_bytes = 9 * kMiB;
  first.capacity_bytes = 10 * kMiB;
  first.op = "aten::conv2d";
  report::FailedAllocation& second = report.out_of_memory.emplace_back();
  second.asked.time_ns = 99'000'000'000;
  second.asked.device = "cuda:1";
  second.asked.bytes = 5;
  const std::string text = RenderedMemory(report);
  EXPECT_THAT(text, StartsWith("Out of memory: 2.00 MiB on cuda:"));
  EXPECT_THAT(text, HasSubstr("at 12.000ms (step 8), asked for in aten::conv2d; 7.00 MiB were "
                              "allocated, 9.00 MiB reserved of 10.0 MiB\n"));
  EXPECT_THAT(text, HasSubstr("5 B on cuda:1 at 99.000s\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("No memory events"));
  EXPECT_THAT(RenderedMemory(report, 1), HasSubstr("(1 more: --limit 0)"));
}

TEST(RenderMemoryTest, StepsHaveTheirFrameworksNumbers) {
  report::MemoryReport report = MemoryOfOneDevice();
  report.devices[0].steps = {{.step = 7}, {.step = 8}};
  report.devices[0].peak_blocks = {{.bytes = 1, .step = 7, .op = "aten::mm"}};
  report::FailedAllocation& failed = report.out_of_memory.emplace_back();
  failed.asked.time_ns = 12'000'000;
  failed.asked.device = "cuda:0";
  const std::vector<report::StepLabel> labels = {{"global_step", 108, 8}};
  const std::string text = RenderMemory(TwoStepsView(), report, 10, Style{},
                                        report::FrameworkSteps(labels, StepSource::kOptimizer));
  EXPECT_THAT(text, HasSubstr("at 12.000ms, step 8 (global step 108)\n"));
  EXPECT_THAT(text, HasSubstr("\n7 (global step 107) "));
  EXPECT_THAT(text, HasSubstr("\n8 (global step 108) "));
}

TEST(RenderMemoryTest, WithoutEventsItSaysHowToGetSome) {
  EXPECT_THAT(RenderedMemory({}),
              AllOf(HasSubstr("profd_alloc"), HasSubstr("profile_memory=True")));
}

// ---- the plot ----

TEST(PlotMemoryTest, OfOneLayerEveryColumnShowsItsHighestAndAValueHoldsUntilTheNext) {
  const std::string plot = PlotMemory(
      {Sample(0, 50), Sample(500, 100), Sample(501, 0), Sample(900, 50)}, 1000, 10, 1, Style{});
  EXPECT_THAT(plot, HasSubstr("│▄▄▄▄▄█   ▄\n"));
}

TEST(PlotMemoryTest, LayersAreStackedLettersWithALegend) {
  const std::string plot =
      PlotMemory({Sample(0, 100, 0, 400), Sample(500, 100, 200, 400)}, 1000, 4, 4, Style{});
  EXPECT_THAT(plot, HasSubstr("│----\n"));
  EXPECT_THAT(plot, HasSubstr("│  AA\n"));
  EXPECT_THAT(plot, HasSubstr("│::::\n"));
  EXPECT_THAT(plot, HasSubstr(": before_window  A activation  - reserved\n"));
}

TEST(PlotMemoryTest, WhatIsReservedDoesNotFlattenWhatIsAllocated) {
  const std::string plot =
      PlotMemory({Sample(0, 100, 0, 90'000), Sample(500, 100, 200, 90'000)}, 1000, 4, 4, Style{});
  EXPECT_THAT(plot, HasSubstr("300 B"));
  EXPECT_THAT(plot, Not(HasSubstr("reserved")));
}

TEST(PlotMemoryTest, WithoutUnicodeItIsAscii) {
  Style ascii;
  ascii.unicode = false;
  for (const int64_t activation : {0, 200}) {
    const std::string plot =
        PlotMemory({Sample(0, 100), Sample(500, 100, activation)}, 1000, 10, 4, ascii);
    EXPECT_TRUE(std::all_of(plot.begin(), plot.end(), [](char c) { return c > 0; })) << plot;
    EXPECT_THAT(plot, HasSubstr("+----------"));
  }
}

TEST(PlotMemoryTest, NegativeAndHugeValuesDraw) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const auto& samples : std::vector<std::vector<report::MemorySample>>{
           {Sample(0, -5), Sample(10, -1)},
           {Sample(0, kMax), Sample(kMax, -kMax)},
           {Sample(-kMax, 1), Sample(kMax, 2)},
           {Sample(0, -5, 9), Sample(5, 7, kMax - 7, kMax)},
           {Sample(3, 0)}}) {
    EXPECT_THAT(PlotMemory(samples, 0, 40, 8, Style{}), HasSubstr("└"));
  }
  EXPECT_EQ(PlotMemory({}, 100, 40, 8, Style{}), "");
}

// ---- for scripts ----

TEST(MemoryJsonTest, HasAllOfTheReport) {
  report::MemoryReport report = MemoryOfOneDevice();
  report::FailedAllocation& failed = report.out_of_memory.emplace_back();
  failed.asked.bytes = 9;
  failed.op = "f";
  JsonWriter json;
  WriteMemoryJson(TwoStepsView(), report, json);
  const auto document = nlohmann::json::parse(json.TakeLine());
  const auto& device = document["devices"][0];
  EXPECT_EQ(device["device"], "cuda:0");
  EXPECT_EQ(device["peak_bytes"], 3 * kMiB);
  EXPECT_EQ(device["reserved_at_peak_bytes"], 4 * kMiB);
  EXPECT_EQ(device["points"][1], nlohmann::json::array({12'000'000, 3 * kMiB}));
  ASSERT_EQ(device["sample_columns"].size(), device["samples"][1].size());
  EXPECT_EQ(device["sample_columns"][3], "before_window_bytes");
  EXPECT_EQ(device["samples"][1][2], 4 * kMiB);
  EXPECT_EQ(device["samples"][1][3], kMiB);
  EXPECT_EQ(device["peak_by_op"][0]["name"], "aten::linear");
  EXPECT_EQ(device["peak_blocks"][0]["stack"][1], "aten::linear");
  EXPECT_EQ(device["steps"][1]["peak_bytes"], 3 * kMiB);
  EXPECT_TRUE(device["growth"]["bytes_per_step"].is_null());
  EXPECT_EQ(document["out_of_memory"][0]["bytes"], 9);
  EXPECT_TRUE(document["out_of_memory"][0]["allocated_bytes"].is_null());
  EXPECT_EQ(document["out_of_memory"][0]["op"], "f");
}

TEST(MemoryCsvTest, HasARowPerSampleUnderTheNamesOfColumns) {
  std::string text;
  WriteMemoryCsv(MemoryOfOneDevice(), [&](std::string_view piece) { text += piece; });
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_THAT(line, StartsWith("device,time_ns,allocated_bytes,reserved_bytes,before_window_bytes,"
                               "parameter_bytes,"));
  std::getline(lines, line);
  std::getline(lines, line);
  EXPECT_EQ(line, "cuda:0,12000000,3145728,4194304,1048576,0,0,0,0,0,2097152,0,0");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

}  // namespace
}  // namespace profd::cli
