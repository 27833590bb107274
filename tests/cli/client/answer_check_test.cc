// IDs that a daemon makes up: in messages, and in answers to the real profctl.
#include "cli/client/answer_check.h"

#include <algorithm>

#include "profd/v1/schedules.pb.h"
#include "tests/cli/cli_fixture.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Each would be a command, a path, or a flag somewhere.
const std::string kHostileIds[] = {"$(touch X)",
                                   "`touch X`",
                                   "../../etc/owned",
                                   "/etc/owned",
                                   "--output=/etc/owned",
                                   "",
                                   "01J00000000000000000000001 x",
                                   "01J00000000000000000000001\n01J00000000000000000000002",
                                   "01j00000000000000000000001"};

MATCHER_P(IsRefusedFor, field, "") {
  return ExplainMatchResult(StatusIs(absl::StatusCode::kDataLoss, HasSubstr(field)), arg,
                            result_listener);
}

TEST(AnswerCheckTest, EveryKindOfIdIsChecked) {
  for (const std::string& id : kHostileIds) {
    v1::Capture capture = ACapture(id);
    EXPECT_THAT(CheckAnswer(capture), IsRefusedFor("Capture.name"));
    v1::CaptureGroup group;
    group.set_name("groups/" + id);
    EXPECT_THAT(CheckAnswer(group), IsRefusedFor("CaptureGroup.name"));
    v1::Schedule schedule;
    schedule.set_name("schedules/" + id);
    EXPECT_THAT(CheckAnswer(schedule), IsRefusedFor("Schedule.name"));
    v1::Target target;
    target.set_name("targets/" + id);
    EXPECT_THAT(CheckAnswer(target), IsRefusedFor("Target.name"));
    capture = ACapture(TestId(1));
    capture.set_group("groups/" + id);
    EXPECT_THAT(CheckAnswer(capture), IsRefusedFor("Capture.group"));
    capture = ACapture(TestId(1));
    capture.set_schedule("schedules/" + id);
    EXPECT_THAT(CheckAnswer(capture), IsRefusedFor("Capture.schedule"));
    capture = ACapture(TestId(1));
    capture.add_evicted_captures("captures/" + TestId(2));
    EXPECT_THAT(CheckAnswer(capture), IsOk());
    capture.add_evicted_captures("captures/" + id);
    EXPECT_THAT(CheckAnswer(capture), IsRefusedFor("Capture.evicted_captures"));
    v1::GroupPreparation preparation;
    preparation.add_members()->set_target("targets/" + id);
    EXPECT_THAT(CheckAnswer(preparation), IsRefusedFor("PreparedMember.target"));
  }
}

TEST(AnswerCheckTest, MessagesInMessagesAreChecked) {
  v1::ListCapturesResponse list;
  *list.add_captures() = ACapture(TestId(1));
  *list.add_captures() = ACapture("$(touch X)");
  EXPECT_THAT(CheckAnswer(list), IsRefusedFor("'captures/$(touch X)' (expected captures/ULID)"));
  v1::ListScheduleWindowsResponse windows;
  windows.add_windows()->set_capture("captures/x");
  EXPECT_THAT(CheckAnswer(windows), IsRefusedFor("ScheduleWindow.capture"));
}

TEST(AnswerCheckTest, AnIdNeedsItsPrefix) {
  v1::Capture capture = ACapture(TestId(1));
  capture.set_name(TestId(1));
  EXPECT_THAT(CheckAnswer(capture), IsRefusedFor("Capture.name"));
  capture.set_name("groups/" + TestId(1));
  EXPECT_THAT(CheckAnswer(capture), IsRefusedFor("Capture.name"));
}

TEST(AnswerCheckTest, FieldsThatMayBeUnsetAreTaken) {
  v1::Capture capture = ACapture(TestId(1));
  EXPECT_THAT(CheckAnswer(capture), IsOk());
  capture.mutable_target()->clear_name();  // As in an imported capture.
  (*capture.mutable_spec()->mutable_labels())["capture"] = "$(touch X)";
  EXPECT_THAT(CheckAnswer(capture), IsOk());
  v1::CaptureGroup group;
  group.set_name("groups/" + TestId(7));
  group.add_members()->set_error("NO_STEPS");
  EXPECT_THAT(CheckAnswer(group), IsOk());
}

