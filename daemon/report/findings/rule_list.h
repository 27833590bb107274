// All rules, each with its condition in a line; rules.cc has their table. Shares are of the steps
// that count (facts.h); thresholds are in thresholds.h.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_RULE_LIST_H_
#define PROFD_DAEMON_REPORT_FINDINGS_RULE_LIST_H_

#include "daemon/report/findings/rules.h"

namespace profd::report {

// ---- where the time goes (rules_time.cc) ----
RuleResult InputBound(const Facts&, const FindingThresholds&);    // waits for data, GPU idle
RuleResult CommExposed(const Facts&, const FindingThresholds&);   // communication not hidden
RuleResult GpuUnderused(const Facts&, const FindingThresholds&);  // busy less than half
RuleResult GpuGap(const Facts&, const FindingThresholds&);        // long gaps
RuleResult IdleHostWait(const Facts&, const FindingThresholds&);  // idle while work is dispatched
RuleResult SlowLaunchCalls(const Facts&, const FindingThresholds&);  // idle in launch calls
RuleResult HostWork(const Facts&, const FindingThresholds&);         // idle in other host work
RuleResult SlowApiCalls(const Facts&, const FindingThresholds&);     // idle in other calls
RuleResult LateStart(const Facts&, const FindingThresholds&);        // idle long after the launch
RuleResult IdleKernelWait(const Facts&, const FindingThresholds&);
RuleResult IdleOther(const Facts&, const FindingThresholds&);
RuleResult SyncApi(const Facts&, const FindingThresholds&);         // idle after waits
RuleResult StepOutlier(const Facts&, const FindingThresholds&);     // single slow steps
RuleResult WarmupIncluded(const Facts&, const FindingThresholds&);  // a first step that warmed up
RuleResult DataParallel(const Facts&, const FindingThresholds&);    // torch.nn.DataParallel
RuleResult AnomalyMode(const Facts&, const FindingThresholds&);     // autograd's, left on
RuleResult CommBackend(const Facts&, const FindingThresholds&);     // gloo with a GPU

// ---- what the host does (rules_host.cc) ----
RuleResult HostBound(const Facts&, const FindingThresholds&);      // host time outside operators
RuleResult CpuContention(const Facts&, const FindingThresholds&);  // ready, but without a CPU

// ---- ranks (rules_ranks.cc) ----
RuleResult StragglerRank(const Facts&, const FindingThresholds&);  // more own work than the others

// ---- copies (rules_copies.cc) ----
RuleResult CopyExposed(const Facts&, const FindingThresholds&);
RuleResult MemcpyPageable(const Facts&, const FindingThresholds&);
RuleResult MemcpyBlocking(const Facts&, const FindingThresholds&);
RuleResult LinkSlow(const Facts&, const FindingThresholds&);

// ---- kernels (rules_kernels.cc) ----
RuleResult TensorCoresUnused(const Facts&, const FindingThresholds&);
RuleResult SmallKernels(const Facts&, const FindingThresholds&);
RuleResult TinyKernelsOfOp(const Facts&, const FindingThresholds&);
RuleResult CudaGraph(const Facts&, const FindingThresholds&);
RuleResult MissingFusion(const Facts&, const FindingThresholds&);
RuleResult UnfusedAttention(const Facts&, const FindingThresholds&);
RuleResult LowWaves(const Facts&, const FindingThresholds&);
RuleResult Casts(const Facts&, const FindingThresholds&);  // conversions of dtype (casts.cc)

// ---- torch.compile (rules_compile.cc) ----
RuleResult GraphBreaks(const Facts&, const FindingThresholds&);
RuleResult Recompiles(const Facts&, const FindingThresholds&);
RuleResult RecompileLimit(const Facts&, const FindingThresholds&);  // looked up, but never run

// ---- memory (rules_memory.cc) ----
RuleResult OutOfMemorySeen(const Facts&, const FindingThresholds&);
RuleResult MemNearLimit(const Facts&, const FindingThresholds&);
RuleResult MemFragmentation(const Facts&, const FindingThresholds&);
RuleResult MemLeak(const Facts&, const FindingThresholds&);
RuleResult StartUp(const Facts& facts, const FindingThresholds& thresholds);
RuleResult AllocationChurn(const Facts&, const FindingThresholds&);

// ---- quality (rules_quality.cc) ----
RuleResult QualityLoss(const Facts&, const FindingThresholds&);
RuleResult QualityOrphans(const Facts&, const FindingThresholds&);
RuleResult QualitySilentLaunches(const Facts&, const FindingThresholds&);
RuleResult QualityInversions(const Facts&, const FindingThresholds&);
RuleResult QualityTimes(const Facts&, const FindingThresholds&);
RuleResult QualityCoverage(const Facts&, const FindingThresholds&);
RuleResult QualityTruncation(const Facts&, const FindingThresholds&);
RuleResult QualityUnended(const Facts&, const FindingThresholds&);
RuleResult QualityClock(const Facts&, const FindingThresholds&);
RuleResult QualityPerturbation(const Facts&, const FindingThresholds&);
RuleResult QualityWindow(const Facts&, const FindingThresholds&);  // slow steps are outside of it

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_RULE_LIST_H_
