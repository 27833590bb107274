// JsonWriter writes one JSON document into a string.
//
//   JsonWriter json;
//   json.BeginObject();
//   json.Field("id", id);
//   json.Key("steps").BeginArray(); ... json.EndArray();
//   json.EndObject();
//   json.TakeLine();  // with a newline
//
// Integers are JSON numbers of full width; bytes that are not UTF-8 become U+FFFD; a number
// that is not finite becomes null.
//
// Threads: one. Errors: none; it trusts the caller to nest rightly.
#ifndef PROFD_DAEMON_BASE_JSON_WRITER_H_
#define PROFD_DAEMON_BASE_JSON_WRITER_H_

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace profd {

class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& String(std::string_view untrusted);
  JsonWriter& Int(int64_t value);
  JsonWriter& Double(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  JsonWriter& Field(std::string_view key, std::string_view value) { return Key(key).String(value); }
  JsonWriter& Field(std::string_view key, const char* value) { return Key(key).String(value); }
  JsonWriter& Field(std::string_view key, bool value) { return Key(key).Bool(value); }
  JsonWriter& Field(std::string_view key, double value) { return Key(key).Double(value); }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& Field(std::string_view key, T value) {
    return Key(key).Int(static_cast<int64_t>(value));
  }
  JsonWriter& Field(std::string_view key, const std::map<std::string, std::string>& values);
  JsonWriter& Field(std::string_view key, const std::map<std::string, int64_t>& values);

  // The document and a newline; the writer is empty after it.
  std::string TakeLine();

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();
  void Quote(std::string_view untrusted);

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_JSON_WRITER_H_
