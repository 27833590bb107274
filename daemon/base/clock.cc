#include "daemon/base/clock.h"

#include <time.h>

#include "absl/time/clock.h"

namespace profd {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }
  absl::Duration Monotonic() override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return absl::DurationFromTimespec(now);
  }
};

}  // namespace

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

}  // namespace profd
