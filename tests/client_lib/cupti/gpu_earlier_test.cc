// Work that was launched before kernels were recorded: it has no record, so windows begin after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/client_lib/cupti/gpu_process.h"

namespace profd::testing {
namespace {

using wire::GpuMode;

class EarlierWorkTest : public ::testing::TestWithParam<const char*> {};

// The GPU is busy all the time, so it must be busy when the window begins.
TEST_P(EarlierWorkTest, AWindowBeginsWhenTheGpusWorkIsKnown) {
  GpuProcess process({.version = GetParam()});
  process.Run("step 1; launch 10 80000 before");
  process.Begin("paced-launch 120 20000 during");
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Wait();
  const CaptureContents contents = capture->Finish();
  const auto first = std::min_element(
      contents.kernels.begin(), contents.kernels.end(),
      [](const auto& a, const auto& b) { return a.event.start_ticks < b.event.start_ticks; });
  ASSERT_NE(first, contents.kernels.end());
  EXPECT_EQ(first->name, "during");
  EXPECT_LE(first->event.start_ticks, contents.windows[0].start_ticks);
}

INSTANTIATE_TEST_SUITE_P(Versions, EarlierWorkTest, ::testing::Values("11.8", "12.9", "13.0"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(EarlierWorkLimitTest, WorkThatTakesLongerThanThatHoldsNoCaptureUp) {
  GpuProcess process;
  process.Run("step 1; launch 1 30000000 for_ever");
  process.Begin("paced-launch 150 20000 behind_it");
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Wait();
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(ProblemsOf(contents.gpu_status()), 0u);
  EXPECT_GT(contents.gpu_status().counts[wire::kGpuStillRunning], 0u);
}

}  // namespace
}  // namespace profd::testing
