// Tables and reports for people: what they say, not how wide they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/base/short_names.h"
#include "cli/base/style.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
#include "cli/captures/output_file.h"
#include "cli/render/capture.h"
#include "cli/render/group_view.h"
#include "cli/render/report_tables.h"
#include "cli/render/targets.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/time/compile_report.h"
#include "tests/cli/render/squeezed.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

CaptureView AView() {
  CaptureRecord record;
  record.id = "01J00000000000000000000001";
  record.state = CaptureState::kComplete;
  record.ended_by = EndedBy::kSteps;
  record.spec.steps = 2;
  record.target.pid = 4711;
  record.target.command = "python3 train.py";
  record.start_unix_ns = 1'790'000'001'000'000'123;
  record.covered_ns = 20'000'000;
  record.covered_steps = 2;
  record.windows = {{.start_ns = 0, .end_ns = 20'000'000, .first_step = 7, .end_step = 9}};
  record.event_count = 990;
  record.file_bytes = 100;
  record.step_before_ns = 10'000'000;
  record.step_during_ns = 10'500'000;
  record.slowdown = {.known = true,
                     .estimate = 0.02,
                     .low = -0.01,
                     .high = 0.05,
                     .before_step_count = 43,
                     .during_step_count = 2,
                     .after_step_count = 20};
  return ViewOf(record,
                {{.index = 7, .window = 0, .start_ns = 0, .duration_ns = 10'000'000},
                 {.index = 8, .window = 0, .start_ns = 10'000'000, .duration_ns = 10'000'000}});
}

// ---- units ----

