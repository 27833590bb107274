// Operators, their inputs, notes and blocks, from a framework's events.
#include "daemon/ingest/decode/torch_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "daemon/base/str_cat.h"
#include "daemon/ingest/decode/event_decoder.h"
#include "tests/fakes/status_matchers.h"
#include "tests/ingest/ingest_testing.h"
#include "tests/ingest/torch_events.h"
#include "tests/ingest/window_times.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using enum wire::InputKind;

constexpr int8_t kFloat = OperatorBuilder::kFloat;

class TorchDecoderTest : public testing::Test {
 protected:
  TorchDecoderTest() { windows_[0] = {.start = kStart, .end = kEnd}; }

  void Decode(const ChunkBuilder& chunk) { decoder().Decode(chunk.View(kCopied)); }
  // An operator from `start` to `end`, begun and ended.
  static void AddOperator(const OperatorBuilder& begun, uint64_t end, uint32_t name,
                          ChunkBuilder& chunk) {
    OperatorBuilder builder = begun;
    builder.AddTo(chunk);
    chunk.Add(OperatorRange(builder.event().start_ticks, end, name, builder.event().depth),
              wire::EventKind::kRange);
  }
  EventDecoder& decoder() {
    if (!decoder_.has_value()) {
      decoder_.emplace(TickLine({kEpoch, 0, 0}, 1.0), names_, windows_, sink_, GpuMode::kOff,
                       spec_);
    }
    return *decoder_;
  }
  const DecodeCounts& counts() { return decoder().counts(); }
  TorchRecord Described() {
    TorchRecord record;
    decoder().DescribeTorch(record);
    return record;
  }

  TorchSpec spec_;
  RecordingSink sink_;
  FakeNames names_{{2, 3, 4, 5}};
  std::array<WindowTicks, 3> windows_{};

 private:
  std::optional<EventDecoder> decoder_;
};

// The stack of `caller` (0: none) below a frame at `line`, of a file and function that are name 2.
wire::StackFrameEvent FrameOf(uint32_t stack_id, uint32_t caller, uint32_t depth, uint32_t line) {
  return {.header = {},
          .module = 0,
          .stack_id = stack_id,
          .parent_id = caller,
          .file_id = 2,
          .name_id = 2,
          .line = line,
          .first_line = 1,
          .class_name_id = wire::kNoNameId,
          .depth = depth};
}

// A few bytes each claim a thread and the greatest depth.
TEST_F(TorchDecoderTest, DepthsOfAllThreadsTogetherAreLimited) {
  constexpr uint32_t kThreads = 2000;
  constexpr uint32_t kFitting = (1 << 17) / wire::kMaxRangeDepth;
  const OperatorBuilder operation(kStart + 10, wire::kMaxRangeDepth - 1);
  for (uint32_t serial = 1; serial <= kThreads; ++serial) {
    ChunkBuilder chunk;
    chunk.Head(serial);
    operation.AddTo(chunk);
    Decode(chunk);
  }
  EXPECT_EQ(counts().invalid_count, kThreads - kFitting);
}

TEST_F(TorchDecoderTest, EqualStacksOfThreadsAreOneAndComeBeforeTheirOperators) {
  OperatorBuilder of_main(kStart + 10, 0);
  of_main.event().stack_id = 2;
  ChunkBuilder main;
  main.Head(1);
  main.Add(FrameOf(1, 0, 0, 12), wire::EventKind::kStackFrame);
  main.Add(FrameOf(2, 1, 1, 30), wire::EventKind::kStackFrame);
  AddOperator(of_main, kStart + 40, 2, main);
  Decode(main);

  OperatorBuilder of_other(kStart + 50, 0);
  of_other.event().stack_id = 7;
  ChunkBuilder other;
  other.Head(2);
  other.Add(FrameOf(3, 0, 0, 12), wire::EventKind::kStackFrame);
  other.Add(FrameOf(7, 3, 1, 30), wire::EventKind::kStackFrame);
  AddOperator(of_other, kStart + 60, 2, other);
  Decode(other);

  EXPECT_EQ(counts().invalid_count, 0);
  ASSERT_THAT(sink_.stacks(), SizeIs(2));
  EXPECT_EQ(sink_.stacks()[0].caller, 0u);
  EXPECT_EQ(sink_.stacks()[0].line, 12u);
  EXPECT_EQ(sink_.stacks()[1].caller, 1u);
  EXPECT_EQ(sink_.stacks()[1].line, 30u);
  ASSERT_THAT(sink_.operators(), SizeIs(2));
  EXPECT_EQ(sink_.operators()[0].row.stack, 2u);
  EXPECT_EQ(sink_.operators()[1].row.stack, 2u);
  EXPECT_EQ(Described().stack_count, 2);
}

