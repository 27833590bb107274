#include "daemon/report/diff/step_change.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"
#include "daemon/report/findings/rules.h"

namespace profd::report {
namespace {

constexpr double kNormalQuantile95 = 1.959964;  // Two-sided.
// Student's, for 1 degree of freedom and on.
constexpr std::array<double, 10> kStudentQuantiles95 = {12.706205, 4.302653, 3.182446, 2.776445,
                                                        2.570582,  2.446912, 2.364624, 2.306004,
                                                        2.262157,  2.228139};
// Pairs grow with the product: 65,536 at most. The newest steps of longer captures count.
constexpr size_t kMostSteps = 256;

std::vector<int64_t> Valid(const std::vector<int64_t>& times_ns) {
  std::vector<int64_t> valid;
  std::ranges::copy_if(times_ns, std::back_inserter(valid), [](int64_t ns) { return ns > 0; });
  if (valid.size() > kMostSteps) {
    valid.erase(valid.begin(), valid.end() - static_cast<std::ptrdiff_t>(kMostSteps));
  }
  return valid;
}

// log(after) - log(before) of all pairs, in order.
std::vector<double> Differences(const std::vector<int64_t>& before,
                                const std::vector<int64_t>& after) {
  std::vector<double> differences;
  differences.reserve(before.size() * after.size());
  for (const int64_t first : before) {
    for (const int64_t second : after) {
      differences.push_back(std::log(static_cast<double>(second) / static_cast<double>(first)));
    }
  }
  std::ranges::sort(differences);
  return differences;
}

double StudentQuantile95(size_t degrees) {
  if (degrees <= kStudentQuantiles95.size()) return kStudentQuantiles95[degrees - 1];
  // Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5; off by less than 1e-5 here.
  constexpr double z = kNormalQuantile95;
  const auto n = static_cast<double>(degrees);
  return z + (std::pow(z, 3) + z) / (4 * n) +
         (5 * std::pow(z, 5) + 16 * std::pow(z, 3) + 3 * z) / (96 * n * n) +
         (3 * std::pow(z, 7) + 19 * std::pow(z, 5) + 17 * std::pow(z, 3) - 15 * z) /
             (384 * n * n * n);
}

// How many of the pairs lie outside of the interval at either end; 0: there are too few steps.
size_t PairsOutside(size_t before, size_t after) {
  const auto m = static_cast<double>(before);
  const auto n = static_cast<double>(after);
  const double outside = m * n / 2 - kNormalQuantile95 * std::sqrt(m * n * (m + n + 1) / 12);
  return outside < 1 ? 0 : static_cast<size_t>(outside);
}

std::string Percent(double share) { return absl::StrFormat("%+.1f", 100 * share); }

bool IsOfSeveral(const StepChange& change) {
  return change.before_captures > 1 || change.after_captures > 1;
}

std::string IntervalOf(const StepChange& change) {
  const std::string interval = StrCat(Percent(change.low), " … ", Percent(change.high), " %; ");
  if (IsOfSeveral(change)) {
    return StrCat(interval, FormatCountOf(change.before_captures, "capture", "captures"),
                  " before, ", change.after_captures, " after");
  }
  return StrCat(interval, FormatCountOf(change.before_count, "step", "steps"), " before, ",
                change.after_count, " after");
}

// The valid times of each capture that has any.
struct Sample {
  std::vector<std::vector<int64_t>> times_ns;
  int64_t step_count = 0;
  double waited_share = 0;  // Their mean.
};

Sample SampleOf(std::span<const RecordedSteps> captures) {
  Sample sample;
  for (const RecordedSteps& steps : captures) {
    std::vector<int64_t> times_ns = Valid(steps.times_ns);
    if (times_ns.empty()) continue;
    sample.step_count += std::ssize(times_ns);
    sample.waited_share += std::clamp(steps.waited_share, 0.0, 1.0);
    sample.times_ns.push_back(std::move(times_ns));
  }
  if (!sample.times_ns.empty()) {
    sample.waited_share /= static_cast<double>(sample.times_ns.size());
  }
  return sample;
}

std::vector<int64_t> MediansOf(const Sample& sample) {
  std::vector<int64_t> medians;
  medians.reserve(sample.times_ns.size());
  for (std::vector<int64_t> times_ns : sample.times_ns) medians.push_back(Median(times_ns));
  return medians;
}

// Of a capture on each side.
void CompareSteps(const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                  StepChange& change) {
  std::vector<double> pairs = Differences(before, after);
  change.change = std::expm1(Median(pairs));
  const size_t outside = PairsOutside(before.size(), after.size());
  if (outside == 0) return;
  std::ranges::sort(pairs);  // Median() reorders them.
  change.low = std::expm1(pairs[outside - 1]);
  change.high = std::expm1(pairs[pairs.size() - outside]);
}

// Of three captures or more.
void CompareMedians(const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                    StepChange& change) {
  struct Logs {
    double count = 0;
    double mean = 0;
    double squares = 0;  // Of the differences from the mean.
  };
  const auto logs_of = [](const std::vector<int64_t>& medians) {
    Logs logs = {.count = static_cast<double>(medians.size())};
    for (const int64_t ns : medians) logs.mean += std::log(static_cast<double>(ns)) / logs.count;
    for (const int64_t ns : medians) {
      logs.squares += std::pow(std::log(static_cast<double>(ns)) - logs.mean, 2);
    }
    return logs;
  };
  const Logs first = logs_of(before);
  const Logs second = logs_of(after);
  const size_t degrees = before.size() + after.size() - 2;
  const double variance = (first.squares + second.squares) / static_cast<double>(degrees);
  const double error = std::sqrt(variance * (1 / first.count + 1 / second.count));
  const double shift = second.mean - first.mean;
  change.change = std::expm1(shift);
  change.low = std::expm1(shift - StudentQuantile95(degrees) * error);
  change.high = std::expm1(shift + StudentQuantile95(degrees) * error);
}

}  // namespace

std::string_view ToString(StepVerdict verdict) {
  switch (verdict) {
    case StepVerdict::kUnknown:
      return "unknown";
    case StepVerdict::kSame:
      return "same";
    case StepVerdict::kFaster:
      return "faster";
    case StepVerdict::kSlower:
      return "slower";
  }
  return "unknown";
}

StepChange MeasureStepChange(std::span<const RecordedSteps> before,
                             std::span<const RecordedSteps> after) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const Sample first = SampleOf(before);
  const Sample second = SampleOf(after);
  StepChange change = {.before_captures = std::ssize(first.times_ns),
                       .after_captures = std::ssize(second.times_ns),
                       .before_count = first.step_count,
                       .after_count = second.step_count,
                       .change = kNaN,
                       .low = kNaN,
                       .high = kNaN};
  std::vector<int64_t> medians_before = MediansOf(first);
  std::vector<int64_t> medians_after = MediansOf(second);
  change.before_median_ns = Median(medians_before);
  change.after_median_ns = Median(medians_after);
  if (medians_before.empty() || medians_after.empty()) return change;
  if (IsOfSeveral(change)) {
    CompareMedians(medians_before, medians_after, change);
  } else {
    CompareSteps(first.times_ns.front(), second.times_ns.front(), change);
  }
  if (std::isnan(change.low)) return change;
  const double least = IsOfSeveral(change) ? 0 : kLeastChange;
  const auto verdict_of = [&](double low, double high) {
    if (std::abs(change.change) < least) return StepVerdict::kSame;
    return low > 0 ? StepVerdict::kSlower : high < 0 ? StepVerdict::kFaster : StepVerdict::kSame;
  };
  // Without its waits, each side is faster by that share at most.
  const double low = (1 + change.low) * (1 - second.waited_share) - 1;
  const double fastest_before = 1 - first.waited_share;
  const double high = fastest_before > 0 ? (1 + change.high) / fastest_before - 1
                                         : std::numeric_limits<double>::infinity();
  change.verdict = verdict_of(low, high);
  change.waits_can_explain = change.verdict != verdict_of(change.low, change.high);
  return change;
}

std::string DescribeStepChange(const StepChange& change) {
  const std::string before = TimeText(change.before_median_ns);
  const std::string after = TimeText(change.after_median_ns);
  switch (change.verdict) {
    case StepVerdict::kUnknown:
      if (change.before_count == 0 || change.after_count == 0) {
        return StrCat("Whether steps take longer is unknown: there are no steps ",
                      change.before_count == 0 ? "before" : "after");
      }
      return StrCat("Whether steps take longer is unknown: ", change.before_count, " before and ",
                    change.after_count, " after are too few; take 5 or more of each");
    case StepVerdict::kSame:
      if (change.waits_can_explain) {
        return StrCat("A step takes ", after, " instead of ", before, " (", IntervalOf(change),
                      "), but waits for a CPU can explain it");
      }
      return StrCat("Steps take as long as before, within noise: ", after, ", and ", before,
                    " before (", IntervalOf(change), ")");
    case StepVerdict::kFaster:
    case StepVerdict::kSlower:
      return StrCat("A step takes ", PercentText(std::abs(change.change)),
                    change.verdict == StepVerdict::kSlower ? " longer" : " less time", " (",
                    IntervalOf(change), "): ", after, " instead of ", before, " at the median");
  }
  return "";
}

}  // namespace profd::report
