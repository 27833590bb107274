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

// Of valid UTF-8: the bytes of the character that it begins with.
size_t CharacterLength(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

std::string EscapeControls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view character = text.substr(0, CharacterLength(text));
    const bool is_line_end = character == "\n" || text.starts_with("\r\n");  // Those are data.
    if (is_line_end || IsPrintableUtf8(character)) {
      out += character;
    } else {
      AppendJsonEscaped(character, out);
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string CsvCell(std::string_view untrusted) {
  std::string text = EscapeControls(ToValidUtf8(untrusted));
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
