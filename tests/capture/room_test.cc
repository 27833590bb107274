// Room for a capture's events, and what was removed for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/reason.h"
#include "tests/capture/manager_fixture.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

TEST_F(CaptureManagerTest, RefusesWhenThereIsNoRoom) {
  const TargetNumber target = targets_.Add(Training(10));
  store_.room_error = WithReason(absl::ResourceExhaustedError("full"), "DISK_FULL");
  EXPECT_THAT(manager_.Create(kAlice, target, Steps(5), ""), StatusIs(Code::kResourceExhausted));
  EXPECT_THAT(targets_.arms(), IsEmpty());
}

TEST_F(CaptureManagerTest, RoomIsMadeForTargetsThatAreArmedOnly) {
  const TargetNumber target = targets_.Add(Training(10));
  EXPECT_THAT(manager_.Create(kBob, target, Steps(5), ""), StatusIs(Code::kPermissionDenied));
  targets_.RefuseNextArm(WithReason(absl::ResourceExhaustedError("at the cap"), "MEMORY_CAP"));
  EXPECT_THAT(manager_.Create(kAlice, target, Steps(5), ""), StatusIs(Code::kResourceExhausted));
  EXPECT_THAT(store_.room_made_for(), IsEmpty());
  const auto created = manager_.Create(kAlice, target, Steps(5), "");
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(store_.room_checked_for(), created->id);
  EXPECT_THAT(store_.room_made_for(), IsEmpty()) << "it may not be armed in the end";
  targets_.Armed(created->id);
  manager_.DrainForTesting();
  EXPECT_THAT(store_.room_made_for(), ElementsAre(testing::Pair("uid:1000", created->id)));
}

// No record names it: the error has to.
TEST_F(CaptureManagerTest, WhatWasRemovedForACaptureThatDoesNotBeginIsInTheError) {
  const TargetNumber target = targets_.Add(Training(10));
  store_.evicted = {.ids = {"OLD1", "OLD2"}, .count = 3};
  const auto names_them =
      HasSubstr("the events of 3 older captures were removed: OLD1, OLD2, and 1 of other users");
  targets_.RefuseNextArm(WithReason(absl::ResourceExhaustedError("at the cap"), "MEMORY_CAP"));
  const auto refused = manager_.Create(kAlice, target, Steps(5), "");
  EXPECT_THAT(refused, StatusIs(Code::kResourceExhausted, names_them));
  EXPECT_EQ(ReasonOf(refused.status()), "MEMORY_CAP");
  for (absl::Status FakeStore::*error :
       {&FakeStore::room_error, &FakeStore::create_error, &FakeStore::insert_error}) {
    store_.*error = absl::InternalError("disk failed");
    EXPECT_THAT(manager_.Create(kAlice, target, Steps(5), ""),
                StatusIs(Code::kInternal, names_them));
    store_.*error = absl::OkStatus();
  }
  store_.evicted = {.count = 1};
  store_.create_error = absl::InternalError("disk failed");
  EXPECT_THAT(manager_.Create(kAlice, target, Steps(5), ""),
              StatusIs(Code::kInternal, HasSubstr("1 older capture of other users were removed")));
}

}  // namespace
}  // namespace profd
