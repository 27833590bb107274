#include "cli/captures/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cli/base/errors.h"
#include "cli/base/flags.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Accepts connections, and says nothing.
class SilentListener {
 public:
  explicit SilentListener(const std::string& path)
      : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(socket_.get(), 16), 0);
  }
  // Waits for the next connection, which stays open as long as what this returns.
  UniqueFd Accept() const {
    return UniqueFd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  const UniqueFd socket_;
};

class FleetTest : public ::testing::Test {
 protected:
  FleetTest() {
    for (int i = 0; i < 3; ++i) {
      daemons_.push_back(std::make_unique<FakeProfd>(folder_ / StrCat("node", i)));
      daemons_.back()->node.set_name(StrCat("host", i));
    }
  }

  static Fleet::Member MemberAt(const std::string& name, const std::string& path) {
    Fleet::Member member;
    member.node = name;
    member.endpoint.address = StrCat("unix:", path);
    member.endpoint.unix_path = path;
    return member;
  }
  std::vector<Fleet::Member> Members() const { return ManyMembers(daemons_.size()); }
  // The same daemons again and again.
  std::vector<Fleet::Member> ManyMembers(size_t count) const {
    std::vector<Fleet::Member> members;
    members.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const std::string folder = StrCat("node", i % daemons_.size());
      members.push_back(MemberAt(StrCat("node", i), (folder_ / folder / "control.sock").string()));
    }
    return members;
  }
  // The status of each member.
  static std::vector<absl::Status> Run(Fleet& fleet,
                                       absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work,
                                       absl::Duration deadline = absl::Seconds(60)) {
    std::vector<absl::Status> statuses(fleet.members().size(), absl::UnknownError("not done"));
    const std::thread::id caller = std::this_thread::get_id();
    size_t done = 0;
    fleet.Run(deadline, work, [&](size_t member, const absl::Status& status) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      EXPECT_EQ(statuses[member].message(), "not done") << "done twice: " << member;
      statuses[member] = status;
      ++done;
    });
    EXPECT_EQ(done, fleet.members().size());
    return statuses;
  }

  store::TemporaryFolder folder_;
  std::vector<std::unique_ptr<FakeProfd>> daemons_;
};