class HostileDaemonTest : public CliTest {
 protected:
  // What lies in the folder that profctl runs in.
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      names.push_back(entry.path().string());
    }
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(HostileDaemonTest, AnAnswerWithABadIdIsAnErrorThatNamesTheField) {
  profd_.captures[TestId(1)] = ACapture("$(touch X)");
  profd_.newest_first = {TestId(1)};
  const std::vector<std::string> before = Files();
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"captures"}, {"show", "01J"}, {"fetch", "01J"}, {"ops", "01J"}}) {
    const RunResult result = Run(command);
    EXPECT_EQ(result.exit_code, 1) << command[0];
    EXPECT_EQ(result.out, "") << command[0];
    EXPECT_THAT(result.err, AllOf(HasSubstr("profd at " + profd_.address()),
                                  HasSubstr("invalid Capture.name 'captures/$(touch X)'")))
        << command[0];
  }
  EXPECT_EQ(Run({"__candidates", "ids"}).out, "");
  EXPECT_EQ(Files(), before);
}

TEST_F(HostileDaemonTest, AHistoryWithABadIdIsAnError) {
  for (const std::string& id : kHostileIds) {
    if (id.empty()) continue;
    for (const report::HistoryPoint& point :
         {report::HistoryPoint{.capture = id}, report::HistoryPoint{.schedule = id}}) {
      profd_.history.points = {point};
      const RunResult result = Run({"history", "--step-time", "--json"});
      EXPECT_EQ(result.exit_code, 1) << id;
      EXPECT_EQ(result.out, "") << id;
      EXPECT_THAT(result.err, HasSubstr("in the history (expected a ULID)")) << id;
    }
  }
}

TEST_F(HostileDaemonTest, ABadIdEndsATraceThatIsWatched) {
  profd_.targets.push_back(ATarget(4711));
  profd_.ends_as = ACapture(TestId(1));
  profd_.ends_as.set_schedule("schedules/../../etc");
  const RunResult result = Run({"trace", "--steps", "5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("invalid Capture.schedule"));
}

TEST_F(HostileDaemonTest, AGroupDoesNotChooseWhereItIsWritten) {
  v1::Capture capture = ACapture(TestId(1));
  capture.set_group("groups/" + TestId(7000));
  profd_.captures[TestId(1)] = capture;
  profd_.group_name = "groups/" + Path("owned");
  const std::vector<std::string> before = Files();
  const RunResult result = Run({"fetch", "groups/" + TestId(7000)});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("invalid CaptureGroup.name"));
  EXPECT_EQ(Files(), before);
}

TEST_F(HostileDaemonTest, AListThatDoesNotEndIsAnError) {
  profd_.never_ends_lists = true;
  profd_.targets.push_back(ATarget(4711));
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"ps"},
                                             {"captures"},
                                             {"captures", "--limit", "0"},
                                             {"schedule", "list"},
                                             {"schedule", "history", TestId(500), "--limit", "0"},
                                             {"audit"},
                                             {"history", "--stragglers", "--job", "88123"}}) {
    const RunResult result = Run(command);
    EXPECT_EQ(result.exit_code, 1) << testing::PrintToString(command);
    EXPECT_THAT(result.err, AllOf(HasSubstr("profd at " + profd_.address()),
                                  HasSubstr("sent a list that does not end: a page token is "
                                            "repeated after 2 pages")))
        << testing::PrintToString(command);
  }
}

// 64 MiB of an error text are 64 KiB on the way.
TEST_F(HostileDaemonTest, ACompressedAnswerIsNotInflated) {
  profd_.compresses = true;
  profd_.node.set_policy_error(std::string(64 << 20, 'x'));
  const RunResult result = Run({"node"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("is not a profd"));
}

TEST_F(HostileDaemonTest, AnErrorIsOneLineWithoutControls) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  profd_.on_delete = {.code = absl::StatusCode::kFailedPrecondition,
                      .message = "no\nprofctl: deleted\r\x1b[2J\u202Eevil"};
  const RunResult result = Run({"delete", TestId(1)});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no profctl: deleted??[2J?evil\n"));
}

TEST_F(HostileDaemonTest, JsonEscapesWhatReordersText) {
  v1::Target target = ATarget(4711);
  target.set_command("a\u202Eb\u2066c\td");
  profd_.targets.push_back(target);
  EXPECT_THAT(Run({"ps", "--json"}).out, HasSubstr("a\\u202eb\\u2066c\\u0009d"));
}

}  // namespace
}  // namespace profd::cli
