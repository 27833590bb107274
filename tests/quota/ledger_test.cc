#include "daemon/quota/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/reason.h"
#include "tests/fakes/fake_clock.h"

namespace profd::quota {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kProfdUid = 990;
constexpr Resource kTargets = Resource::kTargets;

Principal Uid(int64_t uid) { return LocalPrincipal(uid, kProfdUid); }
Principal Job(int64_t uid, std::string_view job) {
  return LocalPrincipal(uid, kProfdUid, {.job = job});
}

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() {
    ledger_.SetLimit(kTargets, {.capacity = 100, .reserve = 20});
    ledger_.SetLimit(Resource::kSchedules, {.capacity = 100, .reserve = 20});
    ledger_.SetLimit(Resource::kCaptureRequests, {.capacity = 100, .reserve = 20});
  }

  // Whether `who` gets it; then it is held until the test ends.
  bool Take(const Principal& who, int64_t amount, Resource resource = kTargets) {
    absl::StatusOr<Reservation> reservation = ledger_.Reserve(who, resource, amount);
    if (!reservation.ok()) return false;
    held_.push_back(*std::move(reservation));
    return true;
  }
  std::string RefusalOf(const Principal& who, int64_t amount, Resource resource = kTargets) {
    const absl::Status refusal = ledger_.Check(who, resource, amount);
    EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(refusal), kQuotaExceeded);
    return std::string(refusal.message());
  }

  FakeClock clock_;
  Ledger ledger_{Limits::ForMemory(int64_t{2} << 30), clock_};
  std::vector<Reservation> held_;
};

TEST_F(LedgerTest, OneThatIsAloneMayUseAllButRootsReserve) {
  EXPECT_TRUE(Take(Uid(1000), 80));
  EXPECT_FALSE(Take(Uid(1000), 1));
}

TEST_F(LedgerTest, RootMayUseItsReserveAndWhateverElseIsFree) {
  ASSERT_TRUE(Take(Uid(1000), 80));
  EXPECT_TRUE(Take(Uid(0), 20));
  EXPECT_FALSE(Take(Uid(0), 1));
  held_.clear();
  EXPECT_TRUE(Take(Uid(0), 100));
}

TEST_F(LedgerTest, WhatRootUsesIsTakenFromItsReserveFirst) {
  ASSERT_TRUE(Take(Uid(0), 15));
  EXPECT_TRUE(Take(Uid(1000), 80));
  held_.clear();
  ASSERT_TRUE(Take(Uid(0), 30));
  EXPECT_FALSE(Take(Uid(1000), 71));
  EXPECT_TRUE(Take(Uid(1000), 70));
}

TEST_F(LedgerTest, TheUserOfTheDaemonHasTheReserveToo) { EXPECT_TRUE(Take(Uid(kProfdUid), 100)); }

TEST_F(LedgerTest, AJobOfRootIsAPrincipalWithoutTheReserve) {
  EXPECT_TRUE(Take(Job(0, "7"), 80));
  EXPECT_FALSE(Take(Job(0, "7"), 1));
  EXPECT_FALSE(Take(Job(0, "8"), 1));
  EXPECT_TRUE(Take(Uid(0), 20));
}

TEST_F(LedgerTest, AsSoonAsASecondOneAsksTheLargestHolderGetsNoMore) {
  ASSERT_TRUE(Take(Uid(1000), 60));
  EXPECT_TRUE(Take(Uid(1001), 1));
  EXPECT_FALSE(Take(Uid(1000), 1));
  EXPECT_TRUE(Take(Uid(1001), 19));  // All of the 80 are taken now: 60 and 20.
  EXPECT_FALSE(Take(Uid(1001), 1));
}

TEST_F(LedgerTest, ARefusedRequestKeepsItsShareForAMinute) {
  ASSERT_TRUE(Take(Uid(1000), 80));
  ASSERT_FALSE(Take(Uid(1001), 1));
  held_.front().Resize(50);  // 30 are free, and 1000 is above half of the 80.
  EXPECT_FALSE(Take(Uid(1000), 1));
  EXPECT_TRUE(Take(Uid(1001), 30));
}

TEST_F(LedgerTest, ARefusedRequestIsForgottenAfterAMinute) {
  ASSERT_TRUE(Take(Uid(1000), 80));
  ASSERT_FALSE(Take(Uid(1001), 1));
  held_.front().Resize(50);
  clock_.Advance(kActiveAfterAsking);
  EXPECT_TRUE(Take(Uid(1000), 1));
}

