#include "daemon/report/ops/torch_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/ops/input_shapes.h"
#include "daemon/report/ops/torch_memory.h"
#include "daemon/report/reports.h"
#include "proto/wire/event.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TorchTableTest : public ::testing::Test {
 protected:
  TorchTable Table(TorchVersion version = kNewestTorch, bool by_inputs = false) {
    absl::StatusOr<TorchTable> table =
        SummarizeAsTorch(reader_, {.by_inputs = by_inputs, .version = version});
    EXPECT_THAT(table, IsOk());
    return table.ok() ? *std::move(table) : TorchTable();
  }
  TorchRow Row(std::string_view name, bool is_device = false) {
    for (const TorchRow& row : Table().rows) {
      if (row.name == name && row.is_device == is_device) return row;
    }
    ADD_FAILURE() << "no row " << name;
    return {};
  }
  std::vector<std::string> Names(TorchVersion version = kNewestTorch) {
    std::vector<std::string> names;
    for (const TorchRow& row : Table(version).rows) names.push_back(row.name);
    return names;
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
};

TEST_F(TorchTableTest, RowsAreInTheOrderOfTheirFirstEventTheLongestFirst) {
  reader_.Operator(main_, "aten::mm", 10, 20)
      .Operator(main_, "aten::linear", 10, 30)
      .Operator(main_, "aten::add", 5, 8)
      .Operator(main_, "aten::mm", 40, 50);
  EXPECT_THAT(Names(), ElementsAre("aten::add", "aten::linear", "aten::mm"));
  EXPECT_EQ(Row("aten::mm").calls, 2);
  EXPECT_TRUE(Row("aten::mm").has_parent);
}

TEST_F(TorchTableTest, OneInAnotherOfTheSameNameIsFoldedOnlyIfItIsAlone) {
  reader_.Operator(main_, "f", 0, 100)
      .Operator(main_, "f", 10, 90)
      .Operator(main_, "g", 20, 30)
      .Operator(main_, "h", 200, 300)
      .Operator(main_, "h", 210, 220)
      .Operator(main_, "g", 230, 240);
  EXPECT_EQ(Row("f").calls, 1);
  EXPECT_EQ(Row("f").cpu_total_ns, 100);
  EXPECT_EQ(Row("f").self_cpu_ns, 90);
  EXPECT_EQ(Row("h").calls, 2);
  EXPECT_EQ(Row("h").cpu_total_ns, 110);
  EXPECT_EQ(Row("h").self_cpu_ns, 90);
}

TEST_F(TorchTableTest, ARangeThatOnlyOverlapsTakesThePlaceOfTheOther) {
  reader_.Range(main_, "outer", 0, 100, {.depth = 0})
      .Range(main_, "a", 10, 50, {.depth = 1})
      .Range(main_, "b", 40, 80, {.depth = 1})
      .Operator(main_, "c", 42, 48);
  EXPECT_EQ(Row("a").self_cpu_ns, 40);
  EXPECT_EQ(Row("b").self_cpu_ns, 34);
  EXPECT_EQ(Row("outer").self_cpu_ns, 20);
}

// Imports keep them apart, since they need not nest with the operators.
TEST_F(TorchTableTest, FramesOfPythonAreAroundTheOperatorsOfTheirThread) {
  const uint32_t frames = reader_.AddThread(1, "main, Python functions");
  const uint32_t others = reader_.AddThread(2, "main, Python functions");
  const auto category = static_cast<uint8_t>(wire::RangeCategory::kPython);
  reader_.Range(main_, "forward", 0, 100)
      .Operator(main_, "aten::mm", 30, 40)
      .Range(frames, "f.py(1): f", 20, 60, {.category = category})
      .Range(others, "f.py(1): f", 0, 90, {.category = category});
  EXPECT_EQ(Row("forward").self_cpu_ns, 60);
  EXPECT_THAT(Names(), ElementsAre("forward", "aten::mm"));
  for (const TorchRow& row : Table({1, 13}).rows) {
    if (row.name == "f.py(1): f") {
      EXPECT_EQ(row.self_cpu_ns, 30 + 90);
    }
  }
}

