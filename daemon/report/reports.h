// Reports: pure functions over one stored capture. The same code answers an RPC in the
// daemon and a command on a fetched file.
//
// Threads: any, one reader each. Memory: bounded by names, steps and, for memory, live
// blocks; never by events.
// Errors: those of the reader; INVALID_ARGUMENT for options out of range.
//
// How do I add a report?  A struct and a function here, a .cc beside it, a message and an
// RPC in proto/profd/v1/reports.proto, its conversion in daemon/rpc/convert.cc and
// cli/from_proto.cc, and a command in cli/.
#ifndef PROFD_DAEMON_REPORT_REPORTS_H_
#define PROFD_DAEMON_REPORT_REPORTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/store/capture_reader.h"

namespace profd::report {

// ---- operators ----
// Definitions are torch.profiler's: CPU total = end - start, summed over calls (a
// recursive range counts at every level); self = CPU total - the sum of the CPU total of
// its direct children on the same thread.

enum class OpSort { kSelfCpu, kCpuTotal, kCalls, kAverage, kMax, kName };
std::string_view ToString(OpSort sort);  // "self_cpu"
std::optional<OpSort> OpSortFromString(std::string_view text);

struct OpOptions {
  OpSort sort = OpSort::kSelfCpu;  // Descending; kName ascending. Ties by name.
  int64_t limit = 0;               // Rows kept; 0: all.
  bool by_step = false;            // One row per (name, step) instead of per name.
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
};

struct OpTable {
  std::vector<OpRow> rows;
  int64_t self_cpu_total_ns = 0;  // Over all rows, also those beyond `limit`.
  int64_t row_count = 0;          // Before `limit`.
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
};
absl::StatusOr<StepTable> SummarizeSteps(store::CaptureReader& reader);

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
};

struct MemoryShare {
  std::string name;  // A category, or the innermost range the blocks were allocated in.
  int64_t bytes = 0;
  int64_t blocks = 0;
};

struct DeviceMemory {
  std::string device;  // "cpu:0", "cuda:1"
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
};

struct MemoryTimeline {
  std::vector<DeviceMemory> devices;  // By name.
};
absl::StatusOr<MemoryTimeline> SummarizeMemory(store::CaptureReader& reader,
                                               const MemoryOptions& options);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_REPORTS_H_
