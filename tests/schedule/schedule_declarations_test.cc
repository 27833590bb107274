// Schedules that are declared: by version, alike on every node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/quota/ledger.h"
#include "daemon/schedule/schedule_runner.h"
#include "tests/fakes/callers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_schedule_store.h"
#include "tests/fakes/fake_scheduled_captures.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Code = absl::StatusCode;

constexpr char kDeclared[] = "01HZZZZZZZZZZZZZZZZZZZZZZA";

ScheduleSpec EveryMinutes(int64_t minutes) {
  return {.every = absl::Minutes(minutes), .align = true, .capture = {.steps = 3}};
}
ScheduleDeclaration Version(int64_t version, int64_t minutes, const std::string& id = kDeclared) {
  return {.id = id, .version = version, .spec = EveryMinutes(minutes)};
}
ScheduleDeclaration Deletion(int64_t version, const std::string& id = kDeclared) {
  return {.id = id, .version = version, .deleted = true};
}

// One daemon's schedules.
class DeclaredNode {
 public:
  DeclaredNode() {
    store_.ledger = &ledger_;
    Restart();
  }

  void Restart() {
    runner_.reset();
    runner_ = std::make_unique<ScheduleRunner>(
        ScheduleRunner::Options{.node_name = "node", .ledger = &ledger_}, store_, captures_,
        targets_, clock_);
    EXPECT_THAT(runner_->Start(), IsOk());
  }
  // So many schedules of a user who is not root.
  void LimitTo(int64_t schedules) {
    ledger_.SetLimit(quota::Resource::kSchedules, {.capacity = schedules + 1, .reserve = 1});
  }
  absl::StatusOr<AppliedDeclaration> Apply(const ScheduleDeclaration& declaration,
                                           const Caller& caller = kAlice, bool dry_run = false) {
    return runner_->Apply(caller, declaration, dry_run);
  }
  // "created", or the reason of the refusal.
  std::string Change(const ScheduleDeclaration& declaration, const Caller& caller = kAlice,
                     bool dry_run = false) {
    const auto applied = Apply(declaration, caller, dry_run);
    if (applied.ok()) return std::string(ToString(applied->change));
    const std::string reason = ReasonOf(applied.status());
    return reason.empty() ? std::string(applied.status().message()) : reason;
  }
  // nullopt: it is not here.
  std::optional<ScheduleView> Find(const std::string& id = kDeclared) {
    auto view = runner_->Get(kRoot, id);
    if (!view.ok()) return std::nullopt;
    return *std::move(view);
  }
  // "2 ACTIVE", "-"
  std::string State(const std::string& id = kDeclared) {
    const auto view = Find(id);
    return view.has_value() ? StrCat(view->record.version, " ", ToString(view->state)) : "-";
  }

  ScheduleRunner& runner() { return *runner_; }
  FakeScheduleStore& store() { return store_; }
  FakeClock& clock() { return clock_; }

 private:
  FakeClock clock_;
  FakeTargetPort targets_;
  FakeScheduledCaptures captures_{targets_, clock_};
  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), clock_};
  FakeScheduleStore store_;
  std::unique_ptr<ScheduleRunner> runner_;
};

// Of a remote user who owns no uid here.
class MayScheduleSomething final : public AccessRules {
 public:
  bool Allows(const Principal& /*who*/, Verb /*verb*/, const Ownership& /*of*/) const override {
    return false;
  }
  bool AllowsAny(const Principal& /*who*/, Verb /*verb*/) const override { return true; }
  bool AllowsAll(const Principal& /*who*/, Verb /*verb*/) const override { return false; }
};

TEST(ScheduleDeclarationsTest, TheSameDeclarationAgainChangesNothing) {
  DeclaredNode node;
  EXPECT_EQ(node.Change(Version(1, 30)), "created");
  EXPECT_EQ(node.Change(Version(1, 30)), "unchanged");
  node.Restart();
  EXPECT_EQ(node.Change(Version(1, 30)), "unchanged");
  EXPECT_EQ(node.State(), "1 ACTIVE");
}

