// The drain: the work of the window's launches is waited for, and nothing else is.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client_lib/cupti/cupti_abi.h"
#include "tests/client_lib/cupti/gpu_process.h"

namespace profd::testing {
namespace {

using wire::GpuMode;

constexpr int kKernelsPerStep = 20;
constexpr int kStepMs = 200;

// One step's launches: `us` microseconds of work for the GPU, at no cost for the CPU.
std::string LaunchStep(const std::string& name, const std::string& launch = "launch") {
  const int us = kStepMs * 1000 / kKernelsPerStep;
  return launch + " " + std::to_string(kKernelsPerStep) + " " + std::to_string(us) + " " + name +
         ";";
}

std::string Repeated(const std::string& commands, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += commands;
  return all;
}

uint64_t LossesOf(const CaptureContents& contents) {
  uint64_t lost = contents.dropped();
  for (const auto cause : {wire::kGpuDroppedByCupti, wire::kGpuNoBuffer, wire::kGpuLate,
                           wire::kGpuUntimed, wire::kGpuCorrupt, wire::kGpuUnknownKind,
                           wire::kGpuOverCap, wire::kGpuLostBuffers, wire::kGpuStillRunning}) {
    lost += contents.gpu_status().counts[cause];
  }
  return lost;
}

uint64_t CountKernels(const CaptureContents& contents, const std::string& name) {
  return static_cast<uint64_t>(
      std::count_if(contents.kernels.begin(), contents.kernels.end(),
                    [&](const auto& kernel) { return kernel.name == name; }));
}

std::set<uint32_t> RecordedCalls(const CaptureContents& contents) {
  std::set<uint32_t> calls;
  for (const auto& call : contents.api_calls) calls.insert(call.event.correlation);
  return calls;
}

// A program whose CPU is `lead_ms` ahead of its GPU, captured for two steps.
class AheadOfItsGpu {
 public:
  struct Options {
    std::string version;
    int lead_ms;
    std::string launch = "launch";  // Or "driver-launch".
    std::vector<std::pair<std::string, std::string>> environment = {};
  };
  explicit AheadOfItsGpu(const Options& options)
      : launch_(options.launch),
        process_({.version = options.version, .environment = options.environment}) {
    process_.Run("step 1");
    capture_ = process_.target().ArmGpu(GpuMode::kDefault);
    capture_->Fire(Steps(2, /*warmup=*/1));
    capture_->WaitPhase(wire::Phase::kWaiting);
    const int steps_ahead = (options.lead_ms + kStepMs - 1) / kStepMs;
    process_.Run("step 1; queries 1;" + Repeated(LaunchStep("before", launch_), steps_ahead) +
                 "step 1");
    capture_->WaitPhase(wire::Phase::kRecording);
  }
  // The CPU takes as long for a step as the GPU, so it stays as far ahead, also after the window.
  void BeginWindow() {
    const std::string step = "queries 1;" + PacedStep("inside") + "queries 1; step 1;";
    process_.Begin(step + step + PacedStep("after") + PacedStep("after"));
  }
  void EndWindow() {
    capture_->WaitPhase(wire::Phase::kEnded);
    process_.target().Send(wire::FrameType::kStop, wire::StopBody{capture_->number()});
    process_.Wait();
  }
  CaptureContents Drained() {
    process_.target().Expect(wire::FrameType::kDrained);
    CaptureContents contents = capture_->Read();
    capture_->Release();
    return contents;
  }

 private:
  // The CPU takes as long as the GPU.
  std::string PacedStep(const std::string& name) const {
    return LaunchStep(name, "paced-" + launch_);
  }

