// What a target says about its GPU becomes rows of the right window, thread and flags, or is
// counted; whatever order it comes in.
#include "daemon/ingest/decode/gpu_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/status_matchers.h"
#include "tests/ingest/gpu_events.h"

namespace profd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::EventKind;

// ---- rows are what was said ----

TEST_F(GpuDecoderTest, AnApiCallIsOfTheThreadThatMadeIt) {
  wire::ApiCallEvent call = Call(kStart + 10, kStart + 40, 6);
  call.result = -700;
  DecodeAll(GpuChunk().Add(call, EventKind::kApiCall, wire::kGpuFlagDriverApi, 501));
  ASSERT_THAT(sink_.api_calls(), SizeIs(1));
  const RecordingSink::ApiCall found = sink_.api_calls()[0];
  EXPECT_EQ(found.name, "n2");
  EXPECT_EQ(found.row.start_ns, 1'000'010);
  EXPECT_EQ(found.row.duration_ns, 30);
  EXPECT_EQ(found.row.correlation, 6u);
  EXPECT_EQ(found.row.cbid, 211u);
  EXPECT_EQ(found.row.result, -700);
  EXPECT_TRUE(found.row.is_driver);
  EXPECT_EQ(sink_.threads().at(found.thread).os_thread, 501);
  EXPECT_EQ(counts().event_count, 1);
}

TEST_F(GpuDecoderTest, AKernelKeepsEveryField) {
  wire::KernelEvent event = Kernel(kStart + 100, kStart + 300, 6);
  event.place = {.device = 65'534, .context = 4, .stream = 5, .correlation = 6};
  event.graph_id = 8;
  event.graph_node_id = 9;
  event.queued_ticks = kStart + 50;
  event.submitted_ticks = kStart + 60;
  for (uint32_t i = 0; i < 3; ++i) {
    event.grid[i] = 10 + i;
    event.block[i] = 20 + i;
    event.cluster[i] = static_cast<uint16_t>(30 + i);
  }
  event.static_shared_bytes = 40;
  event.dynamic_shared_bytes = 41;
  event.local_bytes_per_thread = 42;
  event.registers_per_thread = 43;
  DecodeAll(GpuChunk()
                .Add(Call(kStart + 10, kStart + 40, 6), EventKind::kApiCall, 0, 501)
                .Add(event, EventKind::kKernel, wire::kGpuFlagDeviceLaunched));
  const uint32_t name = 2;  // The second that the sink was told.
  const GpuRow expected = {.start_ns = 1'000'100,
                           .duration_ns = 200,
                           .kind = GpuRowKind::kKernel,
                           .flags = kGpuDeviceLaunched,
                           .device = 65'534,
                           .context = 4,
                           .stream = 5,
                           .correlation = 6,
                           .name = name,
                           .graph_id = 8,
                           .graph_node_id = 9,
                           .bytes = 0,
                           .copy_kind = 0,
                           .source_kind = 0,
                           .destination_kind = 0,
                           .source_device = kNoGpuDevice,
                           .destination_device = kNoGpuDevice,
                           .queued_ns = 1'000'050,
                           .submitted_ns = 1'000'060,
                           .grid = {10, 11, 12},
                           .block = {20, 21, 22},
                           .cluster = {30, 31, 32},
                           .registers_per_thread = 43,
                           .static_shared_bytes = 40,
                           .dynamic_shared_bytes = 41,
                           .local_bytes_per_thread = 42};
  EXPECT_THAT(sink_.gpu(), ElementsAre(expected));
}

TEST_F(GpuDecoderTest, CopiesMemsetsAndGraphsAreGpuRowsToo) {
  wire::MemcpyEvent copy{};
  copy.start_ticks = kStart + 1;
  copy.place.correlation = 1;
  copy.bytes = 4096;
  copy.copy_kind = 8;
  copy.source_kind = 3;
  copy.destination_kind = 4;
  copy.source_device = 1;
  copy.destination_device = wire::kNoDevice;
  wire::MemsetEvent memset{};
  memset.start_ticks = kStart + 2;
  memset.place.correlation = 1;
  memset.bytes = 64;
  memset.memory_kind = 3;
  wire::GraphLaunchEvent graph{};
  graph.start_ticks = kStart + 3;
  graph.duration_ticks = 5;
  graph.place.correlation = 1;
  graph.graph_id = 77;
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 9, 1), EventKind::kApiCall, 0, 501)
                .Add(copy, EventKind::kMemcpy, wire::kGpuFlagAsync)
                .Add(memset, EventKind::kMemset)
                .Add(graph, EventKind::kGraphLaunch));
  const std::vector<GpuRow> rows = sink_.gpu();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].kind, GpuRowKind::kMemcpy);
  EXPECT_EQ(rows[0].flags, kGpuAsync);
  EXPECT_EQ(rows[0].bytes, 4096u);
  EXPECT_EQ(rows[0].copy_kind, 8);
  EXPECT_EQ(rows[0].source_kind, 3);
  EXPECT_EQ(rows[0].destination_kind, 4);
  EXPECT_EQ(rows[0].source_device, 1);
  EXPECT_EQ(rows[0].destination_device, kNoGpuDevice);
  EXPECT_EQ(rows[0].queued_ns, kNoGpuTime);
  EXPECT_EQ(rows[1].kind, GpuRowKind::kMemset);
  EXPECT_EQ(rows[1].destination_kind, 3);
  EXPECT_EQ(rows[2].kind, GpuRowKind::kGraphLaunch);
  EXPECT_EQ(rows[2].graph_id, 77u);
  EXPECT_EQ(rows[2].duration_ns, 5);
}

