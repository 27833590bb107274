// What the order of CUPTI's calls costs the program, as measured on a GPU: kernels of threads that
// launch while kinds go on, and time of each call while CUPTI stays.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "client_lib/cupti/cupti_abi.h"
#include "tests/client_lib/cupti/gpu_process.h"

namespace profd::testing {
namespace {

using wire::GpuMode;

uint64_t CountKernels(const CaptureContents& contents, const std::string& name) {
  return static_cast<uint64_t>(
      std::count_if(contents.kernels.begin(), contents.kernels.end(),
                    [&](const auto& kernel) { return kernel.name == name; }));
}

// The version, and whether the program replays a graph, after which CUPTI is not finalized.
class EnableOrderTest : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(EnableOrderTest, AThreadThatLaunchesWhileKindsGoOnKeepsItsKernelsInEachSession) {
  const auto [version, has_graph] = GetParam();
  GpuProcess process({.version = version,
                      .environment = {{"SGPU_LOSE_THREADS", "1"},
                                      {"SGPU_EACH_ENABLE_MS", "3"},
                                      // As new as CUPTI 13.2 needs it.
                                      {"SGPU_DRIVER_VERSION", "13020"}}});
  for (int session = 1; session <= 3; ++session) {
    process.Run(has_graph ? "step 1; graph 1; sync" : "step 1");
    process.Begin("paced-launch 300 1000 while_kinds_go_on");
    auto capture = process.target().ArmGpu(session == 2 ? GpuMode::kFull : GpuMode::kDefault);
    capture->Fire(ByTime());
    capture->WaitPhase(wire::Phase::kRecording);
    process.Wait();
    process.Run((has_graph ? "graph 2;" : "") + std::string("launch 20 1 inside; sync"));
    const CaptureContents contents = capture->Finish();
    EXPECT_EQ(CountKernels(contents, "inside"), 20u) << session;
    EXPECT_EQ(contents.gpu_status().counts[wire::kGpuDroppedByCupti], 0u) << session;
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, EnableOrderTest,
                         ::testing::Combine(::testing::Values("11.8", "12.4", "12.9", "13.0",
                                                              "13.2", "future"),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name + (std::get<1>(test.param) ? "_graphs" : "");
                         });

// ---- What stays after a capture

constexpr uint64_t kCallTaxNs = 400;

class CallTaxTest : public ::testing::Test {
 protected:
  // How long calls of the program take now: the simulated clock stands still otherwise.
  uint64_t CallNs() {
    process_.Run("truth-clear; noise 1");
    uint64_t longest_ns = 0;
    for (const Truth& call : process_.TruthOf(client::cupti::kKindRuntime)) {
      longest_ns = std::max(longest_ns, call.record.end_ns - call.record.start_ns);
    }
    return longest_ns;
  }
  CaptureContents Capture(const std::string& inside) {
    auto capture = StartRecording(process_);
    process_.Run(inside);
    return capture->Finish();
  }

  GpuProcess process_{
      {.virtual_time = true, .environment = {{"SGPU_CALL_TAX_NS", std::to_string(kCallTaxNs)}}}};
};

TEST_F(CallTaxTest, AfterACaptureNothingStays) {
  const uint64_t before_ns = CallNs();
  ASSERT_LT(before_ns, kCallTaxNs);
  const CaptureContents contents = Capture("launch 5 1; sync");
  EXPECT_EQ(contents.gpu_status().flags & wire::kGpuStatusStays, 0u);
  WaitUntil("cuptiFinalize", [&] {
    process_.Run("launch 1 1; sync");
    return process_.Stats().finalized == 1;
  });
  EXPECT_EQ(CallNs(), before_ns);
}

TEST_F(CallTaxTest, WhereCuptiStaysTheCaptureSaysSo) {
  const CaptureContents contents = Capture("graph 1; sync");
  EXPECT_NE(contents.gpu_status().flags & wire::kGpuStatusStays, 0u);
  WaitUntil("the GPU thread's end", [&] { return process_.CountThreads("profd-gpu") == 0; });
  EXPECT_EQ(CallNs(), kCallTaxNs);
}

}  // namespace
}  // namespace profd::testing