  const std::string launch_;
  GpuProcess process_;
  std::unique_ptr<FakeCapture> capture_;
};

// The version, and the setting `reserve`.
class LeadTest : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(LeadTest, AllThatTheWindowLaunchedIsThereAndNothingIsAnOrphan) {
  const auto [version, reserve] = GetParam();
  std::map<int, std::unique_ptr<AheadOfItsGpu>> programs;  // By their leads in milliseconds.
  for (const int lead_ms : {0, 400, 2000, 5000}) {
    programs[lead_ms] = std::make_unique<AheadOfItsGpu>(
        AheadOfItsGpu::Options{.version = version,
                               .lead_ms = lead_ms,
                               .environment = {{"SGPU_RESERVE", std::to_string(reserve)}}});
  }
  for (const auto& [lead_ms, program] : programs) program->BeginWindow();
  for (const auto& [lead_ms, program] : programs) program->EndWindow();
  for (const auto& [lead_ms, program] : programs) {
    const CaptureContents contents = program->Drained();
    EXPECT_EQ(CountKernels(contents, "inside"), 2u * kKernelsPerStep) << lead_ms;
    EXPECT_EQ(LossesOf(contents), 0u) << lead_ms;
    const std::set<uint32_t> calls = RecordedCalls(contents);
    uint64_t ran_inside = 0;
    for (const auto& kernel : contents.kernels) {
      // The daemon drops what begins after the window and was not launched in it.
      const bool begins_inside = kernel.event.start_ticks < contents.windows[0].end_ticks;
      if (kernel.name != "inside" && !begins_inside) continue;
      ran_inside += begins_inside ? 1 : 0;
      EXPECT_TRUE(calls.contains(kernel.event.place.correlation)) << lead_ms << kernel.name;
    }
    if (lead_ms >= 2 * kStepMs) {
      EXPECT_GE(ran_inside, 2u * kKernelsPerStep - 2) << lead_ms << ": launched before the window";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, LeadTest,
                         ::testing::Combine(::testing::Values("11.8", "12.4", "13.0"),
                                            ::testing::Values(0, 1)),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name + "_reserve" + std::to_string(std::get<1>(test.param));
                         });

// A program that launches by the driver's API, as Triton and cuBLAS do.
class DriverLeadTest : public ::testing::TestWithParam<const char*> {};

constexpr int kLeadsMs[] = {0, 400, 2000};

TEST_P(DriverLeadTest, AllThatTheWindowLaunchedIsThereWithItsCall) {
  std::map<int, std::unique_ptr<AheadOfItsGpu>> programs;
  for (const int lead_ms : kLeadsMs) {
    programs[lead_ms] = std::make_unique<AheadOfItsGpu>(AheadOfItsGpu::Options{
        .version = GetParam(), .lead_ms = lead_ms, .launch = "driver-launch"});
  }
  for (const auto& [lead_ms, program] : programs) program->BeginWindow();
  for (const auto& [lead_ms, program] : programs) program->EndWindow();
  for (const auto& [lead_ms, program] : programs) {
    const CaptureContents contents = program->Drained();
    EXPECT_EQ(CountKernels(contents, "inside"), 2u * kKernelsPerStep) << lead_ms;
    EXPECT_EQ(LossesOf(contents), 0u) << lead_ms;
    EXPECT_EQ(contents.gpu_status().kind_result_count, 0u) << lead_ms;
    const std::set<uint32_t> calls = RecordedCalls(contents);
    for (const auto& kernel : contents.kernels) {
      if (kernel.name != "inside") continue;
      EXPECT_TRUE(calls.contains(kernel.event.place.correlation)) << lead_ms;
    }
  }
}

// The interval of correlation IDs shows what the window launched.
TEST_P(DriverLeadTest, WithoutRecordsOfItsCallsAllIsThereOrCountedAsLost) {
  std::map<int, std::unique_ptr<AheadOfItsGpu>> programs;
  for (const int lead_ms : kLeadsMs) {
    programs[lead_ms] = std::make_unique<AheadOfItsGpu>(
        AheadOfItsGpu::Options{.version = GetParam(),
                               .lead_ms = lead_ms,
                               .launch = "driver-launch",
                               .environment = {{"SGPU_SILENT_DRIVER", "1"}}});
  }
  for (const auto& [lead_ms, program] : programs) program->BeginWindow();
  for (const auto& [lead_ms, program] : programs) program->EndWindow();
  for (const auto& [lead_ms, program] : programs) {
    const CaptureContents contents = program->Drained();
    EXPECT_GE(CountKernels(contents, "inside") + LossesOf(contents), 2u * kKernelsPerStep)
        << lead_ms;
    EXPECT_GE(CountKernels(contents, "inside"), kKernelsPerStep) << lead_ms;
    EXPECT_EQ(contents.gpu_status().kind_result_count, 1u) << lead_ms;
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, DriverLeadTest,
                         ::testing::Values("12.4", "12.9", "13.0", "future"), [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// A capture of one step during which `inside` is run; `after` is run before STOP.
CaptureContents CaptureOfOneStep(GpuProcess& process, GpuMode mode, const std::string& before,
                                 const std::string& inside, const std::string& after) {
  process.Run("step 1");
  auto capture = process.target().ArmGpu(mode);
  capture->Fire(Steps(1, /*warmup=*/1));
  capture->WaitPhase(wire::Phase::kWaiting);
  process.Run("step 1;" + before + "step 1");
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run(inside + "step 1");
  capture->WaitPhase(wire::Phase::kEnded);
  process.Run(after);
  return capture->Finish();
}

TEST(DrainTest, WorkThatHasNotBegunWhenTheTimeIsOverHasACauseOfItsOwn) {
  GpuProcess process;
  const CaptureContents contents = CaptureOfOneStep(
      process, GpuMode::kDefault, "", "launch 1 30000000 for_ever; launch 3 1 behind_it;", "");
  EXPECT_EQ(contents.gpu_status().counts[wire::kGpuStillRunning], 3u);
  EXPECT_EQ(contents.gpu_status().counts[wire::kGpuUntimed], 0u);
  EXPECT_EQ(CountKernels(contents, "for_ever"), 1u);
}

TEST(DrainTest, WorkLaunchedAfterTheWindowIsNotWaitedFor) {
  GpuProcess process({.environment = {{"SGPU_RESERVE", "0"}}});
  const CaptureContents contents = CaptureOfOneStep(
      process, GpuMode::kDefault, "", "launch 5 1 inside; sync;", "launch 1 30000000 later;");
  EXPECT_EQ(CountKernels(contents, "inside"), 5u);
  EXPECT_EQ(LossesOf(contents), 0u);
  EXPECT_EQ(contents.gpu_status().counts[wire::kGpuUnfinished], 0u);
  EXPECT_EQ(process.TruthOf(client::cupti::kKindConcurrentKernel).size(), 6u);
}

// Launches that become nodes of a graph make no work of their own.
TEST(DrainTest, LaunchesIntoAGraphAreNotWaitedFor) {
  for (const GpuMode mode : {GpuMode::kDefault, GpuMode::kFull}) {
    GpuProcess process;
    const auto begin = std::chrono::steady_clock::now();
    const CaptureContents contents =
        CaptureOfOneStep(process, mode, "", "graph 2; launch 5 1; sync;", "");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
    EXPECT_EQ(LossesOf(contents), 0u);
    EXPECT_EQ(CountKernels(contents, "kernel"), 5u);
  }
}

TEST(DrainTest, AGraphsNodesAreAllWaitedFor) {
  GpuProcess process;
  const CaptureContents contents = CaptureOfOneStep(process, GpuMode::kFull, "graph 1; sync;",
                                                    "launch 1 300000 long; graph 4;", "");
  EXPECT_EQ(CountKernels(contents, "node"), 12u);
  EXPECT_EQ(LossesOf(contents), 0u);
}

// Without records of calls, what has not begun by the end of the window is not of it.
TEST(DrainTest, InLightModeWorkThatHasNotBegunIsNoLoss) {
  GpuProcess process;
  const CaptureContents contents = CaptureOfOneStep(
      process, GpuMode::kLight, "",
      LaunchStep("inside") + LaunchStep("inside") + LaunchStep("inside") + LaunchStep("inside"),
      "");
  EXPECT_EQ(LossesOf(contents), 0u);
  EXPECT_GE(CountKernels(contents, "inside"), 1u);
}

TEST(DrainTest, ADriverLaunchIsWaitedForAsARuntimeLaunchIs) {
  GpuProcess process;
  const CaptureContents contents = CaptureOfOneStep(
      process, GpuMode::kDefault, "launch 1 1000000 long;", "driver-launch 1;", "");
  EXPECT_EQ(CountKernels(contents, "driver_kernel"), 1u);
  EXPECT_EQ(LossesOf(contents), 0u);
}

TEST(DrainTest, NoThreadOfTheProgramIsHeldUp) {
  GpuProcess process({.environment = {{"SGPU_RESERVE", "1"}}});
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("launch 1 3000000 long");
  process.target().Send(wire::FrameType::kStop, wire::StopBody{capture->number()});
  // The program launches and marks while the drain waits.
  process.Run(Repeated("launch 100 0; step 1;", 40));
  EXPECT_EQ(process.CountThreads("profd-gpu"), 1);
  process.target().Expect(wire::FrameType::kDrained);
  const CaptureContents contents = capture->Read();
  capture->Release();
  EXPECT_EQ(CountKernels(contents, "long"), 1u);
  EXPECT_EQ(LossesOf(contents), 0u);
}

}  // namespace
}  // namespace profd::testing
