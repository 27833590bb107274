// Attention that is written out is found, and what only resembles it is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "daemon/report/findings/findings.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class AttentionTest : public FindingsFixture {
 protected:
  static constexpr int64_t kEachNs = 200 * kUs;

  // Five steps that repeat kernels of these operators, each 200 us, until the step is full.
  void StepsOf(const std::vector<std::string_view>& ops) {
    Steps(5);
    const auto per_step = static_cast<size_t>(kStepNs / kEachNs);
    for (int step = 0; step < 5; ++step) {
      for (size_t i = 0; i < per_step; ++i) {
        Launch({.start_ns = step * kStepNs + static_cast<int64_t>(i) * kEachNs,
                .count = 1,
                .kernel_ns = kEachNs,
                .op = std::string(ops[i % ops.size()])});
      }
    }
  }
};

TEST_F(AttentionTest, WrittenOutItIsFound) {
  StepsOf({"aten::addmm", "aten::bmm", "aten::div", "aten::_softmax", "aten::bmm"});
  const Finding finding = Find("UNFUSED_ATTENTION");
  EXPECT_NEAR(finding.value, 0.4, 0.01);  // Two of five kernels.
  EXPECT_THAT(finding.measured, HasSubstr("50 softmaxes"));
  EXPECT_THAT(finding.advice, HasSubstr("scaled_dot_product_attention"));
  ASSERT_EQ(finding.evidence.size(), 2u);
  EXPECT_EQ(finding.evidence[0].duration_ns, 50 * kEachNs);
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step), 0.4 * kStepNs, 0.01 * kStepNs);
}

TEST_F(AttentionTest, MasksDropoutAndCastsArePartOfIt) {
  StepsOf({"aten::baddbmm", "aten::masked_fill", "aten::copy_", "aten::_softmax", "aten::copy_",
           "aten::native_dropout", "aten::bmm", "aten::mm"});
  EXPECT_NEAR(Find("UNFUSED_ATTENTION").value, 5.0 / 8, 0.05);
}

TEST_F(AttentionTest, ItsBackwardPassCounts) {
  StepsOf({"aten::bmm", "aten::_softmax", "aten::bmm", "aten::mm", "aten::bmm",
           "aten::_softmax_backward_data", "aten::bmm", "aten::mm", "aten::mm", "aten::mm"});
  EXPECT_NEAR(Find("UNFUSED_ATTENTION").value, 0.2, 0.01);
}

TEST_F(AttentionTest, OneRightAfterTheOtherCountsOnceEach) {
  StepsOf({"aten::bmm", "aten::_softmax"});  // A product ends one and begins the next.
  EXPECT_THAT(Find("UNFUSED_ATTENTION").measured, HasSubstr("124 softmaxes"));
}

TEST_F(AttentionTest, WhatResemblesItIsNone) {
  const std::vector<std::vector<std::string_view>> programs = {
      // A fused one.
      {"aten::mm", "aten::_scaled_dot_product_flash_attention", "aten::mm"},
      // A classifier, and a softmax without a second product.
      {"aten::addmm", "aten::_softmax", "aten::addmm"},
      {"aten::bmm", "aten::mul", "aten::_softmax", "aten::topk", "aten::bmm"},
      {"aten::mm", "aten::_softmax", "aten::bmm", "aten::bmm"},
      // Batched products with something else in between.
      {"aten::bmm", "aten::mul", "aten::bmm"},
      {"aten::bmm", "aten::_softmax", "aten::mm", "aten::bmm"},
      // Only a backward pass, of a loss.
      {"aten::mm", "aten::_softmax_backward_data", "aten::mm"}};
  for (const std::vector<std::string_view>& ops : programs) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    reader_.mutable_record().start_unix_ns = 1;
    StepsOf(ops);
    EXPECT_THAT(Fired(), Not(Contains("UNFUSED_ATTENTION"))) << ops[1];
  }
}

TEST_F(AttentionTest, KernelsWithoutACallEndAChain) {
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    int64_t at = step * kStepNs;
    for (const std::string_view op : {"aten::bmm", "aten::_softmax", "", "aten::bmm"}) {
      if (op.empty()) {
        reader_.Kernel(kTensorKernel, at, at + kEachNs, 900'000 + step);
      } else {
        Launch({.start_ns = at, .count = 1, .kernel_ns = kEachNs, .op = std::string(op)});
      }
      at += kEachNs;
    }
  }
  EXPECT_THAT(Fired(), Not(Contains("UNFUSED_ATTENTION")));
}

}  // namespace
}  // namespace profd::report
