#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/wire/capture_memory.h"
#include "proto/wire/clock.h"
#include "proto/wire/event.h"
#include "proto/wire/frame.h"
#include "proto/wire/status_page.h"

namespace profd::wire {
namespace {

class LayoutTest : public testing::TestWithParam<uint64_t> {};

TEST_P(LayoutTest, RegionsFollowEachOtherAndFit) {
  const CaptureMemoryLayout layout = LayoutFor(GetParam());
  EXPECT_EQ(layout.total_bytes, GetParam());
  EXPECT_EQ(layout.chunk_table_offset, sizeof(CaptureMemoryHeader));
  EXPECT_GE(layout.name_index_offset,
            layout.chunk_table_offset + layout.chunk_count * sizeof(ChunkControl));
  EXPECT_GE(layout.name_area_offset, layout.name_index_offset + 4 * layout.name_capacity);
  EXPECT_GE(layout.chunks_offset, layout.name_area_offset + layout.name_area_bytes);
  EXPECT_LE(layout.chunks_offset + uint64_t{layout.chunk_count} * kChunkBytes, GetParam());
  EXPECT_GT(layout.chunks_offset + uint64_t{layout.chunk_count + 1} * kChunkBytes, GetParam())
      << "room for one more chunk is wasted";
}

TEST_P(LayoutTest, RegionsAreAligned) {
  const CaptureMemoryLayout layout = LayoutFor(GetParam());
  EXPECT_EQ(layout.chunk_table_offset % alignof(ChunkControl), 0u);
  EXPECT_EQ(layout.name_index_offset % 4096, 0u);
  EXPECT_EQ(layout.name_area_offset % alignof(NameEntry), 0u);
  EXPECT_EQ(layout.chunks_offset % 4096, 0u);
}

TEST_P(LayoutTest, MostOfTheMemoryIsForEvents) {
  const CaptureMemoryLayout layout = LayoutFor(GetParam());
  EXPECT_GE(uint64_t{layout.chunk_count} * kChunkBytes, GetParam() * 65 / 100);
}

INSTANTIATE_TEST_SUITE_P(Sizes, LayoutTest,
                         testing::Values(kMinCaptureMemoryBytes,
                                         kMinCaptureMemoryBytes + kChunkBytes, 7u << 20,
                                         (16u << 20) - kChunkBytes, 16u << 20,
                                         kDefaultCaptureMemoryBytes, 512u << 20,
                                         kMaxCaptureMemoryBytes));

// These numbers are the protocol: libraries in six-day-old processes have them built in.
TEST(FrameTest, NumbersNeverChange) {
  EXPECT_EQ(static_cast<int>(FrameType::kHello), 1);
  EXPECT_EQ(static_cast<int>(FrameType::kWelcome), 2);
  EXPECT_EQ(static_cast<int>(FrameType::kRefuse), 3);
  EXPECT_EQ(static_cast<int>(FrameType::kArm), 4);
  EXPECT_EQ(static_cast<int>(FrameType::kArmed), 5);
  EXPECT_EQ(static_cast<int>(FrameType::kArmFailed), 6);
  EXPECT_EQ(static_cast<int>(FrameType::kFire), 7);
  EXPECT_EQ(static_cast<int>(FrameType::kStop), 8);
  EXPECT_EQ(static_cast<int>(FrameType::kDrained), 9);
  EXPECT_EQ(static_cast<int>(FrameType::kRelease), 10);
  EXPECT_EQ(static_cast<int>(FrameType::kMetadata), 11);
  EXPECT_EQ(offsetof(RangeEvent, start_ticks), 8u);
  EXPECT_EQ(offsetof(RangeEvent, name_id), 24u);
  EXPECT_EQ(offsetof(MemoryEvent, address), 16u);
  EXPECT_EQ(offsetof(ChunkHeader, open_ranges), 64u);
  EXPECT_LE(kProtocolVersionMin, kProtocolVersionMax);
}

TEST(ClockTest, TicksDoNotGoBackwards) {
  const ClockKind kind = DetectClockKind();
  uint64_t last = ReadTicks(kind);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t now = ReadTicks(kind);
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace profd::wire
