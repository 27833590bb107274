// The operator table to torch.profiler's own definitions, event for event: what
// `prof.key_averages().table()` would show of what a capture holds.
//
// Where it differs from the operator table of reports.h:
//   * CUDA calls and overhead are rows and children as there; kernels, copies, memsets and what
//     annotations kept busy on a stream are rows, too, whose CPU columns are 0.
//   * GPU work belongs to the innermost operator around its call; an annotation
//     (record_function) is none.
//   * What is inside of what is decided by time alone: a range that only overlaps another is not
//     inside of it, and takes its place for what comes after. Self times may thus be negative.
//   * A range that is the only one inside of another of the same name is not counted.
//   * An allocation counts for every range on any thread that it fell into.
//   * Steps are one row, "ProfilerStep*"; allocations outside of all ranges are "[memory]".
//
// Rows are in torch's order, by their first event. Stacks are not grouped by: captures hold none.
//
// Threads: any, one reader each.
// Memory:  120 bytes per range and API call, 48 per row of the GPU, 24 per event of an allocator,
//          24 per operator, and what GpuAttribution takes; or twice that, as vectors grow.
// Errors:  the reader's.
#ifndef PROFD_DAEMON_REPORT_OPS_TORCH_TABLE_H_
#define PROFD_DAEMON_REPORT_OPS_TORCH_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Whose table: releases count and print differently. Supported are 1.13 and later; a later one
// than the newest that is known is taken for that one.
struct TorchVersion {
  int major = 0;
  int minor = 0;

  bool IsAtLeast(int other_major, int other_minor) const {
    return major != other_major ? major > other_major : minor >= other_minor;
  }
  // Annotations are rows of the GPU, too.
  bool has_gpu_annotations() const { return IsAtLeast(2, 1); }
  // The total of the GPU is of work alone, not of annotations too.
  bool totals_work_only() const { return IsAtLeast(2, 5); }
  // Frames of Python are rows, where they were recorded; in later releases they are only around
  // others.
  bool has_python() const { return !IsAtLeast(2, 12); }
  // Allocations are looked up by times of which doubles of microseconds since 1970 are left: those
  // within a quarter of a microsecond of where an operator begins or ends may be its neighbour's.
  bool has_coarse_memory() const { return IsAtLeast(2, 4) && !IsAtLeast(2, 11); }
  // Synchronisation is a row of the GPU where it was recorded.
  bool has_syncs() const { return IsAtLeast(2, 1); }
};
inline constexpr TorchVersion kNewestTorch = {2, 15};
// "2.6", "2.6.0+cu124"; nullopt: none, or one before 1.13.
std::optional<TorchVersion> TorchVersionFromString(std::string_view text);

struct TorchTableOptions {
  bool by_inputs = false;  // group_by_input_shapes
  TorchVersion version = kNewestTorch;
};

struct TorchRow {
  std::string name;
  std::string shapes;          // With by_inputs: "[[16, 64], []]", as Python writes it.
  bool is_device = false;      // Of the GPU: a kernel, a copy, ...
  bool is_annotation = false;  // Of the GPU, for an annotation.
  bool has_parent = false;     // The first event of the row is inside of another.
  int64_t calls = 0;
  int64_t self_cpu_ns = 0;
  int64_t cpu_total_ns = 0;
  int64_t self_device_ns = 0;
  int64_t device_total_ns = 0;
  // The same as torch's floating point has them, of which it prints.
  double self_cpu_us = 0;
  double cpu_total_us = 0;
  double self_device_us = 0;
  double device_total_us = 0;
  int64_t cpu_memory_bytes = 0;
  int64_t self_cpu_memory_bytes = 0;
  int64_t device_memory_bytes = 0;
  int64_t self_device_memory_bytes = 0;
};

struct TorchTable {
  std::vector<TorchRow> rows;
  bool has_memory = false;           // As with profile_memory=True.
  int64_t self_cpu_total_ns = 0;     // Of all rows.
  int64_t self_device_total_ns = 0;  // Of the GPU's, as the release counts them.
};

absl::StatusOr<TorchTable> SummarizeAsTorch(store::CaptureReader& reader,
                                            const TorchTableOptions& options);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_TORCH_TABLE_H_
