#include "daemon/report/findings/findings.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/description.h"
#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/gather.h"
#include "daemon/report/findings/idle_claims.h"
#include "daemon/report/findings/rules.h"
#include "daemon/report/findings/verdict.h"

namespace profd::report {
namespace {

constexpr double kLittleIdle = 0.05;  // Of a step.

Severity SeverityOfSaving(const Facts& facts, int64_t saving_ns) {
  if (facts.StepNs() <= 0) return Severity::kInfo;
  return SeverityOfShare(static_cast<double>(saving_ns) / static_cast<double>(facts.StepNs()));
}

void AddFinding(const Rule& rule, const Facts& facts, Finding finding, FindingsReport& report) {
  finding.rule = rule.id;
  if (finding.title.empty()) finding.title = rule.title;
  // Savings are those of the unrecorded program.
  const int64_t step_ns = facts.StepOfSavings(rule.id);
  if (step_ns == facts.StepNs()) {
    finding.saving_ns_per_step = static_cast<int64_t>(
        facts.UnrecordedPart() * static_cast<double>(finding.saving_ns_per_step));
  }
  // None exceeds the step, ...
  finding.saving_ns_per_step =
      std::clamp<int64_t>(finding.saving_ns_per_step, 0, std::max<int64_t>(step_ns, 0));
  // ... nor the idle time that is not the recording's.
  if (rule.of_idle_time && facts.unrecorded.known &&
      finding.saving_ns_per_step > facts.unrecorded.idle_ns) {
    finding.saving_ns_per_step = facts.unrecorded.idle_ns;
  }
  if (!facts.gpu_doubt.empty() && (rule.of_gpu || rule.id == "INPUT_BOUND")) {
    finding.confidence = std::min(finding.confidence, Confidence::kMedium);
    StrAppend(&finding.confidence_reason, "; ", facts.gpu_doubt);
  }
  for (Evidence& evidence : finding.evidence) {
    evidence.global_step = facts.steps.framework.GlobalStepOf(evidence.step).value_or(-1);
  }
  report.findings.push_back(std::move(finding));
}

void Look(const Rule& rule, const Facts& facts, const FindingThresholds& thresholds,
          FindingsReport& report) {
  if (thresholds.disabled.contains(rule.id)) {
    report.skipped.push_back({std::string(rule.id), std::string(rule.title),
                              "the rule to be enabled: the thresholds disable it"});
    return;
  }
  if (rule.uses_shares && facts.quality.shares == ShareTrust::kWithheld) {
    report.skipped.push_back(
        {std::string(rule.id), std::string(rule.title),
         StrCat("a capture that lost less than ", PercentText(kWithholdSharesFrom),
                " of its events; this one lost ", PercentText(facts.quality.lost_share))});
    return;
  }
  if (rule.of_gpu && facts.gpu_withheld) {
    report.skipped.push_back(
        {std::string(rule.id), std::string(rule.title),
         StrCat("all GPU work, at its right time; in this capture, ", facts.gpu_doubt)});
    return;
  }
  RuleResult result = rule.look(facts, thresholds);
  if (result.fired && rule.of_idle_time && facts.unrecorded.known &&
      facts.unrecorded.IdleShare() < kLittleIdle) {
    result.needs = StrCat(
        "idle time that is not the recording's: without it the GPU is idle for "
        "about ",
        PercentText(facts.unrecorded.IdleShare()));
  }
  if (!result.needs.empty()) {
    report.skipped.push_back(
        {std::string(rule.id), std::string(rule.title), std::move(result.needs)});
  } else if (result.fired) {
    AddFinding(rule, facts, std::move(result.finding), report);
  } else {
    report.passed.push_back({std::string(rule.id), std::string(rule.title), result.finding.unit,
                             result.finding.value, result.finding.threshold});
  }
}

// A specific finding comes before a general one if it explains at least kExplainedSymptom of it.
struct FindingPair {
  std::string_view specific;
  std::string_view general;
  bool same_time = false;    // Both count the same time, so the general one is left with the rest.
  std::string_view of = "";  // Only if the specific one's first evidence begins with this.
  bool same_on_gpu = true;   // False: with GPU work, they count different times.
};
constexpr std::array kFindingPairs = {
    FindingPair{"RECOMPILES", "HOST_BOUND"},
    FindingPair{"RECOMPILES", "STEP_OUTLIER", true},
    // Their advice is to compile, which the program tries to do.
    FindingPair{"RECOMPILE_LIMIT", "HOST_BOUND", true, "", false},
    FindingPair{"RECOMPILE_LIMIT", "IDLE_HOST_WAIT"},
    FindingPair{"RECOMPILE_LIMIT", "SMALL_KERNELS"},
    FindingPair{"RECOMPILE_LIMIT", "CUDA_GRAPH"},
    FindingPair{"RECOMPILE_LIMIT", "IDLE_KERNEL_WAIT"},
    FindingPair{"INPUT_BOUND", "STEP_OUTLIER", true},
    FindingPair{"MEMCPY_PAGEABLE_ASYNC", "COPY_EXPOSED", true},
    FindingPair{"MEMCPY_SYNC", "COPY_EXPOSED", true},
    FindingPair{"SYNC_API", "SMALL_KERNELS"},
    FindingPair{"SYNC_API", "CUDA_GRAPH"},
    FindingPair{"UNFUSED_ATTENTION", "MISSING_FUSION", true},
    FindingPair{"UNFUSED_ATTENTION", "CASTS", true},
    FindingPair{"CASTS", "MISSING_FUSION", true},
    // An optimizer that is not fused has a remedy of its own.
    FindingPair{"TINY_KERNELS_OF_OP", "SMALL_KERNELS", true, "Optimizer."},
    FindingPair{"TINY_KERNELS_OF_OP", "CUDA_GRAPH", true, "Optimizer."},
    FindingPair{"TINY_KERNELS_OF_OP", "IDLE_HOST_WAIT", true, "Optimizer."},
};

// That a more specific finding saves a part of what a general one does.
struct ExplainedPart {
  std::string_view specific;
  std::string_view general;
  int64_t general_ns = 0;  // Of the general one, before.
};

// `explanations` gets the part that both save; nullptr: no part is shared out any more.
void PutSpecificFirst(const FindingPair& pair, std::vector<Finding>& findings,
                      std::vector<ExplainedPart>* explanations) {
  const auto at = [&](std::string_view rule) {
    return std::find_if(findings.begin(), findings.end(),
                        [&](const Finding& finding) { return finding.rule == rule; });
  };
  const auto specific = at(pair.specific);
  const auto general = at(pair.general);
  if (specific == findings.end() || general == findings.end()) return;
  if (specific->confidence == Confidence::kLow || specific->saving_ns_per_step <= 0) return;
  if (!pair.of.empty() &&
      (specific->evidence.empty() || !specific->evidence.front().name.starts_with(pair.of))) {
    return;
  }
  if (static_cast<double>(specific->saving_ns_per_step) <
      kExplainedSymptom * static_cast<double>(general->saving_ns_per_step)) {
    return;
  }
  if (pair.same_time && explanations != nullptr) {
    explanations->push_back({pair.specific, pair.general, general->saving_ns_per_step});
    const int64_t left_ns = general->saving_ns_per_step - specific->saving_ns_per_step;
    general->counted_elsewhere = general->saving_ns_per_step > 0 && left_ns <= 0;
    general->saving_ns_per_step = std::max<int64_t>(left_ns, 0);
  }
  if (general < specific) std::rotate(general, specific, specific + 1);
}

// With the savings that are left when idle time has been shared out: a finding does not explain
// more than it promises.
void WriteExplanations(std::span<const ExplainedPart> explanations,
                       std::vector<Finding>& findings) {
  for (const ExplainedPart& explanation : explanations) {
    const auto specific = std::ranges::find(findings, explanation.specific, &Finding::rule);
    const auto general = std::ranges::find(findings, explanation.general, &Finding::rule);
    if (specific == findings.end() || general == findings.end()) continue;
    const int64_t ns = std::min(specific->saving_ns_per_step, explanation.general_ns);
    if (ns <= 0) continue;
    StrAppend(&general->measured, " ", explanation.specific, " explains ", TimeText(ns), " of it.");
  }
}

// Of findings that save nothing of their own, symptoms come last.
void SortBySaving(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if (a.saving_ns_per_step != b.saving_ns_per_step || IsSymptom(a.rule) == IsSymptom(b.rule)) {
      return std::tie(a.saving_ns_per_step, a.severity) >
             std::tie(b.saving_ns_per_step, b.severity);
    }
    return IsSymptom(b.rule);
  });
}

