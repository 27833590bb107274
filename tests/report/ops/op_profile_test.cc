#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/reports.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OpProfileTest : public ::testing::Test {
 protected:
  OpProfile Profile(const OpProfileOptions& options = {}) {
    absl::StatusOr<OpProfile> profile = SummarizeOpProfile(reader_, options);
    EXPECT_THAT(profile, IsOk());
    return profile.ok() ? *std::move(profile) : OpProfile();
  }
  static OpProfileRow RowOf(const OpProfile& profile, std::string_view name,
                            std::string_view group = "") {
    for (const OpProfileRow& row : profile.rows) {
      if (row.name == name && row.module + row.thread == group) return row;
    }
    ADD_FAILURE() << "no row " << name << " of " << group;
    return {};
  }
  static std::vector<std::string> Names(const OpProfile& profile) {
    std::vector<std::string> names;
    for (const OpProfileRow& row : profile.rows) names.push_back(row.name);
    return names;
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
};

TEST_F(OpProfileTest, PercentilesAreDurationsThatOccurred) {
  for (int64_t i = 1; i <= 100; ++i) reader_.Range(main_, "f", i * 1000, i * 1000 + i);
  const OpProfileRow row = RowOf(Profile(), "f");
  EXPECT_EQ(row.p50_ns, 50);
  EXPECT_EQ(row.p95_ns, 95);
  EXPECT_EQ(row.p99_ns, 99);
  EXPECT_EQ(row.max_ns, 100);
  EXPECT_EQ(row.calls, 100);
}

TEST_F(OpProfileTest, WithoutRangesTheNoteSaysWhetherOperatorsWereSwitchedOff) {
  EXPECT_THAT(ToReport(Profile()).notes[0], HasSubstr("Annotate the program"));
  reader_.mutable_record().spec.torch.operators = OperatorMode::kOff;
  EXPECT_THAT(ToReport(Profile()).notes[0], HasSubstr("switched off (--ops off)"));
}

TEST_F(OpProfileTest, ANoteNamesOverlappingCalls) {
  const uint32_t lane = reader_.AddThread((1 << 30) | 3, "overlapping ranges of 1");
  reader_.Range(main_, "step", 0, 100);
  EXPECT_THAT(ToReport(Profile()).notes, ElementsAre("Self CPU time total: 0.100us"));
  for (int64_t i = 0; i < 5; ++i) {
    const std::string name = "request " + std::to_string(i);
    for (int64_t j = 0; j <= i; ++j) reader_.Range(lane, name, 10 * i + j, 10 * i + j + 1);
  }
  const table::Report report = ToReport(Profile());
  EXPECT_THAT(report.notes,
              ElementsAre("15 calls overlap others of the same thread without nesting (request 4, "
                          "request 3, request 2, ...): each instant is self time of the range that "
                          "began last",
                          "Self CPU time total: 0.100us"));
  const absl::StatusOr<OpProfile> again = OpProfileOf(report);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(RowOf(*again, "request 4").overlapping_calls, 5);
  EXPECT_EQ(RowOf(*again, "step").overlapping_calls, 0);
}

TEST_F(OpProfileTest, ApiCallsHavePercentilesToo) {
  reader_.ApiCall(main_, "cudaLaunchKernel", 0, 10, 1)
      .ApiCall(main_, "cudaLaunchKernel", 20, 50, 2)
      .Kernel("k", 100, 200, 1);
  EXPECT_EQ(RowOf(Profile(), "cudaLaunchKernel").p50_ns, 10);
  EXPECT_EQ(RowOf(Profile(), "cudaLaunchKernel").p95_ns, 30);
}

TEST_F(OpProfileTest, ShareIsOfBusyTimeSoThatStreamsDoNotCountTwice) {
  reader_.Range(main_, "a", 0, 40)
      .Range(main_, "b", 50, 90)
      .ApiCall(main_, "cudaLaunchKernel", 10, 20, 1)
      .ApiCall(main_, "cudaLaunchKernel", 60, 70, 2)
      .Kernel("k", 100, 200, 1, {.stream = 7})
      .Kernel("k", 150, 250, 2, {.stream = 8});
  const OpProfile profile = Profile();
  EXPECT_EQ(profile.busy_device_ns, 150);
  EXPECT_THAT(RowOf(profile, "a").share, DoubleEq(100.0 / 150));
}

