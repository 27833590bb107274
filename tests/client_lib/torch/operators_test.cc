// What a capture holds of a torch's operators, and what of them it leaves out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client_lib/include/profd/profd.hpp"
#include "proto/wire/event.h"
#include "tests/client_lib/torch/operators_fixture.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::NoteKind;
using wire::OperatorScope;
using wire::OperatorsMode;
using wire::RangeCategory;

// ---- In each torch.

struct Known {
  const char* name;
  const char* build;
  FakeLayout layout;

  friend void PrintTo(const Known& known, std::ostream* out) { *out << known.name; }
};

class OperatorsInEachTorchTest : public ::testing::TestWithParam<Known> {};

TEST_P(OperatorsInEachTorchTest, OperatorsAreRangesWithAllThatIsKnownOfThem) {
  const Setting setting{.build = GetParam().build, .layout = GetParam().layout};
  const CaptureContents contents = Capture(setting, [](const Program& program) {
    const Operator linear(
        program.torch, {.name = "aten::linear", .sequence = 41},
        {program.make.Tensor({16, 64}), program.make.Tensor({8, 64}), program.make.None()});
    program.Run({.name = "aten::t", .sequence = 42}, {program.make.Tensor({8, 64})});
    program.Run(
        {.name = "AddmmBackward0", .scope = kBackward, .sequence = 41, .forward_thread = 1});
  });
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("aten::t", "AddmmBackward0", "aten::linear"));
  EXPECT_EQ(contents.dropped(), 0u);
  for (const auto& range : contents.ranges) {
    EXPECT_EQ(range.category, static_cast<uint32_t>(RangeCategory::kOperator)) << range.name;
    EXPECT_EQ(contents.OperatorOf(range).event.torch_thread, 1u) << range.name;
  }
  const auto& linear = OperatorNamed(contents, "aten::linear");
  EXPECT_EQ(linear.event.depth, 0u);
  EXPECT_EQ(linear.event.sequence, 41);
  EXPECT_EQ(linear.event.scope, 0u);
  EXPECT_EQ(linear.event.forward_thread, 0u);
  EXPECT_EQ(linear.event.input_count, 3u);
  EXPECT_THAT(linear.inputs, ElementsAre("tensor 6 [16,64]", "tensor 6 [8,64]", "none"));
  EXPECT_EQ(OperatorNamed(contents, "aten::t").event.depth, 1u);
  const auto& backward = OperatorNamed(contents, "AddmmBackward0");
  EXPECT_EQ(backward.event.scope, kBackward);
  EXPECT_EQ(backward.event.sequence, 41);
  EXPECT_EQ(backward.event.forward_thread, 1u);
}

TEST_P(OperatorsInEachTorchTest, WhatOnlyBuildsForPhonesAnnounceIsLeftOut) {
  const Setting setting{.build = GetParam().build, .layout = GetParam().layout};
  const CaptureContents contents = Capture(setting, [](const Program& program) {
    for (uint8_t scope = 0; scope <= wire::kMaxOperatorScope; ++scope) {
      const std::string name = "scope " + std::to_string(scope);
      program.Run({.name = name.c_str(), .scope = scope});
    }
  });
  EXPECT_THAT(NamesOf(contents.ranges),
              ElementsAre("scope 0", "scope 1", "scope 2", "scope 7", "scope 8", "scope 9"));
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_P(OperatorsInEachTorchTest, InputsOfEveryKindAreDescribed) {
  const Setting setting{.build = GetParam().build, .layout = GetParam().layout};
  const CaptureContents contents = Capture(setting, [](const Program& program) {
    const Inputs& make = program.make;
    program.Run({.name = "record_param_comms"},
                {make.List({make.Tensor({4}), make.None(), make.Tensor({2, 3}, kFakeLong)}),
                 make.Tuple(), make.Int(-3), make.String("all_reduce"), make.String(""),
                 make.List({make.Int(5), make.Int(-6)}), make.List({make.Double(0.5)}),
                 make.List({make.Bool(true), make.Bool(false)}), make.List({}), make.Double(-0.25),
                 make.Bool(true), make.List({make.String("no list of ours")}),
                 make.Tensor(program.torch.undefined_tensor()), make.Tensor(std::vector<int64_t>{}),
                 make.Tensor({1, 2, 3, 4, 5, 6, 7}), make.TensorWithoutStorage({9})});
  });
  const auto& op = OperatorNamed(contents, "record_param_comms");
  EXPECT_THAT(op.inputs,
              ElementsAre("tensors 3", "tensor 6 [4]", "none", "tensor 4 [2,3]", "other", "int -3",
                          "string all_reduce", "string ", "ints [5,-6]", "doubles [0.5]",
                          "bools [1,0]", "ints []", "double -0.25", "bool 1", "other", "none",
                          "tensor 6 []", "tensor 6 [1,2,3,4,5,6,7]", "tensor 6 [9]"));
  EXPECT_EQ(op.event.input_count, 16u);
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchCutInputs], 0u);
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchOddTensors], 0u);
}