// By saving; but specific findings before general ones, and symptoms after the cause that explains
// them. Before all is what may end the run, and then what the verdict says to change first.
void OrderFindings(const Facts& facts, std::vector<Finding>& findings) {
  SortBySaving(findings);
  std::vector<ExplainedPart> explanations;
  for (FindingPair pair : kFindingPairs) {
    if (facts.has_gpu()) pair.same_time = pair.same_time && pair.same_on_gpu;
    PutSpecificFirst(pair, findings, &explanations);
  }
  PromiseIdleTimeOnce(facts, findings);
  WriteExplanations(explanations, findings);
  // Rules set severities of what costs no time; those by time are of the saving that is left.
  for (Finding& finding : findings) {
    finding.severity =
        std::max(finding.severity, SeverityOfSaving(facts, finding.saving_ns_per_step));
  }
  SortBySaving(findings);
  for (const FindingPair& pair : kFindingPairs) PutSpecificFirst(pair, findings, nullptr);
  const auto cause = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return !IsSymptom(finding.rule) && finding.confidence > Confidence::kLow;
  });
  if (cause != findings.end()) {
    const auto explained_ns = static_cast<double>(cause->saving_ns_per_step);
    std::stable_partition(findings.begin(), cause + 1, [&](const Finding& finding) {
      return !IsSymptom(finding.rule) ||
             explained_ns < kExplainedSymptom * static_cast<double>(finding.saving_ns_per_step);
    });
  }
  const auto fatal_end = std::stable_partition(findings.begin(), findings.end(), EndsTheRun);
  const auto first = findings.begin() + (FirstChange(findings, BoundOf(facts)) - findings.cbegin());
  if (first != findings.end() && first > fatal_end) std::rotate(fatal_end, first, first + 1);
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

