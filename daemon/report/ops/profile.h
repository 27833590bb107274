// The operator table of `profctl ops`: the columns of op_table.h and, for each row, percentiles of
// its calls, the steps that it ran in, and the FLOPs that it computed. A row is a name, or a name
// by inputs, step, thread, or module.
//
// Threads: any, one reader each.
// Memory:  that of the operator table (op_table.h), plus 12 bytes per range and API call, 32 per
//          GPU row, and, with FLOPs or by inputs, 24 per operator; up to twice that as vectors
//          grow.
// Errors:  the reader's; INVALID_ARGUMENT for an unknown sort key or step.
#ifndef PROFD_DAEMON_REPORT_OPS_PROFILE_H_
#define PROFD_DAEMON_REPORT_OPS_PROFILE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

enum class OpGroup {
  kName,
  kInputs,  // Sizes and types of inputs.
  kModule,  // The torch.nn.Module around it (module_index.h).
  kStep,
  kThread,
};
std::string_view ToString(OpGroup group);  // "input_shape", torch.profiler's word
std::optional<OpGroup> OpGroupFromString(std::string_view text);

// Whether a row shows warm-up: it runs only in the window's first step, or longer there.
enum class FirstStep {
  kUsual,
  kOnly,    // All of its calls in steps are in the first step, and the window has more steps.
  kSlower,  // It took more than twice its average in later steps.
};
std::string_view ToString(FirstStep first);  // "", "only", "slower"

struct OpProfileOptions {
  OpGroup group = OpGroup::kName;
  bool by_step = false;  // One row per step, too.
  // Of OpProfileSortKeys(); empty: "self_device" where there is a GPU, else "self_cpu".
  std::string sort;
  int64_t limit = 0;            // Rows kept; 0: all.
  std::optional<int64_t> step;  // Only ranges that begin inside this step.
};

struct OpProfileRow {
  OpRow op;
  std::string group;  // Module or thread; empty: of none, or not grouped so.
  // Of CPU total, over calls: durations that occurred (nearest rank).
  int64_t p50_ns = 0;
  int64_t p95_ns = 0;
  // The row's part of the time that the GPUs were busy; without GPU rows, its part of all self
  // CPU time. 0..1.
  double share = 0;
  double calls_per_step = -1;  // Calls inside steps; -1: there are no steps.
  FirstStep first_step = FirstStep::kUsual;
  // Operations of its calls, from the sizes of their inputs (flops.h); 0: unknown.
  double flops = 0;
  // FLOPs of the calls with known FLOPs, divided by their GPU time (without a GPU, CPU time);
  // 0: unknown.
  double flops_per_s = 0;
  double peak_share = 0;  // flops_per_s over the GPU's peak for `dtype`; 0: unknown.
  std::string dtype;      // The type of that peak: "bf16", "tf32"; empty: unknown, or several.
};

struct OpProfile {
  std::vector<OpProfileRow> rows;
  OpTable totals;              // Without rows.
  int64_t step_count = 0;      // In the window, or 1 of one.
  int64_t busy_device_ns = 0;  // Union over streams, devices added.
  // Python functions (RangeCategory::kPython) are not rows, except by module.
  int64_t frame_row_count = 0;
  bool has_flops = false;
  bool has_peak = false;
};

// "share", "self_cpu", ...; all except "name" sort descending.
std::span<const std::string_view> OpProfileSortKeys();

// Sorts the rows and keeps `limit` of them, as SummarizeOpProfile() does at its end. For rows that
// were combined from several captures.
void SortAndCut(const OpProfileOptions& options, OpProfile& profile);

absl::StatusOr<OpProfile> SummarizeOpProfile(store::CaptureReader& reader,
                                             const OpProfileOptions& options);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_PROFILE_H_
