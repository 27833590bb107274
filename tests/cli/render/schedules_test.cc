// What profctl says of one schedule on many nodes.
#include "cli/render/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kShownId[] = "01HZZZZZZZZZZZZZZZZZZZZZZA";

ScheduleView CopyOf(int64_t version, const std::string& hash = "a") {
  return {.id = kShownId, .spec_hash = hash, .version = version};
}
ScheduleView DeletedCopy(int64_t version) {
  return {.id = kShownId, .state = ScheduleState::kDeleted, .spec_hash = "a", .version = version};
}
ScheduleView PlacedOn(const std::vector<std::string>& nodes, int64_t version = 1) {
  ScheduleView view = CopyOf(version);
  view.spec.nodes = nodes;
  return view;
}

std::vector<std::string> DriftOf(const SchedulesByNode& asked) {
  std::vector<std::string> lines;
  for (const ScheduleDrift& drift : FindDrift(asked)) {
    lines.push_back(StrCat(drift.node, " ", drift.problem));
  }
  return lines;
}
// "VERSION STATE CURRENT/EXPECTED BEHIND"
std::string StatusLine(const SchedulesByNode& asked) {
  const std::vector<ScheduleStatus> statuses = StatusOf(asked);
  if (statuses.size() != 1) return StrCat(statuses.size(), " schedules");
  const ScheduleStatus& status = statuses.front();
  return StrCat(status.version, " ", ToString(status.state), " ", status.current_count, "/",
                status.expected_count, " ", status.behind);
}

TEST(ScheduleStatusTest, EqualNodesHaveNoDrift) {
  const SchedulesByNode asked = {{"n1", {CopyOf(3)}}, {"n2", {CopyOf(3)}}};
  EXPECT_THAT(DriftOf(asked), IsEmpty());
  EXPECT_EQ(StatusLine(asked), "3 ACTIVE 2/2 ");
}

TEST(ScheduleStatusTest, TheHighestVersionIsRightAlsoIfFewHaveIt) {
  const SchedulesByNode asked = {
      {"n1", {CopyOf(2)}}, {"n2", {CopyOf(2)}}, {"n3", {CopyOf(3)}}, {"n4", {}}};
  EXPECT_THAT(DriftOf(asked), ElementsAre("n1 has version 2 of 3", "n2 has version 2 of 3"));
  EXPECT_EQ(StatusLine(asked), "3 ACTIVE 1/4 missing: n4; version 2: n1, n2");
}

TEST(ScheduleStatusTest, OfOneVersionTheSpecThatMostHaveIsRight) {
  const SchedulesByNode asked = {
      {"n1", {CopyOf(2, "b")}}, {"n2", {CopyOf(2)}}, {"n3", {CopyOf(2)}}};
  EXPECT_THAT(DriftOf(asked), ElementsAre("n1 differs in its spec"));
  EXPECT_EQ(StatusLine(asked), "2 ACTIVE 2/3 version 2, another spec: n1");
}

TEST(ScheduleStatusTest, ADeletionThatANodeMissedIsNamed) {
  const SchedulesByNode asked = {{"n1", {DeletedCopy(4)}}, {"n2", {CopyOf(3)}}, {"n3", {}}};
  EXPECT_THAT(DriftOf(asked),
              ElementsAre("n2 is not deleted, as it is on other nodes (version 4)"));
  EXPECT_EQ(StatusLine(asked), "4 DELETED 1/2 version 3: n2");
}

TEST(ScheduleStatusTest, DeletedEverywhereIsNoDriftWhateverTheVersion) {
  const SchedulesByNode asked = {{"n1", {DeletedCopy(4)}}, {"n2", {DeletedCopy(2)}}, {"n3", {}}};
  EXPECT_THAT(DriftOf(asked), IsEmpty());
  EXPECT_EQ(StatusLine(asked), "4 DELETED 2/2 ");
}

TEST(ScheduleStatusTest, ADeletedCopyOfWhatIsDeclaredAgainIsBehind) {
  const SchedulesByNode asked = {{"n1", {CopyOf(5)}}, {"n2", {DeletedCopy(4)}}};
  EXPECT_THAT(DriftOf(asked), ElementsAre("n2 has version 4 of 5"));
  EXPECT_EQ(StatusLine(asked), "5 ACTIVE 1/2 version 4, deleted: n2");
}

TEST(ScheduleStatusTest, OnlyNodesThatItWasPlacedOnMissIt) {
  const SchedulesByNode asked = {
      {"n1", {PlacedOn({"n1", "n2", "silent"})}}, {"n2", {}}, {"other", {}}};
  EXPECT_THAT(DriftOf(asked), ElementsAre("n2 is missing"));
  EXPECT_EQ(StatusLine(asked), "1 ACTIVE 1/2 missing: n2");
}

TEST(ScheduleStatusTest, NodesOfAnOlderVersionAreNotExpected) {
  const SchedulesByNode asked = {
      {"n1", {PlacedOn({"n1"}, 2)}}, {"n2", {PlacedOn({"n1", "n2", "n3"})}}, {"n3", {}}};
  EXPECT_THAT(DriftOf(asked), ElementsAre("n2 has version 1 of 2"));
}

TEST(ScheduleStatusTest, ADaemonWithoutVersionsIsNamedAsOne) {
  const SchedulesByNode asked = {{"n1", {CopyOf(1)}}, {"n2", {CopyOf(0)}}};
  EXPECT_THAT(DriftOf(asked), ElementsAre("n2 has no version (of an earlier profd)"));
  EXPECT_EQ(StatusLine(asked), "1 ACTIVE 1/2 no version (of an earlier profd): n2");
}

TEST(ScheduleStatusTest, ManyNodesAreCounted) {
  SchedulesByNode asked = {{"a", {CopyOf(2)}}};
  for (int i = 0; i < 12; ++i) asked[StrCat("n", 10 + i)] = {CopyOf(1)};
  EXPECT_EQ(StatusLine(asked),
            "2 ACTIVE 1/13 version 1: n10, n11, n12, n13, n14, n15, n16, n17, and 4 more");
}

TEST(RenderDeclarationsTest, OneLinePerScheduleAndPerRefusal) {
  const std::vector<DeclarationOutcome> outcomes = {
      {.id = "A", .display_name = "nightly", .version = 2, .node = "n1", .change = "updated"},
      {.id = "A", .display_name = "nightly", .version = 2, .node = "n2", .change = "updated"},
      {.id = "A", .version = 2, .node = "n3", .change = "refused", .error = "a higher version"},
      {.id = "B", .version = 1, .node = "n1", .change = "unchanged"}};
  EXPECT_EQ(RenderDeclarations(outcomes, /*dry_run=*/false),
            "schedule A (nightly), version 2: refused on 1 node, updated on 2 nodes\n"
            "schedule B, version 1: unchanged on 1 node\n"
            "refused on n3: a higher version\n");
}

TEST(RenderDeclarationsTest, ADryRunSaysWhatWouldBe) {
  const std::vector<DeclarationOutcome> outcomes = {
      {.id = "A", .version = 2, .node = "n1", .change = "created"},
      {.id = "B", .version = 1, .node = "n1", .change = "unchanged"}};
  EXPECT_EQ(RenderDeclarations(outcomes, /*dry_run=*/true),
            "schedule A, version 2: would be created\nschedule B, version 1: unchanged\n");
}

}  // namespace
}  // namespace profd::cli
