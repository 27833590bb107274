#include <algorithm>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/report/findings/advice.h"
#include "daemon/report/findings/contention.h"
#include "daemon/report/findings/optimizers.h"
#include "daemon/report/findings/rule_list.h"

namespace profd::report {
namespace {

constexpr std::string_view kNeedsKernels = "kernels";
constexpr int64_t kFirstTensorCores = 7;  // Compute capability.
// With AMP, matrix products take at most half the time; the rest of such an operator does not.
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

// How many kernels run side by side while any computes, on average.
double SideBySide(const Facts& facts) {
  if (facts.sum.compute_ns <= 0) return 1;
  return std::max(
      1.0, static_cast<double>(facts.kernels.total_ns) / static_cast<double>(facts.sum.compute_ns));
}

// Of a sum over kernels. A kernel that runs beside others saves its share of the time.
int64_t PerStepAtMostBusy(const Facts& facts, double ns) {
  return facts.PerStep(static_cast<int64_t>(
      std::min(ns / SideBySide(facts), static_cast<double>(facts.sum.compute_ns))));
}

// The time in which multiprocessors are left empty, if they are filled evenly by the kernels that
// run side by side.
double LostInLowWaves(const Facts& facts) {
  const auto low_ns = static_cast<double>(facts.kernels.low_wave_ns);
  const double filled_ns = low_ns - static_cast<double>(facts.kernels.low_wave_lost_ns);
  return std::max(0.0, low_ns - SideBySide(facts) * filled_ns);
}

// Less than 1 % of a step is not worth a finding.
bool IsWorthwhile(const Facts& facts, int64_t ns) {
  return facts.ShareOfSteps(std::min(ns, facts.sum.compute_ns)) >= 0.01;
}

// Compute capability 7.x (Volta, Turing) has float16 tensor cores only; bfloat16 and TF32 came with
// 8.0 (CUDA C++ Programming Guide, "Compute Capabilities").
std::string TensorCoreAdvice(const GpuDevice& device) {
  constexpr std::string_view kSizes = " Sizes that are multiples of 8 help.";
  if (device.compute_major < 8) {
    return StrCat("Use float16 with loss scaling (torch.autocast and a GradScaler).", kSizes);
  }
  return StrCat(
      "Use bfloat16 or float16 (torch.autocast), or let float32 products use TF32: "
      "torch.set_float32_matmul_precision(\"high\").",
      kSizes);
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
             " of kernel time. Judging by kernel names, none of it used tensor cores.");
  finding.advice = TensorCoreAdvice(*device);
  finding.evidence = facts.kernels.eligible_ops;
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "judged by kernel names; the saving assumes half of their time";
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
  // Without idle time between launches, short kernels cost nothing.
  result.fired = finding.value > finding.threshold &&
                 static_cast<double>(facts.kernels.median_ns) < thresholds.small_kernel_ns &&
                 launches.call_ns >= launches.device_ns / 2 &&
                 facts.ShareOfSteps(idle_ns) > thresholds.launch_idle_share;
  finding.measured = StrCat("The median kernel takes ", TimeText(facts.kernels.median_ns), ", and ",
                            PercentText(finding.value),
                            " of launch calls take longer than their work on the GPU. The GPU is "
                            "idle between them for ",
                            TimeText(facts.PerStep(idle_ns)), StepWords(facts), ".");
  finding.advice = LaunchAdvice(facts);
  finding.evidence = LateLaunchers(facts);
  finding.saving_ns_per_step = facts.PerStep(idle_ns);
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "the saving is at most the idle time between such launches";
  DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  return result;
}

namespace {

std::string TinyKernelAdvice(std::string_view op) {
  if (op.starts_with("Optimizer.zero_grad")) {
    return "Let gradients be freed instead of written: zero_grad(set_to_none=True).";
  }
  if (!IsOptimizerStep(op)) {
    return "Use an operator that needs one kernel, or compile the code around it.";
  }
  const OptimizerVariants variants = OptimizerVariantsOf(op);
  return variants.has_fused     ? "Update many tensors at once: fused=True or foreach=True."
         : variants.has_foreach ? "Update many tensors at once: foreach=True."
                                : "Compile the step of the optimizer (torch.compile), or use one "
                                  "that updates many tensors at once.";
}

}  // namespace

RuleResult TinyKernelsOfOp(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  if (facts.calls.call_count == 0) {
    return Needs("CUDA API calls (profctl trace --gpu default)");
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
    finding.advice = TinyKernelAdvice(op);
  }
  finding.evidence = facts.kernels.tiny_ops;
  finding.saving_ns_per_step = facts.PerStep(facts.kernels.tiny_idle_ns);
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "the saving is at most the idle time before these kernels";
  DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  return result;
}

RuleResult CudaGraph(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  if (!facts.scope.has_steps || facts.scope.count < 2) {
    return Needs("two steps or more, to see whether they repeat the same kernels");
  }
  if (facts.calls.call_count == 0) {
    return Needs("CUDA API calls (profctl trace --gpu default)");
  }
  const int64_t ns = facts.gaps.closable_ns;
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = facts.ShareOfSteps(ns);
  finding.threshold = thresholds.cuda_graph_share;
  const bool alike =
      facts.kernels.alike_steps >= 2 && static_cast<double>(facts.kernels.alike_steps) >=
                                            kAlikeShare * static_cast<double>(facts.scope.count);
  // A graph holds no call that waits: what is said of late launches names these first.
  result.fired = finding.value > finding.threshold && alike && facts.kernels.graph_count == 0 &&
                 facts.events.graph_launch_count == 0 && WaitsInStep(facts).empty();
  finding.measured = StrCat(
      facts.kernels.alike_steps, " of ", facts.scope.count,
      " steps launch the same kernels with the same grids. The GPU is idle between them for ",
      TimeText(facts.PerStep(ns)), StepWords(facts), " (", PercentText(finding.value), ").");
  finding.advice = GraphAdvice(facts);
  finding.evidence = LateLaunchers(facts);
  finding.saving_ns_per_step = facts.PerStep(ns);
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "gaps after waits, in data loading, or above 1 ms are not counted";
  DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  return result;
}

RuleResult MissingFusion(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = ShareOfKernels(facts, facts.kernels.fusible_ns);
  finding.threshold = thresholds.fusible_share;
  result.fired = finding.value > finding.threshold && IsWorthwhile(facts, facts.kernels.fusible_ns);
  finding.measured = StrCat(
      "In runs of consecutive elementwise kernels, all but the longest kernel of each run take ",
      PercentText(finding.value), " of kernel time.");
  finding.advice = FusionAdvice(facts);
  finding.evidence = facts.kernels.fusible;
  finding.confidence = Confidence::kLow;
  finding.confidence_reason = "the saving assumes that half of that time goes away";
  SetDeviceSaving(
      facts,
      PerStepAtMostBusy(facts, kFusionSaving * static_cast<double>(facts.kernels.fusible_ns)),
      finding);
  return result;
}

RuleResult UnfusedAttention(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  const int64_t ns = facts.kernels.attention_ns;
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = ShareOfKernels(facts, ns);
  finding.threshold = thresholds.attention_share;
  result.fired = finding.value > finding.threshold && IsWorthwhile(facts, ns);
  finding.measured = StrCat("Between two batched matrix products, ", facts.kernels.attention_count,
                            facts.kernels.attention_count == 1 ? " softmax" : " softmaxes",
                            " with scaling, masks, and casts, and the backward passes of the "
                            "softmaxes, take ",
                            PercentText(finding.value), " of kernel time.");
  finding.advice =
      "Call torch.nn.functional.scaled_dot_product_attention (in Transformers: "
      "attn_implementation=\"sdpa\"): one kernel does all of it, and the scores need no memory.";
  finding.evidence = facts.kernels.attention;
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason =
      "the saving is the time of these kernels; the products may change as well";
  SetDeviceSaving(facts, PerStepAtMostBusy(facts, static_cast<double>(ns)), finding);
  return result;
}

RuleResult LowWaves(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.kernels.count == 0) return Needs(std::string(kNeedsKernels));
  if (!facts.kernels.knows_device) return Needs("the GPU's number of multiprocessors");
  if (2 * facts.kernels.unknown_wave_ns > facts.kernels.total_ns) {
    return Needs("the grids of kernels, which are unknown for more than half of kernel time");
  }
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = ShareOfKernels(facts, facts.kernels.low_wave_ns);
  finding.threshold = thresholds.wave_share;
  result.fired = finding.value > finding.threshold &&
                 IsWorthwhile(facts, static_cast<int64_t>(LostInLowWaves(facts)));
  finding.measured =
      StrCat("Kernels whose blocks fill less than ", PercentText(thresholds.wave_efficiency),
             " of the GPU take ", PercentText(finding.value), " of kernel time.");
  finding.advice =
      "Give each kernel more work: larger batches or longer sequences, split-K GEMMs, or several "
      "streams in parallel.";
  finding.evidence = facts.kernels.low_waves;
  finding.confidence = Confidence::kLow;
  finding.confidence_reason = "estimated from grid sizes; the saving assumes full waves";
  SetDeviceSaving(facts, PerStepAtMostBusy(facts, LostInLowWaves(facts)), finding);
  return result;
}

}  // namespace profd::report
