#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"
#include "daemon/report/ranks/group_reports.h"
#include "daemon/report/ranks/other_ranks.h"
#include "daemon/report/ranks/peer_waits.h"
#include "daemon/report/ranks/slow_steps.h"

namespace profd::report {
namespace {

// Of a step: below it, differences between ranks mean nothing.
constexpr double kLeastDeviation = 0.01;

// The least median difference of own work that makes a straggler, of a step.
constexpr double kLeastEffect = 0.1;
constexpr double kLeastEffectOfFewSteps = 0.2;
constexpr size_t kManySteps = 5;
// And of its own standard deviation, estimated robustly.
constexpr double kEffectOverNoise = 2;
// What stragglers cause of all wait.
constexpr double kLeastShareOfWait = 0.5;
// Of a difference between ranks: what waits for a CPU make up where they can be its cause.
constexpr double kShareOfCause = 0.5;
// Caused by one rank, it is no longer the ranks that are late in turn.
constexpr double kShareOfOne = 2.0 / 3;

// By the member that arrived last: how long a member waited for it in one step.
using WaitsFor = std::map<size_t, int64_t>;
// By member, then by the number of the step: what its collectives waited for other ranks.
using Waits = std::vector<std::map<int64_t, WaitsFor>>;

// A step of a rank, for finding it on the others. Windows, which have no numbers, are counted.
using StepKey = std::pair<int64_t, size_t>;
using StepsByKey = std::map<StepKey, const RankStep*>;

void AddCapped(int64_t& sum, int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<int64_t>::max();
}

CollectiveBlame BlameOf(std::span<const CollectiveTable* const> tables,
                        const MatchedCollective& match) {
  CollectiveBlame blame = {.kind = match.kind};
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t transfer_ns = kMost;
  int64_t next_ns = kMost;
  for (const MatchedCollective::Part& part : match.parts) {
    const CollectiveRow& row = tables[part.member]->rows[part.row];
    if (row.duration_ns < transfer_ns) {
      next_ns = transfer_ns;
      transfer_ns = row.duration_ns;
      blame.last = part.member;
      blame.step = row.step;
      blame.group = tables[part.member]->communicators[row.communicator].shown_name();
    } else {
      next_ns = std::min(next_ns, row.duration_ns);
    }
  }
  // A member is in a match once, and the durations are not negative.
  blame.late_by_ns = next_ns == kMost ? 0 : next_ns - std::max<int64_t>(transfer_ns, 0);
  for (const MatchedCollective::Part& part : match.parts) {
    if (part.member == blame.last) continue;
    const CollectiveRow& row = tables[part.member]->rows[part.row];
    // What is hidden comes first: after it the transfer, which ends on all ranks at once.
    const int64_t wait_ns = row.exposed_ns - std::min(row.exposed_ns, transfer_ns);
    AddCapped(blame.total_wait_ns, wait_ns);
    blame.waits.push_back({part.member, wait_ns});
  }
  return blame;
}

std::vector<CollectiveBlame> BlamesOf(std::span<const CollectiveTable* const> tables,
                                      std::span<const MatchedCollective> matches) {
  std::vector<CollectiveBlame> blames;
  for (size_t i = 0; i < matches.size(); ++i) {
    blames.push_back(BlameOf(tables, matches[i]));
    blames.back().match = i;
  }
  return blames;
}

Waits WaitsOf(std::span<const CollectiveTable* const> tables,
              std::span<const MatchedCollective> matches, std::span<const CollectiveBlame> blames) {
  Waits waits(tables.size());
  for (const CollectiveBlame& blame : blames) {
    std::map<size_t, int64_t> of_member;
    for (const CollectiveBlame::Wait& wait : blame.waits) of_member[wait.member] = wait.wait_ns;
    for (const MatchedCollective::Part& part : matches[blame.match].parts) {
      if (part.member == blame.last) continue;
      const CollectiveRow& row = tables[part.member]->rows[part.row];
      AddCapped(waits[part.member][row.step][blame.last], of_member[part.member]);
    }
  }
  return waits;
}

// Of two ranks, the peer is the other one.
void BlameThePeer(const PeerWaits& peer_waits, Waits& waits) {
  for (size_t member = 0; member < waits.size(); ++member) {
    for (const auto& [step, wait_ns] : peer_waits[member]) {
      AddCapped(waits[member][step][1 - member], wait_ns);
    }
  }
}

int64_t SumOf(const WaitsFor& waits) {
  int64_t sum = 0;
  for (const auto& [last, wait_ns] : waits) AddCapped(sum, wait_ns);
  return sum;
}

// Collectives that overlap cannot make a member wait for longer than `most_ns`: then `waits` become
// their shares of it.
WaitsFor Fitting(WaitsFor waits, int64_t most_ns) {
  const int64_t sum_ns = SumOf(waits);
  if (sum_ns <= most_ns) return waits;
  int64_t left_ns = most_ns;
  for (auto& [last, wait_ns] : waits) {
    const double share = static_cast<double>(wait_ns) / static_cast<double>(sum_ns);
    wait_ns = std::min(static_cast<int64_t>(share * static_cast<double>(most_ns)), left_ns);
    left_ns -= wait_ns;
  }
  waits.begin()->second += left_ns;  // What rounding left over.
  return waits;
}

// `peer_waits`: in sends and receives, by step; with `has_one_peer`, `waits` contain them.
std::vector<RankStep> StepsOf(const CollectiveTable& table,
                              const std::map<int64_t, WaitsFor>& waits,
                              const std::map<int64_t, int64_t>& peer_waits, bool has_one_peer) {
  std::map<int64_t, int64_t> window_counts;  // Windows without steps all have one number.
  for (const StepWorkRow& work : table.steps) ++window_counts[work.step];
  std::vector<RankStep> steps;
  for (const StepWorkRow& work : table.steps) {
    RankStep step = {.step = work.step, .duration_ns = std::max<int64_t>(work.duration_ns, 0)};
    const int64_t exposed_ns = std::clamp<int64_t>(work.exposed_ns, 0, step.duration_ns);
    if (const auto wait = waits.find(work.step); wait != waits.end()) {
      WaitsFor of_window = wait->second;
      for (auto& [last, wait_ns] : of_window) wait_ns /= window_counts[work.step];
      step.wait_ns_by_last = Fitting(std::move(of_window), exposed_ns);
      step.wait_ns = SumOf(step.wait_ns_by_last);
    }
    if (const auto wait = peer_waits.find(work.step); wait != peer_waits.end()) {
      const auto in_windows = static_cast<int64_t>(window_counts[work.step]);
      const int64_t most_ns = has_one_peer ? step.wait_ns : exposed_ns - step.wait_ns;
      step.peer_wait_ns = std::min(wait->second / in_windows, most_ns);
      if (!has_one_peer) step.wait_ns += step.peer_wait_ns;
    }
    step.transfer_ns = exposed_ns - step.wait_ns;
    step.own_ns = step.duration_ns - exposed_ns;
    if (work.cpu_wait_ns >= 0) step.cpu_wait_ns = std::min(work.cpu_wait_ns, step.own_ns);
    steps.push_back(std::move(step));
  }
  return steps;
}

// Whether ranks wait, and for longer in sends and receives than in collectives. `members` have
// their common steps only.
bool IsPipeline(const std::vector<std::vector<RankStep>>& members) {
  double wait_ns = 0;
  double peer_wait_ns = 0;
  double duration_ns = 0;
  for (const std::vector<RankStep>& steps : members) {
    for (const RankStep& step : steps) {
      wait_ns += static_cast<double>(step.wait_ns);
      peer_wait_ns += static_cast<double>(step.peer_wait_ns);
      duration_ns += static_cast<double>(step.duration_ns);
    }
  }
  return peer_wait_ns >= kLeastEffect * duration_ns && peer_wait_ns > kLeastShareOfWait * wait_ns;
}

std::vector<GroupStepRow> RowsOf(const std::vector<std::vector<RankStep>>& members) {
  std::map<int64_t, std::vector<std::pair<size_t, const RankStep*>>> by_step;
  for (size_t member = 0; member < members.size(); ++member) {
    for (const RankStep& step : members[member]) by_step[step.step].push_back({member, &step});
  }
  std::vector<GroupStepRow> rows;
  for (const auto& [number, parts] : by_step) {
    GroupStepRow row = {.step = number, .member_count = static_cast<int64_t>(parts.size())};
    std::vector<int64_t> durations;
    std::vector<int64_t> own;
    row.slowest = row.waited_most = parts.front().first;
    for (const auto& [member, step] : parts) {
      durations.push_back(step->duration_ns);
      own.push_back(step->own_ns);
      if (step->own_ns > row.slowest_own_ns) {
        row.slowest = member;
        row.slowest_own_ns = step->own_ns;
      }
      if (step->wait_ns > row.longest_wait_ns) {
        row.waited_most = member;
        row.longest_wait_ns = step->wait_ns;
      }
    }
    const auto [min, max] = std::minmax_element(durations.begin(), durations.end());
    row.min_ns = *min;
    row.max_ns = *max;
    row.median_ns = Median(durations);
    row.median_own_ns = Median(own);
    rows.push_back(row);
  }
  return rows;
}

StepsByKey ByKey(const std::vector<RankStep>& steps) {
  std::map<int64_t, size_t> counts;
  StepsByKey by_key;
  for (const RankStep& step : steps) by_key[{step.step, counts[step.step]++}] = &step;
  return by_key;
}

// The steps of each member that all have, in one order; of a member without steps, none.
std::vector<std::vector<RankStep>> CommonSteps(const std::vector<std::vector<RankStep>>& members) {
  std::vector<StepsByKey> by_key;
  std::map<StepKey, size_t> counts;
  size_t present = 0;
  for (const std::vector<RankStep>& steps : members) {
    by_key.push_back(ByKey(steps));
    present += steps.empty() ? 0 : 1;
    for (const auto& [key, step] : by_key.back()) ++counts[key];
  }
  std::vector<std::vector<RankStep>> common(members.size());
  for (const auto& [key, count] : counts) {
    if (count != present) continue;
    for (size_t member = 0; member < members.size(); ++member) {
      if (!members[member].empty()) common[member].push_back(*by_key[member].at(key));
    }
  }
  return common;
}

int64_t MedianOf(const std::vector<RankStep>& steps, int64_t RankStep::*field) {
  std::vector<int64_t> values;
  values.reserve(steps.size());
  for (const RankStep& step : steps) values.push_back(step.*field);
  return Median(values);
}

// By step, the member's figure less the median of the others'.
template <typename FigureOf>
std::vector<int64_t> MoreThanOthers(const std::vector<std::vector<RankStep>>& members,
                                    size_t member, FigureOf figure_of) {
  std::vector<int64_t> more;
  for (size_t step = 0; step < members[member].size(); ++step) {
    more.push_back(figure_of(members[member][step]) -
                   MedianOfOthers(members, member, step, figure_of));
  }
  return more;
}
// One that is not known may be none: what is left of the others' is then the least.
int64_t CpuWait(const RankStep& step) { return std::max<int64_t>(step.cpu_wait_ns, 0); }

// The lower end of the 95 % interval of the median, from order statistics; with fewer than six
// values, the least one. `values` are not empty.
int64_t LeastMedian(std::vector<int64_t> values) {
  const auto count = static_cast<double>(values.size());
  const auto at = static_cast<size_t>(std::max(0.0, count / 2 - 0.98 * std::sqrt(count)));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(at), values.end());
  return values[at];
}

bool IsBeyondNoise(const std::vector<int64_t>& more_own_ns, int64_t step_ns) {
  if (std::ssize(more_own_ns) < kFewestStepsForStragglers) return false;
  const double effect = more_own_ns.size() < kManySteps ? kLeastEffectOfFewSteps : kLeastEffect;
  const int64_t least_ns = LeastMedian(more_own_ns);
  std::vector<int64_t> deviations = more_own_ns;
  const int64_t median_ns = Median(deviations);
  for (int64_t& value : deviations) value = std::abs(value - median_ns);
  const double noise_ns = 1.4826 * static_cast<double>(Median(deviations));
  if (static_cast<double>(median_ns) < kEffectOverNoise * noise_ns) return false;
  return least_ns > 0 && static_cast<double>(least_ns) >= effect * static_cast<double>(step_ns);
}

bool KnowsAllCpuWaits(const std::vector<RankStep>& steps) {
  return !steps.empty() &&
         std::ranges::all_of(steps, [](const RankStep& step) { return step.cpu_wait_ns >= 0; });
}

int64_t Mean(const std::vector<int64_t>& values) {
  double sum = 0;
  for (const int64_t value : values) sum += static_cast<double>(value);
  return static_cast<int64_t>(sum / static_cast<double>(values.size()));
}

bool CanExplain(int64_t cpu_wait_ns, int64_t ns) {
  return ns > 0 && static_cast<double>(cpu_wait_ns) >= kShareOfCause * static_cast<double>(ns);
}

// Of every rank: how long it waited for a CPU, and whether that can be why it has more own work.
void WeighCpuWaits(const std::vector<std::vector<RankStep>>& members,
                   std::vector<RankScore>& ranking) {
  for (RankScore& rank : ranking) {
    const std::vector<RankStep>& steps = members[rank.member];
    if (!KnowsAllCpuWaits(steps)) continue;
    rank.cpu_wait_ns = MedianOf(steps, &RankStep::cpu_wait_ns);
    std::vector<int64_t> more_ns = MoreThanOthers(members, rank.member, &CpuWait);
    rank.mean_more_cpu_wait_ns = Mean(more_ns);
    rank.more_cpu_wait_ns = Median(more_ns);
    rank.slow_by_cpu_waits = CanExplain(rank.more_cpu_wait_ns, rank.more_own_ns)
                                 ? CpuWaitCause::kPossible
                                 : CpuWaitCause::kNo;
  }
}

// Of every rank: the steps in which it delays the others. Where chance does not explain them, waits
// for a CPU are weighed in these steps.
void FindDelays(const std::vector<std::vector<RankStep>>& members, int64_t step_ns,
                std::vector<RankScore>& ranking) {
  for (const SlowSteps& slow : FindSlowSteps(members, step_ns)) {
    const auto rank = std::ranges::find(ranking, slow.member, &RankScore::member);
    const std::vector<RankStep>& steps = members[slow.member];
    for (const size_t step : slow.steps) rank->slow_steps.push_back(steps[step].step);
    const auto [least, most] = std::ranges::minmax(slow.delays);
    rank->least_slow_step_delay_ns = least;
    rank->most_slow_step_delay_ns = most;
    rank->slow_step_delay_ns = Mean(slow.delays);
    rank->slow_step_period = slow.period;
    rank->is_beyond_chance = !slow.is_chance;
    if (slow.is_chance || !KnowsAllCpuWaits(steps)) continue;
    const std::vector<int64_t> more_ns = MoreThanOthers(members, slow.member, &CpuWait);
    std::vector<int64_t> explained_ns;  // A long wait in one step does not explain the others.
    for (size_t i = 0; i < slow.steps.size(); ++i) {
      explained_ns.push_back(std::min(more_ns[slow.steps[i]], slow.delays[i]));
    }
    rank->slow_steps_by_cpu_waits = CanExplain(Mean(explained_ns), rank->slow_step_delay_ns)
                                        ? CpuWaitCause::kPossible
                                        : CpuWaitCause::kNo;
  }
}

// Over the common steps: how often each rank arrived last, and how late.
void CountLateArrivals(std::span<const CollectiveBlame> blames, std::span<const int64_t> steps,
                       std::vector<RankScore>& ranking) {
  std::map<size_t, RankScore*> of_member;
  for (RankScore& rank : ranking) of_member[rank.member] = &rank;
  std::map<std::pair<size_t, std::string>, int64_t> by_group;
  std::map<size_t, std::map<int64_t, int64_t>> late_in_steps;  // By member, then by step.
  std::map<size_t, int64_t> most_ns;
  for (const CollectiveBlame& blame : blames) {
    const auto rank = of_member.find(blame.last);
    if (rank == of_member.end() || !std::binary_search(steps.begin(), steps.end(), blame.step)) {
      continue;
    }
    if (blame.late_by_ns > 0) ++rank->second->last_count;
    AddCapped(rank->second->late_ns, blame.late_by_ns);
    AddCapped(late_in_steps[blame.last][blame.step], blame.late_by_ns);
    AddCapped(by_group[{blame.last, blame.group}], blame.total_wait_ns);
  }
  for (const auto& [who, wait_ns] : by_group) {
    if (wait_ns <= most_ns[who.first]) continue;
    most_ns[who.first] = wait_ns;
    of_member[who.first]->group = who.second;
  }
  for (RankScore& rank : ranking) {
    rank.late_ns /= std::max<int64_t>(std::ssize(steps), 1);
    std::vector<int64_t> late_ns;
    for (const auto& [step, step_late_ns] : late_in_steps[rank.member]) {
      late_ns.push_back(step_late_ns);
    }
    late_ns.resize(steps.size());  // 0 in the other steps.
    rank.usual_late_ns = Median(late_ns);
  }
}

// `members` have their common steps only. Of each rank: what the others waited for it.
void SumCausedWaits(const std::vector<std::vector<RankStep>>& members,
                    std::vector<RankScore>& ranking) {
  std::map<size_t, std::vector<int64_t>> caused_ns;  // By member, then by common step.
  for (const RankScore& rank : ranking) {
    caused_ns[rank.member].resize(static_cast<size_t>(rank.step_count));
  }
  for (const std::vector<RankStep>& steps : members) {
    for (size_t i = 0; i < steps.size(); ++i) {
      for (const auto& [last, wait_ns] : steps[i].wait_ns_by_last) {
        const auto caused = caused_ns.find(last);
        if (caused != caused_ns.end()) AddCapped(caused->second[i], wait_ns);
      }
    }
  }
  for (RankScore& rank : ranking) {
    rank.mean_caused_wait_ns = Mean(caused_ns[rank.member]);
    rank.caused_wait_ns = Median(caused_ns[rank.member]);
  }
}

void Score(std::vector<RankScore>& ranking) {
  std::vector<int64_t> own;
  std::vector<int64_t> durations;
  for (const RankScore& rank : ranking) {
    own.push_back(rank.own_ns);
    durations.push_back(rank.duration_ns);
  }
  const int64_t least = own.empty() ? 0 : *std::min_element(own.begin(), own.end());
  for (RankScore& rank : ranking) {
    rank.relative =
        rank.own_ns == 0 ? 1 : static_cast<double>(least) / static_cast<double>(rank.own_ns);
  }
  if (std::ssize(ranking) < kFewestForStragglers) return;
  const auto duration_ns = static_cast<double>(Median(durations));
  // The lower of the middle two, where they are far apart: half of the ranks may be slow.
  const int64_t lower = Percentile(own, 50);
  const int64_t middle = Median(own);
  const bool is_apart = 2 * static_cast<double>(middle - lower) >= kLeastEffect * duration_ns;
  const int64_t median = is_apart ? lower : middle;
  for (int64_t& value : own) value = std::abs(value - median);
  const int64_t spread = is_apart ? Percentile(own, 50) : Median(own);
  const double deviation =
      std::max({static_cast<double>(spread), kLeastDeviation * duration_ns, 1.0});
  for (RankScore& rank : ranking) {
    rank.score = 0.6745 * static_cast<double>(rank.own_ns - median) / deviation;
  }
}

int64_t UsualDuration(const std::vector<RankScore>& ranking) {
  std::vector<int64_t> durations;
  durations.reserve(ranking.size());
  for (const RankScore& rank : ranking) durations.push_back(rank.duration_ns);
  return Median(durations);
}

void Withhold(StragglerReason reason, GroupSteps& steps) {
  steps.verdict = StragglerVerdict::kWithheld;
  steps.reason = reason;
}

// How much ranks differ, at most: a rank's additional own work in most steps, and how late it is at
// collectives, on average. 0: they do not.
struct Differences {
  int64_t own_ns = 0;
  int64_t late_ns = 0;
};

// Whether any rank waited for a CPU for longer than the others, by half of the difference or more:
// that rank itself is slower, or it hides that another one is.
bool CanCpuWaitsExplain(const std::vector<RankScore>& ranking, const Differences& differences) {
  return std::ranges::any_of(ranking, [&](const RankScore& rank) {
    return CanExplain(rank.more_cpu_wait_ns, differences.own_ns) ||
           CanExplain(rank.mean_more_cpu_wait_ns, differences.late_ns);
  });
}

void Withhold(StragglerReason reason, const Differences& differences, GroupSteps& steps) {
  steps.cpu_waits_can_explain = CanCpuWaitsExplain(steps.ranking, differences);
  Withhold(reason, steps);
}

// Noise has no cause of its own to name, so that waits are the better reason.
void WithholdAsNoise(const Differences& differences, GroupSteps& steps) {
  Withhold(StragglerReason::kWithinNoise, differences, steps);
  if (steps.cpu_waits_can_explain) steps.reason = StragglerReason::kCpuWaits;
}

// Names the ranks that delay the others in some steps. Returns false if there are none.
bool JudgeBySlowSteps(GroupSteps& steps) {
  bool any = false;
  bool any_by_cpu_waits = false;
  for (const RankScore& rank : steps.ranking) {
    if (!rank.is_beyond_chance) continue;
    any = true;
    any_by_cpu_waits |= rank.slow_steps_by_cpu_waits == CpuWaitCause::kPossible;
  }
  if (!any) return false;
  const bool is_pair = !steps.enough_ranks;
  for (RankScore& rank : steps.ranking) {
    rank.is_slow_in_steps = rank.is_beyond_chance && !any_by_cpu_waits;
    rank.straggler = rank.is_slow_in_steps && !is_pair;
    if (rank.is_beyond_chance) rank.slow_by_cpu_waits = rank.slow_steps_by_cpu_waits;
  }
  if (any_by_cpu_waits) {
    Withhold(StragglerReason::kCpuWaits, steps);
    steps.cpu_waits_can_explain = true;
  } else {
    steps.verdict = is_pair ? StragglerVerdict::kPair : StragglerVerdict::kStraggler;
  }
  return true;
}

// Whether a rank waits less than the others, by at least half of what it works longer.
bool WaitsLess(const GroupSteps& steps, const RankScore& rank) {
  std::vector<int64_t> others_ns;
  for (const RankScore& other : steps.ranking) {
    if (!other.straggler && other.member != rank.member) others_ns.push_back(other.wait_ns);
  }
  const int64_t less_ns = Median(others_ns) - rank.wait_ns;
  return static_cast<double>(less_ns) >=
         kShareOfCause * static_cast<double>(std::max<int64_t>(rank.more_own_ns, 1));
}

// Marks the stragglers, if the data supports it.
void Judge(GroupSteps& steps) {
  if (steps.ranking.size() < 2) return Withhold(StragglerReason::kTooFewRanks, steps);
  if (!steps.has_collectives) return Withhold(StragglerReason::kNoCollectives, steps);
  if (steps.matched_count == 0 && !steps.is_pipeline) {
    return Withhold(StragglerReason::kNoMatches, steps);
  }
  if (std::ssize(steps.common_steps) < kFewestStepsForStragglers) {
    return Withhold(StragglerReason::kTooFewSteps, steps);
  }
  const bool is_pair = !steps.enough_ranks;
  bool any_doubt = false;
  bool any_consistent = false;
  bool any_late = false;
  bool any_usually_late = false;  // Mean lateness may be that of a few steps.
  bool any_candidate = false;
  double duration_ns = 0;
  double wait_ns = 0;
  double caused_ns = 0;
  double most_caused_ns = 0;   // By one rank.
  bool is_most_usual = false;  // That rank is late in most steps.
  Differences doubted;
  Differences consistent;
  for (RankScore& rank : steps.ranking) {
    const bool has_high_score = is_pair || rank.score > kStragglerScore;
    const double least_ns = kLeastEffect * static_cast<double>(rank.duration_ns);
    const bool is_late = rank.late_ns > 0 && static_cast<double>(rank.late_ns) >= least_ns;
    const bool is_usually_late =
        rank.usual_late_ns > 0 && static_cast<double>(rank.usual_late_ns) >= least_ns;
    const bool is_doubted =
        has_high_score && rank.more_own_ns > 0 && static_cast<double>(rank.more_own_ns) >= least_ns;
    any_doubt |= is_doubted;
    any_consistent |= rank.is_consistent;
    any_late |= is_late;
    any_usually_late |= is_usually_late;
    if (is_doubted) doubted.own_ns = std::max(doubted.own_ns, rank.more_own_ns);
    if (rank.is_consistent) consistent.own_ns = std::max(consistent.own_ns, rank.more_own_ns);
    if (is_late) consistent.late_ns = std::max(consistent.late_ns, rank.late_ns);
    rank.straggler = has_high_score && rank.is_consistent;
    any_candidate |= rank.straggler;
    wait_ns += static_cast<double>(rank.mean_caused_wait_ns);
    if (static_cast<double>(rank.mean_caused_wait_ns) > most_caused_ns) {
      most_caused_ns = static_cast<double>(rank.mean_caused_wait_ns);
      is_most_usual = is_usually_late;
    }
    duration_ns += static_cast<double>(rank.duration_ns);
    if (rank.straggler) caused_ns += static_cast<double>(rank.mean_caused_wait_ns);
  }
  bool is_agreed = wait_ns > 0 && caused_ns >= kLeastShareOfWait * wait_ns;
  if (steps.is_pipeline && !is_pair) {
    is_agreed = std::ranges::all_of(steps.ranking, [&](const RankScore& rank) {
      return !rank.straggler || WaitsLess(steps, rank);
    });
  }
  if ((!any_candidate || !is_agreed) && JudgeBySlowSteps(steps)) return;
  if (!any_candidate) {
    if (any_doubt) return WithholdAsNoise(doubted, steps);
    // Of all that the ranks did, they waited too little for what is late.
    const bool any_wait = steps.is_pipeline || wait_ns >= kLeastEffect * duration_ns;
    if (any_usually_late && !any_wait) {
      return Withhold(StragglerReason::kHiddenWait, consistent, steps);
    }
    // One rank is late, and nothing that it does more of says why.
    const bool is_one = most_caused_ns >= kShareOfOne * wait_ns;
    if (any_late && is_one && is_most_usual) return WithholdAsNoise(consistent, steps);
    steps.verdict = StragglerVerdict::kNone;
    steps.cpu_waits_can_explain = CanCpuWaitsExplain(steps.ranking, consistent);
    if (any_consistent) {
      steps.reason = StragglerReason::kSpread;
    } else if (any_late) {
      steps.reason = is_one ? StragglerReason::kFewSteps : StragglerReason::kUnsteady;
    }
    return;
  }
  steps.verdict = is_pair ? StragglerVerdict::kPair : StragglerVerdict::kStraggler;
  if (is_agreed) {
    steps.cpu_waits_can_explain = std::ranges::any_of(steps.ranking, [](const RankScore& rank) {
      return rank.straggler && rank.slow_by_cpu_waits == CpuWaitCause::kPossible;
    });
  } else {
    Withhold(StragglerReason::kContradiction, doubted, steps);
  }
  for (RankScore& rank : steps.ranking) rank.straggler &= is_agreed && !is_pair;
}

}  // namespace

