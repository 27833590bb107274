#include "daemon/report/findings/contention.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/quality.h"
#include "daemon/report/findings/outliers.h"
#include "daemon/report/findings/rule_list.h"
#include "daemon/report/findings/rules.h"

namespace profd::report {
namespace {

// The wait for a CPU explains a time if it is this share of it or more.
constexpr double kExplainingShare = 0.8;
// A wait that is a smaller share of what a finding counts leaves it as it is, even if the finding
// would not be reported without that wait.
constexpr double kLeastPart = 1.0 / 3;
// Samples that are this many times as far apart as a step is long tell too little of it.
constexpr int64_t kFarthestSamples = 2;
// Slow steps whose operators are compared with those of their neighbors, which takes time.
constexpr size_t kMostExamined = 16;

bool Explains(int64_t waited_ns, int64_t ns, int64_t unreported_ns = 0) {
  const auto is_share = [&](double share) {
    return static_cast<double>(waited_ns) >= share * static_cast<double>(ns);
  };
  return is_share(kExplainingShare) || (ns - waited_ns <= unreported_ns && is_share(kLeastPart));
}

// Whether the loader has workers: of one without, waiting for data is making it.
bool HasWorkers(const Facts& facts) {
  if (facts.time.data_loader.count == 0) return false;
  return std::ranges::none_of(facts.gaps.loader_waits, [](const Evidence& wait) {
    return wait.name.find("_SingleProcessDataLoaderIter") != std::string::npos;
  });
}

// Of a step: the share of it in which the program waits for data beyond which its workers always
// have something to do, also if that is reading files, for which they need no CPU.
constexpr double kBoundByWorkers = 0.5;

// How long the waits of workers can delay a step.
int64_t DelayByWorkers(const Facts& facts) {
  const int64_t waited_ns = facts.WorkerWaitPerStep();
  if (waited_ns == 0 || facts.ShareOfSteps(facts.gaps.loader_wait_ns) <= kBoundByWorkers)
    return waited_ns;
  // Each makes its batch while the others make theirs.
  const double together_ns = facts.cpu.ShareOfWatched(facts.cpu.children_waited_ns) *
                             static_cast<double>(facts.scope.total_ns);
  return std::min(waited_ns, facts.PerStep(static_cast<int64_t>(
                                 together_ns / static_cast<double>(facts.cpu.child_count))));
}

// Threads are watched for some milliseconds longer than a window lasts, which is much of a short
// one. Whatever they waited may be in the steps then. Where they were watched for longer, such as
// in a slow first step that does not count, their waits are taken to be spread over that time.
constexpr int64_t kLongestEdgesNs = 50'000'000;

// Of a step, at most.
int64_t WaitPerStep(const Facts& facts, int64_t waited_ns) {
  const int64_t total_ns = facts.scope.total_ns;
  auto most_ns =
      static_cast<int64_t>(facts.cpu.ShareOfWatched(waited_ns) * static_cast<double>(total_ns));
  if (facts.cpu.watched_ns - total_ns <= kLongestEdgesNs) {
    most_ns = std::max(most_ns, std::min(waited_ns, total_ns));
  }
  return facts.PerStep(most_ns);
}

std::string OfEachStep(const Facts& facts) {
  return facts.scope.has_steps ? "each step" : "the capture";
}

// How much of the time threads wait for a CPU together, by samples without a slow step. nullopt:
// there are none.
std::optional<double> UsualWaitShare(const Facts& facts, bool has_workers) {
  std::vector<FindingScope::Stretch> slow;
  for (size_t i = 0; i < facts.scope.stretches.size(); ++i) {
    if (facts.host.outliers[i]) slow.push_back(facts.scope.stretches[i]);
  }
  int64_t waited_ns = 0;
  int64_t time_ns = 0;
  for (size_t i = 1; i < facts.cpu.samples.size(); ++i) {
    const CpuSample& begin = facts.cpu.samples[i - 1];
    const CpuSample& end = facts.cpu.samples[i];
    const bool is_of_slow_step = std::ranges::any_of(slow, [&](const auto& step) {
      return step.start_ns < end.time_ns && step.end_ns > begin.time_ns;
    });
    if (is_of_slow_step) continue;
    waited_ns += end.waited_ns - begin.waited_ns;
    if (has_workers) waited_ns += end.children_waited_ns - begin.children_waited_ns;
    time_ns += end.time_ns - begin.time_ns;
  }
  if (time_ns <= 0) return std::nullopt;
  return static_cast<double>(waited_ns) / static_cast<double>(time_ns);
}

// nullopt: samples say nothing, or too little of the step.
std::optional<CpuFacts::Waits> SampledWaits(const Facts& facts, const FindingScope::Stretch& step,
                                            bool has_workers) {
  const std::optional<CpuFacts::Waits> waits =
      facts.cpu.MostWaited(step.start_ns, step.end_ns, has_workers);
  const bool is_close =
      waits.has_value() && waits->time_ns <= kFarthestSamples * (step.end_ns - step.start_ns);
  return is_close ? waits : std::nullopt;
}

void Doubt(const std::string& reason, const Facts& facts, const FindingThresholds& thresholds,
           Finding& finding) {
  finding.confidence = Confidence::kLow;
  finding.confidence_reason = StrCat(reason, ContentionNote(facts, thresholds));
}

}  // namespace

std::string_view ContentionNote(const Facts& facts, const FindingThresholds& thresholds) {
  return CpuContention(facts, thresholds).fired ? " (CPU_CONTENTION)" : "";
}

void DoubtIfWithoutCpu(const Facts& facts, const FindingThresholds& thresholds, int64_t ns_per_step,
                       Finding& finding, bool burst_can_explain, int64_t unreported_ns) {
  if (facts.cpu.may_be_one_burst && !burst_can_explain) return;
  if (facts.cpu.Share() <= thresholds.cpu_wait_share) return;
  const int64_t waited_ns = WaitPerStep(facts, facts.cpu.waited_ns);
  if (!Explains(waited_ns, ns_per_step, unreported_ns)) return;
  Doubt(StrCat("the thread waits for a CPU for ", TimeText(waited_ns), " of ", OfEachStep(facts),
               ", which can explain it"),
        facts, thresholds, finding);
}

int64_t ThreadWaitsThatExplain(const Facts& facts, const FindingThresholds& thresholds,
                               int64_t ns_per_step, int64_t unreported_ns) {
  if (facts.cpu.AllShare() <= thresholds.cpu_wait_share) return 0;
  const int64_t waited_ns = WaitPerStep(facts, facts.cpu.all_waited_ns);
  return Explains(waited_ns, ns_per_step, unreported_ns) ? waited_ns : 0;
}

bool KnowsThreadWaits(const Facts& facts) {
  return facts.cpu.watched_ns > 0 && !facts.record->cpu.misses_waits_of_target();
}

void DoubtIfThreadsWithoutCpu(const Facts& facts, const FindingThresholds& thresholds,
                              int64_t ns_per_step, Finding& finding, int64_t unreported_ns) {
  const int64_t waited_ns = ThreadWaitsThatExplain(facts, thresholds, ns_per_step, unreported_ns);
  if (waited_ns > 0) {
    Doubt(StrCat("the threads of the program together wait for a CPU for ", TimeText(waited_ns),
                 " of ", OfEachStep(facts), ", which can explain it"),
          facts, thresholds, finding);
    return;
  }
  const bool misses_waits = facts.cpu.watched_ns > 0 && facts.record->cpu.misses_waits();
  if (!misses_waits || finding.confidence == Confidence::kLow) return;
  finding.confidence = Confidence::kLow;
  finding.confidence_reason =
      StrCat("not all waits for a CPU are known: ", UnwatchedClause(facts.record->cpu));
}

void DoubtIfWorkersWithoutCpu(const Facts& facts, const FindingThresholds& thresholds,
                              int64_t ns_per_step, Finding& finding, int64_t unreported_ns) {
  const int64_t workers_ns = DelayByWorkers(facts);
  if (workers_ns == 0 || !HasWorkers(facts)) return;
  const int64_t waited_ns = workers_ns + WaitPerStep(facts, facts.cpu.waited_ns);
  if (!Explains(waited_ns, ns_per_step, unreported_ns)) return;
  Doubt(StrCat("the program and its child processes (", facts.cpu.child_count,
               ") wait for a CPU, which can delay each step by up to ", TimeText(waited_ns)),
        facts, thresholds, finding);
}

void DoubtIfItMayNotHaveRun(const Facts& facts, const FindingThresholds& thresholds,
                            int64_t excess_ns, Finding& finding) {
  if (finding.confidence != Confidence::kHigh || facts.slowest.mostly_known_parts) return;
  const CpuFacts& cpu = facts.cpu;
  const auto is_part = [&](int64_t ns, double share) {
    return static_cast<double>(ns) >= share * static_cast<double>(excess_ns);
  };
  if (!KnowsThreadWaits(facts)) {
    finding.confidence = Confidence::kMedium;
    finding.confidence_reason =
        "one step is slow, and how long the program waited for a CPU in it is not known";
  } else if (!facts.slowest.waits_are_sampled && is_part(cpu.waited_ns, kLeastPart)) {
    finding.confidence = Confidence::kMedium;
    finding.confidence_reason =
        StrCat("the thread waits for a CPU for ", TimeText(cpu.waited_ns),
               " in and around the capture, which may have been in the slow step",
               ContentionNote(facts, thresholds));
  } else if (is_part(facts.slowest.silent_ns, kExplainingShare) &&
             is_part(cpu.watched_ns - cpu.ran_ns - cpu.waited_ns, kExplainingShare)) {
    finding.confidence = Confidence::kMedium;
    finding.confidence_reason =
        StrCat("nothing is recorded of any thread for ", TimeText(facts.slowest.silent_ns),
               " of the slow step: a process that is stopped for so long (SIGSTOP, a debugger, a "
               "frozen container) looks the same");
  }
}

absl::Status FindWaitingSteps(store::CaptureReader& reader, const FindingThresholds& thresholds,
                              Facts& facts) {
  WaitingSteps& result = facts.waiting;
  result.explained.resize(facts.scope.stretches.size());
  const std::optional<StepCharges> charges = ChargesOf(facts.scope, thresholds);
  if (!charges.has_value()) return absl::OkStatus();
  const bool has_workers = HasWorkers(facts);
  std::vector<bool> remaining = facts.host.outliers;
  const std::optional<double> usual_share = UsualWaitShare(facts, has_workers);
  if (!usual_share.has_value()) return absl::OkStatus();
  size_t examined = 0;
  for (size_t i = 0; i < facts.scope.stretches.size(); ++i) {
    if (!facts.host.outliers[i]) continue;
    const std::optional<CpuFacts::Waits> waits =
        SampledWaits(facts, facts.scope.stretches[i], has_workers);
    if (!waits.has_value()) continue;
    const auto usual_ns = static_cast<int64_t>(*usual_share * static_cast<double>(waits->time_ns));
    const int64_t more_ns = std::max<int64_t>(0, waits->waited_ns - usual_ns);
    const int64_t without_ns = charges->charged_ns[i] - more_ns;
    if (static_cast<double>(without_ns) > charges->bound_ns) continue;
    if (++examined > kMostExamined) break;
    ASSIGN_OR_RETURN(const SlowStep why,
                     ExplainStep(reader, facts.scope, facts.time, facts.host.outliers, i));
    // Other work explains its time better than a wait.
    if (why.mostly_more_calls) continue;
    result.explained[i] = true;
    remaining[i] = false;
    ++result.count;
    result.waited_ns += more_ns;
  }
  if (result.count > 0 && std::ranges::count(remaining, true) > 0) {
    ASSIGN_OR_RETURN(facts.slowest, ExplainSlowestStep(reader, facts.scope, facts.time,
                                                       facts.host.outliers, remaining));
  }
  const auto slowest =
      std::ranges::find(facts.scope.stretches, facts.slowest.step, &FindingScope::Stretch::step);
  facts.slowest.waits_are_sampled = slowest != facts.scope.stretches.end() &&
                                    SampledWaits(facts, *slowest, has_workers).has_value();
  return absl::OkStatus();
}

}  // namespace profd::report
