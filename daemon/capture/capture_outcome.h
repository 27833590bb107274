// What became of a capture: pure functions from what was asked and what ingest reports
// to the final record. No clocks, no I/O; the rules of COMPLETE and PARTIAL live here.
#ifndef PROFD_DAEMON_CAPTURE_CAPTURE_OUTCOME_H_
#define PROFD_DAEMON_CAPTURE_CAPTURE_OUTCOME_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"

namespace profd {

// When to fire: the plan for `spec`. A start step that lies too close for all of its
// warm-up shortens the warm-up. INVALID_ARGUMENT where that cannot be (repeat > 1).
absl::StatusOr<FirePlan> PlanFor(const CaptureSpec& spec);

// Why a sink's error ends a capture.
EndedBy CauseOfSinkError(const absl::Status& sink_status);

// Fills `record` from `result`: windows, coverage, counts, start time. Returns where the
// first window starts, in ns since the capture's epoch; nothing recorded: start_unix_ns
// stays 0.
int64_t ApplyDrainResult(const DrainResult& result, CaptureRecord& record);

// The terminal state for a record to which ApplyDrainResult was applied. `cause` is what
// made the manager end it (kSteps, kDuration, or a reason to cut it short). Sets state,
// ended_by, and, when FAILED, error_reason and error_message.
void Conclude(EndedBy cause, CaptureRecord& record);

// Sets error_reason and error_message for a capture that FAILED by `cause`, naming the
// target and the remedy.
void ExplainFailure(EndedBy cause, CaptureRecord& record);

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_CAPTURE_OUTCOME_H_
