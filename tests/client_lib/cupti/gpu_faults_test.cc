// What goes wrong with CUPTI, and what a capture says then. In each: the process goes on, and
// a later capture without a GPU part works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "client_lib/cupti/cupti_abi.h"
#include "tests/client_lib/cupti/gpu_process.h"

namespace profd::testing {
namespace {

using client::cupti::kKindConcurrentKernel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using wire::ArmFailedReason;
using wire::GpuMode;

// ---- No CUDA, no CUPTI

TEST(NoCudaTest, ACaptureGoesOnWithoutItsGpuPartAndSaysSo) {
  GpuProcess process({.version = ""});
  auto capture = StartRecording(process);
  process.Run("step 3");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.steps.size(), 3u);
  EXPECT_EQ(contents.gpu_status().flags, wire::kGpuStatusNoCuda);
  EXPECT_EQ(contents.gpu_status().cupti_version, 0u);
}

TEST(NoCudaTest, ThereIsNoThreadAndCudaThatIsLoadedLaterIsNotRecorded) {
  GpuProcess process({.version = ""});
  auto capture = StartRecording(process);
  EXPECT_EQ(process.CountThreads("profd-gpu"), 0);
  process.Run("load-cuda");
  process.Run("step 3");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.steps.size(), 3u);
  EXPECT_EQ(contents.gpu_status().flags, wire::kGpuStatusNoCuda);
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST(NoCudaTest, ACaptureThatNeedsAGpuIsRefusedWithTheRemedy) {
  GpuProcess process({.version = ""});
  const Refusal refusal = ArmThatFails(process, GpuArm(GpuMode::kDefault, wire::kArmGpuRequired));
  EXPECT_EQ(refusal.reason, ArmFailedReason::kNoCuda);
  EXPECT_THAT(refusal.text, HasSubstr("capture it once it does"));
  ExpectGoesOn(process);
}

TEST(NoCuptiTest, ALibraryThatCannotBeLoadedIsNamed) {
  GpuProcess process({.environment = {{"PROFD_CUPTI_LIB", "/nowhere/libcupti.so.13"}}});
  const Refusal refusal = ArmThatFails(process);
  EXPECT_EQ(refusal.reason, ArmFailedReason::kNoCupti);
  EXPECT_THAT(refusal.text, HasSubstr("/nowhere/libcupti.so.13"));
  ExpectGoesOn(process);
}

TEST(NoCuptiTest, AProcessWithoutOneIsToldThePackageOfItsCuda) {
  for (const auto& [driver, package] : {std::pair{"11080", "install nvidia-cuda-cupti-cu11 or"},
                                        std::pair{"12080", "install nvidia-cuda-cupti-cu12 or"}}) {
    GpuProcess process({.version = "", .environment = {{"SGPU_DRIVER_VERSION", driver}}});
    process.Run("load-cuda");
    const Refusal refusal = ArmThatFails(process, GpuArm(GpuMode::kDefault));
    if (refusal.reason == ArmFailedReason::kNoDriver) {
      GTEST_SKIP() << "this machine has a CUPTI of CUDA 11 or 12, which needs a driver";
    }
    EXPECT_EQ(refusal.reason, ArmFailedReason::kNoCupti);
    EXPECT_THAT(refusal.text, HasSubstr(package));
  }
}

TEST(NoDriverTest, CuptiWithoutADriverIsRefusedAsThat) {
  for (const char* version : {"11.8", "12.4", "13.0", "13.2", "future"}) {
    GpuProcess process({.version = version});
    process.Run("set no_driver 1");
    const Refusal refusal = ArmThatFails(process);
    EXPECT_EQ(refusal.reason, ArmFailedReason::kNoDriver) << version;
    EXPECT_THAT(refusal.text, HasSubstr("driver")) << version;
    ExpectGoesOn(process);
  }
}

// ---- Memory of the device

TEST(DeviceMemoryTest, ADeviceWithoutRoomIsRefusedWithTheRemedy) {
  GpuProcess process({.environment = {{"SGPU_FREE_MIB", "63"}}});
  const Refusal refusal = ArmThatFails(process);
  EXPECT_EQ(refusal.reason, ArmFailedReason::kGpuRefused);
  EXPECT_THAT(refusal.text, HasSubstr("GPU 0 has 63 MiB of free memory"));
  EXPECT_THAT(refusal.text, HasSubstr("empty_cache"));
  EXPECT_EQ(process.Stats().cupti_calls, 0u);
  process.Run("contexts");
  ExpectGoesOn(process);
}

TEST(DeviceMemoryTest, ADeviceWithRoomIsRecordedAndNoContextIsKept) {
  GpuProcess process({.environment = {{"SGPU_FREE_MIB", "64"}}});
  auto capture = StartRecording(process);
  process.Run("launch 10 1; sync; contexts");
  EXPECT_EQ(capture->Finish().kernels.size(), 10u);
}

TEST(DeviceMemoryTest, ADeviceThatTheProcessHasNoContextOnIsNotLookedAt) {
  GpuProcess process({.environment = {{"SGPU_FREE_MIB", "1"}, {"SGPU_PRIMARY_CONTEXT", "0"}}});
  auto capture = StartRecording(process);
  process.Run("launch 10 1; sync; contexts");
  EXPECT_EQ(capture->Finish().kernels.size(), 10u);
}

// ---- Others

TEST(RivalTest, WhoHoldsCuptiIsNamedWithTheRemedy) {
  GpuProcess process;
  process.Run("rival SomeOtherTool");
  const Refusal refusal = ArmThatFails(process);
  EXPECT_EQ(refusal.reason, ArmFailedReason::kCuptiBusy);
  EXPECT_THAT(refusal.text, HasSubstr("SomeOtherTool"));
  EXPECT_THAT(refusal.text, HasSubstr("stop it"));
  EXPECT_EQ(process.Stats().enabled_kinds, 0u);
  ExpectGoesOn(process);
  process.Run("rival-gone");
  EXPECT_EQ(ProblemsOf(StartRecording(process)->Finish().gpu_status()), 0u);
}

TEST(RivalTest, AnOlderCuptiThatDoesNotSayWhoIsRefusedAllTheSame) {
  GpuProcess process({.version = "12.4"});
  process.Run("rival SomeOtherTool");
  const Refusal refusal = ArmThatFails(process);
  EXPECT_EQ(refusal.reason, ArmFailedReason::kCuptiBusy);
  EXPECT_THAT(refusal.text, HasSubstr("another profiler"));
}

TEST(RivalTest, AToolThatUsesTheInterfaceForSeveralSubscribersHoldsCupti) {
  GpuProcess process({.version = "future"});
  process.Run("set v2_in_use 1");
  const Refusal refusal = ArmThatFails(process);
  EXPECT_EQ(refusal.reason, ArmFailedReason::kCuptiBusy);
  EXPECT_THAT(refusal.text, HasSubstr("try again"));
  EXPECT_EQ(process.Stats().subscribed, 0u);
  process.Run("set v2_in_use 0");
  EXPECT_EQ(ProblemsOf(StartRecording(process)->Finish().gpu_status()), 0u);
}

TEST(RivalTest, ASecondCopyOfCuptiThatTheDriverRefusesIsRefusedAsBusy) {
  GpuProcess process({.version = "future"});
  process.Run("fail cuptiActivityGetStructSize=39");
  EXPECT_EQ(ArmThatFails(process).reason, ArmFailedReason::kCuptiBusy);
}

TEST(VersionTest, ThirteenTwoIsUsedWithADriverThatIsAsNew) {
  GpuProcess process({.version = "13.2", .environment = {{"SGPU_DRIVER_VERSION", "13020"}}});
  auto capture = StartRecording(process);
  process.Run("launch 10 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 10u);
}

constexpr char kRivalVersions[][8] = {"11.8", "12.4", "13.0", "future"};
constexpr uint64_t kKernelBit = uint64_t{1} << kKindConcurrentKernel;

// What a session leaves as it is once another tool may rely on it.
void ExpectCuptiIsLeftAlone(GpuProcess& process) {
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
  const sgpu_stats_rec stats = process.Stats();
  EXPECT_NE(stats.enabled_kinds & kKernelBit, 0u);
  EXPECT_EQ(stats.zeroed_out_activity_buffer, 1u);
  EXPECT_EQ(stats.subscribed, 0u);
}

TEST(RivalTest, OneWithoutASubscriptionThatHasBuffersInCuptiIsNotDisturbed) {
  for (const char* version : kRivalVersions) {
    GpuProcess process({.version = version});
    process.Run("steal; enable 10; launch 10 1; sync; settle");
    const Refusal refusal = ArmThatFails(process);
    EXPECT_EQ(refusal.reason, ArmFailedReason::kCuptiBusy) << version;
    EXPECT_THAT(refusal.text, HasSubstr("another tool")) << version;
    EXPECT_EQ(process.Stats().enabled_kinds, kKernelBit) << version;
    EXPECT_EQ(process.Stats().subscribed, 0u) << version;
    ExpectGoesOn(process);
  }
}

TEST(RivalTest, OneThatTakesTheCallbacksWhileRecordingIsLeftAlone) {
  for (const char* version : kRivalVersions) {
    GpuProcess process({.version = version});
    auto capture = StartRecording(process);
    process.Run("launch 10 1; steal; launch 10 1; sync; settle");
    const CaptureContents contents = capture->Finish();
    EXPECT_NE(contents.gpu_status().flags & wire::kGpuStatusStolen, 0u) << version;
    ExpectCuptiIsLeftAlone(process);
    // It goes on, and has buffers in CUPTI.
    process.Run("launch 10 1; sync; settle");
    EXPECT_EQ(ArmThatFails(process).reason, ArmFailedReason::kCuptiBusy) << version;
    ExpectGoesOn(process);
  }
}

// Nothing of ours is in CUPTI, and nothing comes.
TEST(RivalTest, OneThatTakesTheCallbacksBeforeTheFirstLaunchIsNoticed) {
  for (const char* version : kRivalVersions) {
    GpuProcess process({.version = version});
    auto capture = StartRecording(process);
    process.Run("steal; launch 10 1; sync; settle");
    const CaptureContents contents = capture->Finish();
    EXPECT_NE(contents.gpu_status().flags & wire::kGpuStatusStolen, 0u) << version;
    ExpectCuptiIsLeftAlone(process);
  }
}

TEST(RivalTest, OneThatTakesTheCallbacksWhileDrainingIsLeftAlone) {
  for (const char* version : {"13.0", "future"}) {
    GpuProcess process({.version = version});
    auto capture = StartRecording(process);
    process.Run("launch 1 30000000 long");
    process.target().Send(wire::FrameType::kStop, wire::StopBody{capture->number()});
    // Calls are off: the drain waits for the work.
    WaitUntil("the drain", [&] { return (process.Stats().enabled_kinds >> 5 & 1) == 0; });
    process.Run("steal");
    process.target().Expect(wire::FrameType::kDrained);
    const CaptureContents contents = capture->Read();
    capture->Release();
    EXPECT_NE(contents.gpu_status().flags & wire::kGpuStatusStolen, 0u) << version;
    ExpectCuptiIsLeftAlone(process);
  }
}

TEST(RivalTest, AProgramThatLaunchesNothingIsNotTakenForARival) {
  for (const char* version : kRivalVersions) {
    GpuProcess process({.version = version});
    EXPECT_EQ(ProblemsOf(StartRecording(process)->Finish().gpu_status()), 0u) << version;
  }
}

// ---- CUPTI is slow, or does not come back

TEST(SlowCuptiTest, WhatTakesLongIsReportedOnTheWay) {
  GpuProcess process;
  process.Run("set subscribe_ms 2500");
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  // On a busy machine what comes before may take a second, too.
  EXPECT_THAT(process.target().arming_texts(),
              ::testing::Contains(::testing::MatchesRegex("attaching to CUPTI, [0-9]+ s"))
                  .Times(::testing::Ge(2)));
  const CaptureContents contents = capture->Finish();
  EXPECT_GE(contents.gpu_status().arm_ms, 2500u);
}

TEST(SlowCuptiTest, BehindItsTimeLimitTheCaptureIsRefusedAndTheNextOneWaits) {
  GpuProcess process;
  process.Run("set hold_subscribe 1");
  wire::ArmBody arm = GpuArm(GpuMode::kDefault);
  arm.gpu_arm_timeout_ms = 1500;  // Enough to come to the attach on a busy machine.
  const Refusal refusal = ArmThatFails(process, arm);
  EXPECT_EQ(refusal.reason, ArmFailedReason::kGpuTimeout);
  EXPECT_THAT(refusal.text, HasSubstr("attaching to CUPTI"));
  // CUPTI comes back while the next capture is armed, which then has it for itself.
  auto capture = process.target().SendArm(GpuArm(GpuMode::kDefault));
  process.Run("set hold_subscribe 0");
  process.target().ExpectArmed(*capture);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("launch 7 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 7u);
}

TEST(SlowCuptiTest, AProcessIsNotHeldUpByAnAttachThatTakesLong) {
  GpuProcess process;
  process.Run("set subscribe_ms 2000");
  auto capture = process.target().SendArm(GpuArm(GpuMode::kDefault));
  WaitUntil("the GPU thread", [&] { return process.CountThreads("profd-gpu") == 1; });
  // The agent answers, and the program runs.
  process.Run("launch 100 1; sync; step 3");
  capture->Stop();
  capture->Release();
  process.target().WaitStepMarks(3);
}

TEST(SlowCuptiTest, AHangInTheDrainCostsTheGpuPartAndFurtherOnesAreRefused) {
  GpuProcess process;
  auto capture = StartRecording(process);
  process.Run("launch 10 1; sync; set flush_ms 60000");
  capture->Stop();  // Comes within its bound all the same.
  const CaptureContents contents = capture->Read();
  EXPECT_EQ(contents.gpu_status().flags, wire::kGpuStatusAbandoned);
  capture->Release();
  process.Run("launch 10 1; sync");
  const Refusal refusal = ArmThatFails(process);
  EXPECT_EQ(refusal.reason, ArmFailedReason::kGpuTimeout);
  EXPECT_THAT(refusal.text, HasSubstr("restarted"));
  ExpectGoesOn(process);
}

// ---- Descriptors

// How many descriptors of process `pid` are files called `name`.
int CountFiles(pid_t pid, const std::string& name) {
  int count = 0;
  const std::string files = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(files)) {
    std::error_code gone;
    const std::string path = std::filesystem::read_symlink(entry.path(), gone);
    count += path.find(name) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(DescriptorsTest, WhatCuptiOpensIsInTheProgramsTable) {
  GpuProcess process;
  process.Run("set keep_file 1");
  EXPECT_EQ(CountFiles(process.child().pid(), "sgpu-device"), 0);
  // The stand-in opens one per subscription, of which a capture has several.
  StartRecording(process)->Finish();
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
  const int count = CountFiles(process.child().pid(), "sgpu-device");
  EXPECT_GT(count, 0);
  StartRecording(process)->Finish();  // The helper makes the second thread as the first.
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
  EXPECT_EQ(CountFiles(process.child().pid(), "sgpu-device"), 2 * count);
}

// ---- Results

TEST(FailingCallsTest, AKindThatIsNotTurnedOnCostsThatKindOnly) {
  GpuProcess process;
  process.Run("fail cuptiActivityEnable:1=27");
  auto capture = StartRecording(process);
  process.Run("launch 5 1; copy 4096; sync");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.kernels.size(), 5u);
  EXPECT_TRUE(contents.copies.empty());
  const wire::GpuStatusEvent& status = contents.gpu_status();
  ASSERT_EQ(status.kind_result_count, 1u);
  EXPECT_EQ(status.kind_results[0].kind, 1u);
  EXPECT_EQ(status.kind_results[0].result, 27u);
}

TEST(FailingCallsTest, DriverCallsThatCannotBeTurnedOnAreReported) {
  GpuProcess process;
  process.Run("fail cuptiActivityEnable:4=27");
  auto capture = StartRecording(process);
  process.Run("driver-launch 5; sync");
  const CaptureContents contents = capture->Finish();
  const wire::GpuStatusEvent& status = contents.gpu_status();
  ASSERT_EQ(status.kind_result_count, 1u);
  EXPECT_EQ(status.kind_results[0].kind, client::cupti::kKindDriver);
  EXPECT_EQ(status.kind_results[0].result, 27u);
  EXPECT_EQ(contents.kernels.size(), 5u);
}

// As CUPTI 12.5 and later did when single functions were switched on without their kind.
TEST(FailingCallsTest, DriverCallsWithoutRecordsAreReported) {
  GpuProcess process({.environment = {{"SGPU_SILENT_DRIVER", "1"}}});
  auto capture = StartRecording(process);
  process.Run("queries 1; driver-launch 5; queries 1; sync");
  const CaptureContents contents = capture->Finish();
  const wire::GpuStatusEvent& status = contents.gpu_status();
  ASSERT_EQ(status.kind_result_count, 1u);
  EXPECT_EQ(status.kind_results[0].kind, client::cupti::kKindDriver);
  EXPECT_EQ(status.kind_results[0].result, wire::kGpuKindGivesNoRecords);
  EXPECT_EQ(contents.kernels.size(), 5u);
}

TEST(FailingCallsTest, NoKindAtAllIsARefusalWithTheReason) {
  GpuProcess process;
  process.Run("fail cuptiActivityEnable=35");
  const Refusal refusal = ArmThatFails(process, GpuArm(GpuMode::kLight));
  EXPECT_EQ(refusal.reason, ArmFailedReason::kGpuRefused);
  EXPECT_THAT(refusal.text, HasSubstr("NVreg_RestrictProfilingToAdminUsers"));
  EXPECT_EQ(process.Stats().subscribed, 0u);
  ExpectGoesOn(process);
}

TEST(FailingCallsTest, AFlushThatFailsLosesWhatItWouldHaveBrought) {
  GpuProcess process;
  auto capture = StartRecording(process);
  process.Run("launch 10 1; sync; settle; fail cuptiActivityFlushAll=999");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.kernels.size(), 0u);
  EXPECT_GT(contents.gpu_status().counts[wire::kGpuLostBuffers], 0u);
  process.Run("fail ");
  ExpectGoesOn(process);
}

// ---- Buffers

TEST(BuffersTest, OnesThatNeverComeBackAreCountedAndLeftAlone) {
  GpuProcess process;
  auto capture = StartRecording(process);
  process.Run("set lose_buffers 1; launch 10 1; sync; settle");
  const CaptureContents contents = capture->Finish();
  EXPECT_GT(contents.gpu_status().counts[wire::kGpuLostBuffers], 0u);
  EXPECT_EQ(contents.gpu_status().flags & wire::kGpuStatusStolen, 0u);
  // The next capture is whole, and what CUPTI gives back by then does no harm.
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
  process.Run("set lose_buffers 0; return-lost");
  auto next = StartRecording(process);
  process.Run("launch 20 1; sync");
  const CaptureContents after = next->Finish();
  EXPECT_EQ(after.kernels.size(), 20u);
  EXPECT_GT(after.gpu_status().counts[wire::kGpuStale], 0u);
  EXPECT_EQ(after.gpu_status().counts[wire::kGpuLostBuffers], 0u);
}

// CUPTI goes on writing to it in the next capture, and asks for no other.
TEST(BuffersTest, EmptyOnesThatCuptiKeepsAreNoLossAndUsedByTheNextCapture) {
  for (const char* version : {"11.8", "12.4", "13.0", "future"}) {
    GpuProcess process({.version = version, .environment = {{"SGPU_KEEP_BUFFERS", "1"}}});
    for (int round = 0; round < 3; ++round) {
      auto capture = StartRecording(process);
      process.Run("launch 10 1; sync");
      const CaptureContents contents = capture->Finish();
      EXPECT_EQ(contents.kernels.size(), 10u) << version << " " << round;
      EXPECT_EQ(ProblemsOf(contents.gpu_status()), 0u);
      EXPECT_EQ(contents.gpu_status().counts[wire::kGpuLostBuffers], 0u);
      EXPECT_GT(process.Stats().buffers_out, 0u) << "else none is kept";
    }
  }
}

TEST(BuffersTest, OnesThatComeAfterTheFlushReturnedAreWaitedFor) {
  GpuProcess process;
  process.Run("set late_ms 20");
  auto capture = StartRecording(process);
  process.Run("launch 50 1; sync");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.kernels.size(), 50u);
  EXPECT_EQ(contents.gpu_status().counts[wire::kGpuLostBuffers], 0u);
}

TEST(BuffersTest, TheyAreZeroWhenLentAgain) {
  GpuProcess process({.environment = {{"SGPU_CHECK_ZEROED", "1"}, {"SGPU_POISON", "1"}}});
  wire::ArmBody arm = GpuArm(GpuMode::kDefault);
  arm.gpu_buffer_bytes = 2u << 20;
  for (int round = 0; round < 2; ++round) {
    auto capture = process.target().SendArm(arm);
    process.target().ExpectArmed(*capture);
    capture->Fire(ByTime());
    capture->WaitPhase(wire::Phase::kRecording);
    process.Run("launch 5000 0; sync; settle");
    capture->Finish();
  }
  const sgpu_stats_rec stats = process.Stats();
  EXPECT_GT(stats.buffers_requested, 20u);
  EXPECT_EQ(stats.buffers_dirty, 0u);
  EXPECT_EQ(stats.buffers_refused, 0u);
}

TEST(BuffersTest, CuptiMayCallBackUnderItsOwnLocks) {
  GpuProcess process({.environment = {{"SGPU_LOCK_STRICT", "1"}}});
  auto capture = StartRecording(process);
  process.Run("threads 4 3000; sync; settle");
  EXPECT_EQ(capture->Finish().kernels.size(), 12'000u);
}

TEST(CorruptTest, ADamagedBufferCostsItsRestAndIsCounted) {
  for (const char* how : {"1", "2", "3", "4"}) {
    GpuProcess process;
    auto capture = StartRecording(process);
    process.Run(std::string("launch 100 1; sync; settle; set corrupt ") + how);
    const CaptureContents contents = capture->Finish();
    EXPECT_LE(contents.kernels.size(), 100u) << how;
    const wire::GpuStatusEvent& status = contents.gpu_status();
    EXPECT_GT(status.counts[wire::kGpuCorrupt] + status.counts[wire::kGpuUnknownKind] +
                  static_cast<uint64_t>(contents.kernels.size() == 100),
              0u)
        << how;
    ExpectGoesOn(process);
  }
}

TEST(CorruptTest, KindsThatNobodyKnowsAreSkippedAndCounted) {
  GpuProcess process({.version = "future"});
  process.Run("set unknown_kind 5");
  auto capture = StartRecording(process);
  process.Run("launch 100 1; sync");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.kernels.size(), 100u);
  EXPECT_GE(contents.gpu_status().counts[wire::kGpuUnknownKind], 20u);
}

// ---- Names and clocks

TEST(ModuleTest, NamesOfAModuleThatIsUnloadedDoNotCrashAnybody) {
  for (const char* how : {"0", "1"}) {
    GpuProcess process;
    auto capture = StartRecording(process);
    process.Run(std::string("load going; run 10; sync; unload ") + how);
    const CaptureContents contents = capture->Finish();
    EXPECT_EQ(contents.kernels.size(), 10u) << how;
  }
}

TEST(ClockTest, AWallClockThatIsSetDuringTheWindowIsFlagged) {
  GpuProcess process;
  auto capture = StartRecording(process);
  process.Run("launch 10 1; sync; clock-step 5000000; launch 10 1; sync");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.kernels.size(), 20u);
  EXPECT_GE(contents.gpu_status().clock_step_count, 1u);
  EXPECT_GE(contents.gpu_status().clock_error_ns, 5'000'000u);
}

