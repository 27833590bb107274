#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/advice.h"
#include "daemon/report/findings/contention.h"
#include "daemon/report/findings/rule_list.h"
#include "daemon/report/findings/rule_parts.h"

namespace profd::report {
namespace {

constexpr size_t kMostCausesInText = 3;
// Smaller collectives are bound by latency.
constexpr int64_t kTellingCollectiveBytes = 1 << 20;
// Four lanes of PCIe 4; NVLink has 50 times as much.
constexpr double kSlowBusGbPerS = 8;
// A single slow step that costs less than this share of all steps may be chance.
constexpr double kChanceShare = 0.05;
// The same with fewer steps than kStepsThatTell.
constexpr double kChanceShareOfFew = 0.10;
constexpr size_t kStepsThatTell = 10;

std::vector<Evidence> IdleSteps(const Facts& facts) {
  std::vector<Evidence> rows;
  for (const TimeStep& step : facts.time.steps) {
    Evidence evidence;
    evidence.kind = EvidenceKind::kStep;
    evidence.name = StrCat("step ", facts.steps.framework.NumberText(step.index));
    evidence.step = step.index;
    evidence.duration_ns = step.device.idle_ns;
    evidence.detail =
        StrCat("busy ", TimeText(step.device.busy_ns), " of ", TimeText(step.duration_ns));
    rows.push_back(std::move(evidence));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Evidence& a, const Evidence& b) {
    return a.duration_ns > b.duration_ns;
  });
  if (rows.size() > kMostEvidence) rows.resize(kMostEvidence);
  return rows;
}

// "Step 6 took 12 ms instead of 10 ms; it has more of: matmul (1.9 ms), ..."
std::string WhySlow(const SlowStep& slow, const FrameworkSteps& framework) {
  std::string text =
      StrCat("Step ", framework.LongText(slow.step), " took ", TimeText(slow.duration_ns),
             "; its neighbors took ", TimeText(slow.usual_ns), ".");
  if (slow.more_inference_ns > 0) {
    StrAppend(&text, " It runs operators without gradients for ", TimeText(slow.more_inference_ns),
              " longer than they do, as evaluations, sampling, and copies of weights do.");
  }
  if (slow.causes.empty()) {
    return StrCat(text, " Nothing that was recorded explains the difference.");
  }
  StrAppend(&text, " It has more of: ");
  for (size_t i = 0; i < std::min(slow.causes.size(), kMostCausesInText); ++i) {
    StrAppend(&text, i == 0 ? "" : ", ", slow.causes[i].name, " (+",
              TimeText(slow.causes[i].duration_ns), ")");
  }
  return text + ".";
}

// Host time outside operators is what the slow step has more of.
bool IsMostlyOutside(const SlowStep& slow) {
  return !slow.causes.empty() && slow.causes.front().kind == EvidenceKind::kStep;
}

// All outliers are steps in which a data loader starts its workers.
bool OnlyEpochStarts(const Facts& facts) {
  const std::vector<bool>& starts = facts.gaps.epoch_starts;
  for (size_t i = 0; i < facts.host.outliers.size(); ++i) {
    if (facts.host.outliers[i] && (i >= starts.size() || !starts[i])) return false;
  }
  return true;
}

std::string OutlierAdvice(const Facts& facts) {
  const SlowStep& slow = facts.slowest;
  const std::string compare =
      StrCat("Compare such a step with its neighbors (`profctl ops CAPTURE --step ",
             slow.step < 0 ? "N" : StrCat(slow.step), "`).");
  constexpr std::string_view kUsualCauses =
      " Usual causes are garbage collection, checkpoints, logging, recompilation, and data "
      "loading.";
  const std::string_view inference =
      slow.more_inference_ns > 0
          ? "They run operators without gradients that their neighbors do not, as evaluations, "
            "sampling, and copies of weights do. Do that less often, on less data, or in another "
            "process. "
          : "";
  if (slow.causes.empty()) return StrCat(inference, compare, kUsualCauses);
  const Evidence& most = slow.causes.front();
  return StrCat("Look at what the slow steps have more of: ", most.name, " (+",
                TimeText(most.duration_ns), " in step ", slow.step,
                slow.longest_gap.empty() || !most.detail.ends_with(slow.longest_gap)
                    ? ""
                    : StrCat("; ", slow.longest_gap),
                "). ", inference, compare,
                !IsMostlyOutside(slow)        ? ""
                : MayWaitForPythonLock(facts) ? StrCat(" ", LongGapAdvice(facts))
                                              : kUsualCauses);
}

// " They come every 10 steps.", or nothing. At equal distances, steps do something that the program
// does so often.
std::string RhythmOf(std::vector<int64_t> steps) {
  std::ranges::sort(steps);
  if (steps.size() < 2) return "";
  const int64_t distance = steps[1] - steps[0];
  for (size_t i = 1; i < steps.size(); ++i) {
    if (distance < 2 || steps[i] - steps[i - 1] != distance) return "";
  }
  return steps.size() == 2 ? StrCat(" They are ", distance, " steps apart.")
                           : StrCat(" They come every ", distance, " steps.");
}

}  // namespace

