// Commands other than trace, against a fake profd or none.
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "cli/commands/watching.h"
#include "daemon/base/unique_fd.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/ops/module_tree.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/time/compile_report.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// ---- no daemon ----

class NoDaemonTest : public ::testing::Test {
 protected:
  RunResult Run(const std::vector<std::string>& arguments) const {
    return RunProfctl(arguments, {{"PROFD_SOCKET_DIR", folder_.path().string()}});
  }
  UniqueFd BindSocket() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (folder_ / "control.sock").string();
    std::memcpy(address.sun_path, path.data(), path.size());
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }
  store::TemporaryFolder folder_;
};

TEST_F(NoDaemonTest, EveryCommandThatNeedsOneSaysWhatItTriedAndWhatToDo) {
  const std::string id = TestId(1);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"ps"},
                                             {"trace", "--steps", "5"},
                                             {"captures"},
                                             {"show", id},
                                             {"ops", id},
                                             {"steps", id},
                                             {"memory", id},
                                             {"export", id, "-o", (folder_ / "x.json").string()},
                                             {"fetch", id, "-o", (folder_ / "x.profd").string()},
                                             {"cancel", id},
                                             {"delete", id},
                                             {"node"}}) {
    for (const bool json : {false, true}) {
      std::vector<std::string> arguments = command;
      if (json) arguments.emplace_back("--json");
      const RunResult result = Run(arguments);
      EXPECT_EQ(result.exit_code, 6) << command[0] << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, AllOf(HasSubstr((folder_ / "control.sock").string()),
                                    HasSubstr("no such socket"), HasSubstr("Start one")));
    }
  }
}

TEST_F(NoDaemonTest, VersionAndHelpWorkWithout) {
  EXPECT_THAT(Run({"version"}).out, AllOf(StartsWith("profctl "), HasSubstr("no profd answers")));
  const RunResult json = Run({"version", "--json"});
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_TRUE(nlohmann::json::parse(json.out)["profd"].is_null());
  EXPECT_EQ(Run({"--version"}).exit_code, 0);
  EXPECT_EQ(Run({"help"}).exit_code, 0);
}

TEST_F(NoDaemonTest, ASocketThatNobodyListensOnIsNoDaemon) {
  BindSocket();
  const RunResult result = Run({"ps"});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.err, HasSubstr("nothing is listening"));
}

TEST_F(NoDaemonTest, OneThatAcceptsAndStaysSilentIsNoDaemon) {
  const UniqueFd socket = BindSocket();
  ASSERT_EQ(listen(socket.get(), 5), 0);
  const RunResult result = Run({"node"});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.err, AllOf(HasSubstr("does not answer"), HasSubstr("Start one")));
}

TEST_F(NoDaemonTest, WhatIsNoAddressIsWrongUsage) {
  EXPECT_EQ(Run({"ps", "--address", "nonsense"}).exit_code, 2);
  EXPECT_EQ(RunProfctl({"ps"}, {{"PROFD_ADDRESS", "nonsense"}}).exit_code, 2);
}

TEST_F(NoDaemonTest, UnknownCommandsNameTheNearest) {
  const RunResult result = Run({"captrues"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean captures?"));
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"ops"}).exit_code, 2);
  EXPECT_EQ(Run({"ps", "surplus"}).exit_code, 2);
}

// ---- with one ----

using CommandsTest = CliTest;

TEST_F(CommandsTest, TheAddressIsFoundInEveryWay) {
  for (const Environment& environment :
       {Environment{{"PROFD_SOCKET_DIR", profd_.socket_dir()}},
        Environment{{"PROFD_ADDRESS", profd_.address()}, {"PROFD_SOCKET_DIR", "/nonexistent"}}}) {
    EXPECT_EQ(RunProfctl({"node"}, environment).exit_code, 0);
  }
  EXPECT_EQ(RunProfctl({"node", "--address", profd_.address()}, {}).exit_code, 0);
  EXPECT_EQ(RunProfctl({"--address", profd_.address(), "node"}, {}).exit_code, 0);
}

