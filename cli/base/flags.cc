#include "cli/base/flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

// What a user typed may hold anything; messages go to a terminal.
std::string ShownWord(std::string_view word) { return ForDisplay(word, 80); }

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

class FlagParser {
 public:
  FlagParser(std::span<const Flag> table, std::span<const std::string> words)
      : table_(table), words_(words) {}

  absl::Status Run(bool stop_at_argument) {
    while (next_ < words_.size()) {
      const std::string_view word = words_[next_++];
      if (word == "--") {
        TakeTheRest();
      } else if (word.starts_with("--")) {
        RETURN_IF_ERROR(TakeLong(word.substr(2)));
      } else if (word.size() > 1 && word[0] == '-') {
        RETURN_IF_ERROR(TakeLetter(word));
      } else {
        arguments_.emplace_back(word);
        if (stop_at_argument) TakeTheRest();
      }
    }
    return absl::OkStatus();
  }

  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> arguments_;

 private:
  void TakeTheRest() {
    while (next_ < words_.size()) arguments_.push_back(words_[next_++]);
  }

  absl::Status TakeLong(std::string_view body) {
    const size_t equals = body.find('=');
    const std::string_view name = body.substr(0, equals);
    std::optional<std::string_view> value;
    if (equals != std::string_view::npos) value = body.substr(equals + 1);
    for (const Flag& flag : table_) {
      if (flag.name == name) return Take(flag, StrCat("--", name), value);
    }
    return Unknown(name);
  }

  absl::Status TakeLetter(std::string_view word) {
    for (const Flag& flag : table_) {
      if (flag.letter != word[1] || flag.letter == 0) continue;
      std::optional<std::string_view> value;
      if (word.size() > 2) value = word.substr(word[2] == '=' ? 3 : 2);
      return Take(flag, std::string(word.substr(0, 2)), value);
    }
    return UsageError(StrCat("unknown flag '", ShownWord(word), "'"));
  }

  absl::Status Take(const Flag& flag, const std::string& spelled,
                    std::optional<std::string_view> value) {
    auto& values = values_[std::string(flag.name)];
    if (flag.value_name.empty()) {
      if (value.has_value()) return UsageError(StrCat(spelled, " takes no value"));
      values.emplace_back("true");
      return absl::OkStatus();
    }
    if (!value.has_value() && flag.value_is_optional) value = "";
    if (!value.has_value()) {
      if (next_ == words_.size()) {
        return UsageError(StrCat(spelled, " needs a value: ", spelled, " ", flag.value_name));
      }
      value = words_[next_++];
    }
    if (!values.empty() && !flag.repeated) {
      return UsageError(StrCat(spelled, " is given twice"));
    }
    values.emplace_back(*value);
    return CheckChoice(flag, spelled, *value);
  }

  static absl::Status CheckChoice(const Flag& flag, const std::string& spelled,
                                  std::string_view value) {
    if (flag.choices.empty() || flag.repeated) return absl::OkStatus();
    const auto is = [value](std::string_view choice) {
      if (choice == value) return true;
      // "stack:N": any number, "arguments:KEY": any text; their readers check them.
      const size_t name_bytes = choice.find(':') + 1;
      if (name_bytes == 0 || !value.starts_with(choice.substr(0, name_bytes))) return false;
      const std::string_view detail = value.substr(name_bytes);
      const bool is_number = detail.find_first_not_of("0123456789") == detail.npos;
      return !detail.empty() && (is_number || choice.substr(name_bytes) != "N");
    };
    if (std::ranges::any_of(flag.choices, is)) return absl::OkStatus();
    if (std::ranges::any_of(flag.unoffered, is)) return absl::OkStatus();
    std::string known;
    for (const auto* const choices : {&flag.choices, &flag.unoffered}) {
      for (const std::string_view choice : *choices) {
        StrAppend(&known, known.empty() ? "" : ", ", choice);
      }
    }
    return UsageError(StrCat(spelled, " '", ShownWord(value), "' is none of ", known));
  }

  absl::Status Unknown(std::string_view name) const {
    std::vector<std::string_view> names;
    names.reserve(table_.size());
    for (const Flag& flag : table_) names.push_back(flag.name);
    const std::string_view nearest = NearestMatch(name, names);
    std::string message = StrCat("unknown flag '--", ShownWord(name), "'");
    if (!nearest.empty()) StrAppend(&message, "; did you mean --", nearest, "?");
    return UsageError(message);
  }

  const std::span<const Flag> table_;
  const std::span<const std::string> words_;
  size_t next_ = 0;
};

// A number with a unit: value in `number`, the unit returned. nullopt: no number there.
std::optional<std::string_view> SplitUnit(std::string_view text, double* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error != std::errc() || !std::isfinite(*number)) return std::nullopt;
  return text.substr(static_cast<size_t>(end - text.data()));
}

template <typename T>
absl::StatusOr<std::optional<T>> InFlag(std::string_view flag, absl::StatusOr<T> value) {
  if (value.ok()) return std::optional<T>(*std::move(value));
  return UsageError(StrCat("--", flag, ": ", FromAbsl(value.status().message())));
}

}  // namespace

absl::Status UsageError(const std::string& message) {
  return WithReason(absl::InvalidArgumentError(message), kUsageReason);
}

absl::StatusOr<ParsedFlags> ParseFlags(std::span<const Flag> table,
                                       std::span<const std::string> words, bool stop_at_argument) {
  FlagParser parser(table, words);
  RETURN_IF_ERROR(parser.Run(stop_at_argument));
  ParsedFlags parsed;
  parsed.values_ = std::move(parser.values_);
  parsed.arguments_ = std::move(parser.arguments_);
  return parsed;
}

