// Which captures take the memory that was made ahead, and when the next one is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/str_cat.h"
#include "tests/ingest/server_fixture.h"

namespace profd {
namespace {

using wire::FrameType;

class ServerSpareMemoryTest : public TargetServerTest {
 protected:
  static constexpr auto kDefaultBytes = static_cast<int64_t>(SpareMemory::kSizeBytes);

  bool HasSpare() {
    return Eventually([this] { return server_->spare_memory().has_spare(); });
  }
  // Arms, fires, and ends a capture of a target that answers in the background.
  void Capture(FakeTarget& target, TargetNumber number, const std::string& id, int64_t bytes) {
    ArmAndFire(target, number, id, FirePlan{}, bytes);
    server_->Stop(id);
    observer_.WaitDrained(id);
    target.WaitReleased();
  }
};

TEST_F(ServerSpareMemoryTest, EachCaptureOfTheDefaultSizeTakesASpare) {
  Start();
  EXPECT_FALSE(server_->spare_memory().has_spare()) << "there is no target yet";
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  target.AnswerInBackground();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(HasSpare()) << i;
    Capture(target, number, StrCat("C", i), kDefaultBytes);
    EXPECT_EQ(server_->spare_memory().taken_count(), i);
  }
  ASSERT_TRUE(HasSpare());
  Capture(target, number, "small", 4 << 20);
  EXPECT_EQ(server_->spare_memory().taken_count(), 3);
  EXPECT_TRUE(server_->spare_memory().has_spare());
}

TEST_F(ServerSpareMemoryTest, AnArmingThatFailsLeavesASpareForTheNext) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  for (const std::string id : {"A", "B"}) {
    ASSERT_TRUE(HasSpare()) << id;
    ASSERT_THAT(Arm(number, id, sink_, kDefaultBytes), IsOk());
    target.TakeArm(target.Expect(FrameType::kArm));
    EXPECT_FALSE(server_->spare_memory().has_spare());
    target.Send(FrameType::kArmFailed, wire::ArmFailedBody{target.capture_number(), 1, 0});
    EXPECT_FALSE(observer_.WaitArmFailed(id).ok());
  }
  EXPECT_TRUE(HasSpare());
  EXPECT_EQ(server_->spare_memory().taken_count(), 2);
}

TEST_F(ServerSpareMemoryTest, ATargetThatGoesWhileItArmsLeavesASpareForTheNext) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  ASSERT_TRUE(HasSpare());
  ASSERT_THAT(Arm(number, "A", sink_, kDefaultBytes), IsOk());
  target.Expect(FrameType::kArm);
  EXPECT_FALSE(server_->spare_memory().has_spare());
  target.CloseSocket();
  EXPECT_FALSE(observer_.WaitArmFailed("A").ok());
  EXPECT_TRUE(HasSpare());
}

TEST_F(ServerSpareMemoryTest, AServerWhoseCapturesCannotTakeItMakesNone) {
  ledger_.SetLimit(quota::Resource::kCaptureMemory, {.capacity = kDefaultBytes - 1});
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  target.AnswerInBackground();
  Capture(target, number, "A", 4 << 20);
  // The limit is read anew: with more room, the next registration has a spare made.
  EXPECT_FALSE(server_->spare_memory().has_spare());
  ledger_.SetLimit(quota::Resource::kCaptureMemory, {.capacity = kDefaultBytes});
  FakeTarget second(dir_.path());
  second.Register();
  EXPECT_TRUE(HasSpare());
}

}  // namespace
}  // namespace profd