TEST_F(CommandsTest, TheFirstThatAnswersIsTaken) {
  const FakeProfd of_user(folder_ / "profd");
  // /run/profd may have a daemon on this machine; it is not what this test is about.
  if (RunProfctl({"node"}, {}).exit_code == 0) GTEST_SKIP() << "a profd runs on this machine";
  const RunResult result =
      RunProfctl({"version", "--json"}, {{"XDG_RUNTIME_DIR", folder_.path().string()}});
  EXPECT_EQ(nlohmann::json::parse(result.out)["profd"]["address"], of_user.address());
}

TEST_F(CommandsTest, NodeSaysHowGoodItsClockIsAndWhetherItsPolicyIsStale) {
  EXPECT_THAT(Run({"node"}).out, AllOf(HasSubstr("time of day not known to be synchronized"),
                                       Not(HasSubstr("policy"))));
  EXPECT_TRUE(RunJson({"node"})["clock"]["error_ns"].is_null());
  profd_.node.mutable_clock()->set_error_ns(2'500'000);
  profd_.node.set_policy_stale(true);
  EXPECT_THAT(Run({"node"}).out,
              AllOf(HasSubstr("time of day within 2.500ms"),
                    HasSubstr("policy    the file is invalid, and earlier rules apply\n")));
  profd_.node.set_policy_error("line 7: no such verb");
  EXPECT_THAT(Run({"node"}).out, HasSubstr("earlier rules apply: line 7: no such verb\n"));
  EXPECT_EQ(RunJson({"node"})["clock"]["error_ns"], 2'500'000);
  EXPECT_EQ(RunJson({"node"})["policy_stale"], true);
}

TEST_F(CommandsTest, PsListsAllPages) {
  profd_.targets = {ATarget(1001), ATarget(1002), ATarget(1003)};
  profd_.targets[2].clear_step_mark_count();
  (*profd_.targets[0].mutable_metadata())["rank"] = "0";
  const auto targets = RunJson({"ps"})["targets"];
  ASSERT_EQ(targets.size(), 3);
  EXPECT_EQ(targets[0]["pid"], 1001);
  EXPECT_EQ(targets[0]["uid"], 1000);
  EXPECT_EQ(targets[0]["command"], "python3 train.py");
  EXPECT_EQ(targets[0]["current_step"], 42);
  EXPECT_EQ(targets[0]["state"], "RUNNING");
  EXPECT_EQ(targets[0]["metadata"]["rank"], "0");
  EXPECT_EQ(targets[2]["current_step"], -1);
  const RunResult result = Run({"ps"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("COMMAND"), HasSubstr("1003")));
}

TEST_F(CommandsTest, TopAsJsonIsALineEachTimeUntilInterrupted) {
  profd_.targets = {ATarget(4711)};
  ProfctlProcess process({"top", "--every=100ms", "--json"}, environment());
  profd_.AwaitTargetPages(3);
  process.Signal(SIGINT);
  const RunResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  std::istringstream lines(result.out);
  int looks = 0;
  for (std::string line; std::getline(lines, line); ++looks) {
    const auto look = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(look.is_object()) << line;
    EXPECT_EQ(look["targets"][0]["pid"], 4711);
  }
  EXPECT_GE(looks, 3);
}

TEST_F(CommandsTest, TopAsJsonEndsWithItsDaemon) {
  ProfctlProcess process({"top", "--every=100ms", "--json"}, environment());
  profd_.AwaitTargetPages(1);
  profd_.Kill();
  const RunResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 6) << result.err;
}

TEST_F(CommandsTest, ATopThatIsTooFastOrNoneIsRefused) {
  for (const char* flag : {"--every=1ms", "--every=25h", "--every=soon"}) {
    const RunResult result = Run({"top", "--json", flag});
    EXPECT_EQ(result.exit_code, 2) << flag;
    EXPECT_THAT(result.err, HasSubstr("--every")) << flag;
  }
}

