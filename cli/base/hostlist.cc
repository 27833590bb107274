#include "cli/base/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "cli/base/flags.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr size_t kLongestName = 253;   // What DNS allows.
constexpr size_t kLongestNumber = 18;  // Digits that surely fit 64 bits.
// Every host's number written out in one bracket, as CompressHostlist() may have to.
constexpr size_t kLongestItem = kMaxHosts * (kLongestNumber + 1) + kLongestName;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsHostCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_';
}

bool IsSeparator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

absl::Status Malformed(std::string_view item, std::string_view why) {
  return UsageError(StrCat("'", ForDisplay(item, 120), "' is not a list of hosts: ", why));
}

// Every character is a digit, and there is one at least.
std::optional<int64_t> NumberIn(std::string_view text) {
  if (text.empty() || text.size() > kLongestNumber ||
      !std::all_of(text.begin(), text.end(), &IsDigit)) {
    return std::nullopt;
  }
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string Padded(int64_t number, size_t width) {
  const std::string digits = StrCat(number);
  return digits.size() >= width ? digits : StrCat(std::string(width - digits.size(), '0'), digits);
}

// The numbers of one bracket, "001-128,7", as they are written out.
absl::StatusOr<std::vector<std::string>> ExpandBracket(std::string_view item,
                                                       std::string_view ranges) {
  std::vector<std::string> numbers;
  while (true) {
    const size_t comma = ranges.find(',');
    const std::string_view range = ranges.substr(0, comma);
    const size_t dash = range.find('-');
    const std::string_view first_text = range.substr(0, dash);
    const std::optional<int64_t> first = NumberIn(first_text);
    const std::optional<int64_t> last =
        dash == std::string_view::npos ? first : NumberIn(range.substr(dash + 1));
    if (!first.has_value() || !last.has_value()) {
      return Malformed(item, "a range is a number or two, as in [001-128,200]");
    }
    if (*last < *first) return Malformed(item, "a range descends");
    if (static_cast<uint64_t>(*last - *first) >= kMaxHosts - std::min(numbers.size(), kMaxHosts)) {
      return Malformed(item, StrCat("it names more than ", kMaxHosts));
    }
    for (int64_t number = *first; number <= *last; ++number) {
      numbers.push_back(Padded(number, first_text.size()));
    }
    if (comma == std::string_view::npos) return numbers;
    ranges.remove_prefix(comma + 1);
  }
}

// Every name of `names` with every one of `endings`.
absl::Status AppendEndings(std::string_view item, const std::vector<std::string>& endings,
                           std::vector<std::string>& names) {
  if (endings.size() > kMaxHosts / names.size()) {
    return Malformed(item, StrCat("it names more than ", kMaxHosts));
  }
  std::vector<std::string> longer;
  longer.reserve(names.size() * endings.size());
  for (const std::string& name : names) {
    for (const std::string& ending : endings) longer.push_back(StrCat(name, ending));
  }
  names = std::move(longer);
  if (names.front().size() > kLongestName) return Malformed(item, "a name is too long");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ExpandItem(std::string_view item) {
  if (item.size() > kLongestItem) return Malformed(item, "it is too long");
  std::vector<std::string> names = {""};
  std::string_view rest = item;
  while (!rest.empty()) {
    if (rest.front() == '[') {
      const size_t close = rest.find(']');
      if (close == std::string_view::npos) return Malformed(item, "a '[' is not closed");
      ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                       ExpandBracket(item, rest.substr(1, close - 1)));
      RETURN_IF_ERROR(AppendEndings(item, numbers, names));
      rest.remove_prefix(close + 1);
      continue;
    }
    const std::string_view text = rest.substr(0, rest.find('['));
    if (!std::all_of(text.begin(), text.end(), &IsHostCharacter)) {
      return Malformed(item, "names have letters, digits, '-', '.' and '_'");
    }
    RETURN_IF_ERROR(AppendEndings(item, {std::string(text)}, names));
    rest.remove_prefix(text.size());
  }
  return names;
}

// A name around its last number.
struct Split {
  std::string prefix;
  std::string digits;  // Empty: it has none that can be counted with.
  std::string suffix;
};

Split SplitName(const std::string& name) {
  size_t end = name.size();
  while (end > 0 && !IsDigit(name[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && IsDigit(name[begin - 1])) --begin;
  const bool is_host = std::all_of(name.begin(), name.end(), &IsHostCharacter);
  if (!is_host || begin == end || end - begin > kLongestNumber) return {name, "", ""};
  return {name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
}

std::string RangesOf(const std::set<int64_t>& numbers, size_t width) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const int64_t first = *it;
    int64_t last = first;
    for (++it; it != numbers.end() && *it == last + 1; ++it) last = *it;
    StrAppend(&text, text.empty() ? "" : ",", Padded(first, width));
    if (last > first) StrAppend(&text, "-", Padded(last, width));
  }
  return text;
}

}  // namespace

std::vector<std::string_view> SplitHostlist(std::string_view text) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  bool in_bracket = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      if (text[i] == '[') in_bracket = true;
      if (text[i] == ']') in_bracket = false;
      if (in_bracket || !IsSeparator(text[i])) continue;
    }
    if (i > begin) items.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return items;
}

absl::StatusOr<std::vector<std::string>> ExpandHostlist(std::string_view text) {
  std::vector<std::string> hosts;
  for (const std::string_view item : SplitHostlist(text)) {
    ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandItem(item));
    if (names.size() > kMaxHosts - hosts.size()) {
      return Malformed(item, StrCat("with those before it there are more than ", kMaxHosts));
    }
    std::move(names.begin(), names.end(), std::back_inserter(hosts));
  }
  return hosts;
}

std::string CompressHostlist(std::span<const std::string> hosts) {
  // Numbers that share a bracket: of the same name around them, and padded to the same width,
  // or not at all (0). A number without a leading zero is of the padded ones if its width is.
  constexpr size_t kNoNumber = kLongestNumber + 1;
  using Key = std::tuple<std::string, std::string, size_t>;
  std::vector<Split> names;
  std::set<Key> padded;
  for (const std::string& host : hosts) {
    Split name = SplitName(host);
    if (name.digits.size() > 1 && name.digits[0] == '0') {
      padded.insert({name.prefix, name.suffix, name.digits.size()});
    }
    names.push_back(std::move(name));
  }
  std::map<Key, std::set<int64_t>> numbers;
  std::vector<Key> order;
  for (const Split& name : names) {
    Key key = {name.prefix, name.suffix, name.digits.size()};
    if (!padded.contains(key)) std::get<2>(key) = name.digits.empty() ? kNoNumber : 0;
    if (!numbers.contains(key)) order.push_back(key);
    std::set<int64_t>& of_key = numbers[key];
    if (const auto number = NumberIn(name.digits)) of_key.insert(*number);
  }
  std::string text;
  for (const Key& key : order) {
    const auto& [prefix, suffix, width] = key;
    const std::set<int64_t>& of_key = numbers[key];
    StrAppend(&text, text.empty() ? "" : ",", prefix);
    if (of_key.size() == 1) StrAppend(&text, Padded(*of_key.begin(), width));
    if (of_key.size() > 1) StrAppend(&text, "[", RangesOf(of_key, width), "]");
    StrAppend(&text, suffix);
  }
  return text;
}

}  // namespace profd::cli
