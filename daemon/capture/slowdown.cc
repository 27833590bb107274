#include "daemon/capture/slowdown.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

// Two-sided, 97.5 %: there are two intervals, which both hold in 95 % of captures (Bonferroni).
constexpr double kNormalQuantile = 2.241403;
constexpr double kMostAutocorrelation = 0.95;
// Standard errors that are added to it: underestimated, it makes the interval too narrow.
constexpr double kAutocorrelationErrors = 2;
// Fewer on a side of the window show neither its level nor its drift.
constexpr size_t kFewestStepsOfSide = 5;
constexpr size_t kFewestStepsInWindow = 3;
// One step in so many may be odd.
constexpr size_t kOddSteps = 10;
// Pairs grow with the product. The newest steps of longer series count.
constexpr size_t kMostStepsOfSide = 256;
constexpr size_t kMostLags = 10;
// Of the time: a thread that runs or waits for less hardly runs.
constexpr double kLeastUse = 0.1;
// With so many, more are not asked for: it is the program that varies.
constexpr size_t kStepsThatTell = 20;

using Logs = std::vector<double>;

Logs LogsOf(const std::vector<int64_t>& times_ns) {
  Logs logs;
  for (const int64_t time_ns : times_ns) {
    if (time_ns > 0) logs.push_back(std::log(static_cast<double>(time_ns)));
  }
  if (logs.size() > kMostStepsOfSide) logs.erase(logs.begin(), logs.end() - kMostStepsOfSide);
  return logs;
}

// Each value's rank among those of both series, less the mean of its own series: what is left has
// neither outliers nor the difference between the two.
std::pair<Logs, Logs> CenteredRanks(const Logs& first, const Logs& second) {
  Logs sorted = first;
  sorted.insert(sorted.end(), second.begin(), second.end());
  std::ranges::sort(sorted);
  const auto ranks_of = [&sorted](const Logs& values) {
    Logs ranks;
    double sum = 0;
    for (const double value : values) {
      const auto [low, high] = std::equal_range(sorted.begin(), sorted.end(), value);
      ranks.push_back(static_cast<double>((low - sorted.begin()) + (high - sorted.begin())) / 2);
      sum += ranks.back();
    }
    for (double& rank : ranks) rank -= sum / static_cast<double>(values.size());
    return ranks;
  };
  return {ranks_of(first), ranks_of(second)};
}

double LagProduct(const Logs& ranks, size_t lag) {
  double sum = 0;
  for (size_t i = lag; i < ranks.size(); ++i) sum += ranks[i] * ranks[i - lag];
  return sum;
}

// How steps of the process resemble the steps just before them.
class Autocorrelation {
 public:
  Autocorrelation(const Logs& before, const Logs& after) {
    const auto [first, second] = CenteredRanks(before, after);
    const auto count = static_cast<double>(first.size() + second.size());
    const double variance = LagProduct(first, 0) + LagProduct(second, 0);
    if (variance <= 0) return;  // All alike.
    const size_t most_lags = std::min(kMostLags, (first.size() + second.size()) / 4);
    for (size_t lag = 1; lag <= std::max<size_t>(most_lags, 1); ++lag) {
      const double measured = (LagProduct(first, lag) + LagProduct(second, lag)) / variance;
      const double corrected = measured + (1 + 3 * std::max(measured, 0.0)) / count;
      lags_.push_back(std::clamp(corrected, 0.0, kMostAutocorrelation));
    }
    const double error = std::sqrt(std::max(0.0, 1 - lags_[0] * lags_[0]) / count);
    neighbor_ = std::min(lags_[0] + kAutocorrelationErrors * error, kMostAutocorrelation);
  }

  // How many independent steps tell as much as `count` neighbors. The larger inflation of two
  // models counts: that all resemblance comes from the neighbor, and what each lag shows.
  double IndependentOf(size_t count) const {
    const auto n = static_cast<double>(count);
    double by_neighbor = 1;
    double power = 1;
    for (size_t lag = 1; lag < count; ++lag) {
      power *= neighbor_;
      by_neighbor += 2 * (1 - static_cast<double>(lag) / n) * power;
    }
    double by_lags = 1;
    for (size_t lag = 1; lag < count && lag <= lags_.size(); ++lag) {
      by_lags += 2 * (1 - static_cast<double>(lag) / n) * lags_[lag - 1];
    }
    return std::max(1.0, n / std::max(by_neighbor, by_lags));
  }

 private:
  double neighbor_ = 0;
  std::vector<double> lags_;  // [0]: lag 1.
};