std::string_view ToString(StragglerVerdict verdict) {
  switch (verdict) {
    case StragglerVerdict::kWithheld:
      return "withheld";
    case StragglerVerdict::kNone:
      return "none";
    case StragglerVerdict::kStraggler:
      return "straggler";
    case StragglerVerdict::kPair:
      return "pair";
  }
  return "";
}

std::string_view ToString(CpuWaitCause cause) {
  switch (cause) {
    case CpuWaitCause::kUnknown:
      return "unknown";
    case CpuWaitCause::kNo:
      return "no";
    case CpuWaitCause::kPossible:
      return "possible";
  }
  return "";
}

std::string_view ToString(StragglerReason reason) {
  switch (reason) {
    case StragglerReason::kNone:
      return "";
    case StragglerReason::kTooFewRanks:
      return "too_few_ranks";
    case StragglerReason::kTooFewSteps:
      return "too_few_steps";
    case StragglerReason::kNoCollectives:
      return "no_collectives";
    case StragglerReason::kNoMatches:
      return "no_matches";
    case StragglerReason::kWithinNoise:
      return "within_noise";
    case StragglerReason::kContradiction:
      return "contradiction";
    case StragglerReason::kHiddenWait:
      return "hidden_wait";
    case StragglerReason::kSpread:
      return "spread";
    case StragglerReason::kUnsteady:
      return "unsteady";
    case StragglerReason::kFewSteps:
      return "few_steps";
    case StragglerReason::kCpuWaits:
      return "cpu_waits";
  }
  return "";
}

