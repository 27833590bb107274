#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/report/index/memory_order.h"
#include "daemon/report/memory/timeline.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"
#include "tests/report/memory/category_numbers.h"
#include "tests/report/memory/print_memory.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MemoryTimelineTest : public testing::Test {
 protected:
  MemoryTimelineTest() : main_(reader_.AddThread(1, "main")), loader_(reader_.AddThread(2, "")) {}

  MemoryTimeline Timeline(const MemoryOptions& options = {}) {
    absl::StatusOr<MemoryTimeline> timeline = SummarizeMemory(reader_, options);
    EXPECT_THAT(timeline, IsOk());
    return timeline.ok() ? *std::move(timeline) : MemoryTimeline();
  }
  DeviceMemory OnlyDevice(const MemoryOptions& options = {}) {
    MemoryTimeline timeline = Timeline(options);
    EXPECT_EQ(timeline.devices.size(), 1U);
    return timeline.devices.empty() ? DeviceMemory() : std::move(timeline.devices.front());
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
  const uint32_t loader_;
};

TEST_F(MemoryTimelineTest, WithoutTotalsOlderBlocksCountAsFarAsTheirSizeIsKnown) {
  reader_.Allocate(main_, 10, 0xA, 100)
      .Allocate(main_, 20, 0xB, 50)
      .Free(main_, 30, 0xA, 100)
      .Free(main_, 40, 0xC, 30);
  const DeviceMemory memory = OnlyDevice();
  EXPECT_EQ(memory.device, "cpu:0");
  EXPECT_TRUE(memory.relative);
  EXPECT_THAT(memory.points,
              ElementsAre(MemoryPoint{0, 30}, MemoryPoint{10, 130}, MemoryPoint{20, 180},
                          MemoryPoint{30, 80}, MemoryPoint{40, 50}));
  EXPECT_EQ(memory.peak_bytes, 180);
  EXPECT_EQ(memory.peak_time_ns, 20);
  EXPECT_EQ(memory.start_bytes, 30);
  EXPECT_EQ(memory.end_bytes, 50);
  EXPECT_EQ(memory.allocation_count, 2);
  EXPECT_EQ(memory.free_count, 2);
  EXPECT_EQ(memory.allocated_total_bytes, 150);
  EXPECT_EQ(memory.unknown_free_count, 1);
  EXPECT_EQ(memory.unknown_free_bytes, 30);
  EXPECT_EQ(memory.peak_reserved_bytes, -1);
  EXPECT_EQ(memory.peak_older_bytes, 30);
  EXPECT_THAT(memory.peak_by_category, ElementsAre(MemoryShare{"unknown", 180, 3}));
}

// torch.profiler's totals of the CPU count from when it first recorded.
TEST_F(MemoryTimelineTest, ATotalThatLeavesLessThanNothingBeforeTheWindowIsNone) {
  reader_.Free(main_, 5, 0xC, 30)
      .Allocate(main_, 10, 0xA, 4096, {.total_allocated_bytes = 0})
      .Free(main_, 20, 0xA, 4096, {.total_allocated_bytes = -4096});
  const DeviceMemory memory = OnlyDevice();
  EXPECT_TRUE(memory.relative);
  EXPECT_EQ(memory.start_bytes, 30);
  EXPECT_EQ(memory.peak_bytes, 4096);
  EXPECT_EQ(memory.end_bytes, 0);
}

TEST_F(MemoryTimelineTest, AGpuNeverHasLessThanNothingAtTheStart) {
  reader_
      .Allocate(main_, 10, 0xA, 100,
                {.total_allocated_bytes = 40, .device_type = 1, .device_index = 0})
      .Allocate(main_, 20, 0xB, 100,
                {.total_allocated_bytes = 240, .device_type = 1, .device_index = 0});
  const DeviceMemory memory = OnlyDevice();
  EXPECT_FALSE(memory.relative);
  EXPECT_EQ(memory.start_bytes, 0);
  EXPECT_EQ(memory.peak_bytes, 240);
}

TEST_F(MemoryTimelineTest, TotalsOfTheCpuInATraceOfTorchAreRelative) {
  reader_.mutable_record().imported = {.source = "trace.json", .producer = "torch.profiler"};
  reader_.Allocate(main_, 10, 0xA, 100, {.total_allocated_bytes = 100});
  EXPECT_TRUE(OnlyDevice().relative);
  EXPECT_EQ(OnlyDevice().peak_bytes, 100);
}

