#include "daemon/report/gpu/copy_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/index/by_name.h"
#include "daemon/report/index/first_ids.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/kernel_purpose.h"
#include "daemon/report/index/launch_statistics.h"

namespace profd::report {
namespace {

// What makes a row: packed (kind, copy kind, source kind, destination kind). What is not in its
// name is 0, so that no two rows have the same name.
uint64_t GroupKey(GpuRowKind kind, uint32_t copy_kind, uint32_t source, uint32_t destination) {
  if (kind != GpuRowKind::kMemcpy) copy_kind = source = 0;
  if (kind != GpuRowKind::kMemcpy && kind != GpuRowKind::kMemset) destination = 0;
  return uint64_t{static_cast<uint8_t>(kind)} << 32 | copy_kind << 16 | source << 8 | destination;
}
// Of a kernel that copies: (kind, name).
uint64_t GroupKey(uint32_t name) {
  return uint64_t{static_cast<uint8_t>(GpuRowKind::kKernel)} << 32 | name;
}

std::string NameOf(uint64_t key, std::span<const std::string> names, Demangler& demangler) {
  const auto kind = static_cast<GpuRowKind>(key >> 32);
  if (kind == GpuRowKind::kKernel) return demangler.Demangle(names[key & 0xFFFFFFFF]);
  return WorkName(kind, key >> 16 & 0xFF, key >> 8 & 0xFF, key & 0xFF);
}

struct CopySums {
  uint64_t bytes = 0;
  uint64_t min_bytes = std::numeric_limits<uint64_t>::max();
  uint64_t max_bytes = 0;
  int64_t async_count = 0;
  double sized_ns = 0;  // Time of those whose size is known.
};

constexpr std::string_view kBandwidth = "memory bandwidth (GB/s)";

// Bandwidths that an imported trace has, by the position of the row among all GPU rows. Where times
// are whole microseconds, they tell how long a short copy took.
absl::StatusOr<absl::flat_hash_map<uint32_t, double>> RecordedBandwidths(
    store::CaptureReader& reader) {
  absl::flat_hash_map<uint32_t, double> bandwidths;
  if (reader.record().imported.time_unit_ns <= 1) return bandwidths;
  const std::span<const std::string> names = reader.names();
  RETURN_IF_ERROR(reader.ForEach<ArgumentRow>([&](const ArgumentBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (batch.of[i] != kArgumentOfGpu || names[batch.key[i]] != kBandwidth) continue;
      if (batch.type[i] != static_cast<uint8_t>(ArgumentType::kReal)) continue;
      const auto gb_per_s = std::bit_cast<double>(batch.value[i]);
      if (std::isfinite(gb_per_s) && gb_per_s > 0) bandwidths[batch.row[i]] = gb_per_s;
    }
    return absl::OkStatus();
  }));
  return bandwidths;
}

// How long a copy of `bytes` took: as recorded, or by its bandwidth if that is as exact as the
// trace's times allow.
double ExactDuration(int64_t recorded_ns, uint64_t bytes, double gb_per_s, int64_t time_unit_ns) {
  const double exact_ns = static_cast<double>(bytes) / gb_per_s;
  const double off_ns = std::abs(exact_ns - static_cast<double>(recorded_ns));
  return off_ns <= static_cast<double>(time_unit_ns) ? exact_ns : static_cast<double>(recorded_ns);
}

struct Span {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t device;
};

}  // namespace