TEST_F(TorchDecoderTest, AnOperatorOfAStackThatItsThreadHasNotDefinedIsRefused) {
  OperatorBuilder builder(kStart + 10, 0);
  builder.event().stack_id = 5;
  ChunkBuilder chunk;
  AddOperator(builder, kStart + 40, 2, chunk.Head(1));
  Decode(chunk);
  EXPECT_EQ(counts().invalid_count, 1);
  EXPECT_THAT(sink_.operators(), IsEmpty());
  EXPECT_THAT(sink_.ranges(), SizeIs(1)) << "the range itself is kept";
}

TEST_F(TorchDecoderTest, ModulesHaveTheirPlaceInTheModel) {
  ChunkBuilder chunk;
  chunk.Head(1);
  chunk.Add(wire::ModuleEvent{.header = {},
                              .address = 0x2000,
                              .root = 0x1000,
                              .path_id = 3,
                              .class_name_id = 2,
                              .reserved = 0},
            wire::EventKind::kModule);
  Decode(chunk);
  ASSERT_THAT(sink_.modules(), SizeIs(1));
  EXPECT_EQ(sink_.modules()[0].address, 0x2000u);
  EXPECT_EQ(sink_.modules()[0].root, 0x1000u);
  EXPECT_NE(sink_.modules()[0].path, 0u);
}

TEST_F(TorchDecoderTest, AnOperatorComesBehindItsRange) {
  OperatorBuilder builder(kStart + 10, 2);
  builder.Tensor(kFloat, {16, 64}).Tensor(kFloat, {64}).None().Int(1);
  builder.event().scope = 1;
  builder.event().sequence = 41;
  builder.event().forward_thread = 3;
  builder.event().torch_thread = 4;
  ChunkBuilder chunk;
  AddOperator(builder, kStart + 40, 2, chunk.Head(1));
  Decode(chunk);

  ASSERT_THAT(sink_.ranges(), SizeIs(1));
  EXPECT_EQ(sink_.ranges()[0].row.category, 1);
  const auto operators = sink_.operators();
  ASSERT_THAT(operators, SizeIs(1));
  const OperatorRow& row = operators[0].row;
  EXPECT_EQ(row.start_ns, 1'000'010);
  EXPECT_EQ(row.depth, 2);
  EXPECT_EQ(row.scope, 1);
  EXPECT_EQ(row.sequence, 41);
  EXPECT_EQ(row.forward_thread, 3u);
  EXPECT_EQ(row.torch_thread, 4u);
  EXPECT_EQ(operators[0].inputs.dims, "[[16,64],[64],[],[]]");
  EXPECT_EQ(operators[0].inputs.types, R"(["float","float","","Scalar"])");
  EXPECT_EQ(operators[0].inputs.strides, "");
  EXPECT_EQ(operators[0].scalars, R"(["","","","1"])");
  EXPECT_EQ(counts().event_count, 1);  // The range alone.
  EXPECT_EQ(counts().invalid_count, 0);
  EXPECT_EQ(Described().operator_count, 1);
  EXPECT_EQ(Described().cut_input_count, 0);
}

TEST_F(TorchDecoderTest, NestedOperatorsComeInTheOrderOfTheirEnds) {
  ChunkBuilder chunk;
  chunk.Head(1);
  OperatorBuilder(kStart + 10, 0).Int(0).AddTo(chunk);
  AddOperator(OperatorBuilder(kStart + 20, 1).Int(1), kStart + 30, 3, chunk);
  AddOperator(OperatorBuilder(kStart + 40, 1).Int(2), kStart + 50, 4, chunk);
  chunk.Add(OperatorRange(kStart + 10, kStart + 60, 2, 0), wire::EventKind::kRange);
  Decode(chunk);
  std::vector<std::string> scalars;
  for (const auto& row : sink_.operators()) scalars.push_back(row.scalars);
  EXPECT_THAT(scalars, ElementsAre(R"(["1"])", R"(["2"])", R"(["0"])"));
  EXPECT_EQ(counts().invalid_count, 0);
}

TEST_F(TorchDecoderTest, WhatRecursIsGivenToTheSinkOnce) {
  ChunkBuilder chunk;
  chunk.Head(1);
  for (uint64_t i = 0; i < 50; ++i) {
    const uint64_t start = kStart + 100 * i;
    const auto width = static_cast<int64_t>(i % 2);
    // Storages differ each time, and make no difference.
    AddOperator(OperatorBuilder(start).Tensor(kFloat, {width}, {}, 4096 * i).Int(7), start + 50, 2,
                chunk);
  }
  Decode(chunk);
  EXPECT_THAT(sink_.operators(), SizeIs(50));
  EXPECT_EQ(sink_.inputs_count(), 2u);  // And the scalars of one: RecordingSink would say.
  EXPECT_EQ(sink_.operators()[48].inputs.dims, "[[0],[]]");
  EXPECT_EQ(sink_.operators()[49].inputs.dims, "[[1],[]]");
}