Logs SortedDifferences(std::span<const double> during, std::span<const double> around) {
  Logs differences;
  differences.reserve(during.size() * around.size());
  for (const double one : during) {
    for (const double other : around) differences.push_back(one - other);
  }
  std::ranges::sort(differences);
  return differences;
}

double MedianOfSorted(const Logs& sorted) {
  const size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[middle];
  return (sorted[middle - 1] + sorted[middle]) / 2;
}

struct Interval {
  double low = 0;
  double high = 0;
};

// nullopt: too few independent steps to bound it.
std::optional<Interval> ShiftOf(const Logs& during, const Logs& side, const Autocorrelation& like) {
  if (during.empty() || side.size() < kFewestStepsOfSide) return std::nullopt;
  const double n = like.IndependentOf(during.size());
  const double m = like.IndependentOf(side.size());
  const double share = 0.5 - kNormalQuantile * std::sqrt((m + n + 1) / (12 * m * n));
  const Logs differences = SortedDifferences(during, side);
  const auto rank = static_cast<int64_t>(share * static_cast<double>(differences.size()));
  if (rank < 1) return std::nullopt;
  const auto position = static_cast<size_t>(rank - 1);
  return Interval{.low = differences[position],
                  .high = differences[differences.size() - 1 - position]};
}

// All pairs but those with a few odd steps: one that waited for its user, some that only filled the
// launch queue. The slowest of the window count: recording may be why.
Interval RangeOfMost(Logs during, Logs around) {
  std::ranges::sort(during);
  std::ranges::sort(around);
  const size_t inside = during.size() / kOddSteps;
  const size_t outside = around.size() / kOddSteps;
  return {.low = during[inside] - around[around.size() - 1 - outside],
          .high = during.back() - around[outside]};
}

// How far `side`'s own change goes from its middle to that of the `during_count` steps next to it.
double DriftOver(const Logs& side, size_t during_count) {
  const std::span<const double> all(side);
  const size_t half = side.size() / 2;
  const double shift =
      MedianOfSorted(SortedDifferences(all.subspan(side.size() - half), all.first(half)));
  return std::fabs(shift) * static_cast<double>(side.size() + during_count) /
         static_cast<double>(side.size());
}

std::string Steps(int64_t count) { return StrCat(count, count == 1 ? " step" : " steps"); }

std::string SignedPercent(double share) {
  const double percent = std::round(1000 * share) / 10;
  return percent == 0 ? "0.0" : absl::StrFormat("%+.1f", percent);  // Never "-0.0".
}

std::string IntervalText(double estimate, double low, double high) {
  return StrCat(SignedPercent(estimate), " % (", SignedPercent(low), " … ", SignedPercent(high),
                " %)");
}

Interval Widened(Interval interval, double by) {
  return {.low = interval.low - by, .high = interval.high + by};
}

// Of the steps in the window against those around it, as logarithms; nullopt: not bounded.
std::optional<Interval> HullOf(const Logs& before, const Logs& during, const Logs& after,
                               const Autocorrelation& like) {
  const std::optional<Interval> from_before = ShiftOf(during, before, like);
  const std::optional<Interval> from_after = ShiftOf(during, after, like);
  if (from_before.has_value() && from_after.has_value()) {
    return Interval{.low = std::min(from_before->low, from_after->low),
                    .high = std::max(from_before->high, from_after->high)};
  }
  if (from_before.has_value()) return Widened(*from_before, DriftOver(before, during.size()));
  if (from_after.has_value()) return Widened(*from_after, DriftOver(after, during.size()));
  return std::nullopt;
}

void MeasureRemains(const Logs& before, const Logs& after, const Autocorrelation& like,
                    SlowdownRecord& result) {
  if (after.size() < kFewestStepsOfSide) return;
  const std::optional<Interval> shift = ShiftOf(after, before, like);
  if (!shift.has_value()) return;
  const Interval interval = Widened(*shift, DriftOver(before, after.size()));
  result.remains_known = true;
  result.remains_low = std::expm1(interval.low);
  result.remains_high = std::expm1(interval.high);
  result.remains = std::clamp(std::expm1(MedianOfSorted(SortedDifferences(after, before))),
                              result.remains_low, result.remains_high);
}

std::string DescribeRemains(const SlowdownRecord& slowdown) {
  if (!slowdown.remains_known) {
    return "; CUPTI stays in the process, and calls of CUDA cost more than before: how much is not "
           "known";
  }
  return StrCat("; CUPTI stays in the process: ",
                IntervalText(slowdown.remains, slowdown.remains_low, slowdown.remains_high),
                " in the ", Steps(slowdown.after_step_count), " after");
}

