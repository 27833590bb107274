#include "cli/client/answer_check.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "cli/client/resource_names.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"

namespace profd::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxShownBytes = 80;
constexpr size_t kMaxTargetDigits = 19;  // Of an int64.

struct Resource {
  std::string_view message;  // Whose field `name` is the resource's own name.
  std::string_view field;    // A field of other messages that names one.
  std::string_view prefix;
  std::string_view id;  // As an error describes it.
};
constexpr Resource kResources[] = {{"Capture", "capture", kCapturesPrefix, "ULID"},
                                   {"", "evicted_captures", kCapturesPrefix, "ULID"},
                                   {"CaptureGroup", "group", kGroupsPrefix, "ULID"},
                                   {"Schedule", "schedule", kSchedulesPrefix, "ULID"},
                                   {"Target", "target", kTargetsPrefix, "NUMBER"}};

bool IsTargetNumber(std::string_view text) {
  return !text.empty() && text.size() <= kMaxTargetDigits &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool IsNameOf(const Resource& resource, std::string_view text) {
  if (!text.starts_with(resource.prefix)) return false;
  const std::string_view id = text.substr(resource.prefix.size());
  return resource.prefix == kTargetsPrefix ? IsTargetNumber(id) : IsUlid(id);
}

absl::Status CheckString(const std::string& text, const FieldDescriptor& field) {
  const bool is_own_name = field.name() == "name";
  const auto* const resource = std::ranges::find_if(kResources, [&](const Resource& candidate) {
    return is_own_name ? field.containing_type()->name() == candidate.message
                       : field.name() == candidate.field;
  });
  if (resource == std::end(kResources)) return absl::OkStatus();
  if (IsNameOf(*resource, text)) return absl::OkStatus();
  // An imported capture has no target; other resources always have a name.
  const bool may_be_empty =
      !field.is_repeated() && (!is_own_name || resource->prefix == kTargetsPrefix);
  if (text.empty() && may_be_empty) return absl::OkStatus();
  return absl::DataLossError(StrCat("invalid ", field.containing_type()->name(), ".", field.name(),
                                    " '", ForDisplay(text, kMaxShownBytes), "' (expected ",
                                    resource->prefix, resource->id, ")"));
}

absl::Status CheckStrings(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) return CheckString(reflection.GetString(message, &field), field);
  const int size = reflection.FieldSize(message, &field);
  for (int i = 0; i < size; ++i) {
    RETURN_IF_ERROR(CheckString(reflection.GetRepeatedString(message, &field, i), field));
  }
  return absl::OkStatus();
}

absl::Status CheckMessages(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) {
    if (!reflection.HasField(message, &field)) return absl::OkStatus();
    return CheckAnswer(reflection.GetMessage(message, &field));
  }
  const int size = reflection.FieldSize(message, &field);
  for (int i = 0; i < size; ++i) {
    RETURN_IF_ERROR(CheckAnswer(reflection.GetRepeatedMessage(message, &field, i)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAnswer(const Message& answer) {
  const google::protobuf::Descriptor& type = *answer.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_map()) continue;
    if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      RETURN_IF_ERROR(CheckMessages(answer, field));
    } else if (field.type() == FieldDescriptor::TYPE_STRING) {
      RETURN_IF_ERROR(CheckStrings(answer, field));
    }
  }
  return absl::OkStatus();
}

}  // namespace profd::cli
