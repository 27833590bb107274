// Arguments of ranges, from what a target wrote of them, or claims to have.
#include "daemon/ingest/decode/range_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <random>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/ingest/decode/event_decoder.h"
#include "proto/wire/range_arguments.h"
#include "tests/ingest/ingest_testing.h"
#include "tests/ingest/torch_events.h"
#include "tests/ingest/window_times.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using enum wire::InputKind;

OperatorBuilder ArgumentsAt(uint64_t start, uint16_t depth = 0) {
  OperatorBuilder builder(start, depth);
  builder.event().scope = wire::kArgumentScope;
  return builder;
}

wire::RangeEvent UserRange(uint64_t start, uint64_t end, uint32_t name, uint16_t depth = 0) {
  wire::RangeEvent event = OperatorRange(start, end, name, depth);
  event.category = static_cast<uint16_t>(wire::RangeCategory::kUser);
  return event;
}

class RangeArgumentsTest : public testing::Test {
 protected:
  RangeArgumentsTest() { windows_[0] = {.start = kStart, .end = kEnd}; }

  void Decode(const ChunkBuilder& chunk) { decoder().Decode(chunk.View(kCopied)); }
  // One range with these arguments.
  void DecodeRange(const OperatorBuilder& arguments) {
    ChunkBuilder chunk;
    chunk.Head(1);
    OperatorBuilder builder = arguments;
    builder.AddTo(chunk);
    chunk.Add(UserRange(builder.event().start_ticks, kStart + 900, 2), wire::EventKind::kRange);
    Decode(chunk);
  }
  // "2/0 key=value" each: thread, row, and the value as JSON; numbers as they are.
  std::vector<std::string> Arguments() {
    std::vector<std::string> texts;
    for (const RecordingSink::Argument& argument : sink_.arguments()) {
      const ArgumentRow& row = argument.row;
      std::string value = argument.text;
      if (row.type == ArgumentType::kInteger) value = StrCat(row.value);
      if (row.type == ArgumentType::kReal) value = StrCat(std::bit_cast<double>(row.value));
      texts.push_back(StrCat(row.of_thread, "/", row.row, " ", argument.key, "=", value));
    }
    return texts;
  }
  int64_t CutCount() {
    TorchRecord record;
    decoder().DescribeTorch(record);
    return record.cut_input_count;
  }
  EventDecoder& decoder() {
    if (!decoder_.has_value()) {
      decoder_.emplace(TickLine({kEpoch, 0, 0}, 1.0), names_, windows_, sink_, GpuMode::kOff,
                       spec_);
    }
    return *decoder_;
  }

  TorchSpec spec_ = {.operators = OperatorMode::kOff};
  RecordingSink sink_;
  FakeNames names_{{2, 3, 4, 5}};
  std::array<WindowTicks, 3> windows_{};

 private:
  std::optional<EventDecoder> decoder_;
};

TEST_F(RangeArgumentsTest, EveryTypeIsKeptWithItsRange) {
  OperatorBuilder arguments = ArgumentsAt(kStart + 10, 1);
  arguments.String("id").String("r-\"17\"\n").String("tokens").Int(-512).String("share");
  arguments.Double(0.5).String("on").Bool(true).String("none").None().String("odd").Other();
  arguments.String("inf").Double(std::numeric_limits<double>::infinity());
  ChunkBuilder chunk;
  chunk.Head(1);
  arguments.AddTo(chunk);
  chunk.Range(kStart + 20, kStart + 30, 3, 2);
  chunk.Add(UserRange(kStart + 10, kStart + 40, 2, 1), wire::EventKind::kRange);
  Decode(chunk);
  EXPECT_THAT(Arguments(), ElementsAre("0/1 id=\"r-\\\"17\\\"\\u000a\"", "0/1 tokens=-512",
                                       "0/1 share=0.5", "0/1 on=true", "0/1 none=null",
                                       "0/1 odd=\"(no text)\"", "0/1 inf=\"Infinity\""));
  EXPECT_EQ(decoder().counts().event_count, 2);
  EXPECT_EQ(decoder().counts().invalid_count, 0);
  EXPECT_EQ(decoder().counts().unknown_kind_count, 0);
  EXPECT_EQ(CutCount(), 0);
}

TEST_F(RangeArgumentsTest, AnOpenRangeHasThem) {
  ChunkBuilder chunk;
  chunk.Head(1);
  ArgumentsAt(kStart + 10).String("id").Int(7).AddTo(chunk);
  chunk.Open(kStart + 10, 2, wire::kPairedByIdentity);
  Decode(chunk);
  decoder().Finish();
  EXPECT_THAT(Arguments(), ElementsAre("0/0 id=7"));
}