std::string PercentText(double share) { return absl::StrFormat("%.3g%%", 100 * std::abs(share)); }

// "2% longer", "0.8% less time"
std::string LongerText(double share) {
  return StrCat(PercentText(share), share < 0 ? " less time" : " longer");
}

// "the 43 steps before and the 20 after the recording"
std::string StepsAround(const SlowdownRecord& slowdown) {
  const int64_t before = slowdown.before_step_count;
  const int64_t after = slowdown.cupti_stays ? 0 : slowdown.after_step_count;
  if (after == 0) return StrCat("the ", Steps(before), " before the recording");
  if (before == 0) return StrCat("the ", Steps(after), " after the recording");
  return StrCat("the ", Steps(before), " before and the ", after, " after the recording");
}

std::string RemainsClause(const SlowdownRecord& slowdown) {
  if (!slowdown.remains_known) {
    return "; CUPTI stays in the process and makes calls of CUDA slower than before the recording, "
           "by an unknown amount";
  }
  return StrCat("; CUPTI stays in the process: the ", Steps(slowdown.after_step_count),
                " after the recording took ", LongerText(slowdown.remains),
                " than those before it (", LongerText(slowdown.remains_low), " to ",
                LongerText(slowdown.remains_high), ")");
}

// The sum of `waited_ns` of the threads that ran or waited, in the watched time.
template <typename WaitedNs>
double ShareOfWaits(const CpuRecord& cpu, WaitedNs waited_ns) {
  if (cpu.watched_ns <= 0) return 0;
  const auto watched_ns = static_cast<double>(cpu.watched_ns);
  double delay_ns = 0;
  for (const ThreadCpuRecord& thread : cpu.threads) {
    const double used_ns =
        static_cast<double>(thread.ran_ns) + static_cast<double>(thread.waited_ns);
    if (used_ns >= kLeastUse * watched_ns) delay_ns += static_cast<double>(waited_ns(thread));
  }
  return std::min(1.0, delay_ns / watched_ns);
}

}  // namespace

SlowdownRecord MeasureSlowdown(const StepTimes& times, bool cupti_stays) {
  const Logs before = LogsOf(times.before);
  const Logs during = LogsOf(times.during);
  const Logs after = LogsOf(times.after);
  SlowdownRecord result = {.before_step_count = static_cast<int64_t>(before.size()),
                           .during_step_count = static_cast<int64_t>(during.size()),
                           .after_step_count = static_cast<int64_t>(after.size()),
                           .cupti_stays = cupti_stays};
  const Autocorrelation like(before, after);
  if (cupti_stays) MeasureRemains(before, after, like, result);
  const Logs other_side = cupti_stays ? Logs() : after;
  if (during.empty()) {
    result.unknown_reason = "no complete step ran in the window";
    return result;
  }
  if (before.size() < kFewestStepsOfSide && other_side.size() < kFewestStepsOfSide) {
    result.unknown_reason =
        StrCat("only ", Steps(std::ssize(before)), " before",
               cupti_stays ? "" : StrCat(" and ", std::ssize(after), " after"),
               " the window are known; at least ", kFewestStepsOfSide, " are needed");
    return result;
  }
  std::optional<Interval> hull = HullOf(before, during, other_side, like);
  Logs around = before;
  around.insert(around.end(), other_side.begin(), other_side.end());
  const Logs differences = SortedDifferences(during, around);
  if (!hull.has_value() && during.size() >= kFewestStepsInWindow) {
    const Interval range = RangeOfMost(during, around);
    if (range.low <= 0 && range.high >= 0) hull = range;
  }
  if (!hull.has_value()) {
    result.unknown_reason =
        StrCat(Steps(std::ssize(during)), " in the window, compared with ", std::ssize(before),
               " before and ", std::ssize(other_side), " after, ",
               during.size() == 1 ? "is" : "are", " too few to tell recording from noise");
    return result;
  }
  const double shift = MedianOfSorted(differences);
  const Interval told = {.low = std::expm1(hull->low), .high = std::expm1(hull->high)};
  if (told.low <= 0 && told.high > kMuchSlower) {
    result.unknown_reason = StrCat(
        "step times vary too much (", SignedPercent(told.low), " … ", SignedPercent(told.high),
        " %; ", Steps(std::ssize(during)), ", compared with ", std::ssize(before), " before",
        cupti_stays ? "" : StrCat(" and ", std::ssize(other_side), " after"), ")",
        during.size() < kStepsThatTell ? ", record more steps" : "");
    return result;
  }
  result.low = told.low;
  result.high = told.high;
  result.estimate = std::clamp(std::expm1(shift), result.low, result.high);
  result.known = true;
  return result;
}