TEST_F(LedgerTest, NothingIsRevoked) {
  ASSERT_TRUE(Take(Uid(1000), 70));
  ASSERT_TRUE(Take(Uid(1001), 10));
  EXPECT_EQ(ledger_.Use(Uid(1000), kTargets), 70);
}

TEST_F(LedgerTest, EachOfThreeGetsAThird) {
  ASSERT_TRUE(Take(Uid(1000), 1));
  ASSERT_TRUE(Take(Uid(1001), 1));
  EXPECT_TRUE(Take(Uid(1002), 26));
  EXPECT_FALSE(Take(Uid(1002), 1));
  EXPECT_EQ(ledger_.Available(Uid(1000), kTargets), 25);
}

TEST_F(LedgerTest, JobsOfOneUidShareThePartOfThatUid) {
  ASSERT_TRUE(Take(Uid(1000), 1));
  ASSERT_TRUE(Take(Job(1001, "1"), 1));
  ASSERT_TRUE(Take(Job(1001, "2"), 1));
  ASSERT_TRUE(Take(Job(1001, "3"), 1));
  // However many jobs uid 1001 claims to have, half of the 80 is for uid 1000.
  EXPECT_EQ(ledger_.Available(Uid(1000), kTargets), 39);
  EXPECT_EQ(ledger_.Available(Job(1001, "1"), kTargets), 12);  // 80 / 2 / 3, less 1.
}

TEST_F(LedgerTest, AnAccountAboveItsShareGetsNothingThroughANewJob) {
  ASSERT_TRUE(Take(Job(1001, "1"), 45));
  ASSERT_TRUE(Take(Uid(1000), 1));
  EXPECT_FALSE(Take(Job(1001, "2"), 1));
}

TEST_F(LedgerTest, APrincipalNeverExceedsItsOwnLimit) {
  ledger_.SetLimit(kTargets, {.capacity = 100, .reserve = 20, .per_principal = 5});
  EXPECT_TRUE(Take(Uid(1000), 5));
  EXPECT_FALSE(Take(Uid(1000), 1));
  EXPECT_TRUE(Take(Uid(0), 50));  // Root has no such limit.
}

TEST_F(LedgerTest, AnAccountDoesNotExceedItsLimitThroughManyJobs) {
  ledger_.SetLimit(kTargets,
                   {.capacity = 100, .reserve = 20, .per_principal = 5, .per_account = 12});
  EXPECT_TRUE(Take(Job(1000, "1"), 5));
  EXPECT_TRUE(Take(Job(1000, "2"), 5));
  EXPECT_FALSE(Take(Job(1000, "3"), 3));
  EXPECT_TRUE(Take(Job(1000, "3"), 2));
  EXPECT_TRUE(Take(Uid(1001), 5));
  EXPECT_TRUE(Take(Uid(0), 50));
}

TEST_F(LedgerTest, AFirstHolderLeavesTheFloorToNewcomers) {
  ledger_.SetLimit(kTargets, {.capacity = 100, .reserve = 20, .floor = 20});
  EXPECT_FALSE(Take(Uid(1000), 61));
  EXPECT_TRUE(Take(Uid(1000), 60));
  EXPECT_FALSE(Take(Uid(1000), 1));
  EXPECT_FALSE(Take(Job(1000, "7"), 1)) << "another job is the same account";
  EXPECT_TRUE(Take(Uid(1001), 10));
  EXPECT_FALSE(Take(Uid(1001), 1));
  EXPECT_TRUE(Take(Uid(1002), 5));
  EXPECT_TRUE(Take(Uid(1003), 3));
  EXPECT_TRUE(Take(Uid(1004), 1));
  EXPECT_TRUE(Take(Uid(1005), 1));
  EXPECT_FALSE(Take(Uid(1006), 1)) << "nothing is left of it";
  EXPECT_TRUE(Take(Uid(0), 20)) << "root's reserve is apart from it";
}

TEST_F(LedgerTest, ANewcomerGetsTheSamePieceByPiece) {
  ledger_.SetLimit(kTargets, {.capacity = 100, .reserve = 20, .floor = 20});
  ASSERT_TRUE(Take(Uid(1000), 60));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Take(Uid(1001), 1)) << i;
  EXPECT_FALSE(Take(Uid(1001), 1));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Take(Uid(1002), 1)) << i;
  EXPECT_FALSE(Take(Uid(1002), 1));
}

