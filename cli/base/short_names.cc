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

// The same text for several names becomes "text~1", "text~2", in the order of the names.
std::map<std::string_view, std::string> Numbered(const Groups& groups, size_t width) {
  std::map<std::string_view, std::string> texts;
  for (const auto& [text, names] : groups) {
    if (names.size() == 1) {
      texts[*names.begin()] = text;
      continue;
    }
    size_t number = 0;
    for (const std::string_view name : names) {
      const std::string suffix = StrCat("~", ++number);
      texts[name] =
          StrCat(CutMiddle(name, width - std::min(width, suffix.size()), width / 3), suffix);
    }
  }
  return texts;
}

}  // namespace

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
  const std::map<std::string_view, std::string> texts = Numbered(best, width);
  std::vector<std::string> out;
  out.reserve(names.size());
  for (const std::string& name : names) out.push_back(texts.at(name));
  return out;
}

}  // namespace profd::cli