TEST_F(GpuDecoderTest, ADecompressionIsAGpuRowOfItsCall) {
  wire::MemDecompressEvent event{};
  event.start_ticks = kStart + 2;
  event.duration_ticks = 6;
  event.place = {.device = 3, .context = 4, .stream = 13, .correlation = 1};
  event.bytes = 4096;
  wire::MemDecompressEvent bad_device = event;
  bad_device.place.device = kNoGpuDevice;
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 9, 1), EventKind::kApiCall, 0, 501)
                .Add(event, EventKind::kMemDecompress, wire::kGpuFlagAsync)
                .Add(bad_device, EventKind::kMemDecompress));
  EXPECT_EQ(decoder_.counts().invalid_count, 1);
  const GpuRow expected = {.start_ns = 1'000'002,
                           .duration_ns = 6,
                           .kind = GpuRowKind::kMemDecompress,
                           .flags = kGpuAsync,
                           .device = 3,
                           .context = 4,
                           .stream = 13,
                           .correlation = 1,
                           .bytes = 4096,
                           .source_device = kNoGpuDevice,
                           .destination_device = kNoGpuDevice,
                           .queued_ns = kNoGpuTime,
                           .submitted_ns = kNoGpuTime};
  EXPECT_THAT(sink_.gpu(), ElementsAre(expected));
}

TEST_F(GpuDecoderTest, OverheadAndCudaEventsAreKept) {
  wire::OverheadEvent overhead{};
  overhead.start_ticks = kStart + 5;
  overhead.duration_ticks = 6;
  overhead.overhead_kind = 1 << 16;
  overhead.correlation = 3;
  wire::CudaEventEvent event{};
  event.place = {.device = 0, .context = 1, .stream = 7, .correlation = 4};
  event.event_id = 12;
  DecodeAll(
      GpuChunk().Add(overhead, EventKind::kOverhead, 0, 501).Add(event, EventKind::kCudaEvent));
  EXPECT_THAT(sink_.overheads(), ElementsAre(OverheadRow{1'000'005, 6, 1 << 16, 501, 3}));
  EXPECT_THAT(sink_.cuda_events(), ElementsAre(CudaEventRow{4, 1, 7, 12}));
  EXPECT_EQ(counts().event_count, 2);
}

// As CUPTI before 12.8 records it.
TEST_F(GpuDecoderTest, ACudaEventMayComeWithoutItsDevice) {
  wire::CudaEventEvent event{};
  event.place = {.device = wire::kNoDevice, .context = 1, .stream = 7, .correlation = 4};
  DecodeAll(GpuChunk().Add(event, EventKind::kCudaEvent));
  EXPECT_THAT(sink_.cuda_events(), SizeIs(1));
  EXPECT_EQ(TotalDrops(drops_), 0);
}

TEST_F(GpuDecoderTest, QueueTimesThatMakeNoSenseAreNotKnown) {
  wire::KernelEvent event = Kernel(kStart + 100, kStart + 300, 0);
  event.queued_ticks = kStart + 101;  // Behind its start.
  event.submitted_ticks = 5;
  DecodeAll(GpuChunk().Add(event, EventKind::kKernel));
  ASSERT_THAT(sink_.gpu(), SizeIs(1));
  EXPECT_EQ(sink_.gpu()[0].queued_ns, kNoGpuTime);
  EXPECT_EQ(sink_.gpu()[0].submitted_ns, kNoGpuTime);
}

// ---- which thread ----

TEST_F(GpuDecoderTest, ACallerThatHadItsChunkFirstIsOneThread) {
  Decode(ChunkBuilder().Head(1, 0, 501).ThreadName(4).Range(kStart + 1, kStart + 9, 2));
  Decode(GpuChunk().Add(Call(kStart + 2, kStart + 3, 6), EventKind::kApiCall, 0, 501));
  ASSERT_THAT(sink_.api_calls(), SizeIs(1));
  ASSERT_THAT(sink_.ranges(), SizeIs(1));
  EXPECT_EQ(sink_.api_calls()[0].thread, sink_.ranges()[0].thread);
  ASSERT_THAT(sink_.threads(), SizeIs(1));
  EXPECT_EQ(sink_.threads().at(0).name, "n4");
}

TEST_F(GpuDecoderTest, ACallerThatHasItsChunkLaterIsOneThread) {
  Decode(GpuChunk().Add(Call(kStart + 2, kStart + 3, 6), EventKind::kApiCall, 0, 501));
  Decode(ChunkBuilder().Head(1, 0, 501).ThreadName(4).Range(kStart + 1, kStart + 9, 2));
  ASSERT_THAT(sink_.api_calls(), SizeIs(1));
  ASSERT_THAT(sink_.ranges(), SizeIs(1));
  EXPECT_EQ(sink_.api_calls()[0].thread, sink_.ranges()[0].thread);
  ASSERT_THAT(sink_.threads(), SizeIs(1));
  EXPECT_EQ(sink_.threads().begin()->second.name, "n4");
  EXPECT_EQ(sink_.threads().begin()->second.os_thread, 501);
}