std::string_view TextOf(StragglerReason reason) {
  switch (reason) {
    case StragglerReason::kNone:
      return "";
    case StragglerReason::kTooFewRanks:
      return "there is only one rank to compare";
    case StragglerReason::kTooFewSteps:
      return "the ranks have fewer than 3 steps in common";
    case StragglerReason::kNoCollectives:
      return "no collectives were recorded, so a rank that waits looks like one that works";
    case StragglerReason::kNoMatches:
      return "no completed collective of one rank was found in another, so a rank that waits looks "
             "like one that works";
    case StragglerReason::kWithinNoise:
      return "the difference in own work is within the noise from step to step";
    case StragglerReason::kContradiction:
      return "the rank with the most own work is not the one that the others waited for";
    case StragglerReason::kHiddenWait:
      return "one rank arrives late at collectives, but the others show no wait for it";
    case StragglerReason::kSpread:
      return "ranks differ in own work in most steps, but none is an outlier";
    case StragglerReason::kUnsteady:
      return "ranks wait for each other: none causes two thirds of the waiting";
    case StragglerReason::kFewSteps:
      return "the ranks wait for one of them, but not in most steps";
    case StragglerReason::kCpuWaits:
      return "ranks waited for a CPU, which can explain how they differ: other processes, or more "
             "threads than CPUs, on a node";
  }
  return "";
}