std::optional<int64_t> WaitsAsAfter(const CpuRecord& cpu, const ThreadCpuRecord& thread) {
  const auto ran_ns = static_cast<double>(thread.after_ran_ns);
  const auto waited_ns = static_cast<double>(thread.after_waited_ns);
  if (cpu.after_watched_ns <= 0 ||
      ran_ns + waited_ns < kLeastUse * static_cast<double>(cpu.after_watched_ns)) {
    return std::nullopt;
  }
  const auto most_ns = static_cast<double>(thread.waited_ns);
  // One that got no CPU at all then may have waited for all that it waited before.
  const double usual_ns =
      ran_ns <= 0 ? most_ns : static_cast<double>(thread.ran_ns) * waited_ns / ran_ns;
  return static_cast<int64_t>(std::min(usual_ns, most_ns));
}

double DelayShare(const CpuRecord& cpu) {
  return ShareOfWaits(cpu, [](const ThreadCpuRecord& thread) { return thread.waited_ns; });
}

double DelayShareBeyondAfter(const CpuRecord& cpu) {
  return ShareOfWaits(cpu, [&cpu](const ThreadCpuRecord& thread) {
    return thread.waited_ns - WaitsAsAfter(cpu, thread).value_or(0);
  });
}

void DiscountWaits(double waited_share, SlowdownRecord& slowdown) {
  if (!slowdown.known || slowdown.low <= 0 || !(waited_share > 0)) return;
  const double low = (1 + slowdown.low) * (1 - std::min(waited_share, 1.0)) - 1;
  if (low > 0 || slowdown.high <= kMuchSlower) {
    // Waits take away what was certain, and make nothing faster.
    slowdown.low = std::max(low, 0.0);
    return;
  }
  slowdown.unknown_reason =
      StrCat(Steps(slowdown.during_step_count), " took longer (",
             IntervalText(slowdown.estimate, slowdown.low, slowdown.high), ", compared with ",
             slowdown.before_step_count, " before",
             slowdown.cupti_stays ? "" : StrCat(" and ", slowdown.after_step_count, " after"),
             "), but threads of the process waited for a CPU, which can explain up to ",
             PercentText(waited_share), " of the window");
  slowdown.known = false;
  slowdown.estimate = slowdown.low = slowdown.high = 0;
}

std::string DescribeSlowdown(const SlowdownRecord& slowdown) {
  const std::string remains = slowdown.cupti_stays ? DescribeRemains(slowdown) : std::string();
  if (!slowdown.known) {
    return StrCat("unknown: ",
                  slowdown.unknown_reason.empty() ? "it was not measured" : slowdown.unknown_reason,
                  remains);
  }
  std::string text = IntervalText(slowdown.estimate, slowdown.low, slowdown.high);
  if (slowdown.low <= 0) StrAppend(&text, slowdown.high < 0 ? ", no slow-down" : ", within noise");
  StrAppend(&text, "; ", Steps(slowdown.during_step_count), ", compared with ",
            slowdown.before_step_count, " before");
  if (!slowdown.cupti_stays) StrAppend(&text, " and ", slowdown.after_step_count, " after");
  return StrCat(text, remains);
}

std::string SlowdownClause(const SlowdownRecord& slowdown) {
  const std::string remains = slowdown.cupti_stays ? RemainsClause(slowdown) : std::string();
  if (!slowdown.known) {
    return StrCat("slow-down through recording unknown: ",
                  slowdown.unknown_reason.empty() ? "it was not measured" : slowdown.unknown_reason,
                  remains);
  }
  const bool slower = slowdown.low > 0;
  const bool faster = slowdown.high < 0;
  std::string text;
  if (!slower) {
    text = faster ? "recording did not slow the program down: "
                  : "no slow-down through recording is certain: ";
  }
  StrAppend(&text,
            slowdown.during_step_count == 1
                ? std::string("the recorded step took ")
                : StrCat("the ", slowdown.during_step_count, " recorded steps took "),
            LongerText(slowdown.estimate), " than ", StepsAround(slowdown));
  if (slower) {
    StrAppend(&text, " (at least ", PercentText(slowdown.low), ", at most ",
              PercentText(slowdown.high), ")");
  } else {
    StrAppend(&text, " (", faster ? "" : "within noise: ", LongerText(slowdown.low), " to ",
              LongerText(slowdown.high), ")");
  }
  return StrCat(text, remains);
}

}  // namespace profd
