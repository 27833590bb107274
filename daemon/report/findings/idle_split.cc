#include "daemon/report/findings/idle_split.h"

#include <algorithm>
#include <tuple>

#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

using IdlePart = int64_t IdleParts::*;

constexpr std::array<IdlePart, 15> kIdleParts = {
    &IdleParts::profiler_ns,    &IdleParts::other_gpus_ns,    &IdleParts::data_loader_ns,
    &IdleParts::allocator_ns,   &IdleParts::waiting_calls_ns, &IdleParts::compile_ns,
    &IdleParts::collectives_ns, &IdleParts::long_call_ns,     &IdleParts::outside_ns,
    &IdleParts::host_work_ns,   &IdleParts::dispatch_ns,      &IdleParts::launch_call_ns,
    &IdleParts::kernel_wait_ns, &IdleParts::late_start_ns,    &IdleParts::other_ns};
// By HostCause.
constexpr std::array<IdlePart, kHostCauses> kPartOfHostCause = {
    &IdleParts::profiler_ns,    &IdleParts::other_gpus_ns,    &IdleParts::data_loader_ns,
    &IdleParts::allocator_ns,   &IdleParts::waiting_calls_ns, &IdleParts::compile_ns,
    &IdleParts::collectives_ns, &IdleParts::long_call_ns,     &IdleParts::outside_ns,
    &IdleParts::host_work_ns};
// Times that no call explains, and that wait for no launch.
constexpr size_t kBeforeBlame = static_cast<size_t>(HostCause::kDataLoader) + 1;
constexpr size_t kNotTheHosts = static_cast<size_t>(HostCause::kOtherGpu) + 1;

// Returns `ns`, lowered as from `denominator` to `numerator`.
int64_t Scaled(int64_t ns, int64_t numerator, int64_t denominator) {
  if (denominator <= 0 || numerator >= denominator) return ns;
  return static_cast<int64_t>(static_cast<double>(ns) * static_cast<double>(numerator) /
                              static_cast<double>(denominator));
}

// Of a time in which the next work was launched already.
IdlePart AfterLaunch(int64_t ns) {
  if (ns < kKernelWaitLimitNs) return &IdleParts::kernel_wait_ns;
  return ns < kLateStartNs ? &IdleParts::other_ns : &IdleParts::late_start_ns;
}

}  // namespace

int64_t IdleParts::total_ns() const {
  int64_t sum = 0;
  for (const IdlePart part : kIdleParts) AddTo(sum, this->*part);
  return sum;
}

void IdleParts::Add(const IdleParts& parts) {
  for (const IdlePart part : kIdleParts) AddTo(this->*part, parts.*part);
}

IdleParts IdleParts::Without(int64_t added_ns) const {
  IdleParts left = *this;
  for (const IdlePart part : {&IdleParts::profiler_ns, &IdleParts::dispatch_ns}) {
    const int64_t taken_ns = std::clamp<int64_t>(added_ns, 0, std::max<int64_t>(left.*part, 0));
    left.*part -= taken_ns;
    added_ns -= taken_ns;
  }
  if (added_ns <= 0) return left;
  const int64_t total_ns = left.total_ns();
  const int64_t rest_ns = std::max<int64_t>(total_ns - added_ns, 0);
  for (const IdlePart part : kIdleParts) left.*part = Scaled(left.*part, rest_ns, total_ns);
  return left;
}

IdleParts IdleParts::LoweredAs(const IdleParts& before, const IdleParts& after) const {
  IdleParts lowered;
  for (const IdlePart part : kIdleParts) {
    lowered.*part = Scaled(this->*part, after.*part, before.*part);
  }
  return lowered;
}

void IdleSplit::AddHostTime(HostCause cause, int64_t start_ns, int64_t end_ns) {
  if (end_ns > start_ns) times_.push_back({start_ns, end_ns, cause});
}

void IdleSplit::FinishHostTimes() {
  std::sort(times_.begin(), times_.end(), [](const HostTime& a, const HostTime& b) {
    return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
  });
  for (const HostTime& time : times_) {
    // Each set has the times of all causes up to its own, so PartsOf() counts an instant once: for
    // the first cause that applies.
    for (auto cause = static_cast<size_t>(time.cause); cause < kHostCauses; ++cause) {
      upto_[cause].Add(time.start_ns, time.end_ns);
    }
  }
  times_ = {};
  std::ranges::sort(free_times_, {}, &HostTime::start_ns);
  for (const HostTime& time : free_times_) frees_.Add(time.start_ns, time.end_ns);
  free_times_ = {};
}

void IdleSplit::AddFree(int64_t start_ns, int64_t end_ns) {
  if (end_ns > start_ns) free_times_.push_back({start_ns, end_ns, HostCause::kAllocator});
}