// Two calls of 1 ns and 2 ns: their mean lies between two figures, and what is printed is up to
// the rounding of the times since the profiler started.
TEST_F(TorchTableTest, TimesAreInFloatingPointSinceTheProfilerStarted) {
  reader_.Operator(main_, "f", 1'000'001, 1'000'002).Operator(main_, "f", 1'000'011, 1'000'013);
  const auto us = [](int64_t ns) { return static_cast<double>(ns) / 1e3; };
  const auto total_since = [&](int64_t origin_ns) {
    return (us(1'000'002 - origin_ns) - us(1'000'001 - origin_ns)) +
           (us(1'000'013 - origin_ns) - us(1'000'011 - origin_ns));
  };
  EXPECT_EQ(Row("f").cpu_total_us, total_since(0));
  reader_.mutable_record().start_unix_ns = 1'700'000'000'000'000'000;
  reader_.mutable_record().armed_time = absl::FromUnixNanos(1'700'000'000'000'000'000 - 777);
  EXPECT_EQ(Row("f").cpu_total_us, total_since(-777));
  EXPECT_NE(total_since(0), total_since(-777));
  reader_.mutable_record().armed_time = absl::InfinitePast();
  EXPECT_EQ(Row("f").cpu_total_us, total_since(0));
  EXPECT_EQ(Row("f").cpu_total_ns, 3);
}

TEST_F(TorchTableTest, StepsAreOneRow) {
  reader_.StepThread(main_).Step(7, 0, 100).Step(8, 100, 100).Operator(main_, "mm", 110, 130);
  EXPECT_EQ(Row("ProfilerStep*").calls, 2);
  EXPECT_EQ(Row("ProfilerStep*").cpu_total_ns, 200);
  EXPECT_EQ(Row("ProfilerStep*").self_cpu_ns, 180);
}

// A step's range on a stream, which imported traces have, is only a name here.
TEST_F(TorchTableTest, ANameOfAStepIsNoRangeOfOne) {
  reader_.Name("ProfilerStep#7");
  reader_.StepThread(main_).Step(7, 0, 100).Operator(main_, "mm", 10, 30);
  EXPECT_EQ(Row("ProfilerStep*").calls, 1);
}

TEST_F(TorchTableTest, WhatTorchLeavesOutIsLeftOut) {
  reader_.Operator(main_, "aten::is_leaf", 0, 10).Operator(main_, "mm", 20, 30);
  EXPECT_THAT(Names(), ElementsAre("mm"));
  EXPECT_EQ(Table().self_cpu_total_ns, 10);
}

TEST_F(TorchTableTest, WorkOfTheGpuBelongsToTheInnermostOperatorAndIsARowItself) {
  reader_.Operator(main_, "linear", 0, 100)
      .Operator(main_, "mm", 10, 60)
      .Range(main_, "annotated", 15, 55)
      .ApiCall(main_, "cudaLaunchKernel", 20, 30, 1)
      .Kernel("_Z3addPfi", 200, 350, 1);
  EXPECT_EQ(Row("mm").self_device_ns, 150);
  EXPECT_EQ(Row("linear").device_total_ns, 150);
  EXPECT_EQ(Row("linear").self_device_ns, 0);
  EXPECT_EQ(Row("annotated").device_total_ns, 0);
  EXPECT_EQ(Row("annotated").self_cpu_ns, 30);
  EXPECT_EQ(Row("annotated", true).self_device_ns, 150);
  const TorchRow kernel = Row("add(float*, int)", true);
  EXPECT_EQ(kernel.device_total_ns, 150);
  EXPECT_EQ(kernel.cpu_total_ns, 0);
  EXPECT_EQ(Table().self_device_total_ns, 150);
}