TEST(ScheduleDeclarationsTest, AHigherVersionReplacesALowerOneAndKeepsItsHistory) {
  DeclaredNode node;
  EXPECT_EQ(node.Change(Version(1, 30)), "created");
  node.clock().Advance(absl::Minutes(31));
  node.runner().RunTimersForTesting();
  ASSERT_THAT(node.store().windows(), SizeIs(1));
  EXPECT_EQ(node.Change(Version(3, 10)), "updated");
  EXPECT_EQ(node.State(), "3 ACTIVE");
  EXPECT_EQ(node.Find()->record.spec.every, absl::Minutes(10));
  EXPECT_EQ(node.Find()->totals.windows, 1);
  // By the new spec from now on, and nothing is made up for.
  node.runner().RunTimersForTesting();
  EXPECT_THAT(node.store().windows(), SizeIs(1));
  node.clock().Advance(absl::Minutes(10));
  node.runner().RunTimersForTesting();
  EXPECT_THAT(node.store().windows(), SizeIs(2));
}

TEST(ScheduleDeclarationsTest, AnOldVersionIsRefusedAndNamed) {
  DeclaredNode node;
  node.Change(Version(3, 30));
  const auto refused = node.Apply(Version(2, 10));
  EXPECT_THAT(refused, StatusIs(Code::kFailedPrecondition));
  EXPECT_EQ(ReasonOf(refused.status()), "STALE_VERSION");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("version 3"));
  EXPECT_EQ(node.Find()->record.spec.every, absl::Minutes(30));
}

TEST(ScheduleDeclarationsTest, OneVersionHasOneSpec) {
  DeclaredNode node;
  node.Change(Version(3, 30));
  EXPECT_EQ(node.Change(Version(3, 10)), "VERSION_CONFLICT");
  EXPECT_EQ(node.Change(Deletion(3)), "VERSION_CONFLICT");
  EXPECT_EQ(node.State(), "3 ACTIVE");
  // On which nodes it was placed is no part of it.
  ScheduleDeclaration elsewhere = Version(3, 30);
  elsewhere.spec.nodes = {"gpu1", "gpu2"};
  EXPECT_EQ(node.Change(elsewhere), "unchanged");
}

TEST(ScheduleDeclarationsTest, WhatIsDeletedStaysDeletedUntilAHigherVersion) {
  DeclaredNode node;
  node.Change(Version(3, 30));
  ASSERT_THAT(node.runner().Delete(kAlice, kDeclared), IsOk());
  EXPECT_EQ(node.State(), "4 DELETED");
  EXPECT_EQ(node.Change(Version(3, 30)), "STALE_VERSION");
  EXPECT_EQ(node.Change(Version(4, 30)), "VERSION_CONFLICT");
  node.Restart();
  EXPECT_EQ(node.Change(Version(4, 30)), "VERSION_CONFLICT");
  EXPECT_THAT(node.runner().Create(kAlice, EveryMinutes(30), kDeclared),
              StatusIs(Code::kAlreadyExists));
  EXPECT_EQ(node.Change(Deletion(4)), "unchanged");
  EXPECT_EQ(node.Change(Version(5, 30)), "created");
  EXPECT_EQ(node.State(), "5 ACTIVE");
}

TEST(ScheduleDeclarationsTest, ATombstoneOutlivesTheRecordAndItsHistory) {
  DeclaredNode node;
  node.Change(Version(3, 30));
  EXPECT_EQ(node.Change(Deletion(7)), "deleted");
  node.clock().Advance(kScheduleHistory + absl::Hours(25));
  node.runner().RunTimersForTesting();
  EXPECT_EQ(node.State(), "-");
  EXPECT_EQ(node.Change(Version(3, 30)), "STALE_VERSION");
  EXPECT_EQ(node.Change(Version(7, 30)), "VERSION_CONFLICT");
  EXPECT_EQ(node.Change(Deletion(7)), "unchanged");
  EXPECT_THAT(node.runner().Create(kAlice, EveryMinutes(30), kDeclared),
              StatusIs(Code::kAlreadyExists));
  EXPECT_EQ(node.Change(Version(8, 30)), "created");
}

TEST(ScheduleDeclarationsTest, ANodeThatNeverHadItKnowsThatItIsDeleted) {
  DeclaredNode node;
  EXPECT_EQ(node.Change(Deletion(4)), "deleted");
  EXPECT_EQ(node.Change(Version(3, 30)), "STALE_VERSION");
  EXPECT_EQ(node.State(), "4 DELETED");
}