bool FromString(std::string_view name, Severity& severity) {
  using enum Severity;
  return table::FindByName(name, {kInfo, kWarning, kCritical}, severity);
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

bool FromString(std::string_view name, Confidence& confidence) {
  using enum Confidence;
  return table::FindByName(name, {kLow, kMedium, kHigh}, confidence);
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

bool FromString(std::string_view name, FindingUnit& unit) {
  using enum FindingUnit;
  return table::FindByName(name, {kShare, kNs, kBytes, kCount, kRatio}, unit);
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

bool FromString(std::string_view name, EvidenceKind& kind) {
  using enum EvidenceKind;
  return table::FindByName(
      name, {kStep, kOp, kKernel, kCopy, kCall, kGap, kCollective, kMemory, kCode, kCheck, kRank},
      kind);
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
    case BoundBy::kSynchronization:
      return "synchronization";
    case BoundBy::kAllocation:
      return "allocation";
    case BoundBy::kStartUp:
      return "start_up";
    case BoundBy::kCompilation:
      return "compilation";
    case BoundBy::kProfiler:
      return "profiler";
    case BoundBy::kHostWork:
      return "host_work";
    case BoundBy::kApiCalls:
      return "api_calls";
    case BoundBy::kLateStart:
      return "late_start";
    case BoundBy::kOtherGpus:
      return "other_gpus";
    case BoundBy::kCpuOnly:
      return "cpu_only";
  }
  return "unknown";
}

bool FromString(std::string_view name, BoundBy& bound) {
  using enum BoundBy;
  return table::FindByName(
      name,
      {kUnknown, kHost, kCompute, kCommunication, kInput, kCopies, kSynchronization, kAllocation,
       kStartUp, kCompilation, kProfiler, kHostWork, kApiCalls, kLateStart, kOtherGpus, kCpuOnly},
      bound);
}

absl::StatusOr<FindingsReport> SummarizeFindings(store::CaptureReader& reader,
                                                 const FindingThresholds& thresholds,
                                                 const RankComparison* ranks) {
  ASSIGN_OR_RETURN(Facts facts, GatherFacts(reader, thresholds));
  facts.ranks = ranks;
  FindingsReport report;
  for (const Rule& rule : Rules()) Look(rule, facts, thresholds, report);
  OrderFindings(facts, report.findings);
  report.quality = facts.quality;
  report.step_count = facts.scope.has_steps ? facts.scope.count : 0;
  report.mean_step_ns = facts.scope.mean_ns;
  report.steps_of_gpu = facts.scope.by_device;
  if (facts.has_gpu()) {
    report.idle_ns = facts.sum.idle_ns;
    report.gap_count = facts.sum.gap_count;
  }
  if (facts.unrecorded.known) {
    report.unrecorded_step_ns = facts.unrecorded.step_ns;
    report.unrecorded_idle_ns = facts.unrecorded.idle_ns;
  }
  report.bound = BoundOf(facts);
  if (report.bound == BoundBy::kCompute) {
    RETURN_IF_ERROR(DescribeHottest(reader, facts.kernels));
  } else if (report.bound == BoundBy::kCpuOnly) {
    RETURN_IF_ERROR(DescribeHottestOnHost(reader, facts.host));
  }
  report.verdict = WriteVerdict(facts, thresholds, report);
  return report;
}

}  // namespace profd::report