TEST_F(TorchDecoderTest, AnOperatorMayEndInAnotherChunk) {
  ChunkBuilder first;
  OperatorBuilder(kStart + 10).Int(3).AddTo(first.Head(1));
  Decode(first);
  EXPECT_THAT(sink_.operators(), IsEmpty());
  Decode(ChunkBuilder().Head(1).Add(OperatorRange(kStart + 10, kStart + 20, 2),
                                    wire::EventKind::kRange));
  ASSERT_THAT(sink_.operators(), SizeIs(1));
  EXPECT_EQ(sink_.operators()[0].scalars, R"(["3"])");
}

TEST_F(TorchDecoderTest, ThreadsDoNotMixTheirOperators) {
  ChunkBuilder first;
  OperatorBuilder(kStart + 10).Int(1).AddTo(first.Head(1, 0, 100));
  Decode(first);
  ChunkBuilder second;
  OperatorBuilder(kStart + 10).Int(2).AddTo(second.Head(2, 0, 200));
  Decode(second);
  Decode(ChunkBuilder().Head(1, 0, 100).Add(OperatorRange(kStart + 10, kStart + 20, 2),
                                            wire::EventKind::kRange));
  ASSERT_THAT(sink_.operators(), SizeIs(1));
  EXPECT_EQ(sink_.operators()[0].scalars, R"(["1"])");
}

TEST_F(TorchDecoderTest, ARangeWithoutABeginIsAnOrdinaryOne) {
  ChunkBuilder chunk;
  OperatorBuilder(kStart + 10).Int(1).AddTo(chunk.Head(1));
  chunk.Add(OperatorRange(kStart + 11, kStart + 20, 2), wire::EventKind::kRange);
  chunk.Range(kStart + 30, kStart + 40, 2);
  Decode(chunk);
  EXPECT_THAT(sink_.ranges(), SizeIs(2));
  EXPECT_THAT(sink_.operators(), IsEmpty());
  EXPECT_EQ(counts().invalid_count, 0);
}

TEST_F(TorchDecoderTest, OperatorsBeforeTheWindowLeaveNothingBehind) {
  ChunkBuilder chunk;
  AddOperator(OperatorBuilder(kStart - 50).Tensor(kFloat, {1}, {}, 64), kStart - 20, 2,
              chunk.Head(1));
  Decode(chunk);
  EXPECT_EQ(counts().warmup_event_count, 1);
  EXPECT_THAT(sink_.operators(), IsEmpty());
  EXPECT_THAT(sink_.tensor_uses(), IsEmpty());
  EXPECT_EQ(sink_.inputs_count(), 0u);
}

TEST_F(TorchDecoderTest, AnOperatorThatNeverEndsIsKnown) {
  ChunkBuilder chunk;
  OperatorBuilder(kStart + 100).Int(5).AddTo(chunk.Head(1).Open(kStart + 100, 3));
  // As the library leaves it on the stack.
  const wire::OpenRange open{kStart + 100, 3, static_cast<uint16_t>(wire::RangeCategory::kOperator),
                             0};
  memcpy(chunk.data() + offsetof(wire::ChunkHeader, open_ranges), &open, sizeof(open));
  Decode(chunk);
  decoder().Finish();
  ASSERT_THAT(sink_.ranges(), SizeIs(1));
  EXPECT_EQ(sink_.ranges()[0].row.flags, kRangeOpen);
  ASSERT_THAT(sink_.operators(), SizeIs(1));
  EXPECT_EQ(sink_.operators()[0].scalars, R"(["5"])");
}

TEST_F(TorchDecoderTest, NamesAloneHaveNoInputs) {
  OperatorBuilder builder(kStart + 10);
  builder.event().input_count = 3;
  ChunkBuilder chunk;
  AddOperator(builder, kStart + 20, 2, chunk.Head(1));
  Decode(chunk);
  ASSERT_THAT(sink_.operators(), SizeIs(1));
  EXPECT_EQ(sink_.operators()[0].row.inputs, 0u);
  EXPECT_EQ(sink_.operators()[0].row.scalars, 0u);
  EXPECT_EQ(Described().cut_input_count, 0);
}

TEST_F(TorchDecoderTest, TensorsOfKnownStorageAreRowsAtTheOperatorsBegin) {
  ChunkBuilder chunk;
  AddOperator(OperatorBuilder(kStart + 10, 1)
                  .Int(4)
                  .Tensor(kFloat, {8}, {}, 0x1000)
                  .TensorList(2)
                  .Tensor(kFloat, {8}, {}, 0x2000)
                  .Tensor(kFloat, {8}, {}, 0x3000)
                  .Tensor(kFloat, {8}),
              kStart + 20, 2, chunk.Head(1));
  Decode(chunk);
  const auto use = [](uint64_t address, uint8_t input) {
    return TensorUseRow{
        .time_ns = 1'000'010, .address = address, .depth = 1, .scope = 0, .input = input};
  };
  EXPECT_THAT(sink_.tensor_uses(), ElementsAre(use(0x1000, 1), use(0x2000, 2), use(0x3000, 2)));
  EXPECT_EQ(Described().tensor_use_count, 3);
}

