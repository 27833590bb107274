// SettledClock says what time it is, once the clock has run for an hour without a jump. Before that
// it may not be set yet: by a clock that is years ahead, all captures are old. Time servers set
// clocks within minutes after a start.
//
// A jump is seen at the next call, and the hour begins there.
//
// Threads: one at a time.
#ifndef PROFD_DAEMON_BASE_SETTLED_CLOCK_H_
#define PROFD_DAEMON_BASE_SETTLED_CLOCK_H_

#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "daemon/base/clock.h"

namespace profd {

class SettledClock {
 public:
  static constexpr absl::Duration kSettling = absl::Hours(1);

  // `consequence` of a jump is for the log: "no record is removed for its age for an hour".
  SettledClock(Clock& clock, std::string_view consequence)
      : clock_(clock),
        consequence_(consequence),
        time_(clock.Now()),
        monotonic_(clock.Monotonic()),
        since_(monotonic_) {}

  // nullopt: that is not certain.
  std::optional<absl::Time> Now();

 private:
  Clock& clock_;
  const std::string_view consequence_;
  // At the last call.
  absl::Time time_;
  absl::Duration monotonic_;
  absl::Duration since_;  // Monotonic, when a jump was seen.
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_SETTLED_CLOCK_H_
