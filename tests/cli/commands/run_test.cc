// profctl run: what CMD gets, what becomes of its exit code, and that an unmodified program is
// captured. The daemon is the one of the client library's tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/cli/cli_fixture.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using testing::FakeDaemon;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::filesystem::path BuildFolder() {
  if (const char* build = getenv("PROFD_BUILD_DIR")) return build;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path();
}
std::string Library() { return BuildFolder() / "lib/libprofd_client.so"; }
std::string NvtxProgram() { return BuildFolder() / "tests/bin/nvtx_program"; }

// Runs `script` below `profctl run`.
RunResult RunScript(const std::string& script, const Environment& environment = {},
                    std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), "run");
  flags.insert(flags.end(), {"--", "sh", "-c", script});
  return RunProfctl(flags, environment);
}

TEST(RunTest, StreamsAndExitCodeAreTheCommandsOwn) {
  const RunResult result = RunScript("echo out; echo err >&2; exit 7");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
}

TEST(RunTest, ASignalEndsTheCommandItself) {
  EXPECT_EQ(RunScript("kill -s TERM $$").exit_code, 128 + SIGTERM);
}

TEST(RunTest, TheCommandKeepsItsFlags) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", "--"}, std::vector<std::string>{"run"}}) {
    std::vector<std::string> arguments = words;
    arguments.insert(arguments.end(), {"sh", "-c", "echo \"$@\"", "sh", "--help", "--json", "-h",
                                       "--socket-dir", "x", "--"});
    const RunResult result = RunProfctl(arguments, {});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "--help --json -h --socket-dir x --\n");
    EXPECT_EQ(result.err, "");
  }
}

TEST(RunTest, ItsOwnHelpAndErrorsComeBeforeTheCommand) {
  const RunResult help = RunProfctl({"run", "--help"}, {});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("profctl run [FLAGS] [--] CMD"));
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"run"},
                                                {"run", "--"},
                                                {"run", "--json", "--", "true"},
                                                {"run", "--socket-dir"},
                                                {"run", "--nonsense", "true"}}) {
    const RunResult result = RunProfctl(wrong, {});
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(wrong) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("profctl run --help"));
  }
}

TEST(RunTest, WhatCannotBeStartedHasTheExitCodesOfShells) {
  const RunResult missing = RunProfctl({"run", "--", "no-such-program-of-ours"}, {});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.err, "profctl: no-such-program-of-ours: No such file or directory\n");
  const RunResult folder = RunProfctl({"run", "/"}, {});
  EXPECT_EQ(folder.exit_code, 126);
  EXPECT_EQ(folder.out, "");
}

TEST(RunTest, TheEnvironmentNamesTheLibraryBesideProfctl) {
  const RunResult result = RunScript(
      "echo $CUDA_INJECTION64_PATH; echo $NVTX_INJECTION64_PATH; echo $PROFD_CLIENT_LIB; "
      "echo ${PROFD_SOCKET_DIR-none} ${LD_PRELOAD-none} ${PROFD_START-none}");
  const std::string library = std::filesystem::canonical(Library());
  EXPECT_EQ(result.out, library + "\n" + library + "\n" + library + "\nnone none none\n");
  EXPECT_EQ(result.err, "");
}