TEST(ScreenTest, EachLineReplacesTheOneThatWasThere) {
  EXPECT_EQ(ScreenOf("a\nb\n", 24), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
  EXPECT_EQ(ScreenOf("a\nb\n", 0), ScreenOf("a\nb\n", 3));
  EXPECT_EQ(ScreenOf("", 24), "\x1b[H\x1b[J");
}

TEST(ScreenTest, WhatDoesNotFitIsCounted) {
  const std::string screen = ScreenOf("a\nb\nc\nd\n", 4);
  EXPECT_THAT(screen, HasSubstr("b\x1b[K\n(2 more lines"));
  EXPECT_EQ(std::ranges::count(screen, '\n'), 3);
}

TEST_F(CommandsTest, HostileTextReachesNoTerminalAndNoParser) {
  profd_.targets = {ATarget(1001)};
  profd_.targets[0].set_command("\033]0;owned\007\r\n\"" + std::string(4096, 'x'));
  EXPECT_THAT(Run({"ps"}).out, AllOf(Not(HasSubstr("\033")), Not(HasSubstr("\007"))));
  EXPECT_EQ(RunJson({"ps"})["targets"][0]["command"], profd_.targets[0].command());

  profd_.captures[TestId(1)] = ACapture(TestId(1));
  report::KernelTable hostile;
  hostile.rows = {{.name = "a\x1b[2J\xFF\n" + std::string(4096, 'n')}};
  hostile.rows[0].display_name = hostile.rows[0].name;
  profd_.Set(report::ToReport(hostile));
  EXPECT_THAT(Run({"kernels", TestId(1)}).out, Not(HasSubstr("\x1b")));
  const auto rows = RunJson({"kernels", TestId(1)})["rows"];
  EXPECT_EQ(rows[0]["name"], "a\x1b[2J\xEF\xBF\xBD\n" + std::string(4096, 'n'));
}

TEST_F(CommandsTest, NodeAndVersionShowBothSides) {
  EXPECT_EQ(RunJson({"node"})["clock"]["unix_ns"].get<int64_t>(), 1'790'003'725'000'000'123);
  EXPECT_THAT(Run({"node"}).out, HasSubstr("up        1h 2m"));
  EXPECT_EQ(RunJson({"version"})["profd"]["version"], "0.1.0");
}

TEST_F(CommandsTest, VersionShowsItsOwnAlsoWhereTheContextMeansSeveralNodes) {
  const Environment home = {{"XDG_CONFIG_HOME", folder_.path().string()}};
  const RunResult added = RunProfctl({"context", "add", "lab", "--nodes", "a1,a2", "--use"}, home);
  ASSERT_EQ(added.exit_code, 0) << added.err;
  const RunResult result = RunProfctl({"version"}, home);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("profctl "), HasSubstr("a1,a2")));
}

TEST_F(CommandsTest, PsOfAJobSaysThatItHasNoProcess) {
  EXPECT_THAT(Run({"ps", "--job", "88"}).out, StartsWith("No process of job 88 has registered"));
}

TEST_F(CommandsTest, ADaemonWithoutTheApiWeNeedIsNamed) {
  profd_.node.set_api_version(0);
  profd_.node.set_version("0.0.9");
  const RunResult result = Run({"ps"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("profd 0.0.9"), HasSubstr("one release")));
  EXPECT_EQ(Run({"version"}).exit_code, 0);
}

TEST_F(CommandsTest, ANewerDaemonIsFine) {
  profd_.node.set_api_version(7);
  EXPECT_EQ(Run({"ps"}).exit_code, 0);
}

TEST_F(CommandsTest, ARequestThatTheDaemonDoesNotKnowIsAVersionProblem) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  profd_.on_report = {absl::StatusCode::kUnimplemented, "", "what?"};
  const RunResult result = Run({"steps", TestId(1)});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("does not know this request"));
}