INSTANTIATE_TEST_SUITE_P(Layouts, OperatorsInEachTorchTest,
                         ::testing::Values(Known{"Torch113", "full", LayoutOf113()},
                                           Known{"Torch26", "full", LayoutOf26()},
                                           Known{"Torch215", "variant_before", LayoutOf215()},
                                           Known{"OldAbi", "full", LayoutOfOldAbi()},
                                           Known{"Shifted", "full", ShiftedLayout()}),
                         [](const auto& known) { return std::string(known.param.name); });

// ---- What is asked for.

TEST(OperatorsTest, NamesAloneHaveNoInputs) {
  const CaptureContents contents =
      Capture({.wanted = Wanted(OperatorsMode::kNames)}, [](const Program& program) {
        program.Run({.name = "aten::relu", .sequence = 3}, {program.make.Tensor({2})});
      });
  const auto& op = OperatorNamed(contents, "aten::relu");
  EXPECT_EQ(op.event.sequence, 3);
  EXPECT_EQ(op.event.input_count, 0u);
  EXPECT_THAT(op.inputs, IsEmpty());
}

TEST(OperatorsTest, NothingIsObservedUnlessItIsAskedFor) {
  const CaptureContents contents =
      Capture({.wanted = Wanted(OperatorsMode::kOff), .expects_callbacks = false},
              [](const Program& program) {
                CHILD_EXPECT(!program.ObservesOperators());
                program.Run({.name = "aten::relu"});
              });
  EXPECT_THAT(contents.ranges, IsEmpty());
  EXPECT_THAT(contents.operators, IsEmpty());
}

TEST(OperatorsTest, StridesComeIfAskedFor) {
  const CaptureContents contents =
      Capture({.wanted = Wanted(OperatorsMode::kShapes, wire::kArmTorchStrides)},
              [](const Program& program) {
                program.Run({.name = "aten::relu"},
                            {program.make.Tensor({2, 3}), program.make.Tensor({1, 2, 3, 4, 5, 6})});
              });
  EXPECT_THAT(OperatorNamed(contents, "aten::relu").inputs,
              ElementsAre("tensor 6 [2,3] strides [3,1]",
                          "tensor 6 [1,2,3,4,5,6] strides [720,360,120,30,6,1]"));
}

TEST(OperatorsTest, StoragesComeWithMemory) {
  const CaptureContents contents = Capture(
      {.wanted = Wanted(OperatorsMode::kShapes, wire::kArmTorchMemory)},
      [](const Program& program) {
        const FakeTensor tensor = program.make.MakeTensor({7});
        program.Run({.name = "aten::relu"},
                    {program.make.Tensor(tensor.impl), program.make.TensorWithoutStorage({2})});
        char name[64];
        snprintf(name, sizeof(name), "tensor 6 [7] at 0x%llx",
                 reinterpret_cast<unsigned long long>(tensor.data));
        program.Run({.name = name});
      });
  ASSERT_THAT(contents.ranges, SizeIs(2));
  EXPECT_THAT(OperatorNamed(contents, "aten::relu").inputs,
              ElementsAre(contents.ranges[1].name, "tensor 6 [2]"));
}

TEST(OperatorsTest, RecordFunctionsAreTheUsersRanges) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const Operator outer(program.torch, {.name = "my step", .scope = kUser});
    program.Run({.name = "aten::relu"});
  });
  EXPECT_EQ(RangeNamed(contents, "my step").category, static_cast<uint32_t>(RangeCategory::kUser));
  EXPECT_EQ(OperatorNamed(contents, "my step").event.scope, kUser);
  EXPECT_EQ(RangeNamed(contents, "aten::relu").depth, 1u);
}

TEST(OperatorsTest, RangesOfTheProgramNestWithOperators) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    static profd_name outer = PROFD_NAME_INIT("outer");
    static profd_name inner = PROFD_NAME_INIT("inner");
    profd_range_begin(&outer);
    {
      const Operator op(program.torch, {.name = "aten::relu"});
      EmptyRange(&inner);
    }
    profd_range_end();
  });
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("inner", "aten::relu", "outer"));
  EXPECT_EQ(RangeNamed(contents, "inner").depth, 2u);
  EXPECT_EQ(OperatorNamed(contents, "aten::relu").event.depth, 1u);
}

