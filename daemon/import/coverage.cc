#include "daemon/import/coverage.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

namespace profd::importer {
namespace {

// A program may do nothing for a while, also between steps.
constexpr int64_t kLongHoleNs = 1'000'000'000;
constexpr int64_t kMomentNs = 1'000'000;
constexpr int64_t kFarNs = int64_t{3'600} * 1'000'000'000;

}  // namespace

void Coverage::Add(int64_t start_ns, int64_t end_ns) {
  auto after = stretches_.upper_bound(start_ns);
  if (after != stretches_.begin()) {
    const auto before = std::prev(after);
    if (start_ns - before->second <= slack_ns_) {
      if (end_ns <= before->second) return;
      start_ns = before->first;
      stretches_.erase(before);
    }
  }
  while (after != stretches_.end() && after->first - end_ns <= slack_ns_) {
    end_ns = std::max(end_ns, after->second);
    after = stretches_.erase(after);
  }
  stretches_.emplace_hint(after, start_ns, end_ns);
  if (stretches_.size() > kMaxStretches) Coalesce();
}

void Coverage::Coalesce() {
  while (2 * stretches_.size() > kMaxStretches) {
    // Too many stretches: holes up to a doubling length are filled until at most half are left.
    // Each round pays for itself by the room that it makes, and memory stays bounded.
    slack_ns_ *= 2;
    for (auto at = stretches_.begin(); at != stretches_.end();) {
      const auto next = std::next(at);
      if (next == stretches_.end()) break;
      if (next->first - at->second <= slack_ns_) {
        at->second = next->second;
        stretches_.erase(next);
      } else {
        at = next;
      }
    }
  }
}

bool Coverage::Touches(int64_t start_ns, int64_t end_ns) const {
  const auto after = stretches_.upper_bound(end_ns);
  return after != stretches_.begin() && std::prev(after)->second >= start_ns;
}

bool Coverage::Contains(int64_t start_ns, int64_t end_ns) const {
  const auto after = stretches_.upper_bound(start_ns);
  return after != stretches_.begin() && std::prev(after)->second >= end_ns;
}

std::vector<std::pair<int64_t, int64_t>> Coverage::Windows(std::span<const StepRecord> steps,
                                                           int64_t origin_ns, int64_t end_ns,
                                                           bool is_continuous,
                                                           const Coverage& long_ranges) const {
  std::vector<StepRecord> by_time(steps.begin(), steps.end());
  std::ranges::sort(by_time, {}, &StepRecord::start_ns);
  const auto is_hole = [&](int64_t from_ns, int64_t to_ns) {
    const auto next =
        std::ranges::lower_bound(by_time, to_ns - origin_ns, {}, &StepRecord::start_ns);
    // A hole between steps whose numbers do not follow each other was not recorded (the profiler's
    // schedule skips steps), however short it is.
    const bool between_steps = next != by_time.begin() && next != by_time.end();
    if (between_steps && std::prev(next)->index + 1 != next->index) return true;
    return !is_continuous && to_ns - from_ns >= kLongHoleNs &&
           !long_ranges.Contains(from_ns, to_ns);
  };
  std::vector<std::pair<int64_t, int64_t>> windows;
  for (const auto& [from_ns, recorded_to_ns] : stretches_) {
    if (from_ns > end_ns) break;
    const int64_t to_ns = std::min(recorded_to_ns, end_ns);
    if (windows.empty() || is_hole(windows.back().second, from_ns)) {
      windows.emplace_back(from_ns, to_ns);
    } else {
      windows.back().second = to_ns;
    }
  }
  return windows;
}

void JoinNearest(size_t most, Windows& windows) {
  if (windows.size() <= most) return;
  std::vector<size_t> holes;  // The window that each is before.
  for (size_t i = 1; i < windows.size(); ++i) holes.push_back(i);
  std::ranges::sort(holes, std::greater(), [&windows](size_t i) {
    return std::pair(windows[i].first - windows[i - 1].second, i);
  });
  holes.resize(most - 1);  // Those that stay.
  const std::set<size_t> begins(holes.begin(), holes.end());
  Windows joined = {windows.front()};
  for (size_t i = 1; i < windows.size(); ++i) {
    if (begins.contains(i)) {
      joined.push_back(windows[i]);
    } else {
      joined.back().second = windows[i].second;
    }
  }
  windows = std::move(joined);
}

int64_t LeaveOutStrayMoments(std::span<const StepRecord> steps, int64_t origin_ns,
                             Windows& windows) {
  std::vector<int64_t> starts_ns;
  starts_ns.reserve(steps.size());
  for (const StepRecord& step : steps) starts_ns.push_back(step.start_ns + origin_ns);
  std::ranges::sort(starts_ns);
  const auto is_stray = [&](const std::pair<int64_t, int64_t>& window, int64_t away_ns) {
    const auto step = std::ranges::lower_bound(starts_ns, window.first);
    const bool has_step = step != starts_ns.end() && *step <= window.second;
    return away_ns >= kFarNs && window.second - window.first <= kMomentNs && !has_step;
  };
  const size_t count = windows.size();
  while (windows.size() > 1 &&
         is_stray(windows.back(), windows.back().first - windows[windows.size() - 2].second)) {
    windows.pop_back();
  }
  size_t begin = 0;
  while (begin + 1 < windows.size() &&
         is_stray(windows[begin], windows[begin + 1].first - windows[begin].second)) {
    ++begin;
  }
  windows.erase(windows.begin(), windows.begin() + static_cast<ptrdiff_t>(begin));
  return static_cast<int64_t>(count - windows.size());
}

}  // namespace profd::importer
