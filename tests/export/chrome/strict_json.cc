#include "tests/export/chrome/strict_json.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <unordered_set>

#include "daemon/base/status_macros.h"
#include "daemon/check/json_reader.h"

namespace profd {
namespace {

// The reader compares the first keys of an object only.
bool HasOwnKeys(const JsonValue& object) {
  if (object.members.size() <= check::JsonReader::kMostComparedKeys) return true;
  std::unordered_set<std::string_view> keys;
  return std::ranges::all_of(
      object.members, [&keys](const auto& member) { return keys.insert(member.first).second; });
}

// Returns false if something nests too deep, a string may have been cut, or a key comes twice.
bool Read(check::JsonReader& reader, std::string_view text, size_t depth, JsonValue& value) {
  using Kind = check::JsonReader::Kind;
  if (depth > kMostJsonDepth) return false;
  std::string_view key;
  switch (reader.Peek()) {
    case Kind::kObject:
      value.kind = JsonValue::Kind::kObject;
      reader.EnterObject();
      while (reader.NextKey(key)) {
        auto& member = value.members.emplace_back(key, JsonValue());
        if (!Read(reader, text, depth + 1, member.second)) return false;
      }
      return HasOwnKeys(value);
    case Kind::kArray:
      value.kind = JsonValue::Kind::kArray;
      reader.EnterArray();
      while (reader.NextItem()) {
        if (!Read(reader, text, depth + 1, value.items.emplace_back())) return false;
      }
      return true;
    case Kind::kString:
      value.kind = JsonValue::Kind::kString;
      value.text = reader.String();
      return value.text.size() < check::JsonReader::kMostStringBytes;
    case Kind::kNumber:
      value.kind = JsonValue::Kind::kNumber;
      value.text = reader.Token();
      return true;
    case Kind::kWord:
      value.boolean = text.substr(reader.offset()).starts_with("true");
      value.kind = text[reader.offset()] == 'n' ? JsonValue::Kind::kNull : JsonValue::Kind::kBool;
      reader.Skip();
      return true;
    case Kind::kNothing:
      reader.Skip();  // Says what is wrong.
      return true;
  }
  return true;
}

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

absl::StatusOr<JsonValue> ParseStrictJson(std::string_view text) {
  ASSIGN_OR_RETURN(const auto source, check::ByteSource::OfBytes(text));
  check::FindingLog log;
  check::JsonReader reader(*source, log);
  JsonValue value;
  const bool fits = Read(reader, text, 0, value);
  reader.ExpectEnd();
  if (!reader.ok()) return absl::InvalidArgumentError(reader.error());
  check::CheckReport report;
  log.Fill(report);
  if (!report.findings.empty()) {
    return absl::InvalidArgumentError(report.findings.front().examples.front());
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        "nested too deep, a string of 64 KiB, or a key that came before");
  }
  return value;
}

}  // namespace profd
