// `profctl schedule` with daemons that have no versions of schedules.
#include <fstream>

#include "daemon/base/str_cat.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kOldSchedule[] = "01HZZZZZZZZZZZZZZZZZZZZZZA";

class SchedulesWithoutVersionsTest : public CliTest {
 protected:
  SchedulesWithoutVersionsTest() {
    other_.node.set_name("node-b");
    v1::Schedule schedule;
    schedule.set_name(StrCat("schedules/", kOldSchedule));
    schedule.set_state(v1::Schedule::ACTIVE);
    profd_.schedules[kOldSchedule] = schedule;
  }
  std::string nodes() const {
    return StrCat("a=", profd_.socket_dir(), "/control.sock,b=", other_.socket_dir(),
                  "/control.sock");
  }
  FakeProfd other_{folder_ / "other"};
};

TEST_F(SchedulesWithoutVersionsTest, DeleteDeletesWhereTheScheduleIs) {
  const auto json = RunJson({"schedule", "delete", "01hzz", "--nodes", nodes()});
  ASSERT_EQ(json["schedules"].size(), 1U);
  EXPECT_EQ(json["schedules"][0]["state"], "DELETED");
  EXPECT_EQ(json["schedules"][0]["version"], 0);
  EXPECT_EQ(profd_.schedules[kOldSchedule].state(), v1::Schedule::DELETED);
  // Again, by its whole id: there is nothing left to do.
  EXPECT_EQ(Run({"schedule", "delete", kOldSchedule, "--nodes", nodes()}).exit_code, 0);
}

TEST_F(SchedulesWithoutVersionsTest, DeleteOfAnUnknownOneFails) {
  const RunResult result = Run({"schedule", "delete", "01J", "--nodes", nodes()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no schedule 01J on the nodes that answered"));
}

TEST_F(SchedulesWithoutVersionsTest, ApplySaysThatTheyAreTooOld) {
  const std::string path = Path("schedules.json");
  std::ofstream(path) << R"({"schedules": [{"name": "schedules/01HZZZZZZZZZZZZZZZZZZZZZZB", )"
                      << R"("version": 1, "spec": {"every": "60s", "capture": {"steps": 1}}}]})";
  const RunResult result = Run({"schedule", "apply", "-f", path});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("does not know this request"));
}

}  // namespace
}  // namespace profd::cli
