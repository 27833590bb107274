// The one place where bytes that another process may be changing right now are read.
//
// Whatever a target shares is read once, word by word, into memory of our own; only the
// copy is looked at. So a value cannot change between its check and its use, and the
// compiler cannot read it a second time.
//
// Threads: any.
#ifndef PROFD_DAEMON_INGEST_SHARED_BYTES_H_
#define PROFD_DAEMON_INGEST_SHARED_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace profd {

// `to` and `from` are 8-byte aligned, `bytes` is a multiple of 8. Words may be older or
// newer than one another; none is torn.
inline void CopyFromShared(std::byte* to, const std::byte* from, size_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  for (size_t i = 0; i < bytes / 8; ++i) {
    const uint64_t word = __atomic_load_n(words + i, __ATOMIC_RELAXED);
    memcpy(to + i * 8, &word, 8);
  }
}

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_SHARED_BYTES_H_