IdleParts IdleSplit::PartsAfterLaunch(const GpuAttribution::Call& launch, int64_t start_ns,
                                      int64_t end_ns, IdlePart rest) const {
  IdleParts parts = PartsOf(start_ns, end_ns, kNotTheHosts, rest);
  // A call that began later waits for that work.
  const auto later = std::ranges::lower_bound(frees_.intervals(), launch.end_ns, {},
                                              &IntervalSet::Interval::start_ns);
  if (later != frees_.intervals().end()) end_ns = std::min(end_ns, later->start_ns);
  int64_t freed_ns = 0;
  if (end_ns <= start_ns) return parts;
  scope_.ForEachIn(start_ns, end_ns, [&](int64_t from_ns, int64_t to_ns) {
    freed_ns += static_cast<int64_t>(frees_.MeasureIn(from_ns, to_ns));
  });
  const int64_t moved_ns = std::min(freed_ns, parts.*rest);
  parts.*rest -= moved_ns;
  parts.allocator_ns += moved_ns;
  return parts;
}

IdleParts IdleSplit::PartsOf(int64_t start_ns, int64_t end_ns, size_t causes, IdlePart rest) const {
  IdleParts parts;
  scope_.ForEachIn(start_ns, end_ns, [&](int64_t from_ns, int64_t to_ns) {
    int64_t before_ns = 0;
    for (size_t cause = 0; cause < causes; ++cause) {
      const auto upto_ns = static_cast<int64_t>(upto_[cause].MeasureIn(from_ns, to_ns));
      parts.*kPartOfHostCause[cause] += upto_ns - before_ns;
      before_ns = upto_ns;
    }
    parts.*rest += to_ns - from_ns - before_ns;
  });
  return parts;
}

bool IdleSplit::Waits(int64_t time_ns) const {
  const auto upto = [&](HostCause cause) {
    return upto_[static_cast<size_t>(cause)].MeasureIn(time_ns, Sum(time_ns, 1));
  };
  return upto(HostCause::kWaitingCall) > upto(HostCause::kAllocator);
}

IdleParts IdleSplit::Split(const Gap& gap, IntervalSet& explained) const {
  const int64_t gap_ns = Difference(gap.end_ns, gap.start_ns);
  if (gap.launch == nullptr) {
    return PartsOf(gap.start_ns, gap.end_ns, Waits(gap.end_ns) ? kBeforeBlame : kHostCauses,
                   gap_ns < kKernelWaitLimitNs ? &IdleParts::kernel_wait_ns : &IdleParts::other_ns);
  }
  const GpuAttribution::Call& launch = *gap.launch;
  const bool is_long = Difference(launch.end_ns, launch.start_ns) >= kLongCallNs;
  int64_t call_ns = std::clamp(launch.start_ns, gap.start_ns, gap.end_ns);
  int64_t after_ns = std::clamp(launch.end_ns, call_ns, gap.end_ns);
  if (launch.start_ns <= gap.start_ns && !is_long) after_ns = gap.start_ns;
  IdleParts parts;
  if (after_ns == gap.start_ns) {
    explained.Add(gap.start_ns, gap.end_ns);
    return PartsAfterLaunch(launch, gap.start_ns, gap.end_ns, AfterLaunch(gap_ns));
  }
  // An idle GPU begins a little after the call; so short a time is part of launching.
  const int64_t start_ns = Difference(gap.end_ns, after_ns);
  const bool is_late =
      start_ns >= kLateStartNs || (start_ns >= kKernelWaitLimitNs && gap.blocker == nullptr);
  if (!is_late) after_ns = gap.end_ns;
  if (!is_long) call_ns = after_ns;
  int64_t blamed_ns = gap.start_ns;
  if (gap.blocker != nullptr) {
    const int64_t waited_ns = Difference(gap.blocker->end_ns, gap.blocker->start_ns);
    blamed_ns += std::clamp<int64_t>(waited_ns, 0, Difference(call_ns, gap.start_ns));
    parts =
        PartsOf(gap.start_ns, blamed_ns, kBeforeBlame,
                gap.blocker_allocates ? &IdleParts::allocator_ns : &IdleParts::waiting_calls_ns);
    explained.Add(gap.start_ns, blamed_ns);
  }
  parts.Add(PartsOf(blamed_ns, call_ns, kHostCauses, &IdleParts::dispatch_ns));
  parts.Add(PartsAfterLaunch(launch, call_ns, after_ns, &IdleParts::launch_call_ns));
  parts.Add(PartsAfterLaunch(launch, after_ns, gap.end_ns,
                             AfterLaunch(Difference(gap.end_ns, after_ns))));
  explained.Add(std::max(blamed_ns, call_ns), gap.end_ns);
  return parts;
}

IdleParts IdleSplit::SplitEdge(int64_t start_ns, int64_t end_ns) const {
  return PartsOf(start_ns, end_ns, kHostCauses, &IdleParts::other_ns);
}

}  // namespace profd::report
