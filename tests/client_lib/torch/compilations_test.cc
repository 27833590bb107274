// What a capture holds of torch.compile while it compiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <utility>

#include "tests/client_lib/torch/operators_fixture.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using wire::NoteKind;

std::map<std::string, int64_t> FoldedIn(const CaptureContents& contents) {
  std::map<std::string, int64_t> folded;
  for (const auto& note : contents.notes) {
    if (note.event.kind == static_cast<uint16_t>(NoteKind::kFolded)) {
      folded[note.subject] = note.event.value;
    }
  }
  return folded;
}

TEST(CompilationsTest, WhatIsInsideOfACompilationIsCountedAndLeftOut) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const FakeTorch& torch = program.torch;
    for (int i = 0; i < 2; ++i) {
      const Operator compile(torch,
                             {.name = "_compile.compile_inner (dynamo_timed)", .scope = kUser});
      const Operator inner(
          torch, {.name = "OutputGraph.call_user_compiler (dynamo_timed)", .scope = kUser});
      program.Run({.name = "aten::relu"});
      program.Run({.name = "sent ahead", .scope = kUser, .is_async = true});
    }
    {
      const Operator compile(torch, {.name = "bw_compiler (dynamo_timed)", .scope = kUser});
      program.Run({.name = "aten::mm"});
    }
    program.Run({.name = "aten::mul"});
  });
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("_compile.compile_inner (dynamo_timed)",
                                                    "_compile.compile_inner (dynamo_timed)",
                                                    "bw_compiler (dynamo_timed)", "aten::mul"));
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchFolded], 7u);
  EXPECT_THAT(FoldedIn(contents), ElementsAre(std::pair("_compile.compile_inner (dynamo_timed)", 6),
                                              std::pair("bw_compiler (dynamo_timed)", 1)));
}

TEST(CompilationsTest, ACompilationThatPythonTellsOfIsOneRange) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    {
      const Operator outer(program.torch, {.name = "aten::outer"});
      profd_torch_compiling(1);
      program.Run({.name = "aten::relu"});
      profd_torch_compiling(1);  // It starts over.
      {
        const Operator timed(program.torch, {.name = "inner (dynamo_timed)", .scope = kUser});
        program.Run({.name = "aten::relu"});
      }
      profd_torch_compiling(0);
      profd_torch_compiling(0);
      program.Run({.name = "aten::mul"});
    }
    program.Run({.name = "aten::add"});
  });
  EXPECT_THAT(NamesOf(contents.ranges),
              ElementsAre("_compile.compile_inner", "aten::mul", "aten::outer", "aten::add"));
  EXPECT_EQ(RangeNamed(contents, "_compile.compile_inner").depth, 1u);
  EXPECT_EQ(RangeNamed(contents, "aten::add").depth, 0u);
  EXPECT_THAT(FoldedIn(contents), ElementsAre(std::pair("_compile.compile_inner", 3)));
}

TEST(CompilationsTest, ACompilationWhoseEndNobodyTellsEndsWithTheNextLookup) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    {
      const Operator outer(program.torch, {.name = "aten::outer"});
      profd_torch_compiling(1);
      program.Run({.name = "aten::relu"});
    }
    program.Run({.name = "TorchDynamo Cache Lookup"});
    program.Run({.name = "aten::mul"});
    profd_torch_compiling(0);
    std::thread([&] { program.Run({.name = "aten::add"}); }).join();
  });
  EXPECT_THAT(NamesOf(contents.ranges),
              UnorderedElementsAre("aten::outer", "_compile.compile_inner",
                                   "TorchDynamo Cache Lookup", "aten::mul", "aten::add"));
  EXPECT_THAT(FoldedIn(contents), ElementsAre(std::pair("_compile.compile_inner", 1)));
}

TEST(CompilationsTest, ACompilationOfAnEarlierWindowIsOver) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    const Program program = StartProgram();
    profd_torch_compiling(1);  // Nothing records.
    for (int i = 0; i < 2; ++i) {
      parent.Tell('b');
      program.WaitEnabled(true);
      program.Run({.name = "aten::relu"});
      profd_torch_compiling(1);
      parent.Tell('d');
      parent.Await('x');
      program.WaitEnabled(false);
    }
  });
  auto target = daemon.WaitTarget();
  for (int i = 0; i < 2; ++i) {
    const CaptureContents contents = CaptureWindow(*target, child);
    EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("aten::relu"));
    child.Tell('x');
  }
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
