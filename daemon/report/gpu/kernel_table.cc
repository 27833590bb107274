#include "daemon/report/gpu/kernel_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/capture/quality.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/gpu/occupancy.h"
#include "daemon/report/index/by_name.h"
#include "daemon/report/index/first_ids.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/kernel_purpose.h"
#include "daemon/report/index/launch_statistics.h"
#include "daemon/report/index/step_lookup.h"

namespace profd::report {
namespace {

struct StreamKey {
  uint16_t device;
  uint32_t context;
  uint32_t stream;
  friend bool operator==(const StreamKey&, const StreamKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const StreamKey& key) {
    return H::combine(std::move(h), key.device, key.context, key.stream);
  }
};

// All that may differ between two launches of one kernel.
struct Configuration {
  uint32_t kernel;
  uint16_t device;
  uint16_t registers;
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> block;
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t local_bytes;

  auto Fields() const {
    return std::tie(kernel, device, registers, grid, block, static_shared_bytes,
                    dynamic_shared_bytes, local_bytes);
  }
  friend bool operator==(const Configuration&, const Configuration&) = default;
  friend bool operator<(const Configuration& a, const Configuration& b) {
    return a.Fields() < b.Fields();
  }
  template <typename H>
  friend H AbslHashValue(H h, const Configuration& c) {
    return H::combine(std::move(h), c.Fields());
  }
};

// What is summed of one kernel besides its durations.
struct KernelSums {
  uint64_t latency_ns = 0;
  uint64_t latency_count = 0;
  uint64_t queue_ns = 0;
  int64_t orphans = 0;
  int64_t graph_nodes = 0;
  int64_t communicating = 0;  // Those that exchange data.
  int64_t configurations = 0;
  uint64_t longest_ns = 0;  // Of one configuration.
  Configuration longest{};
};

uint64_t Later(int64_t time_ns, int64_t than_ns) {
  return time_ns <= than_ns ? 0 : static_cast<uint64_t>(time_ns) - static_cast<uint64_t>(than_ns);
}

class KernelSummary {
 public:
  KernelSummary(store::CaptureReader& reader, const KernelOptions& options)
      : reader_(reader),
        options_(options),
        first_ids_(FirstIds(reader.names())),
        counts_work_items_(reader.names(), &CountsWorkItems) {}

  absl::StatusOr<KernelTable> Summarize() {
    ASSIGN_OR_RETURN(attribution_, GpuAttribution::Build(reader_));
    communication_.emplace(reader_.names(), attribution_);
    RETURN_IF_ERROR(reader_.ForEach<GpuRow>(
        kGpuTime | kGpuWhat | kGpuWhere | kGpuCause | kGpuLaunch, {}, [&](const GpuBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) AddRow(batch, i);
          return absl::OkStatus();
        }));
    FollowStreams();
    ChooseConfigurations();
    return TakeTable();
  }

 private:
  static constexpr uint32_t kNotCounted = std::numeric_limits<uint32_t>::max();
  static constexpr uint32_t kNoKernel = kNotCounted - 1;       // A copy, a memset, a whole graph.
  static constexpr uint32_t kEarlierKernel = kNotCounted - 2;  // Launched before the window.

  struct Activity {
    int64_t start_ns;
    int64_t end_ns;
    const GpuAttribution::Call* call;
    uint32_t stream;  // In streams_.
    uint32_t kernel;  // In kernels_.
  };

  void AddRow(const GpuBatch& batch, size_t i) {
    const GpuAttribution::Call* call = attribution_.Find(batch.correlation[i]);
    const int64_t duration_ns = batch.duration_ns[i];
    Activity activity = {batch.start_ns[i], batch.start_ns[i] + duration_ns, call,
                         streams_.Of({batch.device[i], batch.context[i], batch.stream[i]}),
                         kNotCounted};
    // What is not counted is kept as well: later kernels wait until its stream is free.
    const bool counted =
        !options_.step.has_value() ||
        (call != nullptr && call->step >= 0 && attribution_.StepIndexOf(*call) == *options_.step);
    if (counted) {
      activity.kernel = kNoKernel;
      const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
      if (kind == GpuRowKind::kKernel && call != nullptr && attribution_.IsBeforeWindow(*call)) {
        // It kept the GPU busy, but the code of the window did not launch it.
        activity.kernel = kEarlierKernel;
        ++table_.earlier_kernel_count;
        earlier_kernel_ns_ += static_cast<uint64_t>(duration_ns);
      } else if (kind == GpuRowKind::kKernel) {
        activity.kernel = AddKernel(batch, i, call);
      } else if (kind == GpuRowKind::kGraphLaunch) {
        ++table_.graph_launch_count;
        graph_launch_ns_ += static_cast<uint64_t>(duration_ns);
      }
    }
    activities_.push_back(activity);
  }