TEST_F(FleetTest, EveryMemberIsAskedOverItsOwnConnection) {
  Fleet fleet(Members());
  std::vector<std::string> names(3);
  const auto statuses = Run(fleet, [&](size_t member, DaemonClient& daemon) {
    names[member] = daemon.node().name;
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(names, ElementsAre("host0", "host1", "host2"));
}

TEST_F(FleetTest, AllRunAtTheSameTime) {
  Fleet fleet(Members());
  absl::Mutex mu;
  int arrived = 0;
  Run(fleet, [&](size_t, DaemonClient&) {
    // None goes on before all are here.
    const absl::MutexLock lock(&mu);
    ++arrived;
    mu.Await(absl::Condition(
        +[](int* count) { return *count == 3; }, &arrived));
    return absl::OkStatus();
  });
  EXPECT_EQ(arrived, 3);
}

// More than there are threads at first.
TEST_F(FleetTest, MembersThatAreSlowToAnswerDoNotHoldUpTheOthers) {
  constexpr size_t kMembers = 100;
  Fleet fleet(ManyMembers(kMembers));
  absl::Mutex mu;
  size_t arrived = 0;
  const auto all_arrived = [&] { return arrived == kMembers; };
  const auto statuses = Run(fleet, [&](size_t, DaemonClient&) {
    const absl::MutexLock lock(&mu);
    ++arrived;
    mu.AwaitWithTimeout(absl::Condition(&all_arrived), absl::Seconds(60));
    return all_arrived() ? absl::OkStatus() : absl::DeadlineExceededError("not all were asked");
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST_F(FleetTest, OfAVeryLargeFleetAThousandConnectionsAreKept) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < 8192) GTEST_SKIP() << "at most " << files.rlim_max << " open files";
  constexpr size_t kMembers = 1100;
  Fleet fleet(ManyMembers(kMembers));
  std::vector<std::atomic<const DaemonClient*>> first(kMembers);
  std::atomic<size_t> kept = 0;
  Run(fleet, [&](size_t member, DaemonClient& daemon) {
    first[member] = &daemon;
    return absl::OkStatus();
  });
  Run(fleet, [&](size_t member, DaemonClient& daemon) {
    if (first[member] == &daemon) ++kept;
    return daemon.ListTargets().status();
  });
  EXPECT_GT(kept, 700U);
}

// More members than are asked at once, of which some do not answer.
TEST_F(FleetTest, EveryMemberOfALargeFleetIsDoneOnce) {
  std::vector<Fleet::Member> members;
  constexpr size_t kMembers = 600;
  for (size_t i = 0; i < kMembers; ++i) {
    members.push_back(MemberAt(
        StrCat("node", i),
        (folder_ / (i % 7 == 3 ? "nobody" : StrCat("node", i % 3)) / "control.sock").string()));
  }
  Fleet fleet(members);
  std::atomic<size_t> at_once = 0;
  std::atomic<size_t> most = 0;
  const auto statuses = Run(fleet, [&](size_t, DaemonClient& daemon) {
    const size_t now = ++at_once;
    for (size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    const absl::Status status = daemon.ListTargets().status();
    --at_once;
    return status;
  });
  for (size_t i = 0; i < kMembers; ++i) EXPECT_EQ(statuses[i].ok(), i % 7 != 3) << statuses[i];
  EXPECT_LE(most, 256);
}

TEST_F(FleetTest, ConnectionsStayFromOneRunToTheNext) {
  Fleet fleet(Members());
  std::vector<DaemonClient*> first(3);
  std::vector<DaemonClient*> second(3);
  Run(fleet, [&](size_t member, DaemonClient& daemon) {
    first[member] = &daemon;
    return absl::OkStatus();
  });
  Run(fleet, [&](size_t member, DaemonClient& daemon) {
    second[member] = &daemon;
    return daemon.ListTargets().status();
  });
  EXPECT_EQ(first, second);
  EXPECT_EQ(fleet.connection(1), first[1]);
}

TEST_F(FleetTest, WhatOneMemberSaysIsNoneOfTheOthersBusiness) {
  daemons_[1]->Kill();
  Fleet fleet(Members());
  const auto statuses = Run(fleet, [](size_t member, DaemonClient&) {
    return member == 2 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  });
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_EQ(ReasonOf(statuses[1]), kNoDaemonReason);
  EXPECT_EQ(statuses[2], absl::ResourceExhaustedError("full"));
  EXPECT_EQ(fleet.connection(1), nullptr);
}

TEST_F(FleetTest, AMemberThatCameBackIsReachedByTheNextRun) {
  Fleet fleet(Members());
  const auto ask = [](size_t, DaemonClient& daemon) { return daemon.ListTargets().status(); };
  EXPECT_TRUE(Run(fleet, ask)[1].ok());
  daemons_[1]->Kill();
  EXPECT_EQ(ReasonOf(Run(fleet, ask)[1]), kNoDaemonReason);
  daemons_[1]->Start();
  const absl::Status again = Run(fleet, ask)[1];
  EXPECT_TRUE(again.ok()) << again;
}

TEST_F(FleetTest, AMemberThatSaysNothingIsDoneAtTheDeadline) {
  const std::string path = (folder_ / "silent.sock").string();
  const SilentListener listener(path);
  std::vector<Fleet::Member> members = Members();
  members.push_back(MemberAt("silent", path));
  Fleet fleet(std::move(members));
  const auto statuses = Run(
      fleet, [](size_t, DaemonClient&) { return absl::OkStatus(); }, absl::Milliseconds(300));
  EXPECT_EQ(ReasonOf(statuses[3]), kNoAnswerReason) << statuses[3];
}

TEST_F(FleetTest, AbortEndsWhatRunsAndAllLaterCalls) {
  const std::string path = (folder_ / "silent.sock").string();
  const SilentListener listener(path);
  Fleet fleet({MemberAt("silent", path)});
  std::thread aborter([&] {
    const UniqueFd connection = listener.Accept();
    fleet.Abort();
  });
  const auto nothing = [](size_t, DaemonClient&) { return absl::OkStatus(); };
  EXPECT_EQ(Run(fleet, nothing)[0].code(), absl::StatusCode::kCancelled);
  aborter.join();
  EXPECT_EQ(Run(fleet, nothing)[0].code(), absl::StatusCode::kCancelled);
}

TEST_F(FleetTest, ALowLimitOfOpenFilesIsKeptTo) {
  std::string nodes;
  for (int i = 0; i < 200; ++i) {
    // Names of the same address are one node.
    const std::filesystem::path link = folder_ / StrCat("n", i, ".sock");
    std::filesystem::create_symlink(folder_ / StrCat("node", i % 3) / "control.sock", link);
    StrAppend(&nodes, i == 0 ? "" : ",", "n", i, "=", link.string());
  }
  const RunResult result = RunProfctl({"--nodes", nodes, "ps"}, {},
                                      {"/bin/sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"});
  EXPECT_EQ(result.exit_code, kExitDone);
  EXPECT_EQ(result.err, "");
}

// Counts this process's open files until it ends.
class FileCounter {
 public:
  ~FileCounter() { Stop(); }
  size_t Stop() {
    if (thread_.joinable()) {
      stopping_ = true;
      thread_.join();
    }
    return most_ - before_;
  }
  void Look() {
    const absl::MutexLock lock(&mu_);
    most_ = std::max(most_, Count());
  }

 private:
  static size_t Count() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
  void Watch() {
    for (; !stopping_; absl::SleepFor(absl::Milliseconds(1))) Look();
  }

  const size_t before_ = Count();
  absl::Mutex mu_;
  size_t most_ = before_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_{[this] { Watch(); }};
};

// The connections to `port` that the kernel has made, whether they are accepted or not.
size_t ConnectionsTo(uint16_t port) {
  const std::string local = absl::StrFormat(":%04X", port);
  std::ifstream table("/proc/net/tcp");
  size_t count = 0;
  std::string slot;
  std::string here;
  std::string peer;
  std::string state;
  for (std::string line; std::getline(table, line);) {
    std::istringstream(line) >> slot >> here >> peer >> state;
    count += here.ends_with(local) && state == "01";
  }
  return count;
}

// Connections are made all at once, to a name; nothing answers, so that all of them stay.
TEST_F(FleetTest, AConnectionUsesNoMoreFilesThanRunTogetherCountsForIt) {
  constexpr size_t kMembers = 100;
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  ASSERT_EQ(listen(listener.get(), 1024), 0);
  std::vector<Fleet::Member> members(kMembers);
  for (size_t i = 0; i < kMembers; ++i) {
    members[i].node = StrCat("node", i);
    members[i].endpoint.address = StrCat("localhost:", ntohs(address.sin_port));
  }
  Fleet fleet(std::move(members));
  std::vector<size_t> all(kMembers);
  std::iota(all.begin(), all.end(), 0);
  FileCounter files;
  std::atomic<bool> is_over = false;
  bool were_there_at_once = false;
  std::thread aborter([&] {
    for (; !is_over && !were_there_at_once; absl::SleepFor(absl::Milliseconds(1))) {
      were_there_at_once = ConnectionsTo(ntohs(address.sin_port)) >= kMembers;
    }
    files.Look();
    fleet.Abort();
  });
  fleet.RunTogether(
      all, absl::Seconds(60), [](size_t, DaemonClient&) { return absl::OkStatus(); },
      [](size_t, const absl::Status& status) { EXPECT_FALSE(status.ok()); });
  is_over = true;
  aborter.join();
  EXPECT_TRUE(were_there_at_once);
  EXPECT_LE(files.Stop(), 2 * kMembers);
}

TEST_F(FleetTest, WhatMustRunTogetherIsNotAskedBeyondTheLimitOfOpenFiles) {
  for (const auto& daemon : daemons_) {
    daemon->targets.push_back(ATarget(4711));
    (*daemon->targets.back().mutable_metadata())["job"] = "88123";
  }
  std::string nodes;
  for (int i = 0; i < 60; ++i) {
    const std::filesystem::path link = folder_ / StrCat("n", i, ".sock");
    std::filesystem::create_symlink(folder_ / StrCat("node", i % 3) / "control.sock", link);
    StrAppend(&nodes, i == 0 ? "" : ",", "n", i, "=", link.string());
  }
  const RunResult result = RunProfctl({"--nodes", nodes, "trace", "--job", "88123", "--steps", "5"},
                                      {}, {"/bin/sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"});
  // Of 100 files about 36 are for connections, two for each: what else is open differs.
  EXPECT_THAT(result.err, testing::ContainsRegex("4[0-4] nodes, n"));
  EXPECT_THAT(result.err, HasSubstr("the limit of open files is too low to ask so many nodes"));
}

TEST_F(FleetTest, ProgressNamesTheLastNodesOnly) {
  std::vector<Fleet::Member> members;
  std::set<size_t> waiting;
  for (size_t i = 0; i < 1000; ++i) {
    members.push_back(MemberAt(StrCat("gpu", 1000 + i), ""));
    if (i >= 700) waiting.insert(i);
  }
  const Fleet fleet(std::move(members));
  EXPECT_EQ(FleetProgress(fleet, waiting), "700 of 1000 nodes");
  waiting = {3, 4, 999};
  EXPECT_EQ(FleetProgress(fleet, waiting), "997 of 1000 nodes; waiting for gpu[1003-1004,1999]");
  EXPECT_EQ(FleetProgress(fleet, {}), "1000 of 1000 nodes");
}

TEST_F(FleetTest, NobodyIsAskedOfAnEmptyFleet) {
  Fleet fleet({});
  EXPECT_TRUE(Run(fleet, [](size_t, DaemonClient&) { return absl::OkStatus(); }).empty());
}

TEST(NodeOutcomeTest, TheExitCodeSaysHowManyFailedAndWhy) {
  const absl::Status gone = WithReason(absl::UnavailableError("gone"), kNoDaemonReason);
  const absl::Status refused = absl::PermissionDeniedError("no");
  EXPECT_EQ(ExitCodeOf(std::vector<NodeOutcome>{}), kExitDone);
  EXPECT_EQ(ExitCodeOf({{"a", absl::OkStatus()}, {"b", absl::OkStatus()}}), kExitDone);
  EXPECT_EQ(ExitCodeOf({{"a", absl::OkStatus()}, {"b", gone}}), kExitPartial);
  EXPECT_EQ(ExitCodeOf({{"a", gone}, {"b", gone}}), kExitNoDaemon);
  EXPECT_EQ(ExitCodeOf({{"a", refused}, {"b", refused}}), kExitRefused);
  EXPECT_EQ(ExitCodeOf({{"a", refused}, {"b", gone}}), kExitFailed);
}

TEST(NodeOutcomeTest, EveryFailureIsARowWithoutControlCharacters) {
  const std::string text = RenderNodeFailures({{"a", absl::OkStatus()},
                                               {"b", absl::UnavailableError("gone")},
                                               {"c", absl::InternalError("\033[2J\nx")}});
  EXPECT_EQ(text, "profctl: node b: gone\nprofctl: node c: ?[2J?x\n");
}

TEST(NodeOutcomeTest, EqualFailuresAreOneRow) {
  std::vector<NodeOutcome> outcomes = {{"other", absl::InternalError("full")}};
  for (int i = 1; i <= 9; ++i) {
    const std::string node = StrCat("gpu00", i);
    outcomes.push_back({node, absl::UnavailableError(StrCat(node, ":7411 refused"))});
  }
  EXPECT_EQ(RenderNodeFailures(outcomes),
            "profctl: node other: full\nprofctl: 9 nodes, gpu[001-009]: gpu001:7411 refused\n");
}

TEST(NodeOutcomeTest, JsonHasTheError) {
  JsonWriter json;
  NodeOutcomeObject().Write({"a", absl::OkStatus()}, json);
  EXPECT_EQ(json.TakeLine(), "{\"node\":\"a\",\"ok\":true,\"error\":\"\"}\n");
  NodeOutcomeObject().Write({"b", absl::UnavailableError("gone")}, json);
  EXPECT_EQ(json.TakeLine(), "{\"node\":\"b\",\"ok\":false,\"error\":\"gone\"}\n");
}

// The commands, over two fake daemons.
class FleetCommandsTest : public CliTest {
 protected:
  std::string nodes() const {
    return StrCat("a=", profd_.socket_dir(), "/control.sock,b=", other_.socket_dir(),
                  "/control.sock");
  }
  FakeProfd other_{folder_ / "other"};
};

TEST_F(FleetCommandsTest, TheListMayStandBeforeTheCommandOrBehindIt) {
  other_.targets.push_back(ATarget(4711));
  for (const auto& words : std::vector<std::vector<std::string>>{{"--nodes", nodes(), "ps"},
                                                                 {"ps", "--nodes", nodes()}}) {
    const auto json = RunJson(words);
    ASSERT_EQ(json["targets"].size(), 1U);
    EXPECT_EQ(json["targets"][0]["node"], "b");
    EXPECT_EQ(json["nodes"].size(), 2U);
  }
}

TEST_F(FleetCommandsTest, NamesOfTheContextHaveItsAddresses) {
  other_.targets.push_back(ATarget(4711));
  const Environment home = {{"XDG_CONFIG_HOME", Path("home")}};
  const RunResult added = RunProfctl({"context", "add", "prod", "--nodes", nodes(), "--use"}, home);
  ASSERT_EQ(added.exit_code, 0) << added.err;
  const RunResult result = RunProfctl({"ps", "--nodes", "b", "--json"}, home);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["targets"][0]["node"], "b");
}

TEST_F(FleetCommandsTest, WhereNoNodeAnswersNothingIsSaidOfProcesses) {
  profd_.Kill();
  other_.Kill();
  const RunResult result = Run({"ps", "--nodes", nodes()});
  EXPECT_EQ(result.exit_code, kExitNoDaemon);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("no profd answers"));
}

TEST_F(FleetCommandsTest, WhatAsksOneDaemonTakesNoList) {
  const RunResult result = Run({"--nodes", nodes(), "version"});
  EXPECT_EQ(result.exit_code, kExitUsage);
  EXPECT_THAT(result.err, HasSubstr("--nodes"));
}

TEST_F(FleetCommandsTest, OneDaemonAndManyAtOnceIsAContradiction) {
  const RunResult result = Run({"ps", "--nodes", nodes(), "--address", "/run/x"});
  EXPECT_EQ(result.exit_code, kExitUsage);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--address"), HasSubstr("--nodes")));
}

TEST_F(FleetCommandsTest, AJobIsOnTheDaemonThatTheEnvironmentNames) {
  profd_.targets.push_back(ATarget(4711));
  profd_.targets.push_back(ATarget(4712));
  (*profd_.targets.back().mutable_metadata())["job"] = "88123";
  const auto json = RunJson({"ps", "--job", "88123"});
  ASSERT_EQ(json["targets"].size(), 1U);
  EXPECT_EQ(json["targets"][0]["pid"], 4712);
  EXPECT_FALSE(json.contains("nodes"));
}

TEST_F(FleetCommandsTest, CapturesOfAllNodesStandNewestFirst) {
  const auto add = [](FakeProfd& profd, int number, int64_t seconds) {
    v1::Capture capture = ACapture(TestId(number));
    capture.mutable_create_time()->set_seconds(seconds);
    profd.captures[TestId(number)] = capture;
    profd.newest_first.insert(profd.newest_first.begin(), TestId(number));
  };
  add(profd_, 1, 1000);
  add(other_, 2, 2000);
  add(profd_, 3, 3000);
  const auto json = RunJson({"captures", "--nodes", nodes()});
  ASSERT_EQ(json["captures"].size(), 3U);
  std::vector<std::string> rows;
  for (const auto& row : json["captures"]) {
    rows.push_back(StrCat(row["node"].get<std::string>(), " ", row["id"].get<std::string>()));
  }
  EXPECT_THAT(rows, ElementsAre("a " + TestId(3), "b " + TestId(2), "a " + TestId(1)));
  EXPECT_EQ(RunJson({"captures", "--limit", "1", "--nodes", nodes()})["captures"].size(), 1U);
  const RunResult table = Run({"captures", "--nodes", nodes()});
  EXPECT_THAT(table.out, HasSubstr("NODE"));
  RunJson({"captures", "--job", "88123", "--nodes", nodes()});
  EXPECT_EQ(profd_.lists().back().filter().job(), "88123");
  EXPECT_EQ(other_.lists().back().filter().job(), "88123");
}

TEST_F(FleetCommandsTest, ACaptureIsFoundWhereverItIs) {
  other_.captures[TestId(7)] = ACapture(TestId(7));
  EXPECT_EQ(RunJson({"show", TestId(7), "--nodes", nodes()})["node"], "b");
  EXPECT_EQ(RunJson({"steps", TestId(7), "--nodes", nodes()})["id"], TestId(7));
}

TEST_F(FleetCommandsTest, ACaptureOfNobodyIsNotFoundAndWhoWasNotAskedIsNamed) {
  other_.Kill();
  const RunResult result = Run({"show", TestId(7), "--nodes", nodes()});
  EXPECT_EQ(result.exit_code, kExitFailed);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no capture " + TestId(7)),
                                HasSubstr("b could not be asked"), Not(HasSubstr("a,b"))));
}

TEST_F(FleetCommandsTest, DeletingFindsEachOnItsNode) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  other_.captures[TestId(2)] = ACapture(TestId(2));
  const auto json =
      RunJson({"delete", TestId(1), TestId(2), TestId(3), "--nodes", nodes()}, kExitFailed);
  ASSERT_EQ(json["captures"].size(), 2U);
  EXPECT_EQ(json["captures"][0]["node"], "a");
  EXPECT_EQ(json["captures"][1]["node"], "b");
  ASSERT_EQ(json["errors"].size(), 1U);
  EXPECT_EQ(json["errors"][0]["id"], TestId(3));
}

TEST_F(FleetCommandsTest, NodeShowsARowForEach) {
  other_.node.set_name("host-b");
  const auto json = RunJson({"node", "--nodes", nodes()});
  ASSERT_EQ(json["daemons"].size(), 2U);
  EXPECT_EQ(json["daemons"][1]["node"], "b");
  EXPECT_EQ(json["daemons"][1]["name"], "host-b");
  EXPECT_THAT(Run({"node", "--nodes", nodes()}).out, HasSubstr("host-b"));
}

}  // namespace
}  // namespace profd::cli