// ---- Names.

TEST(OperatorsTest, NamesInTheSamePlaceAreToldApart) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    char name[32];
    for (const char* text : {"AddBackward0", "AddBackward", "MulBackward0", "AddBackward0"}) {
      snprintf(name, sizeof(name), "%s", text);
      program.Run({.name = name});
    }
  });
  EXPECT_THAT(NamesOf(contents.ranges),
              ElementsAre("AddBackward0", "AddBackward", "MulBackward0", "AddBackward0"));
}

TEST(OperatorsTest, ANameOfAnyLengthIsCutAtTheMost) {
  const std::string longest(wire::kMaxNameBytes, 'x');
  const CaptureContents contents = Capture({}, [&](const Program& program) {
    for (const char* const end : {"", "y", "z", "y"}) {
      program.Run({.name = (longest + end).c_str()});
    }
    program.Run({.name = ""});
  });
  const std::vector<std::string> names = NamesOf(contents.ranges);
  ASSERT_THAT(names, SizeIs(5));
  EXPECT_TRUE(names[0] == longest);
  EXPECT_TRUE(names[1].starts_with(longest.substr(0, 4079) + "~"));
  EXPECT_EQ(names[1].size(), wire::kMaxNameBytes);
  EXPECT_TRUE(names[1] != names[2] && names[1] == names[3]);
  EXPECT_EQ(names[4], "");
}

// ---- Inputs without room, and such as are none.

TEST(OperatorsTest, LongListsAndStringsAreCutAndCounted) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const Inputs& make = program.make;
    std::vector<FakeIValue> ints(wire::kMaxListItems + 1, make.Int(1));
    std::vector<FakeIValue> tensors(wire::kMaxListItems + 1, make.Tensor({2}));
    program.Run({.name = "a"}, {make.List(ints)});
    program.Run({.name = "b"}, {make.List(tensors)});
    program.Run({.name = "c"}, {make.String(std::string(wire::kMaxInputStringBytes + 1, 's'))});
    program.Run({.name = "d"}, {make.String(std::string(wire::kMaxInputStringBytes, 's'))});
  });
  std::string ones = "1";
  for (uint32_t i = 1; i < wire::kMaxListItems; ++i) ones += ",1";
  EXPECT_THAT(OperatorNamed(contents, "a").inputs, ElementsAre("ints [" + ones + "] cut"));
  EXPECT_THAT(OperatorNamed(contents, "b").inputs, SizeIs(1 + wire::kMaxListItems));
  EXPECT_EQ(OperatorNamed(contents, "b").inputs[0], "tensors 64 cut");
  const std::string most(wire::kMaxInputStringBytes, 's');
  EXPECT_THAT(OperatorNamed(contents, "c").inputs, ElementsAre("string " + most + " cut"));
  EXPECT_THAT(OperatorNamed(contents, "d").inputs, ElementsAre("string " + most));
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchCutInputs], 3u);
}

TEST(OperatorsTest, InputsBeyondTheLargestRecordAreLeftOutAndCounted) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const Inputs& make = program.make;
    const std::vector<FakeIValue> many(300, make.Tensor({1, 2, 3, 4, 5}));
    program.Run({.name = "tensors"}, many);
    program.Run({.name = "a list"},
                {make.List(std::vector<FakeIValue>(64, make.Tensor(std::vector<int64_t>(25, 1)))),
                 make.Int(1)});
    program.Run({.name = "nones"}, std::vector<FakeIValue>(255, make.None()));
    program.Run({.name = "more"}, std::vector<FakeIValue>(256, make.None()));
  });
  constexpr size_t kRoom = wire::kMaxEventBytes - sizeof(wire::OperatorEvent);
  EXPECT_EQ(OperatorNamed(contents, "tensors").event.input_count, 255u);
  EXPECT_THAT(OperatorNamed(contents, "tensors").inputs, SizeIs(kRoom / (8 + 5 * 8)));
  EXPECT_THAT(OperatorNamed(contents, "a list").inputs, SizeIs(1 + (kRoom - 8) / (8 + 25 * 8)));
  EXPECT_THAT(OperatorNamed(contents, "nones").inputs, SizeIs(255));
  EXPECT_THAT(OperatorNamed(contents, "more").inputs, SizeIs(255));
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchCutInputs], 3u);
}

