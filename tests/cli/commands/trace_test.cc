// profctl trace against a fake profd: what it asks, how it ends, what it prints.
#include <signal.h>

#include "cli/base/errors.h"
#include "daemon/report/ops/profile.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class TraceTest : public CliTest {
 protected:
  TraceTest() {
    profd_.targets = {ATarget(4711)};
    report::OpProfile ops = {.self_cpu_total_ns = 40'000'000};
    report::OpProfileRow& row = ops.rows.emplace_back();
    row.name = "forward";
    row.calls = 5;
    row.self_cpu_ns = 30'000'000;
    row.cpu_total_ns = 40'000'000;
    profd_.Set(report::ToReport(ops));
  }
  void EndAs(v1::Capture::State state, const std::string& ended_by) {
    profd_.ends_as.set_state(state);
    profd_.ends_as.set_ended_by(ended_by);
  }
};

TEST_F(TraceTest, JsonIsTheFinishedCapture) {
  const auto capture = RunJson({"trace", "--pid", "4711", "--steps", "5"});
  EXPECT_EQ(capture["state"], "COMPLETE");
  EXPECT_EQ(capture["ended_by"], "steps");
  EXPECT_EQ(capture["start_unix_ns"].get<int64_t>(), 1'790'000'001'000'000'123);
  EXPECT_TRUE(capture["start_unix_ns"].is_number_integer());
  ASSERT_EQ(capture["steps"].size(), 5);
  EXPECT_EQ(capture["steps"][4]["index"], 15);
  EXPECT_EQ(capture["event_count"], 1234567);
  EXPECT_EQ(capture["dropped_event_count"], 0);
  EXPECT_EQ(capture["target"]["pid"], 4711);
}

TEST_F(TraceTest, TheTableTheHintsAndThePathCome) {
  const RunResult result = Run({"trace", "--pid", "4711", "--steps", "5", "-o", Path("t.json")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Self CPU"));
  EXPECT_THAT(result.out, HasSubstr("forward"));
  EXPECT_THAT(result.out, HasSubstr("Self CPU time total: 40.000ms\n"));
  EXPECT_THAT(result.out, EndsWith("\n" + Path("t.json") + "\n"));
  EXPECT_THAT(result.err, HasSubstr("next: profctl report 01J"));
  EXPECT_THAT(result.err, Not(HasSubstr("memory"))) << "none was recorded";
  EXPECT_EQ(ReadFile(Path("t.json")), profd_.trace_bytes);
  // No terminal, no progress line and no colours.
  EXPECT_THAT(result.err + result.out, Not(HasSubstr("\033")));
}

TEST_F(TraceTest, TheHintNamesStepsOnlyIfThereAreSome) {
  EXPECT_THAT(Run({"trace", "--pid", "4711"}).err, HasSubstr(" | steps 01J"));
  profd_.ends_as.set_covered_steps(0);
  EXPECT_THAT(Run({"trace", "--pid", "4711", "--duration", "1s"}).err,
              AllOf(HasSubstr(" | time 01J"), Not(HasSubstr(" | steps "))));
}

TEST_F(TraceTest, TheHintRepeatsWhichDaemonItWas) {
  const std::string address = "unix:" + profd_.socket_dir() + "/control.sock";
  const RunResult result = RunProfctl({"--address", address, "trace", "--pid", "4711"}, {});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("next: profctl --address " + address + " report 01J"));
}

TEST_F(TraceTest, AListOfOneNodeIsThatNode) {
  const std::string one = "one=" + profd_.socket_dir() + "/control.sock";
  const RunResult result = RunProfctl({"--nodes", one, "trace", "--pid", "4711"}, {});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("forward"));
  const RunResult two =
      RunProfctl({"--nodes", one + ",other=/nowhere.sock", "trace", "--pid", "4711"}, {});
  EXPECT_EQ(two.exit_code, kExitUsage);
  EXPECT_THAT(two.err, HasSubstr("--pid goes with one node only"));
}