TEST_F(CommandsTest, ShowTakesTheStartOfAnIdInAnyCase) {
  profd_.captures[TestId(1234)] = ACapture(TestId(1234));
  EXPECT_EQ(RunJson({"show", "01j"})["id"], TestId(1234));
  EXPECT_EQ(RunJson({"show", "captures/" + TestId(1234)})["id"], TestId(1234));
  EXPECT_THAT(Run({"show", "01J"}).out, HasSubstr("Quality A"));
  EXPECT_EQ(Run({"show", "01K"}).exit_code, 1);
  EXPECT_EQ(Run({"show", "not-an-id"}).exit_code, 2);
  profd_.captures[TestId(1235)] = ACapture(TestId(1235));
  EXPECT_EQ(Run({"show", "01J"}).exit_code, 2);
}

TEST_F(CommandsTest, ShowTakesAGroup) {
  for (const int number : {1, 2}) {
    v1::Capture capture = ACapture(TestId(number));
    capture.set_group("groups/" + TestId(7000));
    profd_.captures[TestId(number)] = capture;
  }
  EXPECT_EQ(RunJson({"show", TestId(7000)})["captures"].size(), 2);
  EXPECT_THAT(Run({"show", TestId(7000)}).out, HasSubstr("2 targets"));
}

TEST_F(CommandsTest, AGroupWithoutARecordedMemberSaysWhyForEach) {
  for (const int number : {1, 2}) {
    v1::Capture capture = ACapture(TestId(number));
    capture.set_group("groups/" + TestId(7000));
    capture.set_state(v1::Capture::FAILED);
    capture.set_ended_by("target_exit");
    capture.set_file_bytes(0);
    capture.set_error_message(number == 1 ? "it ended first" : "it ended, too");
    profd_.captures[TestId(number)] = capture;
  }
  for (const char* const command : {"steps", "stragglers", "ops", "report"}) {
    const RunResult result = Run({command, TestId(7000)});
    EXPECT_NE(result.exit_code, 0) << command;
    EXPECT_EQ(result.out, "") << command;
    EXPECT_THAT(result.err, AllOf(HasSubstr("it ended first"), HasSubstr("it ended, too")))
        << command;
  }
}

TEST_F(CommandsTest, CapturesListsGroupsIfThereAreAny) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  profd_.newest_first = {TestId(1)};
  EXPECT_THAT(Run({"captures"}).out, Not(HasSubstr("GROUP")));
  profd_.captures[TestId(1)].set_group("groups/" + TestId(7000));
  EXPECT_THAT(Run({"captures"}).out,
              AllOf(HasSubstr("GROUP"), HasSubstr("groups/" + TestId(7000))));
}

TEST_F(CommandsTest, DeleteTakesTheCapturesOfAGroup) {
  for (const int number : {1, 2, 3, 4}) {
    v1::Capture capture = ACapture(TestId(number));
    if (number < 4) capture.set_group("groups/" + TestId(7000));
    if (number == 3) capture.set_deleted(true);
    profd_.captures[TestId(number)] = capture;
  }
  const std::string group = "groups/" + TestId(7000);
  // The ID alone may be a mistake: nothing is removed for it.
  const RunResult bare = Run({"delete", TestId(7000)});
  EXPECT_NE(bare.exit_code, 0);
  EXPECT_THAT(bare.err, HasSubstr("is the ID of a group"));
  EXPECT_NE(Run({"delete", "groups/" + TestId(8000)}).exit_code, 0);
  // The second is named twice, the third has no file any more.
  const RunResult deleted = Run({"delete", group, TestId(2)});
  EXPECT_EQ(deleted.exit_code, 0);
  EXPECT_EQ(deleted.out, TestId(1) + " deleted\n" + TestId(2) + " deleted\n");
  EXPECT_FALSE(profd_.captures[TestId(4)].deleted());
}

TEST_F(CommandsTest, CapturesTurnsPagesAndRowsAreWholeCaptures) {
  for (int number = 5; number >= 1; --number) {
    profd_.captures[TestId(number)] = ACapture(TestId(number));
    profd_.newest_first.push_back(TestId(number));
  }
  const auto captures = RunJson({"captures"})["captures"];
  ASSERT_EQ(captures.size(), 5);
  EXPECT_EQ(captures[0]["id"], TestId(5));
  EXPECT_EQ(captures[0], RunJson({"show", TestId(5)}));
  EXPECT_EQ(captures[4]["steps"].size(), 5);
  EXPECT_EQ(RunJson({"captures", "--limit", "3"})["captures"].size(), 3);
  const RunResult table = Run({"captures", "--limit", "3"});
  EXPECT_THAT(table.out, AllOf(HasSubstr(TestId(3)), Not(HasSubstr(TestId(2))), HasSubstr("more")));
}