TEST_F(GpuDecoderTest, AThreadIdThatIsGivenAgainIsTheLastThreads) {
  Decode(ChunkBuilder().Head(1, 0, 501).Instant(kStart + 1, 2));
  Decode(ChunkBuilder().Head(2, 0, 501).Instant(kStart + 2, 2));
  Decode(GpuChunk().Add(Call(kStart + 3, kStart + 4, 6), EventKind::kApiCall, 0, 501));
  ASSERT_THAT(sink_.instants(), SizeIs(2));
  EXPECT_NE(sink_.instants()[0].thread, sink_.instants()[1].thread);
  EXPECT_EQ(sink_.api_calls()[0].thread, sink_.instants()[1].thread);
}

TEST_F(GpuDecoderTest, TheLibrarysOwnThreadIsNotShown) {
  DecodeAll(GpuChunk().ThreadName(4).Add(Kernel(kStart, kStart + 9, 0), EventKind::kKernel));
  EXPECT_THAT(sink_.gpu(), SizeIs(1));
  EXPECT_THAT(sink_.threads(), IsEmpty());
}

TEST_F(GpuDecoderTest, TheLibrarysOwnThreadLeavesNoGapAmongTheOthers) {
  Decode(GpuChunk().Add(Kernel(kStart, kStart + 9, 0), EventKind::kKernel));
  DecodeAll(ChunkBuilder().Head(1, 0, 501).Range(kStart + 1, kStart + 9, 2));
  ASSERT_THAT(sink_.threads(), SizeIs(1));
  EXPECT_EQ(sink_.threads().begin()->first, 0u);
  EXPECT_EQ(sink_.threads().begin()->second.os_thread, 501);
}

TEST_F(GpuDecoderTest, AThreadsRangesStayInOrderWhateverTheGpuDid) {
  // Later GPU work does not make its own thread's earlier events invalid.
  Decode(ChunkBuilder()
             .Head(1, 0, 501)
             .Add(Kernel(kStart + 500, kStart + 900, 0), EventKind::kKernel)
             .Range(kStart + 1, kStart + 9, 2)
             .Add(Kernel(kStart + 10, kStart + 20, 0), EventKind::kKernel)
             .Range(kStart + 11, kStart + 19, 2));
  EXPECT_EQ(counts().invalid_count, 0);
  EXPECT_THAT(sink_.ranges(), SizeIs(2));
  EXPECT_THAT(sink_.gpu(), SizeIs(2));
}

// ---- which window ----

TEST_F(GpuDecoderTest, ApiCallsBelongToTheWindowTheyBeginIn) {
  DecodeAll(GpuChunk()
                .Add(Call(kStart - 5, kStart + 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Call(kStart, kStart + 5, 2), EventKind::kApiCall, 0, 501)
                .Add(Call(kEnd - 1, kEnd + 5, 3), EventKind::kApiCall, 0, 501)
                .Add(Call(kEnd, kEnd + 5, 4), EventKind::kApiCall, 0, 501));
  ASSERT_THAT(sink_.api_calls(), SizeIs(2));
  EXPECT_EQ(sink_.api_calls()[0].row.correlation, 2u);
  EXPECT_EQ(sink_.api_calls()[1].row.correlation, 3u);
  EXPECT_EQ(sink_.api_calls()[1].row.duration_ns, 6);
  const GpuRecord record = Record();
  EXPECT_EQ(record.before_window_count, 1);
  EXPECT_EQ(record.after_window_count, 1);
  EXPECT_EQ(counts().event_count, 2);
  EXPECT_EQ(TotalDrops(drops_), 0);
}

TEST_F(GpuDecoderTest, GpuWorkThatOverlapsTheWindowIsKeptAndFlagged) {
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Kernel(kStart - 50, kStart, 1), EventKind::kKernel)  // Before.
                .Add(Kernel(kStart - 50, kStart + 1, 1), EventKind::kKernel)
                .Add(Kernel(kStart, kEnd, 1), EventKind::kKernel)
                .Add(Kernel(kEnd - 1, kEnd + 50, 1), EventKind::kKernel)
                .Add(Kernel(kStart - 1, kEnd + 1, 1), EventKind::kKernel));
  EXPECT_THAT(sink_.gpu(),
              ElementsAre(Field(&GpuRow::flags, kGpuStraddlesStart), Field(&GpuRow::flags, 0),
                          Field(&GpuRow::flags, kGpuStraddlesEnd),
                          Field(&GpuRow::flags, kGpuStraddlesStart | kGpuStraddlesEnd)));
  EXPECT_EQ(sink_.gpu()[0].duration_ns, 51);  // Not cut.
  const GpuRecord record = Record();
  EXPECT_EQ(record.before_window_count, 1);
  EXPECT_EQ(record.straddling_count, 3);
  EXPECT_EQ(record.orphan_count, 0);
}

