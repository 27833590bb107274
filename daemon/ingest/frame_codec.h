// Frames to and from bytes (layout: proto/wire/frame.h). Pure; no sockets.
//
// Everything parsed here comes from a target and is hostile: a frame is either whole and
// consistent, or an error that says what is wrong with it.
//
// Threads: any.
// Errors:  INVALID_ARGUMENT for bytes that are not what the wire format allows.
#ifndef PROFD_DAEMON_INGEST_FRAME_CODEC_H_
#define PROFD_DAEMON_INGEST_FRAME_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/wire/frame.h"

namespace profd {

struct Frame {
  uint16_t type = 0;  // wire::FrameType, or one we do not know.
  uint32_t request_id = 0;
  std::span<const std::byte> body;  // Into the packet.
};

// The packet is one frame: magic, length, no more and no less.
absl::StatusOr<Frame> ParseFrame(std::span<const std::byte> packet);

// The fixed part of the body; nullopt: the frame is too short for it.
template <typename Body>
std::optional<Body> BodyOf(const Frame& frame) {
  static_assert(std::is_trivially_copyable_v<Body>);
  if (frame.body.size() < sizeof(Body)) return std::nullopt;
  Body body;
  memcpy(&body, frame.body.data(), sizeof(body));
  return body;
}

// What the fields after a body said, cleaned for display. Metadata that breaks its rules
// (key [a-z][a-z0-9_.]{0,62}, value at most 255 bytes, 32 keys) is left out.
struct Fields {
  std::string library_version;
  std::string text;
  std::map<std::string, std::string> metadata;
};
absl::StatusOr<Fields> ParseFields(std::span<const std::byte> bytes);

// The text after a body of `body_bytes`; empty where there is none, or no sense in it.
std::string TextBehind(const Frame& frame, size_t body_bytes);

// The version to speak with a peer that speaks [low, high]; nullopt: there is none.
std::optional<uint16_t> CommonVersion(uint16_t low, uint16_t high);

struct Hello {
  wire::HelloBody body{};
  Fields fields;
};
absl::StatusOr<Hello> ParseHello(const Frame& frame);

// METADATA: fields only.
absl::StatusOr<Fields> ParseMetadata(const Frame& frame);

// Builds one frame.
//
//   FrameBuilder frame(wire::FrameType::kStop);
//   frame.Add(wire::StopBody{number});
//   Send(frame.Finish());
class FrameBuilder {
 public:
  explicit FrameBuilder(wire::FrameType type, uint32_t request_id = 0);

  template <typename Body>
  FrameBuilder& Add(const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body>);
    Append(&body, sizeof(body));
    return *this;
  }
  FrameBuilder& AddField(wire::FieldTag tag, std::string_view text);
  template <typename Value>
  FrameBuilder& AddFieldOf(wire::FieldTag tag, const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    return AddField(tag, {reinterpret_cast<const char*>(&value), sizeof(value)});
  }

  // Valid while the builder lives.
  std::span<const std::byte> Finish();

 private:
  void Append(const void* data, size_t bytes);
  std::vector<std::byte> bytes_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_FRAME_CODEC_H_
