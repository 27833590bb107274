#include "client_lib/torch/operator_names.h"

#include <string.h>

#include <atomic>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/recorder.h"
#include "proto/wire/event.h"

namespace profd::client::torch {
namespace {

// Written once:  0 ── who meets the name first ──► kBeingWritten ──► length << 16 | id
struct alignas(64) KnownName {
  std::atomic<uint32_t> word;
  char text[124];
};
static_assert(sizeof(KnownName) == 128);
static_assert(wire::kMaxNames <= 1u << 16);

constexpr uint32_t kBeingWritten = 1;
constexpr uint32_t kLongest = sizeof(KnownName::text);
constexpr uint32_t kPlaceBits = 10;
constexpr uint32_t kMostProbes = 8;
constinit KnownName g_known[1u << kPlaceBits] = {};

template <typename Word>
[[gnu::always_inline]] inline Word Load(const char* at) {
  Word word;
  memcpy(&word, at, sizeof(word));
  return word;
}

// All of a text of less than 8 bytes.
[[gnu::always_inline]] inline uint64_t ShortText(const char* text, uint32_t length) {
  // Two loads that may overlap cover 4 to 7 bytes.
  if (PROFD_LIKELY(length >= 4)) {
    return Load<uint32_t>(text) | uint64_t{Load<uint32_t>(text + length - 4)} << 32;
  }
  uint64_t word = 0;
  for (uint32_t i = 0; i < length; ++i) word = word << 8 | static_cast<uint8_t>(text[i]);
  return word;
}

// Of names of the same kind, the ends differ.
[[gnu::always_inline]] inline uint32_t PlaceOf(const char* text, uint32_t length) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;
  uint64_t hash = length;
  if (PROFD_UNLIKELY(length < 8)) {
    hash += ShortText(text, length);
  } else {
    const uint32_t before_last = length >= 16 ? length - 16 : 0;
    hash += Load<uint64_t>(text) ^ Load<uint64_t>(text + before_last) * 0xa24baed4963ee407;
    hash ^= Load<uint64_t>(text + length - 8) * 0x9fb21c651e98df25;
  }
  hash ^= hash >> 32;
  return static_cast<uint32_t>(hash * kMultiplier >> (64 - kPlaceBits));
}

[[gnu::always_inline]] inline bool AreEqual(const char* a, const char* b, uint32_t length) {
  if (PROFD_UNLIKELY(length < 8)) return ShortText(a, length) == ShortText(b, length);
  for (uint32_t at = 0; at + 8 < length; at += 8) {
    if (Load<uint64_t>(a + at) != Load<uint64_t>(b + at)) return false;
  }
  // The last 8 bytes may overlap those before, so that no rest is compared byte by byte.
  return Load<uint64_t>(a + length - 8) == Load<uint64_t>(b + length - 8);
}

PROFD_NOINLINE uint32_t MeetName(const char* name, uint32_t length, KnownName* place) {
  const uint32_t id = InternName(name, strlen(name));
  uint32_t free = 0;
  if (place == nullptr || id == wire::kOtherNameId ||
      !place->word.compare_exchange_strong(free, kBeingWritten, std::memory_order_relaxed)) {
    return id;
  }
  memcpy(place->text, name, length);
  place->word.store(length << 16 | id, std::memory_order_release);
  return id;
}

}  // namespace

uint32_t NameOf(const char* name) {
  const auto length = static_cast<uint32_t>(strnlen(name, kLongest + 1));
  // Also an empty name: 0 - 1 is the largest number.
  if (PROFD_UNLIKELY(length - 1 >= kLongest)) return MeetName(name, length, nullptr);
  uint32_t place = PlaceOf(name, length);
  for (uint32_t probe = 0; probe < kMostProbes; ++probe) {
    KnownName& known = g_known[place];
    const uint32_t word = known.word.load(std::memory_order_acquire);
    if (PROFD_LIKELY(word >> 16 == length && AreEqual(name, known.text, length))) {
      return word & 0xffff;
    }
    if (word == 0) return MeetName(name, length, &known);
    place = (place + 1) % (1u << kPlaceBits);
  }
  return MeetName(name, length, nullptr);
}

}  // namespace profd::client::torch