TEST_F(MemoryTimelineTest, ADoubleFreeChangesNoLevelAndIsCounted) {
  reader_.Allocate(main_, 10, 0xA, 100).Free(main_, 20, 0xA, 100).Free(main_, 30, 0xA, 100);
  const DeviceMemory memory = OnlyDevice();
  EXPECT_EQ(memory.repeated_free_count, 1);
  EXPECT_EQ(memory.unknown_free_count, 0);
  EXPECT_EQ(memory.start_bytes, 0);
  EXPECT_EQ(memory.end_bytes, 0);
}

TEST_F(MemoryTimelineTest, TotalsTellTheLevelAndWhatWasThereBefore) {
  reader_
      .Allocate(main_, 10, 0xA, 100, {.total_allocated_bytes = 1100, .total_reserved_bytes = 4096})
      .Free(main_, 20, 0xF, 600, {.total_allocated_bytes = 500, .total_reserved_bytes = 8192});
  const DeviceMemory memory = OnlyDevice();
  EXPECT_FALSE(memory.relative);
  EXPECT_EQ(memory.start_bytes, 1000);
  EXPECT_THAT(memory.points,
              ElementsAre(MemoryPoint{0, 1000}, MemoryPoint{10, 1100}, MemoryPoint{20, 500}));
  EXPECT_EQ(memory.peak_bytes, 1100);
  EXPECT_EQ(memory.end_bytes, 500);
  EXPECT_EQ(memory.peak_reserved_bytes, 8192);
  EXPECT_EQ(memory.peak_older_bytes, 1000);
}

TEST_F(MemoryTimelineTest, ATotalThatComesLateMovesEverythingBeforeIt) {
  reader_.Allocate(main_, 10, 0xA, 100)
      .Free(main_, 20, 0xA, 100)
      .Allocate(main_, 30, 0xB, 50, {.total_allocated_bytes = 2050})
      .Free(main_, 40, 0xB, 0);
  const DeviceMemory memory = OnlyDevice();
  EXPECT_FALSE(memory.relative);
  EXPECT_THAT(memory.points,
              ElementsAre(MemoryPoint{0, 2000}, MemoryPoint{10, 2100}, MemoryPoint{20, 2000},
                          MemoryPoint{30, 2050}, MemoryPoint{40, 2000}));
  EXPECT_EQ(memory.peak_bytes, 2100);
  EXPECT_EQ(memory.peak_time_ns, 10);
}

TEST_F(MemoryTimelineTest, ThePeakMayBeTheLevelBeforeTheFirstEvent) {
  reader_.Free(main_, 10, 0xA, 700, {.total_allocated_bytes = 300});
  const DeviceMemory memory = OnlyDevice();
  EXPECT_EQ(memory.peak_bytes, 1000);
  EXPECT_EQ(memory.peak_time_ns, 0);
  EXPECT_EQ(memory.peak_older_bytes, 1000);
  EXPECT_THAT(memory.peak_by_op, IsEmpty());
}

TEST_F(MemoryTimelineTest, AFreeOfUnknownSizeTakesTheBlocksSize) {
  reader_.Allocate(main_, 10, 0xA, 100).Free(main_, 20, 0xA, 0);
  EXPECT_EQ(OnlyDevice().end_bytes, 0);
}

TEST_F(MemoryTimelineTest, AnAddressIsUsedAgainAfterItsFree) {
  reader_.Allocate(main_, 10, 0xA, 100)
      .Free(main_, 20, 0xA, 100)
      .Allocate(main_, 30, 0xA, 40)
      .Free(main_, 40, 0xA, 40);
  const DeviceMemory memory = OnlyDevice();
  EXPECT_EQ(memory.end_bytes, 0);
  EXPECT_EQ(memory.unknown_free_count, 0);
  EXPECT_EQ(memory.peak_bytes, 100);
}

TEST_F(MemoryTimelineTest, AnAddressAllocatedAgainWithoutAFreeReplacesTheLostBlock) {
  reader_.Allocate(main_, 10, 0xA, 100, {.category = kActivation})
      .Allocate(main_, 20, 0xA, 150, {.category = kParameter})
      .Free(main_, 30, 0xA, 0);
  const DeviceMemory memory = OnlyDevice();
  EXPECT_THAT(memory.points, ElementsAre(MemoryPoint{0, 0}, MemoryPoint{10, 100},
                                         MemoryPoint{20, 150}, MemoryPoint{30, 0}));
  EXPECT_THAT(memory.peak_by_category, ElementsAre(MemoryShare{"parameter", 150, 1}));
}

