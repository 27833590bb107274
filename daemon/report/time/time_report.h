// Where the time of a capture went: what one GPU did and why it was idle, in total and step by
// step, and the causes on the host: launches, collectives, synchronizing calls, the data loader,
// compilations, and time outside operators (host_split.h).
//
//   host     launch ──┐          launch ─────┐
//   stream 7    ██████│███         ░░░░░░░░░░███████        compute
//   stream 20         ▒▒▒▒▒▒▒▒▒    ░ idle: host wait        communication, exposed without compute
//
// Compute + exposed communication + exposed copies + idle time add up to the whole time, and the
// causes of idle time add up to the idle time. A step is a time on the host, from mark to mark;
// all work that ran within it counts, even if an earlier step launched it. Work and gaps are cut at
// the marks.
//
// Threads: any, one reader each.
// Memory:  128 bytes per API call, 128 per GPU row, or twice that as vectors grow, 100 per
//          collective, those of names, steps, and streams, and that of host_split.h.
// Errors:  those of the reader; INVALID_ARGUMENT for a device that is not in the capture; the error
//          lists its devices.
#ifndef PROFD_DAEMON_REPORT_TIME_TIME_REPORT_H_
#define PROFD_DAEMON_REPORT_TIME_TIME_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/time/compile_report.h"
#include "daemon/report/time/host_split.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct TimeOptions {
  std::optional<int64_t> device;  // nullopt: the device with the most work.
  // Only GPU work whose launch is in the capture.
  bool launched_only = false;
};

struct IdleCauses {  // As in IdleRow; the sum is the idle time.
  int64_t host_wait_ns = 0;
  int64_t kernel_wait_ns = 0;
  int64_t other_ns = 0;  // For a step, including the time before its first and after its last work.
};

// A period of time, and what the device did in it. busy + idle = kernel_time.
struct TimeBreakdown {
  // In total: from the start of the first to the end of the last work, without what was not
  // recorded; for a step: its duration.
  int64_t kernel_time_ns = 0;
  int64_t busy_ns = 0;  // Union over streams.
  int64_t idle_ns = 0;
  int64_t gap_count = 0;   // As in IdleRow: gaps of the device that begin in it.
  int64_t compute_ns = 0;  // Union of kernels that are not communication, and of whole graphs.
  int64_t communication_ns = 0;
  int64_t exposed_communication_ns = 0;     // While no compute ran.
  int64_t overlapped_communication_ns = 0;  // communication - exposed
  int64_t copy_ns = 0;                      // Copies and memsets.
  int64_t exposed_copy_ns = 0;              // While no kernel ran.
  IdleCauses idle_by_cause;
  // Idle time in which no launched work was pending, so only the host worked. 0 if launches are not
  // in the capture.
  int64_t host_only_ns = 0;
};

TimeBreakdown BreakdownOf(const IdleRow& row);

struct TimeStep {
  int64_t index = 0;  // As in ProfilerStep#index.
  int64_t duration_ns = 0;
  // If the host runs ahead of the device: how long the step takes there (launched_work.h). -1: it
  // does not, or this is the last step.
  int64_t device_step_ns = -1;
  TimeBreakdown device;
  // On the host; calls and ranges belong to the step that they begin in.
  int64_t launch_count = 0;    // Calls that launched work on the device.
  int64_t launch_ns = 0;       // In those calls.
  int64_t sync_count = 0;      // Calls that wait for a GPU.
  int64_t sync_ns = 0;         // In those calls.
  int64_t data_loader_ns = 0;  // On the thread of the steps, waiting for the next batch.
  int64_t compiled_regions = 0;
  int64_t after_graph_breaks = 0;  // Regions that continue after a graph break.
  int64_t compile_ns = 0;
  HostSplit host;  // Of the training threads; all 0 if TimeReport::host_needs says so.
};

// Time in which kinds of work ran at once, as HTA's breakdown by type of kernel.
struct KernelTypeTime {
  bool compute = false;
  bool communication = false;
  bool copy = false;
  int64_t total_ns = 0;
  double share = 0;  // Of the sum of all rows, 0..1.
};
// HTA's words: "COMPUTATION overlapping COMMUNICATION"
std::string ToString(const KernelTypeTime& types);

// Launches whose work is in the capture. HTA counts four calls (cudaLaunchKernel,
// cudaLaunchKernelExC, cudaMemcpyAsync, cudaMemsetAsync); otherwise all calls that launched work.
inline constexpr int64_t kSlowLaunchCallNs = 50'000;  // HTA's runtime_cutoff
inline constexpr int64_t kLateLaunchNs = 100'000;     // HTA's launch_delay_cutoff
inline constexpr int64_t kShortKernelNs = 10'000;
struct LaunchStatistics {
  int64_t count = 0;
  // Time in the calls, summed; without waits for a full launch queue, and for copies.
  int64_t call_ns = 0;
  int64_t device_ns = 0;  // Time of the launched work, summed.
  // Start of the work minus the end of its call; 0 if it began before that.
  int64_t delay_ns = 0;  // Summed.
  double median_delay_ns = 0;
  int64_t shorter_than_call_count = 0;  // Work that took less time than its launch call.
  int64_t slow_call_count = 0;          // Calls over kSlowLaunchCallNs.
  int64_t late_count = 0;               // Delays over kLateLaunchNs.
  // All kernels of the device, launched in the capture or not.
  int64_t kernel_count = 0;
  int64_t kernel_ns = 0;
  int64_t short_kernel_count = 0;  // Below kShortKernelNs.
  int64_t short_kernel_ns = 0;
};

