#include "daemon/import/json/skip.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace profd::importer {
namespace {

constexpr size_t kBlock = 16;

#ifdef __SSE2__

__m128i Load(const char* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
unsigned Bits(__m128i equal) { return static_cast<unsigned>(_mm_movemask_epi8(equal)); }

// Which of the block's bytes are quotes or brackets. Bit 5 is all that '[' and '{' differ in.
unsigned Structure(const char* at) {
  const __m128i block = Load(at);
  const __m128i folded = _mm_or_si128(block, _mm_set1_epi8(0x20));
  return Bits(_mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                           _mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')),
                                        _mm_cmpeq_epi8(folded, _mm_set1_epi8('}')))));
}
// Which of them are quotes or backslashes.
unsigned QuotesAndEscapes(const char* at) {
  const __m128i block = Load(at);
  return Bits(_mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                           _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))));
}

#else

unsigned Structure(const char* at) {
  unsigned bits = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const char folded = static_cast<char>(at[i] | 0x20);
    bits |= unsigned{at[i] == '"' || folded == '{' || folded == '}'} << i;
  }
  return bits;
}
unsigned QuotesAndEscapes(const char* at) {
  unsigned bits = 0;
  for (size_t i = 0; i < kBlock; ++i) bits |= unsigned{at[i] == '"' || at[i] == '\\'} << i;
  return bits;
}

#endif

// The first byte from `at` on that `bits_of` marks; `end`: there is none.
template <typename BitsOf, typename IsIt>
const char* Find(const char* at, const char* end, BitsOf bits_of, IsIt is_it) {
  for (; static_cast<size_t>(end - at) >= kBlock; at += kBlock) {
    if (const unsigned bits = bits_of(at); bits != 0) return at + std::countr_zero(bits);
  }
  while (at != end && !is_it(*at)) ++at;
  return at;
}

// `at` is behind the opening quote.
const char* SkipString(const char* at, const char* end) {
  while (true) {
    at = Find(at, end, QuotesAndEscapes, [](char c) { return c == '"' || c == '\\'; });
    if (at == end) return nullptr;
    if (*at == '"') return at + 1;
    // The escaped byte is not there yet. The caller reads more and begins again.
    if (end - at < 2) return nullptr;
    at += 2;
  }
}

const char* SkipContainer(const char* at, const char* end) {
  int64_t depth = 0;
  while (true) {
    at = Find(at, end, Structure, [](char c) {
      const char folded = static_cast<char>(c | 0x20);
      return c == '"' || folded == '{' || folded == '}';
    });
    if (at == end) return nullptr;
    const char c = *at++;
    if (c == '"') {
      at = SkipString(at, end);
      if (at == nullptr) return nullptr;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (--depth <= 0) {
      return at;
    }
  }
}

const char* SkipScalar(const char* at, const char* end) {
  while (at != end && *at != ',' && *at != '}' && *at != ']' && !IsJsonSpace(*at)) ++at;
  return at == end ? nullptr : at;
}

}  // namespace

const char* SkipJsonValue(const char* at, const char* end) {
  if (at == end) return nullptr;
  if (*at == '"') return SkipString(at + 1, end);
  return *at == '{' || *at == '[' ? SkipContainer(at, end) : SkipScalar(at, end);
}

std::string CompactJson(std::string_view json) {
  std::string compact;
  compact.reserve(json.size());
  const char* const end = json.data() + json.size();
  for (const char* at = json.data(); at != end;) {
    if (IsJsonSpace(*at)) {
      ++at;
      continue;
    }
    const char* behind = *at == '"' ? SkipString(at + 1, end) : at + 1;
    if (behind == nullptr) behind = end;
    compact.append(at, behind);
    at = behind;
  }
  return compact;
}

}  // namespace profd::importer
