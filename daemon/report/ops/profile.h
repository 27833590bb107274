// The operator table that `profctl ops` shows: the columns of reports.h and, of each row, how its
// calls are spread, which steps they are in, and what it computed. Rows are names, or names by
// inputs, step, thread or module.
//
// Threads: any, one reader each.
// Memory:  that of the operator table (reports.h); beside it 12 bytes per range and API call, 32
// per
//          GPU row, and, with FLOPs or by inputs, 24 per operator; or twice that, as vectors grow.
// Errors:  the reader's; INVALID_ARGUMENT for a sort key or a step that is not there.
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

// How the first step of the window stands out: what runs only there, or longer, is warm-up.
enum class FirstStep {
  kUsual,
  kOnly,    // All of its calls in steps are in the first one, and there are others.
  kSlower,  // It took more than twice what it takes in a later step on average.
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
  // Of all time that the GPUs were busy, the part that the row's work was running; without GPU
  // rows, self CPU of all self CPU. 0..1.
  double share = 0;
  double calls_per_step = -1;  // Of calls in steps; -1: there are no steps.
  FirstStep first_step = FirstStep::kUsual;
  // What its calls computed, by the sizes of their inputs (flops.h); 0: not known.
  double flops = 0;
  // FLOPs of the calls that have them over the time that GPUs, or without them the CPU, took for
  // these; 0: not known.
  double flops_per_s = 0;
  double peak_share = 0;  // Of what the GPU can do in that type; 0: not known.
  std::string dtype;      // What peak_share is by: "bf16", "tf32"; empty: not known, or several.
};

struct OpProfile {
  std::vector<OpProfileRow> rows;
  OpTable totals;              // Without rows.
  int64_t step_count = 0;      // In the window, or 1 of one.
  int64_t busy_device_ns = 0;  // Union over streams, devices added.
  // Functions of Python (RangeCategory::kPython) are no rows, but around others; of modules they
  // are.
  int64_t frame_row_count = 0;
  bool has_flops = false;
  bool has_peak = false;
};

// "share", "self_cpu", ...; all but "name" put the largest first.
std::span<const std::string_view> OpProfileSortKeys();

// Puts rows in the order that is asked for, and keeps `limit`: what SummarizeOpProfile() does last.
// For rows of several captures, put together.
void SortAndCut(const OpProfileOptions& options, OpProfile& profile);

absl::StatusOr<OpProfile> SummarizeOpProfile(store::CaptureReader& reader,
                                             const OpProfileOptions& options);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_PROFILE_H_
