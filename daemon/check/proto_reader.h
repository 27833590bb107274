// ProtoReader walks over the fields of one protobuf message that is not trusted, by their numbers.
//
//   for (ProtoReader fields(bytes); fields.Next();) { ... fields.number() ... }
//
// Threads: one. Errors: ok() is false once the bytes were no fields any more.
#ifndef PROFD_DAEMON_CHECK_PROTO_READER_H_
#define PROFD_DAEMON_CHECK_PROTO_READER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace profd::check {

// Takes a varint off the front; nothing if there is none.
inline std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 10 && i < bytes.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    value |= uint64_t{byte & 0x7FU} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}

  bool Next() {
    if (rest_.empty() || !ok_) return false;
    ok_ = Take();
    return ok_;
  }
  bool ok() const { return ok_; }

  uint32_t number() const { return number_; }
  bool is_varint() const { return wire_type_ == 0; }
  bool is_bytes() const { return wire_type_ == 2; }
  uint64_t value() const { return value_; }          // Of all but bytes.
  std::string_view bytes() const { return bytes_; }  // Empty for all others.

 private:
  bool Take() {
    const std::optional<uint64_t> tag = TakeVarint(rest_);
    if (!tag.has_value() || *tag >> 3 == 0 || *tag >> 32 != 0) return false;
    number_ = static_cast<uint32_t>(*tag >> 3);
    wire_type_ = *tag & 7;
    value_ = 0;
    bytes_ = {};
    if (wire_type_ == 1) return TakeFixed(8);
    if (wire_type_ == 5) return TakeFixed(4);
    if (wire_type_ != 0 && wire_type_ != 2) return false;
    const std::optional<uint64_t> value = TakeVarint(rest_);
    if (!value.has_value()) return false;
    value_ = *value;
    if (wire_type_ == 0) return true;
    if (value_ > rest_.size()) return false;
    bytes_ = rest_.substr(0, value_);
    rest_.remove_prefix(value_);
    return true;
  }
  bool TakeFixed(size_t size) {
    if (rest_.size() < size) return false;
    std::memcpy(&value_, rest_.data(), size);  // Little-endian, as we are.
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  std::string_view bytes_;
  uint64_t value_ = 0;
  uint32_t number_ = 0;
  uint32_t wire_type_ = 0;
  bool ok_ = true;
};

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_PROTO_READER_H_