absl::StatusOr<CopyTable> SummarizeCopies(store::CaptureReader& recorded) {
  BelievedReader reader(recorded);
  ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::Build(reader));
  const std::vector<uint32_t> first_ids = FirstIds(reader.names());
  CopyKernels copy_kernels(reader.names());
  ByName<bool> is_async(reader.names(), &IsAsyncCopyCall);
  Numbering<uint64_t> groups;
  Numbering<uint16_t> devices;
  std::vector<CopySums> sums;
  GroupedDurations durations;
  LaunchingOps ops;
  std::vector<Span> spans;
  int64_t earlier_count = 0;
  uint64_t earlier_ns = 0;
  ASSIGN_OR_RETURN(const auto bandwidths, RecordedBandwidths(reader));
  uint32_t position = 0;
  RETURN_IF_ERROR(reader.ForEach<GpuRow>(
      kGpuTime | kGpuWhat | kGpuWhere | kGpuCause | kGpuCopy, {}, [&](const GpuBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i, ++position) {
          const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
          const GpuAttribution::Call* call = attribution.Find(batch.correlation[i]);
          const bool is_copy_kernel =
              kind == GpuRowKind::kKernel && copy_kernels.Has(batch.name[i], call);
          if (!IsMemoryWork(kind) && !is_copy_kernel) continue;
          spans.push_back({batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i],
                           devices.Of(batch.device[i])});
          if (call != nullptr && attribution.IsBeforeWindow(*call)) {
            ++earlier_count;
            earlier_ns += static_cast<uint64_t>(batch.duration_ns[i]);
            continue;
          }
          const uint32_t group =
              is_copy_kernel ? groups.Of(GroupKey(first_ids[batch.name[i]]))
                             : groups.Of(GroupKey(kind, batch.copy_kind[i], batch.source_kind[i],
                                                  batch.destination_kind[i]));
          if (group == sums.size()) sums.emplace_back();
          CopySums& sum = sums[group];
          sum.bytes += batch.bytes[i];
          if (batch.bytes[i] > 0) sum.min_bytes = std::min(sum.min_bytes, batch.bytes[i]);
          sum.max_bytes = std::max(sum.max_bytes, batch.bytes[i]);
          if (batch.bytes[i] > 0) {
            const auto known = bandwidths.find(position);
            // Bandwidths are kept by the position among all rows. Where rows are left out,
            // positions here are others.
            sum.sized_ns += known == bandwidths.end() || reader.leaves_out_rows()
                                ? static_cast<double>(batch.duration_ns[i])
                                : ExactDuration(batch.duration_ns[i], batch.bytes[i], known->second,
                                                reader.record().imported.time_unit_ns);
          }
          // Traces that were imported do not have the flag.
          if ((batch.flags[i] & kGpuAsync) != 0 || (call != nullptr && is_async.Of(call->name))) {
            ++sum.async_count;
          }
          durations.Add(group, batch.duration_ns[i]);
          const bool has_op = call != nullptr && call->path != RangePaths::kNone;
          ops.Add(group, has_op ? first_ids[attribution.paths()[call->path].name] : 0,
                  batch.duration_ns[i]);
        }
        return absl::OkStatus();
      }));

  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
  BusyTime busy;
  for (const Span& span : spans) busy.Add(span.device, span.start_ns, span.end_ns);

  CopyTable table;
  table.busy_ns = busy.total_ns();
  table.earlier_count = earlier_count;
  table.earlier_ns = static_cast<int64_t>(earlier_ns);
  const std::vector<uint32_t> longest_op = ops.Longest(sums.size(), reader.names());
  const std::vector<DurationStatistics> statistics = durations.Take(sums.size());
  uint64_t total_ns = 0;
  Demangler demangler;
  for (size_t group = 0; group < sums.size(); ++group) {
    const DurationStatistics& times = statistics[group];
    const CopySums& sum = sums[group];
    total_ns += static_cast<uint64_t>(times.total_ns);
    CopyRow row = {.name = NameOf(groups.keys()[group], reader.names(), demangler),
                   .count = times.count,
                   .total_ns = times.total_ns,
                   .mean_ns = times.mean_ns,
                   .p50_ns = times.p50_ns,
                   .p95_ns = times.p95_ns,
                   .p99_ns = times.p99_ns,
                   .max_ns = times.max_ns,
                   .async_count = sum.async_count,
                   .op = reader.names()[longest_op[group]]};
    // A copy without bytes is one whose size is not known: it has no part in the bandwidth.
    if (sum.bytes > 0) {
      row.bytes = static_cast<int64_t>(sum.bytes);
      row.min_bytes = static_cast<int64_t>(sum.min_bytes);
      row.max_bytes = static_cast<int64_t>(sum.max_bytes);
    }
    if (sum.sized_ns > 0) {
      row.bandwidth_gb_per_s = static_cast<double>(sum.bytes) / sum.sized_ns;
    }
    table.rows.push_back(std::move(row));
  }
  table.total_ns = static_cast<int64_t>(total_ns);
  std::sort(table.rows.begin(), table.rows.end(), [](const CopyRow& a, const CopyRow& b) {
    return std::tie(b.total_ns, a.name) < std::tie(a.total_ns, b.name);
  });
  return table;
}

}  // namespace profd::report
