#include "daemon/report/gpu/sync_table.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/index/first_ids.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/waiting_calls.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

struct SyncSums {
  int64_t count = 0;
  uint64_t total_ns = 0;
  int64_t max_ns = 0;
};

// What waited: a kind of CUPTI's, or one of these.
enum WaitKind : uint32_t { kBlockingCopy = 1u << 16, kCallOnly = 2u << 16 };

std::string WaitName(uint32_t kind) {
  if (kind == kBlockingCopy) return "Blocking Copy";
  if (kind == kCallOnly) return "Call";
  return SyncName(kind);
}

class SyncSummary {
 public:
  SyncSummary(store::CaptureReader& reader, const GpuAttribution& attribution)
      : reader_(reader), attribution_(attribution), first_ids_(FirstIds(reader.names())) {}

  absl::Status Read() {
    RETURN_IF_ERROR(reader_.ForEach<profd::SyncRow>([&](const SyncBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        has_records_ = true;
        Add(batch.kind[i], attribution_.Find(batch.correlation[i]), batch.duration_ns[i]);
      }
      return absl::OkStatus();
    }));
    ASSIGN_OR_RETURN(const std::vector<bool> copies, FindBlockingCopies(reader_, attribution_));
    std::vector<std::optional<bool>> waits(reader_.names().size());
    for (size_t i = 0; i < copies.size(); ++i) {
      const GpuAttribution::Call& call = attribution_.calls()[i];
      std::optional<bool>& is_wait = waits[call.name];
      if (!is_wait.has_value()) is_wait = WaitsForGpu(reader_.names()[call.name]);
      const auto duration_ns = static_cast<int64_t>(Distance(call.start_ns, call.end_ns));
      if (copies[i]) {
        Add(kBlockingCopy, &call, duration_ns);
      } else if (*is_wait && !has_records_) {
        Add(kCallOnly, &call, duration_ns);
      }
    }
    return absl::OkStatus();
  }

  SyncTable Table() const {
    SyncTable table;
    table.has_records = has_records_;
    table.has_calls = !attribution_.calls().empty();
    uint64_t total_ns = 0;
    for (const auto& [key, sum] : sums_) {
      const auto& [kind, api, op] = key;
      total_ns += sum.total_ns;
      table.rows.push_back(
          {.name = WaitName(kind),
           .api = reader_.names()[api],
           .op = reader_.names()[op],
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

 private:
  // By kind, API call and range; 0 stands for no call and no range.
  void Add(uint32_t kind, const GpuAttribution::Call* call, int64_t duration_ns) {
    uint32_t api = 0;
    uint32_t op = 0;
    if (call != nullptr) {
      api = first_ids_[call->name];
      if (call->path != RangePaths::kNone) op = first_ids_[attribution_.paths()[call->path].name];
    }
    SyncSums& sum = sums_[{kind, api, op}];
    ++sum.count;
    sum.total_ns += static_cast<uint64_t>(duration_ns);
    sum.max_ns = std::max(sum.max_ns, duration_ns);
  }

  store::CaptureReader& reader_;
  const GpuAttribution& attribution_;
  const std::vector<uint32_t> first_ids_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, SyncSums> sums_;
  bool has_records_ = false;
};

}  // namespace

absl::StatusOr<SyncTable> SummarizeSyncs(store::CaptureReader& recorded) {
  BelievedReader reader(recorded);
  ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::Build(reader));
  SyncSummary summary(reader, attribution);
  RETURN_IF_ERROR(summary.Read());
  return summary.Table();
}

}  // namespace profd::report
