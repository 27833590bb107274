#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/rule_list.h"

namespace profd::report {
namespace {

constexpr int64_t kStepsForConfidence = 5;

int64_t MedianOwnWork(const std::vector<RankScore>& ranking) {
  std::vector<int64_t> own;
  own.reserve(ranking.size());
  for (const RankScore& rank : ranking) own.push_back(rank.own_ns);
  return Median(own);
}

// Per step, over all steps.
int64_t SavingOfSlowSteps(const RankScore& rank) {
  const double share = static_cast<double>(rank.slow_steps.size()) /
                       static_cast<double>(std::max<int64_t>(rank.step_count, 1));
  return std::llround(share * static_cast<double>(rank.slow_step_delay_ns));
}

Evidence RankEvidence(const RankScore& rank, const std::string& name) {
  Evidence evidence;
  evidence.kind = EvidenceKind::kRank;
  evidence.name = name;
  evidence.detail = StrCat(
      "own work per step of ", TimeText(rank.duration_ns), "; waits ", TimeText(rank.wait_ns),
      ", transfers ", TimeText(rank.transfer_ns), absl::StrFormat("; score %.3g", rank.score),
      rank.slow_by_cpu_waits == CpuWaitCause::kPossible
          ? StrCat("; of its own work, it waits for a CPU for up to ", TimeText(rank.cpu_wait_ns))
          : std::string());
  if (rank.is_slow_in_steps) {
    StrAppend(&evidence.detail, "; delays the others ", SlowStepsText(rank));
  }
  evidence.count = rank.step_count;
  evidence.duration_ns = rank.own_ns;
  return evidence;
}

// Of the slowest rank; `others`: the names of those that are slow, too, or empty.
std::string Measured(const GroupSteps& steps, const RankScore& slowest, const std::string& name,
                     const std::string& others) {
  const std::string last =
      StrCat(" It arrives last at ", CountText(slowest.last_count, "collective"), " of ",
             steps.matched_count);
  if (slowest.is_slow_in_steps) {
    return StrCat(name, " delays the other ranks ", SlowStepsText(slowest), ".",
                  others.empty() ? "" : StrCat(" Also slow in some steps: ", others, "."), last,
                  ".");
  }
  const std::string works = StrCat(name, " works for ", TimeText(slowest.own_ns),
                                   " a step without waiting, the median rank for ",
                                   TimeText(MedianOwnWork(steps.ranking)),
                                   others.empty() ? "" : StrCat("; also slow: ", others), ".");
  if (steps.is_pipeline) {
    return StrCat(works, " In sends and receives, the other ranks wait for ",
                  TimeText(UsualPeerWait(steps)), " a step at the median, and it waits for ",
                  TimeText(slowest.peer_wait_ns), ": it is the slow stage of a pipeline.");
  }
  return StrCat(works, last, "; the other ranks together wait ", TimeText(slowest.caused_wait_ns),
                " a step for it.");
}

}  // namespace

RuleResult StragglerRank(const Facts& facts, const FindingThresholds& thresholds) {
  if (facts.ranks == nullptr || !facts.ranks->steps.enough_ranks) {
    return Needs("captures of at least three ranks: `profctl report GROUP`, or several files");
  }
  const GroupSteps& steps = facts.ranks->steps;
  // Without matched collectives, a rank that waits looks as busy as the one it waits for.
  if (steps.matched_count == 0 && !steps.is_pipeline) {
    return Needs("collectives that the ranks have in common");
  }
  if (steps.verdict == StragglerVerdict::kWithheld) {
    return Needs(StrCat("a clear difference between ranks: ", TextOf(steps.reason)));
  }
  RuleResult result;
  Finding& finding = result.finding;
  const auto is_straggler = [&](const RankScore& rank) {
    return rank.straggler && (rank.is_slow_in_steps || rank.score > thresholds.straggler_score);
  };
  const auto found = std::find_if(steps.ranking.begin(), steps.ranking.end(), is_straggler);
  result.fired = found != steps.ranking.end();
  const RankScore& slowest = result.fired ? *found : steps.ranking.front();
  finding.unit = FindingUnit::kCount;
  finding.value = slowest.score;
  finding.threshold = thresholds.straggler_score;
  if (!result.fired) return result;
  finding.saving_ns_per_step = slowest.own_ns - MedianOwnWork(steps.ranking);
  if (slowest.is_slow_in_steps) {
    // Its median step does not stand out, so its score says nothing.
    finding.value = static_cast<double>(slowest.slow_steps.size());
    finding.threshold = kFewestStepsForStragglers;
    finding.saving_ns_per_step = SavingOfSlowSteps(slowest);
  }
  for (const RankScore& rank : steps.ranking) {
    if (finding.evidence.size() == kMostEvidence) break;
    if (!is_straggler(rank)) continue;
    finding.evidence.push_back(RankEvidence(rank, facts.ranks->names[rank.member]));
  }
  const std::string& name = facts.ranks->names[slowest.member];
  // Ranks that are slow together: of a tensor-parallel group, or on one host.
  const auto all = std::ranges::count_if(steps.ranking, is_straggler);
  std::string others;
  for (size_t i = 1; i < finding.evidence.size(); ++i) {
    StrAppend(&others, i == 1 ? "" : ", ", finding.evidence[i].name);
  }
  const auto unnamed = all - std::ssize(finding.evidence);
  if (unnamed > 0) StrAppend(&others, ", and ", unnamed, " more");
  finding.measured = Measured(steps, slowest, name, others);
  finding.advice =
      StrCat("Find out what ", name, others.empty() ? " does" : " and the others do",
             " more of, or more slowly. Check its share of the data or the model, its GPU's "
             "clock and temperature, and other load on its host. `profctl stragglers GROUP` shows "
             "all ranks.");
  const RankExcess& excess = facts.ranks->excess;
  if (!excess.text.empty() && slowest.member == steps.ranking.front().member) {
    StrAppend(&finding.measured, " ", excess.text);
    if (!excess.advice.empty()) finding.advice = excess.advice;
    for (const Evidence& evidence : excess.evidence) {
      if (finding.evidence.size() < kMostEvidence) finding.evidence.push_back(evidence);
    }
  }
  finding.confidence =
      slowest.step_count >= kStepsForConfidence ? Confidence::kHigh : Confidence::kMedium;
  finding.confidence_reason = StrCat(CountText(slowest.step_count, "step"), " of ",
                                     CountText(static_cast<int64_t>(steps.ranking.size()), "rank"));
  return result;
}

}  // namespace profd::report