  std::array<uint32_t, 3> GridOf(const GpuBatch& batch, size_t i,
                                 const GpuAttribution::Call* call) {
    const std::array<uint32_t, 3> grid = {batch.grid[0][i], batch.grid[1][i], batch.grid[2][i]};
    if (call == nullptr || !counts_work_items_.Of(call->name)) return grid;
    return BlocksOfWorkItems(grid, {batch.block[0][i], batch.block[1][i], batch.block[2][i]});
  }

  uint32_t AddKernel(const GpuBatch& batch, size_t i, const GpuAttribution::Call* call) {
    const uint32_t kernel = kernels_.Of(first_ids_[batch.name[i]]);
    if (kernel == sums_.size()) sums_.emplace_back();
    KernelSums& sums = sums_[kernel];
    const int64_t duration_ns = batch.duration_ns[i];
    durations_.Add(kernel, duration_ns);
    if ((batch.flags[i] & kGpuOrphan) != 0) ++sums.orphans;
    if (communication_->Has(batch.name[i], call)) ++sums.communicating;
    if (batch.graph_id[i] != 0 || batch.graph_node_id[i] != 0) ++sums.graph_nodes;
    const bool has_op = call != nullptr && call->path != RangePaths::kNone;
    ops_.Add(kernel, has_op ? first_ids_[attribution_.paths()[call->path].name] : 0, duration_ns);
    const Configuration configuration = {
        .kernel = kernel,
        .device = batch.device[i],
        .registers = batch.registers_per_thread[i],
        .grid = GridOf(batch, i, call),
        .block = {batch.block[0][i], batch.block[1][i], batch.block[2][i]},
        .static_shared_bytes = batch.static_shared_bytes[i],
        .dynamic_shared_bytes = batch.dynamic_shared_bytes[i],
        .local_bytes = batch.local_bytes_per_thread[i]};
    configurations_[configuration] += static_cast<uint64_t>(duration_ns);
    return kernel;
  }

  // In order of time: what each kernel waited for, and when the devices were busy.
  void FollowStreams() {
    std::sort(activities_.begin(), activities_.end(),
              [](const Activity& a, const Activity& b) { return a.start_ns < b.start_ns; });
    std::vector<int64_t> until_ns(streams_.keys().size(), std::numeric_limits<int64_t>::min());
    Numbering<uint16_t> devices;
    for (const Activity& activity : activities_) {
      int64_t& stream_until_ns = until_ns[activity.stream];
      if (activity.kernel != kNotCounted) {
        const uint32_t device = devices.Of(streams_.keys()[activity.stream].device);
        busy_.Add(device, activity.start_ns, activity.end_ns);
        if (activity.kernel != kNoKernel) {
          kernel_busy_.Add(device, activity.start_ns, activity.end_ns);
          if (activity.kernel != kEarlierKernel) AddWaiting(activity, stream_until_ns);
        }
      }
      stream_until_ns = std::max(stream_until_ns, activity.end_ns);
    }
  }

  void AddWaiting(const Activity& activity, int64_t stream_until_ns) {
    if (activity.call == nullptr) return;
    KernelSums& sums = sums_[activity.kernel];
    ++sums.latency_count;
    sums.latency_ns += Later(activity.start_ns, activity.call->start_ns);
    // The call has returned and the stream is free: what is left is the wait of the kernel itself.
    sums.queue_ns += Later(activity.start_ns, std::max(stream_until_ns, activity.call->end_ns));
  }

  void ChooseConfigurations() {
    for (const auto& [configuration, ns] : configurations_) {
      KernelSums& sums = sums_[configuration.kernel];
      // Of equal ones the smallest: the map has no order, and a report should be the same each
      // time.
      if (sums.configurations++ == 0 || ns > sums.longest_ns ||
          (ns == sums.longest_ns && configuration < sums.longest)) {
        sums.longest_ns = ns;
        sums.longest = configuration;
      }
    }
  }

  KernelTable TakeTable() {
    const std::span<const std::string> names = reader_.names();
    const std::vector<uint32_t> ops = ops_.Longest(sums_.size(), names);
    const std::vector<DurationStatistics> statistics = durations_.Take(sums_.size());
    uint64_t total_ns = 0;
    for (const DurationStatistics& one : statistics) {
      table_.kernel_count += one.count;
      total_ns += static_cast<uint64_t>(one.total_ns);
    }
    table_.total_ns = static_cast<int64_t>(total_ns);
    table_.graph_launch_ns = static_cast<int64_t>(graph_launch_ns_);
    table_.earlier_kernel_ns = static_cast<int64_t>(earlier_kernel_ns_);
    table_.busy_ns = busy_.total_ns();
    table_.kernel_busy_ns = kernel_busy_.total_ns();
    for (uint32_t kernel = 0; kernel < sums_.size(); ++kernel) {
      table_.rows.push_back(RowOf(names[kernels_.keys()[kernel]], statistics[kernel], sums_[kernel],
                                  names[ops[kernel]]));
    }
    // Launches without kernels mean that kernels were not recorded.
    if (table_.rows.empty()) CountLaunches();
    SortRows();
    Demangler demangler;
    for (KernelRow& row : table_.rows) row.display_name = demangler.Demangle(row.name);
    return std::move(table_);
  }

