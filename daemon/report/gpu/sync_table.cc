#include "daemon/report/gpu/sync_table.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/first_ids.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"

namespace profd::report {
namespace {

struct SyncSums {
  int64_t count = 0;
  uint64_t total_ns = 0;
  int64_t max_ns = 0;
};

}  // namespace

absl::StatusOr<SyncTable> SummarizeSyncs(store::CaptureReader& reader) {
  ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::Build(reader));
  const std::vector<uint32_t> first_ids = FirstIds(reader.names());
  // By kind, API call and range; 0 stands for no call and no range.
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, SyncSums> sums;
  RETURN_IF_ERROR(reader.ForEachSync({}, [&](const store::SyncBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      uint32_t api = 0;
      uint32_t op = 0;
      if (const GpuAttribution::Call* call = attribution.Find(batch.correlation[i])) {
        api = first_ids[call->name];
        if (call->path != RangePaths::kNone) op = first_ids[attribution.paths()[call->path].name];
      }
      SyncSums& sum = sums[{batch.kind[i], api, op}];
      ++sum.count;
      sum.total_ns += static_cast<uint64_t>(batch.duration_ns[i]);
      sum.max_ns = std::max(sum.max_ns, batch.duration_ns[i]);
    }
    return absl::OkStatus();
  }));

  SyncTable table;
  uint64_t total_ns = 0;
  for (const auto& [key, sum] : sums) {
    const auto& [kind, api, op] = key;
    total_ns += sum.total_ns;
    table.rows.push_back(
        {.name = SyncName(kind),
         .api = reader.names()[api],
         .op = reader.names()[op],
         .count = sum.count,
         .total_ns = static_cast<int64_t>(sum.total_ns),
         .mean_ns = static_cast<int64_t>(sum.total_ns / static_cast<uint64_t>(sum.count)),
         .max_ns = sum.max_ns});
  }
  table.total_ns = static_cast<int64_t>(total_ns);
  std::sort(table.rows.begin(), table.rows.end(), [](const SyncRow& a, const SyncRow& b) {
    return std::tie(b.total_ns, a.name, a.api, a.op) < std::tie(a.total_ns, b.name, b.api, b.op);
  });
  return table;
}

}  // namespace profd::report
