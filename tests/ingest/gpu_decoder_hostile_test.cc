// GPU events that lie: each is refused and counted, and does no harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "daemon/ingest/decode/gpu_decoder.h"
#include "tests/fakes/status_matchers.h"
#include "tests/ingest/gpu_events.h"

namespace profd {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using wire::EventKind;

using EventDecoderHostileGpuTest = GpuDecoderTest;

TEST_F(EventDecoderHostileGpuTest, RecordsTooShortForTheirKindAreInvalid) {
  constexpr auto kFirst = static_cast<int>(EventKind::kApiCall);
  constexpr auto kLast = static_cast<int>(wire::kLastGpuKind);
  for (int kind = kFirst; kind <= kLast; ++kind) {
    ChunkBuilder chunk = GpuChunk();
    const wire::EventHeader header = {8, static_cast<uint8_t>(kind), 0, 0};
    chunk.AddBytes(&header, sizeof(header));
    Decode(chunk);
    EXPECT_EQ(counts().invalid_count, kind - kFirst + 1);
  }
  EXPECT_EQ(counts().unknown_kind_count, 0);
}

TEST_F(EventDecoderHostileGpuTest, ARecordAWordTooShortIsInvalid) {
  wire::MemDecompressEvent event{};
  event.start_ticks = kStart;
  constexpr uint16_t kTooShort = sizeof(event) - 8;
  event.header = {kTooShort, static_cast<uint8_t>(EventKind::kMemDecompress), 0, 0};
  ChunkBuilder chunk = GpuChunk();
  chunk.AddBytes(&event, kTooShort);
  Decode(chunk);
  EXPECT_EQ(counts().invalid_count, 1);
  EXPECT_EQ(counts().event_count, 0);
}

TEST_F(EventDecoderHostileGpuTest, AKindAfterTheLastIsUnknown) {
  ChunkBuilder chunk = GpuChunk();
  const wire::EventHeader header = {8, static_cast<uint8_t>(wire::kLastGpuKind) + 1, 0, 0};
  chunk.AddBytes(&header, sizeof(header));
  Decode(chunk);
  EXPECT_EQ(counts().unknown_kind_count, 1);
  EXPECT_EQ(counts().invalid_count, 0);
}

TEST_F(EventDecoderHostileGpuTest, EveryFieldThatCannotBeIsInvalid) {
  std::vector<std::function<void(ChunkBuilder&)>> lies;
  const auto call = [&lies](auto change) {
    lies.emplace_back([change](ChunkBuilder& chunk) {
      wire::ApiCallEvent event = Call(kStart, kStart + 5, 1);
      change(event);
      chunk.Add(event, EventKind::kApiCall, 0, 501);
    });
  };
  call([](auto& event) { event.name_id = 0; });
  call([](auto& event) { event.name_id = 77; });
  call([](auto& event) { event.name_id = UINT32_MAX; });
  call([](auto& event) { event.start_ticks = 0; });
  call([](auto& event) { event.start_ticks = kEpoch - 3'600'000'000'001; });
  call([](auto& event) { event.start_ticks = UINT64_MAX; });
  call([](auto& event) { event.duration_ticks = UINT64_MAX; });
  call([](auto& event) { event.duration_ticks = kCopied; });
  call([](auto& event) { event.start_ticks = kCopied + 2'000'000; });
  const auto kernel = [&lies](auto change) {
    lies.emplace_back([change](ChunkBuilder& chunk) {
      wire::KernelEvent event = Kernel(kStart, kStart + 5, 1);
      change(event);
      chunk.Add(event, EventKind::kKernel);
    });
  };
  kernel([](auto& event) { event.name_id = 0; });
  kernel([](auto& event) { event.place.device = 65'535; });
  kernel([](auto& event) { event.place.device = UINT32_MAX; });
  kernel([](auto& event) { event.start_ticks = UINT64_MAX - 2; });
  kernel([](auto& event) { event.duration_ticks = UINT64_MAX - 2; });
  lies.emplace_back([](ChunkBuilder& chunk) {
    wire::MemcpyEvent event{};
    event.start_ticks = kStart;
    event.source_device = 65'535;
    chunk.Add(event, EventKind::kMemcpy);
  });
  lies.emplace_back([](ChunkBuilder& chunk) {
    wire::MemcpyEvent event{};
    event.start_ticks = kStart;
    event.destination_device = 1 << 20;
    chunk.Add(event, EventKind::kMemcpy);
  });
  lies.emplace_back([](ChunkBuilder& chunk) {
    wire::MemsetEvent event{};
    chunk.Add(event, EventKind::kMemset);
  });
  lies.emplace_back([](ChunkBuilder& chunk) {
    wire::GraphLaunchEvent event{};
    event.start_ticks = kStart;
    event.place.device = 65'535;
    chunk.Add(event, EventKind::kGraphLaunch);
  });
  const auto decompression = [&lies](auto change) {
    lies.emplace_back([change](ChunkBuilder& chunk) {
      wire::MemDecompressEvent event{};
      event.start_ticks = kStart;
      change(event);
      chunk.Add(event, EventKind::kMemDecompress);
    });
  };
  decompression([](auto& event) { event.start_ticks = 0; });
  decompression([](auto& event) { event.start_ticks = UINT64_MAX - 2; });
  decompression([](auto& event) { event.duration_ticks = UINT64_MAX - 2; });
  decompression([](auto& event) { event.place.device = 65'535; });
  lies.emplace_back([](ChunkBuilder& chunk) { chunk.Add(Sync(5, 9, 1), EventKind::kSync); });
  lies.emplace_back([](ChunkBuilder& chunk) {
    wire::OverheadEvent event{};
    event.start_ticks = kStart;
    event.duration_ticks = UINT64_MAX / 2;
    chunk.Add(event, EventKind::kOverhead);
  });
  lies.emplace_back([](ChunkBuilder& chunk) {
    wire::CudaEventEvent event{};
    event.place.device = 65'535;
    chunk.Add(event, EventKind::kCudaEvent);
  });
  lies.emplace_back([](ChunkBuilder& chunk) {
    chunk.Add(Memory(kStart, 1, UINT64_MAX), EventKind::kDeviceMemory);
  });
  lies.emplace_back([](ChunkBuilder& chunk) {
    wire::DeviceMemoryEvent event = Memory(kStart, 1, 1);
    event.utilized_bytes = uint64_t{1} << 63;
    chunk.Add(event, EventKind::kDeviceMemory);
  });
  lies.emplace_back([](ChunkBuilder& chunk) {
    wire::DeviceMemoryEvent event = Memory(kStart, 1, 1);
    event.device = 32'768;
    chunk.Add(event, EventKind::kDeviceMemory);
  });
  lies.emplace_back(
      [](ChunkBuilder& chunk) { chunk.Add(Memory(1, 1, 1), EventKind::kDeviceMemory); });
  lies.emplace_back([](ChunkBuilder& chunk) { chunk.Add(Device(0, 77), EventKind::kDevice); });
  lies.emplace_back([](ChunkBuilder& chunk) { chunk.Add(Device(65'535, 4), EventKind::kDevice); });
  lies.emplace_back([](ChunkBuilder& chunk) {
    chunk.Add(wire::ContextEvent{{}, 1, 65'535}, EventKind::kContext);
  });
  int64_t expected = 0;
  for (const auto& lie : lies) {
    ChunkBuilder chunk = GpuChunk();
    lie(chunk);
    Decode(chunk);
    EXPECT_EQ(counts().invalid_count, ++expected);
  }
  decoder_.Finish();
  EXPECT_EQ(counts().event_count, 0);
  EXPECT_EQ(counts().unknown_kind_count, 0);
  EXPECT_THAT(Record().devices, IsEmpty());
}

TEST_F(EventDecoderHostileGpuTest, AllDescriptionsHaveCaps) {
  uint32_t number = 0;
  for (int i = 0; i < 40; ++i) {
    ChunkBuilder chunk = GpuChunk();
    for (int j = 0; j < 250; ++j, ++number) {
      chunk.Add(Device(number, 4), EventKind::kDevice)
          .Add(wire::ContextEvent{{}, number, number}, EventKind::kContext)
          .Add(wire::StreamEvent{{}, number, 7, 0, 0}, EventKind::kStream);
    }
    Decode(chunk);
  }
  EXPECT_EQ(counts().invalid_count, 0);
  const GpuRecord record = Record();
  EXPECT_THAT(record.devices, SizeIs(GpuInventory::kMaxDevices));
  EXPECT_THAT(record.streams, SizeIs(GpuInventory::kMaxStreams));
}

TEST_F(EventDecoderHostileGpuTest, CountsSaturateInsteadOfOverflowing) {
  wire::GpuStatusEvent status{};
  for (uint64_t& count : status.counts) count = UINT64_MAX;
  status.clock_error_ns = UINT64_MAX;
  status.peak_pool_bytes = UINT64_MAX;
  status.kind_result_count = UINT32_MAX;
  DecodeAll(GpuChunk().Add(status, EventKind::kGpuStatus));
  const GpuRecord record = Record();
  EXPECT_EQ(record.record_count, int64_t{1} << 53);
  EXPECT_EQ(record.clock_error_ns, int64_t{1} << 53);
  EXPECT_THAT(record.kind_failures, SizeIs(16));
  EXPECT_GT(TotalDrops(drops_), 0);
}

TEST_F(EventDecoderHostileGpuTest, CallersBeyondAllThreadsAreInvalid) {
  uint32_t caller = 1'000;
  for (uint32_t i = 0; i < ThreadRows::kMaxThreads / 1'000 + 1; ++i) {
    ChunkBuilder chunk = GpuChunk();
    for (int j = 0; j < 1'000; ++j) {
      chunk.Add(Call(kStart, kStart, 1), EventKind::kApiCall, 0, ++caller);
    }
    Decode(chunk);
  }
  EXPECT_GT(counts().invalid_count, 0);
  EXPECT_LE(sink_.threads().size(), ThreadRows::kMaxThreads);
  EXPECT_EQ(counts().event_count, static_cast<int64_t>(sink_.api_calls().size()));
}

TEST_F(EventDecoderHostileGpuTest, NoMutationOfAChunkDoesHarm) {
  std::mt19937_64 random(20261121);
  for (int round = 0; round < 2000; ++round) {
    ChunkBuilder chunk = GpuChunk();
    for (uint32_t i = 0; i < 20; ++i) {
      const uint64_t at = kStart + random() % 1'500'000;
      chunk.Add(Call(at, at + 4, i), EventKind::kApiCall, 0, 500 + i % 3)
          .Add(Kernel(at + 5, at + 90, i + static_cast<uint32_t>(random() % 2)), EventKind::kKernel)
          .Add(Sync(at, at + 9, i % 5), EventKind::kSync)
          .Add(Memory(at, i % 7, at % 100), EventKind::kDeviceMemory,
               static_cast<uint8_t>(random()))
          .Add(wire::ContextEvent{{}, i % 4, i}, EventKind::kContext);
    }
    const size_t bytes = wire::kChunkDataOffset + chunk.used();
    for (int i = 0; i < 8; ++i) {
      const size_t where = wire::kChunkDataOffset + random() % (bytes - wire::kChunkDataOffset);
      chunk.data()[where] = static_cast<std::byte>(random());
    }
    Decode(chunk);
  }
  decoder_.Finish();
  EXPECT_GT(counts().invalid_count, 0);
  EXPECT_GT(counts().event_count, 0);
}

}  // namespace
}  // namespace profd