TEST_F(TorchTableTest, OlderReleasesCountAnnotationsOfTheGpuAsWorkOrKnowNone) {
  reader_.Range(main_, "annotated", 0, 100)
      .Operator(main_, "mm", 10, 60)
      .ApiCall(main_, "cudaLaunchKernel", 20, 30, 1)
      .Kernel("k", 200, 350, 1);
  EXPECT_EQ(Table({2, 5}).self_device_total_ns, 150);
  EXPECT_EQ(Table({2, 4}).self_device_total_ns, 300);
  EXPECT_EQ(Table({1, 13}).self_device_total_ns, 150);
  EXPECT_THAT(Names({1, 13}), ElementsAre("annotated", "mm", "cudaLaunchKernel", "k"));
}

TEST_F(TorchTableTest, ACallOutsideOfOperatorsIsInNothing) {
  reader_.Range(main_, "annotated", 0, 100).ApiCall(main_, "cudaDeviceSynchronize", 20, 60, 1);
  EXPECT_EQ(Row("annotated").self_cpu_ns, 100);
  EXPECT_EQ(Row("cudaDeviceSynchronize").self_cpu_ns, 40);
  EXPECT_EQ(Table().self_cpu_total_ns, 140);
}

TEST_F(TorchTableTest, MemoryCountsForEveryThreadAndWhatIsInNothingHasARow) {
  const uint32_t other = reader_.AddThread(2, "other");
  reader_.Operator(main_, "outer", 0, 100)
      .Operator(main_, "inner", 10, 50)
      .Operator(other, "elsewhere", 0, 100)
      .Allocate(main_, 50, 0x1000, 64)
      .Free(main_, 60, 0x1000, 0)
      .Allocate(main_, 500, 0x2000, 32);
  EXPECT_EQ(Row("inner").cpu_memory_bytes, 64);
  EXPECT_EQ(Row("outer").cpu_memory_bytes, 0);
  EXPECT_EQ(Row("outer").self_cpu_memory_bytes, -64);
  EXPECT_EQ(Row("elsewhere").cpu_memory_bytes, 0);
  EXPECT_EQ(Row("[memory]").cpu_memory_bytes, 32);
  EXPECT_EQ(Row("[memory]").calls, 1);
}

TEST_F(TorchTableTest, AllocationsNearAnEdgeAreWhoseThatReleaseTakesThemFor) {
  // A multiple of what doubles of it can tell apart, 250 ns and 256 ns.
  reader_.mutable_record().start_unix_ns = 1'795'331'713'331'584'000;
  reader_.Operator(main_, "first", 0, 126)
      .Operator(main_, "second", 126, 1000)
      .Allocate(main_, 130, 0x1000, 64);
  const auto bytes = [&](TorchVersion version) {
    std::vector<int64_t> found;
    for (const TorchRow& row : Table(version).rows) found.push_back(row.cpu_memory_bytes);
    return found;
  };
  EXPECT_THAT(bytes({2, 3}), ElementsAre(0, 64));
  EXPECT_THAT(bytes({2, 10}), ElementsAre(64, 0));  // Both edges are at 256 ns.
  EXPECT_THAT(bytes({2, 11}), ElementsAre(0, 64));
}

TEST_F(TorchTableTest, TimesThatNoDoubleHoldsStayAsTheyAre) {
  EXPECT_EQ(CoarseTime(7, std::numeric_limits<int64_t>::max()), 7);
  EXPECT_EQ(CoarseTime(7, std::numeric_limits<int64_t>::max() - 7), 7);
  EXPECT_EQ(CoarseTime(-7, 1), -7);
}

TEST_F(TorchTableTest, ByInputsListsCountAsNoSizes) {
  const uint32_t two = reader_.Inputs("[[16,64],[],[[3,4],[3]]]", "[]");
  const uint32_t same = reader_.Inputs("[[16,64],[],[]]", "[]");
  reader_.Operator(main_, "cat", 0, 10, {.inputs = two})
      .Operator(main_, "cat", 20, 30, {.inputs = same})
      .Operator(main_, "cat", 40, 50);
  const TorchTable table = Table(kNewestTorch, true);
  ASSERT_EQ(table.rows.size(), 2);
  EXPECT_EQ(table.rows[0].shapes, "[[16, 64], [], []]");
  EXPECT_EQ(table.rows[0].calls, 2);
  EXPECT_EQ(table.rows[1].shapes, "[]");
}

