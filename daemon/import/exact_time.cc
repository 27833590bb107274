#include "daemon/import/exact_time.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

namespace profd::importer {
namespace {

constexpr int kDigitsOfNs = 3;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Some programs write numbers as texts.
std::string_view Unquoted(std::string_view token) {
  const bool is_text = token.size() >= 2 && token.front() == '"' && token.back() == '"';
  return is_text ? token.substr(1, token.size() - 2) : token;
}

// Of a number with an exponent.
std::optional<ExactTime> FromDouble(std::string_view number) {
  char* end = nullptr;
  const std::string text(number);
  const double us = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !(std::abs(us) < 9e15)) return std::nullopt;
  return ExactTime{.ns = std::llround(us * 1000), .is_whole_us = us == std::floor(us)};
}

}  // namespace

std::optional<ExactTime> ParseMicros(std::string_view number) {
  number = Unquoted(number);
  const bool is_negative = number.starts_with('-');
  size_t at = is_negative ? 1 : 0;
  int64_t ns = 0;
  // Digit by digit in integers: a double has 53 bits, and microseconds since 1970 with three
  // decimals need 61.
  const auto append = [&ns](char digit) {
    return !__builtin_mul_overflow(ns, int64_t{10}, &ns) &&
           !__builtin_add_overflow(ns, int64_t{digit - '0'}, &ns);
  };
  if (at == number.size() || !IsDigit(number[at])) return std::nullopt;
  for (; at < number.size() && IsDigit(number[at]); ++at) {
    if (!append(number[at])) return std::nullopt;
  }
  const bool has_fraction = at < number.size() && number[at] == '.';
  int decimals = 0;
  bool round_up = false;
  if (has_fraction) {
    for (++at; at < number.size() && IsDigit(number[at]); ++at, ++decimals) {
      if (decimals == kDigitsOfNs) round_up = number[at] >= '5';
      if (decimals < kDigitsOfNs && !append(number[at])) return std::nullopt;
    }
  }
  if (at < number.size() && (number[at] == 'e' || number[at] == 'E')) return FromDouble(number);
  if (at != number.size()) return std::nullopt;
  for (; decimals < kDigitsOfNs; ++decimals) {
    if (!append('0')) return std::nullopt;
  }
  if (__builtin_add_overflow(ns, int64_t{round_up ? 1 : 0}, &ns)) return std::nullopt;
  return ExactTime{.ns = is_negative ? -ns : ns, .is_whole_us = ns % 1000 == 0};
}

std::optional<int64_t> ParseInteger(std::string_view token) {
  token = Unquoted(token);
  const char* const end = token.data() + token.size();
  int64_t value = 0;
  if (const auto [at, error] = std::from_chars(token.data(), end, value);
      error == std::errc() && at == end) {
    return value;
  }
  // Addresses may take all 64 bits.
  uint64_t large = 0;
  if (const auto [at, error] = std::from_chars(token.data(), end, large);
      error == std::errc() && at == end) {
    return static_cast<int64_t>(large);
  }
  // Pointers print so.
  if (token.starts_with("0x") || token.starts_with("0X")) {
    const auto [at, error] = std::from_chars(token.data() + 2, end, large, 16);
    if (error == std::errc() && at == end) return static_cast<int64_t>(large);
    return std::nullopt;
  }
  // Tools that have numbers of one type only write "7.0" and "1e15".
  constexpr double kExact = 9007199254740992;  // 2^53: all integers up to it.
  double number = 0;
  if (const auto [at, error] = std::from_chars(token.data(), end, number);
      error == std::errc() && at == end && std::abs(number) <= kExact &&
      std::trunc(number) == number) {
    return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

}  // namespace profd::importer