TEST_F(RangeArgumentsTest, ARangeOnALaneHasThemWhicheverChunkComesFirst) {
  for (const bool range_is_first : {false, true}) {
    ChunkBuilder of_arguments;
    of_arguments.Head(range_is_first ? 3 : 1);
    ArgumentsAt(kStart + 10 + (range_is_first ? 100 : 0)).String("id").Int(7).AddTo(of_arguments);
    ChunkBuilder of_range;
    of_range.Head(range_is_first ? 4 : 2);
    of_range.Add(UserRange(kStart + 10 + (range_is_first ? 100 : 0), kStart + 300, 2),
                 wire::EventKind::kRange, 0, wire::kFirstLane + (range_is_first ? 1 : 0));
    Decode(range_is_first ? of_range : of_arguments);
    Decode(range_is_first ? of_arguments : of_range);
  }
  ASSERT_THAT(sink_.ranges(), SizeIs(2));
  EXPECT_THAT(Arguments(), ElementsAre(StrCat(sink_.ranges()[0].thread, "/0 id=7"),
                                       StrCat(sink_.ranges()[1].thread, "/0 id=7")));
}

TEST_F(RangeArgumentsTest, AnotherThreadsRangeOfTheSameMomentDoesNotTakeThem) {
  ChunkBuilder first;
  first.Head(1);
  ArgumentsAt(kStart + 10).String("id").Int(1).AddTo(first);
  Decode(first);
  ChunkBuilder second;
  second.Head(2).Range(kStart + 10, kStart + 20, 3);
  Decode(second);
  EXPECT_THAT(Arguments(), IsEmpty());
}

TEST_F(RangeArgumentsTest, ThoseOfRangesOutsideTheWindowAreForgotten) {
  ChunkBuilder chunk;
  chunk.Head(1);
  ArgumentsAt(kStart - 50).String("id").Int(1).AddTo(chunk);
  chunk.Add(UserRange(kStart - 50, kStart - 40, 2), wire::EventKind::kRange);
  ArgumentsAt(kEnd + 10).String("id").Int(2).AddTo(chunk);
  chunk.Add(UserRange(kEnd + 10, kEnd + 20, 2), wire::EventKind::kRange);
  Decode(chunk);
  EXPECT_THAT(Arguments(), IsEmpty());
  EXPECT_EQ(CutCount(), 0);
}

TEST_F(RangeArgumentsTest, WhatIsNotAllThereIsMarkedAndCountedOnceForItsRange) {
  OperatorBuilder arguments = ArgumentsAt(kStart + 10);
  arguments.String("cut", wire::kInputCut).String("long", wire::kInputCut);
  arguments.String("same").Int(1).String("same").Int(2);
  arguments.event().input_count += 2;
  DecodeRange(arguments);
  EXPECT_THAT(Arguments(), ElementsAre("0/0 cut=\"long...\"", "0/0 same=1"));
  EXPECT_EQ(CutCount(), 1);
}

TEST_F(RangeArgumentsTest, BytesThatAreNoTextAreCleaned) {
  DecodeRange(ArgumentsAt(kStart + 10)
                  .String("k\xff\n" + std::string(60, 'x'))
                  .String(std::string("\xff\x00\x1b", 3)));
  ASSERT_THAT(sink_.arguments(), SizeIs(1));
  EXPECT_LE(sink_.arguments()[0].key.size(), wire::kMaxArgumentKeyBytes);
  EXPECT_TRUE(IsPrintableUtf8(sink_.arguments()[0].key));
  EXPECT_EQ(sink_.arguments()[0].text, "\"\xef\xbf\xbd\\u0000\\u001b\"");
}