TEST(OperatorsTest, WhatDoesNotLookLikeATensorIsOtherAndCounted) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const Inputs& make = program.make;
    program.Run({.name = "aten::relu"},
                {make.Tensor(std::vector<int64_t>(26, 1)), make.Tensor({2, -1}), make.Int(4)});
  });
  EXPECT_THAT(OperatorNamed(contents, "aten::relu").inputs, ElementsAre("other", "other", "int 4"));
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchOddTensors], 2u);
}

// ---- Torches that do not show all.

TEST(OperatorsTest, AFieldThatIsNotProvedIsLeftOutAndNamed) {
  FakeLayout layout = LayoutOf26();
  layout.second_sequence = 16;
  const CaptureContents contents = Capture({.layout = layout}, [](const Program& program) {
    program.Run({.name = "aten::relu", .sequence = 7}, {program.make.Tensor({2})});
  });
  const auto& op = OperatorNamed(contents, "aten::relu");
  EXPECT_EQ(op.event.sequence, wire::kNoSequence);
  EXPECT_THAT(op.inputs, ElementsAre("tensor 6 [2]"));
  EXPECT_EQ(contents.torch_status().recorded & wire::kTorchSequences, 0u);
  EXPECT_NE(contents.torch_status().recorded & wire::kTorchScopes, 0u);
  const auto is_missing = [](const CaptureContents::Note& note) {
    return note.event.kind == static_cast<uint16_t>(NoteKind::kMissing) &&
           note.subject == "sequence numbers";
  };
  EXPECT_EQ(std::count_if(contents.notes.begin(), contents.notes.end(), is_missing), 1);
}

TEST(OperatorsTest, RangesOfTheUsersAreToldFromOperatorsWithoutTheirScope) {
  FakeLayout layout = LayoutOf26();
  layout.scope = -1;
  const CaptureContents contents = Capture({.layout = layout}, [](const Program& program) {
    const Operator user(program.torch, {.name = "mine", .scope = kUser}, {});
    program.Run({.name = "aten::relu"}, {program.make.Tensor({2})});
  });
  EXPECT_EQ(RangeNamed(contents, "mine").category,
            static_cast<uint16_t>(wire::RangeCategory::kUser));
  EXPECT_EQ(RangeNamed(contents, "aten::relu").category,
            static_cast<uint16_t>(wire::RangeCategory::kOperator));
  EXPECT_EQ(RangeNamed(contents, "aten::relu").depth, 1u);
}

TEST(OperatorsTest, ATorchWithoutAFunctionLeavesTheRestOfTheCapture) {
  const CaptureContents contents =
      Capture({.build = "no_reenable", .expects_callbacks = false}, [](const Program& program) {
        static profd_name name = PROFD_NAME_INIT("mine");
        EmptyRange(&name);
        program.Run({.name = "aten::relu"});
      });
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("mine"));
  EXPECT_EQ(contents.torch_status().recorded & wire::kTorchOperators, 0u);
  const auto names_it = [](const CaptureContents::Note& note) {
    return note.subject == "operators" && note.text.find("reenableCallback") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(contents.notes.begin(), contents.notes.end(), names_it), 1);
}

// ---- Operators that end elsewhere, later or never.

TEST(OperatorsTest, AnAsyncOneMayEndOnAnotherThread) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const FakeTorch& torch = program.torch;
    void* sent = torch.begin({.name = "gloo:all_reduce", .scope = kUser, .is_async = true});
    program.Run({.name = "aten::relu"});
    std::thread([&] { torch.end(sent); }).join();
    program.Run({.name = "aten::mul"});
  });
  const auto& sent = RangeNamed(contents, "gloo:all_reduce");
  EXPECT_NE(sent.lane, 0u);
  EXPECT_EQ(RangeNamed(contents, "aten::relu").depth, 0u);
  EXPECT_EQ(RangeNamed(contents, "aten::mul").depth, 0u);
  EXPECT_NE(sent.thread_serial, RangeNamed(contents, "aten::mul").thread_serial);
  EXPECT_LE(sent.start_ticks, RangeNamed(contents, "aten::relu").start_ticks);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

