#include "daemon/base/ulid.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>

namespace profd {
namespace {

constexpr std::string_view kAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

bool InAlphabet(char c) { return kAlphabet.find(c) != std::string_view::npos; }

}  // namespace

std::string NewUlid(absl::Time now) {
  std::array<uint64_t, 2> chance{};
  // Never short for 16 bytes; fails only where the kernel has no getrandom at all.
  if (getrandom(chance.data(), sizeof(chance), 0) != ssize_t{sizeof(chance)}) std::abort();
  return UlidOf(now, chance[0], chance[1]);
}

std::string UlidOf(absl::Time time, uint64_t high, uint64_t low) {
  std::string ulid(kUlidLength, '0');
  uint64_t millis = static_cast<uint64_t>(absl::ToUnixMillis(time)) & 0xFFFF'FFFF'FFFF;
  for (int i = 9; i >= 0; --i, millis >>= 5) ulid[static_cast<size_t>(i)] = kAlphabet[millis & 31];
  std::array<uint8_t, 10> bytes{};
  for (size_t i = 0; i < 2; ++i) bytes[i] = static_cast<uint8_t>(high >> (8 * (1 - i)));
  for (size_t i = 0; i < 8; ++i) bytes[2 + i] = static_cast<uint8_t>(low >> (8 * (7 - i)));
  uint32_t bits = 0;
  int bit_count = 0;
  size_t at = 10;
  for (const uint8_t byte : bytes) {
    bits = (bits << 8) | byte;
    for (bit_count += 8; bit_count >= 5;) {
      bit_count -= 5;
      ulid[at++] = kAlphabet[(bits >> bit_count) & 31];
    }
  }
  return ulid;
}

bool IsUlid(std::string_view text) {
  return text.size() == kUlidLength && text[0] <= '7' && std::ranges::all_of(text, InAlphabet);
}

bool IsUlidPrefix(std::string_view text) {
  return !text.empty() && text.size() <= kUlidLength && std::ranges::all_of(text, [](char c) {
    return InAlphabet(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  });
}

}  // namespace profd
