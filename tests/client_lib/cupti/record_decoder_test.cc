#include "client_lib/cupti/record_decoder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "proto/wire/sync_kinds.h"
#include "tests/client_lib/cupti/record_decoder_fixture.h"

namespace profd::client::decoder_test {
namespace {

using cupti::ApiRecord;
using cupti::KernelRecord;
using testing::SizesOf11;
using wire::EventKind;

TEST_F(RecordDecoderTest, AKernelIsAnEventWithItsTimesInTicks) {
  KernelRecord record = Kernel("gemm", 77, kOriginNs + 100, kOriginNs + 350);
  record.device = 1;
  record.context = 2;
  record.stream = 7;
  record.grid[0] = 8, record.grid[1] = 4, record.grid[2] = 2;
  record.block[0] = 128, record.block[1] = 1, record.block[2] = 1;
  record.registers_per_thread = 90;
  record.static_shared_bytes = 1024;
  record.dynamic_shared_bytes = 2048;
  record.local_bytes_per_thread = 16;
  record.graph_id = 3;
  record.graph_node_id = (uint64_t{3} << 32) | 5;
  record.queued_ns = kOriginNs + 50;
  record.channel = 9;
  record.cluster[0] = 2, record.cluster[1] = 1, record.cluster[2] = 1;
  record.is_device_launched = 1;
  Decode(Buffer().Add(record));
  const auto kernels = events_.Of<wire::KernelEvent>(EventKind::kKernel);
  ASSERT_EQ(kernels.size(), 1u);
  const wire::KernelEvent& kernel = kernels[0];
  EXPECT_EQ(kernel.start_ticks, Ticks(kOriginNs + 100));
  EXPECT_EQ(kernel.duration_ticks, 500u);
  EXPECT_EQ(kernel.queued_ticks, Ticks(kOriginNs + 50));
  EXPECT_EQ(kernel.submitted_ticks, 0u);
  EXPECT_EQ(events_.NameOf(kernel.name_id), "gemm");
  EXPECT_EQ(kernel.place.device, 1u);
  EXPECT_EQ(kernel.place.context, 2u);
  EXPECT_EQ(kernel.place.stream, 7u);
  EXPECT_EQ(kernel.place.correlation, 77u);
  EXPECT_EQ(kernel.grid[0], 8u);
  EXPECT_EQ(kernel.grid[2], 2u);
  EXPECT_EQ(kernel.block[0], 128u);
  EXPECT_EQ(kernel.registers_per_thread, 90u);
  EXPECT_EQ(kernel.static_shared_bytes, 1024u);
  EXPECT_EQ(kernel.dynamic_shared_bytes, 2048u);
  EXPECT_EQ(kernel.local_bytes_per_thread, 16u);
  EXPECT_EQ(kernel.graph_id, 3u);
  EXPECT_EQ(kernel.graph_node_id, (uint64_t{3} << 32) | 5);
  EXPECT_EQ(kernel.channel, 9u);
  EXPECT_EQ(kernel.cluster[0], 2u);
  EXPECT_EQ(kernel.header.flags, wire::kGpuFlagDeviceLaunched);
}

TEST_F(RecordDecoderTest, FieldsThatAnOlderRecordLacksAreNotRead) {
  Begin(SizesOf11());
  cupti::MemcpyRecord copy{};
  copy.kind = cupti::kKindMemcpy;
  copy.start_ns = kOriginNs + 1;
  copy.end_ns = kOriginNs + 2;
  copy.graph_id = 4;
  cupti::CudaEventRecord event{};
  event.kind = cupti::kKindCudaEvent;
  event.event_id = 6;
  cupti::OverheadRecord overhead{};
  overhead.kind = cupti::kKindOverhead;
  overhead.start_ns = kOriginNs + 1;
  overhead.end_ns = kOriginNs + 2;
  // Behind each lies 0xA5 or the next record.
  Decode(Buffer()
             .Add(Kernel("k", 1, kOriginNs + 1, kOriginNs + 2))
             .Add(copy)
             .Add(overhead)
             .Add(event)
             .Add(Kernel("k", 2, kOriginNs + 3, kOriginNs + 4)));
  const auto kernels = events_.Of<wire::KernelEvent>(EventKind::kKernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].channel, 0u);
  EXPECT_EQ(kernels[0].cluster[0], 0u);
  EXPECT_EQ(kernels[0].header.flags, 0u);
  const auto copies = events_.Of<wire::MemcpyEvent>(EventKind::kMemcpy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].graph_id, 4u);
  EXPECT_EQ(copies[0].header.flags, 0u);
  ASSERT_EQ(events_.Of<wire::OverheadEvent>(EventKind::kOverhead).size(), 1u);
  EXPECT_EQ(events_.Of<wire::OverheadEvent>(EventKind::kOverhead)[0].correlation, 0u);
  ASSERT_EQ(events_.Of<wire::CudaEventEvent>(EventKind::kCudaEvent).size(), 1u);
  EXPECT_EQ(events_.Of<wire::CudaEventEvent>(EventKind::kCudaEvent)[0].place.device,
            wire::kNoDevice);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderTest, RecordsThatGrewBeyondWhatWeKnowAreReadAsFarAsWeKnowThem) {
  RecordSizes sizes = SizesOf13();
  sizes[cupti::kKindConcurrentKernel] = 248;
  Begin(sizes);
  Decode(Buffer()
             .Add(Kernel("a", 1, kOriginNs + 1, kOriginNs + 2))
             .Add(Kernel("b", 2, kOriginNs + 3, kOriginNs + 4)));
  const auto kernels = events_.Of<wire::KernelEvent>(EventKind::kKernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(events_.NameOf(kernels[1].name_id), "b");
}

TEST_F(RecordDecoderTest, CopiesSaySpeedAndBetweenWhichDevices) {
  cupti::MemcpyPeerRecord peer{};
  peer.kind = cupti::kKindMemcpyPeer;
  peer.copy_kind = 10;
  peer.bytes = 1 << 20;
  peer.start_ns = kOriginNs + 1;
  peer.end_ns = kOriginNs + 2;
  peer.source_device = 2;
  peer.destination_device = 3;
  peer.flags = cupti::kFlagMemcpyAsync;
  cupti::MemsetRecord set{};
  set.kind = cupti::kKindMemset;
  set.bytes = 64;
  set.value = 0xff;
  set.memory_kind = 3;
  set.flags = cupti::kFlagMemsetAsync;
  set.start_ns = kOriginNs + 3;
  set.end_ns = kOriginNs + 4;
  Decode(Buffer().Add(peer).Add(set));
  const auto copies = events_.Of<wire::MemcpyEvent>(EventKind::kMemcpy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].copy_kind, 10u);
  EXPECT_EQ(copies[0].bytes, 1u << 20);
  EXPECT_EQ(copies[0].source_device, 2u);
  EXPECT_EQ(copies[0].destination_device, 3u);
  EXPECT_EQ(copies[0].header.flags, wire::kGpuFlagAsync);
  const auto sets = events_.Of<wire::MemsetEvent>(EventKind::kMemset);
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0].value, 0xffu);
  EXPECT_EQ(sets[0].memory_kind, 3u);
  EXPECT_EQ(sets[0].header.flags, wire::kGpuFlagAsync);
}