TEST_F(CommandsTest, CapturesSendsItsFilters) {
  Run({"captures", "--label=a=b", "--pid=77", "--name=slow", "--state=partial,FAILED",
       "--since=2026-11-20T10:00:00Z", "--deleted", "--schedule=01j9", "--by=cn:alice",
       "--address=" + profd_.address(), "--job=88123"});
  ASSERT_THAT(profd_.lists(), SizeIs(1));
  const auto filter = profd_.lists()[0].filter();
  EXPECT_EQ(filter.labels().at("a"), "b");
  EXPECT_EQ(filter.pid(), 77);
  EXPECT_EQ(filter.display_name(), "slow");
  EXPECT_EQ(filter.states_size(), 2);
  EXPECT_EQ(filter.states(0), v1::Capture::PARTIAL);
  EXPECT_EQ(filter.since().seconds(), 1'795'168'800);
  EXPECT_TRUE(filter.include_deleted());
  EXPECT_EQ(filter.schedule(), "schedules/01J9");
  EXPECT_EQ(filter.requested_by(), "cn:alice");
  EXPECT_EQ(filter.job(), "88123");
  EXPECT_EQ(Run({"captures", "--since", "2h"}).exit_code, 0);
  EXPECT_EQ(Run({"captures", "--since", "yesterday"}).exit_code, 2);
  EXPECT_EQ(Run({"captures", "--state", "SLEEPING"}).exit_code, 2);
  EXPECT_THAT(Run({"captures"}).out, HasSubstr("No captures match"));
}

TEST_F(CommandsTest, KernelsPassesItsOptionsAndPeopleGetFewerRows) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  Run({"kernels", "01J", "--sort", "mean", "--step", "12"});
  RunJson({"kernels", "01J"});
  RunJson({"kernels", "01J", "--limit", "3"});
  const auto calls = profd_.report_calls();
  ASSERT_THAT(calls, SizeIs(3));
  const auto option = [&](size_t call, const std::string& name) {
    const auto found = calls[call].options().find(name);
    return found == calls[call].options().end() ? "none" : found->second;
  };
  EXPECT_EQ(calls[0].capture(), "captures/" + TestId(1));
  EXPECT_EQ(calls[0].report(), "kernels");
  EXPECT_EQ(option(0, "sort"), "mean");
  EXPECT_EQ(option(0, "step"), "12");
  EXPECT_EQ(option(0, "limit"), "50");
  EXPECT_EQ(option(1, "step"), "none");
  EXPECT_EQ(option(1, "limit"), "0");
  EXPECT_EQ(option(2, "limit"), "3");
  EXPECT_EQ(Run({"kernels", "01J", "--sort", "colour"}).exit_code, 2);
}

