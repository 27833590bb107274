// What one principal may take of the node while others want it.
#include "daemon/base/reason.h"
#include "tests/capture/manager_fixture.h"

namespace profd {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Code = absl::StatusCode;

TEST_F(CaptureManagerTest, SixtyFourProcessesShareTheCaptureMemoryByDefault) {
  std::vector<TargetNumber> targets;
  for (int i = 0; i < 64; ++i) targets.push_back(targets_.Add(Training(10 + i)));
  EXPECT_THAT(manager_.CreateGroup(kAlice, targets, Steps(5), ""), IsOk());
  ASSERT_THAT(targets_.arms(), SizeIs(64));
  for (const FakeTargetPort::ArmCall& arm : targets_.arms()) {
    EXPECT_EQ(arm.request.memory_bytes, 6 << 20);  // A quarter of the memory waits for others.
  }
}

TEST_F(CaptureManagerTest, ASharedMemoryThatIsTooSmallIsRefused) {
  ledger_.SetLimit(quota::Resource::kCaptureMemory, {.capacity = 31 << 20});
  std::vector<TargetNumber> targets;
  for (int i = 0; i < 8; ++i) targets.push_back(targets_.Add(Training(10 + i)));
  const auto refused = manager_.CreateGroup(kAlice, targets, Steps(5), "");
  EXPECT_THAT(refused, StatusIs(Code::kResourceExhausted,
                                HasSubstr("8 captures of 4 MiB each need 32 MiB")));
  CaptureSpec any = Steps(5);
  any.allow_less_memory = true;
  EXPECT_THAT(manager_.CreateGroup(kAlice, targets, any, ""), IsOk());
}

TEST_F(CaptureManagerTest, NineProcessesBeyondTheCaptureMemoryAreRefusedWithTheWholeNeed) {
  std::vector<TargetNumber> targets;
  for (int i = 0; i < 9; ++i) targets.push_back(targets_.Add(Training(10 + i)));
  CaptureSpec stated = Steps(5);
  stated.memory_bytes = 60 << 20;
  const auto refused = manager_.CreateGroup(kAlice, targets, stated, "");
  EXPECT_THAT(refused,
              StatusIs(Code::kResourceExhausted,
                       HasSubstr("9 captures of 60 MiB each need 540 MiB of capture memory; 384 "
                                 "MiB of this node's 576 MiB are left for uid:1000; ask for at "
                                 "most 42 MiB each")));
  EXPECT_EQ(ReasonOf(refused.status()), "MEMORY_CAP");
  EXPECT_THAT(targets_.arms(), SizeIs(0));  // None was begun and cancelled again.
  EXPECT_EQ(ledger_.TotalUse(quota::Resource::kLiveCaptures), 0);

  CaptureSpec smaller = Steps(5);
  smaller.memory_bytes = 42 << 20;
  EXPECT_THAT(manager_.CreateGroup(kAlice, targets, smaller, ""), IsOk());
}

TEST_F(CaptureManagerTest, ARefusalOfALargeGroupHasItsNumbers) {
  ledger_.SetLimit(quota::Resource::kLiveCaptures, {.capacity = 4});
  std::vector<TargetNumber> targets;
  for (int64_t i = 0; i < 5; ++i) targets.push_back(targets_.Add(Training(10 + i)));
  const auto refused = manager_.CreateGroup(kAlice, targets, Steps(5), "");
  EXPECT_THAT(refused, StatusIs(Code::kResourceExhausted,
                                AllOf(HasSubstr("it asks for 5 (at most 4 can ever be had)"),
                                      HasSubstr("has 0"), HasSubstr("ask for less"))));
  EXPECT_EQ(ledger_.TotalUse(quota::Resource::kLiveCaptures), 0);
}

TEST_F(CaptureManagerTest, OneUsersCapturesLeaveRoomForRoots) {
  ledger_.SetLimit(quota::Resource::kLiveCaptures, {.capacity = 2, .reserve = 1});
  const TargetNumber a = targets_.Add(Training(10));
  const TargetNumber b = targets_.Add(Training(11));
  CreateOrDie(a, Steps(5));
  const auto refused = manager_.Create(kAlice, b, Steps(5), "");
  EXPECT_THAT(refused,
              StatusIs(Code::kResourceExhausted, HasSubstr("largest holder: uid:1000 with 1")));
  EXPECT_EQ(ReasonOf(refused.status()), "CAPTURE_LIMIT");
  EXPECT_THAT(manager_.Create(kRoot, b, Steps(5), ""), IsOk());
}

TEST_F(CaptureManagerTest, ACaptureThatEndedGivesItsPlaceBack) {
  const TargetNumber target = targets_.Add(Training(10));
  const std::string id = CreateOrDie(target, Steps(5)).id;
  EXPECT_EQ(ledger_.TotalUse(quota::Resource::kLiveCaptures), 1);
  targets_.Remove(target);
  GetOrDie(id);
  EXPECT_EQ(ledger_.TotalUse(quota::Resource::kLiveCaptures), 0);
}

TEST_F(CaptureManagerTest, RequestsPerMinuteAreLimited) {
  ledger_.SetLimit(quota::Resource::kCaptureRequests, {.capacity = 100, .per_principal = 1});
  const TargetNumber a = targets_.Add(Training(10));
  const TargetNumber b = targets_.Add(Training(11));
  CreateOrDie(a, Steps(5), "request");
  CreateOrDie(a, Steps(5), "request");  // A repeated request makes nothing.
  const auto refused = manager_.Create(kAlice, b, Steps(5), "");
  EXPECT_THAT(refused, StatusIs(Code::kResourceExhausted, HasSubstr("per minute")));
  EXPECT_EQ(ReasonOf(refused.status()), "QUOTA_EXCEEDED");
  clock_.Advance(absl::Minutes(5));
  EXPECT_THAT(manager_.Create(kAlice, b, Steps(5), ""), IsOk());
}

}  // namespace
}  // namespace profd
