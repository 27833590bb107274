// When a job-wide capture begins, and whether enough of its processes can take part.
#include "cli/captures/group_start.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);
constexpr int64_t kMs = 1'000'000;

int64_t FirstStep(const std::vector<MemberPace>& members, const CaptureSpec& spec = {.steps = 5},
                  absl::Duration lead = absl::Milliseconds(100)) {
  return FirstStepFor(members, spec, lead, kNow);
}

TargetInfo Rank(const std::string& rank, const std::string& world_size) {
  TargetInfo target;
  if (!rank.empty()) target.metadata["rank"] = rank;
  if (!world_size.empty()) target.metadata["world_size"] = world_size;
  return target;
}

TEST(RunInStepTest, NoneIsMoreThanTenSecondsFromTheFurthest) {
  const auto run = [](int64_t behind, absl::Duration read_ago) {
    return RunInStep(
        std::vector<MemberPace>{
            {.step = 1000, .median_step_ns = 100 * kMs, .read = kNow},
            {.step = 1000 - behind, .median_step_ns = 100 * kMs, .read = kNow - read_ago}},
        absl::Milliseconds(500), kNow);
  };
  EXPECT_TRUE(run(0, absl::ZeroDuration()));
  EXPECT_TRUE(run(90, absl::ZeroDuration()));
  EXPECT_FALSE(run(110, absl::ZeroDuration()));
  // Read a minute ago, it has run 600 steps since.
  EXPECT_TRUE(run(600, absl::Minutes(1)));
  EXPECT_TRUE(
      RunInStep(std::vector<MemberPace>{{.step = 7, .read = kNow}, {.step = 9999, .read = kNow}},
                absl::ZeroDuration(), kNow))
      << "of an unknown pace";
}

TargetInfo OfUser(int64_t uid, int64_t pid, const std::string& slurm_job = "") {
  TargetInfo target = {.pid = pid, .uid = uid};
  target.workload.slurm_job = slurm_job;
  return target;
}

std::vector<int64_t> PidsOf(const std::vector<TargetInfo>& targets) {
  std::vector<int64_t> pids;
  pids.reserve(targets.size());
  for (const TargetInfo& target : targets) pids.push_back(target.pid);
  return pids;
}

TEST(OtherUsersTest, AreThoseWithFewerProcesses) {
  std::vector<TargetInfo> targets = {OfUser(1000, 1), OfUser(65534, 2), OfUser(1000, 3)};
  EXPECT_THAT(PidsOf(TakeOutOtherUsers(targets)), ElementsAre(2));
  EXPECT_THAT(PidsOf(targets), ElementsAre(1, 3));
  EXPECT_THAT(TakeOutOtherUsers(targets), IsEmpty());
  EXPECT_EQ(WhyOtherUser(OfUser(65534, 2), "88"),
            "pid 2 is left out: it belongs to uid 65534, and job 88 to another user");
}

TEST(OtherUsersTest, AreThoseThatOnlySayTheirJobHoweverManyTheyAre) {
  std::vector<TargetInfo> targets = {OfUser(65534, 1), OfUser(65534, 2), OfUser(1000, 3, "88")};
  EXPECT_THAT(PidsOf(TakeOutOtherUsers(targets)), ElementsAre(1, 2));
  EXPECT_THAT(PidsOf(targets), ElementsAre(3));
}

TEST(AbsentRanksTest, AreThoseThatTheJobSpeaksOfAndNobodyHas) {
  EXPECT_THAT(AbsentRanks(std::vector{Rank("2", "4"), Rank("0", "4")}), ElementsAre(1, 3));
  EXPECT_THAT(AbsentRanks(std::vector{Rank("0", "2"), Rank("1", ""), Rank("1", "2")}), IsEmpty());
}

TEST(AbsentRanksTest, AreNotToldFromWhatIsNotSaid) {
  EXPECT_THAT(AbsentRanks(std::vector{Rank("0", "")}), IsEmpty());
  EXPECT_THAT(AbsentRanks(std::vector{Rank("0", "3"), Rank("", "3")}), IsEmpty()) << "any rank";
  for (const std::string lie : {"-5", "many", "99999999999999999999", "1000000"}) {
    EXPECT_THAT(AbsentRanks(std::vector{Rank("0", lie)}), IsEmpty()) << lie;
  }
  EXPECT_THAT(AbsentRanks({}), IsEmpty());
}

TEST(WorldSizeTest, IsTheLargestThatAProcessReports) {
  EXPECT_EQ(WorldSizeOf(std::vector{Rank("0", "4"), Rank("1", "")}), 4);
  EXPECT_EQ(WorldSizeOf(std::vector{Rank("0", "4"), Rank("", "4")}), std::nullopt) << "any rank";
  for (const std::string lie : {"", "0", "-5", "many", "99999999999999999999", "1000000"}) {
    EXPECT_EQ(WorldSizeOf(std::vector{Rank("0", lie)}), std::nullopt) << lie;
  }
}

