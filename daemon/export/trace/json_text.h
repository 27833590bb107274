// Pieces of JSON as the trace writer puts them together.
#ifndef PROFD_DAEMON_EXPORT_TRACE_JSON_TEXT_H_
#define PROFD_DAEMON_EXPORT_TRACE_JSON_TEXT_H_

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "daemon/base/text.h"

namespace profd::exporter {

// "000" to "999".
inline constexpr auto kThreeDigits = [] {
  std::array<std::array<char, 3>, 1000> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = {static_cast<char>('0' + i / 100), static_cast<char>('0' + i / 10 % 10),
                static_cast<char>('0' + i % 10)};
  }
  return table;
}();

inline constexpr size_t kMostNumberBytes = 32;

inline char* PutText(char* out, std::string_view text) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}
// `value` < 1000.
inline char* PutThreeDigits(char* out, uint64_t value) {
  std::memcpy(out, kThreeDigits[value].data(), 3);
  return out + 3;
}
template <typename Integer>
char* PutInteger(char* out, Integer value) {
  return std::to_chars(out, out + kMostNumberBytes, value).ptr;
}

// `ns` as microseconds with exactly three decimals.
inline char* PutMicros(char* out, uint64_t ns) {
  const uint64_t us = ns / 1000;
  if (us < 1000) {
    // Most durations: up to three digits without leading zeros.
    const char* const digits = kThreeDigits[us].data();
    const size_t skipped = us >= 100 ? 0 : us >= 10 ? 1 : 2;
    std::memcpy(out, digits + skipped, 3 - skipped);
    out += 3 - skipped;
  } else {
    out = PutInteger(out, us);
  }
  *out++ = '.';
  return PutThreeDigits(out, ns % 1000);
}

// PutMicros for times that lie close together: most share their whole seconds.
class MicrosWriter {
 public:
  char* Put(char* out, uint64_t ns) {
    const uint64_t second = ns / 1'000'000'000;
    if (second == 0) return PutMicros(out, ns);
    if (second != second_) {
      second_ = second;
      length_ = static_cast<size_t>(PutInteger(text_.data(), second) - text_.data());
    }
    std::memcpy(out, text_.data(), kMostSecondDigits);
    out += length_;
    const uint64_t rest = ns % 1'000'000'000;
    out = PutThreeDigits(out, rest / 1'000'000);
    out = PutThreeDigits(out, rest / 1000 % 1000);
    *out++ = '.';
    return PutThreeDigits(out, rest % 1000);
  }

 private:
  static constexpr size_t kMostSecondDigits = 12;
  uint64_t second_ = 0;
  size_t length_ = 0;
  std::array<char, kMostNumberBytes> text_{};
};

// Whether it is JSON that any reader takes: valid, and not deep, since readers take their stack for
// what is.
bool IsPlainJson(std::string_view untrusted);

// `untrusted` as a JSON string, with its quotes.
inline void AppendJsonString(std::string_view untrusted, std::string& out) {
  out.push_back('"');
  AppendJsonEscaped(ToValidUtf8(untrusted), out);
  out.push_back('"');
}

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_JSON_TEXT_H_
