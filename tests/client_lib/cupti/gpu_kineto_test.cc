// Captures beside torch.profiler, whose Kineto holds CUPTI's subscription once it was used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/client_lib/cupti/gpu_process.h"

namespace profd::testing {
namespace {

using ::testing::HasSubstr;
using wire::ArmFailedReason;

constexpr char kVersions[][8] = {"11.8", "12.4", "12.9", "13.0", "13.2", "future"};

GpuProcess::Options WithTorch(const std::string& version) {
  const std::string path =
      std::string(PROFD_TEST_BUILD_DIR) + "/tests/bin/fake_kineto/libtorch_cpu.so";
  GpuProcess::Options options{.version = version, .environment = {{"FAKE_KINETO", path}}};
  if (version == "13.2") options.environment.push_back({"SGPU_DRIVER_VERSION", "13020"});
  return options;
}

void WaitForGpuThreadsEnd(GpuProcess& process) {
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
}

size_t KernelsOfACapture(GpuProcess& process, const std::string& commands) {
  auto capture = StartRecording(process);
  process.Run(commands);
  const size_t count = capture->Finish().kernels.size();
  WaitForGpuThreadsEnd(process);
  return count;
}

TEST(KinetoTest, AnIdleKinetoIsNoObstacleAndRecordsAllAfterwards) {
  for (const char* version : kVersions) {
    SCOPED_TRACE(version);
    GpuProcess process(WithTorch(version));
    process.Run("kineto-load; kineto-use 1; kineto-start; launch 7 1; sync; kineto-stop 7");
    for (int capture = 0; capture < 2; ++capture) {
      EXPECT_EQ(KernelsOfACapture(process, "launch 10 1; sync"), 10u);
      process.Run("kineto-start; launch 5 1; sync; kineto-stop 5");
    }
  }
}

// Between captures, it would find CUPTI free anyway.
TEST(KinetoTest, OneThatIsFirstUsedDuringACaptureGetsCupti) {
  for (const char* version : kVersions) {
    SCOPED_TRACE(version);
    GpuProcess process(WithTorch(version));
    process.Run("kineto-load");
    EXPECT_EQ(KernelsOfACapture(process, "launch 5 1; kineto-use 1; launch 5 1; sync"), 10u);
    process.Run("kineto-start; launch 3 1; sync; kineto-stop 3");
    EXPECT_EQ(KernelsOfACapture(process, "launch 10 1; sync"), 10u);
  }
}

TEST(KinetoTest, OneThatRecordsIsNotDisturbed) {
  for (const char* version : kVersions) {
    SCOPED_TRACE(version);
    GpuProcess process(WithTorch(version));
    process.Run("kineto-load; kineto-use 1; kineto-start; launch 5 1");
    const Refusal refusal = ArmThatFails(process);
    EXPECT_EQ(refusal.reason, ArmFailedReason::kCuptiBusy);
    EXPECT_THAT(refusal.text, HasSubstr("torch.profiler records"));
    process.Run("launch 5 1; sync; kineto-stop 10");
    EXPECT_EQ(KernelsOfACapture(process, "launch 10 1; sync"), 10u);
  }
}

TEST(KinetoTest, OneThatSaysThatItBeginsLosesNothingAndNeitherDoesTheCaptureUntilThen) {
  for (const char* version : kVersions) {
    SCOPED_TRACE(version);
    GpuProcess process(WithTorch(version));
    process.Run("kineto-load; kineto-use 1");
    auto capture = StartRecording(process);
    process.Run("launch 5 1; kineto-prepare; kineto-start; launch 9 1; sync; kineto-stop 9");
    capture->WaitPhase(wire::Phase::kEnded);  // Before anybody asks for it.
    const CaptureContents contents = capture->Finish();
    EXPECT_NE(contents.gpu_status().flags & wire::kGpuStatusStolen, 0u);
    EXPECT_EQ(contents.gpu_status().counts[wire::kGpuLostBuffers], 0u);
    EXPECT_EQ(contents.kernels.size(), 5u);
    WaitForGpuThreadsEnd(process);
    process.Run("kineto-start; launch 4 1; sync; kineto-stop 4; kineto-leave");
    EXPECT_EQ(KernelsOfACapture(process, "launch 10 1; sync"), 10u);
  }
}

TEST(KinetoTest, OneThatBeginsDoesNotWaitForWorkThatGoesOn) {
  GpuProcess::Options options = WithTorch("13.0");
  options.environment.push_back({"SGPU_RESERVE", "1"});
  GpuProcess process(options);
  process.Run("kineto-load; kineto-use 1");
  auto capture = StartRecording(process);
  process.Run("launch 1 20000000 for_ever; kineto-prepare");
  EXPECT_EQ(process.Stats().enabled_kinds, 0u);
  process.Run("kineto-start; kineto-stop 0; kineto-leave");
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.kernels.size(), 1u);
  EXPECT_EQ(contents.kernels[0].event.header.flags, wire::kGpuFlagUnfinished);
}

TEST(KinetoTest, OneOfTheCpuIsNoObstacleWhereOthersAreReported) {
  GpuProcess process(WithTorch("13.0"));
  // Never used with a GPU, so it records the CPU alone, and torch says that it records.
  process.Run("kineto-load; kineto-leave");
  auto capture = StartRecording(process);
  process.Run("launch 5 1; kineto-start; launch 5 1; sync; settle");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.kernels.size(), 10u);
  EXPECT_EQ(contents.gpu_status().flags & wire::kGpuStatusStolen, 0u);
  WaitForGpuThreadsEnd(process);
  EXPECT_EQ(KernelsOfACapture(process, "launch 3 1; sync; kineto-stop 0"), 3u);
}