TEST_F(GpuDecoderTest, WorkBehindTheWindowIsKeptIfACallInItLaunchedIt) {
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Call(kEnd + 1, kEnd + 2, 2), EventKind::kApiCall, 0, 501)
                .Add(Kernel(kEnd + 10, kEnd + 20, 1), EventKind::kKernel)
                .Add(Kernel(kEnd + 30, kEnd + 40, 2), EventKind::kKernel)
                .Add(Kernel(kEnd + 50, kEnd + 60, 3), EventKind::kKernel)
                .Add(Kernel(kEnd + 70, kEnd + 80, 0), EventKind::kKernel));
  EXPECT_THAT(sink_.gpu(), ElementsAre(AllOf(Field(&GpuRow::correlation, 1),
                                             Field(&GpuRow::flags, kGpuStraddlesEnd))));
  EXPECT_EQ(Record().after_window_count, 4);  // The call behind it, and three kernels.
}

TEST_F(GpuDecoderTest, WorkBehindTheWindowWithoutACallIsKeptIfItsIdIsOfTheWindow) {
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Kernel(kEnd + 10, kEnd + 20, 3), EventKind::kKernel)
                .Add(Kernel(kEnd + 30, kEnd + 40, 6), EventKind::kKernel)
                .Add(Sync(kStart + 8, kStart + 9, 5), EventKind::kSync));
  EXPECT_THAT(sink_.gpu(),
              ElementsAre(AllOf(Field(&GpuRow::correlation, 3),
                                Field(&GpuRow::flags, kGpuStraddlesEnd | kGpuOrphan))));
  EXPECT_EQ(Record().after_window_count, 1);
}

TEST_F(GpuDecoderTest, ACallMayComeAfterWhatItLaunched) {
  Decode(GpuChunk()
             .Add(Kernel(kStart + 10, kStart + 20, 1), EventKind::kKernel)
             .Add(Kernel(kEnd + 10, kEnd + 20, 2), EventKind::kKernel)
             .Add(Kernel(kEnd + 30, kEnd + 40, 3), EventKind::kKernel));
  EXPECT_THAT(sink_.gpu(), IsEmpty());
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Call(kStart + 6, kStart + 7, 2), EventKind::kApiCall, 0, 501));
  EXPECT_THAT(sink_.gpu(),
              ElementsAre(Field(&GpuRow::flags, 0), Field(&GpuRow::flags, kGpuStraddlesEnd)));
  const GpuRecord record = Record();
  EXPECT_EQ(record.orphan_count, 0);
  EXPECT_EQ(record.after_window_count, 1);
}

TEST_F(GpuDecoderTest, WorkOfALaunchBeforeTheWindowHasItsCallIfTheTargetSendsIt) {
  // Marked, but not before the window: calls like any other.
  constexpr uint8_t kEarly = wire::kGpuFlagEarlyLaunch;
  DecodeAll(GpuChunk()
                .Add(Kernel(kStart + 1, kStart + 2, 1), EventKind::kKernel)
                .Add(Call(kStart - 9, kStart - 5, 1), EventKind::kApiCall, kEarly, 501)
                .Add(Call(kStart - 4, kStart - 3, 2), EventKind::kApiCall, kEarly, 501)
                .Add(Kernel(kStart - 1, kStart + 5, 2), EventKind::kKernel)
                .Add(Call(kStart + 1, kStart + 2, 3), EventKind::kApiCall, kEarly, 501)
                .Add(Call(kEnd + 1, kEnd + 2, 4), EventKind::kApiCall, kEarly, 501));
  ASSERT_THAT(sink_.gpu(), SizeIs(2));
  EXPECT_THAT(sink_.gpu(), testing::UnorderedElementsAre(
                               AllOf(Field(&GpuRow::correlation, 1), Field(&GpuRow::flags, 0)),
                               AllOf(Field(&GpuRow::correlation, 2),
                                     Field(&GpuRow::flags, kGpuStraddlesStart))));
  ASSERT_THAT(sink_.api_calls(), SizeIs(3));
  EXPECT_EQ(sink_.api_calls()[0].row.correlation, 1u);
  EXPECT_EQ(sink_.api_calls()[0].row.start_ns, 999'991);
  const GpuRecord record = Record();
  EXPECT_EQ(record.orphan_count, 0);
  EXPECT_EQ(record.before_window_count, 0);
  EXPECT_EQ(record.after_window_count, 1);
}

TEST_F(GpuDecoderTest, WorkWithoutItsLaunchIsAnOrphan) {
  DecodeAll(GpuChunk()
                .Add(Call(kStart - 9, kStart - 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Kernel(kStart + 1, kStart + 2, 1), EventKind::kKernel)
                .Add(Kernel(kStart + 3, kStart + 4, 2), EventKind::kKernel)
                .Add(Kernel(kStart + 5, kStart + 6, 0), EventKind::kKernel));
  EXPECT_THAT(sink_.gpu(), testing::Each(Field(&GpuRow::flags, kGpuOrphan)));
  EXPECT_THAT(sink_.gpu(), SizeIs(3));
  EXPECT_EQ(Record().orphan_count, 3);
  EXPECT_EQ(TotalDrops(drops_), 0);
}

TEST_F(GpuDecoderTest, WhatStillRunsReachesBehindTheWindow) {
  DecodeAll(
      GpuChunk()
          .Add(Call(kStart, kStart + 5, 1), EventKind::kApiCall, 0, 501)
          .Add(Kernel(kStart - 9, kStart - 9, 1), EventKind::kKernel, wire::kGpuFlagUnfinished)
          .Add(Kernel(kStart + 9, kStart + 9, 1), EventKind::kKernel, wire::kGpuFlagUnfinished));
  EXPECT_THAT(sink_.gpu(), ElementsAre(Field(&GpuRow::flags, kGpuUnfinished | kGpuStraddlesStart |
                                                                 kGpuStraddlesEnd),
                                       Field(&GpuRow::flags, kGpuUnfinished | kGpuStraddlesEnd)));
  EXPECT_EQ(Record().unfinished_count, 2);
}

TEST_F(GpuDecoderTest, BetweenTwoWindowsOnlyWhatWasLaunchedInOneIsKept) {
  windows_[1] = {.start = kEnd + 1'000, .end = kEnd + 2'000};
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Call(kEnd + 1'100, kEnd + 1'200, 2), EventKind::kApiCall, 0, 501)
                .Add(Call(kEnd + 100, kEnd + 200, 3), EventKind::kApiCall, 0, 501)
                .Add(Kernel(kEnd + 10, kEnd + 20, 1), EventKind::kKernel)
                .Add(Kernel(kEnd + 300, kEnd + 310, 3), EventKind::kKernel)
                .Add(Kernel(kEnd + 990, kEnd + 1'010, 3), EventKind::kKernel)
                .Add(Kernel(kEnd + 1'300, kEnd + 2'100, 2), EventKind::kKernel));
  EXPECT_THAT(sink_.gpu(), ElementsAre(Field(&GpuRow::flags, kGpuStraddlesEnd),
                                       Field(&GpuRow::flags, kGpuStraddlesStart | kGpuOrphan),
                                       Field(&GpuRow::flags, kGpuStraddlesEnd)));
  EXPECT_EQ(Record().after_window_count, 2);
}

TEST_F(GpuDecoderTest, BeforeAnyWindowBeginsNothingIsKept) {
  windows_[0] = {};
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Kernel(kStart, kStart + 5, 1), EventKind::kKernel)
                .Add(Sync(kStart, kStart + 5, 1), EventKind::kSync)
                .Add(Memory(kStart, 1, 2), EventKind::kDeviceMemory));
  EXPECT_EQ(counts().event_count, 0);
  EXPECT_EQ(Record().before_window_count, 4);
}