TEST_F(RangeArgumentsTest, WhatIsNoListOfArgumentsIsRefused) {
  std::vector<OperatorBuilder> lies;
  const auto lie = [&]() -> OperatorBuilder& {
    return lies.emplace_back(ArgumentsAt(kStart + 10));
  };
  lie().String("key alone");
  lie().Int(1).Int(2);
  lie().String("").Int(2);
  lie().String(std::string(65, 'k')).Int(2);
  lie().String("k").String(std::string(257, 'v'));
  lie().String("k").Tensor(OperatorBuilder::kFloat, {1, 2});
  lie().String("k").List<int64_t>(kIntList, {1, 2});
  lie().String("k").TensorList(1);
  lie().String("k").Input(static_cast<wire::InputKind>(99));
  lie().String("k").Input(kInt);             // Without its value.
  lie().String("k").Input(kString, 0, 200);  // The same.
  lie().String("k").Int(1).event().described_count = 4;
  lie().String("k").Int(1).event().described_count = 0x8000'0002;
  lie().String("k").Int(1).event().input_count = 0;
  lie().String("k").Int(1).event().input_count = 3;
  lie().String("k").Int(1).event().depth = wire::kMaxRangeDepth;
  OperatorBuilder& many = lie();
  for (uint32_t i = 0; i <= wire::kMaxRangeArguments; ++i) many.String(StrCat("k", i)).None();
  for (const uint64_t start : {uint64_t{0}, uint64_t{1}, kCopied * 2, UINT64_MAX}) {
    lies.push_back(ArgumentsAt(start).String("k").Int(1));
  }
  ChunkBuilder chunk;
  chunk.Head(1);
  for (OperatorBuilder& one : lies) one.AddTo(chunk);
  chunk.Add(UserRange(kStart + 10, kStart + 40, 2), wire::EventKind::kRange);
  Decode(chunk);
  EXPECT_EQ(decoder().counts().invalid_count, static_cast<int64_t>(lies.size()));
  EXPECT_THAT(sink_.ranges(), SizeIs(1));
  EXPECT_THAT(Arguments(), IsEmpty());
}

TEST_F(RangeArgumentsTest, WhatWaitsForRangesThatNeverComeIsBoundedAndCounted) {
  const std::string value(256, 'x');
  uint64_t start = kStart;
  constexpr int kEach = 150;
  constexpr int kChunks = 400;
  for (int i = 0; i < kChunks; ++i) {
    ChunkBuilder chunk;
    chunk.Head(1);
    for (int j = 0; j < kEach; ++j) ArgumentsAt(++start).String("k").String(value).AddTo(chunk);
    Decode(chunk);
  }
  // What is left waiting needs no more than is said.
  const int64_t waiting = kEach * kChunks - CutCount();
  EXPECT_GT(CutCount(), 0);
  EXPECT_LT(waiting * int64_t{256}, int64_t{2} * RangeArguments::kMaxWaitingBytes);
  // The last ones are still there.
  ChunkBuilder chunk;
  chunk.Head(1).Range(start, start + 10, 2);
  Decode(chunk);
  EXPECT_THAT(Arguments(), SizeIs(1));
  EXPECT_EQ(decoder().counts().invalid_count, 0);
}

