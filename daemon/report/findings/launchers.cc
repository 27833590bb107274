#include "daemon/report/findings/launchers.h"

#include <algorithm>
#include <tuple>

namespace profd::report {

Launchers::Launchers(const DeviceWork& work, uint32_t device) {
  for (const Activity& activity : work.activities()) {
    if (activity.call == nullptr || work.DeviceOf(activity) != device) continue;
    starts_[activity.call->thread].push_back(activity.call->start_ns);
  }
  threads_.reserve(starts_.size());
  for (auto& [thread, starts] : starts_) {
    std::ranges::sort(starts);  // Activities come by their own start.
    threads_.push_back(thread);
  }
  std::ranges::sort(threads_, [&](uint32_t a, uint32_t b) {
    return std::tuple(starts_.at(b).size(), a) < std::tuple(starts_.at(a).size(), b);
  });
}

bool Launchers::IsHeldUpBy(uint32_t thread, const GpuAttribution::Call& call) const {
  if (call.thread == thread) return true;
  const auto own = starts_.find(thread);
  if (own == starts_.end() || !Has(call.thread)) return false;
  const auto next = std::ranges::lower_bound(own->second, call.start_ns);
  return next == own->second.end() || *next >= call.end_ns;
}

double Launchers::ShareBefore(int64_t time_ns) const {
  size_t before = 0;
  size_t all = 0;
  for (const auto& [thread, starts] : starts_) {
    before += static_cast<size_t>(std::ranges::lower_bound(starts, time_ns) - starts.begin());
    all += starts.size();
  }
  return all == 0 ? 0 : static_cast<double>(before) / static_cast<double>(all);
}

}  // namespace profd::report
