// Python stacks and modules, from definitions that a target wrote.
#include "daemon/ingest/decode/stack_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "proto/wire/stack_flags.h"
#include "tests/ingest/ingest_testing.h"

namespace profd {
namespace {

using testing::Eq;
using testing::IsEmpty;
using testing::Optional;
using testing::SizeIs;

class RecordingStacks final : public StackSink {
 public:
  void AddStack(uint32_t stack, const StackNode& node) override {
    nodes.push_back(node);
    EXPECT_EQ(stack, nodes.size());
    EXPECT_LT(node.caller, stack);
  }
  void AddModule(const ModulePath& module) override { modules.push_back(module); }
  std::vector<StackNode> nodes;
  std::vector<ModulePath> modules;
};

wire::StackFrameEvent Frame(uint32_t stack_id, uint32_t parent_id, uint32_t depth,
                            uint32_t line = 7) {
  wire::StackFrameEvent event{};
  event.header = {sizeof(event), static_cast<uint8_t>(wire::EventKind::kStackFrame), 0, 0};
  event.stack_id = stack_id;
  event.parent_id = parent_id;
  event.file_id = 2;
  event.name_id = 3;
  event.line = line;
  event.first_line = 5;
  event.depth = depth;
  return event;
}

class StackDecoderTest : public testing::Test {
 protected:
  bool Decode(const wire::StackFrameEvent& event) { return Decode(event, thread_); }
  bool Decode(const wire::StackFrameEvent& event, ThreadStackIds& thread) {
    return decoder_.Decode(reinterpret_cast<const std::byte*>(&event), sizeof(event), thread);
  }

