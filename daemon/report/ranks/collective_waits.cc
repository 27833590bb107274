#include "daemon/report/ranks/collective_waits.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace profd::report {
namespace {

using Running = CollectiveWaits::Running;

// How late a thread may go on after what it waited for: a wake-up on a busy machine. And how late
// a worker may record the end of what it has done.
constexpr uint64_t kMostWakeUpNs = 1'000'000;
constexpr uint64_t kWaitsPerWakeUp = 3;

// How long Python may take between two operators: a shorter wait may be none. On a busy machine it
// may take longer; where the end comes soon, a wait that is many times as long explains more.
constexpr uint64_t kMostPauseNs = 100'000;
constexpr uint64_t kWaitsPerPause = 10;
// Where so many are waited for until they end, one whose end may be late is the exception.
constexpr size_t kUsualPerLate = 3;

// `to` >= `from`. As unsigned, so that no times can overflow.
uint64_t TimeBetween(int64_t from, int64_t to) {
  return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
}

bool IsWakeUp(uint64_t late_ns, uint64_t waited_ns) {
  return late_ns <= std::max(kMostWakeUpNs, waited_ns / kWaitsPerWakeUp);
}

int64_t MiddleOf(const Running& running) { return std::midpoint(running.start_ns, running.end_ns); }

template <typename TimeOf>
std::vector<size_t> Ordered(const std::vector<Running>& collectives, TimeOf time_of) {
  std::vector<size_t> order(collectives.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return time_of(collectives[i]); });
  return order;
}

template <typename TimeOf>
std::vector<int64_t> TimesOf(const std::vector<Running>& collectives,
                             const std::vector<size_t>& order, TimeOf time_of) {
  std::vector<int64_t> times;
  times.reserve(order.size());
  for (const size_t i : order) times.push_back(time_of(collectives[i]));
  return times;
}

}  // namespace

CollectiveWaits::Neighbors::Neighbors(std::vector<int64_t> times)
    : times_(std::move(times)), events_(times_.size()), more_work_(times_.size() + 1) {}

void CollectiveWaits::Neighbors::Add(int64_t time_ns, bool begins_work) {
  const auto next = static_cast<size_t>(std::ranges::upper_bound(times_, time_ns) - times_.begin());
  if (next < events_.size()) {
    Events& events = events_[next];
    if (!events.before_ns.has_value() || time_ns > *events.before_ns) {
      events.before_ns = time_ns;
      events.is_at_work = begins_work;
    } else if (time_ns == *events.before_ns) {
      events.is_at_work |= begins_work;
    }
  }
  if (next > 0) {
    std::optional<int64_t>& after_ns = events_[next - 1].after_ns;
    after_ns = std::min(after_ns.value_or(time_ns), time_ns);
  }
}

void CollectiveWaits::Neighbors::AddWork(int64_t start_ns, int64_t end_ns) {
  const auto first = std::ranges::upper_bound(times_, start_ns) - times_.begin();
  const auto after = std::ranges::lower_bound(times_, end_ns) - times_.begin();
  if (first >= after) return;
  ++more_work_[static_cast<size_t>(first)];
  --more_work_[static_cast<size_t>(after)];
}

void CollectiveWaits::Neighbors::EndOfWork() {
  int64_t work = 0;
  for (size_t i = 0; i < events_.size(); ++i) {
    work += more_work_[i];
    if (work > 0) events_[i].is_at_work = true;
  }
}

std::vector<CollectiveWaits::Neighbors::Events> CollectiveWaits::Neighbors::Nearest() const {
  std::vector<Events> nearest = events_;
  for (size_t i = 1; i < nearest.size(); ++i) {
    if (nearest[i].before_ns.has_value()) continue;
    nearest[i].before_ns = nearest[i - 1].before_ns;
    nearest[i].is_at_work = nearest[i - 1].is_at_work;
  }
  for (size_t i = nearest.size(); i > 1; --i) {
    if (!nearest[i - 2].after_ns.has_value()) nearest[i - 2].after_ns = nearest[i - 1].after_ns;
  }
  return nearest;
}

CollectiveWaits::CollectiveWaits(const std::vector<Running>& collectives)
    : collectives_(collectives),
      by_end_(Ordered(collectives_, [](const Running& running) { return running.end_ns; })),
      by_middle_(Ordered(collectives_, &MiddleOf)),
      ends_(TimesOf(collectives_, by_end_, [](const Running& running) { return running.end_ns; })),
      middles_(TimesOf(collectives_, by_middle_, &MiddleOf)) {}

void CollectiveWaits::AddEvent(int64_t time_ns, bool begins_work) {
  ends_.Add(time_ns, begins_work);
  middles_.Add(time_ns, begins_work);
}

void CollectiveWaits::AddWork(int64_t start_ns, int64_t end_ns) {
  ends_.AddWork(start_ns, end_ns);
  middles_.AddWork(start_ns, end_ns);
}