TEST_F(CommandsTest, GpuReportsShowWhatTheDaemonAnswers) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  report::KernelTable kernel_table = {.busy_ns = 77};
  kernel_table.rows = {{.name = "_Z1kPf",
                        .display_name = "k(float*)",
                        .grid = {64, 1, 1},
                        .occupancy = 0.5,
                        .op = "aten::mm"}};
  profd_.Set(report::ToReport(kernel_table));
  const auto kernels = RunJson({"kernels", "01J"});
  EXPECT_EQ(kernels["rows"][0]["name"], "_Z1kPf");
  EXPECT_EQ(kernels["rows"][0]["grid"][0], 64);
  EXPECT_EQ(kernels["rows"][0]["occupancy"], 0.5);
  EXPECT_EQ(kernels["busy_ns"], 77);
  EXPECT_EQ(kernels["simulated"], false);
  EXPECT_THAT(Run({"kernels", "01J"}).out, HasSubstr("k(float*)"));

  report::CopyTable copies;
  copies.rows = {{.name = "Memset (Device)", .bytes = 4096}};
  profd_.Set(report::ToReport(copies));
  EXPECT_EQ(RunJson({"copies", "01J"})["rows"][0]["bytes"], 4096);
  EXPECT_THAT(Run({"copies", "01J"}).out, HasSubstr("Memset (Device)"));

  report::SyncTable syncs;
  syncs.rows = {{.name = "Stream Sync", .api = "cudaStreamSynchronize"}};
  profd_.Set(report::ToReport(syncs));
  EXPECT_EQ(RunJson({"syncs", "01J"})["rows"][0]["api"], "cudaStreamSynchronize");
  EXPECT_THAT(Run({"syncs", "01J"}).out, HasSubstr("Stream Sync"));

  report::IdleTable idle;
  idle.rows = {{.host_wait_ns = 55}};
  idle.streams = {{.stream = 7}};
  profd_.Set(report::ToReport(idle));
  EXPECT_EQ(RunJson({"idle", "01J"})["rows"][0]["host_wait_ns"], 55);
  EXPECT_EQ(RunJson({"idle", "01J"})["streams"][0]["stream"], 7);
  EXPECT_THAT(Run({"idle", "01J"}).out, HasSubstr("Host wait"));
}

TEST_F(CommandsTest, AnAnswerWithoutTablesDoesNoHarm) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  for (const char* const report :
       {"ops", "modules", "kernels", "copies", "syncs", "idle", "compile"}) {
    EXPECT_EQ(Run({report, "01J"}).exit_code, 0) << report;
    EXPECT_EQ(Run({report, "01J", "--csv"}).exit_code, 0) << report;
    EXPECT_EQ(Run({report, "01J", "--json"}).exit_code, 0) << report;
  }
  for (const char* const by : {"module", "source", "stack", "arguments"}) {
    EXPECT_EQ(Run({"ops", "01J", "--group-by", by}).exit_code, 0) << by;
  }
}

TEST_F(CommandsTest, ReportsOnTorchComeFromTheDaemon) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  report::ModuleTree modules = {.has_modules = true, .step_count = 2, .steps_ns = 1000};
  modules.rows = {
      {.name = "blocks.0", .class_name = "Block", .parent = ""},
      {.name = "blocks.0.mlp", .class_name = "Linear", .parent = "blocks.0", .depth = 1}};
  profd_.Set(report::ToReport(modules));
  EXPECT_EQ(RunJson({"modules", "01J"})["rows"][0]["class"], "Block");
  EXPECT_EQ(RunJson({"modules", "01J"})["rows"][1]["name"], "blocks.0.mlp");
  EXPECT_THAT(Run({"modules", "01J"}).out, HasSubstr("\nblocks.0 "));
  EXPECT_THAT(Run({"modules", "01J"}).out, HasSubstr("\n  blocks.0.mlp "));
  EXPECT_THAT(Run({"modules", "01J", "--sort", "calls"}).out, HasSubstr("\nblocks.0.mlp "));
  EXPECT_THAT(Run({"modules", "01J", "--csv"}).out, HasSubstr("\nblocks.0.mlp,"));
  profd_.Set(report::ToReport(report::FindingsReport{.verdict = "It computes."}));
  EXPECT_THAT(Run({"report", "01J", "--all"}).out,
              AllOf(HasSubstr("by self time on the host"), HasSubstr("\nblocks.0.mlp ")));
  EXPECT_THAT(Run({"report", "01J"}).out, Not(HasSubstr("by self time on")));
  // With a GPU, by what they launched.
  modules.has_device = true;
  modules.rows[0].self_device_ns = 10;
  modules.rows[1].self_device_ns = 30;
  profd_.Set(report::ToReport(modules));
  profd_.captures[TestId(1)].mutable_gpu()->add_devices()->set_name("H200");
  EXPECT_THAT(Run({"report", "01J", "--all"}).out,
              AllOf(HasSubstr("by self time on the GPU (`profctl modules`"), HasSubstr("0.030us"),
                    Not(HasSubstr("on the host ("))));

  report::CompileReport compiled = {.has_compiled = true, .folded_event_count = 1700};
  compiled.regions = {{.id = "0/1", .code = "train.py:19 in forward", .after_graph_break = true}};
  compiled.graph_breaks = {{.where = "train.py:12 in forward", .reason = "builtin: print"}};
  compiled.recompiles = {{.reason = "size mismatch", .compile_ns = -1}};
  compiled.steps = {{.cache_lookup_ns = 5}};
  profd_.Set(report::ToReport(compiled));
  const auto compile = RunJson({"compile", "01J"});
  EXPECT_EQ(compile["regions"][0]["id"], "0/1");
  EXPECT_EQ(compile["regions"][0]["after_graph_break"], true);
  EXPECT_EQ(compile["graph_breaks"][0]["reason"], "builtin: print");
  EXPECT_EQ(compile["recompiles"][0]["compile_ns"], nullptr) << "it is not known";
  EXPECT_EQ(compile["steps"][0]["cache_lookup_ns"], 5);
  EXPECT_EQ(compile["folded_event_count"], 1700);
  EXPECT_THAT(Run({"compile", "01J"}).out,
              AllOf(HasSubstr("train.py:19 in forward"), HasSubstr("builtin: print")));
}