// ---- the report ----

TEST_F(TorchTableTest, TheReportHasAllThatTheTextNeeds) {
  const uint32_t inputs = reader_.Inputs("[[16,64]]", "[]");
  reader_.Range(main_, "annotated", 0, 200)
      .Operator(main_, "mm", 10, 143, {.inputs = inputs})
      .ApiCall(main_, "cudaLaunchKernel", 20, 30, 1)
      .Kernel("_Z3addPfi", 200, 350, 1)
      .Allocate(main_, 50, 0x1000, 64);
  const TorchTable table = Table({2, 4}, true);
  ASSERT_GE(table.rows.size(), 4U);
  const absl::StatusOr<TorchTable> again = TorchTableOf(ToReport(table));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->version.minor, 4);
  EXPECT_EQ(again->has_memory, table.has_memory);
  EXPECT_EQ(again->self_cpu_total_ns, table.self_cpu_total_ns);
  EXPECT_EQ(again->self_device_total_ns, table.self_device_total_ns);
  ASSERT_EQ(again->rows.size(), table.rows.size());
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const TorchRow& a = again->rows[i];
    const TorchRow& b = table.rows[i];
    EXPECT_EQ(std::tie(a.name, a.shapes, a.is_device, a.is_annotation, a.calls),
              std::tie(b.name, b.shapes, b.is_device, b.is_annotation, b.calls));
    EXPECT_EQ(std::tie(a.self_cpu_ns, a.cpu_total_ns, a.self_device_ns, a.device_total_ns),
              std::tie(b.self_cpu_ns, b.cpu_total_ns, b.self_device_ns, b.device_total_ns));
    EXPECT_EQ(std::tie(a.self_cpu_us, a.cpu_total_us, a.self_device_us, a.device_total_us),
              std::tie(b.self_cpu_us, b.cpu_total_us, b.self_device_us, b.device_total_us));
    EXPECT_EQ(std::tie(a.cpu_memory_bytes, a.self_cpu_memory_bytes, a.device_memory_bytes,
                       a.self_device_memory_bytes),
              std::tie(b.cpu_memory_bytes, b.self_cpu_memory_bytes, b.device_memory_bytes,
                       b.self_device_memory_bytes));
  }
}

TEST_F(TorchTableTest, AReportThatIsNoneOfTorchsIsRefused) {
  reader_.Operator(main_, "mm", 0, 10);
  const table::Report good = ToReport(Table());
  EXPECT_THAT(TorchTableOf(good), IsOk());
  const auto refused = [&](const auto& spoil) {
    table::Report report = good;
    spoil(report);
    EXPECT_THAT(TorchTableOf(report), StatusIs(absl::StatusCode::kDataLoss));
  };
  refused([](table::Report& report) { report.name = "ops"; });
  refused([](table::Report& report) { ++report.version; });
  refused([](table::Report& report) { report.tables.clear(); });
  refused([](table::Report& report) { report.totals = {}; });
  refused([](table::Report& report) {
    report.totals.cells[report.totals.Find("torch")] = std::vector<std::string>{"0.4"};
  });
  refused([](table::Report& report) {
    report.totals.cells[report.totals.Find("torch")] = std::vector<int64_t>{2};
  });
  refused([](table::Report& report) {
    table::Table& rows = report.tables.front();
    const size_t at = rows.Find("self_cpu_us");
    rows.columns[at].type = table::Type::kInt;
    rows.cells[at] = std::vector<int64_t>{2};
  });
}

