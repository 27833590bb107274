// Where in the program's Python operators ran, of captures with stacks and of imported traces.
#include "daemon/report/index/place_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/report/index/stack_table.h"
#include "proto/wire/event.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

constexpr auto kBackward = static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction);
constexpr auto kPython = static_cast<uint8_t>(wire::RangeCategory::kPython);

class PlaceIndexTest : public testing::Test {
 protected:
  std::string PlaceAt(PlaceKind kind, int64_t time_ns, uint32_t frames = 8, uint32_t thread = 0) {
    auto index = PlaceIndex::Build(reader_, kind, {.frames = frames});
    EXPECT_THAT(index, IsOk());
    return index->NameOf(index->At(thread, time_ns));
  }
  // `row`: of the thread's ranges, in the order of their ends.
  void Give(uint32_t thread, uint32_t row, std::string_view key, ArgumentType type, int64_t value) {
    reader_.Argument({kArgumentOfRange, thread, row, reader_.Name(key), type, value});
  }
  void GiveText(uint32_t thread, uint32_t row, std::string_view key, std::string_view json) {
    Give(thread, row, key, ArgumentType::kJson, reader_.Name(json));
  }
  std::string ArgumentsAt(int64_t time_ns, std::string key = "", uint32_t thread = 0) {
    auto index = PlaceIndex::Build(reader_, PlaceKind::kArguments, {.argument = std::move(key)});
    EXPECT_THAT(index, IsOk());
    return index->NameOf(index->At(thread, time_ns));
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
};

TEST_F(PlaceIndexTest, TheSourceIsTheInnermostLineOutsideOfLibraries) {
  const uint32_t train = reader_.Stack(0, "/home/me/train.py", 12, "main");
  const uint32_t net = reader_.Stack(train, "/home/me/net.py", 30, "Net.forward");
  const uint32_t linear =
      reader_.Stack(net, "/usr/lib/site-packages/torch/nn/modules/linear.py", 125, "forward");
  reader_.Operator(main_, "aten::linear", 10, 50, {.stack = linear});
  reader_.Operator(main_, "aten::add", 60, 70, {.stack = train});
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 20), "/home/me/net.py(30): Net.forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 60), "/home/me/train.py(12): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 55), "") << "between operators";
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 5), "");
}

TEST_F(PlaceIndexTest, WhereAllLinesAreOfLibrariesTheSourceIsTheInnermost) {
  const uint32_t stack = reader_.Stack(0, "/usr/lib/python3.11/threading.py", 982, "run");
  reader_.Operator(main_, "aten::add", 10, 20, {.stack = stack});
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 10), "/usr/lib/python3.11/threading.py(982): run");
}

TEST_F(PlaceIndexTest, AStackHasAsManyLinesAsAreAskedFor) {
  const uint32_t outer = reader_.Stack(0, "a.py", 1, "main");
  const uint32_t middle = reader_.Stack(outer, "b.py", 2, "f");
  const uint32_t inner = reader_.Stack(middle, "c.py", 3, "g");
  reader_.Operator(main_, "aten::add", 10, 20, {.stack = inner});
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 15, 2), "c.py(3): g < b.py(2): f");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 15, 8), "c.py(3): g < b.py(2): f < a.py(1): main");
}