RuleResult InputBound(const Facts& facts, const FindingThresholds& thresholds) {
  if (facts.time.data_loader.count == 0) {
    return Needs(
        "ranges of a data loader (torch's DataLoader, or ranges named "
        "\"enumerate(DataLoader)#...\")");
  }
  RuleResult result = ShareOfSteps(facts, facts.gaps.loader_wait_ns, thresholds.input_wait_share);
  Finding& finding = result.finding;
  finding.measured =
      StrCat("The program waits for its data loader for ", OfStep(facts, facts.gaps.loader_wait_ns),
             facts.has_gpu() ? " while the GPU is idle." : ".");
  // Workers that are started anew are slow once in an epoch, however many there are.
  if (facts.gaps.epoch_start_count > 0 &&
      2 * facts.gaps.epoch_start_wait_ns >= facts.gaps.loader_wait_ns) {
    StrAppend(&finding.measured, " ",
              PercentText(static_cast<double>(facts.gaps.epoch_start_wait_ns) /
                          static_cast<double>(facts.gaps.loader_wait_ns)),
              " of the wait is in the ",
              CountText(facts.gaps.epoch_start_count, facts.scope.has_steps ? "step" : "wait"),
              " that ", facts.gaps.epoch_start_count == 1 ? "begins" : "begin",
              " an epoch, in which the loader starts its workers again.");
    finding.advice =
        "Keep the workers from epoch to epoch: DataLoader(persistent_workers=True). More workers "
        "do not help: each is started at the start of an epoch. Make what workers do first cheap "
        "(worker_init_fn, imports, opening files), or make epochs longer.";
  } else {
    finding.advice = LoaderAdvice(facts);
  }
  finding.evidence = facts.gaps.loader_waits;
  SetConfidence(facts, Confidence::kHigh, finding);
  // Workers that load data share the CPUs that this thread waits for.
  const int64_t waited_ns = facts.PerStep(facts.gaps.loader_wait_ns);
  DoubtIfWithoutCpu(facts, thresholds, waited_ns, finding, /*burst_can_explain=*/false,
                    UnreportedNs(facts, finding));
  DoubtIfWorkersWithoutCpu(facts, thresholds, waited_ns, finding, UnreportedNs(facts, finding));
  return result;
}

