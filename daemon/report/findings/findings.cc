#include "daemon/report/findings/findings.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/rules.h"
#include "daemon/report/findings/verdict.h"

namespace profd::report {
namespace {

constexpr double kCriticalSaving = 0.25;  // Of a step.
constexpr double kWarningSaving = 0.05;

Severity SeverityOfSaving(const Facts& facts, int64_t saving_ns) {
  if (facts.scope.mean_ns <= 0) return Severity::kInfo;
  const double share = static_cast<double>(saving_ns) / static_cast<double>(facts.scope.mean_ns);
  if (share >= kCriticalSaving) return Severity::kCritical;
  return share >= kWarningSaving ? Severity::kWarning : Severity::kInfo;
}

void AddFinding(const Rule& rule, const Facts& facts, Finding finding, FindingsReport& report) {
  finding.rule = rule.id;
  finding.title = rule.title;
  // No saving exceeds the step.
  finding.saving_ns_per_step =
      std::clamp<int64_t>(finding.saving_ns_per_step, 0, std::max<int64_t>(facts.scope.mean_ns, 0));
  finding.severity =
      std::max(finding.severity, SeverityOfSaving(facts, finding.saving_ns_per_step));
  report.findings.push_back(std::move(finding));
}

void Look(const Rule& rule, const Facts& facts, const FindingThresholds& thresholds,
          FindingsReport& report) {
  if (thresholds.disabled.contains(rule.id)) {
    report.skipped.push_back(
        {rule.id, rule.title, "the rule to be enabled: the thresholds disable it"});
    return;
  }
  if (rule.uses_shares && facts.quality.shares == ShareTrust::kWithheld) {
    report.skipped.push_back(
        {rule.id, rule.title,
         StrCat("a capture that lost less than ", PercentText(kWithholdSharesFrom),
                " of its events; this one lost ", PercentText(facts.quality.lost_share))});
    return;
  }
  RuleResult result = rule.look(facts, thresholds);
  if (!result.needs.empty()) {
    report.skipped.push_back({rule.id, rule.title, std::move(result.needs)});
  } else if (result.fired) {
    AddFinding(rule, facts, std::move(result.finding), report);
  } else {
    report.passed.push_back(
        {rule.id, rule.title, result.finding.unit, result.finding.value, result.finding.threshold});
  }
}

// By saving; but symptoms after the cause that explains them.
void OrderFindings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.saving_ns_per_step, a.severity) > std::tie(b.saving_ns_per_step, b.severity);
  });
  const auto cause = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return !IsSymptom(finding.rule) && finding.confidence > Confidence::kLow;
  });
  if (cause == findings.end()) return;
  const auto explained_ns = static_cast<double>(cause->saving_ns_per_step);
  std::stable_partition(findings.begin(), cause + 1, [&](const Finding& finding) {
    return !IsSymptom(finding.rule) ||
           explained_ns < kExplainedSymptom * static_cast<double>(finding.saving_ns_per_step);
  });
}

}  // namespace

std::string_view ToString(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kCritical:
      return "critical";
  }
  return "info";
}

std::string_view ToString(Confidence confidence) {
  switch (confidence) {
    case Confidence::kLow:
      return "low";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kHigh:
      return "high";
  }
  return "low";
}

std::string_view ToString(FindingUnit unit) {
  switch (unit) {
    case FindingUnit::kShare:
      return "share";
    case FindingUnit::kNs:
      return "ns";
    case FindingUnit::kBytes:
      return "bytes";
    case FindingUnit::kCount:
      return "count";
    case FindingUnit::kRatio:
      return "ratio";
  }
  return "count";
}

std::string_view ToString(EvidenceKind kind) {
  switch (kind) {
    case EvidenceKind::kStep:
      return "step";
    case EvidenceKind::kOp:
      return "op";
    case EvidenceKind::kKernel:
      return "kernel";
    case EvidenceKind::kCopy:
      return "copy";
    case EvidenceKind::kCall:
      return "call";
    case EvidenceKind::kGap:
      return "gap";
    case EvidenceKind::kCollective:
      return "collective";
    case EvidenceKind::kMemory:
      return "memory";
    case EvidenceKind::kCode:
      return "code";
    case EvidenceKind::kCheck:
      return "check";
    case EvidenceKind::kRank:
      return "rank";
  }
  return "op";
}

std::string_view ToString(BoundBy bound) {
  switch (bound) {
    case BoundBy::kUnknown:
      return "unknown";
    case BoundBy::kHost:
      return "host";
    case BoundBy::kCompute:
      return "compute";
    case BoundBy::kCommunication:
      return "communication";
    case BoundBy::kInput:
      return "input";
    case BoundBy::kCopies:
      return "copies";
    case BoundBy::kCpuOnly:
      return "cpu_only";
  }
  return "unknown";
}

absl::StatusOr<FindingsReport> SummarizeFindings(store::CaptureReader& reader,
                                                 const FindingThresholds& thresholds,
                                                 const RankComparison* ranks) {
  ASSIGN_OR_RETURN(Facts facts, GatherFacts(reader, thresholds));
  facts.ranks = ranks;
  FindingsReport report;
  for (const Rule& rule : Rules()) Look(rule, facts, thresholds, report);
  OrderFindings(report.findings);
  report.quality = facts.quality;
  report.step_count = facts.scope.has_steps ? facts.scope.count : 0;
  report.mean_step_ns = facts.scope.mean_ns;
  report.bound = BoundOf(facts);
  report.verdict = WriteVerdict(facts, report);
  return report;
}

}  // namespace profd::report
