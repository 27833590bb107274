// GPU events as a target would write them, and a decoder that they go to; for the tests of the
// GPU's part of the decoder.
#ifndef PROFD_TESTS_INGEST_GPU_EVENTS_H_
#define PROFD_TESTS_INGEST_GPU_EVENTS_H_

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "daemon/ingest/decode/event_decoder.h"
#include "tests/ingest/ingest_testing.h"
#include "tests/ingest/window_times.h"

namespace profd {

inline constexpr uint32_t kGpuThread = 900;  // Of the library.

inline wire::ApiCallEvent Call(uint64_t start, uint64_t end, uint32_t correlation,
                               uint32_t name = 2) {
  wire::ApiCallEvent event{};
  event.start_ticks = start;
  event.duration_ticks = end - start;
  event.name_id = name;
  event.correlation = correlation;
  event.cbid = 211;
  return event;
}
inline wire::KernelEvent Kernel(uint64_t start, uint64_t end, uint32_t correlation) {
  wire::KernelEvent event{};
  event.start_ticks = start;
  event.duration_ticks = end - start;
  event.place = {.device = 0, .context = 1, .stream = 7, .correlation = correlation};
  event.name_id = 3;
  return event;
}
inline wire::SyncEvent Sync(uint64_t start, uint64_t end, uint32_t context) {
  wire::SyncEvent event{};
  event.start_ticks = start;
  event.duration_ticks = end - start;
  event.sync_kind = 3;
  event.context = context;
  event.stream = 7;
  event.correlation = 5;
  return event;
}
inline wire::DeviceMemoryEvent Memory(uint64_t time, uint64_t address, uint64_t bytes) {
  wire::DeviceMemoryEvent event{};
  event.time_ticks = time;
  event.address = address;
  event.bytes = bytes;
  return event;
}
inline wire::DeviceEvent Device(uint32_t number, uint32_t name) {
  wire::DeviceEvent event{};
  event.device = number;
  event.name_id = name;
  return event;
}

// A chunk of the library's GPU thread.
inline ChunkBuilder GpuChunk() { return ChunkBuilder().Head(99, 0, kGpuThread); }

class GpuDecoderTest : public testing::Test {
 protected:
  explicit GpuDecoderTest(GpuMode mode = GpuMode::kDefault) : mode_(mode) {
    windows_[0] = {.start = kStart, .end = kEnd};
  }
  void Decode(const ChunkBuilder& chunk) { decoder_.Decode(chunk.View(kCopied)); }
  void DecodeAll(const ChunkBuilder& chunk) {
    Decode(chunk);
    decoder_.Finish();
  }
  const DecodeCounts& counts() const { return decoder_.counts(); }
  GpuRecord Record() {
    GpuRecord record;
    decoder_.DescribeGpu(record, drops_);
    return record;
  }
  int64_t drops(DropReason reason) const { return drops_[static_cast<size_t>(reason)]; }

  const GpuMode mode_;
  RecordingSink sink_;
  FakeNames names_{{2, 3, 4, 5}};
  std::array<WindowTicks, 3> windows_{};
  EventDecoder decoder_{TickLine({kEpoch, 0, 0}, 1.0), names_, windows_, sink_, mode_};
  DropCounts drops_{};
};

}  // namespace profd

#endif  // PROFD_TESTS_INGEST_GPU_EVENTS_H_
