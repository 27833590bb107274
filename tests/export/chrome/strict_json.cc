#include "tests/export/chrome/strict_json.h"

#include <charconv>
#include <cstdlib>
#include <unordered_set>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    out.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<JsonValue> ParseAll() {
    JsonValue value;
    SkipSpace();
    RETURN_IF_ERROR(ParseValue(0, value));
    SkipSpace();
    if (at_ != text_.size()) return Error("something behind the value");
    return value;
  }

 private:
  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(StrCat(what, " at byte ", at_));
  }
  bool More() const { return at_ < text_.size(); }
  char Peek() const { return More() ? text_[at_] : '\0'; }
  bool Take(char c) {
    if (!More() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void SkipSpace() {
    while (More() && (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r')) ++at_;
  }

  absl::Status ParseValue(size_t depth, JsonValue& value) {
    if (depth > kMostJsonDepth) return Error("nested too deep");
    switch (Peek()) {
      case '{':
        return ParseObject(depth, value);
      case '[':
        return ParseArray(depth, value);
      case '"':
        value.kind = JsonValue::Kind::kString;
        return ParseString(value.text);
      case 't':
        value.boolean = true;
        return ParseWord("true", JsonValue::Kind::kBool, value);
      case 'f':
        return ParseWord("false", JsonValue::Kind::kBool, value);
      case 'n':
        return ParseWord("null", JsonValue::Kind::kNull, value);
      default:
        return ParseNumber(value);
    }
  }

  absl::Status ParseWord(std::string_view word, JsonValue::Kind kind, JsonValue& value) {
    if (text_.substr(at_, word.size()) != word) return Error("not a value");
    at_ += word.size();
    value.kind = kind;
    return absl::OkStatus();
  }

  absl::Status ParseObject(size_t depth, JsonValue& value) {
    value.kind = JsonValue::Kind::kObject;
    ++at_;
    SkipSpace();
    if (Take('}')) return absl::OkStatus();
    std::unordered_set<std::string> keys;
    while (true) {
      if (Peek() != '"') return Error("a key is missing");
      auto& [key, member] = value.members.emplace_back();
      RETURN_IF_ERROR(ParseString(key));
      if (!keys.insert(key).second) return Error(StrCat("the key \"", key, "\" came before"));
      SkipSpace();
      if (!Take(':')) return Error("':' is missing");
      SkipSpace();
      RETURN_IF_ERROR(ParseValue(depth + 1, member));
      SkipSpace();
      if (Take('}')) return absl::OkStatus();
      if (!Take(',')) return Error("',' or '}' is missing");
      SkipSpace();
    }
  }

  absl::Status ParseArray(size_t depth, JsonValue& value) {
    value.kind = JsonValue::Kind::kArray;
    ++at_;
    SkipSpace();
    if (Take(']')) return absl::OkStatus();
    while (true) {
      RETURN_IF_ERROR(ParseValue(depth + 1, value.items.emplace_back()));
      SkipSpace();
      if (Take(']')) return absl::OkStatus();
      if (!Take(',')) return Error("',' or ']' is missing");
      SkipSpace();
    }
  }

  absl::Status ParseNumber(JsonValue& value) {
    value.kind = JsonValue::Kind::kNumber;
    const size_t begin = at_;
    Take('-');
    if (!Take('0')) RETURN_IF_ERROR(TakeDigits());
    if (Take('.')) RETURN_IF_ERROR(TakeDigits());
    if (Peek() == 'e' || Peek() == 'E') {
      ++at_;
      if (Peek() == '+' || Peek() == '-') ++at_;
      RETURN_IF_ERROR(TakeDigits());
    }
    value.text = text_.substr(begin, at_ - begin);
    return absl::OkStatus();
  }
  absl::Status TakeDigits() {
    if (!IsDigit(Peek())) return Error("a digit is missing");
    while (IsDigit(Peek())) ++at_;
    return absl::OkStatus();
  }

  absl::Status ParseString(std::string& out) {
    ++at_;
    while (More()) {
      const auto byte = static_cast<uint8_t>(text_[at_]);
      if (byte == '"') {
        ++at_;
        return absl::OkStatus();
      }
      if (byte < 0x20) return Error("a raw control character");
      if (byte == '\\') {
        RETURN_IF_ERROR(ParseEscape(out));
      } else {
        RETURN_IF_ERROR(TakeUtf8(out));
      }
    }
    return Error("a string without end");
  }

  absl::Status ParseEscape(std::string& out) {
    ++at_;
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (Take('u')) return ParseUnicodeEscape(out);
    const size_t letter = More() ? kLetters.find(Peek()) : std::string_view::npos;
    if (letter == std::string_view::npos) return Error("an unknown escape");
    out.push_back(kMeanings[letter]);
    ++at_;
    return absl::OkStatus();
  }

  absl::Status ParseUnicodeEscape(std::string& out) {
    uint32_t code = 0;
    RETURN_IF_ERROR(TakeHex(code));
    if (code >= 0xDC00 && code <= 0xDFFF) return Error("a lone surrogate");
    if (code >= 0xD800 && code <= 0xDBFF) {
      uint32_t low = 0;
      if (!Take('\\') || !Take('u')) return Error("a lone surrogate");
      RETURN_IF_ERROR(TakeHex(low));
      if (low < 0xDC00 || low > 0xDFFF) return Error("a lone surrogate");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    AppendUtf8(code, out);
    return absl::OkStatus();
  }

  absl::Status TakeHex(uint32_t& code) {
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) {
      return Error("four hexadecimal digits are missing");
    }
    at_ += 4;
    return absl::OkStatus();
  }

  // One character, checked by decoding it: overlong forms, surrogates and numbers beyond
  // U+10FFFF decode to what their length does not allow.
  absl::Status TakeUtf8(std::string& out) {
    const auto first = static_cast<uint8_t>(text_[at_]);
    const size_t length = first < 0x80         ? 1
                          : first >> 5 == 0x6  ? 2
                          : first >> 4 == 0xE  ? 3
                          : first >> 3 == 0x1E ? 4
                                               : 0;
    if (length == 0 || at_ + length > text_.size()) return Error("invalid UTF-8");
    uint32_t code = length == 1 ? first : first & (0x7F >> length);
    for (size_t i = 1; i < length; ++i) {
      const auto next = static_cast<uint8_t>(text_[at_ + i]);
      if (next >> 6 != 0x2) return Error("invalid UTF-8");
      code = code << 6 | (next & 0x3F);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      return Error("invalid UTF-8");
    }
    out.append(text_.substr(at_, length));
    at_ += length;
    return absl::OkStatus();
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

bool JsonValue::is_integer() const {
  if (!is_number()) return false;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

int64_t JsonValue::integer() const {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

double JsonValue::number() const { return std::strtod(text.c_str(), nullptr); }

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

const JsonValue& JsonValue::operator[](std::string_view key) const {
  static const JsonValue& kNull = *new JsonValue();
  const JsonValue* const found = Find(key);
  return found == nullptr ? kNull : *found;
}

absl::StatusOr<JsonValue> ParseStrictJson(std::string_view text) { return Parser(text).ParseAll(); }

}  // namespace profd
