// Times of a capture as those of a Chrome trace, which count from its base and are never below 0.
#ifndef PROFD_DAEMON_EXPORT_CHROME_CLOCK_H_
#define PROFD_DAEMON_EXPORT_CHROME_CLOCK_H_

#include <cstdint>

namespace profd::exporter {

struct ChromeClock {
  uint64_t offset_ns = 0;  // From the base to the capture's start.

  uint64_t At(int64_t time_ns) const {
    const auto since_base = static_cast<int64_t>(offset_ns + static_cast<uint64_t>(time_ns));
    return since_base < 0 ? 0 : static_cast<uint64_t>(since_base);
  }
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_CHROME_CLOCK_H_
