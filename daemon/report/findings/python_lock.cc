#include "daemon/report/findings/python_lock.h"

#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

constexpr int64_t kShortestLookedAtNs = 1'000'000;
// sys.getswitchinterval() is 5 ms. A wait ends a little later, once the holder has seen the request
// and the kernel has woken the thread, or much later on a busy machine.
constexpr int64_t kSwitchIntervalNs = 4'900'000;
constexpr int64_t kAboutIntervalNs = 6'000'000;
// In three captures of a program with such a thread, on a busy machine: 0.77 to 1.0, 0.39 to 0.7.
constexpr double kMostOfTime = 2.0 / 3;
constexpr double kManyOfGaps = 1.0 / 3;
constexpr int64_t kFewestGaps = 5;

}  // namespace

void LockGaps::Add(const HostGap& gap) {
  const int64_t ns = Difference(gap.end_ns, gap.start_ns);
  if (ns < kShortestLookedAtNs) return;
  ++count_;
  AddTo(total_ns_, ns);
  if (ns < kSwitchIntervalNs) return;
  AddTo(waiting_ns_, ns);
  if (ns >= kAboutIntervalNs) return;
  ++interval_count_;
  const std::pair<uint32_t, uint32_t> place(gap.after, gap.before);
  if (!place_.has_value()) place_ = place;
  at_two_places_ |= *place_ != place;
}

bool LockGaps::LookLikeWaits() const {
  return interval_count_ >= kFewestGaps && at_two_places_ &&
         static_cast<double>(waiting_ns_) >= kMostOfTime * static_cast<double>(total_ns_) &&
         static_cast<double>(interval_count_) >= kManyOfGaps * static_cast<double>(count_);
}

}  // namespace profd::report