TEST_F(PlaceIndexTest, GeneratedCodeNamesTheLineOfTheProgramThatItComesFrom) {
  static constexpr const char* kFile = "/tmp/torchinductor_me/av/cav6.py";
  // Out of order, as a hostile file may have them.
  reader_
      .Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kGeneratedCode), kFile,
            "/home/me/net.py(10): Net.forward", 406)
      .Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kGeneratedCode), kFile,
            "/home/me/net.py(8): Net.forward", 398)
      .Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kGeneratedCode), kFile, "",
            420);
  const uint32_t train = reader_.Stack(0, "/home/me/train.py", 12, "main");
  const auto operator_at = [&](int64_t time_ns, uint32_t line, const char* file) {
    const uint32_t call = reader_.Stack(train, file, line, "Runner.call");
    const uint32_t inner =
        reader_.Stack(call, "/usr/lib/site-packages/torch/_inductor/runtime/x.py", 5, "run");
    reader_.Operator(main_, "aten::mm", time_ns, time_ns + 5, {.stack = inner});
  };
  operator_at(0, 397, kFile);
  operator_at(10, 398, kFile);
  operator_at(20, 405, kFile);
  operator_at(30, 406, kFile);
  operator_at(40, 419, kFile);
  operator_at(50, 420, kFile);
  operator_at(60, 0, kFile);
  operator_at(70, 400, "/tmp/torchinductor_me/other.py");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 0), "/tmp/torchinductor_me/av/cav6.py(397): Runner.call");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 10), "/home/me/net.py(8): Net.forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 20), "/home/me/net.py(8): Net.forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 30), "/home/me/net.py(10): Net.forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 40), "/home/me/net.py(10): Net.forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 50), "/tmp/torchinductor_me/av/cav6.py(420): Runner.call");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 60), "/tmp/torchinductor_me/av/cav6.py: Runner.call");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 70), "/tmp/torchinductor_me/other.py(400): Runner.call");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 20, 4),
            "/usr/lib/site-packages/torch/_inductor/runtime/x.py(5): run"
            " < /home/me/net.py(8): Net.forward"
            " < /tmp/torchinductor_me/av/cav6.py(405): Runner.call < /home/me/train.py(12): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 20, 2),
            "/usr/lib/site-packages/torch/_inductor/runtime/x.py(5): run"
            " < /home/me/net.py(8): Net.forward");
}

TEST(StackTablePartsTest, ALineHasAFileALineAndAFunction) {
  const StackTable::Parts parts = StackTable::PartsOf("/home/a (b)/net.py(10): f.<locals>.g");
  EXPECT_EQ(parts.file, "/home/a (b)/net.py");
  EXPECT_EQ(parts.line, 10u);
  EXPECT_EQ(parts.function, "f.<locals>.g");
  for (const std::string_view other : {"", "f", "(): ", "a(x): f", "a(99999999999): f", "): ("}) {
    EXPECT_EQ(StackTable::PartsOf(other).function, other);
    EXPECT_EQ(StackTable::PartsOf(other).file, "");
    EXPECT_EQ(StackTable::PartsOf(other).line, 0u);
  }
}

TEST_F(PlaceIndexTest, AModuleIsNamedByItsPlaceInTheModel) {
  reader_.Module(0x1000, 0x1000, "", "Net").Module(0x2000, 0x1000, "blocks.0.mlp", "Mlp");
  const uint32_t root = reader_.ModuleStack(0, 0x1000, "Net");
  const uint32_t mlp = reader_.ModuleStack(root, 0x2000, "Mlp");
  const uint32_t line = reader_.Stack(mlp, "net.py", 9, "Mlp.forward");
  reader_.Operator(main_, "aten::gelu", 10, 20, {.stack = line});
  reader_.Operator(main_, "aten::add", 30, 40, {.stack = root});
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 10), "blocks.0.mlp");
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 30), "Net");
}

TEST_F(PlaceIndexTest, OfSeveralModelsThePlaceNamesTheModel) {
  reader_.Module(1, 1, "", "Generator").Module(2, 1, "conv", "Conv2d");
  reader_.Module(3, 3, "", "Critic").Module(4, 3, "conv", "Conv2d");
  const uint32_t one = reader_.ModuleStack(0, 2, "Conv2d");
  const uint32_t other = reader_.ModuleStack(0, 4, "Conv2d");
  reader_.Operator(main_, "aten::conv2d", 10, 20, {.stack = one});
  reader_.Operator(main_, "aten::conv2d", 30, 40, {.stack = other});
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 10), "Generator: conv");
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 30), "Critic: conv");
}

TEST_F(PlaceIndexTest, AModuleWhoseAddressIsAnotherModulesNowIsNamedByItsClass) {
  reader_.Module(1, 1, "", "Net").Module(2, 1, "head", "Linear");
  const uint32_t stack = reader_.ModuleStack(0, 2, "Dropout");
  reader_.Operator(main_, "aten::dropout", 10, 20, {.stack = stack});
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 10), "Dropout");
}