TEST(ScheduleDeclarationsTest, ADryRunTellsAndChangesNothing) {
  DeclaredNode node;
  EXPECT_EQ(node.Change(Version(1, 30), kAlice, true), "created");
  EXPECT_EQ(node.State(), "-");
  node.Change(Version(1, 30));
  EXPECT_EQ(node.Change(Version(2, 10), kAlice, true), "updated");
  EXPECT_EQ(node.Change(Deletion(2), kAlice, true), "deleted");
  EXPECT_EQ(node.Change(Version(1, 10), kAlice, true), "VERSION_CONFLICT");
  EXPECT_EQ(node.State(), "1 ACTIVE");
}

TEST(ScheduleDeclarationsTest, NobodyChangesWhatAnotherOwnsAndItCapturesAsWhoDeclaredIt) {
  DeclaredNode node;
  node.Change(Version(1, 30));
  EXPECT_THAT(node.Apply(Version(2, 10), kBob), StatusIs(Code::kAlreadyExists));
  EXPECT_EQ(node.State(), "1 ACTIVE");
  EXPECT_EQ(node.Change(Version(2, 10), kRoot), "updated");
  EXPECT_EQ(node.Find()->record.creator.uid, 0);
}

TEST(ScheduleDeclarationsTest, AWrongDeclarationIsRefused) {
  DeclaredNode node;
  EXPECT_THAT(node.Change(Version(0, 30)), HasSubstr("version is 0"));
  EXPECT_THAT(node.Change(Version(1, 30, "nightly")), HasSubstr("'nightly'"));
  EXPECT_THAT(node.Change(Version(1, 0)), HasSubstr("every"));
  EXPECT_EQ(node.State(), "-");
}

TEST(ScheduleDeclarationsTest, AJoiningNodeMayBeGivenTheSameIdWithMoreNodes) {
  DeclaredNode node;
  ScheduleSpec spec = EveryMinutes(30);
  spec.nodes = {"gpu1"};
  ASSERT_THAT(node.runner().Create(kAlice, spec, kDeclared), IsOk());
  spec.nodes = {"gpu1", "gpu2"};
  const auto again = node.runner().Create(kAlice, spec, kDeclared);
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->record.spec.nodes, ElementsAre("gpu1", "gpu2"));
  node.Restart();
  EXPECT_THAT(node.Find()->record.spec.nodes, ElementsAre("gpu1", "gpu2"));
}

TEST(ScheduleDeclarationsTest, TheNodeListCountsWhereItDecidesWhichNodesAreSampled) {
  DeclaredNode node;
  ScheduleDeclaration declaration = Version(1, 30);
  declaration.spec.sample = {.unit = SampleUnit::kNodes, .count = 1};
  declaration.spec.nodes = {"gpu1"};
  EXPECT_EQ(node.Change(declaration), "created");
  EXPECT_EQ(node.Change(declaration), "unchanged");
  declaration.spec.nodes = {"gpu1", "gpu2"};
  EXPECT_EQ(node.Change(declaration), "VERSION_CONFLICT");
  // `create` with the same id places it anew.
  const auto placed = node.runner().Create(kAlice, declaration.spec, kDeclared);
  ASSERT_THAT(placed, IsOk());
  EXPECT_THAT(placed->record.spec.nodes, ElementsAre("gpu1", "gpu2"));
  EXPECT_EQ(node.Change(declaration), "unchanged");
}

TEST(ScheduleDeclarationsTest, AnUpdateLeavesASchedulePausedAndANewOneIsNot) {
  DeclaredNode node;
  node.Change(Version(1, 30));
  ASSERT_THAT(node.runner().SetPaused(kAlice, kDeclared, true), IsOk());
  EXPECT_EQ(node.Change(Version(2, 10)), "updated");
  EXPECT_EQ(node.State(), "2 PAUSED");
  node.Change(Deletion(3));
  EXPECT_EQ(node.Change(Version(4, 10)), "created");
  EXPECT_EQ(node.State(), "4 ACTIVE");
}

