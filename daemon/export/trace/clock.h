// Times of a capture as those of a trace, which count from its base (in Chrome traces) or from 1970
// (in Perfetto's), and are never below 0. In a trace of several captures each has a clock of its
// own, which may run at another pace.
#ifndef PROFD_DAEMON_EXPORT_TRACE_CLOCK_H_
#define PROFD_DAEMON_EXPORT_TRACE_CLOCK_H_

#include <cmath>
#include <cstdint>

namespace profd::exporter {

struct TraceClock {
  uint64_t offset_ns = 0;  // From the base to the capture's start.
  double drift = 0;        // 1e-6: the capture's clock gains a microsecond a second. Below 0.01.

  // Never goes back: what nests in the capture nests in the trace.
  uint64_t At(int64_t time_ns) const {
    const auto since_base =
        static_cast<int64_t>(offset_ns + static_cast<uint64_t>(time_ns) - Gained(time_ns));
    return since_base < 0 ? 0 : static_cast<uint64_t>(since_base);
  }
  // The duration, on the trace's clock, of an event that begins at `start_ns`.
  uint64_t Duration(int64_t start_ns, uint64_t duration_ns) const {
    if (drift == 0) return duration_ns;
    const auto end_ns = static_cast<int64_t>(static_cast<uint64_t>(start_ns) + duration_ns);
    const uint64_t start = At(start_ns);
    const uint64_t end = At(end_ns);
    return end < start ? 0 : end - start;
  }

 private:
  uint64_t Gained(int64_t time_ns) const {
    if (drift == 0) return 0;
    return static_cast<uint64_t>(std::llround(drift * static_cast<double>(time_ns)));
  }
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_CLOCK_H_