TEST_F(TraceTest, TheSuffixDecidesTheFormat) {
  for (const std::string name : {"a.json", "a.json.gz", "a.pftrace"}) {
    EXPECT_EQ(Run({"trace", "-o", Path(name)}).exit_code, 0);
  }
  const auto exports = profd_.exports();
  ASSERT_THAT(exports, SizeIs(3));
  EXPECT_EQ(exports[0].format(), v1::ExportTraceRequest::CHROME);
  EXPECT_EQ(exports[1].format(), v1::ExportTraceRequest::CHROME_GZ);
  EXPECT_EQ(exports[2].format(), v1::ExportTraceRequest::PERFETTO);
}

TEST_F(TraceTest, WhatIsAskedReachesTheDaemon) {
  RunJson({"trace", "--steps=7", "--warmup=0", "--wait=3", "--repeat=2", "--start-step=900",
           "--timeout=2m", "--buffer=8MiB", "--allow-smaller-buffer", "--max-bytes=1GiB",
           "--name=slow", "--label=a=b", "--label", "run=7", "--request-id=req-1"});
  ASSERT_THAT(profd_.creates(), SizeIs(1));
  const v1::CreateCaptureRequest request = profd_.creates()[0];
  EXPECT_EQ(request.target(), "targets/47110");
  EXPECT_EQ(request.request_id(), "req-1");
  const v1::CaptureSpec& spec = request.spec();
  EXPECT_EQ(spec.steps(), 7);
  EXPECT_TRUE(spec.has_warmup_steps());
  EXPECT_EQ(spec.warmup_steps(), 0);
  EXPECT_EQ(spec.wait_steps(), 3);
  EXPECT_EQ(spec.repeat(), 2);
  EXPECT_EQ(spec.start_step(), 900);
  EXPECT_EQ(spec.timeout().seconds(), 120);
  EXPECT_EQ(spec.memory_bytes(), 8 << 20);
  EXPECT_TRUE(spec.allow_less_memory());
  EXPECT_EQ(spec.max_bytes(), 1 << 30);
  EXPECT_EQ(spec.display_name(), "slow");
  EXPECT_EQ(spec.labels().at("a"), "b");
  EXPECT_EQ(spec.labels().at("run"), "7");
  EXPECT_FALSE(spec.has_duration());
}

TEST_F(TraceTest, WhatIsAskedOfTheGpuReachesTheDaemon) {
  RunJson({"trace"});
  RunJson({"trace", "--gpu", "full", "--gpu-buffer=128MiB", "--gpu-detach", "--gpu-latency"});
  RunJson({"trace", "--gpu=off"});
  RunJson({"trace", "--gpu=light"});
  RunJson({"trace", "--gpu=default"});
  const auto creates = profd_.creates();
  ASSERT_THAT(creates, SizeIs(5));
  const auto gpu = [&](size_t index) { return creates[index].spec().gpu(); };
  EXPECT_EQ(gpu(0).mode(), v1::GpuSpec::AUTO);
  EXPECT_EQ(gpu(0).buffer_bytes(), 64 << 20);
  EXPECT_EQ(gpu(0).max_records(), 20'000'000);
  EXPECT_FALSE(gpu(0).detach() || gpu(0).latency());
  EXPECT_EQ(gpu(1).mode(), v1::GpuSpec::FULL);
  EXPECT_EQ(gpu(1).buffer_bytes(), 128 << 20);
  EXPECT_TRUE(gpu(1).detach() && gpu(1).latency());
  EXPECT_EQ(gpu(2).mode(), v1::GpuSpec::OFF);
  EXPECT_EQ(gpu(3).mode(), v1::GpuSpec::LIGHT);
  EXPECT_EQ(gpu(4).mode(), v1::GpuSpec::DEFAULT);
}

