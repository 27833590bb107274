// Our structs into protobuf's messages and back, field by field, by the lists of
// capture/capture_fields.h and schedule/schedule_fields.h.
//
//   in the struct                  in the message
//   absl::Time NAME_unix_ns        Timestamp NAME_time; the epoch and infinite times: unset
//   absl::Duration NAME_ns         Duration NAME; zero: unset
//   an integer                     an integer; below 0: unset, if the field is `optional`
//   an enumeration                 an enum with the same numbers, or a string: ToString()
//   char                           a string of one letter
//   a struct, a vector, a map      a message, a repeated field, a map; all converted alike
//
// A field that only one side has is left out; message_fields_test.cc lists these. The spec, target,
// and drops of a capture, and the state of a target, are converted separately (convert.h): some of
// their fields have other partners.
//
// Threads: any.
// Errors:  none. What we write is valid UTF-8. Reading checks no ranges: a field that is unset, and
//          an enum's value that we do not know, leave the member as it is. A field of another type
//          is a defect, and ends the program.
#ifndef PROFD_DAEMON_RPC_CONVERT_MESSAGE_FIELDS_H_
#define PROFD_DAEMON_RPC_CONVERT_MESSAGE_FIELDS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/time/time.h"
#include "daemon/capture/capture_fields.h"

namespace profd::rpc {

using MessageField = google::protobuf::FieldDescriptor;

template <typename T>
inline constexpr bool kIsConvertedSeparately =
    std::is_same_v<T, CaptureSpec> || std::is_same_v<T, TargetInfo> ||
    std::is_same_v<T, TargetState> || std::is_same_v<T, DropCounts>;

// The field of `message` for the field `name` of a struct, which is a T. Null: it has none.
const MessageField* FindMessageField(const google::protobuf::Descriptor& message,
                                     std::string_view name, std::string_view struct_suffix,
                                     std::string_view message_suffix);
template <typename T>
const MessageField* PartnerOf(const google::protobuf::Descriptor& message, std::string_view name) {
  if constexpr (kIsConvertedSeparately<T>) return nullptr;
  if constexpr (std::is_same_v<T, absl::Time>) {
    return FindMessageField(message, name, "_unix_ns", "_time");
  }
  if constexpr (std::is_same_v<T, absl::Duration>) {
    return FindMessageField(message, name, "_ns", "");
  }
  return FindMessageField(message, name, "", "");
}

// The partners of T's fields, in the order of Visit(): found by name once, because a list of
// captures has a hundred thousand fields. A struct goes with one type of message.
template <typename T>
class PartnerList {
 public:
  static const MessageField* const* In(const google::protobuf::Descriptor& message) {
    static const PartnerList list(message);
    if (list.message_ != &message) std::abort();
    return list.partners_.data();
  }

  template <typename Field>
  void operator()(std::string_view name, const Field& /*value*/) {
    partners_.push_back(PartnerOf<Field>(*message_, name));
  }

 private:
  explicit PartnerList(const google::protobuf::Descriptor& message) : message_(&message) {
    const T value{};
    Visit(*this, value);
  }

  const google::protobuf::Descriptor* message_;
  std::vector<const MessageField*> partners_;
};

template <typename T>
void FieldsToMessage(const T& value, google::protobuf::Message& out);
template <typename T>
void FieldsFromMessage(const google::protobuf::Message& in, T& value);

// Visit() calls it with each field of a struct.
class MessageWriter {
 public:
  MessageWriter(google::protobuf::Message& out, const MessageField* const* partners)
      : out_(out), partner_(partners) {}

  template <typename T>
  void operator()(std::string_view /*name*/, const T& value) {
    const MessageField* field = *partner_++;
    if constexpr (!kIsConvertedSeparately<T>) {
      if (field != nullptr) Put(*field, value);
    }
  }

 private:
  template <std::integral T>
  void Put(const MessageField& field, T value) {
    PutInteger(field, value);
  }
  void Put(const MessageField& field, bool value);
  void Put(const MessageField& field, double value);
  void Put(const MessageField& field, const std::string& value) { PutText(field, value); }
  void Put(const MessageField& field, char letter) { PutText(field, {&letter, 1}); }
  void Put(const MessageField& field, absl::Time time);
  void Put(const MessageField& field, absl::Duration duration);
  template <typename T>
  requires std::is_enum_v<T>
  void Put(const MessageField& field, T value) {
    if (field.enum_type() != nullptr) return PutEnum(field, static_cast<int>(value));
    PutText(field, ToString(value));
  }
  void Put(const MessageField& field, const std::optional<int64_t>& value) {
    if (value.has_value()) PutInteger(field, *value);
  }
  void Put(const MessageField& field, const std::vector<int64_t>& numbers);
  void Put(const MessageField& field, const std::vector<std::string>& texts);
  template <typename T>
  void Put(const MessageField& field, const std::vector<T>& rows) {
    for (const T& row : rows) FieldsToMessage(row, Add(field));
  }
  template <typename T>
  void Put(const MessageField& field, const std::map<std::string, T>& map) {
    for (const auto& [key, value] : map) {
      MessageWriter entry(Add(field), nullptr);
      entry.Put(*field.message_type()->map_key(), key);
      entry.Put(*field.message_type()->map_value(), value);
    }
  }
  template <typename T>
  requires std::is_class_v<T>
  void Put(const MessageField& field, const T& value) { FieldsToMessage(value, Mutable(field)); }

