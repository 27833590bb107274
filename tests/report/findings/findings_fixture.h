// A training run as findings see it, made of steps; healthy unless a test adds something.
#ifndef PROFD_TESTS_REPORT_FINDINGS_FINDINGS_FIXTURE_H_
#define PROFD_TESTS_REPORT_FINDINGS_FINDINGS_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/report/findings/findings.h"
#include "daemon/report/gpu/copy_table.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/nanoseconds.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {

inline constexpr std::string_view kTensorKernel = "sm90_xmma_gemm_bf16bf16_bf16f32_wgmma";
inline constexpr std::string_view kPlainGemm = "ampere_sgemm_128x64_tn";
inline constexpr std::string_view kElementwise =
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)";
inline constexpr std::string_view kLoader =
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";

class FindingsFixture : public testing::Test {
 protected:
  static constexpr int64_t kStepNs = 10 * kMs;

  // A row of kernels, one behind the other.
  struct Row {
    int64_t start_ns = 0;
    int count = 1;
    int64_t kernel_ns = 100 * kUs;
    int64_t gap_ns = 0;
    int64_t lead_ns = 200 * kUs;  // From a launch to the begin of its kernel.
    int64_t call_ns = 5 * kUs;
    std::string_view kernel = kTensorKernel;
    std::string_view op = "aten::mm";  // One around each launch; empty: none.
    FakeGpu gpu = {.grid = {132 * 64, 1, 1}, .block = {256, 1, 1}, .registers_per_thread = 32};
  };

  FindingsFixture() {
    CaptureRecord& record = reader_.mutable_record();
    record.state = CaptureState::kComplete;
    record.start_unix_ns = 1;
    record.event_count = 100'000;
    record.slowdown = {.known = true, .low = -0.01, .high = 0.01};
    record.gpu.outcome = GpuOutcome::kRecorded;
    record.gpu.devices.push_back({.number = 0,
                                  .name = "NVIDIA H100",
                                  .memory_bytes = int64_t{80} << 30,
                                  .compute_major = 9,
                                  .compute_minor = 0,
                                  .sm_count = 132,
                                  .warp_threads = 32,
                                  .max_threads_per_block = 1024,
                                  .max_threads_per_sm = 2048,
                                  .max_blocks_per_sm = 32,
                                  .registers_per_block = 65536,
                                  .registers_per_sm = 65536,
                                  .shared_bytes_per_block = 49152,
                                  .shared_bytes_per_sm = 233472,
                                  .shared_bytes_per_block_optin = 232448});
    reader_.StepThread(main_);
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) reader_.Step(i, i * kStepNs, kStepNs);
    CaptureRecord& record = reader_.mutable_record();
    record.windows.push_back(
        {.start_ns = 0, .end_ns = count * kStepNs, .first_step = 0, .end_step = count});
    record.spec.steps = count;
    record.covered_steps = count;
    record.covered_ns = count * kStepNs;
  }

  void Launch(const Row& row) {
    for (int i = 0; i < row.count; ++i) {
      const int64_t start_ns = row.start_ns + i * (row.kernel_ns + row.gap_ns);
      const int64_t call_ns = start_ns - row.lead_ns;
      ++correlation_;
      if (!row.op.empty()) {
        reader_.Range(main_, row.op, call_ns - 100, call_ns + row.call_ns + 100);
      }
      reader_.ApiCall(main_, "cudaLaunchKernel", call_ns, call_ns + row.call_ns, correlation_)
          .Kernel(row.kernel, start_ns, start_ns + row.kernel_ns, correlation_, row.gpu);
    }
  }

  // Steps in which the GPU is never idle and does what it is good at.
  void Healthy(int steps = 5) {
    Steps(steps);
    for (int step = 0; step < steps; ++step) Launch({.start_ns = step * kStepNs, .count = 100});
  }

  struct CopyRow {
    int64_t start_ns = 0;
    int64_t duration_ns = 0;
    uint64_t bytes = 0;
    bool pageable = true;
    bool async = true;
    bool to_host = false;
  };
  void Copy(const CopyRow& copy) {
    ++correlation_;
    const int64_t call_ns = copy.start_ns - 10 * kUs;
    reader_
        .ApiCall(main_, copy.async ? "cudaMemcpyAsync" : "cudaMemcpy", call_ns,
                 copy.async ? call_ns + 5 * kUs : copy.start_ns + copy.duration_ns, correlation_)
        .Copy(copy.start_ns, copy.start_ns + copy.duration_ns, correlation_,
              {.stream = 12,
               .bytes = copy.bytes,
               .copy_kind = static_cast<uint8_t>(copy.to_host ? 2 : 1),
               .source_kind = static_cast<uint8_t>(copy.to_host    ? 3
                                                   : copy.pageable ? 1
                                                                   : 2),
               .destination_kind = static_cast<uint8_t>(!copy.to_host   ? 3
                                                        : copy.pageable ? 1
                                                                        : 2)});
  }

  void Decompress(int64_t start_ns, int64_t duration_ns) {
    ++correlation_;
    const int64_t call_ns = start_ns - 10 * kUs;
    reader_
        .ApiCall(main_, "cuMemBatchDecompressAsync", call_ns, call_ns + 5 * kUs, correlation_,
                 {.is_driver = true})
        .GpuWork(GpuRowKind::kMemDecompress, start_ns, start_ns + duration_ns, correlation_,
                 {.stream = 12, .bytes = 8 << 20});
  }

  FindingsReport Report() {
    absl::StatusOr<FindingsReport> report =
        SummarizeFindings(reader_, thresholds_, ranks_.names.empty() ? nullptr : &ranks_);
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *std::move(report) : FindingsReport();
  }
  std::vector<std::string> Fired() {
    std::vector<std::string> rules;
    for (const Finding& finding : Report().findings) rules.emplace_back(finding.rule);
    return rules;
  }
  // The finding of `rule`; a failure where it did not fire.
  Finding Find(std::string_view rule) {
    for (const Finding& finding : Report().findings) {
      if (finding.rule == rule) return finding;
    }
    ADD_FAILURE() << rule << " did not fire";
    return {};
  }
  // What the rule needs; empty where it was looked at.
  std::string NeedsOf(std::string_view rule) {
    for (const SkippedRule& skipped : Report().skipped) {
      if (skipped.rule == rule) return skipped.needs;
    }
    return {};
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  FindingThresholds thresholds_;
  RankComparison ranks_;  // Without names: the capture is looked at by itself.
  uint32_t correlation_ = 0;
};

}  // namespace profd::report

#endif  // PROFD_TESTS_REPORT_FINDINGS_FINDINGS_FIXTURE_H_