RuleResult CommExposed(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.sum.communication_ns == 0)
    return Needs(
        "kernels that communicate (NCCL, RCCL, symmetric memory, or a library of their own)");
  RuleResult result = ShareOfSteps(facts, facts.sum.exposed_communication_ns,
                                   thresholds.exposed_communication_share);
  Finding& finding = result.finding;
  finding.measured = StrCat("Exposed communication (not overlapped by compute) takes ",
                            OfStep(facts, facts.sum.exposed_communication_ns), "; ",
                            PercentText(std::max(facts.time.overlap, 0.0)),
                            " of all communication is overlapped.");
  // The slowest kind with enough bytes to tell.
  const CollectiveSumRow* slow = nullptr;
  for (const CollectiveSumRow& row : facts.time.collectives) {
    if (!row.on_device || row.bus_gb_per_s <= 0 || row.bytes < kTellingCollectiveBytes) continue;
    if (row.bus_gb_per_s >= kSlowBusGbPerS) continue;
    if (slow == nullptr || row.exposed_ns > slow->exposed_ns) slow = &row;
  }
  if (slow != nullptr) {
    StrAppend(&finding.measured, " The fastest ", ToString(slow->kind), " of ",
              SizeText(slow->bytes), " has a bus bandwidth of ",
              absl::StrFormat("%.3g", slow->bus_gb_per_s),
              " GB/s, far below what links between GPUs reach: the link is slow, or ranks wait for "
              "each other.");
  }
  const bool can_hide = CapByFreeCompute(facts, facts.sum.exposed_communication_ns,
                                         facts.sum.overlapped_communication_ns, finding);
  finding.advice =
      StrCat(CommunicationAdvice(facts, can_hide),
             can_hide ? ""
                      : " Check the link between the ranks (`profctl time CAPTURE` has the "
                        "bandwidth).",
             " Part of it may be waiting for a slower rank: `profctl stragglers GROUP` separates "
             "the two.");
  for (const CollectiveSumRow& row : facts.time.collectives) {
    if (finding.evidence.size() == kMostEvidence) break;
    Evidence evidence;
    evidence.kind = EvidenceKind::kCollective;
    evidence.name = ToString(row.kind);
    if (row.group_size > 0) evidence.detail = StrCat(row.group_size, " ranks");
    evidence.count = row.count;
    evidence.duration_ns = row.exposed_ns;
    evidence.bytes = row.bytes;
    finding.evidence.push_back(std::move(evidence));
  }
  SetConfidence(facts, Confidence::kMedium, finding);
  StrAppend(&finding.confidence_reason, "; one rank cannot distinguish waiting from transfer");
  return result;
}

RuleResult GpuUnderused(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.scope.total_ns <= 0) return Needs(std::string(kNeedsGpu));
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  RuleResult result = ShareOfSteps(facts, facts.sum.busy_ns, thresholds.gpu_busy_share);
  Finding& finding = result.finding;
  // While the profiler itself is at work, the program cannot use the GPU.
  const int64_t profiler_ns = facts.gaps.parts.profiler_ns;
  if (profiler_ns > 0 && profiler_ns < facts.scope.total_ns) {
    finding.value = static_cast<double>(facts.sum.busy_ns) /
                    static_cast<double>(facts.scope.total_ns - profiler_ns);
  }
  result.fired = finding.value < thresholds.gpu_busy_share;
  finding.saving_ns_per_step = facts.PerStep(facts.sum.idle_ns - facts.gaps.parts.profiler_ns -
                                             facts.gaps.parts.other_gpus_ns);
  finding.measured = StrCat("The GPU is busy for ", OfStep(facts, facts.sum.busy_ns), ", idle for ",
                            OfStep(facts, facts.sum.idle_ns), ".");
  finding.advice =
      "Give the GPU more work per step (a larger batch or sequence), or remove what it waits for: "
      "see the findings on idle time, copies, and data loading. The saving is idle time that no "
      "other finding counts, which is an upper bound.";
  finding.evidence = facts.gaps.idlest_parts;
  SetConfidence(facts, Confidence::kHigh, finding);
  return result;
}