TEST(ScheduleDeclarationsTest, WhatRootDeletesStaysItsCreatorsAlsoAsATombstone) {
  DeclaredNode node;
  node.Change(Version(1, 30));
  EXPECT_EQ(node.Change(Deletion(2), kRoot), "deleted");
  EXPECT_EQ(node.runner().Get(kAlice, kDeclared)->state, ScheduleState::kDeleted);
  EXPECT_EQ(node.Change(Version(3, 30), kBob), "SCHEDULE_EXISTS");
  node.clock().Advance(kScheduleHistory + absl::Hours(25));
  node.runner().RunTimersForTesting();
  EXPECT_EQ(node.State(), "-");
  EXPECT_EQ(node.Change(Version(3, 30), kBob), "SCHEDULE_EXISTS");
  EXPECT_EQ(node.Change(Version(1, 30), kBob), "SCHEDULE_EXISTS");  // Nor which version.
  EXPECT_EQ(node.Change(Version(1, 30)), "STALE_VERSION");
  EXPECT_EQ(node.Change(Version(3, 30)), "created");
}

TEST(ScheduleDeclarationsTest, ATombstoneOfARemoteCreatorIsItsOwn) {
  DeclaredNode node;
  const Caller carol{.uid = -1,
                     .principal = {.common_name = "carol"},
                     .rules = std::make_shared<MayScheduleSomething>()};
  Caller dave = carol;
  dave.principal.common_name = "dave";
  EXPECT_EQ(node.Change(Version(1, 30), carol), "created");
  EXPECT_EQ(node.Change(Deletion(2), carol), "deleted");
  node.clock().Advance(kScheduleHistory + absl::Hours(25));
  node.runner().RunTimersForTesting();
  EXPECT_EQ(node.Change(Version(3, 30), dave), "SCHEDULE_EXISTS");
  EXPECT_EQ(node.Change(Version(3, 30), carol), "created");
}

TEST(ScheduleDeclarationsTest, EveryVersionCanBeDeleted) {
  DeclaredNode node;
  EXPECT_EQ(node.Change(Version(kMaxScheduleVersion, 30)), "created");
  EXPECT_THAT(node.Change(Version(kMaxScheduleVersion + 1, 30)), HasSubstr("version is"));
  EXPECT_EQ(node.Change(Deletion(kMaxScheduleVersion + 1)), "deleted");
  EXPECT_THAT(node.Change(Deletion(kMaxScheduleVersion + 2)), HasSubstr("version is"));
}

// ---- limits ----

constexpr char kSecond[] = "01HZZZZZZZZZZZZZZZZZZZZZZB";
constexpr char kThird[] = "01HZZZZZZZZZZZZZZZZZZZZZZC";

TEST(ScheduleDeclarationsTest, DeclaredSchedulesKeepToTheQuota) {
  DeclaredNode node;
  node.LimitTo(2);
  EXPECT_EQ(node.Change(Version(1, 30)), "created");
  EXPECT_EQ(node.Change(Version(1, 30, kSecond)), "created");
  EXPECT_EQ(node.Change(Version(1, 30, kThird)), "QUOTA_EXCEEDED");
  EXPECT_EQ(node.Change(Version(2, 10)), "updated");
  // A deleted one makes room, and one that comes back in its own place needs none.
  EXPECT_EQ(node.Change(Deletion(3)), "deleted");
  EXPECT_EQ(node.Change(Version(4, 10)), "created");
  EXPECT_EQ(node.Change(Deletion(5)), "deleted");
  EXPECT_EQ(node.Change(Version(1, 30, kThird)), "created");
  EXPECT_EQ(node.State(), "-");
  EXPECT_EQ(node.Change(Version(4, 10)), "STALE_VERSION");
}

TEST(ScheduleDeclarationsTest, AnUpdateDoesNotGrowBeyondTheLimitOfBytes) {
  DeclaredNode node;
  node.Change(Version(1, 30));
  node.store().record_bytes = int64_t{4} << 20;
  ScheduleDeclaration larger = Version(2, 30);
  larger.spec.nodes = {"gpu1", "gpu2"};
  EXPECT_EQ(node.Change(larger), "SCHEDULE_LIMIT");
  EXPECT_EQ(ReasonOf(node.runner().Create(kAlice, larger.spec, kDeclared).status()),
            "SCHEDULE_LIMIT");
  EXPECT_EQ(node.Change(Version(2, 10)), "updated");
  EXPECT_EQ(node.Change(Deletion(1, kSecond)), "deleted");
  EXPECT_EQ(node.Change(Version(1, 30, kThird)), "SCHEDULE_LIMIT");
}

}  // namespace
}  // namespace profd
