// MeasureSlowdown tells recording's cost from noise: how much longer steps took in the window than
// around it, as an interval that covers the true ratio in 95 % of captures.
//
// Method. Times are compared by rank, so that an evaluation step, a checkpoint, a recompilation, or
// two kinds of steps shift nothing:
//   1. The point estimate is the Hodges-Lehmann shift of the logarithms of step times: the median
//      of log(during) - log(around) over all pairs.
//   2. The interval is the matching inversion of the Mann-Whitney test: two order statistics of the
//      same pairs (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd ed.,
//      §4.2-4.3).
//   3. The test assumes independent steps, but neighbors are alike. Sample sizes are divided by the
//      variance inflation 1 + 2 * sum((1 - k/n) * rho_k) (Bayley and Hammersley 1946). The
//      autocorrelation rho comes from ranks of the steps around the window. It is corrected for the
//      bias of short series (Marriott and Pope 1954) and raised by two standard errors.
//   4. The steps before and those after are compared one by one, and the result is the hull of both
//      intervals: only what exceeds both sides can be due to recording, not to drift.
//   5. With steps on one side only, drift is estimated from the two halves of that side and
//      extrapolated to the window; the interval grows by it.
//   6. CUPTI that stays in the process slows the steps after the window, too. Then those before it
//      are the only side. What remains is the shift of the steps after against those before, with
//      the drift of the steps before.
// Where the corrected sizes cannot bound the ratio, the interval is the range of pairs, if that
// contains 0, so that recording is not blamed: it has no confidence of 95 %. A tenth of the steps
// around the window is left out at either end, and of those in it (from 10 on) at the fast end.
// Otherwise the slow-down is unknown, with a reason.
// It is unknown, too, if the interval contains 0 and reaches beyond kMuchSlower: nothing is
// excluded. DiscountWaits() lowers the interval where the process lacked a CPU in the window: waits
// are bursts, of which a short window has more or fewer than the steps around it.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_CAPTURE_SLOWDOWN_H_
#define PROFD_DAEMON_CAPTURE_SLOWDOWN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/capture/capture_types.h"

namespace profd {

// Times of steps of one source, ns, in the order in which they ran. Times that are not above 0 are
// left out.
struct StepTimes {
  std::vector<int64_t> before;
  std::vector<int64_t> during;
  std::vector<int64_t> after;
};

// A share of the step time. A capture that slows its program down by more is graded C or lower.
inline constexpr double kMuchSlower = 0.25;

SlowdownRecord MeasureSlowdown(const StepTimes& times, bool cupti_stays = false);

// How long `thread` would have waited in the windows if it had waited there as it did afterwards,
// in proportion to how long it ran: at most as long as it waited. nullopt: it was not watched, or
// was hardly ready to run afterwards.
std::optional<int64_t> WaitsAsAfter(const CpuRecord& cpu, const ThreadCpuRecord& thread);

// How much of the watched time the process can be late because its threads waited for a CPU, at
// most; 0..1. Threads that hardly run are left out: of hundreds that sleep, each waits a little
// when it wakes.
double DelayShare(const CpuRecord& cpu);
// The same of what they waited for longer than after the capture, or at all where that is not
// known: what waits can explain of a slow-down, but not of a difference between two captures.
double DelayShareBeyondAfter(const CpuRecord& cpu);

// Lowers what is certain of `slowdown`, to 0 at least, by the share of the window, 0..1, in which
// the process waited for a CPU (DelayShareBeyondAfter()): other processes may be why, not
// recording. Waits before the window are not known. If nothing is certain then, and nothing
// excluded, the slow-down is unknown.
void DiscountWaits(double waited_share, SlowdownRecord& slowdown);

// "+2.1 % (-0.8 … +5.2 %), within noise; 5 steps, compared with 43 before and 20 after", or why
// it is unknown; and "; CUPTI stays in the process: +13.0 % (+11.2 … +14.9 %) in the 20 steps
// after".
std::string DescribeSlowdown(const SlowdownRecord& slowdown);

// The same as a clause for people who read it without a heading: "the 5 recorded steps took 56%
// longer than the 43 steps before and the 20 after the recording (at least 40%, at most 70%)".
std::string SlowdownClause(const SlowdownRecord& slowdown);

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_SLOWDOWN_H_