TEST_F(TraceTest, WhatIsAskedOfTorchReachesTheDaemon) {
  RunJson({"trace"});
  RunJson({"trace", "--ops", "shapes", "--with", "memory,strides", "--step-source=dataloader"});
  RunJson({"trace", "--ops=names", "--with=memory"});
  RunJson({"trace", "--ops=off"});
  RunJson({"trace", "--with", "strides", "--with", "memory"});
  RunJson({"trace", "--with", "stacks,modules"});
  const auto creates = profd_.creates();
  ASSERT_THAT(creates, SizeIs(6));
  const auto torch = [&](size_t index) { return creates[index].spec().torch(); };
  EXPECT_EQ(torch(0).operators(), v1::TorchSpec::AUTO);
  EXPECT_FALSE(torch(0).memory() || torch(0).strides());
  EXPECT_EQ(torch(0).step_source(), "");
  EXPECT_EQ(torch(1).operators(), v1::TorchSpec::SHAPES);
  EXPECT_TRUE(torch(1).memory() && torch(1).strides());
  EXPECT_EQ(torch(1).step_source(), "dataloader");
  EXPECT_EQ(torch(2).operators(), v1::TorchSpec::NAMES);
  EXPECT_TRUE(torch(2).memory());
  EXPECT_EQ(torch(3).operators(), v1::TorchSpec::OFF);
  EXPECT_TRUE(torch(4).memory() && torch(4).strides());
  EXPECT_FALSE(torch(4).stacks() || torch(4).modules());
  EXPECT_TRUE(torch(5).stacks() && torch(5).modules());
}

TEST_F(TraceTest, AStepMarkerReachesTheDaemon) {
  RunJson({"trace", "--steps", "3", "--step-marker", "trainer:step"});
  RunJson({"trace"});
  EXPECT_EQ(profd_.creates()[0].spec().step_marker(), "trainer:step");
  EXPECT_EQ(profd_.creates()[1].spec().step_marker(), "");
}

TEST_F(TraceTest, ADurationIsNoSteps) {
  RunJson({"trace", "--duration", "1500ms"});
  const v1::CaptureSpec spec = profd_.creates()[0].spec();
  EXPECT_EQ(spec.steps(), 0);
  EXPECT_EQ(spec.duration().seconds(), 1);
  EXPECT_EQ(spec.duration().nanos(), 500'000'000);
  EXPECT_FALSE(spec.has_start_step());
  RunJson({"trace", "--duration", "6m"});
  EXPECT_EQ(profd_.creates()[1].spec().timeout().seconds(), 11 * 60) << "it would cut the window";
}

TEST_F(TraceTest, WrongUsageEndsBeforeAnythingIsAsked) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--steps", "0"},
      {"--steps", "-1"},
      {"--steps", "1000001"},
      {"--steps", "99999999999999999999"},
      {"--steps", "5", "--duration", "1s"},
      {"--duration", "0"},
      {"--duration", "2h"},
      {"--duration", "500"},
      {"--duration", "1s", "--warmup", "2"},
      {"--pid", "0"},
      {"--pid", "12,x"},
      {"--pid", "12", "--all"},
      {"--buffer", "1"},
      {"--label", "x"},
      {"--label", "UPPER=x"},
      {"--timeout", "25h"},
      {"--gpu", "auto"},
      {"--gpu", "all"},
      {"--gpu-buffer", "1MiB"},
      {"--gpu-buffer", "2GiB"},
      {"--gpu", "off", "--gpu-latency"},
      {"--ops", "auto"},
      {"--with", "shapes"},
      {"--with", "memory,"},
      {"--ops", "names", "--with", "strides"},
      {"--ops", "off", "--with", "strides"},
      {"--step-source", "none"},
      {"--step-source", "marks", "-d", "1s"},
      {"--step-source", "marks", "--start-step", "1"},
      {"--step-source", "marks", "--step-marker", "a"},
      {"--step-marker", ""},
      {"--step-marker", "a\nb"},
      {"--step-marker", std::string(256, 'n')},
      {"--step-marker", "a", "--duration", "1s"},
      {"--step-marker", "a", "--start-step", "1"},
      {"-o", Path("trace.txt")},
      {"-o", Path("no/such/folder/t.json")},
      {"-o", folder_.path().string()},
      {"4711"},
      {"--step", "5"}};
  for (std::vector<std::string> arguments : wrong) {
    arguments.insert(arguments.begin(), "trace");
    const RunResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(arguments) << result.err;
    EXPECT_THAT(result.err, HasSubstr("profctl trace --help"));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_THAT(profd_.creates(), SizeIs(0));
}

