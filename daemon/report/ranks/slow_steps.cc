#include "daemon/report/ranks/slow_steps.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "daemon/base/median.h"
#include "daemon/report/ranks/other_ranks.h"

namespace profd::report {
namespace {

// The chance that equal ranks look like this, at most.
constexpr double kMostChance = 0.002;
// Two sets of delays are tested: considerable ones, and long ones.
constexpr int kTests = 2;
constexpr double kLeastDelay = 0.1;  // Of a step.
constexpr double kLeastShareOfDelays = 2.0 / 3;
constexpr double kLeastShareOfTime = 0.03;
constexpr size_t kFewestSlowSteps = 3;
// Of a long delay.
constexpr double kLeastOfThird = 0.5;
// In slow steps the others work longer by less than this share of the delay: they have no part in
// what makes the rank slow.
constexpr double kMostOfOthers = 0.25;

using Members = std::vector<std::vector<RankStep>>;
using Delays = std::vector<std::vector<int64_t>>;

// By member that was waited for, then by step.
Delays LongestWaits(const Members& members) {
  Delays longest_ns(members.size());
  for (size_t member = 0; member < members.size(); ++member) {
    longest_ns[member].resize(members[member].size());
  }
  for (const std::vector<RankStep>& steps : members) {
    for (size_t i = 0; i < steps.size(); ++i) {
      for (const auto& [last, wait_ns] : steps[i].wait_ns_by_last) {
        if (i >= longest_ns[last].size()) continue;  // A member without steps.
        longest_ns[last][i] = std::max(longest_ns[last][i], wait_ns);
      }
    }
  }
  return longest_ns;
}

double LogOfChoices(double from, double chosen) {
  return std::lgamma(from + 1) - std::lgamma(chosen + 1) - std::lgamma(from - chosen + 1);
}

// The chance of at least `hits` in `tries`, each of probability `share`, 0 < share < 1.
double ChanceOfAtLeast(size_t hits, size_t tries, double share) {
  double chance = 0;
  for (size_t i = hits; i <= tries; ++i) {
    const auto at = static_cast<double>(i);
    const auto all = static_cast<double>(tries);
    chance +=
        std::exp(LogOfChoices(all, at) + at * std::log(share) + (all - at) * std::log1p(-share));
  }
  return std::min(chance, 1.0);
}

// Which steps, of `count`, are each `period`th one, from the first of them to the last? 0: none.
int64_t PeriodOf(const std::vector<size_t>& steps, size_t count) {
  if (steps.size() < kFewestSlowSteps) return 0;
  const size_t period = steps[1] - steps[0];
  if (period < 2 || steps.front() >= period || steps.back() + period < count) return 0;
  for (size_t i = 1; i < steps.size(); ++i) {
    if (steps[i] - steps[i - 1] != period) return 0;
  }
  return static_cast<int64_t>(period);
}

// The chance that as many steps, at random, have a period.
double ChanceOfPeriod(size_t hits, size_t count) {
  double patterns = 0;
  for (size_t period = 2; period * (hits - 1) < count; ++period) {
    for (size_t first = 0; first < period; ++first) {
      if (first < count && (count - 1 - first) / period + 1 == hits) ++patterns;
    }
  }
  const double choices = LogOfChoices(static_cast<double>(count), static_cast<double>(hits));
  return std::min(patterns * std::exp(-choices), 1.0);
}

// Whether the others work as usual in the slow steps of a rank.
bool OthersWorkAsUsual(const Members& members, const SlowSteps& slow) {
  std::vector<int64_t> in_slow_ns;
  std::vector<int64_t> in_rest_ns;
  for (size_t step = 0; step < members[slow.member].size(); ++step) {
    const bool is_slow = std::ranges::binary_search(slow.steps, step);
    (is_slow ? in_slow_ns : in_rest_ns)
        .push_back(MedianOfOthers(members, slow.member, step, &OwnWork));
  }
  std::vector<int64_t> delays = slow.delays;
  return !in_rest_ns.empty() && static_cast<double>(Median(in_slow_ns)) <=
                                    static_cast<double>(Median(in_rest_ns)) +
                                        kMostOfOthers * static_cast<double>(Median(delays));
}

double SumOf(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

class SlowStepsFinder {
 public:
  SlowStepsFinder(const Members& members, const Delays& delays) : members_(members) {
    for (size_t member = 0; member < members.size(); ++member) {
      if (members[member].empty()) continue;
      ++rank_count_;
      step_count_ = members[member].size();
      duration_ns_ = 0;
      for (const RankStep& step : members[member]) {
        duration_ns_ += static_cast<double>(step.duration_ns);
      }
    }
    for (size_t step = 0; step < step_count_; ++step) {
      Longest longest;
      for (size_t member = 0; member < members.size(); ++member) {
        if (members[member].empty() || delays[member][step] <= longest.delay_ns) continue;
        longest = {.member = member, .delay_ns = delays[member][step]};
      }
      longest_.push_back(longest);
    }
  }

  // Delays from `least_ns` on.
  std::vector<SlowSteps> Find(double least_ns) const {
    std::vector<SlowSteps> ranks(members_.size());
    for (size_t member = 0; member < ranks.size(); ++member) ranks[member].member = member;
    size_t count = 0;
    double all_ns = 0;
    for (size_t step = 0; step < longest_.size(); ++step) {
      const Longest& longest = longest_[step];
      if (longest.delay_ns <= 0 || static_cast<double>(longest.delay_ns) < least_ns) continue;
      ranks[longest.member].steps.push_back(step);
      ranks[longest.member].delays.push_back(longest.delay_ns);
      all_ns += static_cast<double>(longest.delay_ns);
      ++count;
    }
    std::erase_if(ranks, [](const SlowSteps& rank) { return rank.steps.empty(); });
    std::ranges::stable_sort(ranks, std::ranges::greater(),
                             [](const SlowSteps& rank) { return SumOf(rank.delays); });
    for (SlowSteps& rank : ranks) rank.period = PeriodOf(rank.steps, step_count_);
    // The fewest ranks that chance does not explain; at most half, since the others are usual.
    for (size_t size = 1; size <= rank_count_ / 2 && size <= ranks.size(); ++size) {
      const std::vector<SlowSteps> chosen(ranks.begin(),
                                          ranks.begin() + static_cast<ptrdiff_t>(size));
      if (!AreSlow(chosen, count, all_ns)) continue;
      for (size_t i = 0; i < size; ++i) ranks[i].is_chance = false;
      break;
    }
    return ranks;
  }

  // The third longest delay of a step; 0: there are fewer.
  double ThirdLongest() const {
    std::vector<int64_t> delays;
    for (const Longest& longest : longest_) delays.push_back(longest.delay_ns);
    std::ranges::sort(delays, std::ranges::greater());
    return delays.size() < kFewestSlowSteps ? 0 : static_cast<double>(delays[2]);
  }

 private:
  struct Longest {
    size_t member = 0;
    int64_t delay_ns = 0;
  };

  // `count`, `all_ns`: the steps with a delay and their sum, whichever rank caused it.
  bool AreSlow(const std::vector<SlowSteps>& ranks, size_t count, double all_ns) const {
    size_t hits = 0;
    double sum_ns = 0;
    for (const SlowSteps& rank : ranks) {
      // One of several has its part in it.
      if (rank.steps.size() < kFewestSlowSteps || 2 * rank.steps.size() * ranks.size() < count) {
        return false;
      }
      hits += rank.steps.size();
      sum_ns += SumOf(rank.delays);
    }
    if (static_cast<double>(hits) < kLeastShareOfDelays * static_cast<double>(count) ||
        sum_ns < kLeastShareOfDelays * all_ns || sum_ns < kLeastShareOfTime * duration_ns_) {
      return false;
    }
    const auto size = static_cast<double>(ranks.size());
    const auto all = static_cast<double>(rank_count_);
    double chance = ChanceOfAtLeast(hits, count, size / all);
    // Which ranks, and how many of them, is a choice.
    chance *= std::exp(LogOfChoices(all, size)) * size;
    chance = std::min(chance, 1.0);
    if (ranks.size() == 1 && ranks[0].period > 0 && OthersWorkAsUsual(members_, ranks[0])) {
      chance *= ChanceOfPeriod(hits, step_count_);
    }
    return kTests * chance <= kMostChance;
  }

  const Members& members_;
  std::vector<Longest> longest_;  // By step.
  size_t rank_count_ = 0;
  size_t step_count_ = 0;
  double duration_ns_ = 0;  // Of all steps, on one rank.
};

}  // namespace

std::vector<std::vector<int64_t>> DelaysOf(const std::vector<std::vector<RankStep>>& members) {
  const Delays longest_waits = LongestWaits(members);
  Delays delays(members.size());
  for (size_t member = 0; member < members.size(); ++member) {
    const std::vector<RankStep>& steps = members[member];
    delays[member].resize(steps.size());
    int64_t left_ns = 0;  // Own work of the step before that nobody waited for in it.
    for (size_t i = 0; i < steps.size(); ++i) {
      const int64_t more_ns =
          std::max<int64_t>(0, steps[i].own_ns - MedianOfOthers(members, member, i, &OwnWork));
      const int64_t wait_ns = longest_waits[member][i];
      const int64_t delay_ns = std::min(more_ns, wait_ns);
      delays[member][i] = delay_ns;
      // One step of windows without numbers is not known to follow another.
      if (i > 0 && steps[i - 1].step >= 0 && steps[i].step > 0 &&
          steps[i].step - 1 == steps[i - 1].step) {
        delays[member][i - 1] += std::min(left_ns, wait_ns - delay_ns);
      }
      left_ns = more_ns - delay_ns;
    }
  }
  return delays;
}

std::vector<SlowSteps> FindSlowSteps(const std::vector<std::vector<RankStep>>& members,
                                     int64_t step_ns) {
  const Delays delays = DelaysOf(members);
  const SlowStepsFinder finder(members, delays);
  const double least_ns = kLeastDelay * static_cast<double>(step_ns);
  std::vector<SlowSteps> found = finder.Find(least_ns);
  const bool is_found = !found.empty() && !found.front().is_chance;
  if (is_found && found.front().period > 0) return found;
  const double long_ns = kLeastOfThird * finder.ThirdLongest();
  if (long_ns <= least_ns) return found;
  std::vector<SlowSteps> with_long = finder.Find(long_ns);
  if (with_long.empty() || with_long.front().is_chance) return found;
  // Short delays may hide the pattern of the long ones.
  return is_found && with_long.front().period == 0 ? found : with_long;
}

}  // namespace profd::report
