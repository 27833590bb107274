// The operator table: the time that each operator, range, and CUDA API call took.
//
// Threads: any, one reader each.
// Memory:  per name and step; 24 bytes per allocator event; by inputs, 16 per operator. The device
//          part needs 64 bytes per API call and 48 per GPU row. Overlapping ranges: overlaps.h.
// Errors:  the reader's; INVALID_ARGUMENT for options out of range.
#ifndef PROFD_DAEMON_REPORT_OPS_OP_TABLE_H_
#define PROFD_DAEMON_REPORT_OPS_OP_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Definitions are torch.profiler's: CPU total = end - start, summed over calls (a recursive range
// counts at every level, but an operator that redispatches to itself counts once: redispatch.h).
// Self = CPU total - the sum of the CPU totals of its direct children on the same thread. A range
// that began before the window counts from the window's begin.
//
// No instant of a thread counts twice: of ranges that overlap without nesting (asyncio tasks, NVTX
// ranges with a start and an end), it is self time of the one that began last (index/overlaps.h).
// torch.profiler counts it for each of them.
//
// CUDA API calls are rows like ranges, and children of the range that they were made in.
//
// Device time also follows torch.profiler: a kernel, copy, or memset belongs to the innermost
// range around its API call, on the calling thread, whenever it ran. Self = the work that belongs
// to the row itself, total = self + the totals of its children; work of a recursive range counts
// once, unlike in torch.profiler's table. Concurrent work on several streams counts several times,
// so sums may exceed wall time. busy_device_ns corrects that: it is the union over streams of all
// work that belongs to the row or its children.
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
  std::string name;   // As recorded (any bytes); "ProfilerStep*" for the steps of torch.profiler.
  int64_t step = -1;  // With by_step: the step it began in; -1: in none.
  int64_t calls = 0;
  int64_t overlapping_calls = 0;  // Of these, on lanes: they overlap others without nesting.
  int64_t self_cpu_ns = 0;
  int64_t cpu_total_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  int64_t self_device_ns = 0;
  int64_t device_total_ns = 0;
  int64_t busy_device_ns = 0;
  std::string dims;   // With by_inputs: OperatorInputs.dims; empty: none recorded.
  std::string types;  // With by_inputs: OperatorInputs.types
  // Bytes allocated minus bytes freed on the row's thread between its begin and end, as
  // torch.profiler counts them, on the CPU and on GPUs. Self: without those of its children.
  int64_t cpu_memory_bytes = 0;
  int64_t self_cpu_memory_bytes = 0;
  int64_t device_memory_bytes = 0;
  int64_t self_device_memory_bytes = 0;
};

struct OpTable {
  std::vector<OpRow> rows;
  bool has_memory = false;        // The capture holds events of allocators.
  int64_t self_cpu_total_ns = 0;  // Over all rows, including those beyond `limit`.
  bool has_device = false;        // The capture holds GPU rows.
  // Self times of ranges that overlap without nesting add up: there are too many ranges to share
  // out the time (index/overlaps.h).
  bool overlaps_add_up = false;
  // All GPU work, including that of no row; with `step`, only launches in that step.
  int64_t self_device_total_ns = 0;
  int64_t unattributed_device_ns = 0;  // By orphans, and by launches outside any range.
  int64_t row_count = 0;               // Before `limit`.
  int64_t step_count = 0;              // In the window, or 1 of one; 0: it has no steps.
};

// Returns INVALID_ARGUMENT for a step that is not in the capture; the error lists its steps.
absl::StatusOr<OpTable> SummarizeOps(store::CaptureReader& reader, const OpOptions& options);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_OP_TABLE_H_
