#include "daemon/ingest/frame_codec.h"

#include <algorithm>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd {
namespace {

constexpr size_t kMaxLibraryVersionBytes = 64;
constexpr size_t kMaxTextBytes = 400;
constexpr size_t kMaxMetadataKeyBytes = 63;
constexpr size_t kMaxMetadataValueBytes = 255;

bool IsMetadataKey(std::string_view key) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  if (key.empty() || key.size() > kMaxMetadataKeyBytes || !is_lower(key[0])) return false;
  return std::all_of(key.begin(), key.end(), [&](char c) {
    return is_lower(c) || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

void AddMetadata(std::string_view text, Fields& fields) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view key = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  if (!IsMetadataKey(key) || value.size() > kMaxMetadataValueBytes) return;
  const std::string owned_key(key);
  if (fields.metadata.size() >= wire::kMaxMetadataFields && !fields.metadata.contains(owned_key)) {
    return;
  }
  fields.metadata[owned_key] = ForDisplay(value, kMaxMetadataValueBytes);
}

}  // namespace

absl::StatusOr<Frame> ParseFrame(std::span<const std::byte> packet) {
  wire::FrameHeader header;
  if (packet.size() < sizeof(header)) {
    return absl::InvalidArgumentError(
        StrCat("a packet of ", packet.size(), " bytes is not a frame"));
  }
  if (packet.size() > wire::kMaxFrameBytes) {
    return absl::InvalidArgumentError(StrCat("a frame of ", packet.size(), " bytes is too large"));
  }
  memcpy(&header, packet.data(), sizeof(header));
  if (header.magic != wire::kFrameMagic) {
    return absl::InvalidArgumentError("a packet does not begin as frames do");
  }
  if (header.length_bytes != packet.size()) {
    return absl::InvalidArgumentError(
        StrCat("a frame says it has ", header.length_bytes, " bytes, and has ", packet.size()));
  }
  return Frame{header.type, header.request_id, packet.subspan(sizeof(header))};
}

absl::StatusOr<Fields> ParseFields(std::span<const std::byte> bytes) {
  Fields fields;
  while (!bytes.empty()) {
    wire::FieldHeader header;
    if (bytes.size() < sizeof(header)) return absl::InvalidArgumentError("a field is cut off");
    memcpy(&header, bytes.data(), sizeof(header));
    bytes = bytes.subspan(sizeof(header));
    if (header.length_bytes > bytes.size()) {
      return absl::InvalidArgumentError("a field reaches past its frame");
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), header.length_bytes);
    switch (static_cast<wire::FieldTag>(header.tag)) {
      case wire::FieldTag::kLibraryVersion:
        fields.library_version = ForDisplay(text, kMaxLibraryVersionBytes);
        break;
      case wire::FieldTag::kMetadata:
        AddMetadata(text, fields);
        break;
      case wire::FieldTag::kText:
        fields.text = ForDisplay(text, kMaxTextBytes);
        break;
      // A library of a later version may send fields that this one does not know.
      default:
        break;
    }
    bytes = bytes.subspan(header.length_bytes);
  }
  return fields;
}

std::string TextBehind(const Frame& frame, size_t body_bytes) {
  if (frame.body.size() < body_bytes) return "";
  absl::StatusOr<Fields> fields = ParseFields(frame.body.subspan(body_bytes));
  return fields.ok() ? std::move(fields->text) : std::string();
}

std::optional<uint16_t> CommonVersion(uint16_t low, uint16_t high) {
  const uint16_t common = std::min(high, wire::kProtocolVersionMax);
  // Both ends of the range are the peer's, so the range may be empty or upside down.
  if (low > high || common < low || common < wire::kProtocolVersionMin) return std::nullopt;
  return common;
}

absl::StatusOr<Hello> ParseHello(const Frame& frame) {
  Hello hello;
  const std::optional<wire::HelloBody> body = BodyOf<wire::HelloBody>(frame);
  if (!body.has_value()) return absl::InvalidArgumentError("a HELLO is cut off");
  hello.body = *body;
  ASSIGN_OR_RETURN(hello.fields, ParseFields(frame.body.subspan(sizeof(wire::HelloBody))));
  return hello;
}

absl::StatusOr<Fields> ParseMetadata(const Frame& frame) { return ParseFields(frame.body); }

FrameBuilder::FrameBuilder(wire::FrameType type, uint32_t request_id) {
  Add(wire::FrameHeader{.magic = wire::kFrameMagic,
                        .type = static_cast<uint16_t>(type),
                        .reserved = 0,
                        .length_bytes = 0,
                        .request_id = request_id});
}

FrameBuilder& FrameBuilder::AddField(wire::FieldTag tag, std::string_view text) {
  Add(wire::FieldHeader{static_cast<uint16_t>(tag), static_cast<uint16_t>(text.size())});
  Append(text.data(), text.size());
  return *this;
}

std::span<const std::byte> FrameBuilder::Finish() {
  const auto length = static_cast<uint32_t>(bytes_.size());
  memcpy(bytes_.data() + offsetof(wire::FrameHeader, length_bytes), &length, sizeof(length));
  return bytes_;
}

void FrameBuilder::Append(const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), from, from + bytes);
}

}  // namespace profd
