// Rules of the host's time: outside operators, and without a CPU.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/capture/quality.h"
#include "daemon/report/findings/advice.h"
#include "daemon/report/findings/contention.h"
#include "daemon/report/findings/rule_list.h"
#include "daemon/report/findings/rule_parts.h"
#include "daemon/report/ranks/cpu_waits.h"

namespace profd::report {
namespace {

// Of the time a thread ran or was ready to: one that waits for requests sleeps for more than that.
constexpr double kNeverSleeps = 0.9;
constexpr double kMuchCpuWait = 0.20;

// " 7849 gaps shorter than 100 us between operators add up to 2.2 ms of each step; ..."
std::string ShortGapsClause(const Facts& facts) {
  const HostFacts& host = facts.host;
  std::string text = StrCat(
      " ", CountText(host.gaps.short_count, "gap"), " shorter than ", TimeText(kShortHostGapNs),
      " between ", host.Parts(), " add up to ", TimeText(host.PerUsualStep(host.gaps.short_ns)),
      " of ", StepWord(facts), facts.has_gpu() ? ", counted while the GPU is idle" : "");
  if (!host.short_gaps.empty()) {
    const ShortGapRow& most = host.short_gaps.front();
    StrAppend(&text, "; most of all ", most.is_line ? "at " : "", most.place, ": ",
              TimeText(host.PerUsualStep(most.total_ns)));
  }
  return text + ".";
}

// " for 3.5 ms of each step (20.8%)"; of steps without the outliers, which have a mean of their
// own: " for 12 ms (82.8%) of each step that is not an outlier (12 of 20 steps)"
std::string OutsideClause(const Facts& facts, double share_of_mean) {
  const HostFacts& host = facts.host;
  const std::string time = TimeText(host.PerUsualStep(host.outside_ns));
  const int64_t step_count = std::ssize(facts.scope.stretches);
  if (!facts.scope.has_steps || host.usual_count == step_count || host.usual_ns <= 0) {
    return StrCat(" for ", time, " of ", StepWord(facts), " (", PercentText(share_of_mean), ")");
  }
  const double share = static_cast<double>(host.outside_ns) / static_cast<double>(host.usual_ns);
  return StrCat(" for ", time, " (", PercentText(share), ") of each step that is not an outlier (",
                host.usual_count, " of ", CountText(step_count, "step"), ")");
}

// The largest of the long gaps, and of the places of short ones, if these are the larger part.
std::vector<Evidence> GapEvidence(const HostFacts& host) {
  std::vector<Evidence> rows;
  for (const HostGapRow& row : host.gaps.rows) {
    Evidence& evidence = rows.emplace_back();
    evidence.kind = EvidenceKind::kGap;
    evidence.name = PlaceOf(row);
    evidence.detail = StrCat("host outside ", host.Parts(), "; median ", TimeText(row.median_ns),
                             ", longest ", TimeText(row.max_ns));
    evidence.count = row.count;
    evidence.duration_ns = row.total_ns;
    evidence.start_ns = row.longest_start_ns;
    evidence.step = row.longest_step;
  }
  for (const ShortGapRow& row : host.short_gaps) {
    Evidence& evidence = rows.emplace_back();
    evidence.kind = EvidenceKind::kGap;
    evidence.name = StrCat("short gaps ", row.is_line ? "at " : "", row.place);
    evidence.detail =
        StrCat("host outside ", host.Parts(), "; each below ", TimeText(kShortHostGapNs));
    evidence.count = row.count;
    evidence.duration_ns = row.total_ns;
    evidence.start_ns = row.longest_start_ns;
    evidence.step = row.longest_step;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Evidence& a, const Evidence& b) {
    return a.duration_ns > b.duration_ns;
  });
  if (rows.size() > kMostEvidence) rows.resize(kMostEvidence);
  return rows;
}

// A wait for a CPU comes at any place, and does not explain gaps that are in every step.
void DoubtHostIfWithoutCpu(const Facts& facts, const FindingThresholds& thresholds,
                           int64_t outside_ns, Finding& finding) {
  const Confidence without = finding.confidence;
  DoubtIfWithoutCpu(facts, thresholds, outside_ns, finding, /*burst_can_explain=*/false,
                    UnreportedNs(facts, finding));
  if (finding.confidence == without) return;
  const int64_t steady_ns = facts.host.steady_ns;
  if (static_cast<double>(steady_ns) <=
      finding.threshold * static_cast<double>(facts.scope.mean_ns)) {
    return;
  }
  finding.confidence = std::min(without, Confidence::kMedium);
  finding.confidence_reason =
      StrCat("the thread waits for a CPU for ", TimeText(facts.CpuWaitPerStep()),
             " of each step, which may lie in the gaps, but every step has gaps of ",
             TimeText(steady_ns), ContentionNote(facts, thresholds));
}

// What of the waits may be the recording's; empty: nothing.
std::string WaitsOfRecordingText(const Facts& facts, int64_t of_recording_ns) {
  if (of_recording_ns <= 0) return "";
  if (!facts.cpu.waits_as_after_ns.has_value()) {
    return StrCat("Of that, ", TimeText(of_recording_ns),
                  " may be the recording's, which needs CPU time itself: by so much steps are "
                  "longer than those around the capture. ");
  }
  return StrCat("Of that, ", TimeText(of_recording_ns),
                " may be the recording's, which needs CPU time itself: after it the thread waited "
                "for less. ");
}

}  // namespace

