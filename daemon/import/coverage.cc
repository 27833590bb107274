#include "daemon/import/coverage.h"

#include <algorithm>
#include <iterator>

namespace profd::importer {
namespace {

// A program may do nothing for a while, also between steps.
constexpr int64_t kLongHoleNs = 1'000'000'000;

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

std::vector<std::pair<int64_t, int64_t>> Coverage::Windows(std::span<const StepRecord> steps,
                                                           int64_t origin_ns,
                                                           bool is_continuous) const {
  std::vector<StepRecord> by_time(steps.begin(), steps.end());
  std::ranges::sort(by_time, {}, &StepRecord::start_ns);
  const auto is_hole = [&](int64_t start_ns, int64_t end_ns) {
    const auto next =
        std::ranges::lower_bound(by_time, end_ns - origin_ns, {}, &StepRecord::start_ns);
    // A hole between steps whose numbers do not follow each other was not recorded (the profiler's
    // schedule skips steps), however short it is.
    const bool between_steps = next != by_time.begin() && next != by_time.end();
    if (between_steps && std::prev(next)->index + 1 != next->index) return true;
    return !is_continuous && end_ns - start_ns >= kLongHoleNs;
  };
  std::vector<std::pair<int64_t, int64_t>> windows;
  for (const auto& [start_ns, end_ns] : stretches_) {
    if (windows.empty() || is_hole(windows.back().second, start_ns)) {
      windows.emplace_back(start_ns, end_ns);
    } else {
      windows.back().second = end_ns;
    }
  }
  return windows;
}

}  // namespace profd::importer
