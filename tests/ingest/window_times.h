// When the events of the decoders' tests happen: one tick is one nanosecond, the epoch is at
// kEpoch, the window lasts from kStart to kEnd, and its chunks are copied at kCopied.
#ifndef PROFD_TESTS_INGEST_WINDOW_TIMES_H_
#define PROFD_TESTS_INGEST_WINDOW_TIMES_H_

#include <cstdint>

namespace profd {

inline constexpr uint64_t kEpoch = 10'000'000'000'000;
inline constexpr uint64_t kStart = kEpoch + 1'000'000;
inline constexpr uint64_t kEnd = kEpoch + 2'000'000;
inline constexpr uint64_t kCopied = kEpoch + 3'000'000;

}  // namespace profd

#endif  // PROFD_TESTS_INGEST_WINDOW_TIMES_H_
