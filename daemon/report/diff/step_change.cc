#include "daemon/report/diff/step_change.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"
#include "daemon/report/findings/rules.h"

namespace profd::report {
namespace {

constexpr double kNormalQuantile95 = 1.959964;  // Two-sided.
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

// How many of the pairs lie outside of the interval at either end; 0: there are too few steps.
size_t PairsOutside(size_t before, size_t after) {
  const auto m = static_cast<double>(before);
  const auto n = static_cast<double>(after);
  const double outside = m * n / 2 - kNormalQuantile95 * std::sqrt(m * n * (m + n + 1) / 12);
  return outside < 1 ? 0 : static_cast<size_t>(outside);
}

std::string Percent(double share) { return absl::StrFormat("%+.1f", 100 * share); }

std::string IntervalOf(const StepChange& change) {
  return StrCat(Percent(change.low), " … ", Percent(change.high), " %; ",
                FormatCountOf(change.before_count, "step", "steps"), " before, ",
                change.after_count, " after");
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

StepChange MeasureStepChange(const RecordedSteps& before, const RecordedSteps& after) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<int64_t> first = Valid(before.times_ns);
  std::vector<int64_t> second = Valid(after.times_ns);
  StepChange change = {.before_count = std::ssize(first),
                       .after_count = std::ssize(second),
                       .change = kNaN,
                       .low = kNaN,
                       .high = kNaN};
  const size_t outside = PairsOutside(first.size(), second.size());
  std::vector<double> pairs = Differences(first, second);
  change.before_median_ns = Median(first);
  change.after_median_ns = Median(second);
  if (pairs.empty()) return change;
  change.change = std::expm1(Median(pairs));
  if (outside == 0) return change;
  std::ranges::sort(pairs);  // Median() reorders them.
  change.low = std::expm1(pairs[outside - 1]);
  change.high = std::expm1(pairs[pairs.size() - outside]);
  const auto verdict_of = [&](double low, double high) {
    if (std::abs(change.change) < kLeastChange) return StepVerdict::kSame;
    return low > 0 ? StepVerdict::kSlower : high < 0 ? StepVerdict::kFaster : StepVerdict::kSame;
  };
  // Without its waits, each side is faster by that share at most.
  const double low = (1 + change.low) * (1 - std::clamp(after.waited_share, 0.0, 1.0)) - 1;
  const double fastest_before = 1 - std::clamp(before.waited_share, 0.0, 1.0);
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
        return StrCat("Whether steps take longer is unknown: the ",
                      change.before_count == 0 ? "first" : "second", " capture has no steps");
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
                    change.verdict == StepVerdict::kSlower ? " longer" : " less time", ": ", after,
                    " instead of ", before, " (", IntervalOf(change), ")");
  }
  return "";
}

}  // namespace profd::report