TEST_F(TorchDecoderTest, InputsThatAreNotAllThereAreCounted) {
  ChunkBuilder chunk;
  chunk.Head(1);
  OperatorBuilder left_out(kStart + 10);
  left_out.Tensor(kFloat, {2});
  left_out.event().input_count = 4;
  AddOperator(left_out, kStart + 20, 2, chunk);
  AddOperator(OperatorBuilder(kStart + 30).String("cut", wire::kInputCut), kStart + 40, 2, chunk);
  AddOperator(OperatorBuilder(kStart + 50).TensorList(3).Tensor(kFloat, {1}), kStart + 60, 2,
              chunk);
  AddOperator(OperatorBuilder(kStart + 70).Tensor(kFloat, {2}), kStart + 80, 2, chunk);
  Decode(chunk);
  EXPECT_EQ(counts().invalid_count, 0);
  EXPECT_THAT(sink_.operators(), SizeIs(4));
  EXPECT_EQ(Described().cut_input_count, 3);
}

TEST_F(TorchDecoderTest, WhatIsNotAskedForIsOfAnUnknownKind) {
  spec_.operators = OperatorMode::kOff;
  ChunkBuilder chunk;
  AddOperator(OperatorBuilder(kStart + 10).Int(1), kStart + 20, 2, chunk.Head(1));
  chunk.Add(Note(wire::NoteKind::kGraphBreak, 0, 3, 4, 0), wire::EventKind::kNote);
  Decode(chunk);
  EXPECT_EQ(counts().unknown_kind_count, 2);
  EXPECT_THAT(sink_.operators(), IsEmpty());
  EXPECT_THAT(sink_.notes(), IsEmpty());
  EXPECT_EQ(Described().outcome, TorchOutcome::kOff);
}

TEST_F(TorchDecoderTest, OperatorsThatTheSinkDoesNotTakeAreNoFurtherLosses) {
  ChunkBuilder chunk;
  AddOperator(OperatorBuilder(kStart + 10).Int(1), kStart + 20, 2, chunk.Head(1));
  chunk.Add(Note(wire::NoteKind::kGraphBreak, 0, 3, 4, 0), wire::EventKind::kNote);
  sink_.FailWith(absl::OutOfRangeError("full"));
  Decode(chunk);
  EXPECT_EQ(counts().byte_cap_count, 1);  // The range.
  EXPECT_EQ(Described().operator_count, 0);
  EXPECT_EQ(Described().note_count, 0);
  EXPECT_EQ(Described().lost_note_count, 1);
}

// ---- notes, blocks, status ----

