#include "daemon/ingest/decode/event_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>

#include "tests/fakes/status_matchers.h"
#include "tests/ingest/ingest_testing.h"
#include "tests/ingest/window_times.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class EventDecoderTest : public testing::Test {
 protected:
  EventDecoderTest() { windows_[0] = {.start = kStart, .end = kEnd}; }

  void Decode(const ChunkBuilder& chunk) { decoder_.Decode(chunk.View(kCopied)); }
  const DecodeCounts& counts() const { return decoder_.counts(); }

  RecordingSink sink_;
  FakeNames names_{{2, 3, 4, 5}};
  std::array<WindowTicks, 3> windows_{};
  EventDecoder decoder_{TickLine({kEpoch, 0, 0}, 1.0), names_, windows_, sink_};
};

TEST_F(EventDecoderTest, KeepsWhatLiesInTheWindowInTimeSinceTheEpoch) {
  Decode(ChunkBuilder().Head(1).Range(kStart + 10, kStart + 40, 2, 3).Instant(kStart + 50, 3));
  const auto ranges = sink_.ranges();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].name, "n2");
  EXPECT_EQ(ranges[0].row.start_ns, 1'000'010);
  EXPECT_EQ(ranges[0].row.duration_ns, 30);
  EXPECT_EQ(ranges[0].row.depth, 3);
  EXPECT_EQ(ranges[0].row.flags, 0);
  ASSERT_EQ(sink_.instants().size(), 1u);
  EXPECT_EQ(sink_.instants()[0].row.time_ns, 1'000'050);
  EXPECT_EQ(counts().event_count, 2);
}

TEST_F(EventDecoderTest, KeepsCountersAndMemoryAsTheyAre) {
  wire::CounterEvent counter{};
  counter.time_ticks = kStart + 1;
  counter.value = std::numeric_limits<double>::quiet_NaN();
  counter.name_id = 2;
  wire::MemoryEvent memory{};
  memory.time_ticks = kStart + 2;
  memory.address = 0xdead;
  memory.bytes = 4096;
  memory.total_allocated_bytes = 8192;
  memory.total_reserved_bytes = -1;
  memory.device_type = 1;
  memory.device_index = 7;
  memory.category = 4;
  Decode(ChunkBuilder()
             .Head(1)
             .Add(counter, wire::EventKind::kCounter)
             .Add(memory, wire::EventKind::kMemory, wire::kEventFlagFree));
  ASSERT_EQ(sink_.counters().size(), 1u);
  EXPECT_TRUE(std::isnan(sink_.counters()[0].row.value));
  ASSERT_EQ(sink_.memory().size(), 1u);
  const MemoryRow row = sink_.memory()[0];
  EXPECT_EQ(row.address, 0xdeadu);
  EXPECT_EQ(row.bytes, 4096);
  EXPECT_EQ(row.total_allocated_bytes, 8192);
  EXPECT_EQ(row.total_reserved_bytes, -1);
  EXPECT_EQ(row.device_index, 7);
  EXPECT_EQ(row.category, 4);
  EXPECT_TRUE(row.is_free);
}

TEST_F(EventDecoderTest, WhatEndedBeforeTheWindowIsCountedAndNotKept) {
  Decode(ChunkBuilder().Head(1).Range(kStart - 90, kStart - 50, 2).Instant(kStart - 10, 3));
  EXPECT_THAT(sink_.ranges(), IsEmpty());
  EXPECT_EQ(counts().warmup_event_count, 2);
  EXPECT_EQ(counts().event_count, 0);
}

TEST_F(EventDecoderTest, BeforeAWindowBeginsEverythingIsWarmup) {
  windows_[0] = {};
  Decode(ChunkBuilder().Head(1).Range(kStart + 10, kStart + 50, 2).Step(kStart + 60, 4));
  EXPECT_EQ(counts().warmup_event_count, 1);
  ASSERT_EQ(sink_.steps().size(), 1u);  // Marks pass through.
}