// What a schedule does in its warm-up, when torch says that it does not record.
TEST(KinetoTest, OneThatHasPreparedIsNotDisturbed) {
  GpuProcess process(WithTorch("13.0"));
  process.Run("kineto-load; kineto-use 1; kineto-prepare");
  EXPECT_THAT(ArmThatFails(process).text, HasSubstr("torch.profiler records"));
  process.Run("kineto-start; launch 5 1; sync; kineto-stop 5; kineto-leave");
  EXPECT_EQ(KernelsOfACapture(process, "launch 10 1; sync"), 10u);
}

TEST(KinetoTest, OneThatBeginsWhileNothingIsCapturedDoesNotWait) {
  GpuProcess process(WithTorch("13.0"));
  process.Run("kineto-load; kineto-use 1; kineto-leave; kineto-prepare; kineto-leave");
  EXPECT_EQ(KernelsOfACapture(process, "launch 10 1; sync"), 10u);
}

// What CUPTI writes to a buffer of ours that it still has is lost to a Kineto that does not say
// that it begins: it does not know the buffer.
TEST(KinetoTest, OneThatStartsDuringACaptureEndsTheGpuPartAndRecordsAllTheNextTime) {
  for (const char* version : kVersions) {
    SCOPED_TRACE(version);
    GpuProcess process(WithTorch(version));
    process.Run("kineto-load; kineto-use 1");
    auto capture = StartRecording(process);
    process.Run("launch 5 1; sync; settle; kineto-start; launch 9 1; sync; settle");
    const CaptureContents contents = capture->Finish();
    EXPECT_NE(contents.gpu_status().flags & wire::kGpuStatusStolen, 0u);
    WaitForGpuThreadsEnd(process);
    process.Run("launch 4 1; sync; kineto-stop any");
    process.Run("kineto-start; launch 4 1; sync; kineto-stop 4");
    EXPECT_EQ(KernelsOfACapture(process, "launch 10 1; sync"), 10u);
  }
}

TEST(KinetoTest, WithoutTorchAHolderOfCuptiIsNoKineto) {
  GpuProcess process({.version = "13.0"});
  process.Run("rival SomeOtherTool");
  EXPECT_EQ(ArmThatFails(process).reason, ArmFailedReason::kCuptiBusy);
}

TEST(KinetoTest, AnInjectedToolIsNoKineto) {
  GpuProcess::Options options = WithTorch("13.0");
  options.environment.push_back({"CUDA_INJECTION64_PATH", "/opt/nsight/libToolsInjection64.so"});
  GpuProcess process(options);
  process.Run("kineto-load; kineto-use 1");
  EXPECT_EQ(ArmThatFails(process).reason, ArmFailedReason::kCuptiBusy);
}

}  // namespace
}  // namespace profd::testing