TEST_F(TorchDecoderTest, NotesAreKeptWhateverTheirTime) {
  Decode(ChunkBuilder()
             .Head(9)
             .Add(Note(wire::NoteKind::kRecompile, kEnd + 500, 2, 3, -1), wire::EventKind::kNote)
             .Add(Note(wire::NoteKind::kGraphBreak, kStart - 500, 4, 5, 0), wire::EventKind::kNote)
             .Add(Note(wire::NoteKind::kFolded, 0, wire::kNoNameId, wire::kNoNameId, 12),
                  wire::EventKind::kNote));
  const auto notes = sink_.notes();
  ASSERT_THAT(notes, SizeIs(3));
  EXPECT_EQ(notes[0].row.time_ns, 2'000'500);
  EXPECT_EQ(notes[0].row.kind, 2);
  EXPECT_EQ(notes[0].row.value, -1);
  EXPECT_EQ(notes[0].subject, "n2");
  EXPECT_EQ(notes[0].text, "n3");
  EXPECT_EQ(notes[1].row.time_ns, 999'500);
  EXPECT_EQ(notes[2].row.time_ns, kNoNoteTime);
  EXPECT_EQ(notes[2].subject, "");
  EXPECT_EQ(notes[2].row.value, 12);
  EXPECT_EQ(counts().event_count, 0);
  EXPECT_EQ(counts().invalid_count, 0);
  EXPECT_EQ(Described().note_count, 3);
}

TEST_F(TorchDecoderTest, NotesOfKindsToComeAreCountedAsUnknown) {
  Decode(ChunkBuilder()
             .Head(9)
             .Add(Note(static_cast<wire::NoteKind>(wire::kMaxNoteKind + 1), 0, 2, 3, 0),
                  wire::EventKind::kNote)
             .Add(Note(static_cast<wire::NoteKind>(0), 0, 2, 3, 0), wire::EventKind::kNote));
  EXPECT_EQ(counts().unknown_kind_count, 2);
  EXPECT_THAT(sink_.notes(), IsEmpty());
}

wire::BlockEvent Block() {
  wire::BlockEvent block{};
  block.address = uint64_t{0x7f} << 40;
  block.bytes = 4096;
  block.name_id = 5;
  block.category = static_cast<uint16_t>(wire::MemoryCategory::kOptimizerState);
  block.device_type = 1;
  block.device_index = 3;
  return block;
}

TEST_F(TorchDecoderTest, BlocksAreOfNoThread) {
  wire::BlockEvent unknown = Block();
  unknown.category = wire::kMaxMemoryCategory + 1;
  unknown.name_id = wire::kNoNameId;
  wire::BlockEvent nobodys = unknown;
  nobodys.category = static_cast<uint16_t>(wire::MemoryCategory::kUnknown);
  Decode(ChunkBuilder()
             .Head(9)
             .Add(Block(), wire::EventKind::kBlock)
             .Add(unknown, wire::EventKind::kBlock)
             .Add(nobodys, wire::EventKind::kBlock));
  const auto blocks = sink_.blocks();
  ASSERT_THAT(blocks, SizeIs(3));
  EXPECT_EQ(blocks[0].name, "n5");
  EXPECT_EQ(blocks[0].row.address, uint64_t{0x7f} << 40);
  EXPECT_EQ(blocks[0].row.bytes, 4096);
  EXPECT_EQ(blocks[0].row.category, 3);
  EXPECT_EQ(blocks[0].row.device_type, 1);
  EXPECT_EQ(blocks[0].row.device_index, 3);
  EXPECT_EQ(blocks[1].row.category, 0);
  EXPECT_EQ(blocks[1].name, "");
  EXPECT_EQ(blocks[2].row, blocks[1].row);
  // Whose chunk they came in is of no interest.
  EXPECT_THAT(sink_.threads(), IsEmpty());
  EXPECT_EQ(Described().block_count, 3);
}

wire::TorchStatusEvent Status(uint32_t wanted, uint32_t recorded) {
  wire::TorchStatusEvent status{};
  status.version_id = 4;
  status.wanted = wanted;
  status.recorded = recorded;
  status.step_source = static_cast<uint32_t>(wire::StepSource::kOptimizer);
  status.counts[wire::kTorchFolded] = 11;
  status.counts[wire::kTorchOddTensors] = 12;
  status.counts[wire::kTorchLostNotes] = 13;
  status.counts[wire::kTorchMissedMemory] = 14;
  return status;
}

TEST_F(TorchDecoderTest, TheLastStatusSaysHowItWent) {
  constexpr uint32_t kAll = wire::kTorchPresent | wire::kTorchOperators | wire::kTorchShapes |
                            wire::kTorchCpuMemory | wire::kTorchSteps;
  Decode(ChunkBuilder()
             .Head(9)
             .Add(Status(kAll, 0), wire::EventKind::kTorchStatus)
             .Add(Status(kAll, kAll), wire::EventKind::kTorchStatus));
  const TorchRecord record = Described();
  EXPECT_EQ(record.outcome, TorchOutcome::kRecorded);
  EXPECT_EQ(record.operators, OperatorMode::kShapes);
  EXPECT_TRUE(record.memory);
  EXPECT_EQ(record.version, "n4");
  EXPECT_EQ(record.step_source, StepSource::kOptimizer);
  EXPECT_EQ(record.folded_count, 11);
  EXPECT_EQ(record.odd_tensor_count, 12);
  EXPECT_EQ(record.lost_note_count, 13);
  EXPECT_EQ(record.missed_memory_count, 14);
  EXPECT_THAT(sink_.threads(), IsEmpty());
}

TEST_F(TorchDecoderTest, WhatIsMissingIsNamedWithItsReason) {
  constexpr uint32_t kWanted = wire::kTorchPresent | wire::kTorchOperators | wire::kTorchShapes;
  Decode(ChunkBuilder()
             .Head(9)
             .Add(Note(wire::NoteKind::kMissing, 0, 2, 3, 0), wire::EventKind::kNote)
             .Add(Status(kWanted, kWanted & ~wire::kTorchShapes), wire::EventKind::kTorchStatus));
  const TorchRecord record = Described();
  EXPECT_EQ(record.outcome, TorchOutcome::kLimited);
  EXPECT_EQ(record.operators, OperatorMode::kNames);
  EXPECT_FALSE(record.memory);
  ASSERT_THAT(record.missing, SizeIs(1));
  EXPECT_EQ(record.missing[0].feature, "n2");
  EXPECT_EQ(record.missing[0].reason, "n3");
  EXPECT_THAT(sink_.notes(), SizeIs(1));  // It is in the file, too.
}

TEST_F(TorchDecoderTest, WithoutAUsableTorchThereIsNone) {
  EXPECT_EQ(Described().outcome, TorchOutcome::kNoTorch);
  Decode(ChunkBuilder().Head(9).Add(Status(wire::kTorchPresent, 0), wire::EventKind::kTorchStatus));
  EXPECT_EQ(Described().outcome, TorchOutcome::kNoTorch);
  EXPECT_EQ(Described().operators, OperatorMode::kOff);
}

// ---- inputs as text ----

OperatorInputs ShapesOf(const OperatorBuilder& builder, bool with_strides = false) {
  OperatorBuilder copy = builder;
  InputKeys keys;
  EXPECT_TRUE(
      ReadInputs(copy.inputs(), copy.event().input_count, copy.event().described_count, keys));
  return ShapesText(keys.shapes, with_strides);
}
std::string ScalarsOf(const OperatorBuilder& builder) {
  OperatorBuilder copy = builder;
  InputKeys keys;
  EXPECT_TRUE(
      ReadInputs(copy.inputs(), copy.event().input_count, copy.event().described_count, keys));
  return ScalarsText(keys.scalars);
}

TEST(OperatorInputsTest, ShapesAreSpeltAsTorchProfilerSpellsThem) {
  const OperatorInputs text = ShapesOf(OperatorBuilder(1)
                                           .Tensor(kFloat, {2, 3, 8, 8}, {192, 64, 8, 1})
                                           .TensorList(2)
                                           .Tensor(OperatorBuilder::kLong, {3, 4}, {4, 1})
                                           .None()
                                           .Tensor(15, {})
                                           .Int(1)
                                           .List<int64_t>(kIntList, {1, 1})
                                           .String("text")
                                           .None()
                                           .Other(),
                                       /*with_strides=*/true);
  EXPECT_EQ(text.dims, "[[2,3,8,8],[[3,4],[]],[],[],[],[],[],[]]");
  EXPECT_EQ(text.types, R"(["float","TensorList","c10::BFloat16","Scalar","ScalarList","","",""])");
  EXPECT_EQ(text.strides, "[[192,64,8,1],[[4,1],[]],[],[],[],[],[],[]]");
}

TEST(OperatorInputsTest, AnEmptyListOfTensorsIsOne) {
  const OperatorInputs text = ShapesOf(OperatorBuilder(1).TensorList(0).Int(0));
  EXPECT_EQ(text.dims, "[[],[]]");
  EXPECT_EQ(text.types, R"(["TensorList","Scalar"])");
}

TEST(OperatorInputsTest, TypesThatAreNotKnownHaveNoName) {
  EXPECT_EQ(ShapesOf(OperatorBuilder(1).Tensor(-1, {1})).types, R"([""])");
  EXPECT_EQ(ShapesOf(OperatorBuilder(1).Tensor(127, {1})).types, R"([""])");
  EXPECT_EQ(ShapesOf(OperatorBuilder(1).Tensor(29, {1})).types, R"(["long unsigned int"])");
}

TEST(OperatorInputsTest, ScalarsAreSpeltAsTorchPrintsThem) {
  const auto of_double = [](double value) { return ScalarsOf(OperatorBuilder(1).Double(value)); };
  EXPECT_EQ(of_double(0.1), R"(["0.10000000000000001"])");
  EXPECT_EQ(of_double(1), R"(["1."])");
  EXPECT_EQ(of_double(-3), R"(["-3."])");
  EXPECT_EQ(of_double(1e16), R"(["10000000000000000."])");
  EXPECT_EQ(of_double(1e20), R"(["1e+20"])");
  EXPECT_EQ(of_double(1e-5), R"(["1.0000000000000001e-05"])");
  EXPECT_EQ(of_double(123456.789), R"(["123456.789"])");
  EXPECT_EQ(of_double(5e-324), R"(["4.9406564584124654e-324"])");
  EXPECT_EQ(of_double(std::numeric_limits<double>::infinity()), R"(["inf"])");
  EXPECT_EQ(of_double(-std::numeric_limits<double>::infinity()), R"(["-inf"])");
  EXPECT_EQ(of_double(std::numeric_limits<double>::quiet_NaN()), R"(["nan"])");
  EXPECT_EQ(ScalarsOf(OperatorBuilder(1).Bool(true).Bool(false).Int(INT64_MIN)),
            R"(["True","False","-9223372036854775808"])");
}

TEST(OperatorInputsTest, ListsAndStringsAreSpeltOut) {
  EXPECT_EQ(ScalarsOf(OperatorBuilder(1)
                          .List<int64_t>(kIntList, {2, -1})
                          .List<double>(kDoubleList, {1.5, 2})
                          .List<int64_t>(kBoolList, {1, 0})
                          .List<int64_t>(kIntList, {})),
            R"(["[2, -1]","[1.5, 2.]","[True, False]","[]"])");
  EXPECT_EQ(ScalarsOf(OperatorBuilder(1).String("nccl").String("")), R"(["nccl",""])");
  EXPECT_EQ(ScalarsOf(OperatorBuilder(1).TensorList(1).Tensor(kFloat, {1}).Int(3)), R"(["","3"])");
}

TEST(OperatorInputsTest, WhatWasCutSaysSo) {
  EXPECT_EQ(ScalarsOf(OperatorBuilder(1)
                          .List<int64_t>(kIntList, {7}, wire::kInputCut)
                          .List<int64_t>(kIntList, {}, wire::kInputCut)
                          .String("long", wire::kInputCut)),
            R"(["[7, ...]","[...]","long..."])");
}

TEST(OperatorInputsTest, StringsStayJson) {
  EXPECT_EQ(ScalarsOf(OperatorBuilder(1).String("a\"b\\\n\x01")), R"(["a\"b\\\u000a\u0001"])");
  EXPECT_EQ(ScalarsOf(OperatorBuilder(1).String("\xff")), "[\"\xef\xbf\xbd\"]");
}

