// What threads did, with Python functions around it: sampled with operators, and recorded.
#include "daemon/report/index/host_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "proto/wire/event.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;

constexpr uint8_t kPythonOf = static_cast<uint8_t>(wire::RangeCategory::kPython);
constexpr auto kBackwardOf = static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction);

class HostSlicesTest : public testing::Test {
 protected:
  HostSlices Build(bool has_steps = false) {
    absl::StatusOr<HostSlices> slices = HostSlices::Build(
        reader_, {.steps = reader_.steps(), .step_thread = has_steps ? int64_t{main_} : -1});
    EXPECT_THAT(slices, IsOk());
    return *std::move(slices);
  }

  // "  name start-end", a space for each slice around it.
  std::vector<std::string> Tree(const HostSlices& slices, uint32_t thread) const {
    std::vector<std::string> lines;
    const auto row = slices.SlicesOf(slices.RowOf(thread));
    for (const HostSlice& slice : row) {
      std::string line;
      for (uint32_t at = slice.parent; at != HostSlice::kNone; at = row[at].parent) line += " ";
      StrAppend(&line, NameOf(slices, slice), " ", slice.start_ns, "-", slice.end_ns);
      lines.push_back(line);
    }
    return lines;
  }
  std::string NameOf(const HostSlices& slices, const HostSlice& slice) const {
    return slice.is_python ? slices.frames().FunctionOf(slice.frame).name
                           : reader_.names()[slice.name];
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
};

TEST_F(HostSlicesTest, AFunctionLastsFromTheFirstToTheLastOfConsecutiveOperatorsThatHaveIt) {
  const uint32_t train = reader_.Stack(0, "train.py", 1, "train");
  const uint32_t loss = reader_.Stack(train, "train.py", 9, "loss");
  reader_.Operator(main_, "a", 10, 20, {.stack = train})
      .Operator(main_, "b", 30, 40, {.stack = loss})
      .Operator(main_, "c", 50, 60, {.stack = loss})
      .Operator(main_, "d", 70, 80, {.stack = train})
      .Operator(main_, "e", 90, 95, {.stack = loss});
  EXPECT_THAT(
      Tree(Build(), main_),
      ElementsAre("train.py(1): train 10-95", " a 10-20", " train.py(9): loss 30-60", "  b 30-40",
                  "  c 50-60", " d 70-80", " train.py(9): loss 90-95", "  e 90-95"));
}

TEST_F(HostSlicesTest, TheLineOfACallDoesNotEndAFunction) {
  StackRow row = {
      .file = reader_.Name("t.py"), .function = reader_.Name("f"), .line = 5, .first_line = 1};
  const uint32_t first = reader_.Stack(row);
  row.line = 6;
  const uint32_t second = reader_.Stack(row);
  reader_.Operator(main_, "a", 10, 20, {.stack = first})
      .Operator(main_, "b", 30, 40, {.stack = second});
  EXPECT_THAT(Tree(Build(), main_), ElementsAre("t.py(1): f 10-40", " a 10-20", " b 30-40"));
}

TEST_F(HostSlicesTest, WhatAnOperatorCallsEndsWithIt) {
  const uint32_t outer = reader_.Stack(0, "t.py", 1, "outer");
  const uint32_t hook = reader_.Stack(outer, "t.py", 9, "hook");
  reader_.Operator(main_, "op", 10, 50, {.stack = outer})
      .Operator(main_, "inside", 20, 30, {.stack = hook})
      .Operator(main_, "next", 60, 70, {.stack = hook});
  EXPECT_THAT(Tree(Build(), main_),
              ElementsAre("t.py(1): outer 10-70", " op 10-50", "  t.py(9): hook 20-30",
                          "   inside 20-30", " t.py(9): hook 60-70", "  next 60-70"));
}

TEST_F(HostSlicesTest, RangesAndStepsWithoutAStackNestWithFunctions) {
  const uint32_t train = reader_.Stack(0, "t.py", 1, "train");
  const uint32_t net = reader_.Stack(train, "t.py", 9, "net");
  reader_.Range(main_, "forward", 20, 45)
      .Operator(main_, "a", 25, 30, {.stack = net})
      .Operator(main_, "b", 32, 40, {.stack = net})
      .Operator(main_, "c", 50, 60, {.stack = train})
      .Operator(main_, "d", 110, 120, {.stack = train})
      .Step(0, 5, 95)
      .Step(1, 100, 50);
  EXPECT_THAT(Tree(Build(/*has_steps=*/true), main_),
              ElementsAre("t.py(1): train 5-150", " forward 20-45", "  t.py(9): net 25-40",
                          "   a 25-30", "   b 32-40", " c 50-60", " d 110-120"));
}

TEST_F(HostSlicesTest, ModulesAreNumberedByClassAndNamedByTheirPlace) {
  reader_.Module(0x10, 0x10, "", "Net").Module(0x20, 0x10, "a", "Linear");
  const uint32_t net = reader_.ModuleStack(0, 0x10, "Net");
  const uint32_t a = reader_.ModuleStack(net, 0x20, "Linear");
  const uint32_t lost = reader_.ModuleStack(net, 0x30, "Linear");
  reader_.Operator(main_, "x", 10, 20, {.stack = a}).Operator(main_, "y", 30, 40, {.stack = lost});
  const HostSlices slices = Build();
  EXPECT_THAT(Tree(slices, main_),
              ElementsAre("nn.Module: Net_0 10-40", " nn.Module: Linear_0 10-20", "  x 10-20",
                          " nn.Module: Linear_1 30-40", "  y 30-40"));
  const auto row = slices.SlicesOf(0);
  EXPECT_EQ(slices.frames().FunctionOf(row[0].frame).module, "Net");
  EXPECT_EQ(slices.frames().FunctionOf(row[1].frame).module, "a");
  EXPECT_EQ(slices.frames().FunctionOf(row[3].frame).module, "Linear");
}

TEST_F(HostSlicesTest, TheSourceOfGeneratedCodeIsAFunctionThatItCalls) {
  reader_
      .Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kGeneratedCode), "gen.py",
            "net.py(8): forward", 5)
      .Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kGeneratedCode), "gen.py",
            "net.py(9): forward", 7);
  StackRow row = {
      .file = reader_.Name("gen.py"), .function = reader_.Name("call"), .first_line = 1};
  const auto stack_at = [&](uint32_t line) {
    row.line = line;
    return reader_.Stack(row);
  };
  const uint32_t first = stack_at(5);
  const uint32_t second = stack_at(6);
  const uint32_t third = stack_at(7);
  reader_.Operator(main_, "a", 10, 20, {.stack = first})
      .Operator(main_, "b", 30, 40, {.stack = second})
      .Operator(main_, "c", 50, 60, {.stack = third});
  EXPECT_THAT(Tree(Build(), main_),
              ElementsAre("gen.py(1): call 10-60", " net.py(8): forward 10-40", "  a 10-20",
                          "  b 30-40", " net.py(9): forward 50-60", "  c 50-60"));
}