// Device time of one operator, the innermost range around its launches.
struct LaunchingOpRow {
  std::string name;  // As recorded; empty: launched outside any range.
  int64_t launch_count = 0;
  int64_t call_ns = 0;
  int64_t device_ns = 0;
  int64_t short_kernel_count = 0;
  int64_t shorter_than_call_count = 0;
  int64_t host_wait_ns = 0;  // Idle time of the device before its late launches.
  // The host took longer to launch its work than the device to run it.
  bool launch_bound = false;
};

// Launch queue depth by stream: +1 at each launch, -1 when its work begins. Statistics are over
// these changes, as in HTA (interpolated quantiles).
// CUDA's queue holds 1,024 entries; traces show 1,020 to 1,022 of them before launches wait.
inline constexpr int64_t kFullLaunchQueue = 1020;
struct QueueRow {
  int64_t stream = 0;
  int64_t change_count = 0;
  double mean = 0;
  double standard_deviation = 0;  // Of the sample.
  double min = 0;
  double p25 = 0;
  double p50 = 0;
  double p75 = 0;
  double max = 0;
  int64_t full_ns = 0;  // Time with kFullLaunchQueue or more entries: launches wait.
};

// Collectives of one kind, number of ranks, and size.
struct CollectiveSumRow {
  CollectiveKind kind = CollectiveKind::kOther;
  int64_t group_size = 0;  // Ranks; 0: unknown.
  bool on_device = false;
  int64_t bytes = -1;  // Of each input; -1: unknown.
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  int64_t exposed_ns = 0;  // Nothing hid it (CollectiveRow).
  // For the fastest whose completion is known: bytes over time, and that times BusFactor(), as in
  // NCCL's tests, which is comparable with the speed of the links. -1: bytes, ranks, or all
  // completions are unknown (only the calls that issued them are recorded).
  double algorithm_gb_per_s = -1;
  double bus_gb_per_s = -1;
};

// What made the host wait for a GPU.
enum class SyncCause : uint8_t {
  kExplicit,   // torch.cuda.synchronize() and similar calls outside operators.
  kItem,       // .item(), bool(tensor), float(tensor): aten::item, aten::_local_scalar_dense
  kCopy,       // .cpu(), .to(), print(tensor): a copy that the host waits for
  kOperator,   // Another operator, such as aten::nonzero
  kAllocator,  // cudaMalloc and cudaFree, which wait for the device
};
std::string_view ToString(SyncCause cause);  // "item"
bool FromString(std::string_view name, SyncCause& cause);
struct SyncCallRow {
  std::string call;  // "cudaStreamSynchronize"
  SyncCause cause = SyncCause::kExplicit;
  std::string op;     // The outermost operator around it, "aten::item"; empty: none.
  std::string where;  // The innermost range around that; empty: none.
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t max_ns = 0;
  double per_step = 0;  // Calls that began in steps, over the steps; 0: no steps.
};

struct DataLoaderTime {
  int64_t count = 0;  // Waits for a batch.
  int64_t total_ns = 0;
  int64_t max_ns = 0;
  int64_t in_steps_ns = 0;  // Waits that began in steps, on the thread of the steps.
};

struct TimeDevice {
  int64_t number = 0;
  int64_t busy_ns = 0;
};

struct TimeReport {
  bool has_device = false;     // The capture has GPU work; else only the host's parts are filled.
  std::string unread_devices;  // UnreadDevicesClause(), for notes; not in a report from elsewhere.
  int64_t device = -1;         // The device of this report; -1: none.
  std::vector<TimeDevice> devices;  // All, by number.
  TimeBreakdown whole;
  // Between windows, without GPU work: not in `whole`, because nothing is known of it.
  int64_t unrecorded_ns = 0;
  // Communication hidden behind compute over all communication, 0..1; -1: there is none.
  double overlap = -1;
  std::vector<TimeStep> steps;               // By start.
  std::vector<StreamIdleRow> streams;        // Of the device, by context and number.
  std::vector<KernelTypeTime> kernel_types;  // By time.
  LaunchStatistics launches;
  std::vector<LaunchingOpRow> launching_ops;  // By host_wait_ns.
  std::vector<QueueRow> queues;               // By stream.
  // Of the whole capture, not only of the device.
  std::vector<CollectiveSumRow> collectives;  // By exposed_ns.
  std::vector<SyncCallRow> syncs;             // By total_ns.
  DataLoaderTime data_loader;
  CompileReport compile;
  int64_t compiled_region_count = 0;  // Of `compile`; likewise the next.
  int64_t graph_break_count = 0;
  // Of the host, when nothing hid them (CollectiveTable::exposed_on_host).
  IntervalSet host_collectives;
  std::string host_needs;                  // Not empty: the split of steps on the host is unknown.
  bool host_of_ranges = false;             // HostSplits::of_ranges
  std::vector<HostGap> host_gaps;          // All of the training threads, by start.
  std::vector<LoaderStart> loader_starts;  // HostSplits::loader_starts
  OperatorRounds rounds;                   // HostSplits::rounds
  bool rounds_of_last_operators = false;
  HostGapTable host_gap_table;  // Of them, the parts in steps; without steps, in windows.
};

absl::StatusOr<TimeReport> SummarizeTime(store::CaptureReader& reader, const TimeOptions& options);

// The report "time" of reports.h, and back: without `compile`, host_collectives,
// host_of_ranges, host_gaps, loader_starts, rounds, and rounds_of_last_operators.
// DATA_LOSS: the parts do not fit together.
table::Report ToReport(const TimeReport& time);
absl::StatusOr<TimeReport> TimeFrom(const table::Report& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_TIME_REPORT_H_