TEST_F(LedgerTest, TheFloorIsLeftByManyHoldersToo) {
  ledger_.SetLimit(kTargets, {.capacity = 100, .reserve = 20, .floor = 20});
  for (int64_t uid = 1000; uid < 1004; ++uid) ASSERT_TRUE(Take(Uid(uid), 15)) << uid;
  EXPECT_FALSE(Take(Uid(1000), 1));
  EXPECT_EQ(ledger_.Available(Uid(1004), kTargets), 10);
}

TEST_F(LedgerTest, HoldingDurableThingsLimitsNobodyElse) {
  ASSERT_TRUE(Take(Uid(1001), 5, Resource::kSchedules));
  clock_.Advance(kActiveAfterAsking);
  EXPECT_TRUE(Take(Uid(1000), 75, Resource::kSchedules));
}

TEST_F(LedgerTest, UseOfAResourceWithAWindowFades) {
  ASSERT_TRUE(ledger_.Reserve(Uid(1000), Resource::kCaptureRequests, 80).ok());
  EXPECT_EQ(ledger_.Use(Uid(1000), Resource::kCaptureRequests), 80);
  EXPECT_FALSE(ledger_.Reserve(Uid(1000), Resource::kCaptureRequests, 1).ok());
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(ledger_.Use(Uid(1000), Resource::kCaptureRequests), 29);  // 80 / e
  EXPECT_TRUE(ledger_.Reserve(Uid(1000), Resource::kCaptureRequests, 51).ok());
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(ledger_.Use(Uid(1000), Resource::kCaptureRequests), 0);
}

TEST_F(LedgerTest, AReservationReturnsWhatItHeld) {
  {
    absl::StatusOr<Reservation> reservation = ledger_.Reserve(Uid(1000), kTargets, 30);
    ASSERT_TRUE(reservation.ok());
    Reservation moved = *std::move(reservation);
    EXPECT_EQ(moved.amount(), 30);
    EXPECT_EQ(ledger_.TotalUse(kTargets), 30);
    moved.Resize(7);
    EXPECT_EQ(ledger_.TotalUse(kTargets), 7);
  }
  EXPECT_EQ(ledger_.TotalUse(kTargets), 0);
}

TEST_F(LedgerTest, WhatIsKeptStaysUntilItIsDischarged) {
  ledger_.Reserve(Uid(1000), Resource::kSchedules, 3)->Keep();
  EXPECT_EQ(ledger_.Use(Uid(1000), Resource::kSchedules), 3);
  ledger_.Discharge(Uid(1000), Resource::kSchedules, 1);
  EXPECT_EQ(ledger_.Use(Uid(1000), Resource::kSchedules), 2);
  ledger_.Discharge(Uid(1000), Resource::kSchedules, 9);
  EXPECT_EQ(ledger_.Use(Uid(1000), Resource::kSchedules), 0);
}

TEST_F(LedgerTest, WhatHasHappenedIsChargedAboveAnyLimit) {
  ledger_.Charge(Uid(1000), kTargets, 500);
  EXPECT_EQ(ledger_.Use(Uid(1000), kTargets), 500);
  EXPECT_FALSE(Take(Uid(1001), 1));
  ledger_.SetUse(Uid(1000), kTargets, 10);
  EXPECT_TRUE(Take(Uid(1001), 1));
}

TEST_F(LedgerTest, ARefusalNamesTheQuotaTheLimitAndTheHolder) {
  ledger_.SetLimit(Resource::kCaptureMemory, {.capacity = 512 << 20, .reserve = 64 << 20});
  ASSERT_TRUE(Take(Uid(1002), 448 << 20, Resource::kCaptureMemory));
  EXPECT_THAT(RefusalOf(Uid(1000), 64 << 20, Resource::kCaptureMemory),
              AllOf(HasSubstr("quota 'capture memory' of uid:1000 is exceeded"),
                    HasSubstr("asks for 64 MiB"), HasSubstr("448 MiB of 512 MiB"),
                    HasSubstr("64 MiB reserved for root"),
                    HasSubstr("largest holder: uid 1002 with 448 MiB")));
}