TEST_F(OpProfileTest, WithoutAGpuShareIsOfSelfCpu) {
  reader_.Range(main_, "a", 0, 100).Range(main_, "b", 0, 25);
  EXPECT_THAT(RowOf(Profile(), "b").share, DoubleEq(0.25));
}

TEST_F(OpProfileTest, WhatRunsOnlyInTheFirstStepOrLongerIsFlagged) {
  reader_.Step(5, 0, 1000).Step(6, 1000, 1000).Step(7, 2000, 1000);
  reader_.Range(main_, "init", 10, 20);
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t at = step * 1000;
    reader_.Range(main_, "warm", at + 100, at + 100 + (step == 0 ? 201 : 100))
        .Range(main_, "twice", at + 400, at + 400 + (step == 0 ? 200 : 100))
        .Range(main_, "same", at + 700, at + 750);
  }
  const OpProfile profile = Profile();
  EXPECT_EQ(RowOf(profile, "init").first_step, kOnlyInFirstStep);
  EXPECT_EQ(RowOf(profile, "warm").first_step, kSlowerInFirstStep);
  EXPECT_EQ(RowOf(profile, "twice").first_step, "");
  EXPECT_EQ(RowOf(profile, "same").first_step, "");
  EXPECT_THAT(RowOf(profile, "init").calls_per_step, DoubleEq(1.0 / 3));
  EXPECT_EQ(RowOf(profile, "same").calls_per_step, 1);
}

TEST_F(OpProfileTest, OneStepOrNoneFlagsNothing) {
  reader_.Step(5, 0, 1000).Range(main_, "f", 10, 20);
  EXPECT_EQ(RowOf(Profile(), "f").first_step, "");
  FakeCaptureReader without;
  without.Range(without.AddThread(1, ""), "f", 0, 10);
  absl::StatusOr<OpProfile> profile = SummarizeOpProfile(without, {});
  ASSERT_THAT(profile, IsOk());
  EXPECT_EQ(profile->rows[0].calls_per_step, -1);
}

TEST_F(OpProfileTest, ByThreadEachHasItsOwnRows) {
  const uint32_t other = reader_.AddThread(2, "");
  reader_.Range(main_, "f", 0, 10).Range(other, "f", 0, 30).Range(other, "f", 40, 60);
  const OpProfile profile = Profile({.group = OpGroup::kThread});
  EXPECT_EQ(RowOf(profile, "f", "1 main").cpu_total_ns, 10);
  EXPECT_EQ(RowOf(profile, "f", "2").cpu_total_ns, 50);
  EXPECT_EQ(RowOf(profile, "f", "2").p95_ns, 30);
}

TEST_F(OpProfileTest, ByModuleRowsAreOfTheInnermostOneAlsoOnTheGpu) {
  reader_.Range(main_, "nn.Module: Net_0", 0, 100)
      .Range(main_, "nn.Module: Linear_1", 10, 50)
      .Range(main_, "aten::mm", 20, 40)
      .Range(main_, "aten::mm", 60, 90)
      .Range(main_, "aten::mm", 200, 230)
      .ApiCall(main_, "cudaLaunchKernel", 25, 30, 1)
      .Kernel("k", 300, 360, 1);
  const OpProfile profile = Profile({.group = OpGroup::kModule});
  EXPECT_EQ(RowOf(profile, "aten::mm", "Linear_1").cpu_total_ns, 20);
  EXPECT_EQ(RowOf(profile, "aten::mm", "Linear_1").self_device_ns, 60);
  EXPECT_EQ(RowOf(profile, "cudaLaunchKernel", "Linear_1").calls, 1);
  EXPECT_EQ(RowOf(profile, "aten::mm", "Net_0").cpu_total_ns, 30);
  EXPECT_EQ(RowOf(profile, "aten::mm", "Net_0").self_device_ns, 0);
  EXPECT_EQ(RowOf(profile, "aten::mm", "").cpu_total_ns, 30);
}