  RecordingSink sink_;
  DecodeCounts counts_;
  RowSink out_{sink_, counts_};
  FakeNames fake_names_{{2, 3, 4}};
  NameTable names_{fake_names_, out_};
  RecordingStacks stacks_;
  StackDecoder decoder_{names_, stacks_};
  ThreadStackIds thread_;
};

TEST_F(StackDecoderTest, AFrameIsOnTopOfItsCaller) {
  ASSERT_TRUE(Decode(Frame(4, 0, 0, 80)));
  wire::StackFrameEvent call = Frame(9, 4, 1, 31);
  call.module = 0x7f00;
  call.class_name_id = 4;
  ASSERT_TRUE(Decode(call));
  ASSERT_THAT(stacks_.nodes, SizeIs(2));
  EXPECT_EQ(stacks_.nodes[0].caller, 0);
  EXPECT_EQ(stacks_.nodes[0].line, 80);
  EXPECT_EQ(stacks_.nodes[0].class_name, 0);
  EXPECT_EQ(stacks_.nodes[1].caller, 1);
  EXPECT_EQ(stacks_.nodes[1].line, 31);
  EXPECT_EQ(stacks_.nodes[1].first_line, 5);
  EXPECT_EQ(stacks_.nodes[1].module, 0x7f00);
  EXPECT_NE(stacks_.nodes[1].class_name, 0);
  EXPECT_THAT(decoder_.Find(thread_, 9), Optional(2u));
  EXPECT_THAT(decoder_.Find(thread_, wire::kNoStackId), Optional(0u));
}

TEST_F(StackDecoderTest, EqualStacksOfTwoThreadsAreOne) {
  ThreadStackIds other;
  ASSERT_TRUE(Decode(Frame(1, 0, 0)));
  ASSERT_TRUE(Decode(Frame(2, 1, 1)));
  ASSERT_TRUE(Decode(Frame(5, 0, 0), other));
  ASSERT_TRUE(Decode(Frame(8, 5, 1), other));
  EXPECT_THAT(stacks_.nodes, SizeIs(2));
  EXPECT_EQ(decoder_.Find(thread_, 2), decoder_.Find(other, 8));
  EXPECT_THAT(decoder_.Find(other, 2), Eq(std::nullopt));
}

TEST_F(StackDecoderTest, LinesAndModulesTellStacksApart) {
  ASSERT_TRUE(Decode(Frame(1, 0, 0, 7)));
  ASSERT_TRUE(Decode(Frame(2, 0, 0, 8)));
  for (const uint64_t module : {0x10, 0x20}) {
    wire::StackFrameEvent call = Frame(static_cast<uint32_t>(module), 0, 0, 7);
    call.module = module;
    ASSERT_TRUE(Decode(call));
  }
  wire::StackFrameEvent cut = Frame(33, 0, 0, 7);
  cut.header.flags = wire::kStackFlagCut;
  ASSERT_TRUE(Decode(cut));
  EXPECT_THAT(stacks_.nodes, SizeIs(5));
  EXPECT_TRUE(stacks_.nodes[4].is_cut);
}

TEST_F(StackDecoderTest, AnotherCallOfAModuleIsAnEqualStackAfterTheFirst) {
  ASSERT_TRUE(Decode(Frame(1, 0, 0)));
  wire::StackFrameEvent call = Frame(2, 1, 1);
  call.module = 0x10;
  wire::StackFrameEvent again = call;
  again.stack_id = 3;
  again.header.flags = wire::kStackFlagAgain;
  ASSERT_TRUE(Decode(call));
  ASSERT_TRUE(Decode(again));
  ASSERT_THAT(stacks_.nodes, SizeIs(3));
  EXPECT_FALSE(stacks_.nodes[1].is_again);
  EXPECT_TRUE(stacks_.nodes[2].is_again);
  EXPECT_EQ(decoder_.Find(thread_, 2), 2u);
  EXPECT_EQ(decoder_.Find(thread_, 3), 3u);
  // From another line only the second call ran an operator: its equal comes first all the same.
  again.stack_id = 4;
  again.line = 8;
  ASSERT_TRUE(Decode(again));
  ASSERT_THAT(stacks_.nodes, SizeIs(5));
  EXPECT_FALSE(stacks_.nodes[3].is_again);
  EXPECT_EQ(stacks_.nodes[3].line, 8);
  EXPECT_TRUE(stacks_.nodes[4].is_again);
  EXPECT_EQ(decoder_.Find(thread_, 4), 5u);
}

TEST_F(StackDecoderTest, WhatIsNoDefinitionIsRefused) {
  ASSERT_TRUE(Decode(Frame(5, 0, 0)));
  const auto with = [](auto change) {
    wire::StackFrameEvent event = Frame(9, 5, 1);
    change(event);
    return event;
  };
  const wire::StackFrameEvent invalid[] = {
      with([](auto& event) { event.stack_id = 0; }),
      with([](auto& event) { event.stack_id = wire::kMaxStackId + 1; }),
      with([](auto& event) { event.stack_id = 5; }),    // Its own caller.
      with([](auto& event) { event.parent_id = 9; }),   // The same.
      with([](auto& event) { event.parent_id = 12; }),  // Later.
      with([](auto& event) { event.parent_id = 4; }),   // Of nobody.
      with([](auto& event) { event.depth = 0; }),       // Not its caller's and one more.
      with([](auto& event) { event.depth = UINT32_MAX; }),
      with([](auto& event) { event.line = uint32_t{INT32_MAX} + 1; }),
      with([](auto& event) { event.first_line = UINT32_MAX; }),
      with([](auto& event) { event.file_id = 77; }),
      with([](auto& event) { event.file_id = wire::kNoNameId; }),
      with([](auto& event) { event.name_id = UINT32_MAX; }),
      with([](auto& event) { event.class_name_id = 4; }),  // Of no module.
      with([](auto& event) { event.module = 1, event.class_name_id = 77; }),
      with([](auto& event) { event.header.flags = wire::kStackFlagCut; }),
      with([](auto& event) { event.header.flags = wire::kStackFlagAgain; }),  // Of no module.
  };
  for (const wire::StackFrameEvent& event : invalid) {
    EXPECT_FALSE(Decode(event)) << &event - invalid;
  }
  const wire::StackFrameEvent twice = Frame(5, 0, 0);
  EXPECT_FALSE(Decode(twice));
  const auto* bytes = reinterpret_cast<const std::byte*>(&twice);
  ThreadStackIds other;
  EXPECT_FALSE(decoder_.Decode(bytes, sizeof(twice) - 8, other));
  EXPECT_THAT(stacks_.nodes, SizeIs(1));
  EXPECT_EQ(decoder_.full_count(), 0);
}

TEST_F(StackDecoderTest, ModulesHavePathsBelowTheirRoots) {
  const auto decode = [this](uint64_t address, uint64_t root, uint32_t path, uint32_t class_name) {
    wire::ModuleEvent event{};
    event.header = {sizeof(event), static_cast<uint8_t>(wire::EventKind::kModule), 0, 0};
    event.address = address;
    event.root = root;
    event.path_id = path;
    event.class_name_id = class_name;
    const auto* bytes = reinterpret_cast<const std::byte*>(&event);
    EXPECT_FALSE(decoder_.DecodeModule(bytes, sizeof(event) - 8));
    return decoder_.DecodeModule(bytes, sizeof(event));
  };
  EXPECT_TRUE(decode(0x10, 0x10, wire::kNoNameId, 2));
  EXPECT_TRUE(decode(0x20, 0x10, 3, 4));
  EXPECT_FALSE(decode(0, 0, wire::kNoNameId, 2));
  EXPECT_FALSE(decode(0x20, 0, 3, 2));
  EXPECT_FALSE(decode(0x10, 0x10, 3, 2));
  EXPECT_FALSE(decode(0x20, 0x10, wire::kNoNameId, 2));
  EXPECT_FALSE(decode(0x20, 0x10, 77, 2));
  EXPECT_FALSE(decode(0x20, 0x10, 3, 77));
  EXPECT_FALSE(decode(0x20, 0x10, 3, wire::kNoNameId));
  ASSERT_THAT(stacks_.modules, SizeIs(2));
  EXPECT_EQ(stacks_.modules[0].path, 0);
  EXPECT_EQ(stacks_.modules[1].root, 0x10);
  EXPECT_NE(stacks_.modules[1].path, 0);
  for (uint64_t i = 2; i < StackDecoder::kMaxModules; ++i) {
    ASSERT_TRUE(decode(0x100 + i, 0x10, 3, 4));
  }
  EXPECT_EQ(decoder_.full_count(), 0);
  EXPECT_TRUE(decode(0x20, 0x10, 3, 4));
  EXPECT_EQ(decoder_.full_count(), 1);
  EXPECT_THAT(stacks_.modules, SizeIs(StackDecoder::kMaxModules));
}

TEST_F(StackDecoderTest, StacksEndAtTheGreatestDepth) {
  for (uint32_t depth = 0; depth < wire::kMaxStackDepth; ++depth) {
    ASSERT_TRUE(Decode(Frame(depth + 1, depth, depth)));
  }
  EXPECT_FALSE(Decode(Frame(wire::kMaxStackDepth + 1, wire::kMaxStackDepth, wire::kMaxStackDepth)));
  EXPECT_THAT(stacks_.nodes, SizeIs(wire::kMaxStackDepth));
}

TEST_F(StackDecoderTest, StacksBeyondTheLimitAreCountedAndAreNone) {
  // As many as fit, on as many threads as that takes.
  uint32_t made = 0;
  while (made < StackDecoder::kMaxStacks) {
    ThreadStackIds thread;
    for (uint32_t id = 1; id <= wire::kMaxStackId && made < StackDecoder::kMaxStacks; ++id) {
      ASSERT_TRUE(Decode(Frame(id, 0, 0, ++made), thread));
    }
  }
  EXPECT_EQ(decoder_.full_count(), 0);
  ASSERT_TRUE(Decode(Frame(1, 0, 0, made + 1)));
  ASSERT_TRUE(Decode(Frame(2, 1, 1)));
  EXPECT_EQ(decoder_.full_count(), 2);
  EXPECT_THAT(decoder_.Find(thread_, 2), Optional(0u));
  // What was there before is still found.
  ASSERT_TRUE(Decode(Frame(3, 0, 0, 1)));
  EXPECT_THAT(decoder_.Find(thread_, 3), Optional(1u));
  EXPECT_EQ(decoder_.stack_count(), StackDecoder::kMaxStacks);
}

}  // namespace
}  // namespace profd