  KernelRow RowOf(const std::string& name, const DurationStatistics& statistics,
                  const KernelSums& sums, const std::string& op) const {
    const Configuration& configuration = sums.longest;
    KernelRow row = {.name = name,
                     .count = statistics.count,
                     .total_ns = statistics.total_ns,
                     .mean_ns = statistics.mean_ns,
                     .min_ns = statistics.min_ns,
                     .p50_ns = statistics.p50_ns,
                     .p95_ns = statistics.p95_ns,
                     .p99_ns = statistics.p99_ns,
                     .max_ns = statistics.max_ns,
                     .configuration_count = sums.configurations,
                     .uses_tensor_cores = UsesTensorCores(name),
                     .is_communication = 2 * sums.communicating > statistics.count,
                     .op = op,
                     .orphan_count = sums.orphans,
                     .graph_count = sums.graph_nodes};
    std::copy(configuration.grid.begin(), configuration.grid.end(), row.grid.begin());
    std::copy(configuration.block.begin(), configuration.block.end(), row.block.begin());
    if (configuration.registers != 0) row.registers_per_thread = configuration.registers;
    if (configuration.grid[0] != 0) {
      row.static_shared_bytes = configuration.static_shared_bytes;
      row.dynamic_shared_bytes = configuration.dynamic_shared_bytes;
      row.local_bytes_per_thread = configuration.local_bytes;
    }
    if (table_.total_ns > 0) {
      row.share = static_cast<double>(statistics.total_ns) / static_cast<double>(table_.total_ns);
    }
    if (sums.latency_count > 0) {
      row.mean_launch_latency_ns = static_cast<int64_t>(sums.latency_ns / sums.latency_count);
      row.mean_queue_ns = static_cast<int64_t>(sums.queue_ns / sums.latency_count);
    }
    for (const GpuDevice& device : reader_.record().gpu.devices) {
      if (device.number != configuration.device) continue;
      const std::optional<Occupancy> occupancy =
          EstimateOccupancy({.grid = configuration.grid,
                             .block = configuration.block,
                             .registers_per_thread = configuration.registers,
                             .static_shared_bytes = configuration.static_shared_bytes,
                             .dynamic_shared_bytes = configuration.dynamic_shared_bytes},
                            device);
      if (occupancy.has_value()) {
        row.occupancy = occupancy->fraction;
        row.occupancy_limit = occupancy->limit;
      }
    }
    return row;
  }

  void CountLaunches() {
    table_.unread_devices = UnreadDevicesClause(reader_.record());
    for (const auto& [what, count] : reader_.record().imported.not_understood) {
      table_.lacks_gpu_events |= what.starts_with("GPU events, of which others are missing");
    }
    for (const GpuAttribution::Call& call : attribution_.calls()) {
      if (options_.step.has_value() &&
          (call.step < 0 || attribution_.StepIndexOf(call) != *options_.step)) {
        continue;
      }
      if (LaunchesWork(reader_.names()[call.name])) ++table_.launch_count;
    }
  }

  void SortRows() {
    std::ranges::sort(table_.rows, [](const KernelRow& a, const KernelRow& b) {
      return std::tie(b.total_ns, a.name) < std::tie(a.total_ns, b.name);
    });
  }

  store::CaptureReader& reader_;
  const KernelOptions options_;
  const std::vector<uint32_t> first_ids_;
  ByName<bool> counts_work_items_;
  GpuAttribution attribution_;
  std::optional<CommunicationKernels> communication_;  // Once that is built.
  Numbering<StreamKey> streams_;
  Numbering<uint32_t> kernels_;  // By name.
  std::vector<KernelSums> sums_;
  GroupedDurations durations_;
  LaunchingOps ops_;
  absl::flat_hash_map<Configuration, uint64_t> configurations_;  // Time by configuration.
  std::vector<Activity> activities_;
  BusyTime busy_;
  BusyTime kernel_busy_;
  uint64_t graph_launch_ns_ = 0;
  uint64_t earlier_kernel_ns_ = 0;
  KernelTable table_;
};

}  // namespace

absl::StatusOr<KernelTable> SummarizeKernels(store::CaptureReader& recorded,
                                             const KernelOptions& options) {
  BelievedReader reader(recorded);
  if (options.step.has_value()) {
    RETURN_IF_ERROR(StepLookup(reader.steps()).WithIndex(*options.step).status());
  }
  return KernelSummary(reader, options).Summarize();
}

}  // namespace profd::report
