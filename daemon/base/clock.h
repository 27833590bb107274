// Clock: the daemon's source of time, injected so that tests decide what time it is.
//
// Threads: any.
#ifndef PROFD_DAEMON_BASE_CLOCK_H_
#define PROFD_DAEMON_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace profd {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;  // Wall time. May jump.
  // CLOCK_MONOTONIC as a span since its arbitrary start. Never goes back; for deadlines.
  virtual absl::Duration Monotonic() = 0;

  static Clock& Real();
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CLOCK_H_