TEST_F(EventDecoderTest, ARangeOverTheStartKeepsItsTrueStart) {
  Decode(ChunkBuilder().Head(1).Range(kStart - 100, kStart + 50, 2));
  ASSERT_EQ(sink_.ranges().size(), 1u);
  EXPECT_EQ(sink_.ranges()[0].row.start_ns, 999'900);
  EXPECT_EQ(sink_.ranges()[0].row.flags, kRangeTruncated);
  EXPECT_EQ(counts().truncated_range_count, 1);
}

TEST_F(EventDecoderTest, ARangeOverTheEndIsCutThereAndOpen) {
  Decode(ChunkBuilder().Head(1).Range(kEnd - 100, kEnd + 50, 2));
  ASSERT_EQ(sink_.ranges().size(), 1u);
  EXPECT_EQ(sink_.ranges()[0].row.duration_ns, 100);
  EXPECT_EQ(sink_.ranges()[0].row.flags, kRangeOpen);
  EXPECT_EQ(counts().open_range_count, 1);
}

TEST_F(EventDecoderTest, ARangeThatEndedWithItsThreadIsMarked) {
  wire::RangeEvent event{};
  event.start_ticks = kStart + 10;
  event.duration_ticks = 30;
  event.name_id = 2;
  Decode(ChunkBuilder().Head(1).Add(event, wire::EventKind::kRange, wire::kEventFlagUnended));
  ASSERT_EQ(sink_.ranges().size(), 1u);
  EXPECT_EQ(sink_.ranges()[0].row.flags, kRangeUnended);
  EXPECT_EQ(sink_.ranges()[0].row.duration_ns, 30);
}

TEST_F(EventDecoderTest, WhatBeginsBehindTheWindowIsNoPartOfIt) {
  Decode(ChunkBuilder().Head(1).Instant(kEnd + 1, 2).Range(kEnd + 5, kEnd + 9, 2));
  EXPECT_EQ(counts().event_count, 0);
  EXPECT_EQ(counts().outside_event_count, 2);
  EXPECT_EQ(counts().invalid_count, 0);
}

TEST_F(EventDecoderTest, AtTheTickOfTheMarkTheOrderOfTheStepThreadDecides) {
  Decode(ChunkBuilder()
             .Head(1)
             .Step(kStart - 500, 3)
             .Instant(kStart, 2)  // Before the mark.
             .Range(kStart - 10, kStart, 2)
             .Step(kStart, 4)
             .Instant(kStart, 3)  // Behind it.
             .Instant(kEnd, 4)
             .Step(kEnd, 5));
  EXPECT_EQ(counts().warmup_event_count, 2);
  ASSERT_EQ(sink_.instants().size(), 2u);
  EXPECT_EQ(sink_.instants()[0].name, "n3");
  EXPECT_EQ(sink_.instants()[1].name, "n4");
  EXPECT_EQ(decoder_.end_step(0), 5);
}

TEST_F(EventDecoderTest, AMarkBetweenTwoWindowsIsGivenOnce) {
  windows_[1] = {.start = kEnd, .end = kEnd + 1000};
  Decode(ChunkBuilder().Head(1, 0).Step(kStart, 4).Step(kEnd, 5));
  Decode(ChunkBuilder().Head(1, 1).Step(kEnd, 5).Step(kEnd + 1000, 6));
  ASSERT_EQ(sink_.steps().size(), 3u);
  EXPECT_EQ(counts().invalid_count, 0);
  EXPECT_EQ(decoder_.end_step(0), 5);
  EXPECT_EQ(decoder_.end_step(1), 6);
}

TEST_F(EventDecoderTest, NamesAreAskedForOnceAndGetDenseIds) {
  ChunkBuilder chunk;
  chunk.Head(1);
  for (int i = 0; i < 100; ++i) chunk.Instant(kStart + 100 + i, 2 + i % 3);
  Decode(chunk);
  EXPECT_EQ(names_.reads, 3);
  std::set<uint32_t> ids;
  for (const auto& instant : sink_.instants()) ids.insert(instant.row.name);
  EXPECT_THAT(ids, ElementsAre(1, 2, 3));
}

TEST_F(EventDecoderTest, TheNameOfTheRestNeedsNoPlaceInMemory) {
  Decode(ChunkBuilder().Head(1).Instant(kStart + 5, wire::kOtherNameId));
  ASSERT_EQ(sink_.instants().size(), 1u);
  EXPECT_EQ(sink_.instants()[0].name, "(other)");
}

TEST_F(EventDecoderTest, TheLastNameOfAThreadStands) {
  Decode(ChunkBuilder().Head(7, 0, 4711).ThreadName(2).Instant(kStart + 5, 2));
  Decode(ChunkBuilder().Head(7, 0, 4711).ThreadName(3));
  ASSERT_EQ(sink_.threads().size(), 1u);
  EXPECT_EQ(sink_.threads()[0].os_thread, 4711);
  EXPECT_EQ(sink_.threads()[0].name, "n3");
}

TEST_F(EventDecoderTest, AnEventOfAnotherThreadGoesToThatThread) {
  wire::InstantEvent instant{};
  instant.time_ticks = kStart + 5;
  instant.name_id = 2;
  Decode(ChunkBuilder()
             .Head(1, 0, 100)
             .Instant(kStart + 50, 2)
             .Add(instant, wire::EventKind::kInstant, 0, 999)
             .Instant(kStart + 60, 3));
  EXPECT_EQ(counts().event_count, 3);
  ASSERT_EQ(sink_.threads().size(), 2u);
  EXPECT_EQ(sink_.threads()[1].os_thread, 999);
}

TEST_F(EventDecoderTest, OpenRangesAreCutAtTheWindowsEnd) {
  Decode(ChunkBuilder()
             .Head(1)
             .Open(kStart - 5, 2)
             .Open(kStart + 100, 3)
             .Open(kEnd + 5, 4)
             .Range(kStart + 10, kStart + 20, 4, 1));
  decoder_.Finish();
  const auto ranges = sink_.ranges();
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[1].name, "n3");
  EXPECT_EQ(ranges[1].row.depth, 1);
  EXPECT_EQ(ranges[1].row.start_ns + ranges[1].row.duration_ns, 2'000'000);
  EXPECT_EQ(ranges[1].row.flags, kRangeOpen);
  EXPECT_EQ(ranges[2].name, "n2");
  EXPECT_EQ(ranges[2].row.flags, kRangeOpen | kRangeTruncated);
  EXPECT_EQ(counts().open_range_count, 2);
  EXPECT_EQ(counts().event_count, 3);
  EXPECT_EQ(counts().invalid_count, 0);
}

