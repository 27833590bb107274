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

// Sorted by step; of marks that repeat a step the first is kept.
std::vector<StepRow> SortMarks(std::vector<StepRow> marks);

// The steps that lie whole in one of `windows`. A window by steps knows when its first one
// began and its last one ended even where the mark itself was lost. Times of the marks and
// of `start_ns` count from the epoch; those of windows and of the result from `start_ns`.
std::vector<StepRecord> DeriveSteps(std::span<const StepRow> sorted_marks,
                                    std::span<const WindowRecord> windows, int64_t start_ns);

// What a capture covered whose daemon died before it wrote that down.
struct RecoveredWindows {
  int64_t start_ns = 0;  // Since the epoch.
  std::vector<WindowRecord> windows;
};
// One window per unbroken run of at least two marks; without any, one window by time over
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
// One row per window that has steps.
std::vector<StepSummaryRow> SummarizeStepTimes(std::span<const StepRecord> steps);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_STEPS_H_
