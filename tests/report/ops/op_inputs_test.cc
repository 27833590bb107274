// The operator table by the sizes and types of inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/report/index/operator_index.h"
#include "daemon/report/ops/op_table.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::UnorderedElementsAre;

class OpInputsTest : public testing::Test {
 protected:
  OpInputsTest() : main_(reader_.AddThread(1, "main")) {}

  std::vector<OpRow> Rows(OpOptions options = {}) {
    options.by_inputs = true;
    absl::StatusOr<OpTable> table = SummarizeOps(reader_, options);
    EXPECT_THAT(table, IsOk());
    return table.ok() ? std::move(table->rows) : std::vector<OpRow>();
  }
  static auto RowIs(std::string_view name, std::string_view dims, int64_t calls) {
    return AllOf(Field(&OpRow::name, name), Field(&OpRow::dims, dims), Field(&OpRow::calls, calls));
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(OpInputsTest, CallsOfOneOperatorWithOtherSizesAreOtherRows) {
  const uint32_t small = reader_.Inputs("[[2,2]]", R"(["float"])");
  const uint32_t large = reader_.Inputs("[[64,64]]", R"(["float"])");
  reader_.Operator(main_, "aten::mm", 0, 10, {.inputs = small})
      .Operator(main_, "aten::mm", 20, 30, {.inputs = small})
      .Operator(main_, "aten::mm", 40, 90, {.inputs = large})
      .Operator(main_, "aten::relu", 90, 95, {.inputs = small});
  EXPECT_THAT(Rows({.sort = OpSort::kName}),
              ElementsAre(RowIs("aten::mm", "[[2,2]]", 2), RowIs("aten::mm", "[[64,64]]", 1),
                          RowIs("aten::relu", "[[2,2]]", 1)));
}

TEST_F(OpInputsTest, TypesTellRowsApartAndStridesDoNot) {
  const uint32_t floats = reader_.Inputs("[[2,2]]", R"(["float"])", "[[2,1]]");
  const uint32_t transposed = reader_.Inputs("[[2,2]]", R"(["float"])", "[[1,2]]");
  const uint32_t longs = reader_.Inputs("[[2,2]]", R"(["long int"])", "[[2,1]]");
  reader_.Operator(main_, "aten::add", 0, 10, {.inputs = floats})
      .Operator(main_, "aten::add", 20, 30, {.inputs = transposed})
      .Operator(main_, "aten::add", 40, 50, {.inputs = longs});
  EXPECT_THAT(Rows(), UnorderedElementsAre(
                          AllOf(Field(&OpRow::types, R"(["float"])"), Field(&OpRow::calls, 2)),
                          AllOf(Field(&OpRow::types, R"(["long int"])"), Field(&OpRow::calls, 1))));
}

// As torch.profiler with group_by_input_shape.
TEST_F(OpInputsTest, ARedispatchIsACallWithTheOuterInputs) {
  const uint32_t outer = reader_.Inputs("[[2,2]]", R"(["float"])");
  const uint32_t inner = reader_.Inputs("[[4]]", R"(["float"])");
  reader_.Operator(main_, "aten::sum", 0, 100, {.inputs = outer})
      .Operator(main_, "aten::sum", 10, 90, {.inputs = inner})
      .ApiCall(main_, "cudaLaunchKernel", 20, 25, 1)
      .Kernel("k", 200, 230, 1);
  EXPECT_THAT(
      Rows({.sort = OpSort::kName}),
      ElementsAre(AllOf(RowIs("aten::sum", "[[2,2]]", 1), Field(&OpRow::self_cpu_ns, 95),
                        Field(&OpRow::self_device_ns, 30), Field(&OpRow::device_total_ns, 30)),
                  RowIs("cudaLaunchKernel", "", 1)));
}

TEST_F(OpInputsTest, WhatHasNoInputsIsOneRowByName) {
  const uint32_t nothing = reader_.Inputs("", "");
  reader_.Range(main_, "train", 0, 100)
      .Operator(main_, "aten::empty", 10, 20)
      .Operator(main_, "aten::empty", 30, 40, {.inputs = nothing});
  EXPECT_THAT(Rows(), UnorderedElementsAre(RowIs("train", "", 1), RowIs("aten::empty", "", 2)));
}

TEST_F(OpInputsTest, SelfTimesAreThoseOfTheNesting) {
  const uint32_t inputs = reader_.Inputs("[[2]]", R"(["float"])");
  reader_.BatchRows(2)
      .Operator(main_, "aten::linear", 0, 100, {.inputs = inputs})
      .Operator(main_, "aten::t", 10, 20, {.inputs = inputs})
      .Operator(main_, "aten::addmm", 30, 90, {.inputs = inputs});
  std::map<std::string, int64_t> self;
  for (const OpRow& row : Rows()) self[row.name] = row.self_cpu_ns;
  EXPECT_EQ(self, (std::map<std::string, int64_t>{
                      {"aten::linear", 30}, {"aten::t", 10}, {"aten::addmm", 60}}));
}

TEST_F(OpInputsTest, AnOperatorBelongsToTheRangeOfItsThreadStartAndDepth) {
  const uint32_t other = reader_.AddThread(2, "worker");
  const uint32_t outer = reader_.Inputs("[[1]]", "");
  const uint32_t inner = reader_.Inputs("[[2]]", "");
  const uint32_t elsewhere = reader_.Inputs("[[3]]", "");
  reader_.Operator(main_, "op", 0, 100, {.inputs = outer})
      .Operator(main_, "op", 0, 50, {.inputs = inner})
      .Operator(other, "op", 0, 70, {.inputs = elsewhere})
      .Range(main_, "op", 60, 80, {.category = 1});  // nothing is known of this one
  EXPECT_THAT(Rows(), UnorderedElementsAre(RowIs("op", "[[1]]", 1), RowIs("op", "[[2]]", 1),
                                           RowIs("op", "[[3]]", 1), RowIs("op", "", 1)));
}

TEST_F(OpInputsTest, AStrangersOperatorsWithoutRangesAreInNoRow) {
  const uint32_t inputs = reader_.Inputs("[[1]]", "");
  reader_.Operator(main_, "op", 0, 10, {.inputs = inputs})
      .LooseOperator(main_, {.start_ns = 5, .depth = 90, .inputs = inputs})
      .LooseOperator(main_, {.start_ns = INT64_MIN, .depth = 0, .inputs = inputs})
      .LooseOperator(main_, {.start_ns = 0, .depth = 0, .inputs = inputs});  // one range, twice
  EXPECT_THAT(Rows(), ElementsAre(RowIs("op", "[[1]]", 1)));
}

TEST_F(OpInputsTest, ByStepAndByInputsAreOneRowForEach) {
  const uint32_t small = reader_.Inputs("[[1]]", "");
  const uint32_t large = reader_.Inputs("[[9]]", "");
  reader_.Step(4, 0, 100).Step(5, 100, 100);
  reader_.Operator(main_, "op", 0, 10, {.inputs = small})
      .Operator(main_, "op", 20, 30, {.inputs = large})
      .Operator(main_, "op", 110, 120, {.inputs = small});
  std::vector<std::tuple<int64_t, std::string, int64_t>> rows;
  for (const OpRow& row : Rows({.sort = OpSort::kName, .by_step = true})) {
    rows.emplace_back(row.step, row.dims, row.calls);
  }
  EXPECT_THAT(rows, ElementsAre(std::tuple(4, "[[1]]", 1), std::tuple(4, "[[9]]", 1),
                                std::tuple(5, "[[1]]", 1)));
  EXPECT_THAT(Rows({.step = 5}), ElementsAre(RowIs("op", "[[1]]", 1)));
}

TEST_F(OpInputsTest, DeviceTimeGoesToTheRowOfTheCallThatLaunchedIt) {
  const uint32_t small = reader_.Inputs("[[1]]", "");
  const uint32_t large = reader_.Inputs("[[9]]", "");
  reader_.mutable_record().gpu.outcome = GpuOutcome::kRecorded;
  reader_.Operator(main_, "aten::mm", 0, 10, {.inputs = small})
      .ApiCall(main_, "cudaLaunchKernel", 2, 4, 1)
      .Kernel("gemm", 5, 8, 1)
      .Operator(main_, "aten::mm", 20, 30, {.inputs = large})
      .ApiCall(main_, "cudaLaunchKernel", 22, 24, 2)
      .Kernel("gemm", 25, 95, 2);
  std::map<std::string, int64_t> device;
  for (const OpRow& row : Rows()) {
    if (row.name == "aten::mm") device[row.dims] = row.self_device_ns;
  }
  EXPECT_EQ(device, (std::map<std::string, int64_t>{{"[[1]]", 3}, {"[[9]]", 70}}));
}

TEST_F(OpInputsTest, AReadersErrorIsTheReportsError) {
  reader_.Operator(main_, "op", 0, 10).FailAfter(0, absl::DataLossError("bad chunk"));
  EXPECT_THAT(SummarizeOps(reader_, {.by_inputs = true}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(OperatorIndexTest, FindsEveryOperatorWhateverTheOrderOfQuestions) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  constexpr int64_t kOps = 200;
  for (int64_t i = 0; i < kOps; ++i) {
    reader.LooseOperator(main, {.start_ns = 10 * i,
                                .depth = static_cast<uint16_t>(i % 3),
                                .inputs = static_cast<uint32_t>(i)});
  }
  absl::StatusOr<OperatorIndex> index = OperatorIndex::Build(reader);
  ASSERT_THAT(index, IsOk());
  for (int64_t i = 0; i < kOps; ++i) {
    const int64_t at = i * 137 % kOps;  // back and forth
    const auto depth = static_cast<uint16_t>(at % 3);
    const OperatorIndex::Entry* found = index->Find(main, 10 * at, depth);
    ASSERT_NE(found, nullptr) << at;
    EXPECT_EQ(found->inputs, static_cast<uint32_t>(at));
    EXPECT_EQ(index->Find(main, 10 * at, depth + 1), nullptr);
    EXPECT_EQ(index->Find(main, 10 * at + 1, depth), nullptr);
  }
  EXPECT_EQ(index->Find(main, INT64_MAX, 0), nullptr);
  EXPECT_EQ(index->Find(main, INT64_MIN, 0), nullptr);
  EXPECT_NE(index->Find(main, 0, 0), nullptr);
  EXPECT_EQ(index->Find(main + 1, 0, 0), nullptr);
}

}  // namespace
}  // namespace profd::report