// Pushes without pops: each step leaves one range more.
TEST_F(EventDecoderTest, RangesThatStepsLeaveOpenAreUnended) {
  ChunkBuilder chunk;
  chunk.Head(1).Open(kStart - 5, 2);
  for (uint64_t step = 0; step < 3; ++step) {
    chunk.Step(kStart + 100 * step, step).Open(kStart + 100 * step + 10, 3);
  }
  Decode(chunk.Step(kEnd, 3));
  decoder_.Finish();
  const auto ranges = sink_.ranges();
  ASSERT_EQ(ranges.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ranges[i].name, "n3");
    EXPECT_EQ(ranges[i].row.flags, kRangeOpen | kRangeUnended);
  }
  EXPECT_EQ(ranges[3].row.flags, kRangeOpen | kRangeTruncated);
}

TEST_F(EventDecoderTest, OfRangesThatStepsLeaveOpenTheLastMayStillEndInItsStep) {
  Decode(ChunkBuilder()
             .Head(1)
             .Step(kStart, 0)
             .Open(kStart + 10, 3)
             .Step(kStart + 100, 1)
             .Open(kStart + 110, 3));
  decoder_.Finish();
  const auto ranges = sink_.ranges();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].row.flags, kRangeOpen);
  EXPECT_EQ(ranges[1].row.flags, kRangeOpen | kRangeUnended);
}