TEST_F(PlaceIndexTest, ABackwardOperatorIsWhereItsForwardOperatorWas) {
  const uint32_t autograd = reader_.AddThread(2, "autograd");
  const uint32_t line = reader_.Stack(0, "net.py", 9, "forward");
  const uint32_t backward = reader_.Stack(0, "train.py", 20, "main");
  reader_.Operator(main_, "aten::mm", 10, 20, {.sequence = 7, .torch_thread = 1, .stack = line});
  const FakeOperator of = {
      .scope = kBackward, .sequence = 7, .forward_thread = 1, .torch_thread = 2};
  reader_.Operator(autograd, "MmBackward0", 100, 140, of);
  reader_.Operator(autograd, "aten::mm", 110, 120);
  FakeOperator on_main = of;
  on_main.stack = backward;
  reader_.Operator(main_, "MmBackward0", 200, 240, on_main);
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 105, 8, autograd), "net.py(9): forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 115, 8, autograd), "net.py(9): forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 210), "net.py(9): forward") << "not backward()'s line";
}

TEST_F(PlaceIndexTest, WhatTheEngineRunsInsideOfABackwardOperatorIsWhereThatIs) {
  const uint32_t line = reader_.Stack(0, "net.py", 9, "forward");
  const uint32_t backward = reader_.Stack(0, "train.py", 20, "main");
  const uint32_t custom = reader_.Stack(backward, "ops.py", 5, "Mine.backward");
  reader_.Operator(main_, "aten::mm", 10, 20, {.sequence = 7, .torch_thread = 1, .stack = line});
  reader_.Operator(main_, "evaluate_function: MmBackward0", 100, 200, {.stack = backward});
  reader_.Operator(main_, "MmBackward0", 110, 190,
                   {.scope = kBackward,
                    .sequence = 7,
                    .forward_thread = 1,
                    .torch_thread = 1,
                    .stack = backward});
  reader_.Operator(main_, "aten::mm", 120, 130, {.stack = backward});
  reader_.Operator(main_, "aten::mul", 140, 150, {.stack = custom});
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 105), "train.py(20): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 115), "net.py(9): forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 125), "net.py(9): forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 145), "ops.py(5): Mine.backward");
}

