#include "daemon/base/json_writer.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "daemon/base/text.h"

namespace profd {

void JsonWriter::Separate() {
  if (needs_comma_) out_.push_back(',');
  needs_comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  out_.push_back(bracket);
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_.push_back(bracket);
  needs_comma_ = true;
  return *this;
}

void JsonWriter::Quote(std::string_view untrusted) {
  out_.push_back('"');
  if (IsValidUtf8(untrusted)) {
    AppendJsonEscaped(untrusted, out_);
  } else {
    AppendJsonEscaped(ToValidUtf8(untrusted), out_);
  }
  out_.push_back('"');
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  Quote(key);
  out_.push_back(':');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view untrusted) {
  Separate();
  Quote(untrusted);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  char text[24];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  out_.append(text, end);
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  out_.append(text, end);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  out_.append(value ? "true" : "false");
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  out_.append("null");
  return *this;
}

JsonWriter& JsonWriter::Field(std::string_view key,
                              const std::map<std::string, std::string>& values) {
  Key(key).BeginObject();
  for (const auto& [name, value] : values) Field(name, value);
  return EndObject();
}

JsonWriter& JsonWriter::Field(std::string_view key, const std::map<std::string, int64_t>& values) {
  Key(key).BeginObject();
  for (const auto& [name, value] : values) Field(name, value);
  return EndObject();
}

std::string JsonWriter::TakeLine() {
  out_.push_back('\n');
  needs_comma_ = false;
  return std::exchange(out_, {});
}

}  // namespace profd
