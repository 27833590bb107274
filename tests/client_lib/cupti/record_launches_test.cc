// Which work the window launched, and which of it is missing.
#include <gtest/gtest.h>

#include "tests/client_lib/cupti/record_decoder_fixture.h"

namespace profd::client::decoder_test {
namespace {

using wire::EventKind;

class RecordLaunchesTest : public RecordDecoderTest {};

TEST_F(RecordLaunchesTest, ALaunchBeforeTheWindowIsWrittenIfItsWorkRanInTheWindow) {
  decoder_->set_window(Ticks(kOriginNs + 500), Ticks(kOriginNs + 1000));
  const auto launch = [](uint32_t correlation) {
    return Call(cupti::kKindRuntime, kLaunchCbid, 5, correlation, kOriginNs + 100, kOriginNs + 110);
  };
  // In either order; 3 ran before the window, and 4 after it.
  Decode(Buffer().Add(launch(1)).Add(Kernel("a", 1, kOriginNs + 600, kOriginNs + 700)));
  Decode(Buffer().Add(Kernel("b", 2, kOriginNs + 700, kOriginNs + 800)).Add(launch(2)));
  Decode(Buffer().Add(launch(3)).Add(Kernel("c", 3, kOriginNs + 200, kOriginNs + 300)));
  Decode(Buffer().Add(launch(4)).Add(Kernel("d", 4, kOriginNs + 1200, kOriginNs + 1300)));
  const auto calls = events_.Of<wire::ApiCallEvent>(EventKind::kApiCall);
  ASSERT_EQ(calls.size(), 2u);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].correlation, i + 1);
    EXPECT_EQ(calls[i].header.flags, wire::kGpuFlagEarlyLaunch);
    EXPECT_EQ(calls[i].header.thread, 5u);
    EXPECT_EQ(calls[i].start_ticks, Ticks(kOriginNs + 100));
  }
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordLaunchesTest, BeforeTheWindowItIsKnownWhichLaunchesHaveWorkToCome) {
  decoder_->set_window(UINT64_MAX, UINT64_MAX);
  EXPECT_EQ(decoder_->LastEarlyLaunch(), 0u);
  RecordBuffer launches = Buffer();
  launches.Add(Kernel("first", 40, kOriginNs + 30, kOriginNs + 40));  // Before its call, as usual.
  for (const uint32_t id : {40u, 41u, 42u}) launches.Add(Runtime(kLaunchCbid, 5, id));
  launches.Add(Runtime(kBeginCaptureCbid, 5, 43));
  launches.Add(Runtime(kLaunchCbid, 5, 44));  // Becomes a node, and makes no work.
  Decode(launches);
  const uint32_t last = decoder_->LastEarlyLaunch();
  EXPECT_EQ(last, 42u);
  EXPECT_EQ(decoder_->CountEarlyLaunchesWithoutWork(last), 2u);
  RecordBuffer work = Buffer();
  work.Add(Runtime(kLaunchCbid, 6, 45));  // After the question.
  work.Add(Kernel("second", 41, kOriginNs + 40, kOriginNs + 50));
  Decode(work);
  EXPECT_EQ(decoder_->CountEarlyLaunchesWithoutWork(last), 1u);
  RecordBuffer rest = Buffer();
  rest.Add(Kernel("third", 42, kOriginNs + 50, kOriginNs + 60));
  Decode(rest);
  EXPECT_EQ(decoder_->CountEarlyLaunchesWithoutWork(last), 0u);
  EXPECT_EQ(decoder_->LastEarlyLaunch(), 45u);
}

