// HostSplit says where the time of the training threads went, step by step, and HostGap when they
// did nothing that was recorded.
//
//   training thread   ├ loader ┤   ├─ op ─┤├── op ─┬ sync ┬┤          ├─ op ─┤
//   autograd thread                                          ├─ op ─┤
//   split             data loading │ operators     │ wait  │ operators │ operators
//                              └ host outside operators ┘        └ likewise: a gap
//
// Each instant of a step belongs to one part, the first of these that applies: data loading, waits
// for the GPU, collectives, compilation, operators, the profiler's own overhead ("other"). Time in
// none of them is host time outside operators: Python, C++ without ranges, sleeping, or waiting for
// something that was not recorded. So the parts add up to the step, and none is scaled.
//
// The training threads are the one that marks the steps (without marks, the one with the most
// operators), those that run the backward pass, and others that run operators while it runs none,
// such as those of DataParallel. A thread whose operators run whenever they like, such as one that
// pins memory, is not one of them. Nor is one that calls no CUDA, where the first one does: the GPU
// does not wait for its operators.
//
// Operators are those of a framework. A program without one has its own ranges instead. User ranges
// around operators, such as "Optimizer.step#Adam.step", count for nothing: Python runs in them. So
// it does in a torch.autograd.Function, in hooks of the backward pass, and in operators around half
// of a step or more, as old releases write record_function(): where these run no operator for
// kShortHostGapNs or longer, that is host time outside operators, too.
//
// Threads: one. Errors: the reader's.
// Memory:  16 bytes per outermost operator, and 48 while they are put in order; 24 per gap.
#ifndef PROFD_DAEMON_REPORT_TIME_HOST_SPLIT_H_
#define PROFD_DAEMON_REPORT_TIME_HOST_SPLIT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/report/time/operator_rounds.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// The parts of a step's time on the host. The sum is the step's duration.
struct HostSplit {
  int64_t operators_ns = 0;    // In operators, and in API calls outside them that do not wait.
  int64_t collectives_ns = 0;  // In collectives on the host, or waiting for them.
  int64_t data_loader_ns = 0;
  int64_t compile_ns = 0;   // In compilations by torch.compile.
  int64_t gpu_wait_ns = 0;  // In calls that wait for a GPU.
  int64_t outside_ns = 0;   // Outside operators.
  int64_t other_ns = 0;     // Outside operators, while the profiler itself worked.

  int64_t total_ns() const {
    return operators_ns + collectives_ns + data_loader_ns + compile_ns + gpu_wait_ns + outside_ns +
           other_ns;
  }
};

// A time in which no training thread was in any part but the last two.
struct HostGap {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  // What ended before and began after it: an index into names(), the same for equal names; 0:
  // nothing. Any other number: see HostGapName().
  uint32_t after = 0;
  uint32_t before = 0;
};

// The text of HostGap::after or `before`: "(collective)", "(compilation)", or the name.
std::string HostGapName(std::span<const std::string> names, uint32_t name);

// The start of a data loader's iterator, before its first batch: worker processes are forked, and
// get their first work. Part of data loading.
struct LoaderStart {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // The wait for the first batch begins.
};

struct HostSplits {
  std::string needs;      // Not empty: unknown for lack of this, and the rest is empty.
  OperatorRounds rounds;  // Of a capture without steps, on the thread that was busy longest.
  bool rounds_of_last_operators = false;  // There were more than are looked at.
  bool of_ranges = false;        // There are no operators: the program's ranges count as such.
  std::vector<HostSplit> steps;  // By start.
  std::vector<HostGap> gaps;     // By start, from the first step or window to the last.
  std::vector<LoaderStart> loader_starts;  // By start; of loaders with worker processes.
};

// `collectives`: CollectiveTable::exposed_on_host. `compiling`: CompileReport::compiling.
// `blocking_copies`: FindBlockingCopies().
absl::StatusOr<HostSplits> SplitHostTime(store::CaptureReader& reader,
                                         const GpuAttribution& attribution,
                                         const IntervalSet& collectives,
                                         const IntervalSet& compiling,
                                         const std::vector<bool>& blocking_copies);

// Gaps between the same two operators.
struct HostGapRow {
  std::string after;  // "(collective)"; empty: nothing was recorded before. Likewise `before`.
  std::string before;
  std::string where;  // The innermost range or Python function around most of the longest.
  // Of captures with Python stacks: the line of the operator that follows the longest, and before
  // it that of the one that it follows, if that is another line: "train.py:112 log_metrics",
  // "train.py:98 step to train.py:112 log_metrics". Empty: not known.
  std::string lines;
  int64_t count = 0;
  int64_t step_count = 0;  // Steps that have one.
  int64_t total_ns = 0;
  int64_t median_ns = 0;
  int64_t max_ns = 0;
  int64_t longest_start_ns = 0;
  int64_t longest_end_ns = 0;  // All of it, also what is not counted.
  int64_t longest_step = -1;   // The number of its step; -1: in none.
};
// Other threads or asyncio tasks marked steps of their own, more than a few: a second training, for
// one. Then threads that run an optimizer, other than that of the steps, are of another loop.
bool HasOtherLoops(const CaptureRecord& record);

// Shorter gaps are what lies between any two operators; they are only counted. short_gaps.h says
// where they are.
inline constexpr int64_t kShortHostGapNs = 100'000;
inline constexpr size_t kMostHostGapRows = 20;
struct HostGapTable {
  std::vector<HostGapRow> rows;  // By total_ns; at most kMostHostGapRows.
  int64_t long_ns = 0;           // In gaps of kShortHostGapNs or more, also those without a row.
  int64_t short_count = 0;
  int64_t short_ns = 0;
};
// `counted_ns`: the part of [start, end) that counts, >= 0. A gap of which nothing counts is left
// out.
absl::StatusOr<HostGapTable> SumHostGaps(
    store::CaptureReader& reader, const std::vector<HostGap>& gaps,
    absl::FunctionRef<int64_t(int64_t start_ns, int64_t end_ns)> counted_ns);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_HOST_SPLIT_H_
