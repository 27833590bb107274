#include "daemon/base/settled_clock.h"

#include "daemon/base/log.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

// Clocks are slewed by less than 1/1000, and this one is read about every hour. While a machine
// sleeps, its monotonic clock stands still: that counts as a jump, too.
constexpr absl::Duration kLeastJump = absl::Minutes(10);

}  // namespace

std::optional<absl::Time> SettledClock::Now() {
  const absl::Time now = clock_.Now();
  const absl::Duration monotonic = clock_.Monotonic();
  const absl::Duration jump = (now - time_) - (monotonic - monotonic_);
  time_ = now;
  monotonic_ = monotonic;
  if (absl::AbsDuration(jump) > kLeastJump) {
    LogWarning(StrCat("the clock was set ", jump > absl::ZeroDuration() ? "forward" : "back",
                      " by ", absl::FormatDuration(absl::AbsDuration(jump)), ": ", consequence_));
    since_ = monotonic;
  }
  if (monotonic - since_ < kSettling) return std::nullopt;
  return now;
}

}  // namespace profd
