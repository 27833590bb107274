#include "daemon/import/json/elements.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace profd::importer {
namespace {

constexpr size_t kBlock = 64;

// A bit for each byte of a block.
struct Marks {
  uint64_t quotes;
  uint64_t backslashes;
  uint64_t opens;  // Brackets, in strings, too.
  uint64_t closes;
};

// What is known where a block begins.
struct Place {
  uint64_t in_string = 0;  // All bits, or none.
  uint64_t escaped = 0;    // The first byte is.
  int64_t depth = 0;
  const char* last_end = nullptr;
};

// Each bit says whether an odd number of bits up to it are set.
[[gnu::always_inline]] inline uint64_t Parities(uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

// The bytes that follow a backslash which is not itself escaped.
uint64_t Escaped(uint64_t backslashes, uint64_t& carried) {
  uint64_t escaped = carried;
  backslashes &= ~carried;
  carried = 0;
  while (backslashes != 0) {
    // A backslash escapes the byte after it, also if that is a backslash. So they are taken one
    // after the other, from the lowest bit; few blocks have any.
    const uint64_t lowest = backslashes & -backslashes;
    const uint64_t behind = lowest << 1;
    if (behind == 0) carried = 1;
    escaped |= behind;
    backslashes &= ~(lowest | behind);
  }
  return escaped;
}

// Notes where elements end in the block at `at`. False: the array ends in it.
bool Walk(uint64_t opens, uint64_t closes, const char* at, Place& place) {
  for (uint64_t bits = opens | closes; bits != 0; bits &= bits - 1) {
    const int position = __builtin_ctzll(bits);
    if ((opens >> position & 1) != 0) {
      ++place.depth;
    } else if (--place.depth == 0) {
      place.last_end = at + position + 1;
    } else if (place.depth < 0) {
      return false;
    }
  }
  return true;
}

[[gnu::always_inline]] inline bool Take(Marks marks, const char* at, Place& place) {
  uint64_t quotes = marks.quotes;
  if ((marks.backslashes | place.escaped) != 0) {
    quotes &= ~Escaped(marks.backslashes, place.escaped);
  }
  const uint64_t in_string = Parities(quotes) ^ place.in_string;
  // The highest bit says whether the block ends inside a string. The arithmetic shift copies it to
  // all bits, as the next block needs it.
  place.in_string = static_cast<uint64_t>(static_cast<int64_t>(in_string) >> 63);
  const uint64_t opens = marks.opens & ~in_string;
  const uint64_t closes = marks.closes & ~in_string;
  const int64_t close_count = __builtin_popcountll(closes);
  // An element can end in this block only if there are as many closing brackets as open levels.
  // Deeper blocks are counted as a whole, which is most of a trace.
  if (place.depth <= close_count) return Walk(opens, closes, at, place);
  place.depth += __builtin_popcountll(opens) - close_count;
  return true;
}

// `mark` makes the Marks of the 64 bytes that it is given.
template <typename Mark>
[[gnu::always_inline]] inline const char* Scan(const char* at, const char* end, Mark mark) {
  Place place;
  for (; static_cast<size_t>(end - at) >= kBlock; at += kBlock) {
    if (!Take(mark(at), at, place)) return place.last_end;
  }
  char rest[kBlock];
  std::memset(rest, ' ', sizeof rest);
  std::copy(at, end, rest);  // Not memcpy(): of nothing, `at` may be null.
  Take(mark(rest), at, place);
  return place.last_end;
}

#ifdef __x86_64__

// Bit 5 is all that '[' and '{' differ in.
[[gnu::always_inline]] inline uint64_t Bits(__m128i equal) {
  return static_cast<uint32_t>(_mm_movemask_epi8(equal));
}
[[gnu::always_inline]] inline Marks MarkSse2(const char* at) {
  Marks marks = {};
  for (size_t i = 0; i < kBlock; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i));
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    marks.quotes |= Bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'))) << i;
    marks.backslashes |= Bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))) << i;
    marks.opens |= Bits(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{'))) << i;
    marks.closes |= Bits(_mm_cmpeq_epi8(folded, _mm_set1_epi8('}'))) << i;
  }
  return marks;
}

const char* Portable(const char* at, const char* end) { return Scan(at, end, MarkSse2); }

#define PROFD_AVX2 __attribute__((target("avx2,popcnt,bmi")))

PROFD_AVX2 inline uint64_t Bits(__m256i low, __m256i high) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(low)) |
         uint64_t{static_cast<uint32_t>(_mm256_movemask_epi8(high))} << 32;
}
PROFD_AVX2 inline uint64_t Equal(__m256i low, __m256i high, char c) {
  const __m256i all = _mm256_set1_epi8(c);
  return Bits(_mm256_cmpeq_epi8(low, all), _mm256_cmpeq_epi8(high, all));
}
PROFD_AVX2 inline Marks MarkAvx2(const char* at) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + 32));
  const __m256i fold = _mm256_set1_epi8(0x20);
  const __m256i folded_low = _mm256_or_si256(low, fold);
  const __m256i folded_high = _mm256_or_si256(high, fold);
  return {.quotes = Equal(low, high, '"'),
          .backslashes = Equal(low, high, '\\'),
          .opens = Equal(folded_low, folded_high, '{'),
          .closes = Equal(folded_low, folded_high, '}')};
}

PROFD_AVX2 const char* WithAvx2(const char* at, const char* end) { return Scan(at, end, MarkAvx2); }

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") &&
         __builtin_cpu_supports("bmi");
}

#else

Marks MarkBytes(const char* at) {
  Marks marks = {};
  for (size_t i = 0; i < kBlock; ++i) {
    const char folded = static_cast<char>(at[i] | 0x20);
    marks.quotes |= uint64_t{at[i] == '"'} << i;
    marks.backslashes |= uint64_t{at[i] == '\\'} << i;
    marks.opens |= uint64_t{folded == '{'} << i;
    marks.closes |= uint64_t{folded == '}'} << i;
  }
  return marks;
}

const char* Portable(const char* at, const char* end) { return Scan(at, end, MarkBytes); }
const char* WithAvx2(const char* at, const char* end) { return Portable(at, end); }
bool HasAvx2() { return false; }

#endif

}  // namespace

const char* EndOfWholeElements(const char* at, const char* end) {
  static const bool has_avx2 = HasAvx2();
  return has_avx2 ? WithAvx2(at, end) : Portable(at, end);
}

const char* EndOfWholeElementsForTesting(const char* at, const char* end) {
  return Portable(at, end);
}

}  // namespace profd::importer