TEST(UnitsTest, TimesAreWrittenAsTorchDoes) {
  EXPECT_EQ(FormatNs(0), "0.000us");
  EXPECT_EQ(FormatNs(12'345), "12.345us");
  EXPECT_EQ(FormatNs(1'234'567), "1.235ms");
  EXPECT_EQ(FormatNs(1'234'567'890), "1.235s");
  EXPECT_EQ(FormatNs(-1'500), "-1.500us");
}

TEST(UnitsTest, BytesCountIn1024AndKeepTheirSign) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(-1536), "-1.50 KiB");
  EXPECT_EQ(FormatBytes((int64_t{1} << 30) - 1), "1.00 GiB");
  EXPECT_EQ(FormatBytes(int64_t{12} << 30), "12.0 GiB");
}

TEST(UnitsTest, CountsAreGroupedByThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
}

TEST(UnitsTest, SharesOfNothingAreNotNumbers) {
  EXPECT_EQ(FormatPercent(1, 8), "12.50%");
  EXPECT_EQ(FormatPercent(1, 0), "-");
}

TEST(UnitsTest, AgesHaveTwoUnitsAtMost) {
  EXPECT_EQ(FormatAge(absl::Seconds(5)), "5s");
  EXPECT_EQ(FormatAge(absl::Seconds(3600)), "1h");
  EXPECT_EQ(FormatAge(absl::Seconds(90061)), "1d 1h");
  EXPECT_EQ(FormatAge(-absl::Seconds(5)), "0s");
}

// ---- widths ----

TEST(WidthTest, WideAndCombiningCharactersCountAsTheyShow) {
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("é"), 1);
  EXPECT_EQ(DisplayWidth("e\xCC\x81"), 1);
  EXPECT_EQ(DisplayWidth("層正規化"), 8);
}

TEST(WidthTest, CuttingNeverSplitsACharacter) {
  EXPECT_EQ(CutToWidth("abcdef", 6), "abcdef");
  EXPECT_EQ(CutToWidth("abcdef", 4), "abc…");
  EXPECT_EQ(CutToWidth("層正規化", 4), "層…");
  EXPECT_EQ(CutToWidth("abc", 0), "");
}

Table NarrowTable() {
  Table table({{.title = "Name", .right = false, .flexible = true},
               {.title = "Rare", .drop_order = 2},
               {.title = "Often", .drop_order = 1},
               {.title = "Always"}});
  table.AddRow({std::string(200, 'n'), "1", "2", "3"});
  table.AddRow({"x\x1b[31m\ny", "10", "20", "30"});
  return table;
}

TEST(TableTest, OnATerminalEveryLineFits) {
  for (int width = 30; width < 240; width += 7) {
    const Style style{.is_terminal = true, .width = width, .colour = false};
    for (const std::string& line : Squeezed(NarrowTable().Render(style))) {
      EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width));
      EXPECT_THAT(line, Not(HasSubstr("\x1b")));
    }
  }
}

TEST(TableTest, TheLeastImportantColumnGoesFirst) {
  const Style style{.is_terminal = true, .width = 36, .colour = false};
  const std::string text = NarrowTable().Render(style);
  EXPECT_THAT(text, Not(HasSubstr("Rare")));
  EXPECT_THAT(text, HasSubstr("Always"));
  EXPECT_THAT(text, HasSubstr("…"));
}

TEST(TableTest, ElsewhereNothingIsLeftOutAndColumnsStayAligned) {
  const std::string text = NarrowTable().Render(Style{});
  EXPECT_THAT(text, HasSubstr("Rare"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  for (const std::string& line : Squeezed(text)) {
    EXPECT_LE(DisplayWidth(line), Table::kLongestName + 30);
  }
  std::istringstream lines(text);
  std::string line;
  std::set<size_t> widths;
  while (std::getline(lines, line)) widths.insert(DisplayWidth(line));
  EXPECT_EQ(widths.size(), 1u) << text;
}

// ---- short names ----

TEST(ShortNamesTest, ACutIsInTheMiddle) {
  EXPECT_EQ(CutMiddle("abcdefghij", 10, 3), "abcdefghij");
  EXPECT_EQ(CutMiddle("abcdefghij", 8, 3), "abcd…hij");
  EXPECT_EQ(CutMiddle("abcdefghij", 3, 3), "ab…");
  EXPECT_EQ(CutMiddle("層正規化層正規化", 9, 4), "層正…規化");
}

TEST(ShortNamesTest, ACommandIsItsScript) {
  for (const auto& [command, expected] : std::vector<std::pair<std::string, std::string>>{
           {"/usr/bin/python3 /job/train.py --lr 1", "train.py --lr 1"},
           {"python3.13t -u -X dev train.py", "train.py"},
           {"/opt/venv/bin/python -m torch.distributed.run --nproc 8 /job/train.py",
            "torch.distributed.run --nproc 8 /job/train.py"},
           {"python3 -c import time", "python3 -c import time"},
           {"/usr/local/bin/python3", "python3"},
           {"./simulate /data/in", "simulate /data/in"},
           {"/usr/bin/pythonic a", "pythonic a"},
           {"", ""}}) {
    EXPECT_EQ(ShortCommand(command), expected);
  }
}

TEST(ShortNamesTest, DifferentNamesStayDifferent) {
  std::vector<std::string> names;
  for (const char* tile : {"64x64x32", "128x64x32", "128x128x32"}) {
    for (const char* type : {"f16f16", "bf16bf16"}) {
      names.push_back("sm90_xmma_gemm_" + std::string(type) + "_f32f32_f32_tn_n_tilesize" + tile +
                      "_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas");
    }
  }
  names.push_back(names[0]);
  names.push_back("short");
  for (size_t width = 16; width < 120; ++width) {
    const std::vector<std::string> texts = ShortenNames(names, width);
    ASSERT_EQ(texts.size(), names.size());
    std::map<std::string, std::string> name_of;
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_LE(DisplayWidth(texts[i]), width);
      EXPECT_EQ(name_of.try_emplace(texts[i], names[i]).first->second, names[i]) << texts[i];
    }
    EXPECT_EQ(texts.back(), "short");
  }
}

// ---- operators ----

report::OpProfile TwoOps() {
  report::OpProfile ops = {.self_cpu_total_ns = 100'000};
  ops.rows.resize(2);
  report::OpProfileRow& mm = ops.rows[0];
  mm.name = "aten::mm";
  mm.calls = 3;
  mm.self_cpu_ns = 75'000;
  mm.self_cpu_share = 0.75;
  mm.cpu_total_ns = 90'000;
  mm.min_ns = 20'000;
  mm.max_ns = 40'000;
  report::OpProfileRow& loss = ops.rows[1];
  loss.name = "loss";
  loss.calls = 1;
  loss.self_cpu_ns = loss.cpu_total_ns = loss.min_ns = loss.max_ns = 25'000;
  loss.self_cpu_share = 0.25;
  return ops;
}

std::string Rendered(const report::OpProfile& ops, const Style& style = Style{}) {
  return RenderReport(report::ToReport(ops), style);
}

TEST(RenderOpsTest, HasTheColumnsAndTheFooterOfTorch) {
  const std::vector<std::string> lines = Squeezed(Rendered(TwoOps()));
  ASSERT_EQ(lines.size(), 5);
  EXPECT_EQ(lines[0], "Name Self CPU % Self CPU CPU total CPU time avg CPU max # of Calls");
  EXPECT_EQ(lines[2], "aten::mm 75.00% 75.000us 90.000us 30.000us 40.000us 3");
  EXPECT_EQ(lines[3], "loss 25.00% 25.000us 25.000us 25.000us 25.000us 1");
  EXPECT_EQ(lines[4], "Self CPU time total: 100.000us");
}

TEST(RenderOpsTest, RowsThatALimitLeftOutAreCounted) {
  table::Report report = report::ToReport(TwoOps());
  report.tables[0].row_count = 1002;
  EXPECT_THAT(RenderReport(report, Style{}), HasSubstr("1,000 more rows"));
}

TEST(RenderOpsTest, SharesAreMarkedAndThenWithheldAsMoreIsLost) {
  CaptureView view = AView();
  view.record.event_count = 1'000;
  view.dropped_event_count = 0;
  EXPECT_THAT(Rendered(TwoOps(), StyleFor(view, Style{})), Not(HasSubstr("~")));
  view.dropped_event_count = 20;
  EXPECT_THAT(Rendered(TwoOps(), StyleFor(view, Style{})), HasSubstr("~"));
  EXPECT_THAT(RenderReportHeader(view, Style{}), HasSubstr("begin with ~"));
  view.dropped_event_count = 200;
  const std::string text = Rendered(TwoOps(), StyleFor(view, Style{}));
  EXPECT_THAT(text.substr(text.find('\n')), Not(HasSubstr("%")));  // But for the titles.
  JsonWriter json;
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.EndObject();
  EXPECT_THAT(json.TakeLine(), HasSubstr("\"shares\":\"withheld\""));
}

TEST(StyleTest, AShareOfNothingIsNoneHoweverMuchWasLost) {
  Style style;
  EXPECT_EQ(style.Share("12.50%"), "12.50%");
  style.shares = ShareTrust::kMarked;
  EXPECT_EQ(style.Share("12.50%"), "~12.50%");
  EXPECT_EQ(style.Share("-"), "-");
  style.shares = ShareTrust::kWithheld;
  EXPECT_EQ(style.Share("12.50%"), "-");
}

TEST(RenderOpsTest, WithoutRangesItSaysHowToGetSome) {
  const std::string text = Rendered({});
  EXPECT_THAT(text, HasSubstr("annotate"));
}

report::OpProfile TwoOpsOfAGpu() {
  report::OpProfile ops = TwoOps();
  ops.has_device = true;
  ops.self_device_total_ns = 400'000;
  ops.unattributed_device_ns = 100'000;
  ops.busy_device_ns = 350'000;
  ops.rows[0].share = 0.625;
  ops.rows[0].self_device_ns = 200'000;
  ops.rows[0].self_device_share = 0.5;
  ops.rows[0].device_total_ns = 300'000;
  ops.rows[0].busy_device_ns = 250'000;
  return ops;
}

TEST(RenderOpsTest, GpuColumnsAreThereWhereThereWasAGpu) {
  report::OpProfile ops = TwoOpsOfAGpu();
  const std::vector<std::string> lines = Squeezed(Rendered(ops));
  ASSERT_EQ(lines.size(), 6);
  EXPECT_EQ(lines[0],
            "Name CUDA busy Busy % Self CUDA Self CUDA % CUDA total Self CPU % Self CPU CPU total "
            "CPU time avg CPU max # of Calls");
  EXPECT_EQ(lines[2],
            "aten::mm 250.000us 62.50% 200.000us 50.00% 300.000us 75.00% 75.000us 90.000us "
            "30.000us 40.000us 3");
  EXPECT_EQ(lines[5],
            "Self CUDA time total: 400.000us, of which 100.000us launched outside any range or by "
            "no call in the capture; CUDA busy: 350.000us");
  ops.is_simulated = true;
  EXPECT_THAT(Rendered(ops), HasSubstr("Self CUDA time total: 400.000us (simulated)"));
}

TEST(RenderOpsTest, ByInputsTheyStandBesideTheName) {
  report::OpProfile ops = TwoOps();
  ops.rows[0].dims = "[[64,64],[64,64]]";
  ops.rows[0].types = R"(["float","float"])";
  const std::vector<std::string> lines = Squeezed(Rendered(ops));
  EXPECT_THAT(lines[0], StartsWith("Name Input shapes Input types Self CPU %"));
  EXPECT_THAT(lines[2], StartsWith(R"(aten::mm [[64,64],[64,64]] ["float","float"] 75.00%)"));
  EXPECT_THAT(lines[3], StartsWith("loss - - 25.00%"));
}

TEST(RenderOpsTest, OnATerminalLongInputsAreCutAndCleaned) {
  report::OpProfile ops = TwoOps();
  ops.rows[0].dims = "\x1b[31m" + std::string(5000, '7');
  const std::string text = Rendered(ops, Style{.is_terminal = true, .width = 400, .colour = false});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr(std::string(60, '7'))));
  EXPECT_THAT(text, HasSubstr(std::string(20, '7')));
}

TEST(RenderOpsTest, MemoryColumnsAreThereWhereAllocatorsWereRecorded) {
  report::OpProfile ops = TwoOps();
  ops.has_memory = true;
  ops.rows[0].cpu_memory_bytes = 4096;
  ops.rows[0].self_cpu_memory_bytes = -1024;
  std::vector<std::string> lines = Squeezed(Rendered(ops));
  EXPECT_EQ(lines[0],
            "Name Self CPU % Self CPU CPU total CPU time avg CPU max CPU Mem Self CPU Mem "
            "# of Calls");
  EXPECT_THAT(lines[2], EndsWith("40.000us 4.00 KiB -1.00 KiB 3"));
  ops.rows[1].device_memory_bytes = 1024;
  ops.rows[1].self_device_memory_bytes = 512;
  lines = Squeezed(Rendered(ops));
  EXPECT_THAT(lines[0], EndsWith("CPU Mem Self CPU Mem CUDA Mem Self CUDA Mem # of Calls"));
  EXPECT_THAT(lines[3], EndsWith("0 B 0 B 1.00 KiB 512 B 1"));
}

TEST(ReportHeaderTest, ASimulatedGpuIsCalledSo) {
  CaptureView view = AView();
  EXPECT_THAT(RenderReportHeader(view, Style{}), Not(HasSubstr("simulated")));
  view.record.gpu.simulated = true;
  EXPECT_THAT(RenderReportHeader(view, Style{}), HasSubstr("simulated GPU"));
  JsonWriter json;
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.EndObject();
  EXPECT_EQ(nlohmann::json::parse(json.TakeLine())["simulated"], true);
}

// ---- steps ----

TEST(RenderStepsTest, ShowsOutliersAndTheSpread) {
  report::StepTable table;
  table.rows = {{.index = 7, .duration_ns = 10'000'000, .vs_median = 1},
                {.index = 8,
                 .start_ns = 10'000'000,
                 .duration_ns = 30'000'000,
                 .vs_median = 3,
                 .outlier = true}};
  table.min_ns = table.median_ns = 10'000'000;
  table.mean_ns = 20'000'000;
  table.max_ns = 30'000'000;
  table.outlier_threshold_ns = 12'000'000;
  const std::vector<std::string> lines = Squeezed(RenderReport(report::ToReport(table), Style{}));
  EXPECT_EQ(lines[3], "8 10.000ms 30.000ms 300.00% yes");
  EXPECT_EQ(lines[4], "2 steps: min 10.000ms, median 10.000ms, mean 20.000ms, max 30.000ms");
  EXPECT_EQ(lines[5], "1 outlier (above 12.000ms)");
}

TEST(RenderStepsTest, WhatAFrameworkCalledThemIsToldByStep) {
  report::StepTable table;
  table.rows = {{.index = 7, .duration_ns = 10'000'000}};
  table.labels = {
      {"epoch", 0, report::kBeforeFirstStep}, {"epoch", 3, 57}, {"global\n_step", 1200, 57}};
  EXPECT_THAT(RenderReport(report::ToReport(table), Style{}),
              HasSubstr("\nThe framework's count: epoch 0 before the first step; "
                        "epoch 3, global?_step 1200 when step 57 had begun\n"));
  table.rows.clear();
  EXPECT_THAT(RenderReport(report::ToReport(table), Style{}), HasSubstr("epoch 3"));
}

TEST(RenderStepsTest, WithoutAFrameworkNothingIsSaidOfOne) {
  report::StepTable table;
  table.rows = {{.index = 7, .duration_ns = 10'000'000}};
  EXPECT_THAT(RenderReport(report::ToReport(table), Style{}), Not(HasSubstr("framework")));
}

TEST(RenderStepsTest, ACaptureByTimeHasNone) {
  EXPECT_THAT(RenderReport(report::ToReport(report::StepTable()), Style{}),
              HasSubstr("No complete step"));
}

// ---- compiled code ----

report::CompileReport ACompileReport() {
  report::CompileReport report;
  report.has_compiled = true;
  report.regions = {{.id = "0/0", .code = "train.py:10 in f", .calls = 5, .total_ns = 50'000},
                    {.id = "1/0", .after_graph_break = true, .calls = 4, .total_ns = 40'000}};
  report.graph_breaks = {{.where = "train.py:12 in f", .reason = "builtin: print", .count = 2}};
  report.recompiles = {
      {.where = "train.py:10 in f", .reason = "size mismatch", .count = 1, .compile_ns = -1}};
  report.steps = {{.step = -1, .regions = 1},
                  {.step = 7,
                   .regions = 2,
                   .after_breaks = 1,
                   .compilations = 1,
                   .compile_ns = 9'000'000,
                   .cache_lookups = 3,
                   .cache_lookup_ns = 4'000}};
  report.folded_event_count = 1700;
  return report;
}

TEST(RenderCompileTest, HasATableForEachPart) {
  const std::vector<std::string> lines =
      Squeezed(RenderReport(report::ToReport(ACompileReport()), Style{}));
  EXPECT_THAT(lines, Contains("0/0 train.py:10 in f 5 50.000us"));
  EXPECT_THAT(lines, Contains("1/0 - 4 40.000us yes"));
  EXPECT_THAT(lines, Contains("train.py:12 in f builtin: print 2"));
  EXPECT_THAT(lines, Contains("train.py:10 in f size mismatch 1 -"));
  EXPECT_THAT(lines, Contains("- 1 0 0 0.000us 0 0.000us"));
  EXPECT_THAT(lines, Contains("7 2 1 1 9.000ms 3 4.000us"));
  EXPECT_EQ(lines.back(), "1,700 events inside compilations were left out.");
  table::Report report = report::ToReport(ACompileReport());
  ASSERT_THAT(table::Apply({.limit = 1}, report.tables[0]), IsOk());
  EXPECT_THAT(RenderReport(report, Style{}), HasSubstr("(1 more row: --limit 0)"));
}

TEST(RenderCompileTest, WhereNothingWasCompiledItSaysSo) {
  EXPECT_THAT(RenderReport(report::ToReport(report::CompileReport()), Style{}),
              HasSubstr("No torch.compile activity was recorded"));
}

// ---- captures ----

// ---- a capture's GPU ----

CaptureView AGpuView() {
  CaptureView view = AView();
  view.record.gpu = {.outcome = GpuOutcome::kRecorded,
                     .mode = GpuMode::kDefault,
                     .cupti_version = 130'001,
                     .devices = {{.number = 0, .name = "NVIDIA H200", .uuid = "GPU-00"},
                                 {.number = 1, .name = "NVIDIA H200"}},
                     .record_count = 12'345,
                     .orphan_count = 7,
                     .straddling_count = 2};
  return view;
}

TEST(RenderCaptureTest, SaysWhatBecameOfTheGpu) {
  CaptureView view = AGpuView();
  view.record.gpu.kind_failures = {{.kind = "graph_trace", .result = "CUPTI_ERROR_X (27)"}};
  const std::string text = RenderCapture(view, Style{});
  EXPECT_THAT(text, HasSubstr("default: 2 devices (NVIDIA H200), 12,345 records"));
  EXPECT_THAT(text, HasSubstr("7 launched outside the capture, 2 over the window's edge"));
  EXPECT_THAT(text, HasSubstr("not recorded: graph_trace (CUPTI_ERROR_X (27))"));
  EXPECT_THAT(text, Not(HasSubstr("simulated")));
}

TEST(RenderCaptureTest, SaysThatTheGpuIsSimulatedWhereverItShowsTheCapture) {
  CaptureView view = AGpuView();
  view.record.gpu.simulated = true;
  EXPECT_THAT(RenderCapture(view, Style{}), HasSubstr("simulated, default: 2 devices"));
  const std::vector<CaptureView> views = {view};
  EXPECT_THAT(RenderCaptureTable(views, absl::Now(), Style{}), HasSubstr("(simulated GPU)"));
  EXPECT_THAT(RenderGroupTable(views, Style{}), HasSubstr("(simulated GPU)"));
}

TEST(RenderCaptureTest, AnImportWithoutANameIsListedByItsFile) {
  CaptureRecord record;
  record.imported.source = "rank0.json.gz";
  const std::vector<CaptureView> unnamed = {ViewOf(record, {})};
  EXPECT_THAT(RenderCaptureTable(unnamed, absl::Now(), Style{}), HasSubstr("rank0.json.gz"));
  record.spec.display_name = "before";
  record.spec.labels = {{"k", "v"}, {"run", "a b"}};
  const std::vector<CaptureView> named = {ViewOf(record, {})};
  EXPECT_THAT(RenderCaptureTable(named, absl::Now(), Style{}),
              AllOf(HasSubstr("  k=v, run=a b  before"), Not(HasSubstr("rank0.json.gz"))));
}

TEST(RenderCaptureTest, SaysWhatWentWrongWithTheGpu) {
  CaptureView view = AGpuView();
  view.record.gpu.outcome = GpuOutcome::kBroken;
  view.record.gpu.problem = "another tool took CUPTI over";
  const std::string text = RenderCapture(view, Style{});
  EXPECT_THAT(text, HasSubstr("broken, default: 2 devices"));
  EXPECT_THAT(text, HasSubstr("another tool took CUPTI over"));
  view.record.gpu.outcome = GpuOutcome::kUnknown;
  EXPECT_THAT(RenderCapture(view, Style{}), Not(HasSubstr("records")));
  view.record.gpu = {.outcome = GpuOutcome::kNoCuda};
  EXPECT_THAT(RenderCapture(view, Style{}), HasSubstr("the process uses no CUDA"));
  view.record.gpu = {};
  EXPECT_THAT(RenderCapture(view, Style{}), Not(HasSubstr("GPU")));
}

TEST(RenderCaptureTest, JsonTellsOfTheGpuAndWhetherItIsSimulated) {
  CaptureView view = AGpuView();
  view.record.spec.gpu.mode = GpuMode::kDefault;
  view.record.spec.step_marker = "train";
  JsonWriter writer;
  WriteCaptureJson(view, "", writer);
  const auto json = nlohmann::json::parse(writer.TakeLine());
  EXPECT_EQ(json["simulated"], false);
  EXPECT_EQ(json["spec"]["gpu"]["mode"], "default");
  EXPECT_EQ(json["spec"]["step_marker"], "train");
  EXPECT_EQ(json["gpu"]["outcome"], "recorded");
  EXPECT_EQ(json["gpu"]["record_count"], 12'345);
  EXPECT_EQ(json["gpu"]["orphan_count"], 7);
  EXPECT_EQ(json["gpu"]["devices"].size(), 2u);
  EXPECT_EQ(json["gpu"]["devices"][0]["uuid"], "GPU-00");
  view.record.gpu.simulated = true;
  WriteCaptureJson(view, "", writer);
  const auto simulated = nlohmann::json::parse(writer.TakeLine());
  EXPECT_EQ(simulated["simulated"], true);
  EXPECT_EQ(simulated["gpu"]["simulated"], true);
}

TEST(RenderCaptureTest, SaysWhatOfTorchWasRecordedAndWhyNotTheRest) {
  CaptureView view = AView();
  view.record.spec.torch.step_source = StepSource::kOptimizer;
  view.record.torch = {.outcome = TorchOutcome::kLimited,
                       .operators = OperatorMode::kShapes,
                       .memory = true,
                       .version = "2.6.0",
                       .missing = {{.feature = "strides", .reason = "not found in this torch"}},
                       .step_source = StepSource::kOptimizer,
                       .operator_count = 12'345,
                       .folded_count = 40,
                       .cut_input_count = 3};
  const std::string text = RenderCapture(view, Style{});
  EXPECT_THAT(text, HasSubstr("2.6.0, limited, 12,345 operators with shapes, memory"));
  EXPECT_THAT(text, HasSubstr("40 inside of compilations left out, 3 without all of their inputs"));
  EXPECT_THAT(text, HasSubstr("not recorded: strides (not found in this torch)"));
  EXPECT_THAT(text, HasSubstr("2 steps (7 to 8) from optimizer, 20.000ms"));
  EXPECT_THAT(text, HasSubstr("steps from optimizer"));
}

TEST(RenderCaptureTest, WithoutTorchItSaysSoOnlyToWhomAskedForIt) {
  CaptureView view = AView();
  view.record.torch.outcome = TorchOutcome::kNoTorch;
  EXPECT_THAT(RenderCapture(view, Style{}), Not(HasSubstr("PyTorch")));
  view.record.spec.torch.memory = true;
  EXPECT_THAT(RenderCapture(view, Style{}), HasSubstr("not recorded: no PyTorch"));
  view.record.torch.outcome = TorchOutcome::kUnknown;
  EXPECT_THAT(RenderCapture(view, Style{}), HasSubstr("unknown"));
}

TEST(RenderCaptureTest, JsonTellsOfTorch) {
  CaptureView view = AView();
  view.record.spec.torch = {.operators = OperatorMode::kNames, .memory = true};
  view.record.torch = {.outcome = TorchOutcome::kLimited,
                       .operators = OperatorMode::kNames,
                       .missing = {{.feature = "steps", .reason = "why"}},
                       .step_source = StepSource::kMarks,
                       .block_count = 9};
  JsonWriter writer;
  WriteCaptureJson(view, "", writer);
  const auto json = nlohmann::json::parse(writer.TakeLine());
  EXPECT_EQ(json["spec"]["torch"]["operators"], "names");
  EXPECT_EQ(json["spec"]["torch"]["memory"], true);
  EXPECT_EQ(json["spec"]["torch"]["step_source"], "none");
  EXPECT_EQ(json["torch"]["outcome"], "limited");
  EXPECT_EQ(json["torch"]["missing"][0]["reason"], "why");
  EXPECT_EQ(json["torch"]["step_source"], "marks");
  EXPECT_EQ(json["torch"]["block_count"], 9);
}

TEST(RenderCaptureTest, SaysWhatWasAskedCoveredAndHowFarToTrustIt) {
  const std::string text = RenderCapture(AView(), Style{});
  EXPECT_THAT(text, HasSubstr("01J00000000000000000000001  COMPLETE (steps)"));
  EXPECT_THAT(text, HasSubstr("2 steps (7 to 8), 20.000ms"));
  EXPECT_THAT(text, HasSubstr("10.500ms in the window (median), 10.000ms before"));
  EXPECT_THAT(text, HasSubstr("Quality A: no events were lost"));
}

TEST(RenderQualityTest, LossesAreCountedByCauseWithARemedy) {
  CaptureView view = AView();
  view.quality = "B";
  view.dropped_event_count = 10;
  view.dropped_by_reason = {{"no_chunk", 9}, {"made_up_by_a_newer_profd", 1}};
  const std::string text = RenderQuality(view, Style{});
  EXPECT_THAT(text, HasSubstr("10 of 1,000 events were lost (1.00%)"));
  EXPECT_THAT(text, HasSubstr("no_chunk 9: capture memory was full: raise --buffer"));
  EXPECT_THAT(text, HasSubstr("made_up_by_a_newer_profd 1\n"));
}

TEST(RenderCaptureTest, ASlowDownIsToldWithItsNoise) {
  CaptureView view = AView();
  EXPECT_THAT(RenderCapture(view, Style{}),
              HasSubstr("+2.0 % (-1.0 … +5.0 %), within noise; 2 steps, compared with 43 before "
                        "and 20 after"));
  view.record.slowdown = {.unknown_reason = "the process has no steps"};
  const std::string text = RenderCapture(view, Style{});
  EXPECT_THAT(text, HasSubstr("unknown: the process has no steps"));
  EXPECT_EQ(ViewOf(view.record, {}).quality, "B");
}

TEST(RenderQualityTest, TheHeadlineOfAnImportHasTheReasonOfItsGrade) {
  CaptureRecord record = AView().record;
  record.imported.source = "rank0.json.gz";
  record.graded = {
      .grade = "B",
      .checks = {{.name = "loss", .grade = 'B', .sentence = "imported trace: event loss unknown"}}};
  EXPECT_EQ(RenderQuality(ViewOf(record, {}), Style{}),
            "Quality B: imported trace: event loss unknown\n");
  record.graded.grade = "D";
  record.graded.checks.push_back(
      {.name = "silent_launches", .grade = 'D', .sentence = "60 of 60 launches have no GPU work"});
  record.graded.checks.push_back(
      {.name = "inversions", .grade = 'C', .sentence = "3 kernels begin before their launch"});
  EXPECT_EQ(RenderQuality(ViewOf(record, {}), Style{}),
            "Quality D: 60 of 60 launches have no GPU work\n"
            "  3 kernels begin before their launch\n");
}

TEST(RenderQualityTest, TheStoredGradeIsShownWithItsReasons) {
  CaptureRecord record = AView().record;
  record.graded = {.grade = "C",
                   .checks = {{.name = "orphans", .grade = 'C', .sentence = "stored reason"}}};
  const CaptureView view = ViewOf(record, {});
  const std::string text = RenderQuality(view, Style{});
  EXPECT_THAT(text, HasSubstr("Quality C"));
  EXPECT_THAT(text, HasSubstr("stored reason"));
  EXPECT_THAT(text, Not(HasSubstr("graded now")));
  JsonWriter json;
  WriteCaptureJson(view, "", json);
  const auto parsed = nlohmann::json::parse(json.TakeLine());
  EXPECT_EQ(parsed["quality"], "C");
  EXPECT_EQ(parsed["quality_stored"], true);
  EXPECT_EQ(parsed["quality_checks"][0]["sentence"], "stored reason");
  EXPECT_EQ(parsed["slowdown"]["high"], 0.05);
}

TEST(RenderQualityTest, AGradeThatIsNotStoredIsMarkedSo) {
  EXPECT_THAT(RenderQuality(AView(), Style{}),
              HasSubstr("Quality A: no events were lost (graded now: an older profd stored no "
                        "grade)"));
}

TEST(RenderQualityTest, PartialSaysWhy) {
  CaptureView view = AView();
  view.record.state = CaptureState::kPartial;
  view.state = "PARTIAL";
  view.ended_by = "byte_cap";
  EXPECT_THAT(RenderQuality(view, Style{}), HasSubstr("PARTIAL, ended by byte_cap: "));
}

TEST(RenderQualityTest, ColourIsOnlyForTerminals) {
  EXPECT_THAT(RenderQuality(AView(), Style{}), Not(HasSubstr("\033")));
  EXPECT_THAT(RenderQuality(AView(), Style{.is_terminal = true, .width = 80, .colour = true}),
              HasSubstr("\033[32m"));
}

TEST(CaptureJsonTest, HasTheFieldsThatScriptsRelyOn) {
  JsonWriter json;
  WriteCaptureJson(AView(), "/tmp/x.json", json);
  const auto parsed = nlohmann::json::parse(json.TakeLine());
  EXPECT_EQ(parsed["id"], "01J00000000000000000000001");
  EXPECT_EQ(parsed["state"], "COMPLETE");
  EXPECT_EQ(parsed["ended_by"], "steps");
  EXPECT_EQ(parsed["start_unix_ns"].get<int64_t>(), 1'790'000'001'000'000'123);
  EXPECT_EQ(
      parsed["steps"][1],
      (nlohmann::json{
          {"index", 8}, {"window", 0}, {"start_ns", 10'000'000}, {"duration_ns", 10'000'000}}));
  EXPECT_EQ(parsed["event_count"], 990);
  EXPECT_EQ(parsed["dropped_event_count"], 0);
  EXPECT_EQ(parsed["path"], "/tmp/x.json");
}

// ---- targets ----

TEST(RenderTargetsTest, ChildrenStandBelowTheirParentsAndCirclesEnd) {
  std::vector<TargetInfo> targets(4);
  targets[0] = {.pid = 20, .parent_pid = 10, .command = "child"};
  targets[1] = {.pid = 10, .parent_pid = 1, .command = "parent"};
  targets[2] = {.pid = 30, .parent_pid = 31, .command = "ring a"};
  targets[3] = {.pid = 31, .parent_pid = 30, .command = "ring b"};
  const std::vector<std::string> lines = Squeezed(RenderTargets(targets, Style{}));
  ASSERT_EQ(lines.size(), 6);
  EXPECT_THAT(lines[2], HasSubstr("parent"));
  EXPECT_THAT(lines[3], HasSubstr("child"));
}

TEST(RenderTargetsTest, ContainersShowBothPids) {
  std::vector<TargetInfo> targets = {
      {.pid = 4000, .namespace_pid = 7, .foreign_namespace = true, .command = "python"}};
  const std::string text = RenderTargets(targets, Style{});
  EXPECT_THAT(text, HasSubstr("NSPID"));
  EXPECT_THAT(Squeezed(text)[2], ::testing::StartsWith("4000 7 "));
}

TEST(RenderTargetsTest, TheSourceOfStepsIsShown) {
  const std::vector<TargetInfo> targets = {
      {.pid = 20, .command = "infer", .step_source = StepSource::kDataLoader, .batch_count = 7},
      {.pid = 21, .command = "idle"}};
  const std::string text = RenderTargets(targets, Style{});
  EXPECT_THAT(text, HasSubstr("STEPS FROM"));
  EXPECT_THAT(text, HasSubstr("dataloader"));
  JsonWriter writer;
  const NodeTargets node = {.node = "", .targets = targets};
  TargetsAnswerObject().Write(TargetsAnswerOf(std::span(&node, 1), nullptr), writer);
  const auto json = nlohmann::json::parse(writer.TakeLine());
  EXPECT_EQ(json["targets"][0]["step_source"], "dataloader");
  EXPECT_EQ(json["targets"][0]["batch_count"], 7);
  EXPECT_EQ(json["targets"][1]["step_source"], "none");
}

TEST(RenderTargetsTest, AnObserverThatStaysIsShown) {
  const std::vector<TargetInfo> targets = {{.pid = 20,
                                            .command = "train",
                                            .metadata = {{"torch_observer", "stays"}},
                                            .step_source = StepSource::kOptimizer},
                                           {.pid = 21,
                                            .command = "train",
                                            .metadata = {{"torch_observer", "else"}},
                                            .step_source = StepSource::kOptimizer}};
  const std::vector<std::string> lines = Squeezed(RenderTargets(targets, Style{}));
  ASSERT_EQ(lines.size(), 4);
  EXPECT_THAT(lines[2], HasSubstr("optimizer (observer stays)"));
  EXPECT_THAT(lines[3], Not(HasSubstr("observer")));
  JsonWriter writer;
  const NodeTargets node = {.node = "", .targets = targets};
  TargetsAnswerObject().Write(TargetsAnswerOf(std::span(&node, 1), nullptr), writer);
  const auto json = nlohmann::json::parse(writer.TakeLine());
  EXPECT_EQ(json["targets"][0]["observer_stays"], true);
  EXPECT_EQ(json["targets"][1]["observer_stays"], false);
}

TEST(RenderTargetsTest, AJobThatHangsShowsSinceWhen) {
  std::vector<TargetInfo> targets = {{.pid = 20,
                                      .command = "train",
                                      .step_mark_count = 121,
                                      .current_step = 120,
                                      .since_last_step_ns = 41'900'000'000,
                                      .median_step_ns = 1'000'000'000}};
  EXPECT_THAT(RenderTargets(targets, Style{}), HasSubstr("120, last step 41 s ago"));
  targets[0].since_last_step_ns = 1'900'000'000;
  EXPECT_THAT(RenderTargets(targets, Style{}), Not(HasSubstr("last step")));
}

TEST(RenderTargetsTest, NoneSaysHowToGetOne) {
  EXPECT_THAT(RenderTargets({}, Style{}), HasSubstr("profd.init()"));
}

// ---- groups and files ----

TEST(GroupTest, ThoseThatMissedAreNamedWithTheReason) {
  std::vector<CaptureView> views = {AView(), AView()};
  views[1].record.state = CaptureState::kFailed;
  views[1].state = "FAILED";
  views[1].record.target.pid = 4712;
  views[1].record.error_message = "target 4712 ended before anything was recorded";
  EXPECT_THAT(RenderGroup(views, Style{}), HasSubstr("pid 4712 is FAILED: target 4712 ended"));
  JsonWriter json;
  GroupAnswerObject().Write({views, {}, {}}, json);
  const auto parsed = nlohmann::json::parse(json.TakeLine());
  EXPECT_EQ(parsed["captures"].size(), 2);
  ASSERT_EQ(parsed["missed"].size(), 1);
  EXPECT_EQ(parsed["missed"][0]["pid"], 4712);
}

TEST(OutputNameTest, TheTagStandsBeforeTheWholeSuffix) {
  EXPECT_EQ(WithTag("run.json.gz", "-7"), "run-7.json.gz");
  EXPECT_EQ(WithTag("/a.json/run.profd", "-rank3"), "/a.json/run-rank3.profd");
  EXPECT_EQ(WithTag("a/.json", "-7"), "a/.json-7");
}

TEST(OutputNameTest, RanksTagOnlyIfAllHaveOneOfTheirOwnThatIsANumber) {
  std::vector<CaptureView> views = {AView(), AView()};
  views[1].record.target.pid = 4712;
  const auto with_ranks = [&](const char* a, const char* b) {
    views[0].record.target.metadata["rank"] = a;
    views[1].record.target.metadata["rank"] = b;
    return TagsFor(views);
  };
  EXPECT_THAT(TagsFor(views), ElementsAre("-4711", "-4712"));
  EXPECT_THAT(with_ranks("0", "1"), ElementsAre("-rank0", "-rank1"));
  EXPECT_THAT(with_ranks("1", "1"), ElementsAre("-4711", "-4712"));
  EXPECT_THAT(with_ranks("0", "../../etc/x"), ElementsAre("-4711", "-4712"));
}

}  // namespace
}  // namespace profd::cli
