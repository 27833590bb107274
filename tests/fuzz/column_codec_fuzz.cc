// Bytes as a column, with the checksum made right; what is accepted must survive a round trip.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/store/file/column_codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace profd::store {
namespace {

template <typename T>
void DecodeAndBack(std::string_view column, size_t size) {
  static ColumnEncoder& encoder = *new ColumnEncoder();
  static ColumnDecoder& decoder = *new ColumnDecoder();
  std::vector<T> values(size);
  if (!decoder.Decode(column, std::span(values)).ok()) return;
  for (const ColumnTransform transform : {ColumnTransform::kOffset, ColumnTransform::kDelta}) {
    std::string bytes;
    encoder.Encode(std::span<const T>(values), transform, bytes);
    std::vector<T> back(size);
    if (!decoder.Decode(bytes, std::span(back)).ok() || back != values) __builtin_trap();
  }
}

}  // namespace
}  // namespace profd::store

// Byte 0: the type; bytes 1 and 2: the number of values; the rest: the column.
PROFD_FUZZ_TARGET(FuzzColumnCodec)(std::span<const uint8_t> data) {
  constexpr size_t kColumnHeaderBytes = 16;
  if (data.size() < 3 + kColumnHeaderBytes) return;
  const size_t size = data[1] | size_t{data[2]} << 8;
  std::string column(data.begin() + 3, data.end());
  const uint32_t crc = store::Crc32(0, std::string_view(column).substr(4));
  std::memcpy(column.data(), &crc, sizeof(crc));
  switch (data[0] % 6) {
    case 0:
      return store::DecodeAndBack<int64_t>(column, size);
    case 1:
      return store::DecodeAndBack<uint64_t>(column, size);
    case 2:
      return store::DecodeAndBack<uint32_t>(column, size);
    case 3:
      return store::DecodeAndBack<uint16_t>(column, size);
    case 4:
      return store::DecodeAndBack<int16_t>(column, size);
    default:
      return store::DecodeAndBack<uint8_t>(column, size);
  }
}