TEST_F(MemoryTimelineTest, TheSameAddressOnTwoDevicesIsTwoBlocks) {
  reader_.Allocate(main_, 10, 0xA, 100)
      .Allocate(main_, 20, 0xA, 70, {.device_type = 1, .device_index = 10})
      .Allocate(main_, 25, 0xB, 5, {.device_type = 1, .device_index = 2})
      .Free(main_, 30, 0xA, 100);
  const MemoryTimeline timeline = Timeline();
  ASSERT_EQ(timeline.devices.size(), 3U);
  EXPECT_EQ(timeline.devices[0].device, "cpu:0");
  EXPECT_EQ(timeline.devices[0].end_bytes, 0);
  EXPECT_EQ(timeline.devices[1].device, "cuda:2");
  EXPECT_EQ(timeline.devices[2].device, "cuda:10");
  EXPECT_EQ(timeline.devices[2].end_bytes, 70);
}

TEST_F(MemoryTimelineTest, AliveAtThePeakIsNeitherFreedBeforeNorAllocatedAfter) {
  reader_.Allocate(main_, 10, 0xA, 10, {.category = kParameter})
      .Allocate(main_, 20, 0xB, 500, {.category = kActivation})
      .Free(main_, 30, 0xB, 0)
      .Allocate(main_, 40, 0xC, 600, {.category = kActivation})  // the peak: A and C
      .Free(main_, 50, 0xC, 0)
      .Allocate(main_, 60, 0xC, 300)
      .Free(main_, 70, 0xA, 0);
  const DeviceMemory memory = OnlyDevice();
  EXPECT_EQ(memory.peak_time_ns, 40);
  EXPECT_EQ(memory.peak_bytes, 610);
  EXPECT_THAT(memory.peak_by_category,
              ElementsAre(MemoryShare{"activation", 600, 1}, MemoryShare{"parameter", 10, 1}));
}

TEST_F(MemoryTimelineTest, BlocksBelongToTheInnermostRangeOfTheirOwnThread) {
  reader_.Range(main_, "step", 0, 100)
      .Range(main_, "forward", 10, 50)
      .Range(main_, "matmul", 20, 30)
      .Range(loader_, "load", 0, 200)
      .Allocate(main_, 5, 0x1, 1)
      .Allocate(main_, 15, 0x2, 2)
      .Allocate(main_, 25, 0x3, 4)
      .Allocate(main_, 40, 0x4, 8)
      .Allocate(main_, 60, 0x5, 16)
      .Allocate(main_, 150, 0x6, 32)
      .Allocate(loader_, 25, 0x7, 64);
  for (const size_t rows : {1, 2, 100}) {
    reader_.BatchRows(rows);
    EXPECT_THAT(OnlyDevice().peak_by_op,
                ElementsAre(MemoryShare{"load", 64, 1}, MemoryShare{"(no range)", 32, 1},
                            MemoryShare{"step", 17, 2}, MemoryShare{"forward", 10, 2},
                            MemoryShare{"matmul", 4, 1}));
  }
}

TEST_F(MemoryTimelineTest, RangesAreNotReadWhereSharesByOpAreNotAskedFor) {
  reader_.Range(main_, "step", 0, 100).Allocate(main_, 5, 0x1, 1);
  const DeviceMemory memory = OnlyDevice({.peak_by_op = false});
  EXPECT_THAT(memory.peak_by_op, IsEmpty());
  EXPECT_THAT(memory.peak_by_category, ElementsAre(MemoryShare{"unknown", 1, 1}));
  EXPECT_THAT(reader_.range_readings(), IsEmpty());
}

TEST_F(MemoryTimelineTest, ThreadsAreMergedByTimeAcrossBatches) {
  reader_.BatchRows(2);
  for (int64_t i = 0; i < 10; ++i) {
    reader_.Allocate(main_, 10 * i, static_cast<uint64_t>(i + 1), 1);
    reader_.Free(loader_, 10 * i + 5, static_cast<uint64_t>(i + 1), 0);
  }
  const DeviceMemory memory = OnlyDevice();
  EXPECT_EQ(memory.peak_bytes, 1);
  EXPECT_EQ(memory.unknown_free_count, 0);
  EXPECT_EQ(memory.points.size(), 21U);
}

TEST_F(MemoryTimelineTest, FewerPointsKeepThePeak) {
  for (int64_t i = 0; i < 1000; ++i) {
    const auto address = static_cast<uint64_t>(i + 1);
    reader_.Allocate(main_, 10 * i, address, i == 777 ? 5000 : 10);
    reader_.Free(main_, 10 * i + 5, address, 0);
  }
  const DeviceMemory memory = OnlyDevice({.max_points = 20});
  EXPECT_LE(memory.points.size(), 20U);
  EXPECT_EQ(memory.peak_bytes, 5000);
  EXPECT_EQ(std::count(memory.points.begin(), memory.points.end(), MemoryPoint{7770, 5000}), 1);
}

