// Shared by the tables of operators, kernels, and copies: exact percentiles of groups of durations,
// and the range that launched most of a group.
//
// Threads: one.
// Memory:  12 bytes per duration, plus groups and the ranges that launched them.
#ifndef PROFD_DAEMON_REPORT_INDEX_LAUNCH_STATISTICS_H_
#define PROFD_DAEMON_REPORT_INDEX_LAUNCH_STATISTICS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace profd::report {

struct DurationStatistics {
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t mean_ns = 0;
  int64_t min_ns = 0;
  // Percentiles by nearest rank: the smallest duration that this percentage of all do not exceed.
  int64_t p50_ns = 0;
  int64_t p95_ns = 0;
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
};

class GroupedDurations {
 public:
  // Groups count 0, 1, 2, ...
  void Add(uint32_t group, int64_t duration_ns) {
    groups_.push_back(group);
    durations_ns_.push_back(duration_ns);
  }
  // Returns the statistics of each of `group_count` groups, in order. Call once, last.
  std::vector<DurationStatistics> Take(size_t group_count);

 private:
  std::vector<uint32_t> groups_;
  std::vector<int64_t> durations_ns_;  // By the same position.
};

// Time by group and launching range. A range is a name; 0: none.
class LaunchingOps {
 public:
  void Add(uint32_t group, uint32_t op, int64_t duration_ns) {
    ns_[uint64_t{group} << 32 | op] += static_cast<uint64_t>(duration_ns);
  }
  // Returns the range with the most time for each of `group_count` groups; if equal, the first by
  // `names`.
  std::vector<uint32_t> Longest(size_t group_count, std::span<const std::string> names) const;

 private:
  absl::flat_hash_map<uint64_t, uint64_t> ns_;  // (group, op)
};

// The busy time: a union over the streams of each device, summed over devices. Add work by start.
class BusyTime {
 public:
  void Add(size_t device, int64_t start_ns, int64_t end_ns);
  int64_t total_ns() const { return static_cast<int64_t>(total_ns_); }

 private:
  std::vector<int64_t> until_ns_;  // By device.
  uint64_t total_ns_ = 0;
};

// Assigns keys the numbers 0, 1, 2, ... at their first use; repeating the last key is fast.
template <typename Key>
class Numbering {
 public:
  uint32_t Of(const Key& key) {
    if (!keys_.empty() && keys_[last_] == key) return last_;
    const auto [at, inserted] = numbers_.try_emplace(key, static_cast<uint32_t>(keys_.size()));
    if (inserted) keys_.push_back(key);
    return last_ = at->second;
  }
  const std::vector<Key>& keys() const { return keys_; }

 private:
  absl::flat_hash_map<Key, uint32_t> numbers_;
  std::vector<Key> keys_;
  uint32_t last_ = 0;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_LAUNCH_STATISTICS_H_
