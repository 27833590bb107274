// What the tables of kernels and of copies have in common: exact percentiles of groups of
// durations, and the range that launched most of a group.
//
// Threads: one. Memory: 12 bytes per duration; groups and the ranges that launched them.
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
  // By nearest rank: the least duration that so many percent of all do not exceed.
  int64_t p50_ns = 0;
  int64_t p95_ns = 0;
  int64_t max_ns = 0;
};

class GroupedDurations {
 public:
  // Groups count 0, 1, 2, ...
  void Add(uint32_t group, int64_t duration_ns) {
    groups_.push_back(group);
    durations_ns_.push_back(duration_ns);
  }
  // Of each of `group_count` groups, in their order. Call once, last.
  std::vector<DurationStatistics> Take(size_t group_count);

 private:
  std::vector<uint32_t> groups_;
  std::vector<int64_t> durations_ns_;  // Of the same positions.
};

// Time by group and launching range. Ranges are names; 0 stands for none.
class LaunchingOps {
 public:
  void Add(uint32_t group, uint32_t op, int64_t duration_ns) {
    ns_[uint64_t{group} << 32 | op] += static_cast<uint64_t>(duration_ns);
  }
  // Of each of `group_count` groups the range of the most time, of several the first by `names`.
  std::vector<uint32_t> Longest(size_t group_count, std::span<const std::string> names) const;

 private:
  absl::flat_hash_map<uint64_t, uint64_t> ns_;  // (group, op)
};

// The union over streams of what is added, by start; devices' own unions are added up.
class BusyTime {
 public:
  void Add(size_t device, int64_t start_ns, int64_t end_ns);
  int64_t total_ns() const { return static_cast<int64_t>(total_ns_); }

 private:
  std::vector<int64_t> until_ns_;  // By device.
  uint64_t total_ns_ = 0;
};

// Numbers things 0, 1, 2, ... as they are first met; the same as the last one is quick.
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
