// Findings on traces of real programs: which rules fire was looked through by hand, and each that
// does is said why. The traces are no part of the source: PROFD_TEST_DATA names their folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/report/findings/findings.h"
#include "tests/fakes/status_matchers.h"
#include "tests/import/real_traces.h"
#include "tests/report/imported_trace.h"

namespace profd::report {
namespace {

using ::testing::UnorderedElementsAreArray;

struct Reviewed {
  const char* trace;
  BoundBy bound;
  std::vector<std::string> rules;
};

class FindingsTraceTest : public testing::TestWithParam<Reviewed> {};

TEST_P(FindingsTraceTest, WhatFiresIsWhatAReviewerWouldSay) {
  const std::filesystem::path path = RealTrace(GetParam().trace);
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is not there; set PROFD_TEST_DATA";
  }
  ImportedTrace trace;
  ASSERT_THAT(trace.Import(path, GpuWorkKept::kAll), IsOk());
  absl::StatusOr<FindingsReport> report = SummarizeFindings(trace.reader(), {});
  ASSERT_THAT(report, IsOk());
  std::vector<std::string> fired;
  for (const Finding& finding : report->findings) {
    // How well a trace was imported is no matter of the program.
    if (!finding.rule.starts_with("QUALITY_")) fired.emplace_back(finding.rule);
    EXPECT_LE(finding.saving_ns_per_step, report->mean_step_ns) << finding.rule;
    EXPECT_FALSE(finding.measured.empty()) << finding.rule;
    EXPECT_FALSE(finding.advice.empty()) << finding.rule;
  }
  EXPECT_THAT(fired, UnorderedElementsAreArray(GetParam().rules)) << report->verdict;
  EXPECT_EQ(report->bound, GetParam().bound) << report->verdict;
}

INSTANTIATE_TEST_SUITE_P(
    Traces, FindingsTraceTest,
    testing::Values(
        // Three quarters of each step the GPU waits for launches. Steps repeat their kernels, but
        // wait for the GPU eight times, so they are no graph. A tenth of each step is in
        // aten::unflatten_dense_tensors, which makes views and launches nothing.
        Reviewed{"nccl_rank", BoundBy::kHost, {"GPU_UNDERUSED", "IDLE_HOST_WAIT", "HOST_WORK"}},
        // The same after a change: embeddings are copied by the host, and nothing hides it.
        Reviewed{"diff_test", BoundBy::kCompute, {"COPY_EXPOSED", "H2D_BW_LOW"}},
        // A fifth of each step is all-to-all that nothing hides; copies of pinned memory are slow.
        // The host waits 6 ms a step in four .item(), and launches late for as long after them; the
        // GPU is idle for 2.9 % of a step after them, and 3 % are reported. The rest of what
        // follows them is Python in backward passes of functions that communicate.
        Reviewed{"diff_control", BoundBy::kCompute, {"COMM_EXPOSED", "H2D_BW_LOW"}},
        // Half of the step is loading images before the first kernel; results are copied pageable.
        // Attention is written out: 180 softmaxes between batched products, and no fused one.
        Reviewed{"h100_owlv2_large",
                 BoundBy::kInput,
                 {"GPU_UNDERUSED", "INPUT_BOUND", "MEMCPY_PAGEABLE_ASYNC", "UNFUSED_ATTENTION"}},
        // Eager inference that keeps the GPU busy, a third of it with elementwise kernels. It waits
        // for the GPU between batches, which leaves it idle for 1.3 of 47 ms.
        Reviewed{"h100_qwen1.5_0.5b", BoundBy::kCompute, {"MISSING_FUSION"}},
        // Eager inference of a small batch: the GPU waits for Python between tiny kernels.
        Reviewed{
            "b200_eager", BoundBy::kHost, {"GPU_UNDERUSED", "IDLE_HOST_WAIT", "SMALL_KERNELS"}},
        // No steps: of 12.9 s the first calls load the driver and cuDNN for 11.5 s, and the first
        // streams are made for 0.7 s.
        Reviewed{"alexnet_train",
                 BoundBy::kStartUp,
                 {"START_UP", "GPU_UNDERUSED", "GPU_GAP", "SLOW_LAUNCH_CALLS", "SLOW_API_CALLS"}},
        // Graphs are recorded, hardly anything runs: idle time is no finding.
        Reviewed{"vllm_graph", BoundBy::kUnknown, {"MEM_NEAR_LIMIT"}},
        Reviewed{"sglang_graph_capture", BoundBy::kUnknown, {}}),
    [](const testing::TestParamInfo<Reviewed>& reviewed) {
      std::string name = reviewed.param.trace;
      for (char& c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace profd::report
