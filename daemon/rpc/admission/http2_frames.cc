#include "daemon/rpc/admission/http2_frames.h"

#include <algorithm>

namespace profd::rpc {
namespace {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kWindowUpdate = 8,
};
constexpr uint8_t kAckFlag = 1;

uint32_t PayloadBytes(const std::array<std::byte, FrameScanner::kHeaderBytes>& header) {
  return std::to_integer<uint32_t>(header[0]) << 16 | std::to_integer<uint32_t>(header[1]) << 8 |
         std::to_integer<uint32_t>(header[2]);
}

}  // namespace

void FrameScanner::Scan(std::span<const std::byte> bytes, FrameCounts& counts) {
  while (!bytes.empty()) {
    if (skip_ > 0) {
      const size_t skipped = std::min(skip_, bytes.size());
      skip_ -= skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    const size_t taken = std::min(kHeaderBytes - header_filled_, bytes.size());
    std::copy_n(bytes.begin(), taken, header_.begin() + static_cast<ptrdiff_t>(header_filled_));
    header_filled_ += taken;
    bytes = bytes.subspan(taken);
    if (header_filled_ < kHeaderBytes) return;
    CountHeader(counts);
    header_filled_ = 0;
    skip_ = PayloadBytes(header_);
  }
}

void FrameScanner::CountHeader(FrameCounts& counts) const {
  const auto type = std::to_integer<uint8_t>(header_[3]);
  const auto flags = std::to_integer<uint8_t>(header_[4]);
  switch (type) {
    case kData:
      if (PayloadBytes(header_) < kSmallDataBytes) ++counts.small_data;
      return;
    case kHeaders:
      ++counts.headers;
      return;
    case kRstStream:
      ++counts.resets;
      return;
    case kWindowUpdate:
      return;
    case kSettings:
      if ((flags & kAckFlag) != 0) ++counts.settings_acks;
      break;
    default:
      break;
  }
  ++counts.control;
}

}  // namespace profd::rpc