// The report keeps the first collectives; the command sorts all of them before it limits them.
TEST_F(CommandsTest, CollectivesAreSortedBeforeTheyAreLimited) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  EXPECT_THAT(Run({"collectives", "01J"}).out, HasSubstr("No collective operation was recorded"));
  report::CollectiveTable table = {.communicators = {{.size = 3}}, .left_out_count = 2};
  for (int64_t i = 0; i < 60; ++i) {
    table.rows.push_back({.start_ns = 100 * i,
                          .duration_ns = 9 + i,
                          .sequence = i,
                          .step = 7,
                          .kind = report::CollectiveKind::kAllReduce});
  }
  table.steps = {{.step = 7, .duration_ns = 6'000, .exposed_ns = 40}};
  profd_.Set(report::ToReport(table));
  const auto longest = RunJson({"collectives", "01J", "--sort", "duration", "--limit", "2"});
  ASSERT_EQ(longest["rows"].size(), 2U);
  EXPECT_EQ(longest["rows"][0]["sequence"], 59);
  EXPECT_EQ(longest["rows"][0]["kind"], "all_reduce");
  EXPECT_EQ(longest["row_count"], 60);
  EXPECT_EQ(longest["left_out_count"], 2);
  EXPECT_EQ(longest["steps"][0]["exposed_ns"], 40);
  for (const v1::GetReportRequest& call : profd_.report_calls())
    EXPECT_TRUE(call.options().empty());
  EXPECT_EQ(RunJson({"collectives", "01J"})["rows"].size(), 60U);
  const std::string text = Run({"collectives", "01J"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("all_reduce"), HasSubstr("(10 more rows: --limit 0)")));
  const std::string csv = Run({"collectives", "01J", "--csv"}).out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 61);
  EXPECT_EQ(Run({"collectives", "01J", "--csv", "--json"}).exit_code, 2);
  EXPECT_EQ(Run({"collectives", "01J", "--sort", "colour"}).exit_code, 2);
}