TEST(MembersAskedForTest, ANodeWithoutAnAnswerIsNoRankOfAWorldThatIsKnown) {
  EXPECT_EQ(MembersAskedFor(12, 2, 12), 12);
  EXPECT_EQ(MembersAskedFor(10, 1, 12), 12);
  EXPECT_EQ(MembersAskedFor(12, 2, std::nullopt), 14);
  EXPECT_EQ(MembersAskedFor(3, 0, 2), 3) << "a rank that was restarted";
}

TEST(ClockOffsetTest, IsOfTheShortestRoundTrip) {
  const std::vector<ClockProbe> probes = {
      {.sent_unix_ns = 1'000, .answered_unix_ns = 9'000, .node_unix_ns = 50'000},
      {.sent_unix_ns = 10'000, .answered_unix_ns = 10'401, .node_unix_ns = 15'200},
      {.sent_unix_ns = 20'000, .answered_unix_ns = 29'000, .node_unix_ns = 70'000}};
  const ClockOffset offset = OffsetFrom(probes);
  EXPECT_EQ(offset.offset_ns, 5'000);
  EXPECT_EQ(offset.bound_ns, 201) << "rounded up";
}

TEST(ClockOffsetTest, HoldsTheTrueOffsetWhateverTheWaysTake) {
  // The node is 700 behind; 300 there and 20 back.
  const ClockProbe probe{.sent_unix_ns = 1'000, .answered_unix_ns = 1'320, .node_unix_ns = 600};
  const ClockOffset offset = OffsetFrom({&probe, 1});
  EXPECT_LE(std::abs(offset.offset_ns - -700), offset.bound_ns);
}

TEST(ClockOffsetTest, AProbeDuringWhichOurClockWasSetIsNotUsed) {
  const ClockProbe probe{.sent_unix_ns = 5'000, .answered_unix_ns = 1'000, .node_unix_ns = 600};
  EXPECT_EQ(OffsetFrom({&probe, 1}).bound_ns, -1);
  EXPECT_EQ(OffsetFrom({}).bound_ns, -1);
}

TEST(FirstStepTest, IsAheadOfTheFurthestByTheLead) {
  // 100 ms are 10 steps; two to spare, one of warm-up.
  EXPECT_EQ(FirstStep({{.step = 100, .median_step_ns = 10 * kMs, .read = kNow},
                       {.step = 103, .median_step_ns = 10 * kMs, .read = kNow}}),
            103 + 10 + 2 + 1);
}

TEST(FirstStepTest, LeavesRoomForWaitingAndWarmingUp) {
  EXPECT_EQ(FirstStep({{.step = 100, .median_step_ns = 10 * kMs, .read = kNow}},
                      {.steps = 5, .warmup_steps = 3, .wait_steps = 20}),
            100 + 10 + 2 + 23);
}

TEST(FirstStepTest, CountsWhatPassedSinceAMemberWasLookedAt) {
  const absl::Time read = kNow - absl::Milliseconds(50);
  EXPECT_EQ(FirstStep({{.step = 100, .median_step_ns = 10 * kMs, .read = read}}), 100 + 15 + 2 + 1);
}

TEST(FirstStepTest, AFastMemberBehindCanBeTheOneToMind) {
  EXPECT_EQ(FirstStep({{.step = 100, .median_step_ns = 1 * kMs, .read = kNow},
                       {.step = 110, .median_step_ns = 50 * kMs, .read = kNow}}),
            100 + 100 + 2 + 1);
}

TEST(FirstStepTest, WhoseStepsWereNotTimedGoesAsFastAsTheOthers) {
  EXPECT_EQ(
      FirstStep({{.step = 5, .read = kNow}, {.step = 4, .median_step_ns = 10 * kMs, .read = kNow}}),
      5 + 10 + 2 + 1);
  EXPECT_GT(FirstStep({{.step = 5, .read = kNow}}), 5);
  EXPECT_GT(FirstStep({{.step = -1, .read = kNow}}), 0) << "nobody knows where it is";
}

TEST(QuorumTest, IsReadFromWordsNumbersAndPercentages) {
  EXPECT_EQ(QuorumFrom("all")->percent, 100);
  EXPECT_EQ(QuorumFrom("7")->count, 7);
  EXPECT_EQ(QuorumFrom("90%")->percent, 90);
  for (const char* wrong : {"", "0", "-1", "101%", "0%", "%", "most", "7 ", "99999999999999999"}) {
    EXPECT_THAT(QuorumFrom(wrong), StatusIs(absl::StatusCode::kInvalidArgument)) << wrong;
  }
}

TEST(QuorumTest, WithoutOneThoseThatCanAreEnough) {
  EXPECT_TRUE(IsMet(std::nullopt, 1, 8));
  EXPECT_FALSE(IsMet(std::nullopt, 0, 8));
}

TEST(QuorumTest, PercentagesAreRoundedUp) {
  EXPECT_FALSE(IsMet(Quorum{.percent = 90}, 7, 8));
  EXPECT_TRUE(IsMet(Quorum{.percent = 85}, 7, 8));
  EXPECT_FALSE(IsMet(Quorum{.percent = 100}, 7, 8));
  EXPECT_TRUE(IsMet(Quorum{.count = 7}, 7, 8));
  EXPECT_FALSE(IsMet(Quorum{.count = 8}, 7, 8));
}

}  // namespace
}  // namespace profd::cli