TEST_F(TraceTest, AWrongValueIsNamedByItsFlag) {
  EXPECT_THAT(Run({"trace", "--name", "a\nb"}).err, HasSubstr("profctl: --name is 'a?b'; it must"));
  EXPECT_THAT(Run({"trace", "--step-marker", "a\nb"}).err, HasSubstr("profctl: --step-marker is"));
  EXPECT_THAT(Run({"trace", "--timeout", "25h"}).err, HasSubstr("profctl: --timeout is 25h; it"));
  EXPECT_THAT(Run({"trace", "--max-bytes", "300KiB"}).err,
              HasSubstr("--max-bytes '300KiB' must be at least 1.00 MiB and at most 1.00 PiB"));
  EXPECT_THAT(Run({"schedule", "create", "--every", "1h", "--buffer", "1"}).err,
              HasSubstr("--buffer '1' must be at least 1.00 MiB and at most 4.00 GiB"));
}

struct RefusalCase {
  Refusal refusal;
  int exit_code;
  std::string says;
};

TEST_F(TraceTest, EveryRefusalHasItsExitCodeAndSaysWhatToDo) {
  using absl::StatusCode;
  const RefusalCase cases[] = {
      {{StatusCode::kNotFound, "NO_SUCH_PROCESS", "no process 7"}, 1, "profctl ps"},
      {{StatusCode::kFailedPrecondition, "NO_TARGETS", "no targets"}, 1, "profctl ps"},
      {{StatusCode::kFailedPrecondition, "NO_STEPS", "mark steps, or --duration"}, 1, "--duration"},
      {{StatusCode::kFailedPrecondition, "STEP_PASSED", "passed"}, 1, "--start-step"},
      {{StatusCode::kFailedPrecondition, "TARGET_BUSY", "has 01J"}, 5, "has 01J"},
      {{StatusCode::kPermissionDenied, "OTHER_OWNER", "not yours"}, 5, "as root"},
      {{StatusCode::kPermissionDenied, "", "no"}, 5, "no"},
      {{StatusCode::kResourceExhausted, "MEMORY_CAP", "cap"}, 5, "--allow-smaller-buffer"},
      {{StatusCode::kResourceExhausted, "DISK_FULL", "full"}, 5, "profctl node"},
      {{StatusCode::kInvalidArgument, "", "steps is -4"}, 2, "steps is -4"},
      {{StatusCode::kAlreadyExists, "REQUEST_ID_REUSED", "used"}, 2, "--request-id"},
      {{StatusCode::kInternal, "", "a bug \033[31m"}, 1, "a bug ?[31m"}};
  for (const RefusalCase& c : cases) {
    profd_.on_create = c.refusal;
    const RunResult result = Run({"trace", "--json"});
    EXPECT_EQ(result.exit_code, c.exit_code) << c.refusal.reason << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.says));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(TraceTest, APidThatResolvesToNothingIsAnError) {
  profd_.on_resolve = {absl::StatusCode::kFailedPrecondition, "NOT_INSTRUMENTED",
                       "pid 7 has not loaded the profd library"};
  const RunResult result = Run({"trace", "--pid", "7"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("has not loaded"));
}

TEST_F(TraceTest, PartialIsFour) {
  EndAs(v1::Capture::PARTIAL, "target_exit");
  const RunResult result = Run({"trace"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("PARTIAL, ended by target_exit"));
  EXPECT_EQ(RunJson({"trace"}, 4)["state"], "PARTIAL");
}

TEST_F(TraceTest, FailedIsOneAndSaysWhy) {
  EndAs(v1::Capture::FAILED, "target_exit");
  profd_.ends_as.set_error_reason("TARGET_EXITED");
  profd_.ends_as.set_error_message("target 4711 ended before anything was recorded");
  profd_.ends_as.clear_file_bytes();
  profd_.ends_as.clear_start_unix_ns();
  const RunResult result = Run({"trace", "-o", Path("x.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("target 4711 ended before anything was recorded"));
  EXPECT_FALSE(std::filesystem::exists(Path("x.json")));
  EXPECT_EQ(RunJson({"trace"}, 1)["error_reason"], "TARGET_EXITED");
}

TEST_F(TraceTest, AStateOfANewerDaemonIsShownAsItIs) {
  profd_.ends_as.set_state(static_cast<v1::Capture::State>(99));
  const auto capture = RunJson({"trace"}, 4);
  EXPECT_EQ(capture["state"], "STATE_99");
}

TEST_F(TraceTest, SomebodyElsesCancelIsPartial) {
  EndAs(v1::Capture::CANCELLED, "cancel");
  EXPECT_EQ(RunJson({"trace"}, 4)["state"], "CANCELLED");
}

TEST_F(TraceTest, TheFirstInterruptCancelsAndTheResultStillComes) {
  for (const int signal : {SIGINT, SIGTERM}) {
    FakeProfd profd(folder_ / (signal == SIGINT ? "int" : "term"));
    profd.targets = profd_.targets;
    profd.runs_until_cancelled = true;
    ProfctlProcess process({"trace", "--json"}, {{"PROFD_SOCKET_DIR", profd.socket_dir()}});
    profd.AwaitWatchers(1);
    process.Signal(signal);
    profd.AwaitCancel();
    const RunResult result = process.Wait();
    EXPECT_EQ(result.exit_code, 130) << result.err;
    EXPECT_EQ(nlohmann::json::parse(result.out)["state"], "CANCELLED");
  }
}

TEST_F(TraceTest, TheSecondInterruptLeavesAtOnce) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "it leaves without joining a thread, and ThreadSanitizer makes that exit status 66";
#endif
  profd_.runs_until_cancelled = true;
  profd_.ignores_cancel = true;
  ProfctlProcess process({"trace", "--json"}, environment());
  profd_.AwaitWatchers(1);
  process.Signal(SIGINT);
  profd_.AwaitCancel();
  process.Signal(SIGINT);
  const RunResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.out, "");
  ASSERT_THAT(profd_.captures, SizeIs(1));
  const std::string& id = profd_.captures.begin()->first;
  EXPECT_EQ(result.err, "profctl: exits before capture " + id +
                            " has ended. Go on with: profctl show " + id + " | report " + id +
                            "\n");
}

TEST_F(TraceTest, ADaemonThatComesBackSaysHowItEnded) {
  profd_.runs_until_cancelled = true;
  ProfctlProcess process({"trace", "--json"}, environment());
  profd_.AwaitWatchers(1);
  profd_.Kill();
  v1::Capture ended = ACapture(TestId(1000));
  ended.set_state(v1::Capture::PARTIAL);
  ended.set_ended_by("daemon_stop");
  profd_.captures[TestId(1000)] = ended;
  profd_.Start();
  const RunResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["ended_by"], "daemon_stop");
}

TEST_F(TraceTest, ADaemonThatStaysAwayIsNoDaemon) {
  profd_.runs_until_cancelled = true;
  ProfctlProcess process({"trace", "--json"}, environment());
  profd_.AwaitWatchers(1);
  profd_.Kill();
  const RunResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.err, HasSubstr("profctl show " + TestId(1000)));
}

// ---- several targets ----

class GroupTraceTest : public TraceTest {
 protected:
  GroupTraceTest() {
    profd_.targets = {ATarget(4711), ATarget(4712)};
    v1::Capture failed = ACapture(TestId(0));
    failed.set_state(v1::Capture::FAILED);
    failed.set_ended_by("target_exit");
    failed.set_error_message("target 4712 ended");
    failed.clear_file_bytes();
    failed_ = failed;
  }
  v1::Capture failed_;
};

TEST_F(GroupTraceTest, TheyAreAskedForTogetherAndThoseThatMissedAreNamed) {
  profd_.ends_as_for_pid[4712] = failed_;
  const auto group = RunJson({"trace", "--pid", "4711,4712", "--steps", "5"}, 4);
  ASSERT_THAT(profd_.group_creates(), SizeIs(1));
  EXPECT_EQ(profd_.group_creates()[0].targets_size(), 2);
  EXPECT_EQ(group["group"], TestId(9000));
  EXPECT_EQ(group["captures"].size(), 2);
  ASSERT_EQ(group["missed"].size(), 1);
  EXPECT_EQ(group["missed"][0]["pid"], 4712);
}

TEST_F(GroupTraceTest, AllCompleteIsDoneAndNoneIsFailed) {
  EXPECT_EQ(RunJson({"trace", "--all"})["missed"].size(), 0);
  profd_.ends_as = failed_;
  EXPECT_EQ(RunJson({"trace", "--all"}, 1)["missed"].size(), 2);
}

TEST_F(GroupTraceTest, AFileThatCannotBeWrittenIsNamedAndDoesNotKeepTheOthers) {
  std::filesystem::create_directory(Path("x-4711.json"));
  const auto group = RunJson({"trace", "--all", "-o", Path("x.json")}, 1);
  ASSERT_EQ(group["errors"].size(), 1);
  EXPECT_EQ(group["errors"][0]["id"], group["captures"][0]["id"]);
  EXPECT_THAT(group["errors"][0]["message"].get<std::string>(), HasSubstr("x-4711.json"));
  EXPECT_EQ(group["captures"][1]["path"], Path("x-4712.json"));
  EXPECT_EQ(ReadFile(Path("x-4712.json")), profd_.trace_bytes);
}

// A launcher, say, or a notebook.
TEST_F(GroupTraceTest, OfAllThoseWithoutStepsAreLeftOut) {
  profd_.targets.push_back(ATarget(4713));
  profd_.targets.back().set_step_mark_count(0);
  const RunResult result = Run({"trace", "--all", "--steps", "5", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("pid 4713 is left out"));
  ASSERT_THAT(profd_.group_creates(), SizeIs(1));
  EXPECT_EQ(profd_.group_creates()[0].targets_size(), 2);
  EXPECT_EQ(Run({"trace", "--all", "--duration", "1s", "--json"}).exit_code, 0);
  EXPECT_EQ(profd_.group_creates()[1].targets_size(), 3);
  // A rank of a job is missed, and the daemon says so.
  (*profd_.targets.back().mutable_metadata())["rank"] = "2";
  Run({"trace", "--all", "--steps", "5", "--json"});
  EXPECT_EQ(profd_.group_creates()[2].targets_size(), 3);
  // Alone it is for the daemon to say what is missing.
  profd_.targets = {profd_.targets.back()};
  Run({"trace", "--all", "--steps", "5"});
  EXPECT_THAT(profd_.creates(), SizeIs(1));
}

TEST_F(GroupTraceTest, OfAllThoseThatOptedOutAreLeftOut) {
  profd_.targets.push_back(ATarget(4713));
  profd_.targets.back().set_opted_out(true);
  const RunResult result = Run({"trace", "--all", "--duration", "1s", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("pid 4713 is left out: it asked not to be captured"));
  ASSERT_THAT(profd_.group_creates(), SizeIs(1));
  EXPECT_EQ(profd_.group_creates()[0].targets_size(), 2);
  EXPECT_THAT(Run({"trace", "--job", "88"}).err, HasSubstr("no process of job 88 can be captured"));
}

TEST_F(GroupTraceTest, EachGetsAFileOfItsOwn) {
  const RunResult result = Run({"trace", "--all", "-o", Path("run.json.gz")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("4711"));
  EXPECT_THAT(result.out,
              EndsWith(Path("run-4711.json.gz") + "\n" + Path("run-4712.json.gz") + "\n"));
  EXPECT_EQ(ReadFile(Path("run-4712.json.gz")), profd_.trace_bytes);
}

TEST_F(GroupTraceTest, AnInterruptCancelsAllOfThem) {
  profd_.runs_until_cancelled = true;
  ProfctlProcess process({"trace", "--all", "--json"}, environment());
  profd_.AwaitWatchers(2);
  process.Signal(SIGINT);
  const RunResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  const auto group = nlohmann::json::parse(result.out);
  EXPECT_EQ(group["captures"][0]["state"], "CANCELLED");
  EXPECT_EQ(group["captures"][1]["state"], "CANCELLED");
}

}  // namespace
}  // namespace profd::cli
