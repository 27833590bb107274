#include "daemon/check/json_reader.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::check {
namespace {

// Bytes of a string that stand for themselves: ASCII but quotes, backslashes and control
// characters.
constexpr std::array<bool, 256> kIsPlain = [] {
  std::array<bool, 256> plain = {};
  for (size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?
bool IsNumber(std::string_view text) {
  const auto take = [&](std::string_view any_of) {
    if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
    text.remove_prefix(1);
    return true;
  };
  const auto take_digits = [&] {
    const size_t digits =
        static_cast<size_t>(std::find_if_not(text.begin(), text.end(), IsDigit) - text.begin());
    text.remove_prefix(digits);
    return digits > 0;
  };
  take("-");
  if (!take("0") && !take_digits()) return false;
  if (take(".") && !take_digits()) return false;
  if (take("eE")) {
    take("+-");
    if (!take_digits()) return false;
  }
  return text.empty();
}

void AppendUtf8(uint32_t code, std::string& out) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

bool JsonReader::Refill() {
  if (!ok()) return false;
  piece_offset_ += piece_.size();
  piece_ = {};
  at_ = 0;
  auto next = source_.Next();
  if (!next.ok()) {
    status_ = next.status();
    return false;
  }
  piece_ = *next;
  return !piece_.empty();
}

bool JsonReader::Fail(std::string_view what) {
  if (ok()) error_ = StrCat(what, " at byte ", offset());
  return false;
}

// False at the end of the text.
bool JsonReader::SkipSpace() {
  while (More()) {
    const char c = piece_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return true;
    ++at_;
  }
  return false;
}

JsonReader::Kind JsonReader::Peek() {
  if (!ok() || !SkipSpace()) return Kind::kNothing;
  const char c = piece_[at_];
  if (c == '{') return Kind::kObject;
  if (c == '[') return Kind::kArray;
  if (c == '"') return Kind::kString;
  if (c == '-' || IsDigit(c)) return Kind::kNumber;
  return Kind::kWord;
}

bool JsonReader::Enter(char bracket) {
  if (!ok()) return false;
  if (!SkipSpace()) return Fail("the text ends where a value is due");
  if (piece_[at_] != bracket) {
    Skip();
    return false;
  }
  if (levels_.size() >= kMostDepth) return Fail("values nest too deep");
  ++at_;
  levels_.push_back({bracket, true, keys_.size()});
  return true;
}

bool JsonReader::Leave() {
  ++at_;
  keys_.resize(levels_.back().first_key);
  levels_.pop_back();
  return false;
}

// What stands before the next key or item: nothing, a comma, or the closing bracket (false).
bool JsonReader::Comma() {
  if (!ok()) return false;
  if (!SkipSpace()) return Fail("the text breaks off");
  Level& level = levels_.back();
  if (piece_[at_] == (level.bracket == '{' ? '}' : ']')) return Leave();
  if (std::exchange(level.is_first, false)) return true;
  if (piece_[at_] != ',') return Fail("a comma or the closing bracket is missing");
  ++at_;
  return SkipSpace() || Fail("the text breaks off");
}

bool JsonReader::NextKey(std::string_view& key) {
  if (!Comma()) return false;
  if (piece_[at_] != '"') return Fail("a key is missing");
  key = ReadString();
  if (!ok()) return false;
  NoteKey(key);
  key_.assign(key);  // What follows may stand in the next piece.
  key = key_;
  if (!SkipSpace() || piece_[at_] != ':') return Fail("a colon is missing");
  ++at_;
  const uint64_t before = offset();
  if (!SkipSpace()) return Fail("the text breaks off");
  space_before_value_ = offset() != before;
  if (space_before_value_ && key == "rank" && IsDigit(piece_[at_])) ++spaced_ranks_;
  return true;
}

void JsonReader::NoteKey(std::string_view key) {
  const uint64_t hash = std::hash<std::string_view>()(key);
  const auto first = keys_.begin() + static_cast<ptrdiff_t>(levels_.back().first_key);
  // Each key is compared with all before it, so the number is bounded: a hostile object with many
  // keys would take quadratic time.
  if (keys_.end() - first >= static_cast<ptrdiff_t>(kMostComparedKeys)) return;
  if (std::find(first, keys_.end(), hash) != keys_.end()) {
    log_.Add(Rule::kJsonKey, "\"", ForDisplay(key, 80), "\" appears twice in one object, at byte ",
             offset());
  }
  keys_.push_back(hash);
}

bool JsonReader::NextItem() { return Comma(); }

std::string_view JsonReader::String() {
  if (!ok()) return {};
  if (!SkipSpace() || piece_[at_] != '"') {
    Skip();
    return {};
  }
  return ReadString();
}

std::string_view JsonReader::Token() {
  if (Peek() == Kind::kNumber) return ReadBareWord();
  Skip();
  return {};
}

void JsonReader::Skip() {
  std::string_view key;
  switch (Peek()) {
    case Kind::kObject:
      if (!EnterObject()) return;
      while (NextKey(key)) Skip();
      return;
    case Kind::kArray:
      if (!EnterArray()) return;
      while (NextItem()) Skip();
      return;
    case Kind::kString:
      ReadString();
      return;
    case Kind::kNumber:
    case Kind::kWord:
      ReadBareWord();
      return;
    case Kind::kNothing:
      Fail("the text ends where a value is due");
  }
}

void JsonReader::ExpectEnd() {
  if (ok() && SkipSpace()) Fail("something follows the end of the trace");
}

// A number, true, false, null, and what is none of them but is written as if.
std::string_view JsonReader::ReadBareWord() {
  const auto belongs = [](char c) {
    return IsDigit(c) || IsLetter(c) || c == '-' || c == '+' || c == '.';
  };
  const size_t begin = at_;
  while (at_ < piece_.size() && belongs(piece_[at_])) ++at_;
  std::string_view word = piece_.substr(begin, at_ - begin);
  // The word may continue in the next piece of the file.
  if (at_ == piece_.size()) {
    text_.assign(word);
    while (More() && belongs(piece_[at_]) && text_.size() < 512) text_.push_back(piece_[at_++]);
    word = text_;
  }
  if (word.empty() || word.size() >= 512) {
    Fail("something that is not a value");
    return {};
  }
  if (word == "true" || word == "false" || word == "null") return word;
  if (!IsNumber(word)) {
    log_.Add(Rule::kJsonNumber, ForDisplay(word, 40), " stands for a number at byte ",
             offset() - word.size());
    return {};
  }
  return word;
}

std::string_view JsonReader::ReadString() {
  ++at_;
  const std::string_view plain = TakePlain();
  if (at_ < piece_.size() && piece_[at_] == '"') {
    ++at_;
    return plain.substr(0, kMostStringBytes);
  }
  text_.clear();
  Put(plain);
  while (More()) {
    const char c = piece_[at_];
    const auto byte = static_cast<uint8_t>(c);
    if (kIsPlain[byte]) {
      Put(TakePlain());
    } else if (c == '"') {
      ++at_;
      return text_;
    } else if (c == '\\') {
      ++at_;
      ReadEscape();
    } else if (byte < 0x20) {
      log_.Add(Rule::kJsonText, "a raw control character in a string at byte ", offset());
      ++at_;
      Put("?");
    } else {
      ReadUtf8();
    }
  }
  Fail("the text breaks off in a string");
  return {};
}

std::string_view JsonReader::TakePlain() {
  const size_t begin = at_;
  while (at_ < piece_.size() && kIsPlain[static_cast<uint8_t>(piece_[at_])]) ++at_;
  return piece_.substr(begin, at_ - begin);
}

void JsonReader::Put(std::string_view text) {
  text_.append(text.substr(0, kMostStringBytes - std::min(kMostStringBytes, text_.size())));
}

// After the backslash.
void JsonReader::ReadEscape() {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char c = Front();
  if (c == 'u') {
    ++at_;
    ReadUnicodeEscape();
    return;
  }
  const size_t letter = kLetters.find(c);
  if (c == '\0' || letter == std::string_view::npos) {
    log_.Add(Rule::kJsonText, "an unknown escape in a string at byte ", offset());
    return;  // Whatever it is, it is the next to be read.
  }
  ++at_;
  Put(kMeanings.substr(letter, 1));
}

void JsonReader::ReadUnicodeEscape() {
  const uint64_t at = offset();
  int32_t code = ReadHex();
  if (code >= 0xD800 && code <= 0xDBFF && Front() == '\\') {
    ++at_;
    if (Front() != 'u') {
      log_.Add(Rule::kJsonText, "half of a surrogate pair at byte ", at);
      ReadEscape();
      return;
    }
    ++at_;
    const int32_t low = ReadHex();
    if (low >= 0xDC00 && low <= 0xDFFF) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code < 0 || (code >= 0xD800 && code <= 0xDFFF)) {
    log_.Add(Rule::kJsonText,
             code < 0 ? "an escape without four digits" : "half of a surrogate pair", " at byte ",
             at);
    Put("?");
    return;
  }
  std::string character;
  AppendUtf8(static_cast<uint32_t>(code), character);
  Put(character);
}

// Four hexadecimal digits; -1 where they are not.
int32_t JsonReader::ReadHex() {
  int32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = Front();
    const int digit = IsDigit(c)             ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    code = code * 16 + digit;
    ++at_;
  }
  return code;
}

// One character of several bytes, which may lie in two pieces.
void JsonReader::ReadUtf8() {
  const uint64_t at = offset();
  const auto first = static_cast<uint8_t>(piece_[at_]);
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  std::string character;
  do {
    character.push_back(piece_[at_++]);
  } while (character.size() < length && (static_cast<uint8_t>(Front()) & 0xC0) == 0x80);
  if (IsValidUtf8(character)) {
    Put(character);
    return;
  }
  log_.Add(Rule::kJsonText, "bytes that are not UTF-8 at byte ", at);
  Put("?");
}

}  // namespace profd::check
