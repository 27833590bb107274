// StableHash: a hash that comes out the same on every machine, in every process and in every
// release, for choices that nodes make alike without asking each other. Not for secrets.
//
//   StableHash().Add(schedule).Add(window).Add(node).Unit() < 0.05
//
// FNV-1a over the parts, each with its length before it, then a finaliser that spreads every bit
// over all (MurmurHash3's). Changing anything here changes what running clusters choose.
//
// Threads: none of its own; a value.
#ifndef PROFD_DAEMON_BASE_STABLE_HASH_H_
#define PROFD_DAEMON_BASE_STABLE_HASH_H_

#include <cstdint>
#include <string_view>

namespace profd {

class StableHash {
 public:
  StableHash& Add(std::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
    return *this;
  }
  StableHash& Add(int64_t number) {
    const auto bits = static_cast<uint64_t>(number);
    for (int shift = 0; shift < 64; shift += 8) AddByte((bits >> shift) & 0xff);
    return *this;
  }

  uint64_t Value() const {
    uint64_t h = state_;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ULL;
    h ^= h >> 33;
    return h;
  }
  // Evenly in [0, 1).
  double Unit() const { return static_cast<double>(Value() >> 11) * 0x1p-53; }
  // Evenly in [0, `below`); 0 for 0.
  uint64_t Below(uint64_t below) const { return below == 0 ? 0 : Value() % below; }

 private:
  void AddByte(uint64_t byte) {
    state_ ^= byte;
    state_ *= 0x100000001b3ULL;
  }

  uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_STABLE_HASH_H_
