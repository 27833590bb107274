// WindowTimes: when the windows of a schedule are. A pure function of its id and spec, so that all
// nodes that have it agree, as far as their clocks do.
//
//   nominal = k * every + phase(id)      or what cron says
//   due     = nominal + jitter(id, nominal)
//
// Threads: any; immutable.
#ifndef PROFD_DAEMON_SCHEDULE_WINDOW_TIMES_H_
#define PROFD_DAEMON_SCHEDULE_WINDOW_TIMES_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "daemon/schedule/cron.h"
#include "daemon/schedule/schedule_types.h"

namespace profd {

struct WindowTime {
  absl::Time nominal;  // Names the window: all choices are made by it.
  absl::Time due;

  friend bool operator==(const WindowTime&, const WindowTime&) = default;
};

class WindowTimes {
 public:
  // `spec` is valid (schedule_spec.h).
  WindowTimes(std::string_view id, const ScheduleSpec& spec);

  // The first window whose nominal time is later than `nominal`; nullopt: there is none before
  // the schedule's end.
  std::optional<WindowTime> After(absl::Time nominal) const;

 private:
  WindowTime At(absl::Time nominal) const;

  const std::string id_;
  const absl::Duration every_;
  const absl::Duration phase_;
  const absl::Duration jitter_;
  const absl::Time end_;
  std::optional<CronExpression> cron_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_WINDOW_TIMES_H_