TEST_F(GpuDecoderTest, WhileAWindowIsOpenItHasNoEnd) {
  windows_[0].end = 0;
  DecodeAll(GpuChunk()
                .Add(Call(kEnd + 9, kEnd + 10, 1), EventKind::kApiCall, 0, 501)
                .Add(Kernel(kEnd + 20, kEnd + 30, 1), EventKind::kKernel));
  EXPECT_THAT(sink_.gpu(), ElementsAre(Field(&GpuRow::flags, 0)));
  EXPECT_THAT(sink_.api_calls(), SizeIs(1));
}

class LightGpuDecoderTest : public GpuDecoderTest {
 protected:
  LightGpuDecoderTest() : GpuDecoderTest(GpuMode::kLight) {}
};
TEST_F(LightGpuDecoderTest, WithoutApiCallsNothingIsAnOrphan) {
  DecodeAll(GpuChunk()
                .Add(Kernel(kStart + 1, kStart + 2, 1), EventKind::kKernel)
                .Add(Kernel(kStart + 3, kStart + 4, 0), EventKind::kKernel)
                .Add(Kernel(kEnd - 1, kEnd + 4, 2), EventKind::kKernel)
                .Add(Kernel(kEnd + 3, kEnd + 4, 3), EventKind::kKernel));
  EXPECT_THAT(sink_.gpu(), ElementsAre(Field(&GpuRow::flags, 0), Field(&GpuRow::flags, 0),
                                       Field(&GpuRow::flags, kGpuStraddlesEnd)));
  EXPECT_EQ(Record().orphan_count, 0);
  EXPECT_EQ(Record().after_window_count, 1);
}

// ---- waiting for calls, bounded ----

TEST_F(GpuDecoderTest, RowsThatWaitAreSweptOnceTheirCallsHaveCome) {
  constexpr uint32_t kRows = 20'000;
  for (uint32_t i = 0; i < kRows; i += 250) {
    ChunkBuilder chunk = GpuChunk();
    for (uint32_t j = i; j < i + 250; ++j) {
      chunk.Add(Kernel(kStart + j, kStart + j + 1, j + 1), EventKind::kKernel);
    }
    Decode(chunk);
  }
  EXPECT_THAT(sink_.gpu(), IsEmpty());
  for (uint32_t i = 0; i < kRows; i += 250) {
    ChunkBuilder chunk = GpuChunk();
    for (uint32_t j = i; j < i + 250; ++j) {
      chunk.Add(Call(kStart + j, kStart + j, j + 1), EventKind::kApiCall, 0, 501);
    }
    Decode(chunk);
  }
  decoder_.Finish();
  EXPECT_THAT(sink_.gpu(), SizeIs(kRows));
  EXPECT_EQ(Record().orphan_count, 0);
}

TEST(HeldRowsTest, MoreThanFitAreDecidedOldestFirst) {
  HeldRows<size_t> held;
  size_t decided = 0;
  const auto decide = [&decided](size_t row, bool last) {
    if (last) {
      EXPECT_EQ(row, decided++);
    }
    return last;
  };
  constexpr size_t kRows = 3 * HeldRows<size_t>::kMaxRows;
  for (size_t row = 0; row < kRows; ++row) {
    held.Add(row);
    held.Sweep(decide);
    ASSERT_LE(row + 1 - decided, HeldRows<size_t>::kMaxRows);
  }
  EXPECT_GT(decided, 0u);
  held.Finish(decide);
  EXPECT_EQ(decided, kRows);
}