TEST_F(RecordLaunchesTest, WorkOfLaterLaunchesIsLeftOutOnceAllCallsOfTheWindowAreKnown) {
  decoder_->set_window(Ticks(kOriginNs + 500), Ticks(kOriginNs + 1000));
  Decode(Buffer()
             .Add(Call(cupti::kKindRuntime, kLaunchCbid, 5, 1, kOriginNs + 600, kOriginNs + 610))
             .Add(Kernel("unknown", 9, kOriginNs + 1100, kOriginNs + 1200)));
  decoder_->set_leaves_out_later_work();
  Decode(Buffer()
             .Add(Kernel("later", 10, kOriginNs + 1200, kOriginNs + 1300))
             .Add(Kernel("later, its call not recorded", 0, kOriginNs + 1250, kOriginNs + 1300))
             .Add(Kernel("of the window", 1, kOriginNs + 1300, kOriginNs + 1400))
             .Add(Kernel("under way at the end", 11, kOriginNs + 900, kOriginNs + 1300)));
  EXPECT_EQ(decoder_->work_count(), 3u);  // The drain waits while it grows.
  EXPECT_EQ(events_.Of<wire::KernelEvent>(EventKind::kKernel).size(), 3u);
  EXPECT_EQ(Count(wire::kGpuLaterLaunch), 2u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordLaunchesTest, WorkThatTheLastFlushFindsNotBegunIsALossOnlyIfTheWindowLaunchedIt) {
  decoder_->set_window(Ticks(kOriginNs + 500), Ticks(kOriginNs + 1000));
  Decode(Buffer().Add(Kernel("short of buffers", 8, 0, 0)));
  decoder_->set_is_last_flush();
  // The call comes after its work.
  Decode(Buffer()
             .Add(Kernel("of the window", 1, 0, 0))
             .Add(Kernel("later", 2, 0, 0))
             .Add(Call(cupti::kKindRuntime, kLaunchCbid, 5, 1, kOriginNs + 600, kOriginNs + 610)));
  decoder_->SettleUntimed();
  EXPECT_EQ(Count(wire::kGpuUntimed), 1u);
  EXPECT_EQ(Count(wire::kGpuStillRunning), 1u);
  EXPECT_EQ(Count(wire::kGpuLaterLaunch), 1u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordLaunchesTest, WorkWithAnIdBetweenThoseOfTheWindowsCallsIsOfTheWindow) {
  decoder_->set_window(Ticks(kOriginNs + 500), Ticks(kOriginNs + 1000));
  const auto launch = [](uint32_t correlation, uint64_t at_ns) {
    return Call(cupti::kKindRuntime, kLaunchCbid, 5, correlation, at_ns, at_ns + 10);
  };
  Decode(Buffer()
             .Add(launch(10, kOriginNs + 600))
             .Add(launch(20, kOriginNs + 900))
             .Add(launch(25, kOriginNs + 1050)));
  decoder_->set_leaves_out_later_work();
  RecordBuffer buffer = Buffer();
  for (const uint32_t correlation : {15u, 16u, 17u, 5u, 22u, 30u}) {
    buffer.Add(Kernel("callless", correlation, kOriginNs + 1100, kOriginNs + 1200));
  }
  Decode(buffer);
  decoder_->set_is_last_flush();
  Decode(Buffer().Add(Kernel("not begun", 18, 0, 0)).Add(Kernel("later", 26, 0, 0)));
  EXPECT_EQ(decoder_->MissingWork().callless, 3u);
  EXPECT_EQ(events_.Of<wire::KernelEvent>(EventKind::kKernel).size(), 3u);
  decoder_->SettleUntimed();
  EXPECT_EQ(Count(wire::kGpuStillRunning), 1u);
  EXPECT_EQ(Count(wire::kGpuLaterLaunch), 4u);
  // 22 may be of the window: no later call has a lower ID.
  EXPECT_TRUE(decoder_->SettleCalls());
  EXPECT_EQ(Count(wire::kGpuStillRunning), 2u);
  EXPECT_EQ(Count(wire::kGpuLaterLaunch), 3u);
  ExpectEveryRecordAccountedFor();
}

TEST_F(RecordLaunchesTest, CallsAreNotMissingWhereAllWorkHasOne) {
  decoder_->set_window(Ticks(kOriginNs + 500), Ticks(kOriginNs + 1000));
  for (uint32_t id = 1; id <= 10; ++id) {
    Decode(Buffer()
               .Add(Kernel("a", id, kOriginNs + 600, kOriginNs + 700))
               .Add(Call(cupti::kKindRuntime, kLaunchCbid, 5, id, kOriginNs + (id < 5 ? 100 : 600),
                         kOriginNs + 610)));
  }
  EXPECT_EQ(decoder_->MissingWork().callless, 0u);
  EXPECT_FALSE(decoder_->SettleCalls());
}

}  // namespace
}  // namespace profd::client::decoder_test