// As a collective of gloo, whose thread says that it is over only after the window.
TEST(OperatorsTest, AsyncOnesThatAreOpenWhenTheWindowEndsAreKept) {
  constexpr size_t kOpen = 12;
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const FakeTorch& torch = program.torch;
    void* ended = nullptr;
    for (size_t i = 0; i < kOpen; ++i) {
      ended = torch.begin({.name = "gloo:all_reduce", .scope = kUser, .is_async = true});
    }
    program.Run({.name = "aten::relu"});
    torch.end(ended);
  });
  // One ended; of the others, each has a lane as far as there are some.
  const size_t kept = contents.CountRanges("gloo:all_reduce");
  EXPECT_GT(kept, 1u);
  EXPECT_EQ(kept + contents.dropped(), kOpen);
  std::set<uint32_t> lanes;
  for (const auto& range : contents.ranges) {
    if (range.name == "gloo:all_reduce") lanes.insert(range.lane);
  }
  EXPECT_EQ(lanes.size(), kept);
}

// record_function() of two asyncio tasks on one thread.
TEST(OperatorsTest, RecordFunctionsThatOverlapEndByIdentity) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const FakeTorch& torch = program.torch;
    void* const first = torch.begin({.name = "A", .scope = kUser});
    program.Run({.name = "in A"});
    void* const second = torch.begin({.name = "B", .scope = kUser});
    torch.end(first);
    program.Run({.name = "in B"});
    torch.end(second);
    program.Run({.name = "after"});
  });
  const auto end_of = [](const CaptureContents::Range& range) {
    return range.start_ticks + range.duration_ticks;
  };
  const auto& a = RangeNamed(contents, "A");
  const auto& b = RangeNamed(contents, "B");
  EXPECT_NE(a.lane, 0u);
  EXPECT_EQ(b.lane, 0u);
  EXPECT_EQ(b.depth, 0u);
  EXPECT_LE(a.start_ticks, RangeNamed(contents, "in A").start_ticks);
  EXPECT_LE(end_of(a), RangeNamed(contents, "in B").start_ticks);
  EXPECT_LE(end_of(RangeNamed(contents, "in B")), end_of(b));
  EXPECT_LE(end_of(b), RangeNamed(contents, "after").start_ticks);
  EXPECT_EQ(RangeNamed(contents, "after").depth, 0u);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST(OperatorsTest, ARecordFunctionMayEndOnAnotherThreadAndEndsNoneThere) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const FakeTorch& torch = program.torch;
    void* const handed_over = torch.begin({.name = "handed over", .scope = kUser});
    std::thread([&] {
      void* const own = torch.begin({.name = "own", .scope = kUser});
      torch.end(handed_over);
      program.Run({.name = "aten::relu"});
      torch.end(own);
    }).join();
    torch.end(torch.begin({.name = "next", .scope = kUser}));
    torch.end(torch.begin({.name = "last", .scope = kUser}));
  });
  EXPECT_NE(RangeNamed(contents, "handed over").lane, 0u);
  EXPECT_EQ(RangeNamed(contents, "aten::relu").depth, 1u);
  EXPECT_EQ(RangeNamed(contents, "own").lane, 0u);
  EXPECT_EQ(RangeNamed(contents, "last").lane, 0u);
  EXPECT_EQ(RangeNamed(contents, "last").depth, 0u);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST(OperatorsTest, ARecordFunctionThatNeverEndsKeepsOthersInTheirPlace) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    program.torch.begin({.name = "left open", .scope = kUser});
    program.torch.end(program.torch.begin({.name = "closed", .scope = kUser}));
    program.Run({.name = "aten::relu"});
  });
  EXPECT_EQ(RangeNamed(contents, "closed").lane, 0u);
  ASSERT_THAT(contents.open_ranges, SizeIs(1));
  EXPECT_EQ(contents.open_ranges[0].name, "left open");
}

TEST(OperatorsTest, AsyncOnesBeyondTheMostAreCounted) {
  constexpr size_t kMost = 1024;  // kMaxAsyncOperators
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const FakeTorch& torch = program.torch;
    std::vector<void*> sent;
    for (size_t i = 0; i < kMost + 3; ++i) {
      sent.push_back(torch.begin({.name = "nccl:all_reduce", .scope = kUser, .is_async = true}));
    }
    torch.end(sent.front());
    void* const reused = torch.begin({.name = "reused", .scope = kUser, .is_async = true});
    torch.end(reused);
    for (size_t i = 1; i < sent.size(); ++i) torch.end(sent[i]);
  });
  EXPECT_EQ(contents.CountRanges("reused"), 1u);
  // Those that overlap beyond the lanes are counted by the same cause.
  EXPECT_EQ(contents.CountRanges("nccl:all_reduce") + contents.dropped(), kMost + 3);
  EXPECT_GE(contents.drops[wire::kDropTooDeep], 3u);
}