TEST_F(MemoryTimelineTest, TooFewPointsAreRefused) {
  for (const int64_t points : {-1, 1, 3}) {
    EXPECT_THAT(SummarizeMemory(reader_, {.max_points = points}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_F(MemoryTimelineTest, ACaptureWithoutMemoryEventsHasNoDevices) {
  reader_.Range(main_, "step", 0, 100);
  EXPECT_THAT(Timeline().devices, IsEmpty());
  EXPECT_THAT(reader_.range_readings(), IsEmpty());
}

TEST_F(MemoryTimelineTest, AReadersErrorIsTheReportsError) {
  reader_.Allocate(main_, 1, 1, 1).FailAfter(0, absl::DataLossError("bad chunk"));
  EXPECT_THAT(SummarizeMemory(reader_, {}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(MemoryTimelineTest, NumbersOfAHostileFileDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  reader_.Allocate(main_, -kHuge, 1, kHuge)
      .Allocate(main_, 0, 2, kHuge)
      .Allocate(main_, 1, 2, 5, {.total_allocated_bytes = kHuge})
      .Free(main_, kHuge, 7, kHuge, {.device_type = 200});
  EXPECT_EQ(Timeline().devices.size(), 2U);
}

class MemoryOrderTest : public testing::Test {
 protected:
  using Order = std::vector<std::tuple<int64_t, uint32_t, uint64_t>>;
  static Order Read(MemoryInOrder& events) {
    Order order;
    EXPECT_THAT(events.ForEach([&](const MemoryEvent& event) {
      order.emplace_back(event.time_ns, event.thread, event.address);
      return absl::OkStatus();
    }),
                IsOk());
    return order;
  }
  Order InOrder(size_t most_rows) {
    MemoryInOrder events(reader_, most_rows);
    return Read(events);
  }
  FakeCaptureReader reader_;
};

TEST_F(MemoryOrderTest, SlicesOfAnySizeGiveTheSameOrder) {
  std::mt19937_64 random(7);
  reader_.BatchRows(16);
  for (uint32_t thread = 0; thread < 3; ++thread) {
    reader_.AddThread(thread, "");
    int64_t time_ns = -100;
    for (uint64_t i = 0; i < 400; ++i) {
      time_ns += static_cast<int64_t>(random() % 5);
      reader_.Allocate(thread, time_ns, i + 1, 1);
    }
  }
  const auto all = InOrder(100'000);
  EXPECT_EQ(all.size(), 1200U);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  for (const size_t most_rows : {20, 100, 999}) EXPECT_EQ(InOrder(most_rows), all);
}

TEST_F(MemoryOrderTest, AskedForAgainItGivesTheSameAndReadsOnlyWhatItCannotHold) {
  for (const uint32_t thread : {0, 1}) reader_.AddThread(thread, "");
  for (int64_t i = 0; i < 100; ++i) {
    reader_.Allocate(i % 3 == 0 ? 1 : 0, i, /*address=*/0, 8);
    if (i % 2 == 0) reader_.Free(0, i, /*address=*/0, 8);
  }
  for (const size_t most_rows : {40, 1000}) {
    MemoryInOrder events(reader_, most_rows);
    const Order first = Read(events);
    EXPECT_EQ(first.size(), 150U);
    EXPECT_EQ(Read(events), first);
  }
  MemoryInOrder held(reader_);
  Read(held);
  reader_.FailAfter(0, absl::DataLossError("bad chunk"));
  EXPECT_EQ(Read(held).size(), 150U);
  MemoryInOrder not_held(reader_);
  EXPECT_THAT(not_held.ForEach([](const MemoryEvent&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(MemoryOrderTest, MoreEventsOfOneTimeThanFitAreRefused) {
  reader_.AddThread(1, "");
  for (uint64_t i = 0; i < 100; ++i) reader_.Allocate(0, 5, i, 1);
  EXPECT_THAT(
      MemoryInOrder(reader_, 50).ForEach([](const MemoryEvent&) { return absl::OkStatus(); }),
      StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(MemoryOrderTest, AnErrorOfTheCallerEndsIt) {
  reader_.AddThread(1, "");
  reader_.Allocate(0, 5, 1, 1);
  EXPECT_THAT(MemoryInOrder(reader_, 50).ForEach([](const MemoryEvent&) {
    return absl::CancelledError("enough");
  }),
              StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace profd::report