RuleResult HostBound(const Facts& facts, const FindingThresholds& thresholds) {
  const HostFacts& host = facts.host;
  if (!host.needs.empty()) return Needs(host.needs);
  if (facts.RecordsGraphs()) return Needs(std::string(kNeedsWork));
  const HostGapTable& gaps = host.gaps;
  RuleResult result;
  Finding& finding = result.finding;
  // Steps that are outliers have as much of it; the rest of theirs is STEP_OUTLIER's.
  const int64_t outside_ns = host.PerUsualStep(host.outside_ns);
  finding.value = facts.scope.mean_ns <= 0
                      ? 0
                      : static_cast<double>(outside_ns) / static_cast<double>(facts.scope.mean_ns);
  finding.threshold = thresholds.host_outside_share;
  result.fired = finding.value > finding.threshold;
  finding.saving_ns_per_step = outside_ns;
  if (host.of_ranges) finding.title = "The host is busy or waits outside ranges";
  // Ranges of the program around operators say where it is, not what it does.
  finding.measured = StrCat(
      host.of_ranges ? "The host is outside all ranges of the program"
                     : "The host runs no operator of the framework",
      facts.calls.call_count > 0 ? (host.of_ranges ? " and all CUDA calls" : " and no CUDA call")
                                 : "",
      OutsideClause(facts, finding.value), facts.has_gpu() ? " while the GPU is idle" : "",
      host.of_ranges ? ": it runs code without a range, sleeps, or waits for something that was "
                       "not recorded."
                     : ": it runs Python or other code, inside or outside the program's own "
                       "ranges, sleeps, or waits for something that was not recorded.");
  if (!gaps.rows.empty()) {
    const HostGapRow& largest = gaps.rows.front();
    StrAppend(&finding.measured, " The largest gap is ", PlaceOf(largest), ": ",
              TimeText(largest.median_ns), " at the median, ", CountText(largest.count, "time"));
    if (facts.scope.has_steps) {
      StrAppend(&finding.measured, " in ", largest.step_count, " of ",
                CountText(host.usual_count, "step"));
    }
    StrAppend(&finding.measured, ".");
    if (host.freed_bytes > 0) {
      StrAppend(&finding.measured, " In the longest of them, ",
                CountText(host.freed_count, "block"), " of host memory, ",
                SizeText(host.freed_bytes), " in all, ", host.freed_count == 1 ? "is" : "are",
                " freed: giving the pages back to the system can take most of it.");
    }
  }
  const bool has_places = gaps.long_ns > gaps.short_ns;
  if (has_places) StrAppend(&finding.measured, PythonLockClause(facts));
  if (!has_places) StrAppend(&finding.measured, ShortGapsClause(facts));
  finding.advice = has_places ? LongGapAdvice(facts) : OverheadAdvice(facts);
  finding.evidence = GapEvidence(host);
  SetConfidence(facts, Confidence::kHigh, finding);
  const int64_t long_ns = host.PerUsualStep(gaps.long_ns);
  if (!has_places) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason = "recording itself takes part of such short gaps";
  } else if (!facts.has_gpu() && static_cast<double>(long_ns) <=
                                     finding.threshold * static_cast<double>(facts.scope.mean_ns)) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        StrCat("gaps of ", TimeText(kShortHostGapNs), " or more take ", TimeText(long_ns), " of ",
               StepWord(facts), "; recording itself takes part of shorter ones");
  }
  if (facts.scope.has_steps && host.median_share <= finding.threshold) {
    // Seen of healthy programs on busy machines: a thread that another process kept from its core.
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        "most steps are below the threshold; another process may have used the CPU";
  }
  const bool never_sleeps =
      facts.cpu.ShareOfWatched(facts.cpu.ran_ns + facts.cpu.waited_ns) > kNeverSleeps;
  if (!facts.scope.has_steps && !never_sleeps) {
    // A server without requests looks the same.
    finding.confidence = Confidence::kLow;
    finding.confidence_reason = "no steps: the program may have had nothing to do";
  }
  DoubtHostIfWithoutCpu(facts, thresholds, outside_ns, finding);
  return result;
}

