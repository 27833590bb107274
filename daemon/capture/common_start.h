// The step at which the ranks of a synchronous job begin a scheduled window. Every daemon computes
// it for its own ranks, without asking another.
//
//   steps  ──┬───────────────┬───────────────┬───────────────┬──►   one in `grid` can be a start
//           6392            6648            6904            7160
//                                 ├─────►│  lead and warm-up: they begin at 6904
//                               decision: all ranks are at 6750, or one step from it
//
// Ranks that wait for each other are at most a step apart at any moment, so they choose the same
// step, unless a possible start lies between them: about once in `grid` windows. The start step is
// part of the group's ID, so a rank that chose another step is in another group.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_CAPTURE_COMMON_START_H_
#define PROFD_DAEMON_CAPTURE_COMMON_START_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"

namespace profd {

// What all ranks of a window have in common.
struct CommonStart {
  std::string job;      // As JobOf(); not empty.
  int64_t grid = 1;     // A power of two: one in so many steps is a possible start.
  int64_t offset = 0;   // At least 0; possible starts are congruent to it modulo `grid`.
  int64_t lead = 0;     // Steps from the decision to the first warm-up step.
  absl::Time decision;  // Wall time: the rank's step at this moment decides.

  friend bool operator==(const CommonStart&, const CommonStart&) = default;
};

// Returns the step in progress `ago` before now; -1 if no step has begun. Steps before those that
// `recent` has are extrapolated by the median of those that it has.
int64_t StepAt(const RecentSteps& recent, absl::Duration ago);

// Returns the median of the steps that `recent` has, ns; 0 if it has none.
int64_t MedianStepNs(const RecentSteps& recent);

// Returns the first step to record for a rank that was at `step` at the decision. Halves grid and
// lead until the window begins within half of `spec.timeout`, by `median_step_ns` (0: not known).
int64_t FirstCommonStep(const CommonStart& start, const CaptureSpec& spec, int64_t step,
                        int64_t median_step_ns);

// Returns the lead that FirstCommonStep() uses: that of `start`, halved as often as the grid.
int64_t CommonLead(const CommonStart& start, const CaptureSpec& spec, int64_t median_step_ns);

// Returns the ID of the group of ranks that begin at `first_step`: a ULID with the window's time.
std::string CommonGroupId(std::string_view schedule_id, int64_t window_unix_ns,
                          std::string_view job, int64_t first_step);

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_COMMON_START_H_