TEST_F(HostSlicesTest, RecordedFunctionsComeFromTheirOwnRowOfTheThread) {
  const uint32_t python = reader_.AddThread(1, "main, row 2");
  reader_.Range(python, "t.py(1): train", 0, 100, {.category = kPythonOf})
      .Range(python, "nn.Module: Linear_0", 10, 50, {.category = kPythonOf})
      .Operator(main_, "aten::linear", 20, 40)
      .Operator(main_, "aten::add", 60, 70);
  const HostSlices slices = Build();
  EXPECT_THAT(Tree(slices, main_), ElementsAre("t.py(1): train 0-100", " nn.Module: Linear_0 10-50",
                                               "  aten::linear 20-40", " aten::add 60-70"));
  const auto row = slices.SlicesOf(slices.RowOf(python));
  EXPECT_EQ(row[2].frame, row[1].frame);
  EXPECT_EQ(slices.At(slices.RowOf(main_), 30), 2u);
  EXPECT_EQ(slices.At(slices.RowOf(main_), 55), 0u);
  EXPECT_EQ(slices.At(slices.RowOf(main_), 100), HostSlice::kNone);
}

// As in our exports, where a module begins and ends with its only operator.
TEST_F(HostSlicesTest, RecordedFunctionsAreAroundAnOperatorOfTheSameTime) {
  reader_.Range(main_, "nn.Module: Net_0", 10, 50, {.category = kPythonOf})
      .Operator(main_, "aten::embedding", 10, 40)
      .Range(main_, "nn.Module: Embedding_0", 10, 40, {.depth = 9, .category = kPythonOf});
  EXPECT_THAT(Tree(Build(), main_),
              ElementsAre("nn.Module: Net_0 10-50", " nn.Module: Embedding_0 10-40",
                          "  aten::embedding 10-40"));
}

TEST_F(HostSlicesTest, BackwardAndWhatItRunsKnowsItsForwardFrame) {
  const uint32_t worker = reader_.AddThread(2, "autograd");
  const uint32_t net = reader_.ModuleStack(0, 0x10, "Net");
  reader_.Operator(main_, "aten::mm", 10, 20, {.sequence = 7, .torch_thread = 1, .stack = net})
      .Operator(worker, "MmBackward0", 30, 60,
                {.scope = kBackwardOf, .sequence = 7, .forward_thread = 1, .torch_thread = 2})
      .Operator(worker, "aten::mm", 40, 50);
  const HostSlices slices = Build();
  const uint32_t forward = slices.SlicesOf(slices.RowOf(main_)).back().frame;
  for (const HostSlice& slice : slices.SlicesOf(slices.RowOf(worker))) {
    EXPECT_EQ(slice.forward, forward) << NameOf(slices, slice);
  }
}

TEST_F(HostSlicesTest, RangesThatCannotNestDoNoHarm) {
  const uint32_t train = reader_.Stack(0, "t.py", 1, "train");
  for (int64_t i = 0; i < 3000; ++i) {
    reader_.Operator(main_, "a", i, 10'000 + i, {.stack = i % 3 == 0 ? train : 0});
  }
  const HostSlices slices = Build();
  EXPECT_GE(slices.SlicesOf(0).size(), 3000u);
}

}  // namespace
}  // namespace profd::report
