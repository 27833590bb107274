// JSON as a tree, by the reader of `profctl check`, and whatever that reports is an error: bad
// grammar, invalid UTF-8, lone surrogates, duplicate keys, raw control characters, a byte order
// mark, and anything but white space after the value. So are nesting deeper than kMostJsonDepth,
// and strings of 64 KiB and more, which the reader would cut.
#ifndef PROFD_TESTS_EXPORT_CHROME_STRICT_JSON_H_
#define PROFD_TESTS_EXPORT_CHROME_STRICT_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace profd {

inline constexpr size_t kMostJsonDepth = 64;

struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  std::string text;  // A string's characters in UTF-8; a number as it stands in the file.
  std::vector<JsonValue> items;
  std::vector<std::pair<std::string, JsonValue>> members;  // In the file's order.

  JsonValue() = default;  // Not implicit: clang would need it before the type is complete.

  bool is_object() const { return kind == Kind::kObject; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_number() const { return kind == Kind::kNumber; }
  // A number without fraction or exponent that fits 64 bits.
  bool is_integer() const;
  int64_t integer() const;
  double number() const;
  // nullptr: not an object, or no such member.
  const JsonValue* Find(std::string_view key) const;
  // As Find(); a null value for what is not there.
  const JsonValue& operator[](std::string_view key) const;
};

// INVALID_ARGUMENT: what is wrong, and at which byte.
absl::StatusOr<JsonValue> ParseStrictJson(std::string_view text);

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_CHROME_STRICT_JSON_H_