int64_t UsualPeerWait(const GroupSteps& steps) {
  std::vector<int64_t> waits_ns;
  for (const RankScore& rank : steps.ranking) {
    if (!rank.straggler) waits_ns.push_back(rank.peer_wait_ns);
  }
  return Median(waits_ns);
}

std::string SlowStepsText(const RankScore& rank) {
  if (rank.slow_steps.empty()) return "";
  constexpr size_t kMostNumbers = 8;
  std::string text = StrCat("in ", rank.slow_steps.size(), " of ", rank.step_count, " steps, by ");
  // Nearly the same in each.
  if (rank.least_slow_step_delay_ns >= rank.most_slow_step_delay_ns / 5 * 4) {
    StrAppend(&text, FormatNs(rank.slow_step_delay_ns), rank.slow_steps.size() > 1 ? " each" : "");
  } else {
    StrAppend(&text, FormatNs(rank.slow_step_delay_ns), " on average (",
              FormatNs(rank.least_slow_step_delay_ns), " to ",
              FormatNs(rank.most_slow_step_delay_ns), ")");
  }
  std::string which;
  if (rank.slow_step_period == 2) which = "every other step";
  if (rank.slow_step_period == 3) which = "every 3rd step";
  if (rank.slow_step_period > 3) which = StrCat("one step of ", rank.slow_step_period);
  const bool has_numbers = rank.slow_steps.size() <= kMostNumbers && rank.slow_steps.front() >= 0;
  if (has_numbers) {
    StrAppend(&which, !which.empty() ? ": " : rank.slow_steps.size() > 1 ? "steps " : "step ");
    for (size_t i = 0; i < rank.slow_steps.size(); ++i) {
      StrAppend(&which, i == 0 ? "" : ", ", rank.slow_steps[i]);
    }
  }
  return which.empty() ? text : StrCat(text, " (", which, ")");
}

