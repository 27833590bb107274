// StepLookup finds the step that contains an instant.
//
// Threads: one at a time: it remembers its last answer, because callers ask for times that lie
//          close together.
#ifndef PROFD_DAEMON_REPORT_INDEX_STEP_LOOKUP_H_
#define PROFD_DAEMON_REPORT_INDEX_STEP_LOOKUP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"

namespace profd::report {

class StepLookup {
 public:
  explicit StepLookup(std::span<const StepRecord> steps);

  // Returns the position in steps() of the step with start_ns <= `time_ns` < end; kNone: none.
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t PositionAt(int64_t time_ns);

  // By start time.
  std::span<const StepRecord> steps() const { return steps_; }
  // Returns the step with this number. INVALID_ARGUMENT: not in the capture; the error lists its
  // steps.
  absl::StatusOr<StepRecord> WithIndex(int64_t index) const;

 private:
  bool Contains(size_t position, int64_t time_ns) const;

  std::vector<StepRecord> steps_;
  size_t last_ = 0;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STEP_LOOKUP_H_