TEST_F(RangeArgumentsTest, ALongRangeKeepsItsOwnHoweverManyShortOnesThereAre) {
  const std::string value(200, 'x');
  uint64_t start = kStart + 1;
  ChunkBuilder first;
  first.Head(1);
  ArgumentsAt(start).String("outer").Int(7).AddTo(first);
  // Another one is in flight at each moment.
  ArgumentsAt(++start, 1).String("k").String(value).AddTo(first);
  Decode(first);
  constexpr int kEach = 100;
  for (int i = 0; i < 1000; ++i) {
    ChunkBuilder chunk;
    chunk.Head(1);
    for (int j = 0; j < kEach; ++j) {
      ArgumentsAt(start + 1, 1).String("k").String(value).AddTo(chunk);
      chunk.Range(start, start, 3, 1);
      ++start;
    }
    Decode(chunk);
  }
  ChunkBuilder last;
  last.Head(1).Range(start, start, 3, 1);
  last.Range(kStart + 1, start + 1, 2, 0);
  Decode(last);
  decoder().Finish();
  EXPECT_THAT(sink_.arguments(), SizeIs(100'002));
  EXPECT_EQ(sink_.arguments().back().key, "outer");
  EXPECT_EQ(CutCount(), 0);
}

TEST_F(RangeArgumentsTest, ThoseThatNeverFindTheirRangeAreCountedIfTheyBeganInTheWindow) {
  ChunkBuilder chunk;
  chunk.Head(1);
  for (const uint64_t start : {kStart - 50, kStart, kStart + 10, kEnd - 1, kEnd + 10}) {
    ArgumentsAt(start).String("id").Int(1).AddTo(chunk);
  }
  Decode(chunk);
  EXPECT_EQ(CutCount(), 0);
  decoder().Finish();
  EXPECT_THAT(Arguments(), IsEmpty());
  EXPECT_EQ(CutCount(), 3);
}

TEST_F(RangeArgumentsTest, TextsAreBoundedAndWhatHasNoRoomIsCounted) {
  constexpr int kChunks = 1500;
  constexpr int kEach = 180;
  uint64_t start = kStart;
  for (int i = 0; i < kChunks; ++i) {
    ChunkBuilder chunk;
    chunk.Head(1);
    for (int j = 0; j < kEach; ++j) {
      ArgumentsAt(++start).String("k").String(StrCat("text ", start)).AddTo(chunk);
      chunk.Range(start, start, 2);
    }
    Decode(chunk);
  }
  constexpr int64_t kAll = int64_t{kChunks} * kEach;
  static_assert(kAll > static_cast<int64_t>(RangeArguments::kMaxTexts));
  // A text of them is the key's.
  EXPECT_THAT(sink_.arguments(), SizeIs(RangeArguments::kMaxTexts - 1));
  EXPECT_EQ(CutCount(), kAll - static_cast<int64_t>(RangeArguments::kMaxTexts) + 1);
  // Numbers, and texts that are there, have room.
  ChunkBuilder chunk;
  chunk.Head(1);
  ArgumentsAt(++start).String("k").Int(1).AddTo(chunk);
  chunk.Range(start, start, 2);
  ArgumentsAt(++start).String("k").String(StrCat("text ", kStart + 1)).AddTo(chunk);
  chunk.Range(start, start, 2);
  Decode(chunk);
  EXPECT_THAT(sink_.arguments(), SizeIs(RangeArguments::kMaxTexts + 1));
}

TEST_F(RangeArgumentsTest, RandomBytesDoNoHarm) {
  std::mt19937_64 random(17);
  for (int i = 0; i < 2000; ++i) {
    OperatorBuilder builder = ArgumentsAt(kStart + static_cast<uint64_t>(i));
    for (uint64_t j = random() % 6; j > 0; --j) {
      if (random() % 2 == 0) {
        builder.String("k");
      } else {
        builder.Input(static_cast<wire::InputKind>(random() % 17), static_cast<uint8_t>(random()),
                      static_cast<uint32_t>(random() % 300));
      }
      for (uint64_t words = random() % 4; words > 0; --words) builder.Word(random());
    }
    DecodeRange(builder);
  }
}

// What record_function("name", "args") is to torch: a user's scope with one input.
class TorchArgumentsTest : public RangeArgumentsTest {
 protected:
  TorchArgumentsTest() { spec_ = {}; }
  static OperatorBuilder UserScope(uint64_t start) {
    OperatorBuilder builder(start);
    builder.event().scope = static_cast<uint8_t>(wire::OperatorScope::kUserScope);
    return builder;
  }
};

TEST_F(TorchArgumentsTest, TheTextOfRecordFunctionIsAnArgument) {
  DecodeRange(UserScope(kStart + 10).String("batch 7, rank 1"));
  EXPECT_THAT(Arguments(), ElementsAre("0/0 args=\"batch 7, rank 1\""));
  EXPECT_THAT(sink_.operators(), IsEmpty());
  EXPECT_EQ(CutCount(), 0);
}

TEST_F(TorchArgumentsTest, ALongTextIsMarkedAndCounted) {
  DecodeRange(UserScope(kStart + 10).String(std::string(256, 'x'), wire::kInputCut));
  EXPECT_THAT(Arguments(), ElementsAre("0/0 args=\"" + std::string(256, 'x') + "...\""));
  EXPECT_EQ(CutCount(), 1);
}

TEST_F(TorchArgumentsTest, OtherInputsOfUsersScopesAreNoArguments) {
  DecodeRange(UserScope(kStart + 10).Tensor(OperatorBuilder::kFloat, {2, 3}));
  DecodeRange(UserScope(kStart + 910).Int(7));
  EXPECT_THAT(sink_.ranges(), SizeIs(1));
  EXPECT_THAT(Arguments(), IsEmpty());
}

TEST_F(TorchArgumentsTest, AnOperatorsTextIsItsInputAndNoArgument) {
  ChunkBuilder chunk;
  chunk.Head(1);
  OperatorBuilder builder(kStart + 10);
  builder.String("sum").AddTo(chunk);
  chunk.Add(OperatorRange(kStart + 10, kStart + 40, 2), wire::EventKind::kRange);
  Decode(chunk);
  EXPECT_THAT(Arguments(), IsEmpty());
  EXPECT_THAT(sink_.operators(), SizeIs(1));
}

}  // namespace
}  // namespace profd