RuleResult GpuGap(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  const double p95_share = facts.scope.mean_ns <= 0 ? 0
                                                    : static_cast<double>(facts.gaps.p95_ns) /
                                                          static_cast<double>(facts.scope.mean_ns);
  const bool longest = static_cast<double>(facts.gaps.longest_ns) >= thresholds.gap_shortest_ns;
  RuleResult result;
  // Of a few gaps, the 95th percentile is the longest: they have to matter together, too.
  result.fired = longest || (p95_share > thresholds.gap_p95_share &&
                             facts.ShareOfSteps(facts.gaps.long_ns) > thresholds.gap_p95_share);
  Finding& finding = result.finding;
  finding.unit = longest ? FindingUnit::kNs : FindingUnit::kShare;
  finding.value = longest ? static_cast<double>(facts.gaps.longest_ns) : p95_share;
  finding.threshold = longest ? thresholds.gap_shortest_ns : thresholds.gap_p95_share;
  finding.saving_ns_per_step = facts.PerStep(facts.gaps.long_ns);
  finding.measured =
      StrCat("The GPU has ", CountText(facts.sum.gap_count, "gap"), ": the longest is ",
             TimeText(facts.gaps.longest_ns), ", the 95th percentile ", TimeText(facts.gaps.p95_ns),
             ". Long gaps add up to ", OfStep(facts, facts.gaps.long_ns), ".");
  finding.advice =
      "Look at what the program does before the launches below. Evaluation, logging, checkpoints, "
      "data loading, and waits for other ranks should overlap GPU work instead of running between "
      "launches.";
  finding.evidence = facts.gaps.longest;
  SetConfidence(facts, Confidence::kMedium, finding);
  DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  return result;
}

RuleResult IdleHostWait(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.calls.call_count == 0) return Needs(std::string(kNeedsCalls));
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  const int64_t ns = facts.gaps.dispatch_ns;
  RuleResult result = ShareOfSteps(facts, ns, thresholds.host_wait_share);
  Finding& finding = result.finding;
  finding.measured = StrCat("The GPU idles ", OfStep(facts, ns),
                            " while operators dispatch the next launch: the host is too slow.");
  finding.advice = LaunchAdvice(facts);
  // A launch takes some ten us. Without torch, nothing says what the host does between them.
  constexpr int64_t kLongForALaunchNs = 300'000;
  const int64_t launch_count = std::max<int64_t>(facts.events.launch_count, 1);
  if (KindOf(facts) == ProgramKind::kWithoutTorch && ns / launch_count > kLongForALaunchNs) {
    finding.title = "The host does something else before it launches";
    finding.measured = StrCat("The GPU idles ", OfStep(facts, ns),
                              " before launches, which number ", facts.PerStep(launch_count),
                              " in ", StepWord(facts), ": launching them takes far less.");
    finding.advice =
        "Look at what the launching thread does between its launches: annotate it (profd, NVTX), "
        "or use perf or py-spy.";
  }
  finding.evidence = LateLaunchers(facts);
  SetConfidence(facts, Confidence::kHigh, finding);
  DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  return result;
}

RuleResult LateStart(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.calls.call_count == 0) return Needs(std::string(kNeedsCalls));
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  const int64_t ns = facts.gaps.parts.late_start_ns;
  RuleResult result = ShareOfSteps(facts, ns, thresholds.late_start_share);
  Finding& finding = result.finding;
  finding.measured =
      StrCat("No recorded work runs for ", OfStep(facts, ns),
             " although the next work was launched: the GPU was blocked, or did work that is not "
             "in the capture.");
  finding.advice =
      "Find out what the GPU did: record all kinds of GPU work, look for other processes on this "
      "GPU, and for event waits between streams.";
  finding.evidence = facts.gaps.late_starts;
  SetConfidence(facts, Confidence::kMedium, finding);
  return result;
}

RuleResult IdleKernelWait(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.calls.call_count == 0) return Needs(std::string(kNeedsCalls));
  const int64_t ns = facts.gaps.parts.kernel_wait_ns;
  RuleResult result = ShareOfSteps(facts, ns, thresholds.kernel_wait_share);
  Finding& finding = result.finding;
  finding.measured =
      StrCat("Gaps shorter than 30 us between kernels that were already launched take ",
             OfStep(facts, ns), ".");
  finding.advice =
      ReplaysGraphs(facts)
          ? "Use fewer and longer kernels in the graphs that the program replays: fuse them."
      : KindOf(facts) == ProgramKind::kWithoutTorch
          ? "Use fewer and longer kernels: fuse them, or launch them as one CUDA graph, whose "
            "kernels follow each other within about a microsecond."
          : StrCat("Use fewer and longer kernels: fuse them (torch.compile",
                   FusedOptimizersToo(facts),
                   "), or launch them as one CUDA graph, whose kernels follow each other within "
                   "about a microsecond.");
  finding.evidence = facts.gaps.longest;
  SetConfidence(facts, Confidence::kMedium, finding);
  return result;
}

