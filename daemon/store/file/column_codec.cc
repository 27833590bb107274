#include "daemon/store/file/column_codec.h"

#include <isa-l/crc.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "daemon/base/status_macros.h"

namespace profd::store {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kColumnHeaderBytes = 16;
constexpr size_t kPlaneBytes = 8;  // Of a plane's descriptor.
constexpr size_t kBlock = 512;     // Residuals that stay in the first-level cache.
constexpr int kZstdLevel = 1;

enum PlaneTag : uint8_t { kConstantPlane = 0, kRawPlane = 1, kZstdPlane = 2 };

struct ColumnHeader {
  uint32_t crc;
  uint8_t transform;
  uint8_t width;
  uint16_t reserved;
  uint64_t base;
};
static_assert(sizeof(ColumnHeader) == kColumnHeaderBytes);

struct PlaneHeader {
  uint8_t tag;
  uint8_t reserved[3];
  uint32_t value;  // The constant, or the bytes of the payload.
};
static_assert(sizeof(PlaneHeader) == kPlaneBytes);

absl::Status DamagedColumn(const char* what) {
  return absl::DataLossError(std::string("damaged column: ") + what);
}

size_t WidthOf(uint64_t residual_bits) { return (std::bit_width(residual_bits) + 7) / 8; }

// Both give the OR of all residuals.
template <typename T, typename U>
U OffsetResiduals(std::span<const T> values, U* residuals, uint64_t& base) {
  // Differences are computed unsigned: between extreme values they wrap, and wrap back when they
  // are added. Signed overflow would be undefined.
  T smallest = values[0];
  for (const T value : values) smallest = std::min(smallest, value);
  base = static_cast<U>(smallest);
  const U from = static_cast<U>(smallest);
  U bits = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const U residual = static_cast<U>(static_cast<U>(values[i]) - from);
    residuals[i] = residual;
    bits = static_cast<U>(bits | residual);
  }
  return bits;
}
template <typename T, typename U>
U DeltaResiduals(std::span<const T> values, U* residuals, uint64_t& base) {
  constexpr int kSignBit = std::numeric_limits<U>::digits - 1;
  base = static_cast<U>(values[0]);
  residuals[0] = 0;
  U bits = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const U delta = static_cast<U>(static_cast<U>(values[i]) - static_cast<U>(values[i - 1]));
    // Zigzag: the sign moves to the lowest bit, so that a small negative delta also has zeros in
    // its high planes.
    const U sign = static_cast<U>(U{0} - static_cast<U>(delta >> kSignBit));
    const U residual = static_cast<U>(static_cast<U>(delta << 1) ^ sign);
    residuals[i] = residual;
    bits = static_cast<U>(bits | residual);
  }
  return bits;
}

template <typename U>
void SplitPlanes(const U* residuals, size_t size, size_t width, uint8_t* planes) {
  for (size_t begin = 0; begin < size; begin += kBlock) {
    const size_t end = std::min(size, begin + kBlock);
    for (size_t k = 0; k < width; ++k) {
      uint8_t* plane = planes + k * size;
      const int shift = static_cast<int>(8 * k);
      for (size_t i = begin; i < end; ++i) plane[i] = static_cast<uint8_t>(residuals[i] >> shift);
    }
  }
}

// out[i] = addend + the residual whose low bytes are the planes.
template <typename U, size_t kPlanes>
void JoinPlanes(const uint8_t* planes, size_t size, U addend, U* out) {
  for (size_t i = 0; i < size; ++i) {
    U value = 0;
    for (size_t k = 0; k < kPlanes; ++k) {
      value =
          static_cast<U>(value | static_cast<U>(static_cast<U>(planes[k * size + i]) << (8 * k)));
    }
    out[i] = static_cast<U>(addend + value);
  }
}

// The number of planes is a template argument, so that the compiler unrolls the inner loop.
// Decode() has checked that there are no more of them than bytes in a U.
template <typename U>
void Join(const uint8_t* planes, size_t plane_count, size_t size, U addend, U* out) {
  switch (plane_count) {
    case 0:
      std::fill_n(out, size, addend);
      return;
    case 1:
      return JoinPlanes<U, 1>(planes, size, addend, out);
    case 2:
      if constexpr (sizeof(U) >= 2) return JoinPlanes<U, 2>(planes, size, addend, out);
      return;
    case 3:
      if constexpr (sizeof(U) >= 4) return JoinPlanes<U, 3>(planes, size, addend, out);
      return;
    case 4:
      if constexpr (sizeof(U) >= 4) return JoinPlanes<U, 4>(planes, size, addend, out);
      return;
    case 5:
      if constexpr (sizeof(U) >= 8) return JoinPlanes<U, 5>(planes, size, addend, out);
      return;
    case 6:
      if constexpr (sizeof(U) >= 8) return JoinPlanes<U, 6>(planes, size, addend, out);
      return;
    case 7:
      if constexpr (sizeof(U) >= 8) return JoinPlanes<U, 7>(planes, size, addend, out);
      return;
    default:
      if constexpr (sizeof(U) >= 8) return JoinPlanes<U, 8>(planes, size, addend, out);
  }
}

