#include "client_lib/cupti/launch_tracker.h"

#include <gtest/gtest.h>

#include <memory>

namespace profd::client {
namespace {

class LaunchTrackerTest : public ::testing::Test {
 protected:
  void Launch(uint32_t correlation, LaunchTracker::Flag how = LaunchTracker::kIsAwaited) {
    *tracker_->At(correlation) |= LaunchTracker::kOfWindow | how;
  }
  void Work(uint32_t correlation) { *tracker_->At(correlation) |= LaunchTracker::kHasWork; }

  std::unique_ptr<LaunchTracker> tracker_ = std::make_unique<LaunchTracker>();
};

TEST_F(LaunchTrackerTest, ALaunchIsMissingUntilItsWorkComes) {
  Launch(7);
  Launch(8);
  Launch(9, LaunchTracker::kMayBeSilent);
  Work(8);
  EXPECT_EQ(tracker_->CountMissing().launches, 1u);
  EXPECT_EQ(tracker_->CountMissing().copies, 1u);
  Work(7);
  Work(9);
  EXPECT_EQ(tracker_->CountMissing().launches, 0u);
  EXPECT_EQ(tracker_->CountMissing().copies, 0u);
}

TEST_F(LaunchTrackerTest, WorkMayComeBeforeItsLaunch) {
  Work(7);
  Launch(7);
  EXPECT_EQ(tracker_->CountMissing().launches, 0u);
}

TEST_F(LaunchTrackerTest, WorkWithoutACallIsCountedWithinAnInterval) {
  for (const uint32_t id : {10u, 11u, 12u, 500u}) Work(id);
  *tracker_->At(11) |= LaunchTracker::kHasCall;
  EXPECT_EQ(tracker_->CountMissing(10, 499).worked, 3u);
  EXPECT_EQ(tracker_->CountMissing(10, 499).callless, 2u);
  EXPECT_EQ(tracker_->CountMissing().worked, 0u) << "none ran in the window";
  *tracker_->At(500) |= LaunchTracker::kWantsCall;
  EXPECT_EQ(tracker_->CountMissing().callless, 1u);
}

TEST_F(LaunchTrackerTest, ZeroIsNoId) { EXPECT_EQ(tracker_->At(0), nullptr); }

TEST_F(LaunchTrackerTest, ALaterIdTakesThePlaceOfOneThatIsFarBehind) {
  constexpr uint32_t kIds = 1u << 20;
  Launch(7);
  Launch(7 + kIds);
  EXPECT_EQ(tracker_->CountMissing().launches, 1u);
  EXPECT_EQ(tracker_->At(7), nullptr) << "its place is gone";
  EXPECT_EQ(*tracker_->At(8 + kIds), 0);
  Work(7 + kIds);
  EXPECT_EQ(tracker_->CountMissing().launches, 0u);
}

TEST_F(LaunchTrackerTest, IdsThatWrapAroundGoOn) {
  Launch(UINT32_MAX);
  Launch(3);
  EXPECT_EQ(tracker_->CountMissing().launches, 2u);
  Work(UINT32_MAX);
  Work(3);
  EXPECT_EQ(tracker_->CountMissing().launches, 0u);
  EXPECT_NE(tracker_->At((1u << 20) - 2), nullptr) << "later than the ones before the wrap";
}

}  // namespace
}  // namespace profd::client