TEST(OperatorsTest, WhatIsOpenWhenTheWindowEndsIsKnownByItsBegin) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    program.torch.begin({.name = "aten::forever", .sequence = 5});
    program.Run({.name = "aten::relu"});
  });
  ASSERT_THAT(contents.open_ranges, SizeIs(1));
  EXPECT_EQ(contents.open_ranges[0].name, "aten::forever");
  ASSERT_THAT(contents.operators, SizeIs(2));
  EXPECT_EQ(contents.operators[0].event.start_ticks, contents.open_ranges[0].start_ticks);
  EXPECT_EQ(contents.operators[0].event.sequence, 5);
}

TEST(OperatorsTest, AThreadThatDiesInsideAnOperatorHarmsNobody) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    std::thread([&] { program.torch.begin({.name = "aten::dies"}); }).join();
    program.Run({.name = "aten::relu"});
  });
  // The thread's end is that of its operator.
  ASSERT_THAT(NamesOf(contents.ranges), ElementsAre("aten::dies", "aten::relu"));
  EXPECT_EQ(contents.ranges[0].flags, wire::kEventFlagUnended);
  EXPECT_EQ(contents.ranges[1].flags, 0);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST(OperatorsTest, ThreadsHaveTorchsNumbers) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    program.Run({.name = "first"});
    std::thread([&] { program.Run({.name = "second"}); }).join();
  });
  const auto& first = OperatorNamed(contents, "first");
  const auto& second = OperatorNamed(contents, "second");
  EXPECT_EQ(first.event.torch_thread, 1u);
  EXPECT_GT(second.event.torch_thread, 1u);
  EXPECT_NE(first.thread_serial, second.thread_serial);
}

// ---- Much.

TEST(OperatorsTest, RecordsFillChunksWithoutALoss) {
  constexpr uint32_t kCount = 20'000;
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const Inputs& make = program.make;
    const FakeIValue small = make.Tensor({2});
    const FakeIValue large = make.List(std::vector<FakeIValue>(50, make.Tensor({1, 2, 3})));
    for (uint32_t i = 0; i < kCount; ++i) {
      program.Run({.name = "aten::relu", .sequence = i}, {i % 16 == 0 ? large : small});
    }
  });
  EXPECT_EQ(contents.dropped(), 0u);
  ASSERT_THAT(contents.ranges, SizeIs(kCount));
  ASSERT_THAT(contents.operators, SizeIs(kCount));
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(contents.operators[i].event.sequence, i);
    ASSERT_EQ(contents.operators[i].event.start_ticks, contents.ranges[i].start_ticks);
    ASSERT_THAT(contents.operators[i].inputs, SizeIs(i % 16 == 0 ? 51 : 1));
  }
}

// All that a capture can hold of a program without ranges of its own.
uint64_t CountEvents(const CaptureContents& contents) {
  return contents.ranges.size() + contents.operators.size() + contents.notes.size() +
         contents.torch_statuses.size() + contents.dropped();
}

TEST(OperatorsTest, WhatFindsNoChunkIsCountedToTheLast) {
  constexpr uint32_t kCount = 200'000;
  const auto run = [](const Program& program, uint32_t count) {
    const FakeIValue tensor = program.make.Tensor({2, 3});
    for (uint32_t i = 0; i < count; ++i) program.Run({.name = "aten::relu"}, {tensor});
  };
  const CaptureContents few = Capture({}, [&](const Program& program) { run(program, 1); });
  const CaptureContents many = Capture({.memory_bytes = wire::kMinCaptureMemoryBytes},
                                       [&](const Program& program) { run(program, kCount); });
  EXPECT_EQ(few.dropped(), 0u);
  EXPECT_GT(many.dropped(), 0u);
  // Each operator is a record and a range.
  EXPECT_EQ(CountEvents(many), CountEvents(few) + 2 * (kCount - 1));
}

TEST(OperatorsTest, OperatorsTooDeepAreCounted) {
  constexpr uint32_t kDepth = wire::kMaxRangeDepth + 5;
  const CaptureContents contents = Capture({}, [](const Program& program) {
    std::vector<void*> open;
    for (uint32_t i = 0; i < kDepth; ++i) open.push_back(program.torch.begin({.name = "deep"}));
    for (; !open.empty(); open.pop_back()) program.torch.end(open.back());
    program.Run({.name = "aten::relu"});
  });
  EXPECT_EQ(contents.CountRanges("deep"), wire::kMaxRangeDepth);
  EXPECT_EQ(contents.drops[wire::kDropTooDeep], 5u);
  EXPECT_EQ(RangeNamed(contents, "aten::relu").depth, 0u);
}

