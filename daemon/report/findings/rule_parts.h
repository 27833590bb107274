// What rules about time have in common: results whose value is a share of the steps, and their
// words.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_RULE_PARTS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_RULE_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/report/findings/rules.h"

namespace profd::report {

inline constexpr std::string_view kNeedsGpu = "GPU work";
inline constexpr std::string_view kNeedsCalls = "CUDA API calls (profctl trace --gpu default)";
inline constexpr std::string_view kNeedsWork =
    "a window in which kernels run; in this one, the program captures CUDA graphs";

// A result whose value is a share of the steps, compared with its threshold.
inline RuleResult ShareOfSteps(const Facts& facts, int64_t ns, double threshold) {
  RuleResult result;
  result.finding.unit = FindingUnit::kShare;
  result.finding.value = facts.ShareOfSteps(ns);
  result.finding.threshold = threshold;
  result.fired = result.finding.value > threshold;
  result.finding.saving_ns_per_step = facts.PerStep(ns);
  return result;
}

// Of a step, for a finding whose value is a share of it: no more than this has no finding.
inline int64_t UnreportedNs(const Facts& facts, const Finding& finding) {
  return static_cast<int64_t>(finding.threshold * static_cast<double>(facts.scope.mean_ns));
}

// One or two steps are weak evidence.
inline void SetConfidence(const Facts& facts, Confidence best, Finding& finding) {
  finding.confidence = best;
  if (!facts.scope.has_steps) {
    finding.confidence = std::min(best, Confidence::kMedium);
    finding.confidence_reason = "no steps: the capture counts as one step";
  } else if (facts.scope.count < 3) {
    finding.confidence = std::min(best, Confidence::kMedium);
    finding.confidence_reason = StrCat("only ", CountText(facts.scope.count, "step"));
  } else {
    finding.confidence_reason = CountText(facts.scope.count, "step");
  }
}

inline std::string StepWord(const Facts& facts) {
  return facts.scope.has_steps ? "each step" : "the capture";
}

// "12 ms of each step (34%)"
inline std::string OfStep(const Facts& facts, int64_t ns) {
  return StrCat(TimeText(facts.PerStep(ns)), " of ", StepWord(facts), " (",
                PercentText(facts.ShareOfSteps(ns)), ")");
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_RULE_PARTS_H_
