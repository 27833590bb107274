// A microsecond and a millisecond, for tests of reports, whose times are nanoseconds.
#ifndef PROFD_TESTS_FAKES_NANOSECONDS_H_
#define PROFD_TESTS_FAKES_NANOSECONDS_H_

#include <cstdint>

namespace profd::report {

inline constexpr int64_t kUs = 1'000;
inline constexpr int64_t kMs = 1'000'000;

}  // namespace profd::report

#endif  // PROFD_TESTS_FAKES_NANOSECONDS_H_
