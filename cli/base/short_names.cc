#include "cli/base/short_names.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/base/style.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

bool ContinuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80; }

// The end of `text`, at most `width` columns, from the beginning of a character on.
std::string_view EndOf(std::string_view text, size_t width) {
  size_t begin = text.size();
  for (size_t at = text.size(); at > 0;) {
    do {
      --at;
    } while (at > 0 && ContinuesCharacter(text[at]));
    if (DisplayWidth(text.substr(at)) > width) break;
    begin = at;
  }
  return text.substr(begin);
}

using Groups = std::map<std::string, std::set<std::string_view>>;  // By what they are cut to.

Groups CutAll(const std::set<std::string_view>& names, size_t width, size_t tail) {
  Groups groups;
  for (const std::string_view name : names) groups[CutMiddle(name, width, tail)].insert(name);
  return groups;
}

// Returns `name`, cut, with a number that makes it differ from all of `used`.
std::string Numbered(std::string_view name, size_t width, const std::set<std::string>& used) {
  for (size_t number = 1;; ++number) {
    const std::string suffix = StrCat("~", number);
    std::string text =
        StrCat(CutMiddle(name, width - std::min(width, suffix.size()), width / 3), suffix);
    if (!used.contains(text)) return text;
  }
}

// One text for each name: names that are cut to the same text are numbered.
std::map<std::string_view, std::string> TextsOf(const Groups& groups, size_t width) {
  std::map<std::string_view, std::string> texts;
  std::set<std::string> used;
  for (const auto& [text, names] : groups) used.insert(text);
  for (const auto& [text, names] : groups) {
    for (const std::string_view name : names) {
      texts[name] = names.size() == 1 ? text : Numbered(name, width, used);
      used.insert(texts[name]);
    }
  }
  return texts;
}

// The first word of `text`, which loses it.
std::string_view TakeWord(std::string_view& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash + 1 == path.size() ? path
                                                                     : path.substr(slash + 1);
}

// "python", "python3", "python3.12", "python3.13t"
bool IsPython(std::string_view program) {
  constexpr std::string_view kPython = "python";
  if (!program.starts_with(kPython)) return false;
  return program.substr(kPython.size()).find_first_not_of("0123456789.t") == std::string_view::npos;
}

// Whether the next word belongs to this option of Python's.
bool TakesValue(std::string_view option) { return option == "-W" || option == "-X"; }

}  // namespace

std::string ShortCommand(std::string_view command) {
  std::string_view rest = command;
  std::string_view program = BaseName(TakeWord(rest));
  if (IsPython(program)) {
    std::string_view after = rest;
    std::string_view word = TakeWord(after);
    while (word.starts_with('-') && word != "-m" && word != "-c" && word != "-") {
      if (TakesValue(word)) TakeWord(after);
      word = TakeWord(after);
    }
    const bool is_module = word == "-m";
    if (is_module) word = TakeWord(after);
    if (!word.empty() && !word.starts_with('-')) {
      program = is_module ? word : BaseName(word);
      rest = after;
    }
  }
  return rest.empty() ? std::string(program) : StrCat(program, " ", rest);
}

std::string CutMiddle(std::string_view text, size_t width, size_t tail) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width <= tail + 1) return CutToWidth(text, width);
  const std::string_view end = EndOf(text, tail);
  // CutToWidth() puts the ellipsis.
  return StrCat(CutToWidth(text, width - DisplayWidth(end)), end);
}

std::vector<std::string> ShortenNames(const std::vector<std::string>& names, size_t width) {
  const std::set<std::string_view> different(names.begin(), names.end());
  // Beginnings say what a name is of, so they get more room where that is enough.
  Groups best;
  for (const size_t tail : {width / 3, width / 2, 2 * width / 3, size_t{0}}) {
    Groups groups = CutAll(different, width, tail);
    if (groups.size() > best.size()) best = std::move(groups);
    if (best.size() == different.size()) break;
  }
  const std::map<std::string_view, std::string> texts = TextsOf(best, width);
  std::vector<std::string> out;
  out.reserve(names.size());
  for (const std::string& name : names) out.push_back(texts.at(name));
  return out;
}

}  // namespace profd::cli
