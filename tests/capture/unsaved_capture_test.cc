// Ends of captures that the catalog does not take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/capture/manager_fixture.h"

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

TEST_F(CaptureManagerTest, AnEndThatTheCatalogCannotTakeIsToldAllTheSameAndSavedLater) {
  const TargetNumber target = targets_.Add(Training(10));
  const CaptureRecord created = CreateOrDie(target, Steps(5), "again");
  targets_.Armed(created.id);
  manager_.DrainForTesting();
  store_.update_error = absl::ResourceExhaustedError("no room");
  Reach(created.id, RecordingPhase::kEnded);
  targets_.Drained(created.id, Window(102, 107));
  EXPECT_EQ(GetOrDie(created.id).state, CaptureState::kComplete);
  EXPECT_THAT(manager_.Live(), SizeIs(1)) << "a listing is to show the end";
  EXPECT_EQ(CreateOrDie(target, Steps(5), "again").state, CaptureState::kComplete);
  EXPECT_FALSE(IsTerminal(store_.GetCapture(created.id)->state));
  EXPECT_THAT(manager_.Delete(kAlice, created.id), StatusIs(Code::kResourceExhausted));

  Advance(absl::Seconds(1));
  EXPECT_FALSE(IsTerminal(store_.GetCapture(created.id)->state)) << "there is still no room";
  store_.update_error = absl::OkStatus();
  Advance(absl::Seconds(1));
  EXPECT_EQ(store_.GetCapture(created.id)->state, CaptureState::kComplete);
  EXPECT_THAT(manager_.Live(), IsEmpty());
}

TEST_F(CaptureManagerTest, AnEndWhoseRowIsGoneIsNotTriedAgain) {
  for (const absl::Status& first :
       {absl::NotFoundError("no row"), absl::ResourceExhaustedError("no room")}) {
    const TargetNumber target = targets_.Add(Training(10));
    const CaptureRecord created = CreateOrDie(target, Steps(5));
    targets_.Armed(created.id);
    manager_.DrainForTesting();
    store_.update_error = first;
    Reach(created.id, RecordingPhase::kEnded);
    targets_.Drained(created.id, Window(102, 107));
    manager_.DrainForTesting();
    store_.update_error = absl::NotFoundError("no row");
    if (!absl::IsNotFound(first)) {
      EXPECT_THAT(manager_.Live(), SizeIs(1));
      Advance(absl::Seconds(1));
    }
    EXPECT_THAT(manager_.Live(), IsEmpty()) << first;
    store_.update_error = absl::OkStatus();
  }
}

}  // namespace
}  // namespace profd
