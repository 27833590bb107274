// The disk hangs, so that the manager's thread does not come to what is asked of it: recordings end
// all the same.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/capture/manager_fixture.h"

namespace profd {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class HungDiskTest : public CaptureManagerTest {
 protected:
  // Calls `fn` on a thread of its own, as a caller whom another's request keeps waiting; then, once
  // `meanwhile` has returned, the disk goes on, and all calls return.
  void WhileItHangs(const std::function<void()>& fn, const std::function<void()>& meanwhile) {
    absl::Notification hangs;
    absl::Notification goes_on;
    store_.before_create = [&] {
      hangs.Notify();
      goes_on.WaitForNotification();
    };
    const TargetNumber other = targets_.Add(Training(77));
    std::thread requester([&] { CreateOrDie(other, Steps(5)); });
    hangs.WaitForNotification();
    std::thread caller(fn);
    meanwhile();
    goes_on.Notify();
    caller.join();
    requester.join();
    store_.before_create = nullptr;
    manager_.DrainForTesting();
  }

  std::string RecordingOf(int64_t pid) {
    const CaptureRecord created = CreateOrDie(targets_.Add(Training(pid)), Steps(5));
    targets_.Armed(created.id);
    Reach(created.id, RecordingPhase::kRecording, 102);
    manager_.DrainForTesting();
    return created.id;
  }
};

TEST_F(HungDiskTest, CancelStopsTheTargetAtOnce) {
  const std::string id = RecordingOf(10);
  WhileItHangs([&] { EXPECT_THAT(manager_.Cancel(kAlice, id), IsOk()); },
               [&] { EXPECT_TRUE(targets_.WaitForStops(1)); });
  EXPECT_THAT(targets_.stops(), Each(id));
  targets_.Drained(id, Window(102, 104, /*complete=*/false));
  manager_.DrainForTesting();
  Advance(absl::Seconds(2));  // For the steps after it.
  const CaptureRecord done = GetOrDie(id);
  EXPECT_EQ(done.state, CaptureState::kCancelled);
  EXPECT_EQ(done.ended_by, EndedBy::kCancel);
}

TEST_F(HungDiskTest, OnlyWhoMayCancelStopsTheTarget) {
  const std::string id = RecordingOf(10);
  absl::Notification refused;
  // The refusal itself waits for the manager's thread, as it has before.
  WhileItHangs(
      [&] {
        EXPECT_FALSE(manager_.Cancel(kBob, id).ok());
        refused.Notify();
      },
      [&] { EXPECT_FALSE(refused.WaitForNotificationWithTimeout(absl::Milliseconds(300))); });
  EXPECT_THAT(targets_.stops(), IsEmpty());
  EXPECT_EQ(GetOrDie(id).state, CaptureState::kRecording);
}

TEST_F(HungDiskTest, TheEmergencySwitchStopsAllOfThem) {
  const std::string first = RecordingOf(10);
  const std::string second = RecordingOf(11);
  WhileItHangs([&] { manager_.ForbidCaptures("stop"); },
               [&] {
                 EXPECT_TRUE(targets_.WaitForStops(2));
                 EXPECT_THAT(targets_.stops(), UnorderedElementsAre(first, second));
               });
  for (const std::string& id : {first, second}) {
    targets_.Drained(id, Window(102, 104, /*complete=*/false));
    EXPECT_EQ(GetOrDie(id).ended_by, EndedBy::kOptOut);
  }
}

TEST_F(HungDiskTest, AllowingCapturesStopsNone) {
  const std::string id = RecordingOf(10);
  absl::Notification done;
  WhileItHangs(
      [&] {
        manager_.ForbidCaptures(std::nullopt);
        done.Notify();
      },
      [&] { EXPECT_FALSE(done.WaitForNotificationWithTimeout(absl::Milliseconds(300))); });
  EXPECT_THAT(targets_.stops(), IsEmpty());
}

TEST_F(HungDiskTest, AbortingAGroupStopsItsMembers) {
  const TargetNumber one = targets_.Add(Training(10));
  const TargetNumber two = targets_.Add(Training(11));
  const auto group = manager_.CreateGroup(kAlice, {one, two}, Steps(5), "");
  ASSERT_THAT(group, IsOk());
  const std::string alone = RecordingOf(12);
  const std::string& group_id = group->front().group_id;
  WhileItHangs([&] { EXPECT_THAT(manager_.AbortGroup(kAlice, group_id), IsOk()); },
               [&] {
                 EXPECT_TRUE(targets_.WaitForStops(2));
                 EXPECT_THAT(targets_.stops(),
                             UnorderedElementsAre((*group)[0].id, (*group)[1].id));
               });
  EXPECT_EQ(GetOrDie(alone).state, CaptureState::kRecording);
}

// Ingest is given the time, and says why it ended.
TEST_F(HungDiskTest, ATimeoutNeedsNoDisk) {
  CaptureSpec spec = Steps(5);
  spec.timeout = absl::Seconds(40);
  const CaptureRecord created = CreateOrDie(targets_.Add(Training(10)), spec);
  EXPECT_EQ(targets_.LastArm().request.time_left, absl::Seconds(40));
  targets_.Armed(created.id);
  Reach(created.id, RecordingPhase::kRecording, 102);
  DrainResult result = Window(102, 104, /*complete=*/false);
  result.ended_by = EndedBy::kDeadline;
  targets_.Drained(created.id, result);
  const CaptureRecord done = GetOrDie(created.id);
  EXPECT_EQ(done.state, CaptureState::kPartial);
  EXPECT_EQ(done.ended_by, EndedBy::kDeadline);
}

}  // namespace
}  // namespace profd
