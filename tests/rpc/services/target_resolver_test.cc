#include "daemon/rpc/services/target_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "daemon/base/reason.h"
#include "daemon/base/text.h"
#include "tests/fakes/callers.h"
#include "tests/fakes/status_matchers.h"

namespace profd::rpc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

class FakeProcessTable final : public ProcessTable {
 public:
  void Add(int64_t pid, int64_t parent_pid, int64_t uid) { processes_[pid] = {parent_pid, uid}; }
  std::optional<ProcessFacts> Find(int64_t pid) const override {
    const auto it = processes_.find(pid);
    if (it == processes_.end()) return std::nullopt;
    return it->second;
  }

 private:
  std::map<int64_t, ProcessFacts> processes_;
};

//  1 init
//  ├─ 100 sshd (root)
//  │   └─ 200 bash (alice)
//  │       ├─ 300 torchrun (alice)
//  │       │   ├─ 301 rank 0: target 1
//  │       │   └─ 302 rank 1: target 2
//  │       └─ 400 vim (alice)
//  ├─ 500 bash (bob)
//  │   └─ 501 train: target 3
//  └─ 600, 700: containers, with alice's targets 4 and 5, both pid 7 inside;
//     800: another, with target 6, pid 8 inside
class TargetResolverTest : public testing::Test {
 protected:
  TargetResolverTest() {
    processes_.Add(1, 0, 0);
    processes_.Add(100, 1, 0);
    processes_.Add(200, 100, 1000);
    processes_.Add(300, 200, 1000);
    AddTarget(1, 301, 300, 1000);
    AddTarget(2, 302, 300, 1000);
    processes_.Add(400, 200, 1000);
    processes_.Add(500, 1, 1001);
    AddTarget(3, 501, 500, 1001);
    AddContainerTarget(4, 600, 7);
    AddContainerTarget(5, 700, 7);
    AddContainerTarget(6, 800, 8);
    processes_.Add(8, 2, 0);  // Some kernel thread.
    processes_.Add(2, 0, 0);
  }

  void AddTarget(TargetNumber number, int64_t pid, int64_t parent, int64_t uid) {
    processes_.Add(pid, parent, uid);
    targets_.push_back({.number = number, .pid = pid, .uid = uid, .namespace_pid = pid});
  }
  void AddContainerTarget(TargetNumber number, int64_t pid, int64_t namespace_pid) {
    AddTarget(number, pid, 1, 1000);
    targets_.back().namespace_pid = namespace_pid;
    targets_.back().foreign_namespace = true;
  }

  absl::StatusOr<std::vector<int64_t>> Resolve(const Caller& caller,
                                               const std::vector<int64_t>& pids, bool all = false) {
    auto found = ResolveTargets(caller, pids, all, targets_, processes_);
    if (!found.ok()) return found.status();
    std::vector<int64_t> found_pids;
    for (const TargetInfo& target : *found) found_pids.push_back(target.pid);
    return found_pids;
  }
  void ExpectFailure(const absl::StatusOr<std::vector<int64_t>>& result, Code code,
                     std::string_view reason) {
    EXPECT_THAT(result, StatusIs(code));
    EXPECT_EQ(profd::ReasonOf(result.status()), reason);
  }

  FakeProcessTable processes_;
  std::vector<TargetInfo> targets_;
};

TEST_F(TargetResolverTest, ATargetsOwnPidIsThatTarget) {
  EXPECT_THAT(Resolve(kAlice, {302}), IsOkAndHolds(ElementsAre(302)));
}

TEST_F(TargetResolverTest, ALauncherStandsForAllBelowIt) {
  EXPECT_THAT(Resolve(kAlice, {300}), IsOkAndHolds(ElementsAre(301, 302)));
  EXPECT_THAT(Resolve(kAlice, {200}), IsOkAndHolds(ElementsAre(301, 302)));
}

