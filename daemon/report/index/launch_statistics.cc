#include "daemon/report/index/launch_statistics.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "daemon/base/median.h"

namespace profd::report {
namespace {

DurationStatistics StatisticsOf(std::span<int64_t> durations) {
  if (durations.empty()) return {};
  DurationStatistics statistics;
  uint64_t total = 0;
  for (const int64_t duration : durations) total += static_cast<uint64_t>(duration);
  statistics.count = static_cast<int64_t>(durations.size());
  statistics.total_ns = static_cast<int64_t>(total);
  statistics.mean_ns = static_cast<int64_t>(total / durations.size());
  const auto [min, max] = std::minmax_element(durations.begin(), durations.end());
  statistics.min_ns = *min;
  statistics.max_ns = *max;
  statistics.p50_ns = Percentile(durations, 50);
  statistics.p95_ns = Percentile(durations, 95);
  statistics.p99_ns = Percentile(durations, 99);
  return statistics;
}

}  // namespace

std::vector<DurationStatistics> GroupedDurations::Take(size_t group_count) {
  // Where each group's durations begin, then end, once they are put together.
  std::vector<size_t> ends(group_count + 1);
  // A counting sort, O(durations + groups): one copy of the durations instead of a vector for each
  // group.
  for (const uint32_t group : groups_) ++ends[group + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<int64_t> together(durations_ns_.size());
  for (size_t i = 0; i < groups_.size(); ++i) together[ends[groups_[i]]++] = durations_ns_[i];

  std::vector<DurationStatistics> statistics;
  statistics.reserve(group_count);
  size_t begin = 0;
  for (size_t group = 0; group < group_count; ++group) {
    statistics.push_back(StatisticsOf(std::span(together).subspan(begin, ends[group] - begin)));
    begin = ends[group];
  }
  return statistics;
}

std::vector<uint32_t> LaunchingOps::Longest(size_t group_count,
                                            std::span<const std::string> names) const {
  struct Best {
    uint64_t ns = 0;
    uint32_t op = 0;
    bool found = false;
  };
  std::vector<Best> best(group_count);
  for (const auto& [key, ns] : ns_) {
    Best& so_far = best[key >> 32];
    const auto op = static_cast<uint32_t>(key);
    // The table is in no order that lasts. Ties go by name, so that a report is the same each time.
    if (!so_far.found || ns > so_far.ns || (ns == so_far.ns && names[op] < names[so_far.op])) {
      so_far = {ns, op, true};
    }
  }
  std::vector<uint32_t> ops;
  ops.reserve(group_count);
  for (const Best& one : best) ops.push_back(one.op);
  return ops;
}

void BusyTime::Add(size_t device, int64_t start_ns, int64_t end_ns) {
  if (device >= until_ns_.size()) {
    until_ns_.resize(device + 1, std::numeric_limits<int64_t>::min());
  }
  int64_t& until_ns = until_ns_[device];
  if (end_ns <= until_ns) return;
  // In unsigned numbers: the times of a damaged file may be further apart than an int64 holds.
  total_ns_ += static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(std::max(start_ns, until_ns));
  until_ns = end_ns;
}

}  // namespace profd::report
