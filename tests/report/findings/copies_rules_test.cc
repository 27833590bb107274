// Copies: which ones a program waits for, which use pageable memory, and how fast they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/str_cat.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CopiesRulesTest : public FindingsFixture {
 protected:
  // Each step: idle for `idle_ns`, then busy until its end, with launches far ahead.
  void IdleFirst(int64_t idle_ns, int steps = 5) {
    Steps(steps);
    for (int step = 0; step < steps; ++step) {
      Launch({.start_ns = step * kStepNs + idle_ns,
              .count = static_cast<int>((kStepNs - idle_ns) / (100 * kUs))});
    }
  }
};

TEST_F(CopiesRulesTest, PageableCopiesAreFoundWithWhatPinnedMemoryWouldSave) {
  IdleFirst(2 * kMs);
  for (int step = 0; step < 5; ++step) {
    Copy({.start_ns = step * kStepNs + 20 * kUs, .duration_ns = 1'900 * kUs, .bytes = 8 << 20});
  }
  const Finding finding = Find("MEMCPY_PAGEABLE_ASYNC");
  EXPECT_NEAR(finding.value, 0.19, 0.01);
  EXPECT_GT(finding.saving_ns_per_step, kMs);
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].name, "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(finding.evidence[0].bytes, 5 * (8 << 20));
  EXPECT_THAT(Fired(), Contains("COPY_EXPOSED"));
  EXPECT_THAT(Fired(), Not(Contains("MEMCPY_SYNC")));
}

TEST_F(CopiesRulesTest, AdviceOnCopiesGoesByTheirDirection) {
  for (const bool async : {true, false}) {
    for (const bool to_host : {true, false}) {
      reader_ = FakeCaptureReader();
      reader_.StepThread(reader_.AddThread(1, "main"));
      reader_.mutable_record().start_unix_ns = 1;
      Steps(5);
      for (int step = 0; step < 5; ++step) {
        Launch({.start_ns = step * kStepNs + 2 * kMs, .count = 80});
        Copy({.start_ns = step * kStepNs + 20 * kUs,
              .duration_ns = 1'900 * kUs,
              .bytes = 8 << 20,
              .async = async,
              .to_host = to_host});
      }
      const Finding finding = Find(async ? "MEMCPY_PAGEABLE_ASYNC" : "MEMCPY_SYNC");
      EXPECT_EQ(finding.advice.find("Keep results on the GPU") == 0, to_host) << finding.advice;
    }
  }
}

TEST_F(CopiesRulesTest, PageableCopiesSayTheirDirectionAndWhetherTheProgramWaits) {
  for (const bool waited : {true, false}) {
    for (const bool to_host : {true, false}) {
      reader_ = FakeCaptureReader();
      reader_.StepThread(reader_.AddThread(1, "main"));
      reader_.mutable_record().start_unix_ns = 1;
      Steps(5);
      for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
        Launch({.start_ns = at + 2 * kMs, .count = 80});
        // .cpu() or .to("cuda"), which PyTorch makes of an asynchronous copy and a wait.
        reader_.Range(main_, "aten::copy_", at + 5 * kUs, at + 1'950 * kUs);
        Copy({.start_ns = at + 20 * kUs,
              .duration_ns = 1'900 * kUs,
              .bytes = 8 << 20,
              .to_host = to_host});
        const int64_t wait_ns = waited ? at + 16 * kUs : at + 1'951 * kUs;
        reader_.ApiCall(main_, "cudaStreamSynchronize", wait_ns,
                        waited ? at + 1'945 * kUs : at + 1'959 * kUs, 0);
      }
      const Finding finding = Find("MEMCPY_PAGEABLE_ASYNC");
      EXPECT_EQ(finding.title,
                StrCat(waited ? "The program waits for copies " : "Asynchronous copies ",
                       to_host ? "to" : "from", " pageable memory",
                       waited ? "" : " are not asynchronous"));
      EXPECT_EQ(finding.measured.find("that are asynchronous calls") == std::string::npos, waited);
      EXPECT_EQ(finding.advice.find("Keep results on the GPU") == 0, to_host) << finding.advice;
      EXPECT_EQ(finding.advice.find(".to(device, non_blocking=True)") != std::string::npos,
                waited && !to_host)
          << finding.advice;
    }
  }
}

TEST_F(CopiesRulesTest, PageableCopiesOfBothDirectionsAreToldApart) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Launch({.start_ns = at + 4 * kMs, .count = 50});
    // No operator is known, so who asked for the wait is not known.
    Copy({.start_ns = at + 20 * kUs, .duration_ns = 1'900 * kUs, .bytes = 8 << 20});
    reader_.ApiCall(main_, "cudaStreamSynchronize", at + 16 * kUs, at + 1'945 * kUs, 0);
    Copy({.start_ns = at + 2'020 * kUs,
          .duration_ns = 1'100 * kUs,
          .bytes = 4 << 20,
          .to_host = true});
  }
  const Finding finding = Find("MEMCPY_PAGEABLE_ASYNC");
  EXPECT_EQ(finding.title, "The program waits for copies from pageable memory");
  EXPECT_THAT(
      finding.measured,
      HasSubstr("Copies from pageable memory take 1.9 ms, and those to it 1.1 ms, a step "
                "(30% together). The program waits for most of them, and CUDA stages them,"));
}

TEST_F(CopiesRulesTest, PinnedCopiesAndSmallOnesAreNoFinding) {
  Healthy();
  for (int step = 0; step < 5; ++step) {
    Copy({.start_ns = step * kStepNs + kMs,
          .duration_ns = 200 * kUs,
          .bytes = 10 << 20,
          .pageable = false});
    Copy({.start_ns = step * kStepNs + 3 * kMs, .duration_ns = 900 * kUs, .bytes = 4096});
  }
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(CopiesRulesTest, CopiesThatTheProgramWaitsForAreFound) {
  IdleFirst(2 * kMs);
  for (int step = 0; step < 5; ++step) {
    Copy({.start_ns = step * kStepNs + 20 * kUs,
          .duration_ns = 1'900 * kUs,
          .bytes = 8 << 20,
          .async = false});
  }
  EXPECT_NEAR(Find("MEMCPY_SYNC").value, 0.19, 0.01);
  EXPECT_THAT(Fired(), Not(Contains("MEMCPY_PAGEABLE_ASYNC")));
}

TEST_F(CopiesRulesTest, LargeCopiesFarBelowTheLinkAreFound) {
  Healthy();
  Copy({.start_ns = kMs, .duration_ns = kMs, .bytes = 10 << 20, .pageable = false});  // 10 GB/s
  EXPECT_NEAR(Find("H2D_BW_LOW").value, 0.166, 0.01);
  thresholds_.link_gb_per_s = 12;
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(CopiesRulesTest, WithoutTheLinksBandwidthNobodyKnowsIfCopiesAreSlow) {
  Healthy();
  Copy({.start_ns = kMs, .duration_ns = kMs, .bytes = 10 << 20, .pageable = false});
  reader_.mutable_record().gpu.devices[0].compute_minor = 7;
  EXPECT_THAT(NeedsOf("H2D_BW_LOW"), HasSubstr("copies.link_bandwidth"));
}

TEST_F(CopiesRulesTest, OnExposedDecompressionTheAdviceIsOnDecompression) {
  IdleFirst(2 * kMs);
  for (int step = 0; step < 5; ++step) {
    // So small a copy needs no advice.
    Copy({.start_ns = step * kStepNs + 10 * kUs, .duration_ns = 20 * kUs, .bytes = 8 << 10});
    Decompress(step * kStepNs + 40 * kUs, 1'900 * kUs);
  }
  const FindingsReport report = Report();
  const Finding finding = Find("COPY_EXPOSED");
  EXPECT_EQ(finding.title, "Decompression is not overlapped by kernels");
  EXPECT_THAT(finding.measured, HasSubstr("Decompression is 99% of their time."));
  EXPECT_THAT(finding.advice, HasSubstr("ecompress the next batch on a separate stream"));
  for (const char* of_copies : {"pinned", "contiguous()", "non_blocking", "nvidia-smi"}) {
    EXPECT_THAT(finding.advice, Not(HasSubstr(of_copies)));
  }
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].name, "Memcpy Decompress");
  EXPECT_EQ(finding.evidence[0].count, 5);
  EXPECT_EQ(finding.evidence[0].bytes, 5 * (8 << 20));
  EXPECT_THAT(report.verdict, HasSubstr("has exposed copies and decompression for 19.2%"));
  for (const std::string& rule : Fired()) {
    EXPECT_THAT(rule, testing::AllOf(Not(HasSubstr("MEMCPY")), Not(HasSubstr("BW_LOW"))));
  }
}

TEST_F(CopiesRulesTest, WithMoreCopiesThanDecompressionTheAdviceIsOnCopies) {
  IdleFirst(2 * kMs);
  for (int step = 0; step < 5; ++step) {
    Copy({.start_ns = step * kStepNs + 20 * kUs, .duration_ns = 1'500 * kUs, .bytes = 8 << 20});
    Decompress(step * kStepNs + 1'530 * kUs, 400 * kUs);
  }
  const Finding finding = Find("COPY_EXPOSED");
  EXPECT_EQ(finding.title, "Copies are not overlapped by kernels");
  EXPECT_THAT(finding.measured, HasSubstr("Decompression is 21.1% of their time."));
  EXPECT_THAT(finding.advice, HasSubstr("use pinned memory"));
}

TEST_F(CopiesRulesTest, DecompressionThatKernelsCoverIsNotBlamedForExposedCopies) {
  IdleFirst(2 * kMs);
  for (int step = 0; step < 5; ++step) {
    Copy({.start_ns = step * kStepNs + 20 * kUs, .duration_ns = 1'500 * kUs, .bytes = 8 << 20});
    Decompress(step * kStepNs + 4 * kMs, 4 * kMs);
  }
  const Finding finding = Find("COPY_EXPOSED");
  EXPECT_EQ(finding.title, "Copies are not overlapped by kernels");
  EXPECT_THAT(finding.advice, HasSubstr("use pinned memory"));
  EXPECT_THAT(Report().verdict, Not(HasSubstr("bound by exposed decompression")));
}

TEST_F(CopiesRulesTest, WithoutTheWorkOfDecompressionTheVerdictQualifiesTheIdleTime) {
  constexpr std::string_view kText =
      "It also decompresses memory, which is not recorded here, and looks idle meanwhile";
  IdleFirst(2 * kMs);
  EXPECT_THAT(Report().verdict, Not(HasSubstr(kText)));
  reader_.ApiCall(main_, "cuMemBatchDecompressAsync", kMs, kMs + 5 * kUs, 100'000,
                  {.is_driver = true});
  EXPECT_THAT(Report().verdict, HasSubstr(kText));
  reader_.GpuWork(GpuRowKind::kMemDecompress, kMs + 10 * kUs, kMs + 90 * kUs, 100'000, {});
  EXPECT_THAT(Report().verdict, Not(HasSubstr(kText)));
}

TEST_F(CopiesRulesTest, AGapBeforeADecompressionNamesIt) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    const int64_t start_ns = step * kStepNs;
    Launch({.start_ns = start_ns, .count = 50});
    Decompress(start_ns + 8 * kMs, kMs);
  }
  std::vector<std::string> gaps;
  for (const Finding& finding : Report().findings) {
    for (const Evidence& evidence : finding.evidence) {
      if (evidence.kind == EvidenceKind::kGap) gaps.push_back(evidence.name);
    }
  }
  EXPECT_THAT(gaps, Contains("before Memcpy Decompress"));
  EXPECT_THAT(gaps, Not(Contains("before a copy or memset")));
}

}  // namespace
}  // namespace profd::report
