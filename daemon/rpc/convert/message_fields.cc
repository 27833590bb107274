#include "daemon/rpc/convert/message_fields.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/convert/proto_time.h"

namespace profd::rpc {

using google::protobuf::Message;

const MessageField* FindMessageField(const google::protobuf::Descriptor& message,
                                     std::string_view name, std::string_view struct_suffix,
                                     std::string_view message_suffix) {
  if (!name.ends_with(struct_suffix)) return nullptr;
  name.remove_suffix(struct_suffix.size());
  return message.FindFieldByName(StrCat(name, message_suffix));
}

// ---- writing

void MessageWriter::PutInteger(const MessageField& field, int64_t value) {
  if (value < 0 && field.has_optional_keyword()) return;
  if (field.cpp_type() == MessageField::CPPTYPE_INT32) {
    out_.GetReflection()->SetInt32(&out_, &field, static_cast<int32_t>(value));
  } else {
    out_.GetReflection()->SetInt64(&out_, &field, value);
  }
}

void MessageWriter::Put(const MessageField& field, bool value) {
  out_.GetReflection()->SetBool(&out_, &field, value);
}

void MessageWriter::Put(const MessageField& field, double value) {
  out_.GetReflection()->SetDouble(&out_, &field, value);
}

void MessageWriter::PutText(const MessageField& field, std::string_view text) {
  out_.GetReflection()->SetString(&out_, &field, ToValidUtf8(text));
}

void MessageWriter::PutEnum(const MessageField& field, int number) {
  out_.GetReflection()->SetEnumValue(&out_, &field, number);
}

void MessageWriter::Put(const MessageField& field, absl::Time time) {
  if (IsSet(time)) {
    TimeToProto(time, dynamic_cast<google::protobuf::Timestamp&>(Mutable(field)));
  }
}

void MessageWriter::Put(const MessageField& field, absl::Duration duration) {
  if (duration != absl::ZeroDuration()) {
    DurationToProto(duration, dynamic_cast<google::protobuf::Duration&>(Mutable(field)));
  }
}

void MessageWriter::Put(const MessageField& field, const std::vector<int64_t>& numbers) {
  for (const int64_t number : numbers) out_.GetReflection()->AddInt64(&out_, &field, number);
}

void MessageWriter::Put(const MessageField& field, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    out_.GetReflection()->AddString(&out_, &field, ToValidUtf8(text));
  }
}

Message& MessageWriter::Add(const MessageField& field) {
  return *out_.GetReflection()->AddMessage(&out_, &field);
}

Message& MessageWriter::Mutable(const MessageField& field) {
  return *out_.GetReflection()->MutableMessage(&out_, &field);
}

// ---- reading

bool MessageReader::IsUnset(const MessageField& field) const {
  return field.has_presence() && !in_.GetReflection()->HasField(in_, &field);
}

int64_t MessageReader::IntegerIn(const MessageField& field) const {
  return field.cpp_type() == MessageField::CPPTYPE_INT32
             ? in_.GetReflection()->GetInt32(in_, &field)
             : in_.GetReflection()->GetInt64(in_, &field);
}

void MessageReader::Take(const MessageField& field, bool& value) const {
  value = in_.GetReflection()->GetBool(in_, &field);
}

void MessageReader::Take(const MessageField& field, double& value) const {
  value = in_.GetReflection()->GetDouble(in_, &field);
}

std::string MessageReader::TextIn(const MessageField& field) const {
  return in_.GetReflection()->GetString(in_, &field);
}

int MessageReader::EnumIn(const MessageField& field) const {
  return in_.GetReflection()->GetEnumValue(in_, &field);
}

void MessageReader::Take(const MessageField& field, absl::Time& time) const {
  time = TimeOf(dynamic_cast<const google::protobuf::Timestamp&>(MessageIn(field)));
}

void MessageReader::Take(const MessageField& field, absl::Duration& duration) const {
  duration = DurationOf(dynamic_cast<const google::protobuf::Duration&>(MessageIn(field)));
}

void MessageReader::Take(const MessageField& field, std::vector<int64_t>& numbers) const {
  for (int i = 0; i < SizeOf(field); ++i) {
    numbers.push_back(in_.GetReflection()->GetRepeatedInt64(in_, &field, i));
  }
}

void MessageReader::Take(const MessageField& field, std::vector<std::string>& texts) const {
  for (int i = 0; i < SizeOf(field); ++i) {
    texts.push_back(in_.GetReflection()->GetRepeatedString(in_, &field, i));
  }
}

const Message& MessageReader::MessageIn(const MessageField& field) const {
  return in_.GetReflection()->GetMessage(in_, &field);
}

int MessageReader::SizeOf(const MessageField& field) const {
  return in_.GetReflection()->FieldSize(in_, &field);
}

const Message& MessageReader::RowOf(const MessageField& field, int row) const {
  return in_.GetReflection()->GetRepeatedMessage(in_, &field, row);
}

}  // namespace profd::rpc
