#include "daemon/report/findings/rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/rule_list.h"

namespace profd::report {
namespace {

constexpr std::array kRules = {
    Rule{"INPUT_BOUND", "The program waits for data", true, &InputBound},
    Rule{"COMM_EXPOSED", "Communication is not overlapped by compute", true, &CommExposed, true},
    Rule{"GPU_UNDERUSED", "The GPU is idle most of the time", true, &GpuUnderused, true, true},
    Rule{"GPU_GAP", "The GPU has long gaps", true, &GpuGap, true, true},
    Rule{"IDLE_HOST_WAIT", "The GPU waits for kernel launches", true, &IdleHostWait, true, true},
    Rule{"START_UP", "The program starts up in the capture", true, &StartUp, true, true},
    Rule{"SLOW_LAUNCH_CALLS", "Launch calls take long", true, &SlowLaunchCalls, true, true},
    Rule{"HOST_WORK", "Work on the host keeps the GPU waiting", true, &HostWork, true, true},
    Rule{"SLOW_API_CALLS", "Calls of the CUDA API take long", true, &SlowApiCalls, true, true},
    Rule{"LATE_START", "Launched work does not start", true, &LateStart, true},
    Rule{"IDLE_KERNEL_WAIT", "Short gaps between kernels add up", true, &IdleKernelWait, true,
         true},
    Rule{"IDLE_OTHER", "The GPU is idle for other reasons", true, &IdleOther, true, true},
    Rule{"HOST_BOUND", "The host is busy or waits outside operators", true, &HostBound, true, true},
    Rule{"CPU_CONTENTION", "The program waits for a CPU", false, &CpuContention},
    Rule{"SYNC_API", "Synchronization leaves the GPU idle", true, &SyncApi, true, true},
    Rule{"COPY_EXPOSED", "Copies are not overlapped by kernels", true, &CopyExposed, true},
    Rule{"MEMCPY_PAGEABLE_ASYNC", "Copies use pageable memory", true, &MemcpyPageable, true},
    Rule{"MEMCPY_SYNC", "The program waits for copies", true, &MemcpyBlocking, true},
    Rule{"H2D_BW_LOW", "Copies are slower than the link", false, &LinkSlow, true},
    Rule{"TC_UNUSED", "Tensor cores are not used", true, &TensorCoresUnused, true},
    Rule{"SMALL_KERNELS", "Launching takes longer than the kernels", true, &SmallKernels, true,
         true},
    Rule{"TINY_KERNELS_OF_OP", "One operator launches many small kernels", false, &TinyKernelsOfOp,
         true, true},
    Rule{"CUDA_GRAPH", "CUDA graphs would help", true, &CudaGraph, true, true},
    Rule{"UNFUSED_ATTENTION", "Attention is not fused", true, &UnfusedAttention, true},
    Rule{"MISSING_FUSION", "Elementwise kernels could be fused", true, &MissingFusion, true},
    Rule{"CASTS", "Tensors are converted between types all the time", true, &Casts},
    Rule{"LOW_WAVES", "Kernels do not fill the GPU", true, &LowWaves, true},
    Rule{"GRAPH_BREAKS", "torch.compile breaks graphs", false, &GraphBreaks},
    Rule{"RECOMPILES", "Steps wait for recompilation", true, &Recompiles},
    Rule{"RECOMPILE_LIMIT", "Compiled code is looked up, but does not run", false, &RecompileLimit},
    Rule{"STEP_OUTLIER", "Some steps are much slower than the others", false, &StepOutlier},
    Rule{"WARMUP_INCLUDED", "The first step includes warm-up", false, &WarmupIncluded},
    Rule{"STRAGGLER_RANK", "One rank slows the others down", false, &StragglerRank},
    Rule{"ANOMALY_MODE", "Anomaly detection of autograd is on", false, &AnomalyMode},
    Rule{"DATA_PARALLEL", "DataParallel uses one process for several GPUs", false, &DataParallel,
         true},
    Rule{"COMM_BACKEND", "Collectives run on the host", true, &CommBackend, true},
    Rule{"OUT_OF_MEMORY", "An allocation failed", false, &OutOfMemorySeen},
    Rule{"MEM_NEAR_LIMIT", "Memory is almost full", false, &MemNearLimit},
    Rule{"MEM_FRAG", "Much reserved memory is unused", false, &MemFragmentation},
    Rule{"MEM_LEAK", "Memory grows with every step", false, &MemLeak},
    Rule{"ALLOC_CHURN", "The program waits for memory allocation", true, &AllocationChurn, true,
         true},
    Rule{"QUALITY_LOSS", "Events were lost", false, &QualityLoss},
    Rule{"QUALITY_ORPHANS", "GPU work without its launch", false, &QualityOrphans},
    Rule{"QUALITY_SILENT_LAUNCHES", "Launches without GPU work", false, &QualitySilentLaunches},
    Rule{"QUALITY_INVERSIONS", "GPU and host times disagree", false, &QualityInversions},
    Rule{"QUALITY_TIMES", "GPU work or calls have impossible times", false, &QualityTimes},
    Rule{"QUALITY_COVERAGE", "The capture covers less than requested", false, &QualityCoverage},
    Rule{"QUALITY_TRUNCATION", "The window cuts ranges off", false, &QualityTruncation},
    Rule{"QUALITY_UNENDED", "Ranges never ended", false, &QualityUnended},
    Rule{"QUALITY_CLOCK", "The clock error is large", false, &QualityClock},
    Rule{"QUALITY_PERTURBATION", "Recording slowed the program down", false, &QualityPerturbation},
    Rule{"QUALITY_WINDOW", "Slower steps ran outside the capture", false, &QualityWindow},
};

// Of a step.
constexpr double kCriticalShare = 0.25;
constexpr double kWarningShare = 0.05;
// Faster kernels do not help a device that waits for the program longer than this.
constexpr double kHostBoundShare = 0.30;
// The same, where it is known how long the program waits for the device: each time the device has
// nothing to do, it has caught up, and faster kernels would have had it wait for longer.
constexpr double kPacedByHostShare = 0.05;

Evidence OpEvidence(const LaunchingOpRow& row) {
  Evidence evidence;
  evidence.kind = EvidenceKind::kOp;
  evidence.name = row.name.empty() ? "(no range)" : row.name;
  evidence.detail = StrCat(row.launch_count, " launches: host ", TimeText(row.call_ns), ", GPU ",
                           TimeText(row.device_ns));
  evidence.count = row.launch_count;
  evidence.duration_ns = row.host_wait_ns;
  return evidence;
}

}  // namespace

RuleResult Needs(std::string what) {
  RuleResult result;
  result.needs = std::move(what);
  return result;
}

std::span<const Rule> Rules() { return kRules; }

bool IsRule(std::string_view id) {
  return std::any_of(kRules.begin(), kRules.end(), [&](const Rule& rule) { return rule.id == id; });
}

bool IsSymptom(std::string_view id) {
  return id == "GPU_UNDERUSED" || id == "IDLE_OTHER" || id == "GPU_GAP";
}

bool EndsTheRun(const Finding& finding) {
  return (finding.rule == "OUT_OF_MEMORY" || finding.rule == "MEM_LEAK") &&
         finding.confidence > Confidence::kLow;
}

bool IsDebugMode(const Finding& finding) { return finding.rule == "ANOMALY_MODE"; }

std::vector<std::string_view> RuleIds() {
  std::vector<std::string_view> ids;
  ids.reserve(kRules.size());
  for (const Rule& rule : kRules) ids.push_back(rule.id);
  return ids;
}

Severity SeverityOfShare(double share) {
  if (share >= kCriticalShare) return Severity::kCritical;
  return share >= kWarningShare ? Severity::kWarning : Severity::kInfo;
}

void SetDeviceSaving(const Facts& facts, int64_t ns_per_step, Finding& finding) {
  double waiting = facts.ShareOfSteps(facts.gaps.parts.before_launch_ns());
  if (facts.unrecorded.known) waiting = std::min(waiting, facts.unrecorded.IdleShare());
  const bool knows_host = facts.host.needs.empty();
  if (waiting >= (knows_host ? kPacedByHostShare : kHostBoundShare)) {
    // A program that in turn waits for the GPU gets its results earlier.
    const int64_t waited_ns = knows_host ? facts.PerStep(facts.host.split.gpu_wait_ns) : 0;
    finding.saving_ns_per_step =
        std::clamp<int64_t>(ns_per_step, 0, std::max<int64_t>(waited_ns, 0));
    if (finding.saving_ns_per_step < ns_per_step) {
      StrAppend(&finding.measured,
                finding.saving_ns_per_step == 0
                    ? " Fixing it saves little while the GPU waits for the program."
                    : " Fixing it saves no more than what the program waits for the GPU: the rest "
                      "of the time, the GPU waits for the program.");
    }
    return;
  }
  finding.saving_ns_per_step = std::max<int64_t>(ns_per_step, 0);
}

bool CapByFreeCompute(const Facts& facts, int64_t exposed_ns, int64_t hidden_ns, Finding& finding) {
  const int64_t free_ns = std::max<int64_t>(facts.sum.compute_ns - hidden_ns, 0);
  finding.saving_ns_per_step = facts.PerStep(std::min(exposed_ns, free_ns));
  finding.severity = SeverityOfShare(facts.ShareOfSteps(exposed_ns));
  if (2 * free_ns >= exposed_ns) return true;
  StrAppend(&finding.measured, " Overlapping can save at most ",
            TimeText(finding.saving_ns_per_step), facts.scope.has_steps ? " a step" : "",
            ": no more compute is left to overlap with.");
  return false;
}

std::vector<Evidence> LateLaunchers(const Facts& facts) {
  // What is counted, which is less than all of the time before late launches.
  std::vector<LaunchingOpRow> ops;
  for (const LaunchingOpRow& row : facts.time.launching_ops) {
    const auto found = facts.gaps.dispatch_by_op.find(row.name);
    if (found == facts.gaps.dispatch_by_op.end()) continue;
    ops.push_back(row);
    ops.back().host_wait_ns = found->second;
  }
  const size_t shown = std::min(ops.size(), kMostEvidence);
  std::partial_sort(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(shown), ops.end(),
                    [](const LaunchingOpRow& a, const LaunchingOpRow& b) {
                      return std::tie(b.host_wait_ns, a.name) < std::tie(a.host_wait_ns, b.name);
                    });
  std::vector<Evidence> rows;
  for (size_t i = 0; i < shown; ++i) rows.push_back(OpEvidence(ops[i]));
  return rows;
}

std::string PercentText(double share) { return absl::StrFormat("%.3g%%", 100 * share); }

std::string TimeText(int64_t ns) {
  const auto value = static_cast<double>(ns);
  const double size = std::abs(value);
  if (size < 1e3) return StrCat(ns, " ns");
  // Bounds that %.3g does not round up to 1e+03.
  if (size < 999.5e3) return absl::StrFormat("%.3g us", value / 1e3);
  if (size < 999.5e6) return absl::StrFormat("%.3g ms", value / 1e6);
  if (size < 9999.5e9) return absl::StrFormat("%.4g s", value / 1e9);
  if (size < 2 * 86400e9) return absl::StrFormat("%.3g h", value / 3600e9);
  return absl::StrFormat("%.4g days", value / 86400e9);
}

std::string SizeText(int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? StrCat(bytes, " B") : absl::StrFormat("%.3g %s", value, kUnits[unit]);
}

std::string ValueText(FindingUnit unit, double value) {
  const double whole = std::clamp(value, -9e18, 9e18);
  switch (unit) {
    case FindingUnit::kShare:
      return PercentText(value);
    case FindingUnit::kNs:
      return TimeText(static_cast<int64_t>(whole));
    case FindingUnit::kBytes:
      return SizeText(static_cast<int64_t>(whole));
    case FindingUnit::kCount:
      return absl::StrFormat("%.3g", value);
    case FindingUnit::kRatio:
      return absl::StrFormat("%.3gx", value);
  }
  return {};
}

std::string CountText(int64_t count, std::string_view singular) {
  return StrCat(count, " ", singular, count == 1 ? "" : "s");
}

}  // namespace profd::report
