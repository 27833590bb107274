#include "daemon/base/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/fakes/fake_clock.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;
using Work = Watchdog::Work;

constexpr absl::Duration kPeriod = absl::Minutes(3);

class WatchdogTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  Watchdog watchdog_{clock_, kPeriod};
};

TEST_F(WatchdogTest, WithoutThreadsNothingIsStuck) {
  EXPECT_TRUE(watchdog_.Check());
  EXPECT_THAT(watchdog_.Threads(), IsEmpty());
}

TEST_F(WatchdogTest, WhatWorksTooLongIsStuckAndNamed) {
  WatchedThread watched(&watchdog_, "profd-ingest", Work::kNoDisk);
  watched.Works();
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(watchdog_.Check());
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(watchdog_.Check());
  EXPECT_THAT(watchdog_.Threads(), ElementsAre(FieldsAre("profd-ingest", absl::Seconds(61), true)));
  watched.Works();
  EXPECT_TRUE(watchdog_.Check());
}

TEST_F(WatchdogTest, WhatWritesToADiskMayTakeLonger) {
  WatchedThread watched(&watchdog_, "profd-store", Work::kDisk);
  watched.Works();
  clock_.Advance(absl::Minutes(9));
  EXPECT_TRUE(watchdog_.Check());
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(watchdog_.Check());
}

TEST_F(WatchdogTest, WaitingOnPurposeIsNotBeingStuck) {
  WatchedThread watched(&watchdog_, "profd-decode", Work::kNoDisk);
  watched.Works();
  watched.Waits();
  clock_.Advance(absl::Hours(100));
  EXPECT_TRUE(watchdog_.Check());
  EXPECT_THAT(watchdog_.Threads(),
              ElementsAre(FieldsAre("profd-decode", absl::ZeroDuration(), false)));
}

TEST_F(WatchdogTest, AWaitThatDoesNotEndWhenAskedIsBeingStuck) {
  int wakes = 0;
  WatchedThread watched(&watchdog_, "profd-accept", Work::kNoDisk, [&wakes] { ++wakes; });
  watched.Waits();
  EXPECT_FALSE(watched.asked());
  EXPECT_TRUE(watchdog_.Check());
  EXPECT_TRUE(watched.asked());
  clock_.Advance(absl::Minutes(2));
  EXPECT_FALSE(watchdog_.Check());
  EXPECT_EQ(wakes, 1);  // It was asked, and has not answered.
  watched.Waits();
  EXPECT_TRUE(watchdog_.Check());
  EXPECT_EQ(wakes, 2);
}

TEST_F(WatchdogTest, AThreadThatEndedIsNotWatched) {
  {
    WatchedThread watched(&watchdog_, "profd-decode", Work::kNoDisk);
    watched.Works();
    clock_.Advance(absl::Hours(1));
    EXPECT_FALSE(watchdog_.Check());
  }
  EXPECT_TRUE(watchdog_.Check());
  EXPECT_THAT(watchdog_.Threads(), IsEmpty());
}

TEST_F(WatchdogTest, OfThreadsOfOneNameTheOldestIsShown) {
  WatchedThread one(&watchdog_, "profd-rpc", Work::kDisk);
  WatchedThread other(&watchdog_, "profd-rpc", Work::kDisk);
  one.Works();
  clock_.Advance(absl::Seconds(5));
  other.Works();
  EXPECT_THAT(watchdog_.Threads(), ElementsAre(FieldsAre("profd-rpc", absl::Seconds(5), false)));
}

TEST_F(WatchdogTest, LongWorkReportsItsProgressWithoutKnowingItsThread) {
  ReportProgress();  // Nobody watches.
  WatchedThread watched(&watchdog_, "profd-store", Work::kDisk);
  watched.Works();
  for (int chunk = 0; chunk < 10; ++chunk) {
    clock_.Advance(absl::Minutes(5));
    ReportProgress();
  }
  EXPECT_TRUE(watchdog_.Check());
}

TEST_F(WatchdogTest, NobodyNeedsToWatch) {
  WatchedThread watched(nullptr, "profd-rpc", Work::kDisk, [] { FAIL(); });
  watched.Works();
  watched.Waits();
  EXPECT_FALSE(watched.asked());
  ReportProgress();
}

TEST_F(WatchdogTest, AThreadThatWaitsForAConditionAnswersWhenAsked) {
  absl::Mutex mu;
  bool over = false;
  absl::Notification waits;
  std::thread thread([&] {
    WatchedThread watched(&watchdog_, "profd-capture", Work::kDisk,
                          [&mu] { absl::MutexLock lock(&mu); });
    const auto is_wanted = [&] { return over || watched.asked(); };
    absl::MutexLock lock(&mu);
    while (!over) {
      watched.Waits();
      if (!waits.HasBeenNotified()) waits.Notify();
      mu.Await(absl::Condition(&is_wanted));
      watched.Works();
    }
  });
  waits.WaitForNotification();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(watchdog_.Check());
    clock_.Advance(absl::Seconds(1));
    while (watchdog_.Threads().front().unfed != absl::ZeroDuration()) std::this_thread::yield();
  }
  {
    absl::MutexLock lock(&mu);
    over = true;
  }
  thread.join();
}

}  // namespace
}  // namespace profd