TEST_F(RecordDecoderTest, ADecompressionIsWorkOfItsCall) {
  cupti::MemDecompressRecord record{};
  record.kind = cupti::kKindMemDecompress;
  record.device = 1;
  record.context = 2;
  record.stream = 13;
  record.correlation = 77;
  record.operations = 4;
  record.source_bytes = 1 << 20;
  record.start_ns = kOriginNs + 30;
  record.end_ns = kOriginNs + 70;
  Begin(SizesOf13(), 0, ApiFilter::kAll);
  decoder_->set_records_decompression(true);
  Decode(Buffer().Add(Driver(761, 5, 77)));
  Decode(Buffer().Add(Driver(20, 5, 78)));  // The first is held back until the next.
  EXPECT_EQ(decoder_->MissingWork().copies, 1u);
  Decode(Buffer().Add(record));
  EXPECT_EQ(decoder_->MissingWork().copies, 0u);
  const auto events = events_.Of<wire::MemDecompressEvent>(EventKind::kMemDecompress);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].header.flags, wire::kGpuFlagAsync);
  EXPECT_EQ(events[0].start_ticks, Ticks(kOriginNs + 30));
  EXPECT_EQ(events[0].duration_ticks, 80u);
  EXPECT_EQ(events[0].place.device, 1u);
  EXPECT_EQ(events[0].place.context, 2u);
  EXPECT_EQ(events[0].place.stream, 13u);
  EXPECT_EQ(events[0].place.correlation, 77u);
  EXPECT_EQ(events[0].bytes, 1u << 20);
}

