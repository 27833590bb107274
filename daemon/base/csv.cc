#include "daemon/base/csv.h"

#include <charconv>
#include <cstddef>
#include <cstdint>

#include "daemon/base/text.h"

namespace profd {
namespace {

// A spreadsheet would take such a cell for a formula.
bool LooksLikeFormula(std::string_view text) {
  return !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos;
}

// Whether a terminal would act on the byte at `i` and, for C1 controls, the next one. Line feeds
// and tabs are data.
bool IsTerminalControl(std::string_view text, size_t i) {
  const auto byte = static_cast<uint8_t>(text[i]);
  if (byte == '\r') return i + 1 == text.size() || text[i + 1] != '\n';  // A line end is data.
  if (byte == 0xC2) return i + 1 < text.size() && static_cast<uint8_t>(text[i + 1]) < 0xA0;
  return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
}

std::string EscapeTerminalControls(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsTerminalControl(text, i)) {
      out.push_back(text[i]);
      continue;
    }
    if (static_cast<uint8_t>(text[i]) == 0xC2) ++i;  // The code of a C1 control is its second byte.
    const auto code = static_cast<uint8_t>(text[i]);
    out.append("\\x");
    out.push_back(kHex[code >> 4]);
    out.push_back(kHex[code & 15]);
  }
  return out;
}

}  // namespace

std::string CsvCell(std::string_view untrusted) {
  std::string text = EscapeTerminalControls(ToValidUtf8(untrusted));
  if (LooksLikeFormula(untrusted)) text.insert(text.begin(), '\'');
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted.push_back('"');
    quoted.push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

std::string CsvNumber(double value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace profd