// ---- Begins and ends of captures.

TEST(OperatorsTest, AnOperatorFromBeforeTheWindowIsNotInIt) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    const Program program = StartProgram();
    void* const early = program.torch.begin({.name = "aten::early"});
    parent.Tell('b');
    WaitRecording();
    program.WaitEnabled(true);
    program.Run({.name = "aten::relu"});
    program.torch.end(early);
    program.Run({.name = "aten::mul"});
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  const CaptureContents contents = CaptureWindow(*target, child);
  child.Tell('x');
  child.ExpectSuccess();
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("aten::relu", "aten::mul"));
  EXPECT_EQ(RangeNamed(contents, "aten::mul").depth, 0u);
}

TEST(OperatorsTest, CapturesFollowEachOtherWithWhatEachAsksFor) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    const Program program = StartProgram();
    CHILD_EXPECT(program.torch.callback_count() == kStepCallbacks);
    const FakeIValue tensor = program.make.Tensor({2});
    for (int i = 0; i < 2; ++i) {
      parent.Tell('b');
      WaitRecording();
      program.WaitEnabled(true);
      CHILD_EXPECT(program.torch.callback_count() == kStepCallbacks + kOperatorCallbacks);
      program.Run({.name = "aten::relu"}, {tensor, tensor});
      parent.Tell('d');
      parent.Await('x');
      program.WaitEnabled(false);
      program.Run({.name = "aten::between"});
      WaitUntil("no callbacks but those of steps",
                [&] { return program.torch.callback_count() == kStepCallbacks; });
    }
    parent.Tell('e');
  });
  auto target = daemon.WaitTarget();
  for (const OperatorsMode mode : {OperatorsMode::kShapes, OperatorsMode::kNames}) {
    const CaptureContents contents = CaptureWindow(*target, child, Wanted(mode));
    EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("aten::relu"));
    EXPECT_THAT(contents.operators.at(0).inputs, SizeIs(mode == OperatorsMode::kShapes ? 2 : 0));
    child.Tell('x');
  }
  child.Await('e');
  child.ExpectSuccess();
}

// Threads never stop, captures come and go: what one holds is whole.
TEST(OperatorsTest, CapturesComeAndGoUnderBusyThreads) {
  constexpr int kThreads = 3;
  constexpr int kCaptures = 6;
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    const Program program = StartProgram();
    const FakeIValue tensor = program.make.Tensor({2, 3});
    std::atomic<bool> is_over{false};
    const auto run = [&](int number) {
      const std::string name = "aten::op_of_" + std::to_string(number);
      while (!is_over.load(std::memory_order_relaxed)) {
        const Operator outer(program.torch, {.name = "aten::outer"}, {tensor});
        program.Run({.name = name.c_str(), .sequence = number}, {tensor, tensor});
      }
    };
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(run, i);
    for (int i = 0; i < kCaptures; ++i) {
      parent.Tell('b');
      program.WaitEnabled(true);
      parent.Tell('d');
      parent.Await('x');
    }
    is_over.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads) thread.join();
  });
  auto target = daemon.WaitTarget();
  for (int i = 0; i < kCaptures; ++i) {
    const bool has_inputs = i % 2 == 0;
    const CaptureContents contents = CaptureWindow(
        *target, child, Wanted(has_inputs ? OperatorsMode::kShapes : OperatorsMode::kNames),
        wire::kMinCaptureMemoryBytes);
    for (const auto& op : contents.operators) {
      // A thread may take a moment to see that other callbacks are wanted.
      ASSERT_EQ(op.event.described_count, op.event.input_count);
      for (const std::string& input : op.inputs) ASSERT_EQ(input, "tensor 6 [2,3]");
    }
    std::set<std::pair<uint32_t, uint64_t>> begins;
    for (const auto& op : contents.operators) {
      begins.emplace(op.thread_serial, op.event.start_ticks);
    }
    EXPECT_EQ(begins.size(), contents.operators.size());
    // An operator whose record found no chunk still has a range.
    uint64_t without_record = 0;
    for (const auto& range : contents.ranges) {
      without_record += begins.count({range.thread_serial, range.start_ticks}) == 0;
    }
    EXPECT_LE(without_record, contents.dropped());
    child.Tell('x');
  }
  child.ExpectSuccess();
}

// ---- Steps by rounds.

