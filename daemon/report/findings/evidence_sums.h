// EvidenceSums adds up items with the same name and detail, and returns the largest as evidence.
//
// Threads: one. Memory: per distinct name and detail.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_EVIDENCE_SUMS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_EVIDENCE_SUMS_H_

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/report/findings/findings.h"

namespace profd::report {

class EvidenceSums {
 public:
  struct Item {
    uint32_t name = 0;  // Numbers that the caller defines; Take() passes them on.
    uint32_t detail = 0;
    int64_t duration_ns = 0;
    int64_t bytes = 0;
    int64_t start_ns = Evidence::kNoTime;
    int64_t step = -1;
    int64_t count = 1;  // 0: more time of what was added before.
  };

  void Add(const Item& item) {
    Sum& sum = sums_[{item.name, item.detail}];
    sum.count += item.count;
    sum.duration_ns += static_cast<uint64_t>(item.duration_ns);
    sum.bytes += static_cast<uint64_t>(item.bytes);
    // Items come step by step.
    if (item.step >= 0 && item.step != std::exchange(sum.last_step, item.step)) ++sum.step_count;
    if (item.duration_ns >= sum.longest_ns) {
      sum.longest_ns = item.duration_ns;
      sum.start_ns = item.start_ns;
      sum.step = item.step;
    }
  }

  // Returns the most time first. `describe(name, detail, evidence)` sets the texts of the numbers.
  template <typename Fn>
  std::vector<Evidence> Take(EvidenceKind kind, Fn describe) const {
    std::vector<std::pair<Key, Sum>> rows(sums_.begin(), sums_.end());
    const auto weightier = [](const auto& a, const auto& b) {
      return std::tie(b.second.duration_ns, a.first) < std::tie(a.second.duration_ns, b.first);
    };
    const size_t shown = std::min(rows.size(), kMostEvidence);
    std::partial_sort(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(shown), rows.end(),
                      weightier);
    std::vector<Evidence> taken;
    for (size_t i = 0; i < shown; ++i) {
      const auto& [key, sum] = rows[i];
      Evidence& evidence = taken.emplace_back();
      evidence.kind = kind;
      evidence.count = sum.count;
      evidence.duration_ns = static_cast<int64_t>(sum.duration_ns);
      if (sum.bytes > 0) evidence.bytes = static_cast<int64_t>(sum.bytes);
      evidence.start_ns = sum.start_ns;
      evidence.step = sum.step;
      if (sum.step_count > 0) evidence.step_count = sum.step_count;
      describe(key.first, key.second, evidence);
    }
    return taken;
  }

 private:
  using Key = std::pair<uint32_t, uint32_t>;
  struct Sum {
    int64_t count = 0;
    uint64_t duration_ns = 0;
    uint64_t bytes = 0;
    int64_t longest_ns = -1;
    int64_t start_ns = Evidence::kNoTime;
    int64_t step = -1;
    int64_t last_step = -1;
    int64_t step_count = 0;
  };
  absl::flat_hash_map<Key, Sum> sums_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_EVIDENCE_SUMS_H_
