#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/capture/slowdown.h"
#include "daemon/report/findings/contention.h"
#include "daemon/report/findings/rule_list.h"

namespace profd::report {
namespace {

// Fewer steps around a capture say nothing of what comes now and then.
constexpr int64_t kFewestAround = 20;
constexpr int64_t kSlowStepsThatTell = 3;

const QualityCheck* Check(const Facts& facts, std::string_view name) {
  for (const QualityCheck& check : facts.quality.checks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

void Capitalize(std::string& sentence) {
  if (sentence.empty() || sentence[0] < 'a' || sentence[0] > 'z') return;
  sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
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
  Capitalize(finding.measured);
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

// What the capture could have left out, the most expensive first.
std::string LessRecordingAdvice(const Facts& facts) {
  const CaptureRecord& record = *facts.record;
  std::string less;
  const auto add = [&less](std::string_view part) {
    StrAppend(&less, less.empty() ? "" : ", ", part);
  };
  if (record.spec.torch.stacks || record.spec.torch.modules || record.torch.memory) {
    add("no --with");
  }
  if (record.torch.operators == OperatorMode::kShapes) add("--ops names (no inputs of operators)");
  if (record.gpu.outcome == GpuOutcome::kRecorded &&
      (record.gpu.mode == GpuMode::kDefault || record.gpu.mode == GpuMode::kFull)) {
    add("--gpu light (no CUDA calls, so no causes of idle time)");
  }
  return StrCat(
      "Do not act on a host time that the slow-down may explain. For times closer to those of the "
      "unrecorded program, record less: ",
      less.empty() ? std::string("fewer ranges in each step") : StrCat("profctl trace with ", less),
      ".");
}

}  // namespace

RuleResult QualityLoss(const Facts& facts, const FindingThresholds& thresholds) {
  const CaptureRecord& record = *facts.record;
  const bool is_thinned = record.drops[static_cast<size_t>(DropReason::kThinned)] > 0;
  return Judge(facts, "loss", thresholds.lost_share, FindingUnit::kShare,
               record.imported.source.empty()
                   ? "Give the capture more memory or record less (profctl trace --buffer, "
                     "--gpu light, fewer steps)."
               : is_thinned ? "Import the trace as the profiler wrote it: this one was thinned."
                            : "Repair the trace, or record a new one.");
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
               "Repeat the capture; `profctl show CAPTURE` gives the reason for the early end.");
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
  RuleResult result = Judge(facts, "perturbation", thresholds.perturbation_share,
                            FindingUnit::kShare, LessRecordingAdvice(facts));
  const CaptureRecord& record = *facts.record;
  if (!result.fired || !record.slowdown.known) return result;
  // A grade that is stored in a file keeps the words of the version that wrote it.
  result.finding.measured =
      StrCat(SlowdownClause(record.slowdown), ". Recording adds its time on the host: without it, ",
             !facts.has_gpu() ? "operators and the times between them are shorter."
             : record.gpu.mode == GpuMode::kFull
                 ? "host times and the GPU's idle time are shorter."
                 : "host times and the GPU's idle time are shorter, and GPU work hardly changes.");
  Capitalize(result.finding.measured);
  const double longer_ns = record.slowdown.estimate * static_cast<double>(record.step_before_ns);
  DoubtIfWithoutCpu(facts, thresholds, static_cast<int64_t>(longer_ns), result.finding,
                    /*burst_can_explain=*/true);
  const auto unreported_ns = static_cast<int64_t>(thresholds.perturbation_share *
                                                  static_cast<double>(record.step_before_ns));
  DoubtIfThreadsWithoutCpu(facts, thresholds, static_cast<int64_t>(longer_ns), result.finding,
                           unreported_ns);
  return result;
}

RuleResult QualityWindow(const Facts& facts, const FindingThresholds& thresholds) {
  const CaptureRecord& record = *facts.record;
  if (!facts.scope.has_steps) return Needs("steps");
  if (record.around_step_count < kFewestAround) {
    return Needs(StrCat("the times of ", kFewestAround, " steps around the capture"));
  }
  RuleResult result;
  Finding& finding = result.finding;
  finding.unit = FindingUnit::kRatio;
  finding.value = static_cast<double>(record.around_step_mean_ns) /
                  static_cast<double>(std::max<int64_t>(facts.scope.mean_ns, 1));
  finding.threshold = thresholds.around_ratio;
  // One slow step may be chance.
  result.fired = finding.value > finding.threshold && record.around_slow_step_count > 1;
  finding.measured = StrCat(
      "The ", record.around_step_count, " steps just before and after the capture took ",
      TimeText(record.around_step_mean_ns), " on average, and ", record.around_slow_step_count,
      " of them over 1.5 times their median; those in it took ", TimeText(facts.scope.mean_ns),
      " on average.");
  // Two distances between slow steps, if these come at equal ones.
  const int64_t enough =
      2 * record.around_step_count / std::max<int64_t>(record.around_slow_step_count, 1);
  finding.advice =
      StrCat("Record more steps (`profctl trace --steps ", enough,
             "`): what makes some steps slow, such as an evaluation, a checkpoint, or logging, is "
             "not in this capture.");
  finding.severity = Severity::kWarning;
  finding.confidence =
      record.around_slow_step_count >= kSlowStepsThatTell ? Confidence::kMedium : Confidence::kLow;
  finding.confidence_reason = StrCat(record.around_slow_step_count,
                                     " slow steps around the capture, which did not record them");
  if (facts.cpu.UnrecordedShare() > thresholds.cpu_wait_share / 2) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason = StrCat(
        "the thread of the steps waits for a CPU for ", PercentText(facts.cpu.UnrecordedShare()),
        " of the time: other load on the machine can explain slow steps");
  }
  Evidence evidence;
  evidence.kind = EvidenceKind::kCheck;
  evidence.name = "around_step_mean_ns";
  evidence.detail = finding.measured;
  finding.evidence.push_back(std::move(evidence));
  return result;
}

}  // namespace profd::report
