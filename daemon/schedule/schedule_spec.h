// Whether a ScheduleSpec can be carried out.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_SCHEDULE_SCHEDULE_SPEC_H_
#define PROFD_DAEMON_SCHEDULE_SCHEDULE_SPEC_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/schedule/schedule_types.h"

namespace profd {

inline constexpr absl::Duration kShortestEvery = absl::Seconds(10);
inline constexpr absl::Duration kLongestEvery = absl::Hours(24 * 30);
inline constexpr absl::Duration kLongestJitter = absl::Hours(1);
inline constexpr int64_t kMaxScheduleNodes = 16'384;
inline constexpr int64_t kMaxScheduleNodeBytes = 256 << 10;  // Of their names.
inline constexpr int64_t kMaxSelectorRanks = 1024;
inline constexpr int64_t kMaxSelectorMetadata = 32;
// Less would not hold the file of a capture with anything in it.
inline constexpr int64_t kSmallestCaptureBytes = 1 << 20;

// INVALID_ARGUMENT naming the field, its range and the value.
absl::Status ValidateScheduleSpec(const ScheduleSpec& spec);

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_SCHEDULE_SPEC_H_
