// What keeps a capture from a process, by folders that look like those of /proc.
#include "daemon/ingest/arm_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "tests/fakes/status_matchers.h"
#include "tests/ingest/ingest_testing.h"

namespace profd {
namespace {

using testing::HasSubstr;

constexpr int64_t kPid = 4711;
constexpr int64_t kMiB = int64_t{1} << 20;

class ArmGuardTest : public testing::Test {
 protected:
  void SetUp() override {
    Thread(kPid, "python3", 0);
    Write("statm", "1000 10 10 1 0 10 0\n");
    Limit("unlimited");
  }

  void Thread(int64_t tid, const std::string& name, int filters, int groups = 0) {
    std::string listed;
    for (int group = 0; group < groups; ++group) StrAppend(&listed, 1'000'000 + group, " ");
    Write(StrCat("task/", tid, "/status"),
          StrCat("Name:\t", name, "\nState:\tS (sleeping)\nGroups:\t", listed,
                 "\nSeccomp:\t2\nSeccomp_filters:\t", filters, "\nCpus_allowed:\t3\n"));
  }

  void Limit(const std::string& soft) {
    Write("limits",
          StrCat("Limit                     Soft Limit           Hard Limit           Units\n"
                 "Max cpu time              unlimited            unlimited            seconds\n"
                 "Max address space         ",
                 soft, "            unlimited            bytes\n"));
  }

  // The process uses so much address space.
  void Use(int64_t bytes) {
    Write("statm", StrCat(bytes / sysconf(_SC_PAGESIZE), " 10 10 1 0 1 0\n"));
  }

  absl::Status MayMap(int64_t bytes) { return MayBeArmed(kPid, {}, bytes, proc()); }

  std::filesystem::path proc() const { return folder_.path(); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = proc() / StrCat(kPid) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }

  TempDir folder_;
};

TEST_F(ArmGuardTest, TheAgentIsFoundByItsName) {
  Thread(4712, "profd-helper", 1);
  Thread(4713, "profd", 2);
  const AgentThread agent = FindAgentThread(kPid, proc());
  EXPECT_EQ(agent.tid, 4713);
  EXPECT_EQ(agent.filter_count, 2);
}

TEST_F(ArmGuardTest, ThousandsOfGroupsHideNoFilter) {
  Thread(4713, "profd", 1, 65'536);
  const AgentThread agent = FindAgentThread(kPid, proc());
  EXPECT_EQ(agent.tid, 4713);
  EXPECT_THAT(MayBeArmed(kPid, agent, 64 * kMiB, proc()), IsOk());
  Thread(4713, "profd", 2, 65'536);
  EXPECT_EQ(ReasonOf(MayBeArmed(kPid, agent, 64 * kMiB, proc())), "SECCOMP_FILTER");
}

TEST_F(ArmGuardTest, AProcessWithoutAnAgentThatCanBeSeenIsNotJudged) {
  EXPECT_EQ(FindAgentThread(kPid, proc()).tid, 0);
  EXPECT_EQ(FindAgentThread(1, proc()).tid, 0);
  EXPECT_THAT(MayBeArmed(1, {}, 64 * kMiB, proc()), IsOk());
}

TEST_F(ArmGuardTest, AFilterThatCameLaterIsAReason) {
  Thread(4713, "profd", 1);
  const AgentThread agent = FindAgentThread(kPid, proc());
  EXPECT_THAT(MayBeArmed(kPid, agent, 64 * kMiB, proc()), IsOk());
  Thread(4713, "profd", 2);
  const absl::Status refused = MayBeArmed(kPid, agent, 64 * kMiB, proc());
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), "SECCOMP_FILTER");
  EXPECT_THAT(refused.message(), HasSubstr("process 4711"));
}

TEST_F(ArmGuardTest, AFilterOfAnotherThreadIsNone) {
  Thread(4713, "profd", 0);
  const AgentThread agent = FindAgentThread(kPid, proc());
  Thread(kPid, "python3", 3);
  EXPECT_THAT(MayBeArmed(kPid, agent, 64 * kMiB, proc()), IsOk());
}

TEST_F(ArmGuardTest, AThreadThatHasTheAgentsNumberNowIsNotTheAgent) {
  Thread(4713, "profd", 0);
  const AgentThread agent = FindAgentThread(kPid, proc());
  Thread(4713, "worker", 3);
  EXPECT_THAT(MayBeArmed(kPid, agent, 64 * kMiB, proc()), IsOk());
}

TEST_F(ArmGuardTest, AKernelThatDoesNotCountFiltersIsNotJudged) {
  Write("task/4713/status", "Name:\tprofd\nSeccomp:\t2\n");
  EXPECT_EQ(FindAgentThread(kPid, proc()).tid, 0);
}

TEST_F(ArmGuardTest, WithoutALimitAnyCaptureMayTakePlace) {
  Use(400'000 * kMiB);
  EXPECT_THAT(MayMap(4096 * kMiB), IsOk());
}

TEST_F(ArmGuardTest, AQuarterOfTheLimitIsTheProgramsButAGibibyteAtLeast) {
  Limit(StrCat(8192 * kMiB));
  Use(6000 * kMiB);
  EXPECT_THAT(MayMap(144 * kMiB), IsOk());  // 2,048 MiB stay.
  const absl::Status refused = MayMap(145 * kMiB);
  EXPECT_EQ(ReasonOf(refused), "ADDRESS_SPACE");
  EXPECT_THAT(refused.message(), HasSubstr("8.00 GiB"));

  Limit(StrCat(2048 * kMiB));
  Use(900 * kMiB);
  EXPECT_THAT(MayMap(124 * kMiB), IsOk());  // 1,024 MiB stay.
  EXPECT_EQ(ReasonOf(MayMap(125 * kMiB)), "ADDRESS_SPACE");
  Use(4096 * kMiB);  // The limit was lowered.
  EXPECT_EQ(ReasonOf(MayMap(1)), "ADDRESS_SPACE");
}

TEST_F(ArmGuardTest, OddTextIsNoReason) {
  for (const char* text :
       {"", "Max address space", "Max address space x y", "Max address space -1"}) {
    Write("limits", text);
    Use(1024 * kMiB);
    EXPECT_THAT(MayMap(64 * kMiB), IsOk()) << text;
  }
  Limit(StrCat(2048 * kMiB));
  for (const char* text : {"", "x", "\n"}) {
    Write("statm", text);
    EXPECT_THAT(MayMap(4096 * kMiB), IsOk()) << text;
  }
}

}  // namespace
}  // namespace profd