TEST_F(LedgerTest, ARefusalOfMoreThanItCanEverHaveDoesNotAskToRetry) {
  constexpr auto kAnswers = Resource::kAnswerMemory;
  const auto is_final =
      AllOf(HasSubstr("can ever be had)"), HasSubstr("; ask for less"), Not(HasSubstr("retry")));
  ledger_.SetLimit(kAnswers, {.capacity = 100, .reserve = 20, .per_account = 65, .floor = 10});
  EXPECT_THAT(RefusalOf(Uid(1000), 66, kAnswers), is_final);
  EXPECT_THAT(RefusalOf(Uid(0), 101, kAnswers), is_final);
  ASSERT_TRUE(Take(Uid(1000), 65, kAnswers));
  EXPECT_THAT(RefusalOf(Uid(1000), 65, kAnswers), HasSubstr("; retry later"));
  EXPECT_THAT(RefusalOf(Uid(0), 100, kAnswers), HasSubstr("; retry later"));
  ledger_.SetLimit(kAnswers, {.capacity = 100, .reserve = 20, .floor = 10});
  EXPECT_THAT(RefusalOf(Uid(1001), 71, kAnswers), is_final);
  ledger_.SetLimit(kAnswers, {.capacity = 100, .per_principal = 30});
  EXPECT_THAT(RefusalOf(Uid(1001), 31, kAnswers), is_final);
  EXPECT_THAT(
      RefusalOf(Uid(1002), 101, Resource::kSchedules),
      AllOf(HasSubstr("asks for 101 (at most 80 can ever be had)"), Not(HasSubstr("delete some"))));
  // Of this one the amount says by how much the store is too large.
  EXPECT_THAT(std::string(ledger_.Refusal(Uid(1002), Resource::kSchedules, 101).message()),
              AllOf(HasSubstr("delete some and retry"), Not(HasSubstr("ask for less"))));
}

TEST_F(LedgerTest, ARefusalNamesNoJobOfOthers) {
  ASSERT_TRUE(Take(Job(1002, "88123"), 80));
  EXPECT_THAT(RefusalOf(Uid(1000), 1), Not(HasSubstr("88123")));
  EXPECT_THAT(RefusalOf(Job(1002, "5"), 1), HasSubstr("uid:1002/job:88123"));
  EXPECT_THAT(RefusalOf(Uid(0), 21), HasSubstr("uid:1002/job:88123"));
  ledger_.SetUse(Job(1002, "88123"), kTargets, 0);
  ledger_.Charge(RemotePrincipal("cn:alice"), kTargets, 80);
  EXPECT_THAT(RefusalOf(Uid(1000), 1), AllOf(HasSubstr("a remote caller"), Not(HasSubstr("ali"))));
}

TEST_F(LedgerTest, ASnapshotHasEveryChargedResourceAndTheLargestHolderFirst) {
  ASSERT_TRUE(Take(Uid(1000), 10));
  ASSERT_TRUE(Take(Uid(1001), 30));
  ASSERT_TRUE(Take(Uid(0), 15));
  ASSERT_FALSE(Take(Uid(1001), 30));
  const std::vector<Ledger::ResourceUse> uses = ledger_.Snapshot();
  ASSERT_EQ(std::ssize(uses), std::ssize(AllResources()));
  EXPECT_EQ(uses[0].used, 55);
  EXPECT_EQ(uses[0].refused_count, 1);
  EXPECT_THAT(
      uses[0].holdings,
      ElementsAre(AllOf(Field(&Ledger::Holding::who, Uid(1001)),
                        Field(&Ledger::Holding::amount, 30), Field(&Ledger::Holding::share, 40)),
                  AllOf(Field(&Ledger::Holding::who, Uid(0)), Field(&Ledger::Holding::share, 100)),
                  Field(&Ledger::Holding::who, Uid(1000))));
  EXPECT_EQ(ledger_.LargestHolder(kTargets)->who, Uid(1001));
}

TEST_F(LedgerTest, RootIsNeverTheLargestHolder) {
  ASSERT_TRUE(Take(Uid(0), 90));
  EXPECT_FALSE(ledger_.LargestHolder(kTargets).has_value());
}

TEST_F(LedgerTest, CountsExactlyWithManyThreads) {
  ledger_.SetLimit(kTargets, {.capacity = 100'000, .reserve = 0});
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this, t] {
        for (int i = 0; i < 500; ++i) {
          absl::StatusOr<Reservation> two = ledger_.Reserve(Uid(1000 + t % 2), kTargets, 2);
          if (i % 5 == 0 && two.ok()) two->Keep();
        }
      });
    }
  }
  EXPECT_EQ(ledger_.TotalUse(kTargets), 4 * 100 * 2);
}

}  // namespace
}  // namespace profd::quota