TEST_F(RecordDecoderTest, WhereNoDecompressionIsRecordedNoneIsMissing) {
  for (const ApiFilter filter : {ApiFilter::kMost, ApiFilter::kAll}) {
    Begin(SizesOf13(), 0, filter);
    Decode(Buffer().Add(Driver(761, 5, 77)));
    Decode(Buffer().Add(Driver(20, 5, 78)));
    EXPECT_EQ(decoder_->MissingWork().copies, 0u);
    EXPECT_EQ(decoder_->MissingWork().launches, 0u);
  }
}

// CUPTI 12.8 and 12.9 have padding there, in records of the same size.
TEST_F(RecordDecoderTest, WhetherTheDeviceLaunchedACopyIsReadFrom13On) {
  for (const uint16_t kernel_bytes : {208, 216}) {
    RecordSizes sizes = SizesOf13();
    sizes[cupti::kKindConcurrentKernel] = kernel_bytes;
    Begin(sizes);
    cupti::MemcpyRecord record{};
    record.kind = cupti::kKindMemcpy;
    record.start_ns = kOriginNs + 100;
    record.end_ns = kOriginNs + 200;
    record.is_device_launched = 0xa5;
    RecordBuffer buffer = Buffer();
    buffer.Add(record);
    EventList events;
    decoder_->Decode(buffer.data(), buffer.size(), &events);
    const auto copies = events.Of<wire::MemcpyEvent>(EventKind::kMemcpy);
    ASSERT_EQ(copies.size(), 1u);
    EXPECT_EQ((copies[0].header.flags & wire::kGpuFlagDeviceLaunched) != 0, kernel_bytes == 216);
  }
}

TEST_F(RecordDecoderTest, WaitsMemoryAndPoolsAreEvents) {
  cupti::SynchronizationRecord sync{};
  sync.kind = cupti::kKindSynchronization;
  sync.type = 4;
  sync.stream = cupti::kSynchronizationNoStream;
  sync.start_ns = kOriginNs + 5;
  sync.end_ns = kOriginNs + 9;
  cupti::MemoryRecord release{};
  release.kind = cupti::kKindMemory;
  release.operation = cupti::kMemoryOperationRelease;
  release.address = 0x7000;
  release.bytes = 512;
  release.time_ns = kOriginNs + 6;
  release.is_async = 1;
  cupti::MemoryPoolRecord pool{};
  pool.kind = cupti::kKindMemoryPool;
  pool.bytes = 1 << 20;
  pool.utilized_bytes = 4096;
  pool.time_ns = kOriginNs + 7;
  Decode(Buffer().Add(sync).Add(release).Add(pool));
  const auto syncs = events_.Of<wire::SyncEvent>(EventKind::kSync);
  ASSERT_EQ(syncs.size(), 1u);
  EXPECT_EQ(syncs[0].stream, wire::kNoStream);
  EXPECT_EQ(syncs[0].duration_ticks, 8u);
  const auto memory = events_.Of<wire::DeviceMemoryEvent>(EventKind::kDeviceMemory);
  ASSERT_EQ(memory.size(), 2u);
  EXPECT_EQ(memory[0].header.flags, wire::kEventFlagFree | wire::kGpuFlagAsync);
  EXPECT_EQ(memory[0].address, 0x7000u);
  EXPECT_EQ(memory[1].header.flags, wire::kGpuFlagPool);
  EXPECT_EQ(memory[1].utilized_bytes, 4096u);
}

