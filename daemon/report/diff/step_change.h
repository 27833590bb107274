// StepChange: how much longer the steps of some captures take than those of others, as an interval.
//
// Two captures. The estimate is the Hodges-Lehmann shift of the logarithms of step times: the
// median of log(after) - log(before) over all pairs, so that one odd step shifts nothing. The
// interval is the matching inversion of the Mann-Whitney test (Hollander, Wolfe, Chicken:
// Nonparametric Statistical Methods, 3rd ed., sections 4.2-4.3): two order statistics of the same
// pairs.
//
// That interval is about the recorded steps. Two runs of one program differ by more: in clocks, in
// temperature, and in what else their machines do. So a difference below kLeastChange counts as
// none. What remains is unknown to any comparison of two captures.
//
// More captures show how much runs differ. Each then is one observation, the logarithm of its
// median step, and the interval is Student's for two samples, of which the variance is taken as
// one, so that one capture can be compared with several (Kalibera, Jones: Rigorous Benchmarking in
// Reasonable Time, ISMM 2013, for why runs and not their steps are what to repeat). A difference
// counts however small it is.
//
// What waits for a CPU can explain is taken away from what is certain.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_DIFF_STEP_CHANGE_H_
#define PROFD_DAEMON_REPORT_DIFF_STEP_CHANGE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace profd::report {

// Of a capture: times of complete steps, ns, and how much of the windows the threads of the program
// waited for a CPU, at most, 0..1 (DelayShare() of slowdown.h). Times that are not above 0 are left
// out.
struct RecordedSteps {
  std::vector<int64_t> times_ns;
  double waited_share = 0;
};

enum class StepVerdict {
  kUnknown,  // Too few steps, or none.
  kSame,     // They do not differ, beyond noise.
  kFaster,   // The later ones are faster,
  kSlower,   // or slower.
};
std::string_view ToString(StepVerdict verdict);  // "slower"

// A share of the step time: what two captures may differ by without a cause in the program.
inline constexpr double kLeastChange = 0.02;

struct StepChange {
  StepVerdict verdict = StepVerdict::kUnknown;
  int64_t before_captures = 0;  // With steps.
  int64_t after_captures = 0;
  int64_t before_count = 0;  // Of their steps.
  int64_t after_count = 0;
  int64_t before_median_ns = 0;  // Of the captures' medians. 0: no steps. Likewise the next.
  int64_t after_median_ns = 0;
  // after / before - 1, and the interval that holds it in 95 % of pairs of captures of steady
  // programs. NaN: not known.
  double change = 0;
  double low = 0;
  double high = 0;
  bool waits_can_explain = false;  // With kSame: without waits for a CPU the verdict would differ.
};

// Captures without steps do not count.
StepChange MeasureStepChange(std::span<const RecordedSteps> before,
                             std::span<const RecordedSteps> after);

// "A step takes 12.4% longer (+9.1 ... +15.2 %; 20 steps before, 20 after): 23.1 ms instead of 20.5
// ms at the median", without a full stop. Of several captures it counts captures.
std::string DescribeStepChange(const StepChange& change);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_DIFF_STEP_CHANGE_H_
