#include "daemon/base/text.h"

#include <cstdint>

namespace profd {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the well-formed UTF-8 sequence at the start of `s`; 0 if there is none.
// The table is Unicode's "Well-Formed UTF-8 Byte Sequences" (no surrogates, no overlongs).
size_t SequenceLength(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const auto in = [&](size_t i, uint8_t low, uint8_t high) {
    return i < s.size() && byte(i) >= low && byte(i) <= high;
  };
  const uint8_t b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return in(1, 0x80, 0xBF) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    const uint8_t low = b == 0xE0 ? 0xA0 : 0x80;
    const uint8_t high = b == 0xED ? 0x9F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    const uint8_t low = b == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = b == 0xF4 ? 0x8F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

bool IsC1Control(std::string_view sequence) {
  return sequence.size() == 2 && sequence[0] == '\xC2' && static_cast<uint8_t>(sequence[1]) < 0xA0;
}

bool IsBetween(std::string_view sequence, std::string_view first, std::string_view last) {
  return sequence.size() == first.size() && first <= sequence && sequence <= last;
}

// Controls, and the invisible characters that can reorder or hide parts of a line (CVE-2021-42574).
// U+200C and U+200D stay: several scripts and emoji need them.
bool IsControl(std::string_view sequence) {
  const auto first = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7F;
  if (sequence.size() == 2) return IsC1Control(sequence) || sequence == "\xD8\x9C";  // U+061C
  return sequence == "\xE2\x80\x8B" ||                                 // U+200B zero-width space
         IsBetween(sequence, "\xE2\x80\x8E", "\xE2\x80\x8F") ||        // U+200E-200F marks
         IsBetween(sequence, "\xE2\x80\xA8", "\xE2\x80\xAE") ||        // U+2028-202E
         IsBetween(sequence, "\xE2\x81\xA0", "\xE2\x81\xAF") ||        // U+2060-206F isolates
         sequence == "\xEF\xBB\xBF" ||                                 // U+FEFF byte-order mark
         IsBetween(sequence, "\xF3\xA0\x80\x80", "\xF3\xA0\x81\xBF");  // U+E0000-E007F tags
}

// Of a well-formed sequence.
uint32_t CodePointOf(std::string_view sequence) {
  constexpr uint8_t kFirstBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t code = static_cast<uint8_t>(sequence[0]) & kFirstBits[sequence.size()];
  for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<uint8_t>(c) & 0x3F);
  return code;
}

void AppendUtf16Escape(uint32_t unit, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out.append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) out.push_back(kHex[unit >> shift & 15]);
}

// As JSON has it: two surrogates beyond U+FFFF.
void AppendEscape(uint32_t code, std::string& out) {
  if (code > 0xFFFF) {
    AppendUtf16Escape(0xD800 + ((code - 0x10000) >> 10), out);
    code = 0xDC00 + ((code - 0x10000) & 0x3FF);
  }
  AppendUtf16Escape(code, out);
}

// The length of the control that `text` begins with; 0: it begins with none.
size_t ControlLength(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first >= 0x20 && first < 0x7F) return 0;  // Most characters.
  const size_t length = SequenceLength(text);
  return length > 0 && IsControl(text.substr(0, length)) ? length : 0;
}

// Calls fn(sequence, valid) for each character, or each byte that starts none.
template <typename Fn>
void ForEachCharacter(std::string_view text, Fn fn) {
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    fn(text.substr(0, length == 0 ? 1 : length), length != 0);
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  bool valid = true;
  ForEachCharacter(text, [&](std::string_view, bool ok) { valid = valid && ok; });
  return valid;
}

bool IsPrintableUtf8(std::string_view text) {
  bool printable = true;
  ForEachCharacter(text, [&](std::string_view character, bool ok) {
    printable = printable && ok && !IsControl(character);
  });
  return printable;
}

std::string ToValidUtf8(std::string_view untrusted) {
  std::string out;
  out.reserve(untrusted.size());
  ForEachCharacter(untrusted, [&](std::string_view character, bool ok) {
    out.append(ok ? character : kReplacement);
  });
  return out;
}

std::string ForDisplay(std::string_view untrusted, size_t max_bytes) {
  constexpr std::string_view kEllipsis = "...";
  std::string out;
  size_t cut = 0;  // Where to cut if it turns out too long.
  bool too_long = false;
  ForEachCharacter(untrusted, [&](std::string_view character, bool ok) {
    if (too_long) return;
    const std::string_view shown = !ok ? kReplacement : IsControl(character) ? "?" : character;
    if (out.size() + shown.size() > max_bytes) {
      too_long = true;
      return;
    }
    out.append(shown);
    if (out.size() + kEllipsis.size() <= max_bytes) cut = out.size();
  });
  if (too_long) {
    out.resize(cut);
    if (cut + kEllipsis.size() <= max_bytes) out.append(kEllipsis);
  }
  return out;
}

void AppendJsonEscaped(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const char c = text[0];
    size_t length = 1;
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (const size_t control = ControlLength(text); control > 0) {
      AppendEscape(CodePointOf(text.substr(0, control)), out);
      length = control;
    } else {
      out.push_back(c);
    }
    text.remove_prefix(length);
  }
}

}  // namespace profd
