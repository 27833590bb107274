// Reports: pure functions over one stored capture. The same code answers an RPC in the
// daemon and a command on a fetched file.
//
// Threads: any, one reader each. Memory: bounded by names, steps and, for memory, live
// blocks; never by ranges. What tells of the GPU keeps 64 bytes per API call and 48 per GPU row,
// the operator table 24 per event of an allocator and, by inputs, 16 per operator; or twice that,
// as vectors grow. What memory keeps to tell categories is in memory_categories.h.
// Errors: those of the reader; INVALID_ARGUMENT for options out of range.
//
// How do I add a report?  A struct and a function here, a .cc beside it, a message and an
// RPC in proto/profd/v1/reports.proto, its conversion in daemon/rpc/convert.cc and
// cli/from_proto.cc, and a command in cli/.
#ifndef PROFD_DAEMON_REPORT_REPORTS_H_
#define PROFD_DAEMON_REPORT_REPORTS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/step_labels.h"
#include "daemon/store/capture_reader.h"

namespace profd::report {

// ---- operators ----
// Definitions are torch.profiler's: CPU total = end - start, summed over calls (a
// recursive range counts at every level); self = CPU total - the sum of the CPU total of
// its direct children on the same thread.

// Calls of the CUDA API are rows like ranges, children of the range they were made in.
//
// Device time is torch.profiler's too: a kernel, copy or memset belongs to the innermost range
// around its API call, on the thread that made it, whenever it ran; self = what belongs to the
// row itself, total = self + the totals of its children. Work of several streams counts as
// often as it ran, so sums may exceed wall time: busy_device_ns is the corrected view, the
// union over streams of all that belongs to the row or its children.
enum class OpSort {
  kSelfCpu,
  kCpuTotal,
  kCalls,
  kAverage,
  kMax,
  kName,
  kSelfDevice,
  kDeviceTotal,
  kBusyDevice,
};
std::string_view ToString(OpSort sort);  // "self_cpu"
std::optional<OpSort> OpSortFromString(std::string_view text);

struct OpOptions {
  OpSort sort = OpSort::kSelfCpu;  // Descending; kName ascending. Ties by name.
  int64_t limit = 0;               // Rows kept; 0: all.
  bool by_step = false;            // One row per (name, step) instead of per name.
  bool by_inputs = false;          // One row per (name, sizes and types of inputs).
  std::optional<int64_t> step;     // Only ranges that begin inside this step.
};

struct OpRow {
  std::string name;   // As recorded (any bytes).
  int64_t step = -1;  // With by_step: the step it began in; -1: in none.
  int64_t calls = 0;
  int64_t self_cpu_ns = 0;
  int64_t cpu_total_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  int64_t self_device_ns = 0;
  int64_t device_total_ns = 0;
  int64_t busy_device_ns = 0;
  std::string dims;   // With by_inputs: OperatorInputs.dims; empty: none recorded.
  std::string types;  // With by_inputs: OperatorInputs.types
  // Bytes allocated less bytes freed on the row's thread between its begin and end, as
  // torch.profiler counts them; self: less those of its children. Of the CPU, and of GPUs.
  int64_t cpu_memory_bytes = 0;
  int64_t self_cpu_memory_bytes = 0;
  int64_t device_memory_bytes = 0;
  int64_t self_device_memory_bytes = 0;
};

struct OpTable {
  std::vector<OpRow> rows;
  bool has_memory = false;        // The capture holds events of allocators.
  int64_t self_cpu_total_ns = 0;  // Over all rows, also those beyond `limit`.
  bool has_device = false;        // The capture holds GPU rows.
  // All GPU work, also that of no row; with `step`, of launches in that step.
  int64_t self_device_total_ns = 0;
  int64_t unattributed_device_ns = 0;  // Of that: orphans, and launches outside any range.
  int64_t row_count = 0;               // Before `limit`.
};

// INVALID_ARGUMENT: a step that is not in the capture, naming those that are.
absl::StatusOr<OpTable> SummarizeOps(store::CaptureReader& reader, const OpOptions& options);

// ---- steps ----

struct StepTableRow {
  StepRecord step;
  bool outlier = false;  // Above median + 3 x 1.4826 x median absolute deviation, and
                         // above 1.05 x the median; needs at least 5 steps.
};

struct StepTable {
  std::vector<StepTableRow> rows;
  int64_t min_ns = 0;
  int64_t median_ns = 0;
  int64_t mean_ns = 0;
  int64_t max_ns = 0;
  int64_t outlier_threshold_ns = 0;  // 0: too few steps to tell.
  std::vector<StepLabel> labels;     // What a framework called the steps, if one did.
};
absl::StatusOr<StepTable> SummarizeSteps(store::CaptureReader& reader);

// ---- GPU ----

enum class KernelSort { kTotal, kCount, kMean, kMax, kName };
std::string_view ToString(KernelSort sort);  // "total"
std::optional<KernelSort> KernelSortFromString(std::string_view text);

struct KernelOptions {
  KernelSort sort = KernelSort::kTotal;  // Descending; kName ascending. Ties by name.
  int64_t limit = 0;                     // Rows kept; 0: all.
  std::optional<int64_t> step;           // Only kernels that this step launched.
};

// All launches of one kernel; percentiles are durations that occurred (nearest rank). What differs
// between launches (grid, block, ...) is that of the configuration that took most of the time;
// `configuration_count` says how many there were.
struct KernelRow {
  std::string name;          // As recorded.
  std::string display_name;  // Demangled.
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t mean_ns = 0;
  int64_t min_ns = 0;
  int64_t p50_ns = 0;
  int64_t p95_ns = 0;
  int64_t max_ns = 0;
  double share = 0;  // Of the total of all kernels, 0..1.
  std::array<int64_t, 3> grid{};
  std::array<int64_t, 3> block{};
  int64_t registers_per_thread = 0;
  int64_t static_shared_bytes = 0;
  int64_t dynamic_shared_bytes = 0;
  int64_t local_bytes_per_thread = 0;
  int64_t configuration_count = 0;
  // Estimate: warps that fit an SM at once by threads, registers, shared memory and blocks,
  // over those it can hold; 0..1. -1: the device is not known.
  double occupancy = -1;
  std::string occupancy_limit;  // "registers", "shared memory", "threads", "blocks", "grid"
  // Start less the start of its API call: -1: none had one.
  int64_t mean_launch_latency_ns = -1;
  // Start less the end of what its stream ran before, or of its API call, whichever is later.
  int64_t mean_queue_ns = -1;
  bool uses_tensor_cores = false;  // By the families of names known up to sm_100.
  bool is_communication = false;   // NCCL
  std::string op;                  // The range that launched most of its time; empty: none.
  int64_t orphan_count = 0;
  int64_t graph_count = 0;  // Launched as nodes of a CUDA graph.
};

struct KernelTable {
  std::vector<KernelRow> rows;
  int64_t row_count = 0;  // Before `limit`.
  int64_t kernel_count = 0;
  int64_t total_ns = 0;  // Over all rows.
  // The union of all kernels, copies, memsets and whole graphs over streams; devices' own unions
  // added up.
  int64_t busy_ns = 0;
  int64_t kernel_busy_ns = 0;      // The same of kernels only.
  int64_t graph_launch_count = 0;  // Graphs whose nodes were not recorded; in no row.
  int64_t graph_launch_ns = 0;
};
absl::StatusOr<KernelTable> SummarizeKernels(store::CaptureReader& reader,
                                             const KernelOptions& options);

// Copies (by direction and kinds of memory) and memsets.
struct CopyRow {
  std::string name;  // As in traces: "Memcpy HtoD (Pageable -> Device)", "Memset (Device)"
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t mean_ns = 0;
  int64_t p50_ns = 0;
  int64_t p95_ns = 0;
  int64_t max_ns = 0;
  int64_t bytes = 0;
  int64_t min_bytes = 0;
  int64_t max_bytes = 0;
  double bandwidth_gb_per_s = 0;  // bytes / total_ns
  int64_t async_count = 0;
  std::string op;  // As KernelRow.op.
};
struct CopyTable {
  std::vector<CopyRow> rows;  // By total time.
  int64_t total_ns = 0;
  int64_t busy_ns = 0;  // Union over streams, devices added.
};
absl::StatusOr<CopyTable> SummarizeCopies(store::CaptureReader& reader);

// Waits of the host, by who called.
struct SyncRow {
  std::string name;  // "Stream Sync", "Context Sync", "Event Sync", "Stream Wait Event"
  std::string api;   // The API call: "cudaStreamSynchronize"; empty: not known.
  std::string op;    // The innermost range around the call; empty: none.
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t mean_ns = 0;
  int64_t max_ns = 0;
};
struct SyncTable {
  std::vector<SyncRow> rows;  // By total time.
  int64_t total_ns = 0;
};
absl::StatusOr<SyncTable> SummarizeSyncs(store::CaptureReader& reader);

// What a device did in each step, and why it did nothing: Holistic Trace Analysis's classes. A
// gap before an activity K is host_wait if K's API call began after what ran before K had
// ended; else kernel_wait if the gap is below 30 us; else other.
//
// A step here is a time on the host, from mark to mark: only what ran within it counts, whoever
// launched it, so that busy and idle time make up the step. A gap that crosses a mark has one
// cause and is split. The whole capture is its windows; what ran on after them is in no row. Whole
// graphs count as compute.
inline constexpr int64_t kKernelWaitLimitNs = 30'000;
struct IdleRow {
  int64_t step = -1;  // -1: the whole capture.
  int64_t device = 0;
  int64_t duration_ns = 0;  // Of the step, on the host.
  int64_t busy_ns = 0;      // Union over streams.
  int64_t compute_ns = 0;   // Union of kernels that are not communication.
  int64_t communication_ns = 0;
  int64_t exposed_communication_ns = 0;  // While no compute ran.
  int64_t copy_ns = 0;
  int64_t exposed_copy_ns = 0;  // While no kernel ran.
  int64_t idle_ns = 0;          // duration - busy
  // Idle time of the device (no stream ran anything) by the cause of each gap; K is what ended it.
  int64_t host_wait_ns = 0;
  int64_t kernel_wait_ns = 0;
  int64_t other_ns = 0;  // Also before the first and after the last activity.
};
// As that tool has them: gaps of the stream by itself, over all that was recorded.
struct StreamIdleRow {
  int64_t device = 0;
  int64_t context = 0;
  int64_t stream = 0;
  int64_t activity_count = 0;
  int64_t busy_ns = 0;
  int64_t gap_count = 0;
  int64_t idle_ns = 0;  // Between its first and last activity, by cause:
  int64_t host_wait_ns = 0;
  int64_t kernel_wait_ns = 0;
  int64_t other_ns = 0;
};
struct IdleTable {
  std::vector<IdleRow> rows;  // By device, the whole first, then by step.
  std::vector<StreamIdleRow> streams;
};
absl::StatusOr<IdleTable> SummarizeIdle(store::CaptureReader& reader);

// ---- memory ----

struct MemoryOptions {
  // Points per device at most, >= 4; 0: all. Each bucket of time keeps its lowest and
  // highest point, so that no peak is lost.
  int64_t max_points = 0;
  // False: peak_by_op stays empty, and no range is read.
  bool peak_by_op = true;
};

struct MemoryPoint {
  int64_t time_ns = 0;
  int64_t allocated_bytes = 0;

  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

struct MemoryShare {
  std::string name;  // A category, or the innermost range the blocks were allocated in.
  int64_t bytes = 0;
  int64_t blocks = 0;