std::string JoinedActions(const Flag& flag) {
  std::string text;
  for (const std::string_view action : flag.actions) {
    StrAppend(&text, text.empty() ? "" : ", ", action);
  }
  return text;
}

std::string HelpWithActions(const Flag& flag) {
  if (flag.actions.empty()) return std::string(flag.help);
  return StrCat(JoinedActions(flag), ": ", flag.help);
}

std::optional<std::string> ParsedFlags::Get(std::string_view flag) const {
  const auto found = values_.find(flag);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> ParsedFlags::All(std::string_view flag) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> ParsedFlags::List(std::string_view flag) const {
  std::vector<std::string> list;
  for (const std::string& value : All(flag)) {
    for (std::string& part : SplitAtCommas(value)) list.push_back(std::move(part));
  }
  return list;
}

absl::StatusOr<std::optional<int64_t>> ParsedFlags::Int(std::string_view flag, int64_t min,
                                                        int64_t max) const {
  const std::optional<std::string> text = Get(flag);
  if (!text.has_value()) return std::optional<int64_t>();
  const absl::StatusOr<int64_t> value = ParseInt(*text);
  if (!value.ok() || *value < min || *value > max) {
    const std::string range = max == std::numeric_limits<int64_t>::max()
                                  ? StrCat("at least ", min, " that fits 64 bits")
                                  : StrCat("from ", min, " to ", max);
    return UsageError(
        StrCat("--", flag, " must be a whole number ", range, ", not '", ShownWord(*text), "'"));
  }
  return std::optional<int64_t>(*value);
}

absl::StatusOr<std::optional<absl::Duration>> ParsedFlags::Duration(std::string_view flag) const {
  const std::optional<std::string> text = Get(flag);
  if (!text.has_value()) return std::optional<absl::Duration>();
  return InFlag(flag, ParseDuration(*text));
}

absl::StatusOr<std::optional<int64_t>> ParsedFlags::Bytes(std::string_view flag, int64_t min,
                                                          int64_t max) const {
  const std::optional<std::string> text = Get(flag);
  if (!text.has_value()) return std::optional<int64_t>();
  absl::StatusOr<std::optional<int64_t>> bytes = InFlag(flag, ParseBytes(*text));
  if (!bytes.ok() || (**bytes >= min && **bytes <= max)) return bytes;
  return UsageError(StrCat("--", flag, " '", ShownWord(*text), "' must be at least ",
                           FormatBytes(min), " and at most ", FormatBytes(max)));
}

absl::StatusOr<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return UsageError(StrCat("'", ShownWord(text), "' is not a whole number that fits 64 bits"));
  }
  return value;
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  const absl::Status bad = UsageError(
      StrCat("'", ShownWord(text), "' is not a time span such as 500ms, 10s, 1m30s, 2h, 3d"));
  constexpr std::pair<std::string_view, absl::Duration (*)(double)> kUnits[] = {
      {"ns", absl::Nanoseconds},
      {"us", absl::Microseconds},
      {"ms", absl::Milliseconds},
      {"s", absl::Seconds},
      {"m", absl::Minutes},
      {"h", absl::Hours},
      {"d", [](double days) { return absl::Hours(24 * days); }}};
  absl::Duration sum = absl::ZeroDuration();
  if (text.empty()) return bad;
  for (bool first = true; !text.empty(); first = false) {
    double number = 0;
    const std::optional<std::string_view> rest = SplitUnit(text, &number);
    if (!rest.has_value() || std::signbit(number)) return bad;
    if (rest->empty()) {
      if (first && number == 0) return absl::ZeroDuration();
      if (!first) return bad;
      // Some would mean seconds, others milliseconds.
      const std::string shown = ShownWord(text);
      return UsageError(StrCat("'", shown,
                               "' has no unit (choose ns, us, ms, s, m, h, or d, as in ", shown,
                               "ms or ", shown, "s)"));
    }
    // The longest unit that fits: "ms" before "m".
    const std::pair<std::string_view, absl::Duration (*)(double)>* best = nullptr;
    for (const auto& unit : kUnits) {
      if (!rest->starts_with(unit.first)) continue;
      if (best == nullptr || unit.first.size() > best->first.size()) best = &unit;
    }
    if (best == nullptr) return bad;
    sum += best->second(number);
    text = rest->substr(best->first.size());
  }
  return sum;
}

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},         {"B", 1},      {"K", 0x1p10},   {"KiB", 0x1p10}, {"KB", 1e3},
      {"kB", 1e3},     {"M", 0x1p20}, {"MiB", 0x1p20}, {"MB", 1e6},     {"G", 0x1p30},
      {"GiB", 0x1p30}, {"GB", 1e9},   {"T", 0x1p40},   {"TiB", 0x1p40}, {"TB", 1e12}};
  double number = 0;
  const std::optional<std::string_view> rest = SplitUnit(text, &number);
  if (rest.has_value() && number >= 0) {
    for (const auto& [unit, factor] : kUnits) {
      const double bytes = number * factor;
      if (*rest == unit && bytes < 9.2e18) return static_cast<int64_t>(bytes);
    }
  }
  return UsageError(
      StrCat("'", ShownWord(text), "' is not a size such as 1048576, 512KiB, 64MiB, 10MB, 2GiB"));
}

std::string_view NearestMatch(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kLongestWord = 64;  // Nothing of ours is near that.
  if (word.size() > kLongestWord) return {};
  std::string_view best;
  // Two letters swapped are a distance of 2.
  size_t best_distance = (word.size() < 4 ? 1 : std::max<size_t>(2, word.size() / 3)) + 1;
  for (const std::string_view candidate : candidates) {
    // The start of a word is what people type first.
    const bool is_start = word.size() >= 2 && candidate.starts_with(word);
    const size_t distance = is_start ? 1 : EditDistance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace profd::cli