template <typename U>
void SumDeltas(U* values, size_t size, U base) {
  U value = base;
  for (size_t i = 0; i < size; ++i) {
    const U residual = values[i];
    value = static_cast<U>(value + static_cast<U>(static_cast<U>(residual >> 1) ^
                                                  static_cast<U>(U{0} - (residual & 1))));
    values[i] = value;
  }
}

}  // namespace

uint32_t Crc32(uint32_t seed, std::string_view bytes) {
  return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

struct ColumnEncoder::Context {
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
  ~Context() { ZSTD_freeCCtx(zstd); }
};
ColumnEncoder::ColumnEncoder()
    : context_(std::make_unique<Context>()),
      residuals_(std::make_unique_for_overwrite<std::byte[]>(kMaxColumnValues * 8)) {}
ColumnEncoder::~ColumnEncoder() = default;

template <typename T>
void ColumnEncoder::Encode(std::span<const T> values, ColumnTransform transform, std::string& out) {
  using U = std::make_unsigned_t<T>;
  const size_t start = out.size();
  ColumnHeader header = {};
  header.transform = static_cast<uint8_t>(transform);
  U* residuals = reinterpret_cast<U*>(residuals_.get());
  if (!values.empty()) {
    const U bits = transform == ColumnTransform::kDelta
                       ? DeltaResiduals<T, U>(values, residuals, header.base)
                       : OffsetResiduals<T, U>(values, residuals, header.base);
    header.width = static_cast<uint8_t>(WidthOf(bits));
  }
  planes_.resize(std::max(planes_.size(), header.width * values.size()));
  SplitPlanes(residuals, values.size(), header.width, planes_.data());

  out.append(kColumnHeaderBytes + header.width * kPlaneBytes, '\0');
  std::memcpy(out.data() + start, &header, sizeof(header));
  for (size_t k = 0; k < header.width; ++k) {
    AppendPlane({planes_.data() + k * values.size(), values.size()},
                start + kColumnHeaderBytes + k * kPlaneBytes, out);
  }
  header.crc = Crc32(0, std::string_view(out).substr(start + sizeof(header.crc)));
  std::memcpy(out.data() + start, &header, sizeof(header));
}

void ColumnEncoder::AppendPlane(std::span<const uint8_t> plane, size_t descriptor,
                                std::string& out) {
  PlaneHeader header = {};
  const size_t size = plane.size();
  // All bytes are equal if the plane is equal to itself shifted by one. A plane is never empty:
  // width 0 has none.
  if (std::memcmp(plane.data(), plane.data() + 1, size - 1) == 0) {
    header.tag = kConstantPlane;
    header.value = plane[0];
  } else {
    const size_t start = out.size();
    const size_t bound = ZSTD_compressBound(size);
    out.resize(start + bound);
    const size_t packed = ZSTD_compressCCtx(context_->zstd, out.data() + start, bound, plane.data(),
                                            size, kZstdLevel);
    // Saving less than 3 % is not worth the decompression.
    const bool worth_it = ZSTD_isError(packed) == 0 && packed < size - size / 32;
    header.tag = worth_it ? kZstdPlane : kRawPlane;
    header.value = static_cast<uint32_t>(worth_it ? packed : size);
    if (!worth_it) std::memcpy(out.data() + start, plane.data(), size);
    out.resize(start + header.value);
  }
  std::memcpy(out.data() + descriptor, &header, sizeof(header));
}

struct ColumnDecoder::Context {
  ZSTD_DCtx* zstd = ZSTD_createDCtx();
  ~Context() { ZSTD_freeDCtx(zstd); }
};
ColumnDecoder::ColumnDecoder() : context_(std::make_unique<Context>()) {}
ColumnDecoder::~ColumnDecoder() = default;

absl::Status ColumnDecoder::UnpackPlanes(std::string_view bytes, size_t width, size_t size,
                                         size_t& varying_planes, uint64_t& constant) {
  std::array<PlaneHeader, 8> planes;
  if (bytes.size() < width * kPlaneBytes) return DamagedColumn("too short for its planes");
  std::memcpy(planes.data(), bytes.data(), width * kPlaneBytes);
  bytes.remove_prefix(width * kPlaneBytes);

  varying_planes = width;
  constant = 0;
  // High planes are mostly constant. They become one addend, and are neither filled nor joined
  // value by value.
  while (varying_planes > 0 && planes[varying_planes - 1].tag == kConstantPlane) {
    --varying_planes;
    constant |= uint64_t{planes[varying_planes].value & 0xff} << (8 * varying_planes);
  }
  // Never empty: memset() and memcpy() may not get nullptr, not even for no bytes.
  planes_.resize(std::max(planes_.size(), varying_planes * size + 1));
  for (size_t k = 0; k < varying_planes; ++k) {
    const PlaneHeader& plane = planes[k];
    uint8_t* out = planes_.data() + k * size;
    if (plane.tag == kConstantPlane) {
      std::memset(out, static_cast<int>(plane.value & 0xff), size);
      continue;
    }
    if (plane.value > bytes.size()) return DamagedColumn("a plane ends after it");
    if (plane.tag == kRawPlane) {
      if (plane.value != size) return DamagedColumn("a raw plane of another size");
      std::memcpy(out, bytes.data(), size);
    } else if (plane.tag == kZstdPlane) {
      const size_t got = ZSTD_decompressDCtx(context_->zstd, out, size, bytes.data(), plane.value);
      if (ZSTD_isError(got) != 0 || got != size) return DamagedColumn("a plane does not unpack");
    } else {
      return DamagedColumn("unknown plane");
    }
    bytes.remove_prefix(plane.value);
  }
  if (!bytes.empty()) return DamagedColumn("bytes after its last plane");
  return absl::OkStatus();
}

bool ColumnDecoder::ChecksumIsRight(std::string_view bytes) {
  uint32_t crc = 0;
  if (bytes.size() < kColumnHeaderBytes) return false;
  std::memcpy(&crc, bytes.data(), sizeof(crc));
  return Crc32(0, bytes.substr(sizeof(crc))) == crc;
}

template <typename T>
absl::Status ColumnDecoder::Decode(std::string_view bytes, std::span<T> values) {
  using U = std::make_unsigned_t<T>;
  ColumnHeader header;
  if (bytes.size() < sizeof(header)) return DamagedColumn("too short for its header");
  if (values.size() > kMaxColumnValues) return DamagedColumn("too many values");
  if (!ChecksumIsRight(bytes)) return DamagedColumn("checksum");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.width > sizeof(T)) return DamagedColumn("wider than its type");
  const bool is_delta = header.transform == static_cast<uint8_t>(ColumnTransform::kDelta);
  if (!is_delta && header.transform != static_cast<uint8_t>(ColumnTransform::kOffset)) {
    return DamagedColumn("unknown transform");
  }
  size_t varying_planes = 0;
  uint64_t constant = 0;
  RETURN_IF_ERROR(UnpackPlanes(bytes.substr(sizeof(header)), header.width, values.size(),
                               varying_planes, constant));
  U* out = reinterpret_cast<U*>(values.data());
  // The constant belongs to the residuals. Of deltas it must be in them before they are summed, and
  // the base is where the sum starts.
  const U addend = static_cast<U>(is_delta ? constant : header.base + constant);
  Join<U>(planes_.data(), varying_planes, values.size(), addend, out);
  if (is_delta) SumDeltas<U>(out, values.size(), static_cast<U>(header.base));
  return absl::OkStatus();
}

#define PROFD_COLUMN_TYPE(T)                                                                 \
  template void ColumnEncoder::Encode<T>(std::span<const T>, ColumnTransform, std::string&); \
  template absl::Status ColumnDecoder::Decode<T>(std::string_view, std::span<T>);
PROFD_COLUMN_TYPE(int64_t)
PROFD_COLUMN_TYPE(uint64_t)
PROFD_COLUMN_TYPE(int32_t)
PROFD_COLUMN_TYPE(uint32_t)
PROFD_COLUMN_TYPE(uint16_t)
PROFD_COLUMN_TYPE(int16_t)
PROFD_COLUMN_TYPE(uint8_t)
#undef PROFD_COLUMN_TYPE

}  // namespace profd::store