TEST(CorrelationSetTest, RemembersWhatBecameOfCalls) {
  using Call = CorrelationSet::Call;
  CorrelationSet calls;
  calls.Add(1, Call::kKept);
  calls.Add(2, Call::kLeftOut);
  calls.Add(UINT32_MAX, Call::kKept);
  calls.Add(3, Call::kLeftOut);
  calls.Add(3, Call::kKept);
  EXPECT_EQ(calls.Find(0), Call::kUnseen);
  EXPECT_EQ(calls.Find(1), Call::kKept);
  EXPECT_EQ(calls.Find(2), Call::kLeftOut);
  EXPECT_EQ(calls.Find(3), Call::kKept);
  EXPECT_EQ(calls.Find(UINT32_MAX), Call::kKept);
  EXPECT_EQ(calls.Find(5000), Call::kUnseen);
}

TEST(CorrelationSetTest, ScatteredIdsTakeNoMoreThanItsPages) {
  CorrelationSet calls;
  for (uint32_t i = 0; i <= CorrelationSet::kMaxPages; ++i) {
    calls.Add(i * 4096, CorrelationSet::Call::kKept);
  }
  EXPECT_EQ(calls.Find((CorrelationSet::kMaxPages - 1) * 4096), CorrelationSet::Call::kKept);
  EXPECT_EQ(calls.Find(CorrelationSet::kMaxPages * 4096), CorrelationSet::Call::kUnseen);
}

// ---- synchronisation and memory ----

TEST_F(GpuDecoderTest, ASynchronisationsDeviceIsThatOfItsContext) {
  DecodeAll(GpuChunk()
                .Add(wire::ContextEvent{{}, 1, 2}, EventKind::kContext)
                .Add(Sync(kStart + 1, kStart + 9, 1), EventKind::kSync)
                .Add(Sync(kStart + 2, kStart + 9, 3), EventKind::kSync)
                .Add(Sync(kStart + 3, kStart + 9, 4), EventKind::kSync)
                .Add(Sync(kEnd + 3, kEnd + 9, 1), EventKind::kSync)
                .Add(wire::ContextEvent{{}, 3, 5}, EventKind::kContext));
  EXPECT_THAT(sink_.syncs(), ElementsAre(Field(&SyncRow::device, 2), Field(&SyncRow::device, 5),
                                         Field(&SyncRow::device, kNoGpuDevice)));
  EXPECT_EQ(sink_.syncs()[0].start_ns, 1'000'001);
  EXPECT_EQ(sink_.syncs()[0].kind, 3u);
  EXPECT_EQ(sink_.syncs()[0].correlation, 5u);
  EXPECT_EQ(Record().after_window_count, 1);
}

TEST_F(GpuDecoderTest, DriverAllocationsComeInOrderOnAThreadOfTheirOwn) {
  Decode(GpuChunk()
             .Add(Memory(kStart + 50, 0x1000, 64), EventKind::kDeviceMemory, wire::kEventFlagFree)
             .Add(Memory(kStart + 10, 0x1000, 64), EventKind::kDeviceMemory)
             .Add(Memory(kStart - 10, 0x2000, 64), EventKind::kDeviceMemory));
  EXPECT_THAT(sink_.memory(), IsEmpty());
  decoder_.Finish();
  const std::vector<MemoryRow> rows = sink_.memory();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].time_ns, 1'000'010);
  EXPECT_FALSE(rows[0].is_free);
  EXPECT_EQ(rows[0].bytes, 64);
  EXPECT_EQ(rows[0].device_type, static_cast<uint8_t>(wire::DeviceType::kCudaDriver));
  EXPECT_EQ(rows[0].total_allocated_bytes, -1);
  EXPECT_TRUE(rows[1].is_free);
  ASSERT_THAT(sink_.threads(), SizeIs(1));
  EXPECT_EQ(sink_.threads().begin()->second.name, "CUDA memory");
  EXPECT_EQ(Record().before_window_count, 1);
}