TEST_F(EventDecoderTest, RangesThatAreOpenForGoodReasonsAreNotUnended) {
  constexpr auto kOperator = static_cast<uint16_t>(wire::RangeCategory::kOperator);
  Decode(ChunkBuilder()
             .Head(1)
             .Open(kStart + 5, 2)  // Of two stacks.
             .Open(kStart + 6, 4, wire::kPairedByIdentity)
             .Open(kStart + 7, 5, 0, kOperator)
             .Step(kStart + 100, 1)
             .Open(kStart + 110, 2, /*pairing=*/7)
             .Open(kStart + 120, 3)  // Recursion within a step.
             .Open(kStart + 130, 3)
             .Open(kStart + 140, 4, wire::kPairedByIdentity)  // Requests that overlap.
             .Open(kStart + 150, 5, 0, kOperator)
             .Step(kEnd, 2));
  decoder_.Finish();
  const auto ranges = sink_.ranges();
  ASSERT_EQ(ranges.size(), 8u);
  for (const auto& range : ranges) EXPECT_EQ(range.row.flags, kRangeOpen) << range.name;
}

// Beyond the limit of names, different ranges have the same number.
TEST_F(EventDecoderTest, OpenRangesWithoutNamesOfTheirOwnAreNotUnended) {
  ChunkBuilder chunk;
  chunk.Head(1);
  for (uint64_t step = 0; step < 2; ++step) {
    chunk.Step(kStart + 100 * step, step).Open(kStart + 100 * step + 10, wire::kOtherNameId);
  }
  Decode(chunk.Step(kEnd, 2));
  decoder_.Finish();
  const auto ranges = sink_.ranges();
  ASSERT_EQ(ranges.size(), 2u);
  for (const auto& range : ranges) {
    EXPECT_EQ(range.name, "(other)");
    EXPECT_EQ(range.row.flags, kRangeOpen);
  }
}

TEST_F(EventDecoderTest, ARangeKilledBetweenItsRecordAndItsPopIsNotCountedTwice) {
  Decode(ChunkBuilder()
             .Head(1)
             .Open(kStart + 1, 2)
             .Open(kStart + 10, 3)
             .Range(kStart + 10, kStart + 20, 3, 1));
  decoder_.Finish();
  EXPECT_THAT(sink_.range_names(), ElementsAre("n3", "n2"));
}

TEST_F(EventDecoderTest, ThreadsThatMoveOnTakeTheirStackWithThem) {
  Decode(ChunkBuilder().Head(1).Open(kStart + 1, 2).Range(kStart + 5, kStart + 6, 4, 1));
  Decode(ChunkBuilder().Head(1).Range(kStart + 1, kStart + 20, 2, 0));
  decoder_.Finish();
  EXPECT_THAT(sink_.range_names(), ElementsAre("n4", "n2"));
}

TEST_F(EventDecoderTest, AThreadKilledWhileItMovedOnKeepsTheOldStack) {
  Decode(ChunkBuilder().Head(1).Open(kStart + 1, 2).Range(kStart + 5, kStart + 6, 4, 1));
  Decode(ChunkBuilder().Head(1));
  decoder_.Finish();
  EXPECT_THAT(sink_.range_names(), ElementsAre("n4", "n2"));
}

TEST_F(EventDecoderTest, WhatWasOpenInOneWindowComesBeforeTheNext) {
  windows_[1] = {.start = kEnd + 100, .end = kEnd + 1000};
  Decode(ChunkBuilder().Head(1, 0).Open(kStart + 1, 2));
  Decode(ChunkBuilder().Head(1, 1).Range(kEnd + 200, kEnd + 300, 3));
  decoder_.Finish();
  EXPECT_THAT(sink_.range_names(), ElementsAre("n2", "n3"));
}

TEST_F(EventDecoderTest, JitterBelowAMicrosecondIsClamped) {
  Decode(ChunkBuilder()
             .Head(1)
             .Range(kStart + 2000, kStart + 5000, 2)
             .Instant(kStart + 4100, 3)
             .Range(kStart + 4500, kStart + 6000, 4));
  EXPECT_EQ(counts().invalid_count, 0);
  EXPECT_EQ(sink_.instants()[0].row.time_ns, 1'005'000);
  EXPECT_EQ(sink_.ranges()[1].row.start_ns, 1'005'000);
}