TEST_F(CommandsTest, ReportsStateTheLossAboveTheNumbers) {
  v1::Capture capture = ACapture(TestId(1));
  capture.set_quality("C");
  capture.set_dropped_event_count(100'000);
  (*capture.mutable_dropped_by_reason())["no_chunk"] = 100'000;
  profd_.captures[TestId(1)] = capture;
  for (const std::string report : {"kernels", "steps", "idle"}) {
    EXPECT_THAT(Run({report, "01J"}).out,
                AllOf(HasSubstr("Quality C: 100,000 of 1,334,567 events were lost"),
                      HasSubstr("raise --buffer")));
    EXPECT_EQ(RunJson({report, "01J"})["dropped_event_count"], 100'000);
  }
}

TEST_F(CommandsTest, TheTimeOfStepsThatOnlyAnOlderCaptureCountsIsAMean) {
  v1::Capture& capture = profd_.captures[TestId(1)] = ACapture(TestId(1));
  capture.set_step_during_ns(10'500'000);
  EXPECT_THAT(Run({"show", "01J"}).out, HasSubstr("10.500ms in the window (median)\n"));
  capture.mutable_spec()->set_step_marker("iteration");
  EXPECT_THAT(Run({"show", "01J"}).out, HasSubstr("10.500ms in the window (median)\n"));
  capture.set_covered_steps(5);
  capture.set_covered_ns(52'500'000);
  EXPECT_THAT(Run({"show", "01J"}).out, HasSubstr("10.500ms in the window (mean)\n"));
}

TEST_F(CommandsTest, StepsKeepTheirContract) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  report::StepTable steps;
  steps.rows = {{.index = 11, .duration_ns = 10}};
  profd_.Set(report::ToReport(steps));
  EXPECT_EQ(RunJson({"steps", "01J"})["steps"][0]["index"], 11);
}

TEST_F(CommandsTest, WhatAFrameworkCalledTheStepsIsShown) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  report::StepTable steps;
  steps.labels = {{.name = "global_step", .value = 1200, .step = 57}};
  profd_.Set(report::ToReport(steps));
  const auto labels = nlohmann::json::parse(R"([{"name":"global_step","value":1200,"step":57}])");
  EXPECT_EQ(RunJson({"steps", "01J"})["labels"], labels);
  // A capture without notes is not asked for them.
  EXPECT_FALSE(RunJson({"show", "01J"}).contains("step_labels"));
  profd_.captures[TestId(1)].mutable_torch()->set_note_count(1);
  EXPECT_EQ(RunJson({"show", "01J"})["step_labels"], labels);
  EXPECT_THAT(Run({"show", "01J"}).out, HasSubstr("global_step 1200 when step 57 had begun"));
}

TEST_F(CommandsTest, ShowWithoutTheReportSaysWhatIsNotThere) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  profd_.captures[TestId(1)].mutable_torch()->set_note_count(1);
  profd_.on_report = {absl::StatusCode::kResourceExhausted, "", "too many reports"};
  const RunResult result = Run({"show", "01J"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("too many reports"));
}

TEST_F(CommandsTest, CancelAndDeleteTakeSeveralAndGoOnAfterAFailure) {
  profd_.captures[TestId(1)] = ACapture(TestId(1));
  profd_.captures[TestId(2)] = ACapture(TestId(2));
  const RunResult cancelled = Run({"cancel", TestId(1), TestId(2)});
  EXPECT_EQ(cancelled.exit_code, 0);
  EXPECT_EQ(cancelled.out, TestId(1) + " COMPLETE\n" + TestId(2) + " COMPLETE\n");
  const RunResult deleted = Run({"delete", TestId(1), TestId(9), TestId(2)});
  EXPECT_EQ(deleted.exit_code, 1);
  EXPECT_EQ(deleted.out, TestId(1) + " deleted\n" + TestId(2) + " deleted\n");
  EXPECT_THAT(deleted.err, HasSubstr("no capture " + TestId(9)));
  EXPECT_EQ(RunJson({"delete", TestId(9)}, 1)["errors"][0]["id"], TestId(9));
  profd_.on_delete = {absl::StatusCode::kFailedPrecondition, "CAPTURE_LIVE", "cancel it first"};
  EXPECT_EQ(Run({"delete", TestId(1)}).exit_code, 5);
}

TEST_F(CommandsTest, AFullDiskBehindStdoutIsAFailure) {
  // As `profctl ps > /dev/full` in a shell.
  const int status = std::system(("PROFD_SOCKET_DIR='" + profd_.socket_dir() +
                                  "' \"$PROFD_BUILD_DIR/bin/profctl\" "
                                  "ps --json >/dev/full 2>/dev/null")
                                     .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
}  // namespace profd::cli