  void PutInteger(const MessageField& field, int64_t value);
  void PutText(const MessageField& field, std::string_view text);
  void PutEnum(const MessageField& field, int number);
  google::protobuf::Message& Add(const MessageField& field);
  google::protobuf::Message& Mutable(const MessageField& field);

  google::protobuf::Message& out_;
  const MessageField* const* partner_;
};

class MessageReader {
 public:
  MessageReader(const google::protobuf::Message& in, const MessageField* const* partners)
      : in_(in), partner_(partners) {}

  template <typename T>
  void operator()(std::string_view /*name*/, T& value) {
    const MessageField* field = *partner_++;
    if constexpr (!kIsConvertedSeparately<T>) {
      if (field != nullptr && !IsUnset(*field)) Take(*field, value);
    }
  }

 private:
  template <std::integral T>
  void Take(const MessageField& field, T& value) const {
    value = static_cast<T>(IntegerIn(field));
  }
  void Take(const MessageField& field, bool& value) const;
  void Take(const MessageField& field, double& value) const;
  void Take(const MessageField& field, std::string& value) const { value = TextIn(field); }
  void Take(const MessageField& field, char& letter) const {
    if (const std::string text = TextIn(field); !text.empty()) letter = text[0];
  }
  void Take(const MessageField& field, absl::Time& time) const;
  void Take(const MessageField& field, absl::Duration& duration) const;
  template <typename T>
  requires std::is_enum_v<T>
  void Take(const MessageField& field, T& value) const {
    using Facts = EnumFacts<T>;
    if (field.enum_type() != nullptr) {
      const int number = EnumIn(field);
      const bool is_known =
          number >= static_cast<int>(Facts::kFirst) && number <= static_cast<int>(Facts::kLast);
      if (is_known) value = static_cast<T>(number);
      return;
    }
    const std::string text = TextIn(field);
    if (const auto known = Facts::FromString(text); known.has_value()) {
      value = *known;
    } else if constexpr (requires { Facts::kUnknown; }) {
      if (!text.empty()) value = Facts::kUnknown;
    }
  }
  void Take(const MessageField& field, std::optional<int64_t>& value) const {
    value = IntegerIn(field);
  }
  void Take(const MessageField& field, std::vector<int64_t>& numbers) const;
  void Take(const MessageField& field, std::vector<std::string>& texts) const;
  template <typename T>
  void Take(const MessageField& field, std::vector<T>& rows) const {
    for (int i = 0; i < SizeOf(field); ++i) FieldsFromMessage(RowOf(field, i), rows.emplace_back());
  }
  template <typename T>
  void Take(const MessageField& field, std::map<std::string, T>& map) const {
    for (int i = 0; i < SizeOf(field); ++i) {
      const MessageReader entry(RowOf(field, i), nullptr);
      entry.Take(*field.message_type()->map_value(),
                 map[entry.TextIn(*field.message_type()->map_key())]);
    }
  }
  template <typename T>
  requires std::is_class_v<T>
  void Take(const MessageField& field, T& value) const {
    FieldsFromMessage(MessageIn(field), value);
  }

  bool IsUnset(const MessageField& field) const;
  int64_t IntegerIn(const MessageField& field) const;
  int EnumIn(const MessageField& field) const;
  std::string TextIn(const MessageField& field) const;
  const google::protobuf::Message& MessageIn(const MessageField& field) const;
  int SizeOf(const MessageField& field) const;
  const google::protobuf::Message& RowOf(const MessageField& field, int row) const;

  const google::protobuf::Message& in_;
  const MessageField* const* partner_;
};

template <typename T>
void FieldsToMessage(const T& value, google::protobuf::Message& out) {
  MessageWriter writer(out, PartnerList<T>::In(*out.GetDescriptor()));
  Visit(writer, value);
}

template <typename T>
void FieldsFromMessage(const google::protobuf::Message& in, T& value) {
  MessageReader reader(in, PartnerList<T>::In(*in.GetDescriptor()));
  Visit(reader, value);
}

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_MESSAGE_FIELDS_H_
