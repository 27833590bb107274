#include "daemon/report/time/collective_sums.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
double BusFactor(CollectiveKind kind, int64_t ranks) {
  if (ranks < 2) return -1;
  const auto count = static_cast<double>(ranks);
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (count - 1) / count;
    // The input of an all-gather is one rank's part of what is moved.
    case CollectiveKind::kAllGather:
      return count - 1;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return (count - 1) / count;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
      return 1;
    case CollectiveKind::kOther:
    case CollectiveKind::kBarrier:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      break;
  }
  return -1;
}

std::vector<CollectiveSumRow> SumCollectives(const CollectiveTable& table) {
  using Key = std::tuple<CollectiveKind, int64_t, bool, int64_t>;
  std::map<Key, CollectiveSumRow> sums;
  std::map<Key, int64_t> fastest_ns;  // Of those whose completion is known.
  for (const CollectiveRow& row : table.rows) {
    const int64_t ranks = table.communicators[row.communicator].size;
    const Key key(row.kind, ranks, row.on_device, row.bytes);
    const auto [at, inserted] = sums.try_emplace(key);
    CollectiveSumRow& sum = at->second;
    if (inserted) {
      sum.kind = row.kind;
      sum.group_size = ranks;
      sum.on_device = row.on_device;
      sum.bytes = row.bytes;
      sum.min_ns = row.duration_ns;
    }
    ++sum.count;
    AddTo(sum.total_ns, row.duration_ns);
    AddTo(sum.exposed_ns, row.exposed_ns);
    sum.min_ns = std::min(sum.min_ns, row.duration_ns);
    sum.max_ns = std::max(sum.max_ns, row.duration_ns);
    if (row.has_completion) {
      int64_t& fastest = fastest_ns.try_emplace(key, row.duration_ns).first->second;
      fastest = std::min(fastest, row.duration_ns);
    }
  }
  std::vector<CollectiveSumRow> rows;
  for (auto& [key, sum] : sums) {
    // The call that issues a collective says nothing of how fast it ran.
    const auto fastest = fastest_ns.find(key);
    if (sum.bytes > 0 && fastest != fastest_ns.end() && fastest->second > 0) {
      sum.algorithm_gb_per_s =
          static_cast<double>(sum.bytes) / static_cast<double>(fastest->second);
      const double factor = BusFactor(sum.kind, sum.group_size);
      if (factor > 0) sum.bus_gb_per_s = factor * sum.algorithm_gb_per_s;
    }
    rows.push_back(sum);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const CollectiveSumRow& a, const CollectiveSumRow& b) {
                     return std::tie(b.exposed_ns, b.total_ns) < std::tie(a.exposed_ns, a.total_ns);
                   });
  return rows;
}

}  // namespace profd::report