RuleResult CpuContention(const Facts& facts, const FindingThresholds& thresholds) {
  const CpuFacts& cpu = facts.cpu;
  if (cpu.watched_ns < kShortestCpuWatchNs) {
    return Needs(
        "how long threads wait for a CPU, which profd reads from Linux in windows of 50 ms or "
        "more");
  }
  RuleResult result;
  Finding& finding = result.finding;
  finding.unit = FindingUnit::kShare;
  // The recording needs CPU time itself. Where it is not known how long the thread waits without
  // it, that may be why steps are longer than those around the capture; but where these wait, too,
  // others use the CPU.
  const int64_t waited_ns = facts.CpuWaitPerStep();
  const bool knows_after = cpu.waits_as_after_ns.has_value();
  int64_t of_recording_ns = 0;
  if (knows_after) {
    of_recording_ns =
        facts.PerStepOfShare(cpu.ShareOfWatched(cpu.waited_ns - *cpu.waits_as_after_ns));
  } else if (!facts.AroundStepsVary()) {
    of_recording_ns = std::min(waited_ns, facts.LongerThanAroundNs());
  }
  finding.value = cpu.UnrecordedShare();
  finding.threshold = thresholds.cpu_wait_share;
  finding.saving_ns_per_step = facts.PerStepOfShare(finding.value);
  // What the GPU hides costs nothing.
  const double idle_share = facts.has_gpu() ? facts.ShareOfSteps(facts.sum.idle_ns) : 1;
  if (facts.has_gpu()) {
    finding.saving_ns_per_step =
        std::min(finding.saving_ns_per_step, facts.PerStep(facts.sum.idle_ns));
  }
  result.fired = std::min(finding.value, idle_share) > finding.threshold;
  if (!result.fired && facts.record->cpu.misses_waits()) {
    return Needs(StrCat("waits for a CPU of all threads: ", UnwatchedClause(facts.record->cpu)));
  }
  finding.measured = StrCat(
      cpu.of_step_thread ? "The thread that marks the steps" : "The thread that runs most",
      " is ready to run, but waits for a CPU for ", TimeText(waited_ns), " of ", StepWord(facts),
      " (", PercentText(cpu.Share()), " of the time). ",
      WaitsOfRecordingText(facts, of_recording_ns), "All ", CountText(cpu.thread_count, "thread"),
      " of the process together ran for ", TimeText(cpu.all_ran_ns), " and waited for ",
      TimeText(cpu.all_waited_ns), " in ", TimeText(cpu.watched_ns), ".");
  // Without them, as much of a CPU would have been free as the thread waited for.
  const bool children_can_explain =
      cpu.child_count > 0 && cpu.children_ran_ns >= std::max<int64_t>(cpu.waited_ns, 1);
  if (children_can_explain) {
    StrAppend(&finding.measured, " Its child processes (", cpu.child_count, ") ran for ",
              TimeText(cpu.children_ran_ns), ".");
  }
  finding.advice = StrCat(
      children_can_explain
          ? "Other processes, child processes of the program (such as workers of a DataLoader), or "
            "too many threads use the CPUs. Give "
          : "Other processes, or too many threads of this one, use the CPUs. Give ",
      "the process CPUs of its own (taskset, cpusets, --cpus-per-task of Slurm), or run fewer "
      "threads (OMP_NUM_THREADS, torch.set_num_threads) and workers (num_workers).");
  SetConfidence(facts, finding.value > kMuchCpuWait ? Confidence::kHigh : Confidence::kMedium,
                finding);
  if (!knows_after && 2 * of_recording_ns > waited_ns) {
    finding.confidence = std::min(finding.confidence, Confidence::kMedium);
    finding.confidence_reason = "most of it may be the recording's";
  }
  if (cpu.may_be_one_burst) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        StrCat("it waited for ", TimeText(cpu.waited_ns), " in all: one burst may explain that");
  }
  return result;
}

}  // namespace profd::report