TEST_F(PlaceIndexTest, TheArgumentsAreThoseOfAllRangesAroundAnInstant) {
  reader_.BatchRows(1);
  reader_.Range(main_, "decode", 20, 40).Range(main_, "decode", 50, 70);
  reader_.Range(main_, "request", 10, 80).Range(main_, "alone", 90, 95);
  GiveText(main_, 2, "id", "\"r-17\"");
  Give(main_, 2, "token", ArgumentType::kInteger, 0);
  Give(main_, 0, "token", ArgumentType::kInteger, 1);
  Give(main_, 1, "token", ArgumentType::kInteger, 2);
  Give(main_, 1, "share", ArgumentType::kReal, std::bit_cast<int64_t>(0.25));
  EXPECT_EQ(ArgumentsAt(15), "id=\"r-17\", token=0");
  EXPECT_EQ(ArgumentsAt(30), "id=\"r-17\", token=1") << "of one key, the innermost";
  EXPECT_EQ(ArgumentsAt(60), "id=\"r-17\", token=2, share=0.25");
  EXPECT_EQ(ArgumentsAt(75), "id=\"r-17\", token=0");
  EXPECT_EQ(ArgumentsAt(92), "");
  // Times of the same day, and what JSON has no number for.
  reader_.Range(main_, "at", 100, 110).Range(main_, "at", 120, 130).Range(main_, "at", 140, 150);
  Give(main_, 4, "t", ArgumentType::kReal, std::bit_cast<int64_t>(1700000001.5));
  Give(main_, 5, "t", ArgumentType::kReal, std::bit_cast<int64_t>(1700000002.5));
  Give(main_, 6, "t", ArgumentType::kReal,
       std::bit_cast<int64_t>(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(ArgumentsAt(105), "t=1700000001.5");
  EXPECT_EQ(ArgumentsAt(125), "t=1700000002.5");
  EXPECT_EQ(ArgumentsAt(145), "t=null");
  EXPECT_EQ(ArgumentsAt(60, "token"), "token=2");
  EXPECT_EQ(ArgumentsAt(75, "share"), "");
  EXPECT_EQ(ArgumentsAt(60, "none"), "");
}

TEST_F(PlaceIndexTest, ABackwardOperatorHasTheArgumentsOfItsForwardOperator) {
  const uint32_t autograd = reader_.AddThread(2, "autograd");
  reader_.Operator(main_, "aten::mm", 10, 20, {.sequence = 7, .torch_thread = 1});
  reader_.Range(main_, "forward", 5, 30);
  reader_.Operator(main_, "aten::mul", 40, 50, {.sequence = 8, .torch_thread = 1});
  const FakeOperator of = {
      .scope = kBackward, .sequence = 7, .forward_thread = 1, .torch_thread = 2};
  FakeOperator of_none = of;
  of_none.sequence = 8;
  reader_.Operator(autograd, "MmBackward0", 100, 140, of);
  reader_.Operator(autograd, "aten::mm", 110, 120);
  reader_.Operator(main_, "MulBackward0", 210, 220, of_none);
  reader_.Range(main_, "backward", 200, 240);
  Give(main_, 1, "batch", ArgumentType::kInteger, 32);
  Give(main_, 4, "micro", ArgumentType::kInteger, 2);
  EXPECT_EQ(ArgumentsAt(115, "", autograd), "batch=32");
  EXPECT_EQ(ArgumentsAt(150, "", autograd), "");
  EXPECT_EQ(ArgumentsAt(215), "micro=2") << "its forward operator was inside of none";
}

TEST_F(PlaceIndexTest, ArgumentsOfAHostileFileAreBoundedAndPrintable) {
  for (int64_t i = 0; i < 100; ++i) reader_.Range(main_, "r", 10 * i, 10 * i + 5);
  GiveText(main_, 0, "line\nbreak\x1b[31m", std::string(100'000, 'x'));
  Give(main_, 1, "odd", static_cast<ArgumentType>(200), 5);
  for (int64_t i = 0; i < 100; ++i) {
    Give(main_, 2, "key" + std::to_string(i), ArgumentType::kInteger, i);
  }
  EXPECT_THAT(ArgumentsAt(0), testing::AllOf(testing::SizeIs(testing::Lt(2000)),
                                             testing::Not(testing::HasSubstr("\n")),
                                             testing::Not(testing::HasSubstr("\x1b"))));
  EXPECT_EQ(ArgumentsAt(10), "odd=null");
  EXPECT_THAT(ArgumentsAt(20),
              testing::AllOf(testing::StartsWith("key0=0, "), testing::EndsWith("key31=31")));
}

// Of each request, millions in a long window, one row would be of no use and of much memory.
TEST_F(PlaceIndexTest, MoreDifferentArgumentsThanAreKeptAreOnePlace) {
  constexpr int64_t kCount = PlaceIndex::kMostArgumentPlaces + 100;
  for (int64_t i = 0; i < kCount; ++i) reader_.Range(main_, "r", 10 * i, 10 * i + 5);
  for (int64_t i = 0; i < kCount; ++i) {
    Give(main_, static_cast<uint32_t>(i), "id", ArgumentType::kInteger, i);
  }
  auto index = PlaceIndex::Build(reader_, PlaceKind::kArguments);
  ASSERT_THAT(index, IsOk());
  const auto at = [&](int64_t i) { return index->NameOf(index->At(main_, 10 * i)); };
  EXPECT_EQ(at(0), "id=0");
  EXPECT_EQ(at(PlaceIndex::kMostArgumentPlaces - 1), "id=9999");
  EXPECT_EQ(at(PlaceIndex::kMostArgumentPlaces), PlaceIndex::kOtherArguments);
  EXPECT_EQ(at(kCount - 1), PlaceIndex::kOtherArguments);
}

TEST_F(PlaceIndexTest, AStackThatIsItsOwnCallerEnds) {
  const uint32_t stack = reader_.Stack(/*caller=*/1, "a.py", 1, "f");
  ASSERT_EQ(stack, 1u);
  const uint32_t later = reader_.Stack(/*caller=*/7, "b.py", 2, "g");
  reader_.Operator(main_, "aten::add", 10, 20, {.stack = stack});
  reader_.Operator(main_, "aten::add", 30, 40, {.stack = later});
  reader_.Operator(main_, "aten::add", 50, 60, {.stack = 999});
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 10), "a.py(1): f");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 30), "b.py(2): g");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 50), "");
}