RuleResult IdleOther(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.calls.call_count == 0) return Needs(std::string(kNeedsCalls));
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  const int64_t ns = facts.gaps.parts.other_ns;
  RuleResult result = ShareOfSteps(facts, ns, thresholds.other_idle_share);
  Finding& finding = result.finding;
  finding.measured = StrCat("The GPU is idle for ", OfStep(facts, ns),
                            ": after the next work had been launched, or before the first and "
                            "after the last GPU work of a step.");
  finding.advice =
      "Check what the host does at the start and end of a step. Between launched work, look for "
      "stream dependencies (event waits), waits for other ranks, and memory operations that stop "
      "the device.";
  finding.evidence = facts.scope.has_steps ? IdleSteps(facts) : facts.gaps.longest;
  SetConfidence(facts, Confidence::kLow, finding);
  return result;
}

RuleResult SyncApi(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu()) return Needs(std::string(kNeedsGpu));
  if (facts.calls.call_count == 0) return Needs(std::string(kNeedsCalls));
  RuleResult result = ShareOfSteps(facts, facts.gaps.parts.waiting_calls_ns, thresholds.sync_share);
  Finding& finding = result.finding;
  finding.measured = StrCat(
      "Calls that wait for the GPU keep the host from launching ahead, which leaves the GPU "
      "idle for ",
      OfStep(facts, facts.gaps.parts.waiting_calls_ns), ".");
  finding.advice = WaitingAdvice(facts);
  finding.evidence = facts.gaps.after_sync;
  SetConfidence(facts, Confidence::kHigh, finding);
  DoubtIfWithoutCpu(facts, thresholds, facts.PerStep(facts.gaps.parts.waiting_calls_ns), finding,
                    /*burst_can_explain=*/false, UnreportedNs(facts, finding));
  return result;
}

