// Code that torch.compile gave up on is found, and what only resembles it is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "proto/wire/event.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kLookup = "TorchDynamo Cache Lookup";
constexpr std::string_view kRegion = "Torch-Compiled Region: 0/0";

class CompileRulesTest : public FindingsFixture {
 protected:
  static constexpr int kSteps = 6;

  // Steps that look compiled code up `lookups` times each; after `found` of them some runs.
  void LookUp(int lookups, int found, std::string_view region = kRegion) {
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < lookups; ++i) {
        const int64_t at = step * kStepNs + kMs + i * 500 * kUs;
        reader_.Range(main_, kLookup, at, at + 100 * kUs);
        if (i < found) reader_.Range(main_, region, at + 110 * kUs, at + 400 * kUs);
      }
    }
  }
  // Steps without a GPU: an operator of 100 us, 50 us of Python, again and again.
  void OperatorsApart() {
    Steps(kSteps);
    reader_.mutable_record().gpu.outcome = GpuOutcome::kNoCuda;
    reader_.mutable_record().gpu.devices.clear();
    for (int64_t at = 0; at < kSteps * kStepNs; at += 150 * kUs) {
      reader_.Operator(main_, "aten::mm", at, at + 100 * kUs);
    }
  }
  std::string First() {
    const FindingsReport report = Report();
    return report.findings.empty() ? "" : std::string(report.findings.front().rule);
  }
};

TEST_F(CompileRulesTest, CodeThatIsLookedUpAndNeverRunIsFound) {
  Healthy(kSteps);
  LookUp(2, 0);
  const Finding finding = Find("RECOMPILE_LIMIT");
  EXPECT_DOUBLE_EQ(finding.value, 1);
  EXPECT_EQ(finding.confidence, Confidence::kHigh);
  EXPECT_GE(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding.measured, HasSubstr("12 of 12 lookups of compiled code"));
  EXPECT_THAT(finding.advice, HasSubstr("recompile_limit"));
  EXPECT_EQ(finding.saving_ns_per_step, 200 * kUs);  // Two lookups; the GPU is busy all the time.
  ASSERT_EQ(finding.evidence.size(), 1u);
  EXPECT_EQ(finding.evidence[0].count, 12);
}

TEST_F(CompileRulesTest, OneFunctionOfSeveralIsFoundWithLessConfidence) {
  Healthy(kSteps);
  LookUp(4, 2);
  const Finding finding = Find("RECOMPILE_LIMIT");
  EXPECT_DOUBLE_EQ(finding.value, 0.5);
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
}

TEST_F(CompileRulesTest, ItComesBeforeTheHostThatItExplains) {
  OperatorsApart();
  EXPECT_EQ(First(), "HOST_BOUND");  // A third of each step is Python between operators.
  LookUp(1, 0);
  EXPECT_EQ(First(), "RECOMPILE_LIMIT");
  EXPECT_THAT(Report().verdict, HasSubstr("First change (RECOMPILE_LIMIT)"));
}

TEST_F(CompileRulesTest, LongHostTimeIsNotWhatCompiledCodeWouldSave) {
  Steps(kSteps);
  reader_.mutable_record().gpu.outcome = GpuOutcome::kNoCuda;
  reader_.mutable_record().gpu.devices.clear();
  for (int step = 0; step < kSteps; ++step) {
    reader_.Operator(main_, "aten::mm", step * kStepNs, step * kStepNs + 4 * kMs);
  }
  LookUp(1, 0);
  EXPECT_EQ(First(), "HOST_BOUND");
  EXPECT_EQ(Find("RECOMPILE_LIMIT").saving_ns_per_step, 100 * kUs);
}

TEST_F(CompileRulesTest, CodeThatRunsAfterEachLookupIsHealthy) {
  Healthy(kSteps);
  LookUp(3, 3);
  EXPECT_THAT(Fired(), Not(Contains("RECOMPILE_LIMIT")));
  EXPECT_EQ(NeedsOf("RECOMPILE_LIMIT"), "");
}

TEST_F(CompileRulesTest, OlderTorchsRegionsWithoutANumberRunToo) {
  Healthy(kSteps);
  LookUp(2, 2, "Torch-Compiled Region");
  EXPECT_THAT(Fired(), Not(Contains("RECOMPILE_LIMIT")));
}

TEST_F(CompileRulesTest, LookupsThatLeadToACompilationAreHealthy) {
  Healthy(kSteps);
  LookUp(1, 1);
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at = step * kStepNs + 2 * kMs;
    reader_.Range(main_, kLookup, at, at + 50 * kUs)
        .Range(main_, "_compile.compile_inner (dynamo_timed)", at + 50 * kUs, at + 600 * kUs)
        .Range(main_, "Torch-Compiled Region: 0/1", at + 600 * kUs, at + 700 * kUs);
  }
  EXPECT_THAT(Fired(), Not(Contains("RECOMPILE_LIMIT")));
  EXPECT_THAT(Fired(), Contains("RECOMPILES"));
}

TEST_F(CompileRulesTest, WithoutLookupsTheRuleSaysWhatItNeeds) {
  Healthy(kSteps);
  EXPECT_THAT(NeedsOf("RECOMPILE_LIMIT"), HasSubstr("torch.compile"));
  reader_.Range(main_, kRegion, kMs, 2 * kMs);
  EXPECT_THAT(NeedsOf("RECOMPILE_LIMIT"), HasSubstr("lookups"));
}

TEST_F(CompileRulesTest, GraphBreaksCostAtLeastTheirLookups) {
  Healthy(kSteps);
  LookUp(2, 2, "Torch-Compiled Region: 1/0");
  reader_.Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kCompiledRegion), "1/0",
               "train.py:19 in torch_dynamo_resume_in_forward_at_19", 7);
  const Finding finding = Find("GRAPH_BREAKS");
  EXPECT_DOUBLE_EQ(finding.value, 2 * kSteps);
  EXPECT_EQ(finding.saving_ns_per_step, 200 * kUs);
}

}  // namespace
}  // namespace profd::report