// Its ID is that of its launch, which was before the window: the window's IDs begin later.
TEST_F(RecordDecoderTest, AHostFunctionIsAWaitAndSaysNothingOfTheWindowsIds) {
  decoder_->set_window(Ticks(kOriginNs + 100), UINT64_MAX);
  cupti::HostLaunchRecord function{};
  function.kind = cupti::kKindHostLaunch;
  function.stream = 7;
  function.correlation = 5;
  function.thread = 99;
  function.start_ns = kOriginNs + 110;
  function.end_ns = kOriginNs + 150;
  cupti::GraphHostNodeRecord node{};
  node.kind = cupti::kKindGraphHostNode;
  node.correlation = 6;
  node.start_ns = kOriginNs + 160;
  node.end_ns = kOriginNs + 170;
  sizes_[cupti::kKindHostLaunch] = sizeof(function);
  sizes_[cupti::kKindGraphHostNode] = sizeof(node);
  const RecordSizes sizes = sizes_;
  Begin(sizes, 0, ApiFilter::kAll);
  decoder_->set_window(Ticks(kOriginNs + 100), UINT64_MAX);
  RecordBuffer buffer = Buffer();
  buffer.Add(function);
  buffer.Add(node);
  buffer.Add(Kernel("launched_before", 6, kOriginNs + 120, kOriginNs + 130));
  buffer.Add(Call(cupti::kKindRuntime, kLaunchCbid, 5, 20, kOriginNs + 140, kOriginNs + 145));
  Decode(buffer);
  const auto waits = events_.Of<wire::SyncEvent>(EventKind::kSync);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].sync_kind, wire::kSyncHostFunction);
  EXPECT_EQ(waits[0].header.thread, 99u);
  EXPECT_EQ(waits[0].duration_ticks, 80u);
  EXPECT_EQ(waits[1].sync_kind, wire::kSyncGraphHostNode);
  EXPECT_EQ(decoder_->MissingWork().callless, 0u) << "the kernel's ID is before the window's";
}

