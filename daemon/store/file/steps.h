// Steps from step marks: step k lasts from mark k to mark k + 1 of the step thread.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_STORE_FILE_STEPS_H_
#define PROFD_DAEMON_STORE_FILE_STEPS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"
#include "daemon/store/file/event_columns.h"

namespace profd::store {

// Returns marks sorted by step; of marks that repeat a step, the first is kept.
std::vector<StepRow> SortMarks(std::vector<StepRow> marks);

// Returns the steps that lie completely in one of `windows`. A window by steps knows the begin of
// its first and the end of its last step even if a mark was lost. Times of the marks and of
// `start_ns` count from the epoch; those of windows and of the result from `start_ns`.
std::vector<StepRecord> DeriveSteps(std::span<const StepRow> sorted_marks,
                                    std::span<const WindowRecord> windows, int64_t start_ns);

// The coverage of a capture whose daemon died before it recorded that.
struct RecoveredWindows {
  int64_t start_ns = 0;  // Since the epoch.
  std::vector<WindowRecord> windows;
};
// Returns one window per unbroken run of at least two marks; without marks, one window by time over
// all events.
RecoveredWindows RecoverWindows(std::span<const StepRow> sorted_marks, const TimeSpan& events);

struct StepSummaryRow {
  int64_t window = 0;
  int64_t steps = 0;
  int64_t min_ns = 0;
  int64_t median_ns = 0;
  int64_t mean_ns = 0;
  int64_t max_ns = 0;
};
// Returns one row per window with steps.
std::vector<StepSummaryRow> SummarizeStepTimes(std::span<const StepRecord> steps);
// Returns the median of all windows' steps, as the report of steps has it; 0: there are none.
int64_t MedianStepTime(std::span<const StepRecord> steps);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_STEPS_H_
