// Bounds and reads for numbers that a target wrote.
//
// Threads: any.
#ifndef PROFD_DAEMON_INGEST_DECODE_UNTRUSTED_VALUES_H_
#define PROFD_DAEMON_INGEST_DECODE_UNTRUSTED_VALUES_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace profd {

// No real counter or step number gets this far, and sums of smaller ones do not overflow.
inline constexpr uint64_t kMaxUntrustedCount = uint64_t{1} << 53;

// Returns the counter's value, at most kMaxUntrustedCount.
inline int64_t ReadCount(const std::atomic<uint64_t>& untrusted) {
  return static_cast<int64_t>(
      std::min(untrusted.load(std::memory_order_relaxed), kMaxUntrustedCount));
}

// Returns the T that begins at `from`, which need not be aligned.
template <typename T>
T LoadUnaligned(const std::byte* from) {
  T value;
  memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_UNTRUSTED_VALUES_H_