TEST_F(TorchTableTest, TheReportIsOfTheReleaseOfTheProgramUnlessAnotherIsNamed) {
  reader_.Operator(main_, "mm", 0, 10);
  const auto release = [&](std::string_view named) -> std::string {
    ReportRequest request = {.report = std::string(kTorchReport)};
    if (!named.empty()) request.options["version"] = named;
    const absl::StatusOr<table::Report> report = MakeReport(reader_, request);
    if (!report.ok()) return std::string(FromAbsl(report.status().message()));
    const table::Table& totals = report->totals;
    return std::get<std::vector<std::string>>(totals.cells[totals.Find("torch")]).front();
  };
  EXPECT_EQ(release(""), "2.15");
  reader_.mutable_record().torch.version = "2.4.1+cu121";
  EXPECT_EQ(release(""), "2.4");
  EXPECT_EQ(release("1.13"), "1.13");
  for (const char* unknown : {"1.12", "2.16", "3.0", "x\x1b", "2"}) {
    EXPECT_THAT(release(unknown), HasSubstr("not a known release of PyTorch (1.13 to 2.15"));
  }
}

TEST_F(TorchTableTest, TheReportIsSortedAndLimitedLikeOthersAndHasFewerGroups) {
  reader_.Operator(main_, "a", 0, 10).Operator(main_, "b", 20, 50).Operator(main_, "c", 60, 80);
  const auto names = [&](std::map<std::string, std::string, std::less<>> options)
      -> absl::StatusOr<std::vector<std::string>> {
    ASSIGN_OR_RETURN(
        const table::Report report,
        MakeReport(reader_, {.report = std::string(kTorchReport), .options = std::move(options)}));
    EXPECT_EQ(report.tables.front().row_count, 3);
    return std::get<std::vector<std::string>>(report.tables.front().cells.front());
  };
  EXPECT_THAT(names({{"sort", "cpu_total_us"}}), IsOkAndHolds(ElementsAre("b", "c", "a")));
  EXPECT_THAT(names({{"sort", "average_us"}, {"limit", "1"}}), IsOkAndHolds(ElementsAre("b")));
  EXPECT_THAT(names({{"group_by", "input_shape"}}), IsOkAndHolds(ElementsAre("a", "b", "c")));
  using Option = std::pair<const std::string, std::string>;
  for (const Option& wrong :
       {Option("sort", "p95"), Option("group_by", "module"), Option("group_by", "stack:3"),
        Option("step", "7"), Option("by_step", "1"), Option("limit", "-1")}) {
    EXPECT_THAT(names({wrong}), StatusIs(absl::StatusCode::kInvalidArgument)) << wrong.first;
  }
}

TEST_F(TorchTableTest, AnEmptyCaptureHasNoRows) {
  EXPECT_TRUE(Table().rows.empty());
  EXPECT_EQ(Table().self_cpu_total_ns, 0);
}

TEST_F(TorchTableTest, TimesThatCannotBeDoNoHarm) {
  reader_.Range(main_, "a", INT64_MIN, INT64_MAX, {.depth = 0})
      .Range(main_, "b", -5, INT64_MAX, {.depth = 0})
      .Range(main_, "b", INT64_MIN, 7, {.depth = 9});
  EXPECT_FALSE(Table().rows.empty());
}

TEST(TorchVersionTest, OnlyReleasesThatAreKnownAreTaken) {
  EXPECT_EQ(TorchVersionFromString("2.6.0+cu124")->minor, 6);
  EXPECT_EQ(TorchVersionFromString("1.13")->minor, 13);
  EXPECT_EQ(TorchVersionFromString("2.10")->minor, 10);
  for (const char* text : {"", "2", "2.", "1.12", "x", "2.6x", "-1.3", "2.-1"}) {
    EXPECT_FALSE(TorchVersionFromString(text).has_value()) << text;
  }
}

TEST(InputShapesTest, TextThatIsNoneIsRefused) {
  EXPECT_TRUE(ParseInputShapes(" [ [16, 64],[] ]").has_value());
  EXPECT_EQ(ParseInputShapes("[[1,2],[[3],[4,5]]]")->at(1).items.size(), 2);
  for (const char* text : {"", "[", "[[1]", "[[1],]", "[[-1]]", "[[1.5]]", "[[[[1]]]]", "[[1,[2]]]",
                           "[[99999999999999999999]]", "[[1]]x", "\"a\""}) {
    EXPECT_FALSE(ParseInputShapes(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace profd::report
