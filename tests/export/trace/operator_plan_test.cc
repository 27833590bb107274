#include "daemon/export/trace/operator_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr uint8_t kBackward = 1;  // wire::OperatorScope
constexpr uint8_t kUser = 7;

class OperatorPlanTest : public testing::Test {
 protected:
  OperatorPlanTest() : main_(reader_.AddThread(100, "main")) {}

  OperatorPlan Plan() {
    absl::StatusOr<OperatorPlan> plan = OperatorPlan::Make(reader_);
    EXPECT_THAT(plan, IsOk());
    return *std::move(plan);
  }
  // The names of ranges, as they are counted.
  std::vector<std::string> RangeNames() {
    std::vector<std::string> names;
    EXPECT_THAT(reader_.ForEach<RangeRow>(kRangeName, {},
                                          [&](const RangeBatch& batch) {
                                            for (const uint32_t name : batch.name) {
                                              names.push_back(reader_.names()[name]);
                                            }
                                            return absl::OkStatus();
                                          }),
                IsOk());
    return names;
  }
  // From the forward's name to the backward's.
  std::vector<std::pair<std::string, std::string>> Arrows() {
    const OperatorPlan plan = Plan();
    const std::vector<std::string> names = RangeNames();
    std::map<uint32_t, std::pair<std::string, std::string>> arrows;
    for (const PlannedOperator& op : plan.operators()) {
      if (op.flow == 0) continue;
      auto& [from, to] = arrows[op.flow];
      (op.ends_flow ? to : from) = names[op.range];
    }
    std::vector<std::pair<std::string, std::string>> ends;
    for (auto& [flow, arrow] : arrows) ends.push_back(std::move(arrow));
    return ends;
  }
  FakeCaptureReader& Forward(std::string_view name, int64_t start_ns, int64_t end_ns,
                             int64_t sequence, uint32_t torch_thread = 1) {
    return reader_.Operator(main_, name, start_ns, end_ns,
                            {.sequence = sequence, .torch_thread = torch_thread});
  }
  FakeCaptureReader& Backward(uint32_t thread, std::string_view name, int64_t start_ns,
                              int64_t end_ns, int64_t sequence, uint64_t forward_thread = 1) {
    return reader_.Operator(thread, name, start_ns, end_ns,
                            {.scope = kBackward,
                             .sequence = sequence,
                             .forward_thread = forward_thread,
                             .torch_thread = 2});
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(OperatorPlanTest, ACaptureWithoutOperatorsHasNone) {
  reader_.Range(main_, "forward", 0, 10);
  EXPECT_TRUE(Plan().empty());
  EXPECT_EQ(Plan().Find(0), nullptr);
}

TEST_F(OperatorPlanTest, EachOperatorFindsItsRange) {
  const uint32_t other = reader_.AddThread(101, "other");
  reader_.BatchRows(2);
  reader_.Range(main_, "epoch", 0, 1000);
  for (int i = 0; i < 7; ++i) {
    reader_.Operator(main_, StrCat("op", i), i * 100, i * 100 + 50, {.inputs = uint32_t(i) + 1});
    reader_.Operator(main_, StrCat("in", i), i * 100, i * 100 + 50, {.inputs = uint32_t(i) + 11});
    reader_.Operator(other, StrCat("ot", i), i * 100, i * 100 + 50, {.inputs = uint32_t(i) + 21});
  }
  const OperatorPlan plan = Plan();
  const std::vector<std::string> names = RangeNames();
  ASSERT_THAT(plan.operators(), SizeIs(21));
  OperatorPlan::Cursor cursor(plan);
  for (uint32_t range = 0; range < names.size(); ++range) {
    const PlannedOperator* const op = plan.Find(range);
    EXPECT_EQ(cursor.Next(range), op);
    if (names[range] == "epoch") {
      EXPECT_EQ(op, nullptr);
      continue;
    }
    ASSERT_NE(op, nullptr) << names[range];
    const uint32_t number = names[range].back() - '0';
    const uint32_t base = names[range][0] == 'o' ? (names[range][1] == 'p' ? 1 : 21) : 11;
    EXPECT_EQ(op->inputs, base + number) << names[range];
  }
}

TEST_F(OperatorPlanTest, OperatorsWithoutARangeAreSkipped) {
  Forward("a", 10, 20, 1);
  reader_.LooseOperator(main_, {.start_ns = 5, .depth = 3, .sequence = 1});
  reader_.Range(main_, "b", 30, 40, {.category = 1});
  const OperatorPlan plan = Plan();
  ASSERT_THAT(plan.operators(), SizeIs(1));
  EXPECT_EQ(plan.operators()[0].range, 0U);
}

TEST_F(OperatorPlanTest, OfThoseWithOneNumberTheLastToBeginMadeTheNode) {
  Forward("linear", 0, 100, 9);
  Forward("t", 10, 20, 9);
  Forward("addmm", 30, 90, 9);
  Backward(main_, "AddmmBackward0", 200, 210, 9);
  EXPECT_THAT(Arrows(), ElementsAre(Pair("addmm", "AddmmBackward0")));
}

TEST_F(OperatorPlanTest, TheFirstBackwardToEndTakesTheArrow) {
  const uint32_t autograd = reader_.AddThread(101, "autograd");
  Forward("mul", 0, 10, 3);
  Backward(autograd, "late", 50, 90, 3);
  Backward(main_, "early", 60, 80, 3);
  EXPECT_THAT(Arrows(), ElementsAre(Pair("mul", "early")));
}

TEST_F(OperatorPlanTest, TheEnginesFrameHasItsNodesNumberButNotItsArrow) {
  const uint32_t autograd = reader_.AddThread(101, "autograd");
  Forward("mul", 0, 10, 3);
  reader_.Operator(autograd, "autograd::engine::evaluate_function: MulBackward0", 50, 90);
  Backward(autograd, "MulBackward0", 55, 70, 3);
  reader_.Operator(autograd, "aten::mul", 56, 60, {.torch_thread = 2});
  reader_.Operator(autograd, "aten::add", 75, 80);
  EXPECT_THAT(Arrows(), ElementsAre(Pair("mul", "MulBackward0")));
  const OperatorPlan plan = Plan();
  const PlannedOperator& frame = plan.operators().back();
  EXPECT_EQ(frame.sequence, 3);
  EXPECT_EQ(frame.forward_thread, 1U);
}

TEST_F(OperatorPlanTest, OnlyTheEnginesFrameAndOnlyItsFirstOperatorCount) {
  reader_.Operator(main_, "mine", 0, 40);
  Backward(main_, "MulBackward0", 10, 20, 3);
  reader_.Operator(main_, "autograd::engine::evaluate_function: Graph", 50, 90);
  reader_.Operator(main_, "aten::add", 51, 55);
  Backward(main_, "MulBackward0", 60, 70, 4);
  reader_.Operator(main_, "autograd::engine::evaluate_function: Empty", 100, 110);
  const std::vector<std::string> names = RangeNames();
  const auto plan = Plan();
  for (const PlannedOperator& op : plan.operators()) {
    if (op.scope == kBackward) continue;
    EXPECT_EQ(op.sequence, -1) << names[op.range];
  }
}

TEST_F(OperatorPlanTest, ThreadsNumberTheirSequencesApart) {
  Forward("on 1", 0, 10, 3, 1);
  Forward("on 2", 20, 30, 3, 2);
  Backward(main_, "of 2", 50, 60, 3, 2);
  Backward(main_, "of 1", 70, 80, 3, 1);
  Backward(main_, "of 3", 90, 95, 3, 3);
  EXPECT_THAT(Arrows(), UnorderedElementsAre(Pair("on 1", "of 1"), Pair("on 2", "of 2")));
}

TEST_F(OperatorPlanTest, WithoutNumbersThereAreNoArrows) {
  Forward("no sequence", 0, 10, -1);
  Forward("no thread", 20, 30, 4, 0);
  Backward(main_, "b", 50, 60, 4);
  Backward(main_, "c", 70, 80, -1);
  EXPECT_THAT(Arrows(), IsEmpty());
}

TEST_F(OperatorPlanTest, ARepeatedNumberIsANewPair) {
  for (const int64_t at : {0, 1000}) {
    Forward(StrCat("f", at), at, at + 10, 5);
    Backward(main_, StrCat("b", at), at + 100, at + 110, 5);
  }
  EXPECT_THAT(Arrows(), ElementsAre(Pair("f0", "b0"), Pair("f1000", "b1000")));
}

TEST_F(OperatorPlanTest, NoArrowGoesBackInTime) {
  const uint32_t autograd = reader_.AddThread(101, "autograd");
  Forward("f", 50, 60, 5);
  Backward(autograd, "b", 40, 70, 5);
  EXPECT_THAT(Arrows(), IsEmpty());
}

TEST_F(OperatorPlanTest, ErrorsOfTheReaderAreItsOwn) {
  Forward("f", 50, 60, 5).FailAfter(0, absl::DataLossError("torn"));
  EXPECT_THAT(OperatorPlan::Make(reader_), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(IsOperatorTest, RangesOfUsersAreNot) {
  const PlannedOperator function;
  const PlannedOperator user = {.scope = kUser};
  EXPECT_TRUE(IsOperator(1, nullptr));
  EXPECT_TRUE(IsOperator(1, &function));
  EXPECT_FALSE(IsOperator(1, &user));
  EXPECT_FALSE(IsOperator(0, nullptr));
  EXPECT_FALSE(IsOperator(0, &user));
}

}  // namespace
}  // namespace profd::exporter
