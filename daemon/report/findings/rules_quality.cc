#include <string_view>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/report/findings/rule_list.h"

namespace profd::report {
namespace {

const QualityCheck* Check(const Facts& facts, std::string_view name) {
  for (const QualityCheck& check : facts.quality.checks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

RuleResult Judge(const Facts& facts, std::string_view name, double bound, FindingUnit unit,
                 std::string_view advice) {
  const QualityCheck* check = Check(facts, name);
  if (check == nullptr) return Needs("a capture with events");
  if (!check->known) return Needs(StrCat("data that this capture lacks: ", check->sentence));
  RuleResult result;
  Finding& finding = result.finding;
  finding.unit = unit;
  finding.value = check->value;
  finding.threshold = bound;
  result.fired = check->value > bound;
  finding.measured = StrCat(check->sentence, ".");
  if (!finding.measured.empty() && finding.measured[0] >= 'a' && finding.measured[0] <= 'z') {
    finding.measured[0] = static_cast<char>(finding.measured[0] - 'a' + 'A');
  }
  finding.advice = advice;
  finding.severity = check->grade >= 'C' ? Severity::kWarning : Severity::kInfo;
  finding.confidence = Confidence::kHigh;
  finding.confidence_reason = "counted";
  Evidence evidence;
  evidence.kind = EvidenceKind::kCheck;
  evidence.name = name;
  evidence.detail = check->sentence;
  finding.evidence.push_back(std::move(evidence));
  return result;
}

}  // namespace

RuleResult QualityLoss(const Facts& facts, const FindingThresholds& thresholds) {
  return Judge(facts, "loss", thresholds.lost_share, FindingUnit::kShare,
               "Give the capture more memory or record less (profctl trace --buffer, "
               "--gpu light, fewer steps).");
}

RuleResult QualityOrphans(const Facts& facts, const FindingThresholds& thresholds) {
  return Judge(facts, "orphans", thresholds.orphan_share, FindingUnit::kShare,
               "Operators show less device time than they caused: no API call in the capture "
               "launched this work.");
}

RuleResult QualitySilentLaunches(const Facts& facts, const FindingThresholds&) {
  const QualityCheck* check = Check(facts, "silent_launches");
  return Judge(facts, "silent_launches", check == nullptr ? 0 : check->bound, FindingUnit::kShare,
               "The GPU did more than the capture shows: record the GPU's kernels too (another "
               "profiler may hold CUPTI, or the profiler may have no rights to the GPU), and let "
               "the GPU finish before the profiler stops.");
}

RuleResult QualityInversions(const Facts& facts, const FindingThresholds&) {
  return Judge(facts, "inversions", 0, FindingUnit::kCount,
               "The host and GPU clocks disagree: gaps and latencies of this capture are inexact.");
}

RuleResult QualityTimes(const Facts& facts, const FindingThresholds&) {
  return Judge(
      facts, "impossible_times", 0, FindingUnit::kCount,
      "The profiler or a later program damaged these times: use no duration near them, and "
      "repeat the capture if they matter.");
}

RuleResult QualityCoverage(const Facts& facts, const FindingThresholds&) {
  return Judge(facts, "coverage", 0, FindingUnit::kShare,
               "Repeat the capture; `profctl show` gives the reason for the early end.");
}

RuleResult QualityTruncation(const Facts& facts, const FindingThresholds&) {
  const QualityCheck* check = Check(facts, "truncation");
  return Judge(facts, "truncation", check == nullptr ? 0 : check->bound, FindingUnit::kShare,
               "These ranges appear shorter than they were: record more steps.");
}

RuleResult QualityUnended(const Facts& facts, const FindingThresholds&) {
  return Judge(facts, "unended_ranges", 0, FindingUnit::kCount,
               "End each range on the thread that began it, also when it returns early or throws "
               "(PROFD_RANGE in C++, `with profd.annotate()` in Python); each push of NVTX needs a "
               "pop.");
}

RuleResult QualityClock(const Facts& facts, const FindingThresholds&) {
  const QualityCheck* check = Check(facts, "clock_error_ns");
  return Judge(facts, "clock_error_ns", check == nullptr ? 0 : check->bound, FindingUnit::kNs,
               "Do not compare host and GPU times that are closer together than this.");
}

RuleResult QualityPerturbation(const Facts& facts, const FindingThresholds& thresholds) {
  return Judge(facts, "perturbation", thresholds.perturbation_share, FindingUnit::kShare,
               "Record less (profctl trace --gpu light, --ops names): host-time percentages are "
               "overstated.");
}

}  // namespace profd::report