TEST(RunTest, WhatIsSetAlreadyStaysAndIsSaid) {
  const RunResult result =
      RunScript("echo $CUDA_INJECTION64_PATH $NVTX_INJECTION64_PATH",
                {{"NVTX_INJECTION64_PATH", "/other/tool.so"}, {"CUDA_INJECTION64_PATH", ""}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, std::filesystem::canonical(Library()).string() + " /other/tool.so\n");
  EXPECT_EQ(result.err,
            "profctl: NVTX_INJECTION64_PATH is /other/tool.so already and stays so; NVTX ranges "
            "are not recorded\n");
  const std::string library = std::filesystem::canonical(Library());
  const RunResult again =
      RunScript("true", {{"NVTX_INJECTION64_PATH", library}, {"CUDA_INJECTION64_PATH", library}});
  EXPECT_EQ(again.err, "");
}

std::string PythonHook() {
  return std::filesystem::canonical(BuildFolder() / "lib/python3/dist-packages/profd/_inject");
}

TEST(RunTest, PythonLooksIntoTheHooksFolderFirst) {
  const std::string script = "echo $PYTHONPATH";
  const RunResult unset = RunScript(script, {{"PYTHONPATH", ""}});
  EXPECT_EQ(unset.out, PythonHook() + "\n");
  EXPECT_EQ(unset.err, "");
  EXPECT_EQ(RunScript(script, {{"PYTHONPATH", "/a:/b"}}).out, PythonHook() + ":/a:/b\n");
  // Below another profctl run.
  EXPECT_EQ(RunScript(script, {{"PYTHONPATH", PythonHook() + ":/a"}}).out, PythonHook() + ":/a\n");
}

TEST(RunTest, ThePythonPackageAroundTheLibraryComesBeforeTheInstalledOne) {
  store::TemporaryFolder folder;
  const auto package = std::filesystem::canonical(folder.path()) / "profd";
  std::filesystem::create_directories(package / "_inject");
  std::ofstream(package / "_inject/sitecustomize.py") << "";
  std::ofstream(package / "copy.so") << "not looked into";
  const RunResult result =
      RunScript("echo $PYTHONPATH", {{"PROFD_CLIENT_LIB", package / "copy.so"}});
  EXPECT_EQ(result.out, (package / "_inject").string() + "\n");
}

// The whole installation is a copy: in the build, there is another package.
TEST(RunTest, APythonPackageThatCannotBeReadIsNotAbsent) {
  const store::TemporaryFolder folder;
  const auto prefix = std::filesystem::canonical(folder.path());
  std::filesystem::create_directories(prefix / "bin");
  std::filesystem::create_directories(prefix / "lib");
  std::filesystem::copy(BuildFolder() / "bin/profctl", prefix / "bin/profctl");
  std::ofstream(prefix / "lib/libprofd_client.so") << "not looked into";
  const auto error = [&] {
    const std::string command = "env -u PROFD_CLIENT_LIB " + (prefix / "bin/profctl").string() +
                                " run -- true 2>" + (prefix / "err").string();
    EXPECT_EQ(std::system(command.c_str()), 0);
    return ReadFile(prefix / "err");
  };
  if (!error().starts_with("profctl: the Python package is not installed;")) {
    GTEST_SKIP() << "the Python package is installed on this machine";
  }
  std::filesystem::create_symlink("profd", prefix / "profd");
  EXPECT_THAT(error(), AllOf(HasSubstr("cannot read " + (prefix / "profd/_inject").string()),
                             HasSubstr("Too many levels of symbolic links")));
  std::filesystem::remove(prefix / "lib/libprofd_client.so");
  std::filesystem::create_symlink("libprofd_client.so", prefix / "lib/libprofd_client.so");
  const std::string command =
      (prefix / "bin/profctl").string() + " run -- true 2>" + (prefix / "err").string();
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_THAT(ReadFile(prefix / "err"), HasSubstr("libprofd_client.so: Too many levels"));
}

TEST(RunTest, ALibraryThatIsNotThereIsAnErrorThatSaysWhereItLooked) {
  const RunResult result = RunScript("echo ran", {{"PROFD_CLIENT_LIB", "/no/such/lib.so"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("looked for /no/such/lib.so"));
}

TEST(RunTest, ALibraryOfAnotherNameCanBeNamed) {
  store::TemporaryFolder folder;
  const std::string copy = (folder.path() / "copy.so").string();
  std::ofstream(copy) << "not looked into";
  const RunResult result =
      RunScript("echo $CUDA_INJECTION64_PATH $PROFD_CLIENT_LIB", {{"PROFD_CLIENT_LIB", copy}});
  EXPECT_EQ(result.out, copy + " " + copy + "\n");
}

TEST(RunTest, TheSocketFolderIsMadeAbsoluteForTheCommand) {
  const RunResult result = RunScript("echo $PROFD_SOCKET_DIR", {{"PROFD_SOCKET_DIR", "/before"}},
                                     {"--socket-dir", "some/folder"});
  EXPECT_EQ(result.out, (std::filesystem::current_path() / "some/folder").string() + "\n");
}

// ---- Capturing what runs.

testing::CaptureContents CaptureIterations(testing::FakeTarget& target, uint64_t steps) {
  auto capture = target.ArmByMarker("iteration");
  capture->Fire(testing::Steps(steps));
  capture->WaitPhase(wire::Phase::kEnded);
  return capture->Finish();
}

void ExpectIterations(const testing::CaptureContents& contents, uint64_t steps) {
  ASSERT_EQ(contents.windows.size(), 1u);
  for (const std::string name : {"iteration", "forward", "backward", "load"}) {
    EXPECT_EQ(std::count_if(contents.ranges.begin(), contents.ranges.end(),
                            [&](const auto& range) {
                              return range.name == name &&
                                     range.start_ticks >= contents.windows[0].start_ticks;
                            }),
              static_cast<std::ptrdiff_t>(steps))
        << name;
  }
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST(RunTest, AnUnmodifiedProgramWithNvtxIsCapturedByItsOwnRanges) {
  FakeDaemon daemon;
  ProfctlProcess process({"run", "--socket-dir", daemon.directory(), "--", NvtxProgram()}, {});
  auto target = daemon.WaitTarget();
  ExpectIterations(CaptureIterations(*target, 3), 3);
  ExpectIterations(CaptureIterations(*target, 5), 5);
  // It is profctl's process still.
  process.Signal(SIGTERM);
  const RunResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "training\ndone\n");
  EXPECT_EQ(result.err, "");
}

TEST(RunTest, ChildrenOfLaunchersAreTargetsTheLauncherIsNot) {
  FakeDaemon daemon;
  ProfctlProcess process(
      {"run", "sh", "-c", "for i in 0 1; do RANK=$i \"$0\" & done; wait", NvtxProgram()},
      {{"PROFD_SOCKET_DIR", daemon.directory()}});
  std::vector<std::unique_ptr<testing::FakeTarget>> ranks;
  ranks.push_back(daemon.WaitTarget());
  ranks.push_back(daemon.WaitTarget());
  std::vector<std::string> numbers;
  for (const auto& rank : ranks) {
    numbers.push_back(rank->metadata().at("rank"));
    ExpectIterations(CaptureIterations(*rank, 2), 2);
  }
  EXPECT_THAT(numbers, ::testing::UnorderedElementsAre("0", "1"));
  EXPECT_FALSE(daemon.HasCaller());
  for (const auto& rank : ranks) kill(static_cast<pid_t>(rank->hello().own_pid), SIGTERM);
  EXPECT_EQ(process.Wait().exit_code, 0);
}

TEST(RunTest, WithoutADaemonTheProgramRunsAsItWould) {
  const RunResult result =
      RunProfctl({"run", "--socket-dir", "/nonexistent", NvtxProgram(), "0"}, {});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "training\ndone\n");
  EXPECT_EQ(result.err, "");
}

#ifndef PROFD_SANITIZED
// (A sanitizer's runtime has to be in a program before a library that needs it.)
TEST(RunTest, WithRegisterAllEveryProcessIsATarget) {
  FakeDaemon daemon;
  ProfctlProcess process(
      {"run", "--preload", "--register-all", "--socket-dir", daemon.directory(), "sleep", "60"},
      {});
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(testing::ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  capture->Finish();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait().exit_code, 128 + SIGTERM);
}

// The kernel gives a user namespace to no process with a second thread.
TEST(RunTest, APreloadedLibraryStartsNoThreadUntilItIsUsed) {
  const std::string threads = "ls /proc/self/task | wc -l";
  EXPECT_EQ(RunScript(threads, {}, {"--preload"}).out, "1\n");
  EXPECT_NE(RunScript("ls /proc/$$/task | wc -l", {}, {"--preload", "--register-all"}).out, "1\n");
  EXPECT_EQ(RunScript("true", {}, {"--register-all"}).exit_code, 2);
}

TEST(RunTest, PreloadedLibrariesStayAndComeFirst) {
  const std::string loader =
      std::filesystem::canonical(BuildFolder() / "lib/libprofd_preload.so").string();
  const std::string echo = "echo $LD_PRELOAD ${PROFD_START-none}";
  EXPECT_EQ(RunScript(echo, {}, {"--preload"}).out, loader + " none\n");
  EXPECT_EQ(RunScript(echo, {{"LD_PRELOAD", loader}}, {"--preload", "--register-all"}).out,
            loader + " 1\n");
  // The loader warns of a library that is not there, and goes on.
  EXPECT_EQ(RunScript(echo, {{"LD_PRELOAD", "/none.so"}}, {"--preload"}).out,
            "/none.so:" + loader + " none\n");
  unsetenv("ASAN_OPTIONS");  // ctest sets it.
  EXPECT_EQ(RunScript("echo $ASAN_OPTIONS", {{"ASAN_OPTIONS", "log_threads=0"}}, {"--preload"}).out,
            "verify_asan_link_order=0:log_threads=0\n");
}
#endif

TEST(RunTest, WithoutPreloadNothingIsPreloaded) {
  unsetenv("ASAN_OPTIONS");  // ctest sets it.
  EXPECT_EQ(RunScript("echo ${LD_PRELOAD-none}${PROFD_START-none}${ASAN_OPTIONS-none}").out,
            "nonenonenone\n");
}

}  // namespace
}  // namespace profd::cli