class EventDecoderHostileTest : public EventDecoderTest {
 protected:
  // Exactly one record is refused, and the one behind it is kept.
  template <typename Record>
  void ExpectRefused(Record record, wire::EventKind kind) {
    const int64_t before = counts().invalid_count;
    const size_t kept = sink_.instants().size();
    Decode(ChunkBuilder().Head(1).Add(record, kind).Instant(kStart + 500'000, 2));
    EXPECT_EQ(counts().invalid_count, before + 1);
    EXPECT_EQ(sink_.instants().size(), kept + 1);
  }
  static wire::RangeEvent GoodRange() {
    wire::RangeEvent event{};
    event.start_ticks = kStart + 10;
    event.duration_ticks = 5;
    event.name_id = 2;
    return event;
  }
  static wire::MemoryEvent GoodMemory() {
    wire::MemoryEvent event{};
    event.time_ticks = kStart + 10;
    event.total_allocated_bytes = -1;
    event.total_reserved_bytes = -1;
    return event;
  }
};

TEST_F(EventDecoderHostileTest, SizesThatCannotBeEndTheChunkThere) {
  for (const uint16_t size : {0, 4, 12, 33, 4104, 65528}) {
    const int64_t before = counts().invalid_count;
    const wire::EventHeader header{size, 2, 0, 0};
    Decode(ChunkBuilder()
               .Head(1)
               .Instant(kStart + 20, 2)
               .AddBytes(&header, sizeof(header))
               .Instant(kStart + 30, 2));
    EXPECT_EQ(counts().invalid_count, before + 1) << size;
  }
  EXPECT_EQ(sink_.instants().size(), 6u);
}

TEST_F(EventDecoderHostileTest, ARecordPastWhatWasPublishedIsNotRead) {
  const wire::EventHeader header{32, 1, 0, 0};
  Decode(ChunkBuilder().Head(1).AddBytes(&header, sizeof(header)));
  EXPECT_EQ(counts().invalid_count, 1);
  EXPECT_THAT(sink_.ranges(), IsEmpty());
}

TEST_F(EventDecoderHostileTest, RecordsTooShortForTheirKindAreRefused) {
  for (const auto kind : {1, 2, 3, 4, 5, 6}) {
    const int64_t before = counts().invalid_count;
    const wire::EventHeader header{8, static_cast<uint8_t>(kind), 0, 0};
    Decode(ChunkBuilder().Head(1).AddBytes(&header, sizeof(header)));
    EXPECT_EQ(counts().invalid_count, before + 1) << kind;
  }
}

TEST_F(EventDecoderHostileTest, UnknownKindsAreSkippedAndCounted) {
  std::array<uint64_t, 8> record{};
  const wire::EventHeader header{64, 200, 0xff, 0};
  memcpy(record.data(), &header, sizeof(header));
  Decode(ChunkBuilder().Head(1).AddBytes(record.data(), 64).Instant(kStart + 30, 2));
  EXPECT_EQ(counts().unknown_kind_count, 1);
  EXPECT_EQ(counts().invalid_count, 0);
  EXPECT_EQ(sink_.instants().size(), 1u);
}

TEST_F(EventDecoderHostileTest, RangesThatCannotBe) {
  wire::RangeEvent event = GoodRange();
  event.depth = 128;
  ExpectRefused(event, wire::EventKind::kRange);
  event = GoodRange();
  event.duration_ticks = UINT64_MAX;
  ExpectRefused(event, wire::EventKind::kRange);
  event = GoodRange();
  event.start_ticks = 1;
  ExpectRefused(event, wire::EventKind::kRange);
  event = GoodRange();
  event.duration_ticks = uint64_t{1} << 50;  // Ends after it was read.
  ExpectRefused(event, wire::EventKind::kRange);
  for (const uint32_t name : {0u, 6u, 65535u, 65536u, UINT32_MAX}) {
    event = GoodRange();
    event.name_id = name;
    ExpectRefused(event, wire::EventKind::kRange);
  }
}

TEST_F(EventDecoderHostileTest, MemoryThatCannotBe) {
  wire::MemoryEvent event = GoodMemory();
  event.bytes = -1;
  ExpectRefused(event, wire::EventKind::kMemory);
  event = GoodMemory();
  event.total_allocated_bytes = -2;
  ExpectRefused(event, wire::EventKind::kMemory);
  event = GoodMemory();
  event.total_reserved_bytes = INT64_MIN;
  ExpectRefused(event, wire::EventKind::kMemory);
  event = GoodMemory();
  event.device_type = 2;
  ExpectRefused(event, wire::EventKind::kMemory);
  event = GoodMemory();
  event.device_index = -1;
  ExpectRefused(event, wire::EventKind::kMemory);
}

TEST_F(EventDecoderHostileTest, StepsThatRunBackwards) {
  Decode(
      ChunkBuilder().Head(1).Step(kStart + 1, 9).Step(kStart + 2, 8).Step(kStart + 3, 1ull << 60));
  EXPECT_EQ(counts().invalid_count, 2);
  EXPECT_EQ(sink_.steps().size(), 1u);
}

TEST_F(EventDecoderHostileTest, TimeThatRunsBackwards) {
  Decode(ChunkBuilder()
             .Head(1)
             .Instant(kStart + 50'000, 2)
             .Instant(kStart + 49'000, 2)
             .Range(kStart + 10, kStart + 20, 2));
  EXPECT_EQ(counts().invalid_count, 2);
}

TEST_F(EventDecoderHostileTest, SiblingsThatOverlap) {
  Decode(ChunkBuilder()
             .Head(1)
             .Range(kStart + 10'000, kStart + 50'000, 2)
             .Range(kStart + 20'000, kStart + 60'000, 2));
  EXPECT_EQ(counts().invalid_count, 1);
}

TEST_F(EventDecoderHostileTest, ChunksOfNoThreadOrNoWindow) {
  Decode(ChunkBuilder().Head(0).Instant(kStart + 1, 2));
  Decode(ChunkBuilder().Head(1, 3).Instant(kStart + 1, 2));
  Decode(ChunkBuilder().Head(1, UINT32_MAX).Instant(kStart + 1, 2));
  EXPECT_EQ(counts().invalid_count, 3);
  Decode(ChunkBuilder().Head(1, 1));
  Decode(ChunkBuilder().Head(1, 0).Instant(kStart + 1, 2));  // A window that was over for it.
  EXPECT_EQ(counts().invalid_count, 4);
  EXPECT_EQ(counts().event_count, 0);
}

TEST_F(EventDecoderHostileTest, StacksThatCannotBe) {
  Decode(ChunkBuilder().Head(1).Depth(129));
  EXPECT_EQ(counts().invalid_count, 1);
  Decode(ChunkBuilder().Head(2).Depth(UINT32_MAX));
  EXPECT_EQ(counts().invalid_count, 2);
  Decode(ChunkBuilder()
             .Head(3)
             .Open(1, 2)                // Long before the epoch.
             .Open(kStart + 5, 60'000)  // No name.
             .Open(UINT64_MAX, 2));     // In the future.
  decoder_.Finish();
  EXPECT_EQ(counts().invalid_count, 5);
  EXPECT_EQ(counts().event_count, 0);
}

TEST_F(EventDecoderHostileTest, ABadNameIsAskedForOnce) {
  ChunkBuilder chunk;
  chunk.Head(1);
  for (int i = 0; i < 1000; ++i) chunk.Instant(kStart + 100 + i, 77);
  Decode(chunk);
  EXPECT_EQ(counts().invalid_count, 1000);
  EXPECT_EQ(names_.reads, 1);
}

TEST_F(EventDecoderHostileTest, MoreThreadsThanThereMayBe) {
  for (uint32_t i = 1; i <= EventDecoder::kMaxThreads + 5; ++i) {
    alignas(8) static std::byte head[wire::kChunkDataOffset] = {};
    memcpy(head + offsetof(wire::ChunkHeader, thread_serial), &i, sizeof(i));
    decoder_.Decode({.bytes = head, .record_bytes = 0, .copy_ticks = kCopied});
  }
  EXPECT_EQ(counts().invalid_count, 5);
}

// A few bytes each claim a thread and the greatest depth.
TEST_F(EventDecoderHostileTest, DepthsOfAllThreadsTogetherAreLimited) {
  constexpr uint32_t kThreads = 2000;
  constexpr uint32_t kFitting = (1 << 17) / wire::kMaxRangeDepth;
  for (uint32_t serial = 1; serial <= kThreads; ++serial) {
    Decode(
        ChunkBuilder().Head(serial).Range(kStart + 10, kStart + 20, 2, wire::kMaxRangeDepth - 1));
  }
  EXPECT_EQ(counts().invalid_count, kThreads - kFitting);
  EXPECT_EQ(counts().event_count, kFitting);
  Decode(ChunkBuilder().Head(1).Range(kStart + 30, kStart + 40, 2, wire::kMaxRangeDepth - 1));
  EXPECT_EQ(counts().event_count, kFitting + 1);
}

TEST_F(EventDecoderHostileTest, OpenRangesOfAllThreadsTogetherAreLimited) {
  constexpr uint32_t kThreads = 2000;
  constexpr uint32_t kFitting = (1 << 17) / wire::kMaxRangeDepth;
  ChunkBuilder chunk;
  for (uint32_t i = 0; i < wire::kMaxRangeDepth; ++i) chunk.Open(kStart + 1 + i, 2);
  for (int round = 0; round < 2; ++round) {  // What a thread has open is replaced.
    for (uint32_t serial = 1; serial <= kFitting; ++serial) Decode(chunk.Head(serial));
    EXPECT_EQ(counts().invalid_count, 0);
  }
  for (uint32_t serial = kFitting + 1; serial <= kThreads; ++serial) Decode(chunk.Head(serial));
  EXPECT_EQ(counts().invalid_count, kThreads - kFitting);
}

TEST_F(EventDecoderTest, WhatTheSinkRefusesIsCountedByItsCause) {
  Decode(ChunkBuilder().Head(1).Instant(kStart + 1, 2));
  sink_.FailWith(absl::OutOfRangeError("cap"));
  Decode(ChunkBuilder().Head(1).Instant(kStart + 2, 2).Instant(kStart + 3, 2));
  EXPECT_THAT(decoder_.sink_status(), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(counts().event_count, 1);
  EXPECT_EQ(counts().byte_cap_count, 2);
}

TEST_F(EventDecoderTest, AFullDiskIsCountedAsSuch) {
  sink_.FailWith(absl::ResourceExhaustedError("disk"));
  Decode(ChunkBuilder().Head(1).Instant(kStart + 2, 2).Range(kStart + 3, kEnd + 5, 3));
  EXPECT_EQ(counts().disk_count, 2);
  EXPECT_EQ(counts().event_count, 0);
  EXPECT_EQ(counts().open_range_count, 0);
}

// What libFuzzer does at length, in every run of the tests.
TEST_F(EventDecoderHostileTest, NoMutationOfAChunkDoesHarm) {
  std::mt19937_64 random(20261120);
  for (int round = 0; round < 3000; ++round) {
    ChunkBuilder chunk;
    chunk.Head(1 + round % 5, round / 1200);
    uint64_t at = kStart + static_cast<uint64_t>(round) * 300;
    for (int i = 0; i < 40; ++i, at += 5) {
      chunk.Range(at, at + 4, 2 + i % 4, static_cast<uint16_t>(i % 3)).Instant(at + 4, 3);
    }
    chunk.Open(kStart + 5, 2);
    const size_t bytes = wire::kChunkDataOffset + chunk.used();
    for (int i = 0; i < 8; ++i) {
      const size_t where = random() % 3 == 0 ? random() % 128 : random() % bytes;
      chunk.data()[where] = static_cast<std::byte>(random());
    }
    Decode(chunk);
  }
  windows_[1] = windows_[2] = {.start = kEnd, .end = kEnd};
  decoder_.Finish();
  EXPECT_GT(counts().invalid_count, 0);
  EXPECT_GT(counts().event_count, 0);
}

}  // namespace
}  // namespace profd