TEST_F(RecordDecoderTest, AShortWaitIsWrittenWithItsCallAndAQueryIsNot) {
  const auto wait = [](uint32_t type, uint32_t correlation, uint64_t duration_ns) {
    cupti::SynchronizationRecord record{};
    record.kind = cupti::kKindSynchronization;
    record.type = type;
    record.correlation = correlation;
    record.start_ns = kOriginNs + 100;
    record.end_ns = kOriginNs + 100 + duration_ns;
    return record;
  };
  const auto call = [](uint32_t correlation) {
    return Call(cupti::kKindRuntime, kLaunchCbid, 5, correlation, kOriginNs + 100, kOriginNs + 110);
  };
  Decode(Buffer()
             .Add(wait(cupti::kSynchronizationEvent, 1, 5))
             .Add(call(1))
             .Add(call(2))
             .Add(wait(cupti::kSynchronizationStream, 2, 5))
             .Add(wait(cupti::kSynchronizationEvent, 3, 5))
             .Add(wait(cupti::kSynchronizationStream, 4, 5))
             .Add(wait(cupti::kSynchronizationEvent, 5, 100'000)));
  decoder_->Flush(&events_);
  std::vector<uint32_t> written;
  for (const auto& sync : events_.Of<wire::SyncEvent>(EventKind::kSync)) {
    written.push_back(sync.correlation);
  }
  EXPECT_EQ(written, (std::vector<uint32_t>{1, 2, 5}));
  EXPECT_EQ(Count(wire::kGpuFilteredApi), 2u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderTest, ADeviceIsDescribedOnceAndItsNameGivenBack) {
  cupti::DeviceRecord device{};
  device.kind = cupti::kKindDevice;
  device.id = 0;
  device.sm_count = 132;
  device.warp_threads = 32;
  device.max_warps_per_sm = 64;
  device.is_visible = 1;
  // AddressSanitizer sees to it that both are freed.
  device.name = strdup("Some GPU");
  RecordBuffer first = Buffer();
  first.Add(device);
  device.name = strdup("Some GPU");
  Decode(first.Add(device));
  const auto devices = events_.Of<wire::DeviceEvent>(EventKind::kDevice);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(events_.NameOf(devices[0].name_id), "Some GPU");
  EXPECT_EQ(devices[0].max_threads_per_sm, 2048u);
}

TEST_F(RecordDecoderTest, DevicesThatTheProcessCannotSeeAreNotDescribed) {
  cupti::DeviceRecord device{};
  device.kind = cupti::kKindDevice;
  device.id = 1;
  device.name = strdup("A hidden GPU");  // Given back all the same.
  Decode(Buffer().Add(device));
  EXPECT_TRUE(events_.Of<wire::DeviceEvent>(EventKind::kDevice).empty());
  EXPECT_FALSE(decoder_->has_device());
}

TEST(KeepsApiTest, DriverCallsOfExpandableSegmentsAndLazyLoadingAreKept) {
  for (const char* name :
       {"cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease", "cuMemSetAccess",
        "cuMemBatchDecompressAsync_ptsz", "cuMemPrefetchAsync_ptsz", "cuStreamWaitValue32_v2",
        "cuStreamWriteValue64", "cuTensorMapEncodeTiled", "cuLibraryGetKernel",
        "cuModuleGetFunction"}) {
    EXPECT_TRUE(KeepsApi(ApiFilter::kMost, /*is_driver=*/true, name)) << name;
  }
  EXPECT_FALSE(KeepsApi(ApiFilter::kMost, /*is_driver=*/true, "cuCtxPushCurrent_v2"));
}

TEST_F(RecordDecoderTest, ApiCallsCarryTheFunctionsOwnName) {
  Begin(SizesOf13(), 0, ApiFilter::kAll);
  Decode(Buffer()
             .Add(Runtime(kLaunchCbid, 1, 1))
             .Add(Runtime(214, 1, 2))
             .Add(Driver(277, 2, 3))
             .Add(Runtime(999, 1, 4))
             .Add(Runtime(4'000'000, 1, 5)));
  decoder_->Flush(&events_);
  const auto calls = events_.Of<wire::ApiCallEvent>(EventKind::kApiCall);
  ASSERT_EQ(calls.size(), 5u);
  EXPECT_EQ(events_.NameOf(calls[0].name_id), "cudaLaunchKernel");
  EXPECT_EQ(events_.NameOf(calls[1].name_id), "cudaLaunchKernel");
  EXPECT_EQ(events_.NameOf(calls[2].name_id), "(unknown runtime call)");
  EXPECT_EQ(events_.NameOf(calls[3].name_id), "(unknown runtime call)");
  EXPECT_EQ(calls[3].cbid, 4'000'000u);
  EXPECT_EQ(events_.NameOf(calls[4].name_id), "cuMemcpyHtoDAsync_v2");
  EXPECT_EQ(calls[4].header.flags, wire::kGpuFlagDriverApi);
  EXPECT_EQ(calls[4].header.thread, 2u);
}

TEST_F(RecordDecoderTest, CallsThatOnlyAskAreLeftOutAndCounted) {
  Decode(Buffer()
             .Add(Runtime(17, 1, 1))
             .Add(Runtime(410, 1, 2))
             .Add(Driver(304, 1, 3))
             .Add(Driver(20, 1, 4)));
  decoder_->Flush(&events_);
  EXPECT_EQ(events_.count(), 0u);
  EXPECT_EQ(Count(wire::kGpuFilteredApi), 4u);
}

TEST_F(RecordDecoderTest, ADriverCallInsideARuntimeCallIsLeftOutInEitherOrder) {
  Decode(Buffer()
             .Add(Driver(307, 1, 50))
             .Add(Runtime(kLaunchCbid, 1, 50))
             .Add(Runtime(kLaunchCbid, 1, 51))
             .Add(Driver(307, 1, 51)));
  decoder_->Flush(&events_);
  const auto calls = events_.Of<wire::ApiCallEvent>(EventKind::kApiCall);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].header.flags, 0u);
  EXPECT_EQ(calls[1].header.flags, 0u);
  EXPECT_EQ(Count(wire::kGpuFilteredApi), 2u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderTest, SeveralDriverCallsInsideOneRuntimeCallAreLeftOut) {
  Decode(Buffer().Add(Driver(277, 1, 60)).Add(Driver(307, 1, 60)).Add(Runtime(kLaunchCbid, 1, 60)));
  decoder_->Flush(&events_);
  EXPECT_EQ(events_.count(), 1u);
  EXPECT_EQ(Count(wire::kGpuFilteredApi), 2u);
}

TEST_F(RecordDecoderTest, ADriverCallOfItsOwnIsKeptAlsoAcrossBuffersAndThreads) {
  // Threads 3 and 259 share a place in the table.
  Decode(Buffer().Add(Driver(307, 3, 70)));
  Decode(Buffer().Add(Driver(307, 259, 71)).Add(Driver(307, 259, 72)));
  Decode(Buffer().Add(Runtime(kLaunchCbid, 259, 73)));
  decoder_->Flush(&events_);
  EXPECT_EQ(events_.Of<wire::ApiCallEvent>(EventKind::kApiCall).size(), 4u);
  EXPECT_EQ(Count(wire::kGpuFilteredApi), 0u);
}

TEST_F(RecordDecoderTest, ADriverCallWithoutAnIdIsNeverTakenForAnothersInside) {
  Decode(Buffer().Add(Driver(307, 1, 0)).Add(Runtime(kLaunchCbid, 1, 0)).Add(Driver(307, 1, 0)));
  decoder_->Flush(&events_);
  EXPECT_EQ(events_.count(), 3u);
}

TEST_F(RecordDecoderTest, WithNoTimesItIsUntimedAndWithNoEndUnfinished) {
  Decode(Buffer().Add(Kernel("k", 1, 0, 0)).Add(Kernel("k", 2, kOriginNs + 5, 0)));
  const auto kernels = events_.Of<wire::KernelEvent>(EventKind::kKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].header.flags, wire::kGpuFlagUnfinished);
  EXPECT_EQ(kernels[0].start_ticks, Ticks(kOriginNs + 5));
  EXPECT_EQ(kernels[0].duration_ticks, 0u);
  EXPECT_EQ(Count(wire::kGpuUntimed), 1u);
  EXPECT_EQ(Count(wire::kGpuUnfinished), 1u);
}

// The window of these tests: [+500, +1000).
TEST_F(RecordDecoderTest, AKernelWithoutANameInAGraphIsAMemset) {
  cupti::KernelRecord node = Kernel("node", 1, kOriginNs + 100, kOriginNs + 200);
  node.graph_node_id = 77;
  cupti::KernelRecord memset_node = node;
  memset_node.name = nullptr;
  Decode(Buffer().Add(node).Add(memset_node));
  EXPECT_EQ(events_.Of<wire::KernelEvent>(EventKind::kKernel).size(), 1u);
  const auto memsets = events_.Of<wire::MemsetEvent>(EventKind::kMemset);
  ASSERT_EQ(memsets.size(), 1u);
  EXPECT_EQ(memsets[0].graph_node_id, 77u);
  EXPECT_EQ(memsets[0].bytes, 0u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderTest, WhatEndedBeforeTheWindowIsCountedByWhatItBelongsTo) {
  decoder_->set_window(Ticks(kOriginNs + 500), UINT64_MAX);
  Decode(Buffer()
             .Add(Kernel("of the last capture", 1, kOriginNs - 50, kOriginNs - 10))
             .Add(Kernel("before", 2, kOriginNs + 100, kOriginNs + 200))
             .Add(Kernel("across the edge", 3, kOriginNs + 400, kOriginNs + 600))
             .Add(Kernel("inside", 4, kOriginNs + 600, kOriginNs + 700)));
  EXPECT_EQ(events_.count(), 2u);
  EXPECT_EQ(Count(wire::kGpuStale), 1u);
  EXPECT_EQ(Count(wire::kGpuBeforeWindow), 1u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderTest, UnfinishedWorkInABufferOfAnEarlierCaptureIsThatCaptures) {
  RecordBuffer buffer = Buffer();
  buffer.Add(Kernel("began_before", 1, kOriginNs - 50, 0));
  buffer.Add(Kernel("had_not_begun", 2, 0, 0));
  buffer.Add(Kernel("began_now", 3, kOriginNs + 50, 0));
  buffer.Add(Kernel("ran_now", 4, kOriginNs + 60, kOriginNs + 70));
  decoder_->set_is_kept_buffer(true);
  Decode(buffer);
  EXPECT_EQ(Count(wire::kGpuStale), 2u);
  EXPECT_EQ(Count(wire::kGpuUntimed), 0u);
  EXPECT_EQ(Count(wire::kGpuUnfinished), 1u);
  EXPECT_EQ(events_.count(), 2u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderTest, EventsBehindTheCapAreCounted) {
  Begin(SizesOf13(), 3);
  RecordBuffer buffer = Buffer();
  for (uint32_t i = 0; i < 10; ++i) buffer.Add(Kernel("k", i, kOriginNs + 1, kOriginNs + 2));
  Decode(buffer);
  EXPECT_TRUE(decoder_->over_cap());
  EXPECT_EQ(events_.count(), 3u);
  EXPECT_EQ(Count(wire::kGpuOverCap), 7u);
}

TEST_F(RecordDecoderTest, EventsWithoutRoomAreCounted) {
  events_.end = events_.at + 2 * sizeof(wire::KernelEvent) + 8;
  RecordBuffer buffer = Buffer();
  for (uint32_t i = 0; i < 5; ++i) buffer.Add(Kernel("k", i, kOriginNs + 1, kOriginNs + 2));
  Decode(buffer);
  EXPECT_EQ(events_.count(), 2u);
  EXPECT_EQ(Count(wire::kGpuNoChunk), 3u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderTest, UnknownKindsAreSkippedByTheirSize) {
  RecordSizes sizes = SizesOf13();
  sizes[60] = 64;
  Begin(sizes);
  struct {
    cupti::Kind kind = 60;
    char bytes[60] = {};
  } unknown;
  Decode(Buffer()
             .Add(Kernel("a", 1, kOriginNs + 1, kOriginNs + 2))
             .Add(unknown)
             .Add(Kernel("b", 2, kOriginNs + 3, kOriginNs + 4)));
  EXPECT_EQ(events_.count(), 2u);
  EXPECT_EQ(Count(wire::kGpuUnknownKind), 1u);
}

TEST_F(RecordDecoderTest, AKindWhoseRecordsAreTooSmallIsSkippedToo) {
  RecordSizes sizes = SizesOf13();
  sizes[cupti::kKindConcurrentKernel] = 144;  // As before CUDA 11.
  Begin(sizes);
  Decode(Buffer().Add(Kernel("k", 1, kOriginNs + 1, kOriginNs + 2)));
  EXPECT_EQ(events_.count(), 0u);
  EXPECT_EQ(Count(wire::kGpuUnknownKind), 1u);
}

// Text on a page of its own, which can be taken away.
class Page {
 public:
  explicit Page(const char* text) {
    at_ = static_cast<char*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    Write(text);
  }
  ~Page() { munmap(at_, 4096); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  void Write(const char* text) { strcpy(at_, text); }
  void Protect() { mprotect(at_, 4096, PROT_NONE); }
  const char* text() const { return at_; }

 private:
  char* at_;
};

class KernelNameTest : public RecordDecoderTest {
 protected:
  std::string NameAfterDecoding(const char* name) {
    events_.Clear();
    decoder_->BeginBatch();
    Decode(Buffer().Add(Kernel(name, 1, kOriginNs + 1, kOriginNs + 2)));
    const auto kernels = events_.Of<wire::KernelEvent>(EventKind::kKernel);
    return kernels.empty() ? "none" : events_.NameOf(kernels[0].name_id);
  }
};

TEST_F(KernelNameTest, ANameThatWentWithItsModuleIsNotReadAndSaysSo) {
  Page page("gone");
  page.Protect();
  EXPECT_EQ(NameAfterDecoding(page.text()), "(name unloaded with its module)");
}

TEST_F(KernelNameTest, ANameThatWentAfterItWasReadIsStillKnown) {
  Page page("gemm");
  EXPECT_EQ(NameAfterDecoding(page.text()), "gemm");
  page.Protect();
  EXPECT_EQ(NameAfterDecoding(page.text()), "gemm");
}

TEST_F(KernelNameTest, AnotherModuleAtTheSameAddressHasItsOwnNames) {
  Page page("_ZN2at6native_a_long_beginning_that_they_share_first");
  EXPECT_EQ(NameAfterDecoding(page.text()), "_ZN2at6native_a_long_beginning_that_they_share_first");
  page.Write("_ZN2at6native_a_long_beginning_that_they_share_second");
  EXPECT_EQ(NameAfterDecoding(page.text()),
            "_ZN2at6native_a_long_beginning_that_they_share_second");
}

TEST_F(KernelNameTest, ANameThatRunsToTheEndOfWhatIsThereEndsThere) {
  Page page("");
  char* last = const_cast<char*>(page.text()) + 4096 - 4;
  for (int i = 0; i < 4; ++i) last[i] = static_cast<char>('a' + i);
  const std::string name = NameAfterDecoding(last);
  EXPECT_EQ(name.substr(0, 4), "abcd");
}

TEST_F(KernelNameTest, NoNameAndAnEmptyOneHaveAWordOfTheirOwn) {
  EXPECT_EQ(NameAfterDecoding(nullptr), "(no name)");
  EXPECT_EQ(NameAfterDecoding(""), "(no name)");
}

TEST_F(KernelNameTest, MoreNamesThanTheTableHoldsAreAllRight) {
  constexpr int kNames = 20'000;
  std::vector<std::string> names;
  names.reserve(kNames);
  for (int i = 0; i < kNames; ++i) names.push_back("kernel_" + std::to_string(i));
  RecordBuffer buffer = Buffer();
  for (int i = 0; i < kNames; ++i) {
    buffer.Add(Kernel(names[static_cast<size_t>(i)].c_str(), 1, kOriginNs + 1, kOriginNs + 2));
  }
  EventList many(kNames * sizeof(wire::KernelEvent));
  decoder_->Decode(buffer.data(), buffer.size(), &many);
  const auto kernels = many.Of<wire::KernelEvent>(EventKind::kKernel);
  ASSERT_EQ(kernels.size(), static_cast<size_t>(kNames));
  for (int i = 0; i < kNames; i += 997) {
    EXPECT_EQ(many.NameOf(kernels[static_cast<size_t>(i)].name_id), names[static_cast<size_t>(i)]);
  }
}

// ---- Buffers that are not what they should be

class RecordDecoderHostileTest : public RecordDecoderTest {};

TEST_F(RecordDecoderHostileTest, ZerosInTheMiddleCostTheRest) {
  const char zeros[64] = {};
  Decode(Buffer()
             .Add(Kernel("a", 1, kOriginNs + 1, kOriginNs + 2))
             .AddBytes(zeros, sizeof(zeros))
             .Add(Kernel("b", 2, kOriginNs + 3, kOriginNs + 4)));
  EXPECT_EQ(events_.count(), 1u);
  EXPECT_EQ(Count(wire::kGpuCorrupt), (64u + 216u + 15u) / 16u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderHostileTest, ARecordThatIsCutOffIsNotRead) {
  RecordBuffer buffer = Buffer();
  buffer.Add(Kernel("a", 1, kOriginNs + 1, kOriginNs + 2));
  const KernelRecord cut = Kernel("b", 2, kOriginNs + 3, kOriginNs + 4);
  Decode(buffer.AddBytes(&cut, 100));
  EXPECT_EQ(events_.count(), 1u);
  EXPECT_EQ(Count(wire::kGpuCorrupt), 7u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordDecoderHostileTest, AKindOutOfBoundsCostsTheRest) {
  const uint32_t kind[16] = {0xfffffff0};
  Decode(Buffer().AddBytes(kind, sizeof(kind)));
  EXPECT_EQ(Count(wire::kGpuCorrupt), 4u);
}

TEST_F(RecordDecoderHostileTest, ATailShorterThanAKindIsCounted) {
  const char tail[2] = {};
  Decode(Buffer().AddBytes(tail, sizeof(tail)));
  EXPECT_EQ(Count(wire::kGpuCorrupt), 1u);
}

TEST_F(RecordDecoderHostileTest, CountingWithoutDecodingAgrees) {
  RecordBuffer buffer = Buffer();
  for (uint32_t i = 0; i < 9; ++i) buffer.Add(Kernel("k", i, kOriginNs + 1, kOriginNs + 2));
  EXPECT_EQ(CountRecords(sizes_.data(), buffer.data(), buffer.size()), 9u);
  EXPECT_EQ(CountRecords(sizes_.data(), buffer.data(), buffer.size() - 8), 9u);
  EXPECT_EQ(CountRecords(sizes_.data(), buffer.data(), 0), 0u);
}

// Random fields in records of known kinds, but for the pointers that are the decoder's to
// free: nothing may be read that is not there, and every record is accounted for.
TEST_F(RecordDecoderHostileTest, RandomFieldsAreDecodedOrCounted) {
  std::mt19937_64 random(20261120);
  for (int round = 0; round < 300; ++round) {
    Begin(round % 2 == 0 ? SizesOf13() : SizesOf11(), 0, ApiFilter::kAll);
    decoder_->set_window(random(), random());
    events_.Clear();
    RecordBuffer buffer = Buffer();
    for (int i = 0; i < 60; ++i) {
      alignas(8) char record[256];
      for (size_t at = 0; at < sizeof(record); at += 8) {
        const uint64_t word = random() >> random() % 64;
        memcpy(record + at, &word, 8);
      }
      const auto kind = static_cast<cupti::Kind>(random() % cupti::kKindLimit);
      memcpy(record, &kind, sizeof(kind));
      if (kind == cupti::kKindDevice) memset(record + offsetof(cupti::DeviceRecord, name), 0, 8);
      if (kind == cupti::kKindOverhead)
        memset(record + offsetof(cupti::OverheadRecord, data), 0, 8);
      buffer.AddBytes(record, sizes_[kind] != 0 ? sizes_[kind] : 16);
    }
    Decode(buffer);
    decoder_->Flush(&events_);
    // Devices beyond the first of a number, or with a number that none has, are no events.
    uint64_t lost = 0;
    for (uint32_t cause = 0; cause < wire::kGpuCountCount; ++cause) {
      if (cause != wire::kGpuRecords && cause != wire::kGpuUnfinished) {
        lost += decoder_->counts()[cause];
      }
    }
    EXPECT_LE(events_.count() + lost, Count(wire::kGpuRecords));
  }
}

}  // namespace
}  // namespace profd::client::decoder_test