// ---- hostile ----

class TorchDecoderHostileTest : public TorchDecoderTest {
 protected:
  // `builder`'s record is refused, counted once, and what comes behind it is kept.
  void ExpectRefused(const OperatorBuilder& builder, const char* what) {
    const int64_t invalid = counts().invalid_count;
    const int64_t events = counts().event_count;
    ChunkBuilder chunk;
    OperatorBuilder copy = builder;
    const uint64_t start = kStart + 100 * static_cast<uint64_t>(++round_);
    copy.event().start_ticks = start;
    AddOperator(copy, start + 10, 2, chunk.Head(1));
    Decode(chunk);
    EXPECT_EQ(counts().invalid_count, invalid + 1) << what;
    EXPECT_EQ(counts().event_count, events + 1) << what;
    EXPECT_THAT(sink_.operators(), IsEmpty()) << what;
    EXPECT_THAT(sink_.tensor_uses(), IsEmpty()) << what;
  }
  static OperatorBuilder One() { return OperatorBuilder(kStart); }

 private:
  int round_ = 0;
};

TEST_F(TorchDecoderHostileTest, InputsThatAreNoneAreRefused) {
  ExpectRefused(One().Input(static_cast<wire::InputKind>(10)), "kind 10");
  ExpectRefused(One().Input(static_cast<wire::InputKind>(255)), "kind 255");
  ExpectRefused(One().Input(kInt), "a number after the end");
  ExpectRefused(One().Input(kString, 0, 9), "a string after the end");
  ExpectRefused(One().Input(kString, 0, UINT32_MAX), "a string of 4 GiB");
  ExpectRefused(One().String(std::string(wire::kMaxInputStringBytes + 1, 'a')), "a long string");
  ExpectRefused(One().Input(kIntList, 0, UINT32_MAX), "a list of 4 G items");
  ExpectRefused(One().List(kIntList, std::vector<int64_t>(wire::kMaxListItems + 1)), "a long list");
  ExpectRefused(One().Tensor(kFloat, std::vector<int64_t>(wire::kMaxTensorRank + 1)), "rank 26");
  ExpectRefused(One().Input(kTensor, 0, 0, kFloat, 255), "rank 255");
  ExpectRefused(One().Input(kTensor, wire::kInputStorage, 0, kFloat, 0), "no storage");
  ExpectRefused(
      One().Tensor(kFloat, {1}).Input(kTensor, wire::kInputStrides, 0, kFloat, 1).Word(int64_t{1}),
      "half of the strides");
  ExpectRefused(One().TensorList(wire::kMaxListItems + 1), "a long list of tensors");
  ExpectRefused(One().TensorList(1).Int(1), "a list of tensors that holds a number");
  ExpectRefused(One().TensorList(2).TensorList(1).Tensor(kFloat, {1}), "a list within a list");
}

