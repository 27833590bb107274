#include "daemon/report/ranks/collective_waits.h"

#include <algorithm>
#include <limits>

namespace profd::report {
namespace {

// How late a thread may go on after what it waited for: a wake-up on a busy machine.
constexpr uint64_t kMostWakeUpNs = 1'000'000;
constexpr uint64_t kWaitsPerWakeUp = 3;

// `to` >= `from`. As unsigned, so that no times can overflow.
uint64_t TimeBetween(int64_t from, int64_t to) {
  return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
}

}  // namespace

CollectiveWaits::CollectiveWaits(const std::vector<Running>& collectives) {
  for (size_t i = 0; i < collectives.size(); ++i) {
    entries_.push_back({.collective = i, .running = collectives[i]});
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.running.end_ns < b.running.end_ns;
  });
}

void CollectiveWaits::AddEvent(int64_t time_ns, bool begins_work) {
  const auto next = std::upper_bound(
      entries_.begin(), entries_.end(), time_ns,
      [](int64_t time, const Entry& entry) { return time < entry.running.end_ns; });
  if (next != entries_.end()) {
    if (!next->before_ns.has_value() || time_ns > *next->before_ns) {
      next->before_ns = time_ns;
      next->is_at_work = begins_work;
    } else if (time_ns == *next->before_ns) {
      next->is_at_work |= begins_work;
    }
  }
  if (next != entries_.begin()) {
    std::optional<int64_t>& after_ns = (next - 1)->after_ns;
    after_ns = std::min(after_ns.value_or(time_ns), time_ns);
  }
}

std::vector<CollectiveWaits::Wait> CollectiveWaits::Find() const {
  std::vector<Wait> waits;
  for (size_t begin = 0; begin < entries_.size();) {
    // All that ended before the thread went on.
    size_t last = begin;
    while (!entries_[last].after_ns.has_value() && last + 1 < entries_.size()) ++last;
    const std::optional<int64_t> resumed_ns = entries_[last].after_ns;
    const int64_t end_ns = entries_[last].running.end_ns;
    int64_t start_ns = entries_[begin].running.start_ns;
    for (size_t i = begin; i <= last; ++i) {
      start_ns = std::min(start_ns, entries_[i].running.start_ns);
    }
    // Without an event before it, the thread was never seen to work.
    const std::optional<int64_t> idle_ns = entries_[begin].before_ns;
    start_ns = std::max(start_ns, idle_ns.value_or(end_ns));
    const bool is_wait =
        resumed_ns.has_value() && start_ns < end_ns && !entries_[begin].is_at_work &&
        TimeBetween(end_ns, *resumed_ns) <=
            std::max(kMostWakeUpNs, TimeBetween(start_ns, end_ns) / kWaitsPerWakeUp);
    int64_t covered_ns = start_ns;
    for (size_t i = begin; is_wait && i <= last; ++i) {
      const Running& running = entries_[i].running;
      const int64_t from_ns = std::max(covered_ns, running.start_ns);
      if (from_ns >= running.end_ns) continue;
      waits.push_back({entries_[i].collective, from_ns, running.end_ns});
      covered_ns = running.end_ns;
    }
    begin = last + 1;
  }
  return waits;
}

}  // namespace profd::report