TEST_F(TargetResolverTest, ALauncherThatIsATargetStandsForThoseBelowItThatMarkSteps) {
  AddTarget(7, 310, 200, 1000);
  AddTarget(8, 311, 310, 1000);
  AddTarget(9, 312, 310, 1000);
  AddTarget(10, 313, 310, 1000);
  EXPECT_THAT(Resolve(kAlice, {310}), IsOkAndHolds(ElementsAre(310))) << "nobody marks steps yet";
  targets_[targets_.size() - 3].step_mark_count = 4;
  targets_[targets_.size() - 2].step_mark_count = 5;
  EXPECT_THAT(Resolve(kAlice, {310}), IsOkAndHolds(ElementsAre(311, 312)));
  targets_[targets_.size() - 4].step_mark_count = 1;
  EXPECT_THAT(Resolve(kAlice, {310}), IsOkAndHolds(ElementsAre(310))) << "it has steps itself";
}

TEST_F(TargetResolverTest, ALauncherOfRootStandsForTheCallersOwn) {
  EXPECT_THAT(Resolve(kAlice, {100}), IsOkAndHolds(ElementsAre(301, 302)));
  EXPECT_THAT(Resolve(kRoot, {1}), IsOkAndHolds(ElementsAre(301, 302, 501, 600, 700, 800)));
}

TEST_F(TargetResolverTest, EachTargetComesOnceAndByPid) {
  EXPECT_THAT(Resolve(kAlice, {302, 300, 301, 302}), IsOkAndHolds(ElementsAre(301, 302)));
}

TEST_F(TargetResolverTest, AContainersPidIsTakenWhereItIsUnique) {
  // On the machine itself pid 8 is something else, which is no target.
  EXPECT_THAT(Resolve(kAlice, {8}), IsOkAndHolds(ElementsAre(800)));
}

TEST_F(TargetResolverTest, AContainersPidIsRefusedWhereSeveralHaveIt) {
  const auto result = Resolve(kAlice, {7});
  ExpectFailure(result, Code::kFailedPrecondition, "AMBIGUOUS_PID");
  EXPECT_THAT(result, StatusIs(Code::kFailedPrecondition, HasSubstr("600, 700")));
}

TEST_F(TargetResolverTest, ATargetOnThisMachineComesBeforeAContainers) {
  AddTarget(9, 7, 1, 1000);
  EXPECT_THAT(Resolve(kAlice, {7}), IsOkAndHolds(ElementsAre(7)));
}

TEST_F(TargetResolverTest, OthersTargetsAreRefused) {
  ExpectFailure(Resolve(kAlice, {501}), Code::kPermissionDenied, "OTHER_OWNER");
  ExpectFailure(Resolve(kAlice, {500}), Code::kPermissionDenied, "OTHER_OWNER");
  EXPECT_THAT(Resolve(kRoot, {501}), IsOkAndHolds(ElementsAre(501)));
}

TEST_F(TargetResolverTest, OneBadPidRefusesAll) {
  ExpectFailure(Resolve(kAlice, {301, 501}), Code::kPermissionDenied, "OTHER_OWNER");
}

TEST_F(TargetResolverTest, AProcessWithoutTheLibraryIsNamed) {
  const auto result = Resolve(kAlice, {400});
  ExpectFailure(result, Code::kFailedPrecondition, "NOT_INSTRUMENTED");
  EXPECT_THAT(result, StatusIs(Code::kFailedPrecondition,
                               AllOf(HasSubstr("pid 400"), HasSubstr("profd.init()"))));
}

// Few programs have to be changed, and fewer users want to.
TEST_F(TargetResolverTest, TheWayWithoutAChangeOfCodeComesFirst) {
  for (const auto& result : {Resolve(kAlice, {400}), Resolve(Caller{.uid = 7}, {}),
                             Resolve(Caller{.uid = 7}, {}, true)}) {
    const std::string_view message = FromAbsl(result.status().message());
    EXPECT_LT(message.find("`profctl run -- CMD...`"), message.find("profd_init()")) << message;
  }
}

TEST_F(TargetResolverTest, APidThatNobodyHasIsNamed) {
  ExpectFailure(Resolve(kAlice, {4242}), Code::kNotFound, "NO_SUCH_PROCESS");
}

