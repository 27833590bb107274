// Copies and comparisons of bytes that no tool intercepts.
//
// In a program that is built with ThreadSanitizer, the library's memcpy() and memcmp() are the
// sanitizer's, too. It does not see the library's atomics, which order these accesses, and would
// report races where there are none; the program would end with exit status 66.
//
// Threads: any. Hot path: eight bytes at a time; no call.
#ifndef PROFD_CLIENT_LIB_CORE_UNSEEN_BYTES_H_
#define PROFD_CLIENT_LIB_CORE_UNSEEN_BYTES_H_

#include <stddef.h>
#include <stdint.h>

namespace profd::client {

inline uint64_t WordAtBytes(const char* bytes) {
  uint64_t word;
  __builtin_memcpy(&word, bytes, sizeof(word));  // One load.
  return word;
}

inline void CopyUnseen(char* to, const char* from, size_t count) {
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= count; at += sizeof(uint64_t)) {
    const uint64_t word = WordAtBytes(from + at);
    __builtin_memcpy(to + at, &word, sizeof(word));
    asm volatile("" ::: "memory");  // The compiler would make a memcpy() of the loop.
  }
  for (; at < count; ++at) {
    to[at] = from[at];
    asm volatile("" ::: "memory");
  }
}

inline bool AreEqualUnseen(const char* a, const char* b, size_t count) {
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= count; at += sizeof(uint64_t)) {
    if (WordAtBytes(a + at) != WordAtBytes(b + at)) return false;
  }
  for (; at < count; ++at) {
    if (a[at] != b[at]) return false;
  }
  return true;
}

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_UNSEEN_BYTES_H_
