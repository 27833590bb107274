// What schedules need of captures: to ask for them, and to see what became of them. CaptureManager
// is one; tests of schedules have a fake.
//
// Threads: any but the one that on_change is called on. Calls wait.
#ifndef PROFD_DAEMON_CAPTURE_SCHEDULED_CAPTURES_H_
#define PROFD_DAEMON_CAPTURE_SCHEDULED_CAPTURES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/capture/access.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/common_start.h"

namespace profd {

// What a capture is for that a schedule asks for (CaptureRecord has the same fields).
struct ScheduledBy {
  std::string schedule_id;
  int64_t window_unix_ns = 0;
  double sampling_weight = 1;
  // For a rank of a job: it begins at the first step that all ranks have in common, and is in the
  // group of those that chose the same (common_start.h). nullopt: it begins as soon as possible.
  std::optional<CommonStart> common_start;
};

class ScheduledCaptures {
 public:
  using OnChange = std::function<void(const CaptureRecord&)>;

  virtual ~ScheduledCaptures() = default;

  // As CaptureManager::Create() on behalf of a schedule, which never takes a target from another:
  // TARGET_BUSY. With `common_start` it waits for a target that a schedule's capture holds; if that
  // is not free in time, the capture fails with the same reason. `on_change` hears of every change,
  // the last time with a terminal state: hand over and return. After an error it is not called at
  // all.
  virtual absl::StatusOr<CaptureRecord> CreateScheduled(const Caller& caller, TargetNumber target,
                                                        const CaptureSpec& spec,
                                                        const ScheduledBy& schedule,
                                                        OnChange on_change) = 0;
  // The live record, or the store's. `id` is whole. NOT_FOUND.
  virtual absl::StatusOr<CaptureRecord> Get(const Caller& caller, std::string_view id) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_SCHEDULED_CAPTURES_H_
