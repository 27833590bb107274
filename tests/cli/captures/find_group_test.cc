// Ranks of a scheduled window that have no capture in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/base/errors.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class FindGroupTest : public CliTest {
 protected:
  static constexpr int64_t kWindowSeconds = 1'790'000'000;

  FindGroupTest() {
    v1::Capture capture = ACapture(TestId(1));
    capture.set_group(group_);
    capture.set_schedule("schedules/" + TestId(500));
    capture.set_schedule_window_unix_ns(kWindowSeconds * 1'000'000'000);
    *capture.mutable_target() = Rank(4711, 0);
    profd_.captures[TestId(1)] = capture;
    profd_.newest_first = {TestId(1)};
    profd_.targets = {Rank(4711, 0), Rank(4712, 1)};
    v1::ScheduleWindow& window = profd_.windows.emplace_back();
    window.mutable_time()->set_seconds(kWindowSeconds);
    window.set_outcome("busy");
    window.set_detail("target 4712 has a live capture");
    window.set_pid(4712);
    window.set_process_start_ticks(7);
  }

  static v1::Target Rank(int64_t pid, int64_t rank) {
    v1::Target target = ATarget(pid);
    target.set_process_start_ticks(7);
    (*target.mutable_metadata())["job"] = "88123";
    (*target.mutable_metadata())["rank"] = std::to_string(rank);
    return target;
  }

  const std::string group_ = "groups/" + TestId(7000);
};

TEST_F(FindGroupTest, ARankWithoutACaptureInTheWindowIsNamed) {
  const nlohmann::json members = RunJson({"show", group_})["members"];
  ASSERT_THAT(members, SizeIs(1));  // The fake's group has no members of its own.
  EXPECT_EQ(members[0]["pid"], 4712);
  EXPECT_EQ(members[0]["rank"], 1);
  EXPECT_THAT(members[0]["error"].get<std::string>(),
              HasSubstr("no capture (busy): target 4712 has a live capture"));
}

// The process of the window has ended; which rank it was is not known.
TEST_F(FindGroupTest, AProcessThatHasThePidSinceIsNotTakenForTheRank) {
  profd_.targets[1].set_process_start_ticks(8);
  EXPECT_THAT(RunJson({"show", group_})["members"], SizeIs(0));
}

// A daemon of an earlier release reports no start.
TEST_F(FindGroupTest, WithoutStartsThePidIsTheProcess) {
  profd_.targets[1].set_process_start_ticks(0);
  profd_.windows[0].set_process_start_ticks(0);
  EXPECT_THAT(RunJson({"show", group_})["members"], SizeIs(1));
}

// `trace` prints the group's ID, and some commands take one capture.
TEST_F(FindGroupTest, ACommandOfOneCaptureListsTheCapturesOfAGroup) {
  const std::string id = TestId(7000);
  for (const std::string command : {"collectives", "pin", "delete"}) {
    const RunResult result = Run({command, id});
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_THAT(result.err, HasSubstr(id + " is the ID of a group")) << command;
    EXPECT_THAT(result.err, HasSubstr("\n  " + TestId(1) + "  rank 0, pid 4711")) << command;
  }
  EXPECT_THAT(Run({"collectives", group_}).err, HasSubstr("`profctl show " + group_ + "`"));
  const RunResult neither = Run({"collectives", TestId(7001)});
  EXPECT_THAT(neither.err, Not(HasSubstr("group")));
}

TEST_F(FindGroupTest, ReportsOfAGroupNameTheMemberThatIsMissing) {
  for (const std::string command :
       {"time", "memory", "modules", "idle", "kernels", "copies", "syncs", "compile"}) {
    const RunResult result = Run({command, TestId(7000)});
    EXPECT_EQ(result.exit_code, kExitPartial) << command;
    EXPECT_THAT(result.err, HasSubstr("missing rank 1: ")) << command;
    EXPECT_THAT(result.out, HasSubstr("1 of 2 ranks")) << command;
  }
}

TEST_F(FindGroupTest, TheCapturesOfAGroupAreListedForNodes) {
  const RunResult result = Run({"collectives", TestId(7000), "--nodes", profd_.address()});
  EXPECT_THAT(result.err, HasSubstr("\n  " + TestId(1) + "  rank 0, pid 4711")) << result.err;
}

}  // namespace
}  // namespace profd::cli