TEST_F(PlaceIndexTest, PythonFunctionsOfAnImportedTraceArePlaces) {
  const uint32_t python = reader_.AddThread(1, "Python functions");
  reader_.Range(python, "train.py(10): main", 0, 100, {.category = kPython})
      .Range(python, "nn.Module: Linear_0", 10, 50, {.category = kPython})
      .Range(python, "torch/nn/modules/linear.py(124): forward", 15, 45, {.category = kPython})
      .Range(python, "<built-in function linear>", 20, 40, {.category = kPython});
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 30), "train.py(10): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 30), "Linear_0");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 30),
            "torch/nn/modules/linear.py(124): forward < train.py(10): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 30, 1), "torch/nn/modules/linear.py(124): forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 60), "");
}

TEST_F(PlaceIndexTest, OfAnImportedTraceABackwardOperatorIsWhereItsForwardOperatorWas) {
  const uint32_t autograd = reader_.AddThread(2, "autograd");
  const uint32_t python = reader_.AddThread(1, "Python functions");
  reader_.Range(python, "train.py(10): main", 0, 1000, {.category = kPython})
      .Range(python, "nn.Module: Net_0", 10, 60, {.category = kPython})
      .Range(python, "net.py(9): forward", 12, 50, {.category = kPython})
      .Range(python, "ops.py(5): backward", 340, 350, {.category = kPython});
  reader_.Operator(main_, "aten::mm", 20, 30, {.sequence = 7, .torch_thread = 1});
  const FakeOperator of = {
      .scope = kBackward, .sequence = 7, .forward_thread = 1, .torch_thread = 2};
  reader_.Operator(autograd, "MmBackward0", 100, 140, of);
  reader_.Operator(autograd, "aten::mm", 110, 120);
  reader_.Operator(main_, "autograd::engine::evaluate_function: MmBackward0", 300, 400);
  reader_.Operator(main_, "MmBackward0", 310, 390, of);
  reader_.Operator(main_, "aten::mm", 320, 330);
  FakeOperator unknown = of;
  unknown.sequence = 6;
  reader_.Operator(main_, "OldBackward0", 500, 510, unknown);
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 105, 8, autograd), "net.py(9): forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 115, 8, autograd), "Net_0");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 115, 8, autograd),
            "net.py(9): forward < train.py(10): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 150, 8, autograd), "");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 305), "train.py(10): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 325), "net.py(9): forward");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 345), "ops.py(5): backward");
  EXPECT_EQ(PlaceAt(PlaceKind::kModule, 345), "Net_0");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 345), "ops.py(5): backward < train.py(10): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kStack, 355), "net.py(9): forward < train.py(10): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 395), "train.py(10): main");
  EXPECT_EQ(PlaceAt(PlaceKind::kSource, 505), "train.py(10): main");
}

TEST(StackTableTest, LibrariesAreTorchPythonsOwnAndProfd) {
  for (const char* file : {"/opt/venv/lib/python3.11/site-packages/torch/optim/adamw.py",
                           "torch/nn/functional.py", "/usr/lib/python3.11/contextlib.py",
                           "<frozen runpy>", "/opt/site-packages/profd/_client.py"}) {
    EXPECT_TRUE(StackTable::IsLibrary(file)) << file;
  }
  for (const char* file : {"train.py", "/home/me/torch_model.py", "/home/me/torch/train.py",
                           "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py"}) {
    EXPECT_FALSE(StackTable::IsLibrary(file)) << file;
  }
}

}  // namespace
}  // namespace profd::report