TEST_F(TorchDecoderHostileTest, CountsThatDoNotFitAreRefused) {
  OperatorBuilder more_described = One().Int(1);
  more_described.event().described_count = 2;
  ExpectRefused(more_described, "more described than there are");
  OperatorBuilder far_more = One().Int(1);
  far_more.event().described_count = UINT32_MAX;
  ExpectRefused(far_more, "4 G described");
  OperatorBuilder fewer_inputs = One().Int(1).Int(2);
  fewer_inputs.event().input_count = 1;
  ExpectRefused(fewer_inputs, "more described than inputs");
  OperatorBuilder deep = One().Int(1);
  deep.event().depth = wire::kMaxRangeDepth;
  ChunkBuilder chunk;
  deep.AddTo(chunk.Head(7));
  const int64_t invalid = counts().invalid_count;
  Decode(chunk);
  EXPECT_EQ(counts().invalid_count, invalid + 1);
}

TEST_F(TorchDecoderHostileTest, RecordsThatAreTooShortAreRefused) {
  ChunkBuilder chunk;
  chunk.Head(1);
  for (const wire::EventKind kind : {wire::EventKind::kOperator, wire::EventKind::kNote,
                                     wire::EventKind::kBlock, wire::EventKind::kTorchStatus}) {
    const wire::EventHeader header{16, static_cast<uint8_t>(kind), 0, 0};
    const uint64_t time = kStart + 1;
    chunk.AddBytes(&header, sizeof(header)).AddBytes(&time, sizeof(time));
  }
  Decode(chunk);
  EXPECT_EQ(counts().invalid_count, 4);
}

