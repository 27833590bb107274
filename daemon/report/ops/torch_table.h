// The operator table by torch.profiler's definitions, event for event: what
// `prof.key_averages().table()` would show for the same capture.
//
// Differences from the operator table of op_table.h:
//   * CUDA calls and overhead are rows and children as there. Kernels, copies, memsets, and the
//     time that annotations kept a stream busy are rows too, with CPU columns of 0.
//   * GPU work belongs to the innermost operator around its call; an annotation (record_function)
//     is not an operator.
//   * Nesting follows time alone: a range that only overlaps another is not inside it, and replaces
//     it as the parent of later events. Self times may thus be negative.
//   * A range that is the only one inside another of the same name is not counted.
//   * An allocation counts for every range, on any thread, that was open at its time.
//   * Steps are one row, "ProfilerStep*"; allocations outside all ranges are "[memory]".
//
// Rows are in torch's order, by their first event. There is no grouping by stack: torch's stacks,
// which it has only with a private setting (_ExperimentalConfig(verbose=True)), name built-in
// functions by their address, and captures have no frames of those. The operator table of
// op_table.h groups by stack.
//
// Threads: any, one reader each.
// Memory:  120 bytes per range and API call, 48 per GPU row, 24 per allocator event and operator,
//          and that of GpuAttribution; up to twice that as vectors grow.
// Errors:  the reader's, and those named.
#ifndef PROFD_DAEMON_REPORT_OPS_TORCH_TABLE_H_
#define PROFD_DAEMON_REPORT_OPS_TORCH_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// The torch release whose table is computed: releases count and print differently. 1.13 and later
// are supported; a release after the newest known one counts as the newest known one.
struct TorchVersion {
  int major = 0;
  int minor = 0;

  bool IsAtLeast(int other_major, int other_minor) const {
    return major != other_major ? major > other_major : minor >= other_minor;
  }
  // Whether annotations are also GPU rows.
  bool has_gpu_annotations() const { return IsAtLeast(2, 1); }
  // Whether the GPU total counts only work, without annotations.
  bool totals_work_only() const { return IsAtLeast(2, 5); }
  // Whether recorded Python frames are rows; in later releases they only enclose rows.
  bool has_python() const { return !IsAtLeast(2, 12); }
  // Whether allocations are looked up by doubles of microseconds since 1970. An allocation within a
  // quarter of a microsecond of an operator's begin or end may then count for its neighbor.
  bool has_coarse_memory() const { return IsAtLeast(2, 4) && !IsAtLeast(2, 11); }
  // Whether recorded synchronizations are GPU rows.
  bool has_syncs() const { return IsAtLeast(2, 1); }
};
inline constexpr TorchVersion kNewestTorch = {2, 15};
// Parses "2.6" or "2.6.0+cu124"; nullopt for other text, or a release before 1.13.
std::optional<TorchVersion> TorchVersionFromString(std::string_view text);

struct TorchTableOptions {
  bool by_inputs = false;  // group_by_input_shapes
  TorchVersion version = kNewestTorch;
};

struct TorchRow {
  std::string name;
  std::string shapes;          // With by_inputs: "[[16, 64], []]", as Python writes it.
  bool is_device = false;      // A GPU row: a kernel, a copy, ...
  bool is_annotation = false;  // A GPU row for an annotation.
  bool has_parent = false;     // The first event of the row is inside another.
  int64_t calls = 0;
  int64_t self_cpu_ns = 0;
  int64_t cpu_total_ns = 0;
  int64_t self_device_ns = 0;
  int64_t device_total_ns = 0;
  // The same in torch's floating point, which it prints.
  double self_cpu_us = 0;
  double cpu_total_us = 0;
  double self_device_us = 0;
  double device_total_us = 0;
  int64_t cpu_memory_bytes = 0;
  int64_t self_cpu_memory_bytes = 0;
  int64_t device_memory_bytes = 0;
  int64_t self_device_memory_bytes = 0;
};

// As torch divides: 0 calls have an average of 0.
inline double AverageUs(double total_us, int64_t calls) {
  return calls == 0 ? 0 : total_us / static_cast<double>(calls);
}

struct TorchTable {
  std::vector<TorchRow> rows;
  TorchVersion version = kNewestTorch;
  bool has_memory = false;           // As with profile_memory=True.
  int64_t self_cpu_total_ns = 0;     // Over all rows.
  int64_t self_device_total_ns = 0;  // Over GPU rows, as the release counts them.
};

absl::StatusOr<TorchTable> SummarizeAsTorch(store::CaptureReader& reader,
                                            const TorchTableOptions& options);

// The report of this table, whose columns are in torch_columns.cc.
inline constexpr std::string_view kTorchReport = "ops_torch";
table::Report ToReport(const TorchTable& torch);
// The rows, without has_parent, and the totals of such a report. DATA_LOSS: it is another one, or
// of a version that this one does not read.
absl::StatusOr<TorchTable> TorchTableOf(const table::Report& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_TORCH_TABLE_H_
