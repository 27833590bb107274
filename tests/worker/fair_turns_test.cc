// FairTurns: who runs next. Each test plays the pool with a clock of its own.
#include "daemon/worker/fair_turns.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profd::worker {
namespace {

using testing::Eq;
using testing::Optional;

constexpr absl::Duration kSlice = absl::Milliseconds(250);

class FairTurnsTest : public testing::Test {
 protected:
  bool Add(std::string_view principal) { return turns_.Add(principal, ++last_job_, now_); }
  FairTurns::Turn Next() {
    const auto turn = turns_.Next(now_);
    EXPECT_TRUE(turn.has_value());
    return turn.value_or(FairTurns::Turn{.lane = -1});
  }
  // The report in `lane` runs for a slice, and others go first.
  void UseSlice(int lane) {
    now_ += kSlice;
    turns_.Leave(lane, kSlice, FairTurns::Then::kWants);
  }

  FairTurns turns_{FairTurns::Options()};
  FairTurns::JobId last_job_ = 0;
  absl::Duration now_ = absl::Seconds(100);
};

TEST_F(FairTurnsTest, OnlyOneReportHasTheTurn) {
  ASSERT_TRUE(Add("uid:1"));
  ASSERT_TRUE(Add("uid:2"));
  const FairTurns::Turn turn = Next();
  EXPECT_THAT(turn.job, Optional(1));
  EXPECT_EQ(turns_.Next(now_), std::nullopt);
  turns_.End(turn.lane, kSlice);
  EXPECT_THAT(Next().job, Optional(2));
}

TEST_F(FairTurnsTest, ANewcomerGoesBeforeTheOtherReportsOfABusyUser) {
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Add("uid:1"));
  const FairTurns::Turn first = Next();
  ASSERT_TRUE(Add("uid:2"));
  EXPECT_TRUE(turns_.OthersWant(first.lane));
  UseSlice(first.lane);
  EXPECT_THAT(Next().job, Optional(9));
}

TEST_F(FairTurnsTest, TimeIsSharedBetweenPrincipalsNotReports) {
  std::map<std::string, int> slices;
  std::map<int, std::string> owner;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Add("uid:1"));
  ASSERT_TRUE(Add("uid:2"));
  for (int i = 0; i < 40; ++i) {
    const FairTurns::Turn turn = Next();
    if (turn.job.has_value()) owner[turn.lane] = *turn.job == 9 ? "uid:2" : "uid:1";
    ++slices[owner[turn.lane]];
    UseSlice(turn.lane);
  }
  EXPECT_EQ(slices["uid:1"], 20);
  EXPECT_EQ(slices["uid:2"], 20);
}

TEST_F(FairTurnsTest, IdleTimeIsNotSavedUp) {
  ASSERT_TRUE(Add("uid:1"));
  const int busy = Next().lane;
  for (int i = 0; i < 40; ++i) {
    UseSlice(busy);
    ASSERT_EQ(Next().lane, busy);
  }
  // It comes with nothing used, and takes turns all the same.
  ASSERT_TRUE(Add("uid:2"));
  UseSlice(busy);
  const int late = Next().lane;
  UseSlice(late);
  EXPECT_EQ(Next().lane, busy);
}

TEST_F(FairTurnsTest, ACrashIsChargedToItsPrincipal) {
  ASSERT_TRUE(Add("uid:1"));
  ASSERT_TRUE(Add("uid:1"));
  ASSERT_TRUE(Add("uid:2"));
  ASSERT_TRUE(Add("uid:2"));
  turns_.End(Next().lane, absl::Seconds(1));  // uid:1's first.
  EXPECT_THAT(Next().job, Optional(3));
  turns_.End(0, absl::Milliseconds(10));
  EXPECT_THAT(Next().job, Optional(4));
}

TEST_F(FairTurnsTest, APrincipalKeepsItsFigureOverAShortPause) {
  ASSERT_TRUE(Add("uid:1"));
  ASSERT_TRUE(Add("uid:2"));
  turns_.End(Next().lane, absl::Seconds(10));
  ASSERT_TRUE(Add("uid:1"));
  EXPECT_THAT(Next().job, Optional(2));
  turns_.End(0, kSlice);
  ASSERT_TRUE(Add("uid:2"));
  EXPECT_THAT(Next().job, Optional(4));
}

TEST_F(FairTurnsTest, OnePrincipalLeavesLanesToOthers) {
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Add("uid:1"));
  const int first = Next().lane;
  UseSlice(first);
  const FairTurns::Turn second = Next();
  EXPECT_TRUE(second.job.has_value());
  EXPECT_NE(second.lane, first);
  UseSlice(second.lane);
  // Two lanes stay free, so its two reports go on in turns.
  EXPECT_EQ(Next().lane, first);
  UseSlice(first);
  EXPECT_EQ(Next().lane, second.lane);
}

TEST_F(FairTurnsTest, TheLastLaneIsRoots) {
  for (const char* principal : {"uid:1", "uid:2", "uid:3", "uid:4"}) ASSERT_TRUE(Add(principal));
  for (int i = 0; i < 3; ++i) turns_.Leave(Next().lane, kSlice, FairTurns::Then::kAway);
  EXPECT_EQ(turns_.Next(now_), std::nullopt);
  ASSERT_TRUE(Add("uid:0"));
  EXPECT_THAT(Next().job, Optional(5));
}

TEST_F(FairTurnsTest, ASlowReaderDoesNotHoldTheTurn) {
  ASSERT_TRUE(Add("uid:1"));
  const int slow = Next().lane;
  turns_.Leave(slow, kSlice, FairTurns::Then::kAway);
  ASSERT_TRUE(Add("uid:2"));
  turns_.End(Next().lane, kSlice);
  EXPECT_EQ(turns_.Next(now_), std::nullopt);
  turns_.Want(slow);
  EXPECT_EQ(Next().lane, slow);
}

TEST_F(FairTurnsTest, WhenAllLanesAreTakenTheOldestReportHasToEnd) {
  for (const char* principal : {"uid:1", "uid:2", "uid:3"}) {
    ASSERT_TRUE(Add(principal));
    turns_.Leave(Next().lane, kSlice, FairTurns::Then::kAway);
    now_ += absl::Seconds(1);
  }
  ASSERT_TRUE(Add("uid:4"));
  now_ += absl::Milliseconds(999);
  EXPECT_EQ(turns_.LaneToEnd(now_), std::nullopt);  // It has not waited for long.
  now_ += absl::Seconds(6);
  EXPECT_EQ(turns_.LaneToEnd(now_), std::nullopt);  // Nobody has held a lane for long.
  now_ += absl::Seconds(1);
  EXPECT_THAT(turns_.LaneToEnd(now_), Optional(0));
  turns_.End(0, absl::ZeroDuration());
  EXPECT_EQ(turns_.LaneToEnd(now_), std::nullopt);
  EXPECT_THAT(Next().job, Optional(4));
}

TEST_F(FairTurnsTest, TooManyWaitingReportsAreRefused) {
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Add("uid:1"));
  EXPECT_FALSE(Add("uid:1"));
  for (int i = 2; i <= 32; ++i) {
    for (int j = 0; j < 8; ++j) ASSERT_TRUE(Add("uid:" + std::to_string(i)));
  }
  EXPECT_FALSE(Add("uid:33"));
  EXPECT_TRUE(Add("uid:0"));
  EXPECT_EQ(turns_.waiting(), 257);
}

}  // namespace
}  // namespace profd::worker
