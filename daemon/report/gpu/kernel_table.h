// Kernels by name: times, launch configurations, occupancy.
//
// Threads: any, one reader each. Memory: 64 bytes per API call and 48 per GPU row, or twice that as
// vectors grow. Errors: those of the reader; INVALID_ARGUMENT for options out of range.
#ifndef PROFD_DAEMON_REPORT_GPU_KERNEL_TABLE_H_
#define PROFD_DAEMON_REPORT_GPU_KERNEL_TABLE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct KernelOptions {
  std::optional<int64_t> step;  // Only kernels that this step launched.
};

// All launches of one kernel. Percentiles are durations that occurred (nearest rank). Grid, block,
// and other launch parameters are those of the configuration with the most time;
// `configuration_count` is the number of configurations.
struct KernelRow {
  std::string name;          // As recorded.
  std::string display_name;  // Demangled.
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t mean_ns = 0;
  int64_t min_ns = 0;
  int64_t p50_ns = 0;
  int64_t p95_ns = 0;
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
  double share = 0;               // Of the total of all kernels, 0..1.
  std::array<int64_t, 3> grid{};  // 0: not known, as a program's own trace may lack it.
  std::array<int64_t, 3> block{};
  int64_t registers_per_thread = -1;  // -1: not known; likewise below.
  int64_t static_shared_bytes = -1;
  int64_t dynamic_shared_bytes = -1;
  int64_t local_bytes_per_thread = -1;
  int64_t configuration_count = 0;
  // Estimate: warps that fit an SM at once, given threads, registers, shared memory, and blocks,
  // over the warps that it can hold; 0..1. -1: unknown device.
  double occupancy = -1;
  std::string occupancy_limit;  // "registers", "shared memory", "threads", "blocks", "grid"
  // Mean of start minus the start of its API call; -1: no launch had a recorded call.
  int64_t mean_launch_latency_ns = -1;
  // Mean of start minus the later of: the end of the previous work in its stream, or of its call.
  int64_t mean_queue_ns = -1;
  bool uses_tensor_cores = false;  // By name families known up to sm_100.
  bool is_communication = false;   // NCCL
  std::string op;                  // The range that launched most of its time; empty: none.
  int64_t orphan_count = 0;
  int64_t graph_count = 0;  // Launched as nodes of a CUDA graph.
};

struct KernelTable {
  std::vector<KernelRow> rows;  // By total time.
  int64_t kernel_count = 0;  // Launched in the window; in mode light, which has no calls: that ran.
  int64_t total_ns = 0;      // Over all rows.
  // The union over streams of all kernels, copies, memsets, and whole graphs, summed over devices.
  int64_t busy_ns = 0;
  int64_t kernel_busy_ns = 0;      // The same for kernels only.
  int64_t graph_launch_count = 0;  // Graphs whose nodes were not recorded; in no row.
  int64_t graph_launch_ns = 0;
  // Kernels that ran in the window but were launched before it, by a host that was ahead of its
  // GPU. They are in no row and no total, but in the busy times. 0 with `step`.
  int64_t earlier_kernel_count = 0;
  int64_t earlier_kernel_ns = 0;
  int64_t launch_count = 0;       // Calls that launch kernels or graphs; only if there are no rows.
  bool lacks_gpu_events = false;  // Likewise: an import left them out, because others are missing.
  std::string unread_devices;     // Likewise: UnreadDevicesClause().
};
absl::StatusOr<KernelTable> SummarizeKernels(store::CaptureReader& reader,
                                             const KernelOptions& options);

const table::Description<KernelRow>& KernelColumns();
// The report "kernels" of reports.h, and back: without launch_count,
// lacks_gpu_events, and unread_devices.
// DATA_LOSS: the parts do not fit together.
table::Report ToReport(const KernelTable& kernels);
absl::StatusOr<KernelTable> KernelsFrom(const table::Report& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_KERNEL_TABLE_H_