TEST_F(OpProfileTest, ModulesMayStandOnARowOfTheirOwnBesideTheThread) {
  const uint32_t python = reader_.AddThread(reader_.threads()[main_].os_thread, "Python functions");
  reader_.Range(python, "nn.Module: Linear_1", 10, 50)
      .Range(main_, "aten::mm", 20, 40)
      .Range(main_, "aten::mm", 60, 90);
  const OpProfile profile = Profile({.group = OpGroup::kModule});
  EXPECT_EQ(RowOf(profile, "aten::mm", "Linear_1").cpu_total_ns, 20);
  EXPECT_EQ(RowOf(profile, "aten::mm", "").cpu_total_ns, 30);
}

TEST_F(OpProfileTest, ARowNamesTheLineOfMostCallsAndCountsTheOthers) {
  const uint32_t first = reader_.Stack(0, "/home/me/net.py", 12, "Net.forward");
  const uint32_t second = reader_.Stack(0, "/home/me/net.py", 13, "Net.forward");
  reader_.Operator(main_, "aten::add", 0, 10, {.stack = first})
      .Operator(main_, "aten::add", 20, 30, {.stack = second})
      .Operator(main_, "aten::add", 40, 50, {.stack = second})
      .Operator(main_, "aten::mul", 60, 70, {.stack = first})
      .Range(main_, "other", 80, 90);
  EXPECT_EQ(RowOf(Profile(), "aten::add").top_source, "net.py(13): Net.forward +1 more");
  EXPECT_EQ(RowOf(Profile(), "aten::mul").top_source, "net.py(12): Net.forward");
  EXPECT_EQ(RowOf(Profile(), "other").top_source, "");
  EXPECT_EQ(RowOf(Profile({.group = OpGroup::kSource}), "aten::mul").top_source, "");
  EXPECT_EQ(RowOf(Profile({.sums_only = true}), "aten::mul").top_source, "");
}

TEST_F(OpProfileTest, ByStepEachHasItsOwnPercentiles) {
  reader_.Step(5, 0, 100).Step(6, 100, 100);
  reader_.Range(main_, "f", 10, 20).Range(main_, "f", 110, 140).Range(main_, "f", 300, 301);
  const OpProfile profile = Profile({.group = OpGroup::kStep});
  ASSERT_EQ(profile.rows.size(), 3);
  for (const OpProfileRow& row : profile.rows) {
    EXPECT_EQ(row.p50_ns, row.step == 5 ? 10 : row.step == 6 ? 30 : 1);
  }
}

