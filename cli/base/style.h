// Style: how text for people is laid out: how wide, and whether in colour.
//
// Text from targets (names, commands) goes through ForDisplay() or a Table cell before it is
// shown: neither lets a control character reach a terminal.
#ifndef PROFD_CLI_BASE_STYLE_H_
#define PROFD_CLI_BASE_STYLE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/capture/quality.h"

namespace profd::cli {

enum class Colour { kNone, kBold, kDim, kRed, kGreen, kYellow };

struct Style {
  bool is_terminal = false;
  int width = 0;  // Columns; 0: no limit (not a terminal).
  bool colour = false;
  bool unicode = true;  // Plots may draw with more than ASCII.
  // How far shares of a whole mean what they say, of the capture that is shown.
  ShareTrust shares = ShareTrust::kWhole;

  // `text`, coloured if this style has colour.
  std::string Paint(Colour with, std::string_view text) const;

  // A percentage of a whole: "~12.3%" where some of the whole is missing, "-" where too much is.
  std::string Share(std::string percent) const;

  // Of a file descriptor: width from COLUMNS, else from the terminal, else 80; without a terminal
  // from COLUMNS, else no limit. Colour on a terminal unless NO_COLOR is set or TERM is "dumb".
  // Unicode unless the locale (LC_ALL, LC_CTYPE, LANG: the first that is set) names another
  // character set than UTF-8.
  static Style Of(int fd);
};

// Columns that valid UTF-8 takes on a terminal: 2 for wide characters, 0 for combining ones.
size_t DisplayWidth(std::string_view text);

// `text` if it fits, else its start and "…", at most `width` columns. Valid UTF-8 only.
std::string CutToWidth(std::string_view text, size_t width);

// `text` in lines of at most `width` columns, broken at blanks, for a place that begins `indent`
// columns from the left: each line but the first stands after so many blanks. A longer word has a
// line of its own. Valid UTF-8 only.
std::string WrapText(std::string_view text, size_t width, size_t indent);

// Columns for sentences: those of the terminal, but at most 100.
size_t TextWidth(const Style& style);

// `untrusted`, which may hold names of the program, in lines of at most TextWidth(), each after
// `indent` blanks. Beyond 4,096 bytes it is cut.
std::string Paragraph(std::string_view untrusted, size_t indent, const Style& style);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_STYLE_H_
