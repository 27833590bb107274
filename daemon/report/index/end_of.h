// The end of what a file says began at `start_ns` and took `duration_ns`: no number in a
// stranger's file can overflow it.
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