RuleResult StepOutlier(const Facts& facts, const FindingThresholds& thresholds) {
  const std::optional<StepCharges> charges = ChargesOf(facts.scope, thresholds);
  if (!charges.has_value()) return Needs("five steps or more");
  if (facts.program.marked_at_once > 1) return Needs("step markers that do not overlap");
  RuleResult result;
  Finding& finding = result.finding;
  const WaitingSteps& waiting = facts.waiting;
  const bool all_waited =
      waiting.count > 0 && waiting.count == std::ranges::count(facts.host.outliers, true);
  int64_t excess_ns = 0;
  int64_t slowest_ns = 0;
  for (size_t i = 0; i < facts.scope.stretches.size(); ++i) {
    const FindingScope::Stretch& stretch = facts.scope.stretches[i];
    if (waiting.explained[i] && !all_waited) continue;
    slowest_ns = std::max(slowest_ns, charges->charged_ns[i]);
    if (!facts.host.outliers[i]) continue;
    excess_ns += charges->charged_ns[i] - charges->median_ns;
    Evidence evidence;
    evidence.kind = EvidenceKind::kStep;
    evidence.step = stretch.step;
    evidence.name = StrCat("step ", facts.steps.framework.NumberText(evidence.step));
    evidence.duration_ns = stretch.end_ns - stretch.start_ns;
    evidence.start_ns = stretch.start_ns;
    finding.evidence.push_back(std::move(evidence));
  }
  std::stable_sort(
      finding.evidence.begin(), finding.evidence.end(),
      [](const Evidence& a, const Evidence& b) { return a.duration_ns > b.duration_ns; });
  const size_t outlier_count = finding.evidence.size();
  std::vector<int64_t> slow_steps;
  for (const Evidence& slow : finding.evidence) slow_steps.push_back(slow.step);
  const size_t step_count = facts.scope.stretches.size();
  result.fired = outlier_count > 0;
  finding.unit = FindingUnit::kNs;
  finding.value = static_cast<double>(slowest_ns);
  finding.threshold = charges->bound_ns;
  finding.saving_ns_per_step = facts.PerStep(excess_ns);
  finding.measured = StrCat(outlier_count, " of ", step_count, " steps took longer than ",
                            TimeText(static_cast<int64_t>(charges->bound_ns)), "; the median is ",
                            TimeText(charges->median_ns), ".", RhythmOf(std::move(slow_steps)));
  if (facts.slowest.step >= 0) {
    StrAppend(&finding.measured, " ", WhySlow(facts.slowest, facts.steps.framework),
              IsMostlyOutside(facts.slowest) ? PythonLockClause(facts) : "");
  }
  if (waiting.count > 0 && !all_waited) {
    StrAppend(&finding.measured, " ", CountText(waiting.count, "more slow step"),
              waiting.count == 1 ? " is" : " are", " not counted: waiting for a CPU, up to ",
              TimeText(waiting.waited_ns), " longer than usual, can explain ",
              waiting.count == 1 ? "it." : "them.");
  }
  // The steps first; what the slowest has more of after them.
  if (outlier_count > kMostEvidence / 2) finding.evidence.resize(kMostEvidence / 2);
  for (const Evidence& cause : facts.slowest.causes) {
    if (finding.evidence.size() < kMostEvidence) finding.evidence.push_back(cause);
  }
  finding.advice = OutlierAdvice(facts);
  SetConfidence(facts, step_count >= kStepsThatTell ? Confidence::kHigh : Confidence::kMedium,
                finding);
  if (all_waited) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        StrCat("threads of the program wait for a CPU for up to ", TimeText(waiting.waited_ns),
               " longer than usual around the slow steps, which can explain them",
               ContentionNote(facts, thresholds));
  } else if (facts.slowest.mostly_slower_calls) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        "the slowest step makes the same calls as its neighbors, only slower: larger inputs, a "
        "lower clock, or other load on the machine can explain it";
  } else if (outlier_count == 1 && !facts.slowest.mostly_more_calls &&
             facts.ShareOfSteps(excess_ns) <
                 (step_count < kStepsThatTell ? kChanceShareOfFew : kChanceShare)) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        StrCat("one slow step of ", step_count, " may be chance, or other load on the machine");
  }
  if (facts.slowest.updates_more && facts.slowest.mostly_more_calls) {
    finding.saving_ns_per_step = 0;
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        "the slowest step runs an optimizer more often than its neighbors: updates that a program "
        "makes in some steps only take their time";
  }
  // Other work explains the time better than a wait.
  if (!facts.slowest.mostly_more_calls) {
    DoubtIfWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding,
                      /*burst_can_explain=*/true);
  }
  DoubtIfWorkersWithoutCpu(facts, thresholds, finding.saving_ns_per_step, finding);
  if (outlier_count == 1 && !facts.slowest.mostly_more_calls) {
    DoubtIfItMayNotHaveRun(facts, thresholds, excess_ns, finding);
  }
  if (outlier_count > 0 && OnlyEpochStarts(facts) &&
      2 * facts.gaps.epoch_start_wait_ns >= excess_ns) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        "all slow steps begin an epoch, in which the data loader starts its workers (INPUT_BOUND)";
  }
  return result;
}

