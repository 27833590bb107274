// Names longer than kMaxNameBytes are cut, and end with a mark that tells them apart:
//
//   void cutlass::Kernel<cutlass::gemm::...~5f0c3a9e12b47d60
//
// The mark is a hash of the whole name, so that equal names stay equal, and others different.
//
// Threads:  any. Hot path: no; no allocation, lock, or system call.
#ifndef PROFD_PROTO_WIRE_LONG_NAMES_H_
#define PROFD_PROTO_WIRE_LONG_NAMES_H_

#include <stddef.h>
#include <stdint.h>

#include "proto/wire/event.h"

namespace profd::wire {

inline constexpr uint32_t kLongNameMarkBytes = 17;  // '~' and 16 digits.

// FNV-1a (64 bits) of a name that comes in pieces.
class LongNameHash {
 public:
  void Add(const char* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      value_ = (value_ ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

// Writes the mark of a longer name over the end of its first kMaxNameBytes, in `name`, after a
// whole character of UTF-8. Returns how many bytes it has then.
inline uint32_t MarkLongName(char* name, const LongNameHash& hash) {
  uint32_t end = kMaxNameBytes - kLongNameMarkBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  name[end++] = '~';
  for (int shift = 60; shift >= 0; shift -= 4) {
    name[end++] = "0123456789abcdef"[hash.value() >> shift & 15];
  }
  return end;
}

// What stands for the `length` > kMaxNameBytes bytes at `text`. `into` has room for kMaxNameBytes.
// Returns how many it has.
inline uint32_t ShortenName(const char* text, size_t length, char* into) {
  for (uint32_t i = 0; i < kMaxNameBytes; ++i) into[i] = text[i];
  LongNameHash hash;
  hash.Add(text, length);
  return MarkLongName(into, hash);
}

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_LONG_NAMES_H_
