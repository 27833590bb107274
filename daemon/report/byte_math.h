// Byte counts are a stranger's: they wrap rather than overflow.
#ifndef PROFD_DAEMON_REPORT_BYTE_MATH_H_
#define PROFD_DAEMON_REPORT_BYTE_MATH_H_

#include <cstdint>

namespace profd::report {

inline int64_t Sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t Difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_BYTE_MATH_H_