TEST_F(OpProfileTest, OneStepIsAllThatCounts) {
  reader_.Step(5, 0, 100).Step(6, 100, 100);
  reader_.Range(main_, "f", 10, 20).Range(main_, "f", 110, 140);
  const OpProfile profile = Profile({.step = 6});
  EXPECT_EQ(RowOf(profile, "f").p50_ns, 30);
  EXPECT_EQ(RowOf(profile, "f").calls_per_step, 1);
  EXPECT_THAT(SummarizeOpProfile(reader_, {.step = 7}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(OpProfileTest, RatesAreOfWhatTheGpuWasBusyWith) {
  const uint32_t inputs =
      reader_.Inputs("[[1000,1000],[1000,1000]]", R"(["c10::BFloat16","c10::BFloat16"])");
  reader_.mutable_record().gpu.devices = {{.name = "NVIDIA H100 80GB HBM3"}};
  reader_.Operator(main_, "aten::mm", 0, 100, {.inputs = inputs})
      .ApiCall(main_, "cudaLaunchKernel", 10, 20, 1)
      .Kernel("k", 100, 10'100, 1);
  const OpProfile profile = Profile();
  const OpProfileRow row = RowOf(profile, "aten::mm");
  EXPECT_EQ(row.flops, 2e9);
  EXPECT_THAT(row.flops_per_s, DoubleEq(2e14));
  EXPECT_EQ(row.dtype, "bf16");
  EXPECT_THAT(row.peak_share, DoubleEq(2e14 / 989.4e12));
}

TEST_F(OpProfileTest, ARedispatchHasItsFlopsAndItsDurationOnce) {
  const uint32_t inputs = reader_.Inputs("[[10,10],[10,10]]", R"(["float","float"])");
  reader_.BatchRows(1)
      .Operator(main_, "aten::mm", 0, 100, {.inputs = inputs})
      .Operator(main_, "aten::mm", 10, 90, {.inputs = inputs})
      .Operator(main_, "aten::mm", 200, 210, {.inputs = inputs});
  const OpProfileRow row = RowOf(Profile(), "aten::mm");
  EXPECT_EQ(row.calls, 2);
  EXPECT_EQ(row.flops, 2 * 2000);
  EXPECT_EQ(row.p50_ns, 10);
  EXPECT_THAT(row.flops_per_s, DoubleEq(4000 / 110e-9));
}

TEST_F(OpProfileTest, ARateThatFp32CannotHaveIsTf32) {
  const uint32_t inputs = reader_.Inputs("[[1000,1000],[1000,1000]]", R"(["float","float"])");
  reader_.mutable_record().gpu.devices = {{.name = "NVIDIA H100 80GB HBM3"}};
  reader_.Operator(main_, "aten::mm", 0, 100, {.inputs = inputs})
      .ApiCall(main_, "cudaLaunchKernel", 10, 20, 1)
      .Kernel("k", 100, 10'100, 1);
  EXPECT_EQ(RowOf(Profile(), "aten::mm").dtype, "tf32");
}

TEST_F(OpProfileTest, WhereSomeCallsAreNotKnownThereIsNoRate) {
  const uint32_t inputs = reader_.Inputs("[[10,10],[10,10]]", R"(["float","float"])");
  reader_.Operator(main_, "aten::mm", 0, 100, {.inputs = inputs})
      .Operator(main_, "aten::mm", 200, 300);
  EXPECT_EQ(RowOf(Profile(), "aten::mm").flops, 2000);
  EXPECT_EQ(RowOf(Profile(), "aten::mm").flops_per_s, -1);
}

TEST_F(OpProfileTest, OnlySumsAreKnownIfNoMoreIsWanted) {
  reader_.Step(5, 0, 1000)
      .Range(main_, "f", 0, 40)
      .ApiCall(main_, "cudaLaunchKernel", 10, 20, 1)
      .Kernel("k", 100, 200, 1);
  const OpProfile all = Profile();
  const OpProfile sums = Profile({.sums_only = true});
  EXPECT_EQ(Names(sums), Names(all));
  EXPECT_EQ(sums.self_device_total_ns, all.self_device_total_ns);
  EXPECT_EQ(sums.busy_device_ns, -1);
  const OpProfileRow row = RowOf(sums, "f");
  EXPECT_EQ(row.self_cpu_ns, RowOf(all, "f").self_cpu_ns);
  EXPECT_EQ(row.self_device_ns, RowOf(all, "f").self_device_ns);
  EXPECT_EQ(row.self_cpu_share, RowOf(all, "f").self_cpu_share);
  EXPECT_EQ(row.p50_ns, -1);
  EXPECT_EQ(row.calls_per_step, -1);
  EXPECT_EQ(row.share, -1);
}

TEST_F(OpProfileTest, AnImportHasAllFiguresSoThatPythonsFunctionsCanBeTold) {
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Range(main_, "f", 0, 40);
  EXPECT_EQ(RowOf(Profile({.sums_only = true}), "f").p50_ns, 40);
}

TEST_F(OpProfileTest, AReportHasWhatItWasMadeOf) {
  reader_.Step(5, 0, 1000).Step(6, 1000, 1000).Range(main_, "f", 0, 40);
  reader_.ApiCall(main_, "cudaLaunchKernel", 10, 20, 1).Kernel("k", 100, 200, 1);
  const OpProfile profile = Profile({.group = OpGroup::kThread});
  const absl::StatusOr<OpProfile> again = OpProfileOf(ToReport(profile));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(ToReport(*again), ToReport(profile));
  EXPECT_EQ(RowOf(*again, "f", "1 main").first_step, kOnlyInFirstStep);
  EXPECT_THAT(OpProfileOf(table::Report{.name = "steps"}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(OpProfileTest, TheReportIsSortedByAnyColumn) {
  reader_.Range(main_, "long", 0, 100)
      .Range(main_, "often", 200, 210)
      .Range(main_, "often", 300, 310);
  const auto names = [&](std::map<std::string, std::string, std::less<>> options) {
    const absl::StatusOr<table::Report> report =
        MakeReport(reader_, {.report = "ops", .options = std::move(options)});
    EXPECT_THAT(report, IsOk());
    const absl::StatusOr<OpProfile> profile = OpProfileOf(*report);
    EXPECT_THAT(profile, IsOk());
    return Names(*profile);
  };
  EXPECT_THAT(names({}), ElementsAre("long", "often"));
  EXPECT_THAT(names({{"sort", "calls"}}), ElementsAre("often", "long"));
  EXPECT_THAT(names({{"sort", "average"}}), ElementsAre("long", "often"));
  EXPECT_THAT(names({{"sort", "name"}, {"limit", "1"}}), ElementsAre("long"));
}

TEST_F(OpProfileTest, RowsByArgumentsAreOfTheRangesAroundThem) {
  reader_.Range(main_, "aten::mm", 10, 20).Range(main_, "forward", 5, 30);
  reader_.Range(main_, "aten::mm", 110, 150).Range(main_, "forward", 105, 160);
  reader_.Range(main_, "aten::mm", 200, 201);
  const auto give = [&](uint32_t row, int64_t batch, int64_t id) {
    for (const auto& [key, value] : {std::pair("batch", batch), std::pair("id", id)}) {
      reader_.Argument(
          {kArgumentOfRange, main_, row, reader_.Name(key), ArgumentType::kInteger, value});
    }
  };
  give(1, 32, 1);
  give(3, 64, 2);
  const auto rows = [&](const std::string& by) {
    const auto report = MakeReport(reader_, {.report = "ops", .options = {{"group_by", by}}});
    EXPECT_THAT(report, IsOk());
    const absl::StatusOr<OpProfile> profile = OpProfileOf(*report);
    EXPECT_THAT(profile, IsOk());
    std::vector<std::string> of_mm;
    for (const OpProfileRow& row : profile->rows) {
      if (row.name == "aten::mm") of_mm.push_back(StrCat(row.arguments, ": ", row.cpu_total_ns));
    }
    return of_mm;
  };
  EXPECT_THAT(rows("arguments:batch"), ElementsAre("batch=64: 40", "batch=32: 10", ": 1"));
  EXPECT_THAT(rows("arguments"), ElementsAre("batch=64, id=2: 40", "batch=32, id=1: 10", ": 1"));
  EXPECT_THAT(rows("name"), ElementsAre(": 51"));
  for (const char* const by : {"arguments:", "name:batch", "argument:batch"}) {
    EXPECT_THAT(MakeReport(reader_, {.report = "ops", .options = {{"group_by", by}}}),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << by;
  }
}

TEST_F(OpProfileTest, OptionsThatTheReportDoesNotHaveAreRefused) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"sort", "size"}, {"group_by", "size"}, {"by_step", "yes"}, {"step", "-1"}, {"x", ""}}) {
    EXPECT_THAT(MakeReport(reader_, {.report = "ops", .options = {{name, value}}}),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
}

TEST_F(OpProfileTest, AnErrorOfTheReaderIsTheAnswer) {
  reader_.Range(main_, "f", 0, 10).FailAfter(0, absl::DataLossError("damaged"));
  EXPECT_THAT(SummarizeOpProfile(reader_, {}), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::report