TEST_F(GpuDecoderTest, PoolsTellTheLevelOfTheirDevice) {
  const auto pool = [](uint64_t time, uint64_t address, uint64_t bytes, uint64_t used) {
    wire::DeviceMemoryEvent event = Memory(time, address, bytes);
    event.utilized_bytes = used;
    return event;
  };
  DecodeAll(GpuChunk()
                .Add(pool(kStart + 1, 1, 100, 10), EventKind::kDeviceMemory, wire::kGpuFlagPool)
                .Add(pool(kStart + 2, 2, 1'000, 20), EventKind::kDeviceMemory, wire::kGpuFlagPool)
                .Add(pool(kStart + 3, 1, 200, 30), EventKind::kDeviceMemory, wire::kGpuFlagPool)
                .Add(pool(kStart + 4, 2, 1'000, 20), EventKind::kDeviceMemory,
                     wire::kGpuFlagPool | wire::kEventFlagFree));
  const std::vector<MemoryRow> rows = sink_.memory();
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].device_type, static_cast<uint8_t>(wire::DeviceType::kCudaPool));
  EXPECT_EQ(rows[0].bytes, 0);
  EXPECT_EQ(rows[1].total_reserved_bytes, 1'100);
  EXPECT_EQ(rows[1].total_allocated_bytes, 30);
  EXPECT_EQ(rows[2].total_reserved_bytes, 1'200);
  EXPECT_EQ(rows[2].total_allocated_bytes, 50);
  EXPECT_EQ(rows[3].total_reserved_bytes, 200);
  EXPECT_EQ(rows[3].total_allocated_bytes, 30);
}

// ---- what is known of the GPUs, and of recording them ----

TEST_F(GpuDecoderTest, DevicesContextsAndStreamsAreDescribed) {
  wire::DeviceEvent device = Device(1, 4);
  device.memory_bytes = 1000;
  device.compute_major = 9;
  device.sm_count = 132;
  device.shared_bytes_per_block_optin = 77;
  for (uint8_t i = 0; i < 16; ++i) device.uuid[i] = static_cast<uint8_t>(0xa0 + i);
  DecodeAll(GpuChunk()
                .Add(wire::StreamEvent{{}, 3, 7, -1, 2}, EventKind::kStream)
                .Add(wire::StreamEvent{{}, 4, 7, 0, 0}, EventKind::kStream)
                .Add(device, EventKind::kDevice)
                .Add(Device(0, 5), EventKind::kDevice)
                .Add(wire::ContextEvent{{}, 3, 1}, EventKind::kContext));
  const GpuRecord record = Record();
  ASSERT_THAT(record.devices, SizeIs(2));
  EXPECT_EQ(record.devices[0].name, "n5");
  EXPECT_EQ(record.devices[0].uuid, "");
  EXPECT_EQ(record.devices[1].number, 1);
  EXPECT_EQ(record.devices[1].name, "n4");
  EXPECT_EQ(record.devices[1].uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
  EXPECT_EQ(record.devices[1].memory_bytes, 1000);
  EXPECT_EQ(record.devices[1].compute_major, 9);
  EXPECT_EQ(record.devices[1].sm_count, 132);
  EXPECT_EQ(record.devices[1].shared_bytes_per_block_optin, 77);
  ASSERT_THAT(record.streams, SizeIs(2));
  EXPECT_EQ(record.streams[0].context, 3);
  EXPECT_EQ(record.streams[0].device, 1);
  EXPECT_EQ(record.streams[0].priority, -1);
  EXPECT_EQ(record.streams[0].flags, 2);
  EXPECT_EQ(record.streams[1].device, -1);
  EXPECT_EQ(counts().event_count, 0);
}

TEST_F(GpuDecoderTest, TheLastStatusCounts) {
  wire::GpuStatusEvent armed{};
  armed.cupti_version = 1;
  armed.flags = wire::kGpuStatusStolen;
  wire::GpuStatusEvent drained{};
  drained.cupti_version = 130'001;
  drained.driver_version = 13'000;
  drained.flags = wire::kGpuStatusSimulated;
  drained.arm_ms = 250;
  drained.clock_error_ns = 70;
  drained.clock_step_count = 2;
  drained.peak_pool_bytes = 9 << 20;
  drained.kind_result_count = 2;
  drained.kind_results[0] = {51, 27};
  drained.kind_results[1] = {999, 998};
  for (uint32_t i = 0; i < wire::kGpuCountCount; ++i) drained.counts[i] = 100 + i;
  drained.counts[wire::kGpuStillRunning] = 0;  // Which is a problem.
  DecodeAll(GpuChunk()
                .Add(armed, EventKind::kGpuStatus)
                .Add(drained, EventKind::kGpuStatus)
                .Add(Kernel(kStart - 9, kStart - 5, 0), EventKind::kKernel));
  const GpuRecord record = Record();
  EXPECT_EQ(record.outcome, GpuOutcome::kRecorded);
  EXPECT_EQ(record.mode, GpuMode::kDefault);
  EXPECT_EQ(record.problem, "");
  EXPECT_TRUE(record.simulated);
  EXPECT_EQ(record.cupti_version, 130'001);
  EXPECT_EQ(record.driver_version, 13'000);
  EXPECT_EQ(record.arm_ns, 250'000'000);
  EXPECT_EQ(record.clock_error_ns, 70);
  EXPECT_EQ(record.clock_step_count, 2);
  EXPECT_EQ(record.peak_pool_bytes, 9 << 20);
  ASSERT_THAT(record.kind_failures, SizeIs(2));
  EXPECT_EQ(record.kind_failures[0].kind, "graph_trace");
  EXPECT_EQ(record.kind_failures[0].result, "CUPTI_ERROR_NOT_SUPPORTED (27)");
  EXPECT_EQ(record.kind_failures[1].kind, "kind 999");
  EXPECT_EQ(record.kind_failures[1].result, "CUPTI error 998");
  EXPECT_EQ(CuptiResultName(wire::kGpuKindGivesNoRecords), "gives no records");
  EXPECT_EQ(record.record_count, 100);
  EXPECT_EQ(record.stale_count, 104);
  EXPECT_EQ(record.before_window_count, 110 + 1);
  EXPECT_EQ(record.after_window_count, 115);
  EXPECT_EQ(record.filtered_api_count, 113);
  EXPECT_EQ(record.unfinished_count, 0);  // What we keep, not what they sent.
  EXPECT_EQ(drops(DropReason::kCuptiDropped), 101);
  EXPECT_EQ(drops(DropReason::kGpuNoBuffer), 102);
  EXPECT_EQ(drops(DropReason::kGpuLate), 103);
  EXPECT_EQ(drops(DropReason::kGpuUntimed), 105);
  EXPECT_EQ(drops(DropReason::kGpuCorrupt), 106);
  EXPECT_EQ(drops(DropReason::kUnknownKind), 107);
  EXPECT_EQ(drops(DropReason::kGpuRecordCap), 108);
  EXPECT_EQ(drops(DropReason::kNoChunk), 0);  // The header has them.
  EXPECT_EQ(drops(DropReason::kGpuLostBuffer), 112);
}

TEST_F(GpuDecoderTest, WorkThatStillRanWhenTheDrainEndedIsALossWithTheRemedy) {
  wire::GpuStatusEvent drained{};
  drained.counts[wire::kGpuStillRunning] = 12;
  DecodeAll(GpuChunk().Add(drained, EventKind::kGpuStatus));
  const GpuRecord record = Record();
  EXPECT_EQ(record.outcome, GpuOutcome::kRecorded);
  EXPECT_THAT(record.problem, HasSubstr("12 GPU activities"));
  EXPECT_THAT(record.problem, HasSubstr("capture more steps"));
  EXPECT_EQ(drops(DropReason::kGpuStillRunning), 12);
}

TEST_F(GpuDecoderTest, EveryWayToLoseTheGpuHasItsProblem) {
  const struct {
    uint32_t flags;
    GpuOutcome outcome;
    GpuMode mode;
    const char* problem;
  } cases[] = {
      {0, GpuOutcome::kRecorded, GpuMode::kDefault, ""},
      {wire::kGpuStatusEndedByCap, GpuOutcome::kRecorded, GpuMode::kDefault, "cap"},
      {wire::kGpuStatusExited, GpuOutcome::kRecorded, GpuMode::kDefault, "exited"},
      {wire::kGpuStatusStays, GpuOutcome::kRecorded, GpuMode::kDefault, ""},
      {wire::kGpuStatusStolen, GpuOutcome::kBroken, GpuMode::kDefault, "another profiler"},
      {wire::kGpuStatusAbandoned, GpuOutcome::kBroken, GpuMode::kDefault, "given up"},
      {wire::kGpuStatusFatal, GpuOutcome::kBroken, GpuMode::kDefault, "fatal"},
      {wire::kGpuStatusNoCuda, GpuOutcome::kNoCuda, GpuMode::kOff, ""},
  };
  for (const auto& each : cases) {
    GpuInventory inventory;
    wire::GpuStatusEvent status{};
    status.flags = each.flags;
    inventory.SetStatus(status);
    GpuRecord record;
    inventory.Describe(GpuMode::kDefault, record);
    EXPECT_EQ(record.outcome, each.outcome) << each.flags;
    EXPECT_EQ(record.mode, each.mode) << each.flags;
    EXPECT_EQ(record.cupti_taken, each.flags == wire::kGpuStatusStolen);
    EXPECT_EQ(record.cupti_stays, each.flags == wire::kGpuStatusStays);
    EXPECT_THAT(record.problem, HasSubstr(each.problem));
    EXPECT_EQ(record.problem.empty(), each.problem[0] == '\0');
  }
}

TEST_F(GpuDecoderTest, ATargetThatNeverSaidHowItWentIsUnknown) {
  DecodeAll(GpuChunk().Add(Kernel(kStart, kStart + 5, 0), EventKind::kKernel));
  const GpuRecord record = Record();
  EXPECT_EQ(record.outcome, GpuOutcome::kUnknown);
  EXPECT_NE(record.problem, "");
}

class GpuOffTest : public GpuDecoderTest {
 protected:
  GpuOffTest() : GpuDecoderTest(GpuMode::kOff) {}
};
TEST_F(GpuOffTest, WithoutTheGpuItsEventsAreOfUnknownKinds) {
  DecodeAll(GpuChunk()
                .Add(Kernel(kStart, kStart + 5, 0), EventKind::kKernel)
                .Add(wire::GpuStatusEvent{}, EventKind::kGpuStatus));
  EXPECT_EQ(counts().unknown_kind_count, 2);
  EXPECT_THAT(sink_.gpu(), IsEmpty());
  EXPECT_EQ(Record().outcome, GpuOutcome::kOff);
}

TEST_F(GpuDecoderTest, AFullSinkCountsWhatItRefused) {
  sink_.FailWith(absl::OutOfRangeError("cap"));
  DecodeAll(GpuChunk()
                .Add(Call(kStart, kStart + 5, 1), EventKind::kApiCall, 0, 501)
                .Add(Kernel(kStart, kStart + 5, 1), EventKind::kKernel)
                .Add(Kernel(kStart, kEnd + 5, 2), EventKind::kKernel)
                .Add(Sync(kStart, kStart + 5, 1), EventKind::kSync)
                .Add(Memory(kStart, 1, 2), EventKind::kDeviceMemory));
  EXPECT_EQ(counts().byte_cap_count, 5);
  EXPECT_EQ(counts().event_count, 0);
  EXPECT_EQ(Record().orphan_count, 0);
  EXPECT_EQ(Record().straddling_count, 0);
}

}  // namespace
}  // namespace profd
