// Sums and differences of values from a capture file. The file may be hostile, so they wrap around
// instead of overflowing, which would be undefined behavior.
#ifndef PROFD_DAEMON_REPORT_INDEX_WRAPPING_MATH_H_
#define PROFD_DAEMON_REPORT_INDEX_WRAPPING_MATH_H_

#include <cstdint>

namespace profd::report {

inline int64_t Sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t Difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline void AddTo(int64_t& sum, int64_t by) { sum = Sum(sum, by); }

// Returns `to_ns - from_ns` for `from_ns <= to_ns`; as unsigned, it always fits.
inline uint64_t Distance(int64_t from_ns, int64_t to_ns) {
  return static_cast<uint64_t>(to_ns) - static_cast<uint64_t>(from_ns);
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_WRAPPING_MATH_H_