TEST_F(TargetResolverTest, AllMeansAllOfTheCaller) {
  EXPECT_THAT(Resolve(kAlice, {}, true), IsOkAndHolds(ElementsAre(301, 302, 600, 700, 800)));
  EXPECT_THAT(Resolve(kRoot, {}, true), IsOkAndHolds(ElementsAre(301, 302, 501, 600, 700, 800)));
  ExpectFailure(Resolve(Caller{.uid = 7}, {}, true), Code::kFailedPrecondition, "NO_TARGETS");
}

TEST_F(TargetResolverTest, NoPidMeansTheOnlyTarget) {
  EXPECT_THAT(Resolve(Caller{.uid = 1001}, {}), IsOkAndHolds(ElementsAre(501)));
  ExpectFailure(Resolve(Caller{.uid = 7}, {}), Code::kFailedPrecondition, "NO_TARGETS");
  const auto several = Resolve(kAlice, {});
  ExpectFailure(several, Code::kFailedPrecondition, "SEVERAL_TARGETS");
  EXPECT_THAT(several, StatusIs(Code::kFailedPrecondition,
                                AllOf(HasSubstr("301, 302"), Not(HasSubstr("501")))));
}

TEST_F(TargetResolverTest, TargetsThatAreGoneDoNotCount) {
  for (TargetInfo& target : targets_) {
    if (target.pid != 301) target.state = TargetState::kGone;
  }
  EXPECT_THAT(Resolve(kAlice, {}), IsOkAndHolds(ElementsAre(301)));
  EXPECT_THAT(Resolve(kAlice, {300}), IsOkAndHolds(ElementsAre(301)));
}

TEST_F(TargetResolverTest, AsksThatMakeNoSenseAreRefused) {
  EXPECT_THAT(Resolve(kAlice, {0}), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(Resolve(kAlice, {-5}), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(Resolve(kAlice, {301}, true), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(Resolve(kAlice, std::vector<int64_t>(1025, 301)), StatusIs(Code::kInvalidArgument));
}

TEST_F(TargetResolverTest, ParentsThatGoRoundInACircleEnd) {
  processes_.Add(900, 901, 1000);
  processes_.Add(901, 900, 1000);
  AddTarget(10, 902, 900, 1000);
  EXPECT_THAT(Resolve(kAlice, {400}), StatusIs(Code::kFailedPrecondition));
  EXPECT_THAT(Resolve(kAlice, {901}), IsOkAndHolds(ElementsAre(902)));
}

TEST(ProcessStatusTest, ParentAndRealUidAreRead) {
  const auto facts = ParseProcessStatus(
      "Name:\tPPid: 9 Uid:\nUmask:\t0022\nTgid:\t12\nPid:\t12\nPPid:\t7\n"
      "Uid:\t1000\t0\t0\t0\nGid:\t5\t5\t5\t5\n");
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->parent_pid, 7);
  EXPECT_EQ(facts->uid, 1000);
  EXPECT_FALSE(facts->has_ended);
  const auto zombie = ParseProcessStatus(
      "Name:\tState:\tR\nState:\tZ (zombie)\nPid:\t12\nPPid:\t7\nUid:\t1000\t0\t0\t0\n"
      "Threads:\t1\n");
  ASSERT_TRUE(zombie.has_value());
  EXPECT_TRUE(zombie->has_ended);
  const auto without_main_thread = ParseProcessStatus(
      "Name:\tx\nState:\tZ (zombie)\nPPid:\t7\nUid:\t1000\t0\t0\t0\nThreads:\t2\n");
  ASSERT_TRUE(without_main_thread.has_value());
  EXPECT_FALSE(without_main_thread->has_ended);
  EXPECT_FALSE(ParseProcessStatus("Name:\tx\n").has_value());
  EXPECT_FALSE(ParseProcessStatus("").has_value());
}

TEST(ProcessStatusTest, TheRealTableKnowsThisProcess) {
  const auto facts = ProcessTable::Real().Find(getpid());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->parent_pid, getppid());
  EXPECT_EQ(facts->uid, static_cast<int64_t>(getuid()));
  EXPECT_FALSE(ProcessTable::Real().Find(0).has_value());
  EXPECT_FALSE(ProcessTable::Real().Find(int64_t{1} << 40).has_value());
}

}  // namespace
}  // namespace profd::rpc
