// FrameBuilder puts one frame together: header, fixed body, fields.
//
// Errors: what would go over wire::kMaxFrameBytes is left out.
#ifndef PROFD_CLIENT_LIB_CORE_FRAME_BUILDER_H_
#define PROFD_CLIENT_LIB_CORE_FRAME_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/wire/frame.h"

namespace profd::client {

class FrameBuilder {
 public:
  constexpr FrameBuilder() = default;

  template <typename Body>
  void Begin(wire::FrameType type, uint32_t request_id, const Body& body) {
    Begin(type, request_id);
    Add(&body, sizeof(body));
  }

  void Begin(wire::FrameType type, uint32_t request_id) {
    size_ = 0;
    const wire::FrameHeader header{wire::kFrameMagic, static_cast<uint16_t>(type), 0, 0,
                                   request_id};
    Add(&header, sizeof(header));
  }

  void AddField(wire::FieldTag tag, const char* text, size_t length) {
    if (size_ + sizeof(wire::FieldHeader) + length > sizeof(bytes_)) return;
    const wire::FieldHeader header{static_cast<uint16_t>(tag), static_cast<uint16_t>(length)};
    Add(&header, sizeof(header));
    Add(text, length);
  }

  // The whole frame, its length filled in.
  const void* Finish() {
    const auto length = static_cast<uint32_t>(size_);
    memcpy(bytes_ + offsetof(wire::FrameHeader, length_bytes), &length, sizeof(length));
    return bytes_;
  }
  size_t size() const { return size_; }

 private:
  void Add(const void* data, size_t length) {
    memcpy(bytes_ + size_, data, length);
    size_ += length;
  }

  size_t size_ = 0;
  char bytes_[wire::kMaxFrameBytes] = {};
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_FRAME_BUILDER_H_