TEST(ClockTest, TimesOfTheGpuLieWithinTheWindow) {
  GpuProcess process({.environment = {{"SGPU_UNSETTLED_NS", "3600000000000"}}});
  auto capture = StartRecording(process);
  process.Run("launch 100 1; sync");
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.kernels.size(), 100u);
  for (const auto& kernel : contents.kernels) {
    EXPECT_GT(kernel.event.start_ticks, contents.windows[0].start_ticks);
    EXPECT_LT(kernel.event.start_ticks, contents.windows[0].end_ticks);
  }
}

// ---- The process

TEST(ProcessTest, AChildOfAProcessThatIsRecordedLeavesCuptiAlone) {
  GpuProcess process;
  auto capture = StartRecording(process);
  process.Run("launch 10 1; fork; launch 10 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 20u);
}

// CUPTI makes its threads while it is attached, and they stay in the process.
TEST(ProcessTest, ThreadsOfCuptiAreAsNiceAsTheProgram) {
  const int own = getpriority(PRIO_PROCESS, 0);
  if (own >= 5) GTEST_SKIP() << "this test runs at niceness " << own << ", as profd-gpu does";
  GpuProcess process;
  auto capture = StartRecording(process);
  EXPECT_THAT(process.NicenessOf("profd-gpu"), ElementsAre(5));
  EXPECT_THAT(process.NicenessOf("sgpu-worker"), ElementsAre(own));
  capture->Finish();
}

TEST(ProcessTest, ADaemonThatGoesAwayLeavesNothingBehind) {
  GpuProcess process;
  {
    auto capture = StartRecording(process);
    process.Run("launch 10 1; sync");
  }
  process.Reconnect();
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
  const sgpu_stats_rec stats = process.Stats();
  EXPECT_EQ(stats.subscribed, 0u);
  EXPECT_EQ(stats.enabled_kinds, 0u);
  auto capture = StartRecording(process);
  process.Run("launch 10 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 10u);
}

TEST(DetachTest, CuptiLeavesTheProcessFromACallOfCudaAndCanComeBack) {
  GpuProcess process;
  auto capture = StartRecording(process, GpuMode::kDefault, wire::kArmGpuDetach);
  process.Run("launch 10 1; sync");
  capture->Stop();
  capture->Release();
  WaitUntil("cuptiFinalize", [&] {
    process.Run("launch 1 1; sync");
    return process.Stats().finalized == 1;
  });
  auto next = StartRecording(process);
  process.Run("launch 10 1; sync");
  EXPECT_EQ(next->Finish().kernels.size(), 10u);
}

TEST(DetachTest, ItIsTheDefaultOfProgramsWithoutGraphs) {
  GpuProcess process;
  StartRecording(process)->Finish();
  WaitUntil("cuptiFinalize", [&] {
    process.Run("launch 1 1; sync");
    return process.Stats().finalized == 1;
  });
}

// Programs that replay graphs have crashed after cuptiFinalize() with some releases of CUDA 12.
TEST(DetachTest, AProgramWithGraphsKeepsCuptiUnlessAskedOtherwise) {
  GpuProcess process;
  const auto record_graph = [&](uint32_t flags) {
    auto capture = StartRecording(process, GpuMode::kDefault, flags);
    process.Run("graph 1; sync");
    EXPECT_FALSE(capture->Finish().kernels.empty());
    process.Begin("paced-launch 700 1000");  // For longer than detaching may take.
    WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
    process.Wait();
  };
  record_graph(0);
  EXPECT_EQ(process.Stats().finalized, 0u);
  record_graph(wire::kArmGpuDetach);
  EXPECT_EQ(process.Stats().finalized, 1u);
}

TEST(DetachTest, WithoutACallOfCudaItStaysAndTheCaptureEnds) {
  GpuProcess process;
  auto capture = StartRecording(process, GpuMode::kDefault, wire::kArmGpuDetach);
  process.Run("launch 10 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 10u);
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
  EXPECT_EQ(process.Stats().finalized, 0u);
  EXPECT_EQ(process.Stats().subscribed, 0u);
}

// Another tool's copy of the library has the GPU. From 13.2 on, one call more than those that it
// refuses ends the process.
TEST(SecondCopyTest, IsRefusedAndTheProgramGoesOn) {
  for (const char* version : {"11.8", "12.4", "13.0", "13.2", "future"}) {
    for (const char* torch : {"", "kineto-load;"}) {
      // As new as CUPTI 13.2 needs it.
      GpuProcess process({.version = version, .environment = {{"SGPU_DRIVER_VERSION", "13020"}}});
      process.Run(std::string(torch) + "set second_copy 1");
      EXPECT_EQ(ArmThatFails(process).reason, wire::ArmFailedReason::kCuptiBusy) << version;
      ExpectGoesOn(process);
    }
  }
}

TEST(DetachTest, AnOlderCuptiIsNotTakenOut) {
  GpuProcess process({.version = "12.4"});
  auto capture = StartRecording(process, GpuMode::kDefault, wire::kArmGpuDetach);
  process.Run("launch 10 1; sync");
  capture->Finish();
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
  process.Run("launch 10 1; sync");
  EXPECT_EQ(process.Stats().finalized, 0u);
}

}  // namespace
}  // namespace profd::testing
