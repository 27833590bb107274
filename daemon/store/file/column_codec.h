// Encodes one column of up to 64 K integers as bytes, and decodes it.
//
// Values become residuals (delta + zigzag if neighbors are close, else the distance from the
// smallest). Residuals are split into byte planes (plane k has byte k of every residual), which are
// encoded separately: high planes are mostly constant, and noise in low planes does not affect
// the patterns of the others.
//
//   byte 0       4           5       6          8          16
//        +-------+-----------+-------+----------+----------+--------------+----------------+
//        | crc32 | transform | width | reserved |   base   | width planes | payloads ...   |
//        |  u32  |    u8     |  u8   |  u16: 0  |   u64    |   8 bytes    | in plane order |
//        +-------+-----------+-------+----------+----------+--------------+----------------+
//   plane:  u8 tag (0 constant, 1 raw, 2 zstd frame) | u8[3] 0 | u32 value or payload bytes
//
// crc32 (zlib's polynomial) covers everything after it. width 0 means every residual is 0.
// All integers are little endian.
//
// Threads:  one encoder or decoder per thread.
// Errors:   Decode returns DATA_LOSS for bytes that Encode did not write. It reads only `bytes`,
//           writes only `values`, and allocates nothing based on a length from the input.
#ifndef PROFD_DAEMON_STORE_FILE_COLUMN_CODEC_H_
#define PROFD_DAEMON_STORE_FILE_COLUMN_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/capture/event_fields.h"

namespace profd::store {

inline constexpr size_t kMaxColumnValues = 65536;

// CRC-32 as in zlib, gzip, and PNG.
uint32_t Crc32(uint32_t seed, std::string_view bytes);

// T is one of int64_t, uint64_t, int32_t, uint32_t, int16_t, uint16_t, uint8_t.
class ColumnEncoder {
 public:
  ColumnEncoder();
  ~ColumnEncoder();

  // Appends `values` (at most kMaxColumnValues) as one column to `out`.
  template <typename T>
  void Encode(std::span<const T> values, ColumnTransform transform, std::string& out);

 private:
  void AppendPlane(std::span<const uint8_t> plane, size_t descriptor, std::string& out);

  struct Context;
  const std::unique_ptr<Context> context_;
  // kMaxColumnValues residuals of the width of T.
  const std::unique_ptr<std::byte[]> residuals_;
  std::vector<uint8_t> planes_;
};

class ColumnDecoder {
 public:
  ColumnDecoder();
  ~ColumnDecoder();

  // Fills `values`, whose size is the number of values, from exactly one column.
  template <typename T>
  absl::Status Decode(std::string_view bytes, std::span<T> values);

  // Returns whether a column is undamaged, without decoding it.
  static bool ChecksumIsRight(std::string_view bytes);

 private:
  // Unpacks the planes after the header of `bytes`, `size` values each, into planes_; sets
  // how many low planes vary, and what the constant ones above them add up to.
  absl::Status UnpackPlanes(std::string_view bytes, size_t width, size_t size,
                            size_t& varying_planes, uint64_t& constant);

  struct Context;
  const std::unique_ptr<Context> context_;
  std::vector<uint8_t> planes_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_COLUMN_CODEC_H_