GroupSteps CompareSteps(std::span<const CollectiveTable* const> tables,
                        std::span<const MatchedCollective> matches) {
  GroupSteps steps;
  steps.members.resize(tables.size());
  steps.matched_count = std::ssize(matches);
  steps.blames = BlamesOf(tables, matches);
  Waits waits = WaitsOf(tables, matches, steps.blames);
  const PeerWaits peer_waits = PeerWaitsOf(tables);
  const bool has_one_peer = tables.size() == 2;
  if (has_one_peer) BlameThePeer(peer_waits, waits);
  for (size_t member = 0; member < tables.size(); ++member) {
    if (tables[member] == nullptr) continue;
    steps.has_collectives |= !tables[member]->rows.empty();
    steps.members[member] =
        StepsOf(*tables[member], waits[member], peer_waits[member], has_one_peer);
  }
  steps.rows = RowsOf(steps.members);

  const std::vector<std::vector<RankStep>> common = CommonSteps(steps.members);
  for (size_t member = 0; member < common.size(); ++member) {
    const std::vector<RankStep>& of_member = common[member];
    if (of_member.empty()) continue;
    if (steps.ranking.empty()) {
      for (const RankStep& step : of_member) steps.common_steps.push_back(step.step);
    }
    RankScore rank = {.member = member,
                      .step_count = std::ssize(of_member),
                      .duration_ns = MedianOf(of_member, &RankStep::duration_ns),
                      .own_ns = MedianOf(of_member, &RankStep::own_ns),
                      .transfer_ns = MedianOf(of_member, &RankStep::transfer_ns),
                      .wait_ns = MedianOf(of_member, &RankStep::wait_ns),
                      .peer_wait_ns = MedianOf(of_member, &RankStep::peer_wait_ns)};
    std::vector<int64_t> more_own_ns = MoreThanOthers(common, member, &OwnWork);
    rank.is_consistent = IsBeyondNoise(more_own_ns, rank.duration_ns);
    rank.more_own_ns = Median(more_own_ns);
    steps.ranking.push_back(rank);
  }
  steps.enough_ranks = std::ssize(steps.ranking) >= kFewestForStragglers;
  CountLateArrivals(steps.blames, steps.common_steps, steps.ranking);
  SumCausedWaits(common, steps.ranking);
  WeighCpuWaits(common, steps.ranking);
  FindDelays(common, UsualDuration(steps.ranking), steps.ranking);
  Score(steps.ranking);
  steps.is_pipeline = IsPipeline(common);
  Judge(steps);
  std::stable_sort(
      steps.ranking.begin(), steps.ranking.end(), [](const RankScore& a, const RankScore& b) {
        const auto key = [](const RankScore& rank) {
          const int64_t in_steps_ns = rank.is_slow_in_steps ? rank.mean_caused_wait_ns : -1;
          return std::tuple(rank.straggler, in_steps_ns, rank.caused_wait_ns,
                            rank.mean_caused_wait_ns, rank.own_ns);
        };
        return key(a) > key(b);
      });
  std::stable_sort(steps.blames.begin(), steps.blames.end(),
                   [](const CollectiveBlame& a, const CollectiveBlame& b) {
                     return a.total_wait_ns > b.total_wait_ns;
                   });
  if (steps.blames.size() > kMostBlames) steps.blames.resize(kMostBlames);
  return steps;
}

}  // namespace profd::report
