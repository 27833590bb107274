// The operator table of `profctl ops` and `trace`, Python, and the report "ops": the figures of
// op_table.h and, for each row, percentiles of its calls, the steps that it ran in, and the FLOPs
// that it computed. A row is a name, or a name by inputs, step, thread, or place. Its columns are
// in columns.cc.
//
// Threads: any, one reader each.
// Memory:  that of the operator table (op_table.h), plus 12 bytes per range and API call, 32 per
//          GPU row, and, with FLOPs or by inputs, 24 per operator; up to twice that as vectors
//          grow; with lines of Python, that of PlaceIndex. With `sums_only` that of the operator
//          table.
// Errors:  the reader's; INVALID_ARGUMENT for an unknown step.
#ifndef PROFD_DAEMON_REPORT_OPS_PROFILE_H_
#define PROFD_DAEMON_REPORT_OPS_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/table.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

enum class OpGroup {
  kName,
  kInputs,  // Sizes and types of inputs.
  // Where in the program it ran (place_index.h).
  kModule,
  kSource,
  kStack,
  kArguments,
  kStep,
  kThread,
};
std::string_view ToString(OpGroup group);  // "input_shape", torch.profiler's word
std::optional<OpGroup> OpGroupFromString(std::string_view text);

// What shows warm-up in a row's first_step.
inline constexpr std::string_view kOnlyInFirstStep = "only";  // And the window has more steps.
inline constexpr std::string_view kSlowerInFirstStep =
    "slower";  // Twice its average of later ones.

struct OpProfileOptions {
  OpGroup group = OpGroup::kName;
  PlaceIndex::Options detail;   // With OpGroup::kStack and kArguments.
  bool by_step = false;         // One row per step, too.
  std::optional<int64_t> step;  // Only ranges that begin inside this step.
  // Only figures that are sums over calls: the others (percentiles, FLOPs, steps) are not known.
  // Of large captures that takes an eighth of the time (tests/bench/README.md). Imports have all
  // figures nevertheless.
  bool sums_only = false;
};

// A negative figure is not known.
struct OpProfileRow : OpRow {
  std::string module;     // With OpGroup::kModule; empty: in none.
  std::string source;     // With OpGroup::kSource: "train.py(12): step"; empty: not known.
  std::string stack;      // With OpGroup::kStack
  std::string arguments;  // With OpGroup::kArguments: `id="r-17", tokens=512`; empty: in none.
  // Unless rows are by line or stack: the line that most of the row's calls came from, without
  // its folder: "train.py(12): step +2 more"; empty: not known.
  std::string top_source;
  std::string thread;  // With OpGroup::kThread: "4711 autograd".
  std::string rank;    // In a table of several captures.
  // Of CPU total, over calls: durations that occurred (nearest rank).
  int64_t p50_ns = -1;
  int64_t p95_ns = -1;
  int64_t p99_ns = -1;
  // The row's part of the time that the GPUs were busy; without GPU rows, its part of all self
  // CPU time. 0..1, like all shares.
  double share = 0;
  double self_cpu_share = 0;      // Of the self CPU time of all rows.
  double self_device_share = -1;  // Of all GPU work.
  double calls_per_step = -1;     // Calls inside steps.
  std::string first_step;         // kOnlyInFirstStep, kSlowerInFirstStep, or empty: as the others.
  // Operations of its calls, from the sizes of their inputs (flops.h).
  double flops = -1;
  // FLOPs divided by the row's GPU time (without a GPU, CPU time), if those of every call are
  // known.
  double flops_per_s = -1;
  double peak_share = -1;  // flops_per_s over the GPU's peak for `dtype`.
  std::string dtype;       // The type of that peak: "bf16", "tf32"; empty: unknown, or several.
};

struct OpProfile {
  std::vector<OpProfileRow> rows;
  int64_t self_cpu_total_ns = 0;
  bool has_memory = false;  // The capture holds events of allocators.
  bool has_device = false;  // The capture holds GPU rows.
  // All GPU work, including that of no row; with `step`, only launches in that step.
  int64_t self_device_total_ns = 0;
  int64_t unattributed_device_ns = 0;  // By orphans, and by launches outside any range.
  int64_t busy_device_ns = -1;         // Union over streams, devices added; negative: not known.
  int64_t step_count = 0;              // In the window, or 1 of one.
  // Python functions (RangeCategory::kPython) are not rows; modules are.
  int64_t frame_row_count = 0;
  bool is_simulated = false;       // The GPU is.
  bool overlaps_add_up = false;    // As OpTable::overlaps_add_up.
  bool operators_are_off = false;  // The capture was not to record those of PyTorch.
};

// Most self time first: of the GPU, where there is one. As SummarizeOpProfile() leaves the rows.
void SortBySelfTime(OpProfile& profile);

absl::StatusOr<OpProfile> SummarizeOpProfile(store::CaptureReader& reader,
                                             const OpProfileOptions& options);

table::Report ToReport(const OpProfile& profile);
// The rows and totals of such a report. DATA_LOSS: it is another one, or of a version that this
// one does not read.
absl::StatusOr<OpProfile> OpProfileOf(const table::Report& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_PROFILE_H_