TEST_F(TorchDecoderHostileTest, TimesOutsideOfAllTimeAreRefused) {
  ChunkBuilder chunk;
  chunk.Head(1);
  OperatorBuilder(kEpoch - 2 * uint64_t{3'600'000'000'000}).AddTo(chunk);
  OperatorBuilder(kCopied + 2'000'000).AddTo(chunk);
  OperatorBuilder(UINT64_MAX).AddTo(chunk);
  chunk.Add(Note(wire::NoteKind::kGraphBreak, 1, 2, 3, 0), wire::EventKind::kNote);
  chunk.Add(Note(wire::NoteKind::kGraphBreak, UINT64_MAX, 2, 3, 0), wire::EventKind::kNote);
  Decode(chunk);
  EXPECT_EQ(counts().invalid_count, 5);
  EXPECT_THAT(sink_.notes(), IsEmpty());
}

TEST_F(TorchDecoderHostileTest, NamesThatAreNotThereAreRefused) {
  wire::BlockEvent block = Block();
  block.name_id = 9;
  wire::TorchStatusEvent status = Status(1, 1);
  status.version_id = UINT32_MAX;
  Decode(ChunkBuilder()
             .Head(1)
             .Add(Note(wire::NoteKind::kGraphBreak, 0, 9, 3, 0), wire::EventKind::kNote)
             .Add(Note(wire::NoteKind::kGraphBreak, 0, 3, UINT32_MAX, 0), wire::EventKind::kNote)
             .Add(block, wire::EventKind::kBlock)
             .Add(status, wire::EventKind::kTorchStatus));
  EXPECT_EQ(counts().invalid_count, 4);
  EXPECT_EQ(Described().outcome, TorchOutcome::kNoTorch);
}

TEST_F(TorchDecoderHostileTest, BlocksAndStatusesOutOfRangeAreRefused) {
  wire::BlockEvent negative = Block();
  negative.bytes = -1;
  wire::BlockEvent driver = Block();
  driver.device_type = 64;
  wire::BlockEvent no_device = Block();
  no_device.device_index = -1;
  wire::TorchStatusEvent status = Status(1, 1);
  status.step_source = wire::kMaxStepSource + 1;
  Decode(ChunkBuilder()
             .Head(1)
             .Add(negative, wire::EventKind::kBlock)
             .Add(driver, wire::EventKind::kBlock)
             .Add(no_device, wire::EventKind::kBlock)
             .Add(status, wire::EventKind::kTorchStatus));
  EXPECT_EQ(counts().invalid_count, 4);
}

TEST_F(TorchDecoderHostileTest, CountsThatLieDoNotOverflow) {
  wire::TorchStatusEvent status = Status(wire::kTorchPresent, wire::kTorchPresent);
  for (uint64_t& count : status.counts) count = UINT64_MAX;
  Decode(ChunkBuilder().Head(1).Add(status, wire::EventKind::kTorchStatus));
  EXPECT_EQ(Described().folded_count, int64_t{1} << 53);
  EXPECT_EQ(Described().lost_note_count, int64_t{1} << 53);
}

TEST_F(TorchDecoderHostileTest, ScopesAndSequencesToComeAreTame) {
  OperatorBuilder builder(kStart + 10);
  builder.event().scope = 200;
  builder.event().sequence = -7;
  ChunkBuilder chunk;
  AddOperator(builder, kStart + 20, 2, chunk.Head(1));
  Decode(chunk);
  ASSERT_THAT(sink_.operators(), SizeIs(1));
  EXPECT_EQ(sink_.operators()[0].row.scope, 0);
  EXPECT_EQ(sink_.operators()[0].row.sequence, -1);
}

TEST_F(TorchDecoderHostileTest, InputsThatNeverRecurFillTheirRoomAndNoMore) {
  DecodeCounts counts;
  RowSink rows(sink_, counts);
  InputTable table(/*with_strides=*/false, rows);
  const std::string text(200, 'x');
  InputKeys keys;
  int64_t number = 0;
  InputTable::Ids ids;
  // Some 450 bytes each: the room is for less than a million.
  do {
    const OperatorBuilder builder = OperatorBuilder(1).String(text).Int(number++);
    ASSERT_TRUE(ReadInputs(builder.inputs(), 2, 2, keys));
    ids = table.Find(keys);
  } while (!ids.is_full && number < kMaxOperatorInputs);
  EXPECT_TRUE(ids.is_full);
  EXPECT_EQ(ids.scalars, 0u);
  EXPECT_EQ(ids.inputs, 1u);  // The shapes had recurred.
  EXPECT_LT(number, 500'000);
}

}  // namespace
}  // namespace profd
