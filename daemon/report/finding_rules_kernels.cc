#include <algorithm>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/report/finding_rule_list.h"

namespace profd::report {
namespace {

constexpr std::string_view kNeedsKernels = "kernels";
constexpr int64_t kFirstTensorCores = 7;  // Compute capability.
// With AMP matrix products take half the time or less; the rest of such an operator does not.
constexpr double kTensorCoreSaving = 0.5;
// Fused, a run of kernels reads and writes memory once; some results have to be kept.
constexpr double kFusionSaving = 0.5;
constexpr double kAlikeShare = 0.8;  // Of the steps.
constexpr double kTinyIdleShare = 0.01;

double ShareOfKernels(const Facts& facts, int64_t ns) {
  return facts.kernels.total_ns <= 0
             ? 0
             : static_cast<double>(ns) / static_cast<double>(facts.kernels.total_ns);
}

// Kernels overlap, so that what they save is no more than the device was busy.
int64_t PerStepAtMostBusy(const Facts& facts, double ns) {
  return facts.PerStep(
      static_cast<int64_t>(std::min(ns, static_cast<double>(facts.sum.compute_ns))));
}

// What is less than a hundredth of a step is nobody's concern.
bool IsWorthwhile(const Facts& facts, int64_t ns) {
  return facts.ShareOfSteps(std::min(ns, facts.sum.compute_ns)) >= 0.01;
}

}  // namespace

RuleResult TensorCoresUnused(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  const GpuDevice* device = facts.device();
  if (device == nullptr || device->compute_major == 0) {
    return Needs("the GPU's compute capability");
  }
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = ShareOfKernels(facts, facts.kernels.eligible_ns);
  finding.threshold = thresholds.tensor_core_share;
  result.fired = device->compute_major >= kFirstTensorCores &&
                 facts.kernels.eligible_tensor_ns == 0 && finding.value > finding.threshold &&
                 IsWorthwhile(facts, facts.kernels.eligible_ns);
  finding.measured =
      StrCat("Matrix products, convolutions and attention take ", PercentText(finding.value),
             " of kernel time, and none of it ran on tensor cores as far as kernels' names tell.");
  finding.advice =
      "Use bfloat16 or float16 (torch.autocast), or let float32 products use TF32: "
      "torch.set_float32_matmul_precision(\"high\"). Sizes that are multiples of 8 help.";
  finding.evidence = facts.kernels.eligible_ops;
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "told by kernels' names; the saving assumes half of their time";
  SetDeviceSaving(
      facts,
      PerStepAtMostBusy(facts, kTensorCoreSaving * static_cast<double>(facts.kernels.eligible_ns)),
      finding);
  return result;
}

RuleResult SmallKernels(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  const LaunchStatistics& launches = facts.time.launches;
  if (launches.count == 0) return Needs("calls that launch work (profctl trace --gpu default)");
  RuleResult result;
  Finding& finding = result.finding;
  finding.value =
      static_cast<double>(launches.shorter_than_call_count) / static_cast<double>(launches.count);
  finding.threshold = thresholds.launch_bound_share;
  const int64_t idle_ns = facts.gaps.closable_ns;
  // Where the GPU has no idle time between launches, short kernels cost nothing.
  result.fired = finding.value > finding.threshold &&
                 static_cast<double>(facts.kernels.median_ns) < thresholds.small_kernel_ns &&
                 launches.call_ns >= launches.device_ns / 2 &&
                 facts.ShareOfSteps(idle_ns) > thresholds.launch_idle_share;
  finding.measured = StrCat("Half of the kernels take less than ",
                            TimeText(facts.kernels.median_ns), "; ", PercentText(finding.value),
                            " of launches take the host longer than their work takes "
                            "the GPU, which is idle between them for ",
                            TimeText(facts.PerStep(idle_ns)), " a step.");
  finding.advice =
      "Do more per launch: torch.compile (mode=\"reduce-overhead\"), CUDA graphs, fused or foreach "
      "optimizers, larger batches.";
  finding.evidence = LateLaunchers(facts);
  finding.saving_ns_per_step = facts.PerStep(idle_ns);
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "the saving is the idle time between such launches, at most";
  return result;
}

RuleResult TinyKernelsOfOp(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  if (facts.calls.call_count == 0) {
    return Needs("calls of the CUDA API (profctl trace --gpu default)");
  }
  RuleResult result;
  Finding& finding = result.finding;
  finding.unit = FindingUnit::kCount;
  finding.value = facts.kernels.most_per_call;
  finding.threshold = thresholds.kernels_per_call;
  result.fired = !facts.kernels.tiny_ops.empty() &&
                 facts.ShareOfSteps(facts.kernels.tiny_idle_ns) > kTinyIdleShare;
  if (result.fired) {
    const std::string& op = facts.kernels.tiny_ops.front().name;
    finding.measured =
        StrCat("One call of ", op,
               " launches many small kernels: ", facts.kernels.tiny_ops.front().detail, ".");
    finding.advice =
        op.starts_with("Optimizer.")
            ? "Let the optimizer work on many tensors at once: fused=True or foreach=True."
            : "Replace it by an operator that does it in one kernel, or compile the code around "
              "it.";
  }
  finding.evidence = facts.kernels.tiny_ops;
  finding.saving_ns_per_step = facts.PerStep(facts.kernels.tiny_idle_ns);
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "the saving is the idle time before these kernels, at most";
  return result;
}

RuleResult CudaGraph(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  if (!facts.scope.has_steps || facts.scope.count < 2) {
    return Needs("two steps or more, to see whether they repeat the same kernels");
  }
  if (facts.calls.call_count == 0) {
    return Needs("calls of the CUDA API (profctl trace --gpu default)");
  }
  const int64_t ns = facts.gaps.closable_ns;
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = facts.ShareOfSteps(ns);
  finding.threshold = thresholds.cuda_graph_share;
  const bool alike =
      facts.kernels.alike_steps >= 2 && static_cast<double>(facts.kernels.alike_steps) >=
                                            kAlikeShare * static_cast<double>(facts.scope.count);
  result.fired = finding.value > finding.threshold && alike && facts.kernels.graph_count == 0;
  finding.measured =
      StrCat(facts.kernels.alike_steps, " of ", facts.scope.count,
             " steps launch the same kernels with the same grids, and the GPU is "
             "idle between them for ",
             TimeText(facts.PerStep(ns)), " a step (", PercentText(finding.value), ").");
  finding.advice =
      "Record the step once and replay it: torch.cuda.graphs, torch.cuda.make_graphed_callables or "
      "torch.compile(mode=\"reduce-overhead\"). What waits for the GPU has to leave the step "
      "first.";
  finding.evidence = LateLaunchers(facts);
  finding.saving_ns_per_step = facts.PerStep(ns);
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "gaps behind waits, in data loading and above 1 ms are not counted";
  return result;
}

RuleResult MissingFusion(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = ShareOfKernels(facts, facts.kernels.fusible_ns);
  finding.threshold = thresholds.fusible_share;
  result.fired = finding.value > finding.threshold && IsWorthwhile(facts, facts.kernels.fusible_ns);
  finding.measured =
      StrCat("Elementwise kernels that follow each other take ", PercentText(finding.value),
             " of kernel time beyond the longest of each run.");
  finding.advice =
      "Fuse them: torch.compile, or fused implementations of activation, dropout, norm and "
      "optimizer.";
  finding.evidence = facts.kernels.fusible;
  finding.confidence = Confidence::kLow;
  finding.confidence_reason = "the saving assumes that half of it goes";
  SetDeviceSaving(
      facts,
      PerStepAtMostBusy(facts, kFusionSaving * static_cast<double>(facts.kernels.fusible_ns)),
      finding);
  return result;
}

RuleResult LowWaves(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  if (!facts.kernels.knows_device) return Needs("the GPU's number of multiprocessors");
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = ShareOfKernels(facts, facts.kernels.low_wave_ns);
  finding.threshold = thresholds.wave_share;
  result.fired =
      finding.value > finding.threshold && IsWorthwhile(facts, facts.kernels.low_wave_ns);
  finding.measured =
      StrCat("Kernels whose blocks fill less than ", PercentText(thresholds.wave_efficiency),
             " of the GPU take ", PercentText(finding.value), " of kernel time.");
  finding.advice =
      "Give each kernel more to do: larger batches or longer sequences, split-K variants of matrix "
      "products, or several streams side by side.";
  finding.evidence = facts.kernels.low_waves;
  finding.confidence = Confidence::kLow;
  finding.confidence_reason = "estimated from grids; the saving is what full waves would save";
  SetDeviceSaving(facts,
                  PerStepAtMostBusy(facts, static_cast<double>(facts.kernels.low_wave_lost_ns)),
                  finding);
  return result;
}

RuleResult GraphBreaks(const Facts& facts, const FindingThresholds&) {
  const CompileReport& compile = facts.time.compile;
  if (!compile.has_compiled) return Needs("code of torch.compile");
  RuleResult result;
  Finding& finding = result.finding;
  int64_t after_breaks = 0;
  for (const CompileStepRow& row : compile.steps) after_breaks += row.after_breaks;
  finding.unit = FindingUnit::kCount;
  finding.value = static_cast<double>(after_breaks);
  finding.threshold = 0;
  result.fired = after_breaks > 0 || !compile.graph_breaks.empty();
  finding.measured = StrCat(
      CountText(after_breaks, "compiled region"), " ran behind a graph break, ",
      CountText(static_cast<int64_t>(compile.graph_breaks.size()), "place"), " told of one.");
  finding.advice =
      "Remove what Dynamo cannot trace (print, .item(), data-dependent branches, unsupported "
      "calls); `profctl compile` lists where and why, torch.compile(fullgraph=True) refuses them.";
  for (const GraphBreakRow& row : compile.graph_breaks) {
    if (finding.evidence.size() == kMostEvidence) break;
    Evidence evidence;
    evidence.kind = EvidenceKind::kCode;
    evidence.name = row.where;
    evidence.detail = row.reason;
    evidence.count = row.count;
    finding.evidence.push_back(std::move(evidence));
  }
  finding.confidence = Confidence::kHigh;
  finding.confidence_reason = "torch itself tells of them";
  return result;
}

RuleResult Recompiles(const Facts& facts, const FindingThresholds& thresholds) {
  const CompileReport& compile = facts.time.compile;
  if (!compile.has_compiled) return Needs("code of torch.compile");
  int64_t ns = 0;
  for (const CompileStepRow& row : compile.steps) {
    const auto counts = [&](const FindingScope::Stretch& at) { return at.step == row.step; };
    // Compiling takes milliseconds at least: these are few.
    if (row.compile_ns > 0 &&
        std::any_of(facts.scope.stretches.begin(), facts.scope.stretches.end(), counts)) {
      ns += row.compile_ns;
    }
  }
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = facts.ShareOfSteps(ns);
  finding.threshold = thresholds.compile_share;
  result.fired = finding.value > finding.threshold;
  finding.saving_ns_per_step = facts.PerStep(ns);
  finding.measured = StrCat("Compiling takes ", TimeText(facts.PerStep(ns)), " a step (",
                            PercentText(finding.value), ") in steps that should not compile.");
  finding.advice =
      "Keep shapes and types steady, or mark what changes: torch._dynamo.mark_dynamic, "
      "torch.compile(dynamic=True). `profctl compile` has each recompilation's reason.";
  for (const RecompileRow& row : compile.recompiles) {
    if (finding.evidence.size() == kMostEvidence) break;
    Evidence evidence;
    evidence.kind = EvidenceKind::kCode;
    evidence.name = row.where;
    evidence.detail = row.reason;
    evidence.count = row.count;
    evidence.duration_ns = row.compile_ns;
    finding.evidence.push_back(std::move(evidence));
  }
  finding.confidence = Confidence::kHigh;
  finding.confidence_reason = "measured";
  return result;
}

}  // namespace profd::report
