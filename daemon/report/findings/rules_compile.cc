// Rules about torch.compile: what it leaves out, compiles again, or gave up on.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/rule_list.h"

namespace profd::report {
namespace {

constexpr std::string_view kNeedsCompile = "code compiled by torch.compile";
// Fewer lookups may be one call that was traced anew, or a branch that is rarely taken.
constexpr int64_t kFewestLookups = 3;
constexpr double kNearlyAllCompiled = 0.95;

// Sums over the steps that count; without steps, over the capture.
struct CompileSums {
  int64_t regions = 0;
  int64_t after_breaks = 0;
  int64_t compile_ns = 0;
  int64_t lookups = 0;
  int64_t lookup_ns = 0;
  int64_t unused_lookups = 0;  // No region ran after them.
};

CompileSums SumsOf(const Facts& facts) {
  CompileSums sums;
  absl::flat_hash_set<int64_t> counted;
  for (const FindingScope::Stretch& stretch : facts.scope.stretches) counted.insert(stretch.step);
  for (const CompileStepRow& row : facts.time.compile.steps) {
    if (facts.scope.has_steps && !counted.contains(row.step)) continue;
    sums.regions += row.regions;
    sums.after_breaks += row.after_breaks;
    sums.compile_ns += row.compile_ns;
    sums.lookups += row.cache_lookups;
    sums.lookup_ns += row.cache_lookup_ns;
    // A lookup that finds code, or after which code is compiled, is followed by a region.
    sums.unused_lookups += std::max<int64_t>(row.cache_lookups - row.regions, 0);
  }
  return sums;
}

// Host time that compiled code hardly has: between the operators of a step, or before launches.
int64_t BetweenOperatorsPerStep(const Facts& facts) {
  if (facts.has_gpu()) return facts.PerStep(facts.gaps.dispatch_ns);
  return facts.host.PerUsualStep(facts.host.gaps.short_ns);
}

Evidence CodeEvidence(std::string where, std::string detail, int64_t count) {
  Evidence evidence;
  evidence.kind = EvidenceKind::kCode;
  evidence.name = std::move(where);
  evidence.detail = std::move(detail);
  evidence.count = count;
  return evidence;
}

}  // namespace

RuleResult GraphBreaks(const Facts& facts, const FindingThresholds&) {
  const CompileReport& compile = facts.time.compile;
  if (!compile.has_compiled) return Needs(std::string(kNeedsCompile));
  RuleResult result;
  Finding& finding = result.finding;
  int64_t after_breaks = 0;
  for (const CompileStepRow& row : compile.steps) after_breaks += row.after_breaks;
  finding.unit = FindingUnit::kCount;
  finding.value = static_cast<double>(after_breaks);
  finding.threshold = 0;
  result.fired = after_breaks > 0 || !compile.graph_breaks.empty();
  finding.measured = StrCat(
      CountText(after_breaks, "compiled region"), " ran after a graph break; torch reported ",
      CountText(static_cast<int64_t>(compile.graph_breaks.size()), "location"), ".");
  const CompileSums sums = SumsOf(facts);
  if (sums.after_breaks > 0 && sums.lookups > 0) {
    // The only part of their cost that is certain: each piece needs a lookup of its own.
    finding.saving_ns_per_step =
        facts.PerStep(sums.lookup_ns * sums.after_breaks / std::max(sums.lookups, sums.regions));
    StrAppend(&finding.measured, " Looking up these regions takes ",
              TimeText(finding.saving_ns_per_step), facts.scope.has_steps ? " a step." : ".");
  }
  finding.advice =
      "Remove code that Dynamo cannot trace (print, .item(), data-dependent branches, unsupported "
      "calls). `profctl compile CAPTURE` lists where and why; torch.compile(fullgraph=True) turns "
      "breaks into errors.";
  for (const GraphBreakRow& row : compile.graph_breaks) {
    if (finding.evidence.size() == kMostEvidence) break;
    finding.evidence.push_back(CodeEvidence(row.where, row.reason, row.count));
  }
  finding.confidence = Confidence::kHigh;
  finding.confidence_reason =
      "reported by torch; the saving counts the lookups alone, not what several graphs lose to one";
  return result;
}

RuleResult Recompiles(const Facts& facts, const FindingThresholds& thresholds) {
  const CompileReport& compile = facts.time.compile;
  if (!compile.has_compiled) return Needs(std::string(kNeedsCompile));
  const int64_t ns = SumsOf(facts).compile_ns;
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = facts.ShareOfSteps(ns);
  finding.threshold = thresholds.compile_share;
  result.fired = finding.value > finding.threshold;
  finding.saving_ns_per_step = facts.PerStep(ns);
  finding.measured =
      StrCat("Compilation takes ", TimeText(facts.PerStep(ns)), StepWords(facts), " (",
             PercentText(finding.value), ") in steps that should not compile.");
  finding.advice =
      "Keep shapes and types constant, or mark what changes: torch._dynamo.mark_dynamic, "
      "torch.compile(dynamic=True). `profctl compile CAPTURE` shows the reason of each "
      "recompilation.";
  for (const RecompileRow& row : compile.recompiles) {
    if (finding.evidence.size() == kMostEvidence) break;
    finding.evidence.push_back(CodeEvidence(row.where, row.reason, row.count));
    finding.evidence.back().duration_ns = row.compile_ns;
  }
  finding.confidence = Confidence::kHigh;
  finding.confidence_reason = "measured";
  return result;
}

RuleResult RecompileLimit(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.time.compile.has_compiled) return Needs(std::string(kNeedsCompile));
  const CompileSums sums = SumsOf(facts);
  if (sums.lookups < kFewestLookups) {
    return Needs("lookups of compiled code (TorchDynamo Cache Lookup) in the steps that count");
  }
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = static_cast<double>(sums.unused_lookups) / static_cast<double>(sums.lookups);
  finding.threshold = thresholds.unused_lookup_share;
  result.fired = finding.value > finding.threshold;
  finding.measured = StrCat(
      sums.unused_lookups, " of ", CountText(sums.lookups, "lookup"), " of compiled code (",
      PercentText(finding.value),
      ") found no version that fits, so the code ran without torch.compile. torch compiles "
      "no more versions of a function that reached config.recompile_limit. The lookups take ",
      TimeText(facts.PerStep(sums.lookup_ns)), facts.scope.has_steps ? " a step." : ".");
  finding.advice =
      "Find the value that differs from call to call (TORCH_LOGS=recompiles lists it as the "
      "program starts), and keep it constant, pass it as a tensor, or mark it as dynamic "
      "(torch._dynamo.mark_dynamic, torch.compile(dynamic=True)). Raise "
      "torch._dynamo.config.recompile_limit (before torch 2.6: cache_size_limit) only if a few "
      "more versions cover all values.";
  finding.evidence.push_back(CodeEvidence("TorchDynamo Cache Lookup",
                                          CountText(sums.regions, "compiled region") + " ran",
                                          sums.lookups));
  finding.evidence.back().duration_ns = sums.lookup_ns;
  // Compiled code computes faster, too; by how much cannot be seen.
  finding.saving_ns_per_step = facts.PerStep(sums.lookup_ns) + BetweenOperatorsPerStep(facts);
  finding.severity = Severity::kWarning;
  finding.confidence =
      finding.value >= kNearlyAllCompiled ? Confidence::kHigh : Confidence::kMedium;
  finding.confidence_reason =
      "counted; the saving is the time of the lookups and of the host between operators, and "
      "leaves out that compiled code computes faster";
  return result;
}

}  // namespace profd::report
