#include "daemon/export/trace/slice_lanes.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

namespace profd::exporter {
namespace {

// The lanes of one group, while time goes on.
class Lanes {
 public:
  // The lowest lane that is free at `start_ns`, taken until `end_ns`.
  uint32_t Take(int64_t start_ns, int64_t end_ns) {
    // Lanes by the time at which they become free, and free ones by number: O(log lanes) for each
    // slice, and the lowest free lane is taken, so rows stay few.
    while (!busy_.empty() && busy_.top().first <= start_ns) {
      free_.push(busy_.top().second);
      busy_.pop();
    }
    uint32_t lane = count_;
    if (free_.empty()) {
      ++count_;
    } else {
      lane = free_.top();
      free_.pop();
    }
    busy_.emplace(end_ns, lane);
    return lane;
  }

 private:
  template <typename T>
  using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

  MinHeap<std::pair<int64_t, uint32_t>> busy_;  // (until, lane)
  MinHeap<uint32_t> free_;
  uint32_t count_ = 0;
};

}  // namespace

std::span<const LaneSlice> FirstGroup(std::span<const LaneSlice> sorted) {
  const auto end = std::find_if(sorted.begin(), sorted.end(), [&](const LaneSlice& slice) {
    return slice.group != sorted.front().group;
  });
  return sorted.first(static_cast<size_t>(end - sorted.begin()));
}

void AssignLanes(std::vector<LaneSlice>& slices,
                 absl::FunctionRef<void(const LaneSlice& slice, uint32_t lane)> on_sibling) {
  std::sort(slices.begin(), slices.end(), [](const LaneSlice& a, const LaneSlice& b) {
    return std::tie(a.group, a.start_ns, a.end_ns, a.ordinal) <
           std::tie(b.group, b.start_ns, b.end_ns, b.ordinal);
  });
  for (std::span<const LaneSlice> rest = slices; !rest.empty();) {
    const std::span<const LaneSlice> group = FirstGroup(rest);
    rest = rest.subspan(group.size());
    Lanes lanes;
    int64_t end_ns = std::numeric_limits<int64_t>::min();
    size_t i = 0;
    // Nearly always all of them.
    for (; i < group.size() && group[i].start_ns >= end_ns; ++i) end_ns = group[i].end_ns;
    if (i == group.size()) continue;
    lanes.Take(group[i - 1].start_ns, end_ns);
    for (; i < group.size(); ++i) {
      const uint32_t lane = lanes.Take(group[i].start_ns, group[i].end_ns);
      if (lane > 0) on_sibling(group[i], lane);
    }
  }
}

}  // namespace profd::exporter
