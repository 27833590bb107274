// The end of an event that began at `start_ns` and took `duration_ns`, by a file that may be
// hostile: no number overflows.
#ifndef PROFD_DAEMON_REPORT_INDEX_END_OF_H_
#define PROFD_DAEMON_REPORT_INDEX_END_OF_H_

#include <cstdint>
#include <limits>

namespace profd::report {

inline int64_t EndOf(int64_t start_ns, int64_t duration_ns) {
  int64_t end_ns = 0;
  return __builtin_add_overflow(start_ns, duration_ns, &end_ns)
             ? std::numeric_limits<int64_t>::max()
             : end_ns;
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_END_OF_H_