std::vector<CollectiveWaits::Wait> CollectiveWaits::Find() {
  ends_.EndOfWork();
  middles_.EndOfWork();
  std::vector<Wait> waits;
  for (size_t begin = 0; begin < by_end_.size();) {
    // All that ended before the thread went on.
    size_t last = begin;
    while (!ends_[last].after_ns.has_value() && last + 1 < by_end_.size()) ++last;
    const std::optional<int64_t> resumed_ns = ends_[last].after_ns;
    const int64_t end_ns = collectives_[by_end_[last]].end_ns;
    int64_t start_ns = std::numeric_limits<int64_t>::max();
    for (size_t i = begin; i <= last; ++i) {
      start_ns = std::min(start_ns, collectives_[by_end_[i]].start_ns);
    }
    // Without an event before it, the thread was never seen to work.
    const std::optional<int64_t> idle_ns = ends_[begin].before_ns;
    start_ns = std::max(start_ns, idle_ns.value_or(end_ns));
    const bool is_wait = resumed_ns.has_value() && start_ns < end_ns && !ends_[begin].is_at_work &&
                         IsWakeUp(TimeBetween(end_ns, *resumed_ns), TimeBetween(start_ns, end_ns));
    int64_t covered_ns = start_ns;
    for (size_t i = begin; is_wait && i <= last; ++i) {
      const Running& running = collectives_[by_end_[i]];
      const int64_t from_ns = std::max(covered_ns, running.start_ns);
      if (from_ns >= running.end_ns) continue;
      waits.push_back({.collective = by_end_[i], .start_ns = from_ns, .end_ns = running.end_ns});
      covered_ns = running.end_ns;
    }
    begin = last + 1;
  }
  const auto usual = static_cast<size_t>(std::ranges::count_if(waits, [&](const Wait& wait) {
    const Running& running = collectives_[wait.collective];
    return TimeBetween(wait.start_ns, wait.end_ns) >
           TimeBetween(running.start_ns, running.end_ns) / 2;
  }));
  std::vector<Wait> ended_late = FindEndedLate(waits, kWaitsPerWakeUp);
  if (usual < kUsualPerLate * ended_late.size()) {
    ended_late = FindEndedLate(waits, kWaitsPerPause);
  }
  std::vector<bool> has_ended_late(collectives_.size());
  for (const Wait& wait : ended_late) has_ended_late[wait.collective] = true;
  std::vector<Wait> all = waits;
  std::erase_if(all, [&](const Wait& wait) { return has_ended_late[wait.collective]; });
  if (ended_late.size() > all.size()) return waits;
  all.insert(all.end(), ended_late.begin(), ended_late.end());
  std::ranges::stable_sort(all, {}, &Wait::start_ns);
  return all;
}

std::vector<CollectiveWaits::Wait> CollectiveWaits::FindEndedLate(std::span<const Wait> waits,
                                                                  uint64_t waits_per_pause) const {
  std::vector<uint64_t> waited_for_ns(collectives_.size());
  for (const Wait& wait : waits) {
    uint64_t& waited_ns = waited_for_ns[wait.collective];
    waited_ns = std::max(waited_ns, TimeBetween(wait.start_ns, wait.end_ns));
  }
  std::vector<Wait> found;
  const std::vector<Neighbors::Events> middles = middles_.Nearest();
  // The thread went on after each middle, so that this is by the ends of the waits, too.
  for (size_t i = 0; i < by_middle_.size(); ++i) {
    const Running& running = collectives_[by_middle_[i]];
    const auto& [idle_ns, is_at_work, resumed_ns] = middles[i];
    if (is_at_work || !idle_ns.has_value() || !resumed_ns.has_value() ||
        *resumed_ns >= running.end_ns) {
      continue;
    }
    int64_t start_ns = std::max(*idle_ns, running.start_ns);
    const auto next = std::ranges::lower_bound(waits, *resumed_ns, {}, &Wait::start_ns);
    if (next != waits.begin()) start_ns = std::max(start_ns, (next - 1)->end_ns);
    if (!found.empty()) start_ns = std::max(start_ns, found.back().end_ns);
    if (start_ns >= *resumed_ns) continue;
    const uint64_t waited_ns = TimeBetween(start_ns, *resumed_ns);
    if (waited_ns <= TimeBetween(running.start_ns, running.end_ns) / 2) continue;
    const uint64_t late_ns = TimeBetween(*resumed_ns, running.end_ns);
    if (!IsWakeUp(late_ns, waited_ns)) continue;
    const uint64_t other_ns = waited_for_ns[by_middle_[i]];
    const uint64_t part_ns = waited_ns / waits_per_pause;
    const bool may_be_pause = other_ns <= kMostPauseNs ||
                              (other_ns <= part_ns && late_ns <= std::max(kMostWakeUpNs, part_ns));
    if (!may_be_pause) continue;
    found.push_back({.collective = by_middle_[i],
                     .start_ns = start_ns,
                     .end_ns = *resumed_ns,
                     .ended_late = true});
  }
  return found;
}

}  // namespace profd::report