  friend bool operator==(const MemoryShare&, const MemoryShare&) = default;
};

// What all blocks of one category took over the window: "parameter", "gradient",
// "optimizer_state", "buffer", "input", "activation", "temporary", "unknown". Who owns a block is
// told by the capture's blocks and, where they do not say, by the operators that used it
// (memory_categories.h has the rules).
struct MemoryCategoryUse {
  std::string name;
  int64_t peak_bytes = 0;   // The most at once.
  double byte_seconds = 0;  // The integral over the window.
  int64_t block_count = 0;
};

struct OutOfMemory {
  int64_t time_ns = 0;
  std::string device;  // "cuda:0"
  int64_t bytes = 0;   // Asked for.
};

struct DeviceMemory {
  // "cpu:0", "cuda:1"; "cuda-driver:1" is what CUDA itself allocated, "cuda-pool:1" its pools.
  std::string device;
  // No event carried a total: bytes count from 0 at the window's start, so they may be
  // negative, and blocks older than the window are in no number.
  bool relative = false;
  int64_t peak_bytes = 0;
  int64_t peak_time_ns = 0;
  int64_t start_bytes = 0;  // Before the first event; 0 when relative.
  int64_t end_bytes = 0;
  int64_t peak_reserved_bytes = -1;  // -1: not known
  int64_t allocation_count = 0;
  int64_t free_count = 0;
  int64_t allocated_total_bytes = 0;  // Sum over allocations.
  // Frees of blocks that were allocated before the window (or whose allocation was lost).
  int64_t unknown_free_count = 0;
  int64_t unknown_free_bytes = 0;
  // What was alive at the peak, of blocks allocated in the window; largest first.
  std::vector<MemoryShare> peak_by_category;
  std::vector<MemoryShare> peak_by_op;  // "(no range)" for blocks allocated outside any.
  // Alive at the peak but allocated before the window: peak_bytes less the above; >= 0.
  int64_t peak_older_bytes = 0;
  // By time. The first is `start_bytes` at the window's start; one after each event follows.
  std::vector<MemoryPoint> points;
  std::vector<MemoryCategoryUse> categories;  // Most byte-seconds first.
};

struct MemoryTimeline {
  std::vector<DeviceMemory> devices;  // By name.
  std::vector<OutOfMemory> out_of_memory;
};
absl::StatusOr<MemoryTimeline> SummarizeMemory(store::CaptureReader& reader,
                                               const MemoryOptions& options);

// ---- compiled code ----

// One region of torch.compile. `id` is "frame/compilation" as in `Torch-Compiled Region: 0/1`.
struct CompiledRegionRow {
  std::string id;
  std::string code;                // "train.py:19 in forward"; empty: not known.
  bool after_graph_break = false;  // Its code is what is left of a function behind a break.
  int64_t calls = 0;
  int64_t total_ns = 0;
};
// What stopped Dynamo, by where and why.
struct GraphBreakRow {
  std::string where;  // "train.py:19 in forward"
  std::string reason;
  int64_t count = 0;  // Compilations in the window that met it.
};
struct RecompileRow {
  std::string where;
  std::string reason;
  int64_t count = 0;
  int64_t compile_ns = 0;  // Sum; -1: not known.
};
struct CompileStepRow {
  int64_t step = -1;         // -1: in none
  int64_t regions = 0;       // Compiled regions run.
  int64_t after_breaks = 0;  // Of those, continued behind a graph break.
  int64_t compilations = 0;  // Where torch hides them, those that notes tell of: recompilations.
  int64_t compile_ns = 0;
  int64_t cache_lookups = 0;
  int64_t cache_lookup_ns = 0;  // Guards.
};
struct CompileReport {
  bool has_compiled = false;                // Anything of torch.compile was seen.
  std::vector<CompiledRegionRow> regions;   // By total time.
  std::vector<GraphBreakRow> graph_breaks;  // By count.
  std::vector<RecompileRow> recompiles;     // By count.
  std::vector<CompileStepRow> steps;        // By step.
  int64_t folded_event_count = 0;           // Inside of compilations, left out on purpose.
};
absl::StatusOr<CompileReport> SummarizeCompile(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_REPORTS_H_
