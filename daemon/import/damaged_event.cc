#include "daemon/import/damaged_event.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "daemon/base/str_cat.h"
#include "daemon/import/json/skip.h"

namespace profd::importer {
namespace {

// Keys that an event begins with, and that no object inside of one does.
constexpr auto kFirstKeys = std::to_array<std::string_view>(
    {"ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "s", "bp"});

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size() && IsJsonSpace(text[at])) ++at;
  return at;
}

bool Take(std::string_view text, size_t& at, char c) {
  at = SkipSpace(text, at);
  if (at >= text.size() || text[at] != c) return false;
  ++at;
  return true;
}

// Whether `{"ph":` or the like is at `at`.
bool BeginsEvent(std::string_view text, size_t at) {
  if (!Take(text, at, '{') || !Take(text, at, '"')) return false;
  const size_t quote = text.find('"', at);
  if (quote == std::string_view::npos) return false;
  const std::string_view key = text.substr(at, quote - at);
  at = quote + 1;
  return std::ranges::find(kFirstKeys, key) != kFirstKeys.end() && Take(text, at, ':');
}

// Whether `],"traceName"` or `]}` is at `at`, or `]` and the end.
bool EndsArray(std::string_view text, size_t at) {
  if (!Take(text, at, ']')) return false;
  at = SkipSpace(text, at);
  if (at == text.size() || text[at] == '}') return true;
  return Take(text, at, ',') && Take(text, at, '"');
}

// The size of a number at `at` that is not finite, as C, C++, Python, and Java write them; 0: none.
size_t SizeOfNonFinite(std::string_view text, size_t at) {
  constexpr auto kWords = std::to_array<std::string_view>({"infinity", "inf", "nan"});
  const auto is_word_part = [&](size_t i) {
    return i < text.size() && ((text[i] >= 'a' && text[i] <= 'z') ||
                               (text[i] >= 'A' && text[i] <= 'Z') || text[i] == '_');
  };
  const size_t begin = at;
  if (text[at] == '-' || text[at] == '+') ++at;
  for (const std::string_view word : kWords) {
    size_t same = 0;
    while (same < word.size() && at + same < text.size() && (text[at + same] | 0x20) == word[same])
      ++same;
    if (same == word.size() && !is_word_part(at + same)) return at + same - begin;
  }
  return 0;
}

// Keeps nothing of a text but where it stops being JSON.
class DamageSearch : public nlohmann::json_sax<nlohmann::json> {
 public:
  size_t byte() const { return byte_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    // Others are of a number that no double can hold.
    const bool is_syntax = dynamic_cast<const nlohmann::json::parse_error*>(&error) != nullptr;
    if (is_syntax) byte_ = position == 0 ? 0 : position - 1;
    return false;
  }

 private:
  size_t byte_ = 1;
};

}  // namespace

bool HasNonFinite(std::string_view json) {
  // All of these words have an n, which lists of numbers do not.
  constexpr size_t kNone = std::string_view::npos;
  if (json.find('n') == kNone && json.find('N') == kNone) return false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') {
      for (++i; i < json.size() && json[i] != '"'; ++i) i += json[i] == '\\' ? 1 : 0;
    } else if (SizeOfNonFinite(json, i) > 0) {
      return true;
    }
  }
  return false;
}

RepairedEvent RepairEvent(std::string_view event) {
  RepairedEvent repaired;
  repaired.json.reserve(event.size());
  bool in_text = false;
  for (size_t i = 0; i < event.size(); ++i) {
    const char c = event[i];
    if (in_text && c == '\\' && i + 1 < event.size()) {
      repaired.json.append(event, i++, 2);
      continue;
    }
    if (c == '"') in_text = !in_text;
    if (in_text && static_cast<unsigned char>(c) < 0x20) {
      repaired.json += ' ';
      ++repaired.control_characters;
      continue;
    }
    const size_t size = in_text ? 0 : SizeOfNonFinite(event, i);
    if (size > 0) {
      repaired.json += "null";
      ++repaired.non_finite_numbers;
      i += size - 1;
      continue;
    }
    repaired.json += c;
  }
  return repaired;
}

size_t EndOfDamagedMember(std::string_view text, size_t from, bool is_all) {
  constexpr size_t kLongestKey = 64;
  for (size_t at = text.find(',', from); at != std::string_view::npos;
       at = text.find(',', at + 1)) {
    size_t key = at + 1;
    if (!Take(text, key, '"')) continue;
    const size_t quote = text.find_first_of("\"\\\n", key);
    if (quote == std::string_view::npos || text[quote] != '"' || quote - key > kLongestKey)
      continue;
    size_t behind = quote + 1;
    if (Take(text, behind, ':')) return at;
  }
  if (!is_all) return std::string_view::npos;
  const size_t last = text.find_last_not_of(" \t\r\n");
  return last != std::string_view::npos && last >= from && text[last] == '}'
             ? last
             : std::string_view::npos;
}

size_t EndOfDamagedEvent(std::string_view text) {
  for (size_t at = text.find('}'); at != std::string_view::npos; at = text.find('}', at + 1)) {
    size_t behind = at + 1;
    // A brace ends the event only if what follows it looks like the end of the list or the start of
    // an event. Objects inside of an event end in braces, too.
    if (EndsArray(text, behind)) return at + 1;
    if (Take(text, behind, ',') && BeginsEvent(text, behind)) return at + 1;
  }
  return std::string_view::npos;
}

size_t ByteOfDamage(std::string_view event) {
  const std::string array = StrCat("[", event, "]");
  DamageSearch search;
  nlohmann::json::sax_parse(array.begin(), array.end(), &search);
  return search.byte() == 0 ? 0 : search.byte() - 1;
}

size_t FindDamagedEvent(std::string_view text) {
  std::string open;  // Brackets.
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      if (open.empty()) begin = at;
      open += c;
    } else if (c == '}' || c == ']') {
      if (open.empty()) return std::string_view::npos;  // Of the array.
      if (open.back() != (c == '}' ? '{' : '[')) return begin;
      open.pop_back();
      if (!open.empty()) continue;
      const size_t next = SkipSpace(text, at + 1);
      if (next == text.size()) return std::string_view::npos;
      const bool is_usual = text[next] == ',' || text[next] == ']' || text[next] == '{';
      if (!is_usual) return begin;
    }
  }
  return std::string_view::npos;
}

}  // namespace profd::importer
