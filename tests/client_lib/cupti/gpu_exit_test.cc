// The process ends during a capture. It ends as it would without one, and the capture has what
// came.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>

#include "tests/client_lib/cupti/gpu_process.h"

// LeakSanitizer's question at the end of the process: does it look for no leaks?
extern "C" int __lsan_is_turned_off() {  // NOLINT: its name for it.
  return std::getenv("PROFD_TEST_UNREAD_RECORDS") != nullptr;
}

namespace profd::testing {
namespace {

using wire::GpuMode;

// Longer than the GPU thread goes without a call of CUPTI, so that the stand-in notices one.
constexpr char kTeardown[] = "set teardown_ms 1500;";

// The handler waits until the capture is written, however busy this machine is.
const std::pair<std::string, std::string> kPatientHandler = {"PROFD_TEST_EXIT_WAIT_MS", "60000"};

// Records that nobody has read at the end of the process own their names, which looks like a leak.
// (The process is forked, so that it reads no options of the sanitizer.)
const std::pair<std::string, std::string> kUnreadRecords = {"PROFD_TEST_UNREAD_RECORDS", "1"};

// ThreadSanitizer's _exit() writes what stdio has.
#if defined(__SANITIZE_THREAD__)
constexpr bool kExitFlushes = true;
#else
constexpr bool kExitFlushes = false;
#endif

std::unique_ptr<FakeCapture> RecordUntilTheEnd(GpuProcess& process) {
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run(std::string(kTeardown) + "launch 10 1; sync; settle");
  return capture;
}

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct ProcessEnd {
  const char* how;
  int status;
  bool runs_handlers;
};

constexpr ProcessEnd kProcessEnds[] = {
    {"exit", 7, true},
    {"thread", 7, true},
    {"quick_exit", 7, false},
    {"_exit", 7, false},
    {"SIGTERM", 128 + SIGTERM, false},
};

class ExitTest : public ::testing::TestWithParam<std::tuple<const char*, ProcessEnd>> {};

TEST_P(ExitTest, TheProcessEndsAsWithoutACaptureWhichHasWhatCame) {
  const auto& [version, end] = GetParam();
  GpuProcess process({.version = version, .environment = {kPatientHandler}});
  auto capture = RecordUntilTheEnd(process);
  const std::string output = process.daemon().directory() + "/output";
  process.Begin("print " + output + " text; exit " + end.how);
  EXPECT_EQ(process.child().WaitForEnd(), end.status);
  if (end.runs_handlers || !kExitFlushes) {
    EXPECT_EQ(ReadAll(output), end.runs_handlers ? "text" : "");
  }
  const CaptureContents contents = capture->Read();
  if (!end.runs_handlers) return;
  EXPECT_EQ(contents.kernels.size(), 10u);
  EXPECT_NE(contents.gpu_status().flags & wire::kGpuStatusExited, 0u);
  EXPECT_EQ(contents.gpu_status().counts[wire::kGpuLostBuffers], 0u);
}

INSTANTIATE_TEST_SUITE_P(Ends, ExitTest,
                         ::testing::Combine(::testing::Values("11.8", "12.4", "13.0", "future"),
                                            ::testing::ValuesIn(kProcessEnds)),
                         [](const auto& test) {
                           std::string name = std::string(std::get<0>(test.param)) + "_" +
                                              std::get<1>(test.param).how;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(ExitWithWorkTest, WorkThatHasNotEndedIsCountedAndNotWaitedFor) {
  GpuProcess process({.environment = {kPatientHandler, kUnreadRecords}});
  auto capture = RecordUntilTheEnd(process);
  process.Begin("launch 1 600000000 for_ever; launch 2 1; exit exit");
  EXPECT_EQ(process.child().WaitForEnd(), 7);
  const CaptureContents contents = capture->Read();
  EXPECT_EQ(contents.gpu_status().counts[wire::kGpuStillRunning], 2u);
  EXPECT_EQ(contents.gpu_status().counts[wire::kGpuUnfinished], 1u);
}

// The handler gives up: nothing of these waits for a CUPTI that hangs.
TEST(ExitWhileCuptiHangsTest, TheProcessEnds) {
  GpuProcess process({.environment = {kUnreadRecords}});
  auto capture = RecordUntilTheEnd(process);
  process.Begin("set hold_flush 1; exit exit");
  EXPECT_EQ(process.child().WaitForEnd(), 7);
  EXPECT_EQ(capture->Read().phase, wire::Phase::kRecording);
}

TEST(ExitWhileCuptiHangsTest, TheProcessEndsWhileItIsArmed) {
  GpuProcess process({.environment = {kUnreadRecords}});
  process.Run("set hold_subscribe 1");
  auto capture = process.target().SendArm(GpuArm(GpuMode::kDefault));
  WaitUntil("the GPU thread", [&] { return process.CountThreads("profd-gpu") == 1; });
  process.Begin("exit exit");
  EXPECT_EQ(process.child().WaitForEnd(), 7);
}

TEST(ExitAfterACaptureTest, CuptiIsNotCalledAnyMore) {
  GpuProcess process({.environment = {kPatientHandler}});
  RecordUntilTheEnd(process)->Finish();
  process.Begin("exit exit");
  EXPECT_EQ(process.child().WaitForEnd(), 7);
}

}  // namespace
}  // namespace profd::testing