RuleResult WarmupIncluded(const Facts& facts, const FindingThresholds& thresholds) {
  if (facts.scope.first_ratio <= 0) return Needs("three steps or more");
  RuleResult result;
  Finding& finding = result.finding;
  finding.unit = FindingUnit::kRatio;
  finding.value = facts.scope.first_ratio;
  finding.threshold = thresholds.first_step_ratio;
  result.fired = facts.scope.first_left_out;
  finding.measured =
      StrCat("Step ", facts.steps.framework.LongText(facts.scope.first_step), " took ",
             TimeText(facts.scope.first_ns), "; the median of the others is ",
             TimeText(facts.scope.median_other_ns), ". It is left out of all averages.");
  finding.advice =
      "Skip some steps before recording (profctl trace --warmup N, or wait and warmup in "
      "torch.profiler.schedule).";
  Evidence evidence;
  evidence.kind = EvidenceKind::kStep;
  evidence.step = facts.scope.first_step;
  evidence.name = StrCat("step ", facts.steps.framework.NumberText(evidence.step));
  evidence.duration_ns = facts.scope.first_ns;
  finding.evidence.push_back(std::move(evidence));
  SetConfidence(facts, Confidence::kHigh, finding);
  if (facts.scope.first_step > kLastWarmUpStep) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        StrCat("the program had run ", CountText(facts.scope.first_step, "step"),
               " before, so it may be one slow step instead of warm-up");
  }
  return result;
}

RuleResult DataParallel(const Facts& facts, const FindingThresholds&) {
  if (facts.time.devices.size() < 2) return Needs("work of two GPUs or more");
  RuleResult result;
  Finding& finding = result.finding;
  finding.unit = FindingUnit::kCount;
  finding.value = facts.program.data_parallel ? static_cast<double>(facts.time.devices.size()) : 0;
  finding.threshold = 1;
  result.fired = facts.program.data_parallel;
  finding.measured = StrCat("torch.nn.DataParallel drives ", facts.time.devices.size(),
                            " GPUs from one process, one after another.");
  finding.advice = "Use DistributedDataParallel with one process per GPU.";
  finding.severity = Severity::kWarning;
  SetConfidence(facts, Confidence::kHigh, finding);
  return result;
}

// As Engine::evaluate_function() of torch checks what each node returns.
RuleResult AnomalyMode(const Facts& facts, const FindingThresholds&) {
  constexpr double kChecksOfNodes = 0.8;
  const ProgramFacts& program = facts.program;
  if (program.node_count == 0) return Needs("nodes of torch's autograd");
  RuleResult result;
  Finding& finding = result.finding;
  finding.value =
      static_cast<double>(program.nan_check_count) / static_cast<double>(program.node_count);
  finding.threshold = kChecksOfNodes;
  result.fired = finding.value >= kChecksOfNodes;
  finding.measured =
      StrCat("The gradients of each node of the backward pass are checked for NaN: ",
             CountText(facts.PerStep(program.nan_check_count), "time"), " in ", StepWord(facts),
             " of ", CountText(facts.PerStep(program.node_count), "node"), ", for ",
             TimeText(facts.PerStep(program.nan_check_ns)),
             ". Besides, operators of the forward pass keep Python tracebacks, which is part of "
             "their time, and on a GPU each check waits for it.");
  finding.advice =
      "Turn it off: torch.autograd.set_detect_anomaly(False), or detect_anomaly=False of "
      "Lightning's Trainer. It is for finding where a NaN comes from, and makes training several "
      "times slower.";
  finding.saving_ns_per_step = facts.PerStep(program.nan_check_ns);
  SetConfidence(facts, Confidence::kHigh, finding);
  return result;
}

RuleResult CommBackend(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.program.gloo || !facts.has_gpu())
    return Needs("gloo collectives together with GPU work");
  // Its threads communicate while the program computes; what counts is how long the GPU waits.
  const int64_t idle_ns = std::min(facts.program.gloo_ns, facts.gaps.parts.collectives_ns);
  RuleResult result = ShareOfSteps(facts, idle_ns, thresholds.exposed_communication_share);
  // With NCCL in use, gloo serves host tensors, where it belongs.
  if (facts.sum.communication_ns > 0) result.fired = false;
  Finding& finding = result.finding;
  finding.measured =
      StrCat("Gloo collectives, which run on the host, take ", OfStep(facts, facts.program.gloo_ns),
             ", and leave the GPU idle for ", OfStep(facts, idle_ns), ".");
  finding.advice = "Use the \"nccl\" backend for GPU tensors.";
  finding.evidence = facts.program.gloo_ops;
  SetConfidence(facts, Confidence::kMedium, finding);
  return result;
}

}  // namespace profd::report