TEST(PeriodicityTest, ACaptureMayCountTheRoundsOfItsOperators) {
  constexpr int kRoundsToLearn = 3000;  // More operators than are looked at for rounds.
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    const Program program = StartProgram();
    const auto run_round = [&] {
      {
        const Operator linear(program.torch, {.name = "aten::linear"});
        program.Run({.name = "aten::mm"});
      }
      program.Run({.name = "aten::relu"});
      program.Run({.name = "aten::add"});
    };
    for (int capture = 0; capture < 2; ++capture) {
      parent.Tell('b');
      parent.Await('g');
      for (int i = 0; i < kRoundsToLearn; ++i) run_round();
      parent.Tell('d');
      parent.Await('x');
    }
    WaitUntil("no callbacks but those of steps",
              [&] { return program.torch.callback_count() == kStepCallbacks; });
  });
  auto target = daemon.WaitTarget();
  for (int i = 0; i < 2; ++i) {
    child.Await('b');
    wire::ArmTorchField wanted = Wanted(OperatorsMode::kNames);
    wanted.step_source = static_cast<uint32_t>(wire::StepSource::kPeriodicity);
    auto capture = target->ArmTorch(wanted);
    capture->Fire(Steps(2, 0, 1));
    capture->WaitPhase(wire::Phase::kWaiting);
    child.Tell('g');
    child.Await('d');
    const CaptureContents contents = capture->Finish();
    child.Tell('x');
    EXPECT_THAT(contents.steps, SizeIs(3));
    EXPECT_THAT(contents.ranges, SizeIs(2 * 4));
    EXPECT_EQ(contents.CountRanges("aten::linear"), 2u);
    EXPECT_EQ(contents.CountRanges("aten::add"), 2u);
    EXPECT_EQ(contents.torch_status().step_source, wanted.step_source);
    // The process itself has no steps by that.
    EXPECT_EQ(target->status_page().step_source.load(), 0u);
    EXPECT_EQ(target->status_page().step_mark_count.load(), 0u);
  }
  child.ExpectSuccess();
}

// ---- Attaching.

TEST(AttachedTest, AttachingIsDoneOnce) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent&) {
    const FakeTorch& torch = LoadTorch("full", LayoutOf26());
    const uint32_t features = AttachAndProbe(torch, LayoutOf26());
    CHILD_EXPECT((features & wire::kTorchInputs) != 0);
    CHILD_EXPECT(AttachAndProbe(torch, LayoutOf26()) == features);
    CHILD_EXPECT(profd_torch_features() == features);
    CHILD_EXPECT(torch.callback_count() == kStepCallbacks);
  });
  child.ExpectSuccess();
}

TEST(AttachedTest, WhoLeavesTorchIsNotCalledByCapturesToCome) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    const Program program = StartProgram();
    profd_torch_leave();
    parent.Tell('b');
    WaitRecording();
    program.Run({.name = "aten::relu"});
    parent.Tell('d');
    parent.Await('x');
    CHILD_EXPECT(!program.ObservesOperators());
  });
  auto target = daemon.WaitTarget();
  EXPECT_THAT(CaptureWindow(*target, child).ranges, IsEmpty());
  child.Tell('x');
  child.ExpectSuccess();
}

struct Exit {
  Parent* parent;
  const Program* program;
};
Exit g_exit{};

// Of a handler that was registered before ours, as torch's destructors are.
void RecordAfterOurHandler() {
  g_exit.parent->Tell('b');
  WaitRecording();
  const bool observes = g_exit.program->ObservesOperators();
  g_exit.parent->Tell('d');
  g_exit.parent->Await('x');
  _exit(observes ? 1 : 0);
}

TEST(AttachedTest, CapturesDoNotCallTorchOnceTheProcessExits) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    CHILD_EXPECT(atexit(RecordAfterOurHandler) == 0);
    const Program program = StartProgram();
    g_exit = {&parent, &program};
    exit(2);
  });
  auto target = daemon.WaitTarget();
  EXPECT_THAT(CaptureWindow(*target, child).ranges, IsEmpty());
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(AttachedTest, CallsOutOfOrderDoNothing) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent&) {
    CHILD_EXPECT(profd_torch_probe_begin(nullptr) == 0);
    CHILD_EXPECT(profd_torch_probe_end() == 0);
    const profd_torch_probe probe{};
    CHILD_EXPECT(profd_torch_probe_begin(&probe) == 0);
    CHILD_EXPECT((profd_torch_attach(nullptr) & wire::kTorchOperators) == 0);
    CHILD_EXPECT(profd_torch_probe_begin(&probe) == 0);
  });
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
