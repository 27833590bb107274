#include "cli/base/style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "cli/base/flags.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr int kDefaultWidth = 80;
constexpr std::string_view kEllipsis = "…";

struct CodeRange {
  uint32_t first;
  uint32_t last;
};
// Blocks, not single characters: the few exceptions inside cost one column of alignment.
constexpr CodeRange kZeroWidth[] = {{0x0300, 0x036F}, {0x0483, 0x0489},  {0x0591, 0x05BD},
                                    {0x064B, 0x065F}, {0x200B, 0x200F},  {0x2060, 0x2064},
                                    {0x20D0, 0x20F0}, {0xFE00, 0xFE0F},  {0xFE20, 0xFE2F},
                                    {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}};
constexpr CodeRange kDoubleWidth[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
                                      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
                                      {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE4F},
                                      {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                                      {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

template <size_t N>
bool Contains(const CodeRange (&ranges)[N], uint32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
}

struct Character {
  size_t bytes;
  uint32_t code;
};
Character FirstCharacter(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  const size_t available = std::min(length, text.size());
  for (size_t i = 1; i < available; ++i) code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3FU);
  return {available, code};
}

size_t WidthOf(uint32_t code) {
  if (code < 0x300) return 1;
  if (Contains(kZeroWidth, code)) return 0;
  return Contains(kDoubleWidth, code) ? 2 : 1;
}

// 0: the environment does not say.
int WidthFromEnvironment() {
  const char* columns = std::getenv("COLUMNS");
  if (columns == nullptr) return 0;
  const auto width = ParseInt(columns);
  return width.ok() && *width > 0 && *width < 10'000 ? static_cast<int>(*width) : 0;
}

bool WantsColour() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* term = std::getenv("TERM");
  return term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

// "de_DE.UTF-8", "C.utf8"; "C" and "de_DE@euro" are not. Nothing set: nobody said otherwise.
bool TakesUnicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* locale = std::getenv(name);
    if (locale == nullptr || *locale == '\0') continue;
    const std::string_view text(locale);
    for (const std::string_view utf8 : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
      if (text.find(utf8) != std::string_view::npos) return true;
    }
    return false;
  }
  return true;
}

}  // namespace

Style Style::Of(int fd) {
  Style style;
  style.unicode = TakesUnicode();
  style.is_terminal = isatty(fd) == 1;
  style.width = WidthFromEnvironment();
  if (!style.is_terminal) return style;
  winsize size{};
  if (style.width == 0 && ioctl(fd, TIOCGWINSZ, &size) == 0) style.width = size.ws_col;
  if (style.width == 0) style.width = kDefaultWidth;
  style.colour = WantsColour();
  return style;
}

std::string Style::Share(std::string percent) const {
  if (shares == ShareTrust::kWhole || percent == "-") return percent;
  return shares == ShareTrust::kMarked ? "~" + percent : "-";
}

std::string Style::Paint(Colour with, std::string_view text) const {
  if (!colour || with == Colour::kNone) return std::string(text);
  std::string_view code;
  switch (with) {
    case Colour::kNone:
      break;
    case Colour::kBold:
      code = "1";
      break;
    case Colour::kDim:
      code = "2";
      break;
    case Colour::kRed:
      code = "31";
      break;
    case Colour::kGreen:
      code = "32";
      break;
    case Colour::kYellow:
      code = "33";
      break;
  }
  return StrCat("\033[", code, "m", text, "\033[0m");
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    width += WidthOf(character.code);
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string CutToWidth(std::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t used = 0;
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Character character = FirstCharacter(text.substr(bytes));
    const size_t wide = WidthOf(character.code);
    if (used + wide > width - 1) break;
    used += wide;
    bytes += character.bytes;
  }
  return StrCat(text.substr(0, bytes), kEllipsis);
}

std::string WrapText(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t used = indent;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    const size_t word_width = DisplayWidth(word);
    if (used > indent && used + 1 + word_width > width) {
      out.push_back('\n');
      out.append(indent, ' ');
      used = indent;
    } else if (!out.empty()) {
      out.push_back(' ');
      ++used;
    }
    out.append(word);
    used += word_width;
    if (space == std::string_view::npos) break;
    text.remove_prefix(space + 1);
  }
  return out;
}

size_t TextWidth(const Style& style) {
  constexpr size_t kWidest = 100;
  return style.width > 0 ? std::min<size_t>(static_cast<size_t>(style.width), kWidest) : kWidest;
}

std::string Paragraph(std::string_view untrusted, size_t indent, const Style& style) {
  constexpr size_t kMostBytes = 4096;
  return StrCat(std::string(indent, ' '),
                WrapText(ForDisplay(untrusted, kMostBytes), TextWidth(style), indent), "\n");
}

}  // namespace profd::cli
