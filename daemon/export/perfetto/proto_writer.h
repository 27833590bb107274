// Just enough of protobuf's wire format to write traces: no library, no allocation in the
// functions that put single fields.
#ifndef PROFD_DAEMON_EXPORT_PERFETTO_PROTO_WRITER_H_
#define PROFD_DAEMON_EXPORT_PERFETTO_PROTO_WRITER_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace profd::exporter {

inline constexpr size_t kMostVarintBytes = 10;

inline char* PutVarint(char* out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

// One message, or a part of one, being built.
class ProtoMessage {
 public:
  ProtoMessage& Varint(uint32_t field, uint64_t value) {
    Tag(field, 0);
    Raw(value);
    return *this;
  }
  ProtoMessage& Signed(uint32_t field, int64_t value) {
    return Varint(field, static_cast<uint64_t>(value));
  }
  ProtoMessage& Double(uint32_t field, double value) {
    return Fixed64(field, std::bit_cast<uint64_t>(value));
  }
  ProtoMessage& Fixed64(uint32_t field, uint64_t value) {
    Tag(field, 1);
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
    bytes_.append(bytes, sizeof(bytes));
    return *this;
  }
  ProtoMessage& Bytes(uint32_t field, std::string_view value) {
    Tag(field, 2);
    Raw(value.size());
    bytes_.append(value);
    return *this;
  }
  ProtoMessage& Message(uint32_t field, const ProtoMessage& message) {
    return Bytes(field, message.bytes_);
  }

  const std::string& bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  void Tag(uint32_t field, uint32_t wire_type) { Raw(uint64_t{field} << 3 | wire_type); }
  void Raw(uint64_t value) {
    if (value < 0x80) {
      bytes_.push_back(static_cast<char>(value));
      return;
    }
    char bytes[kMostVarintBytes];
    bytes_.append(bytes, static_cast<size_t>(PutVarint(bytes, value) - bytes));
  }

  std::string bytes_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_PERFETTO_PROTO_WRITER_H_
