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
constexpr uint8_t kAckFlag = 1;        // Of SETTINGS.
constexpr uint8_t kEndStreamFlag = 1;  // Of DATA and HEADERS.
constexpr uint8_t kPaddedFlag = 8;     // Of DATA.

using Header = std::array<std::byte, FrameScanner::kHeaderBytes>;

// Big-endian.
uint32_t Number(std::span<const std::byte> bytes) {
  uint32_t number = 0;
  for (const std::byte byte : bytes) number = number << 8 | std::to_integer<uint32_t>(byte);
  return number;
}

uint32_t PayloadBytes(const Header& header) { return Number(std::span(header).first<3>()); }
uint8_t TypeOf(const Header& header) { return std::to_integer<uint8_t>(header[3]); }
uint32_t StreamOf(const Header& header) { return Number(std::span(header).last<4>()) & 0x7fffffff; }
bool HasFlag(const Header& header, uint8_t flag) {
  return (std::to_integer<uint8_t>(header[4]) & flag) != 0;
}

}  // namespace

void FrameScanner::Scan(std::span<const std::byte> bytes, FrameCounts& counts) {
  while (!bytes.empty()) {
    if (payload_left_ > 0) {
      const size_t taken = std::min(payload_left_, bytes.size());
      TakePayload(bytes.first(taken));
      bytes = bytes.subspan(taken);
      if (payload_left_ == 0) EndFrame();
      continue;
    }
    const size_t taken = std::min(kHeaderBytes - header_filled_, bytes.size());
    std::copy_n(bytes.begin(), taken, header_.begin() + static_cast<ptrdiff_t>(header_filled_));
    header_filled_ += taken;
    received_ += static_cast<int64_t>(taken);
    bytes = bytes.subspan(taken);
    if (header_filled_ < kHeaderBytes) return;
    header_filled_ = 0;
    BeginFrame(counts);
    if (payload_left_ == 0) EndFrame();
  }
}

void FrameScanner::BeginFrame(FrameCounts& counts) {
  Count(counts);
  payload_left_ = PayloadBytes(header_);
  padding_left_ = 0;
  begins_data_ = true;
  // Padding matters in DATA only. Of other frames nothing but the header is looked at.
  pad_length_comes_ = TypeOf(header_) == kData && HasFlag(header_, kPaddedFlag);
}

void FrameScanner::Count(FrameCounts& counts) const {
  switch (TypeOf(header_)) {
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
      if (HasFlag(header_, kAckFlag)) ++counts.settings_acks;
      break;
    default:
      break;
  }
  ++counts.control;
}

void FrameScanner::TakePayload(std::span<const std::byte> payload) {
  if (pad_length_comes_) {
    padding_left_ = std::to_integer<uint8_t>(payload.front());
    pad_length_comes_ = false;
    Pass(1);
    payload = payload.subspan(1);
  }
  if (!in_preface_ && TypeOf(header_) == kData) {
    // A hostile frame may claim more padding than it has payload.
    const size_t data_left = payload_left_ - std::min(payload_left_, padding_left_);
    FollowMessages(payload.first(std::min(payload.size(), data_left)), begins_data_);
    if (!payload.empty()) begins_data_ = false;
  }
  Pass(payload.size());
}

void FrameScanner::Pass(size_t bytes) {
  payload_left_ -= bytes;
  received_ += static_cast<int64_t>(bytes);
}

void FrameScanner::FollowMessages(std::span<const std::byte> data, bool begins_frame) {
  int64_t at = received_;
  while (!data.empty()) {
    const auto [it, is_new] = unfinished_.try_emplace(StreamOf(header_));
    Message& message = it->second;
    if (is_new) message.began = at;
    const size_t taken = std::min(data.size(), message.left);
    const bool is_prefix = message.prefix_filled < kPrefixBytes;
    if (is_prefix) {
      std::copy_n(data.begin(), taken,
                  message.prefix.begin() + static_cast<ptrdiff_t>(message.prefix_filled));
      message.prefix_filled += taken;
    }
    if (is_new || begins_frame) ++message.frames;
    message.left -= taken;
    message.received += static_cast<int64_t>(taken);
    at += static_cast<int64_t>(taken);
    data = data.subspan(taken);
    begins_frame = false;
    // The prefix has ended: the rest is the message, whose length is its last four bytes.
    if (is_prefix && message.left == 0) message.left = Number(std::span(message.prefix).last<4>());
    if (message.left == 0) unfinished_.erase(it);
  }
}

void FrameScanner::EndFrame() {
  if (in_preface_) {
    in_preface_ = false;
    return;
  }
  const uint8_t type = TypeOf(header_);
  const bool ends_stream = type == kRstStream || ((type == kData || type == kHeaders) &&
                                                  HasFlag(header_, kEndStreamFlag));
  if (ends_stream) unfinished_.erase(StreamOf(header_));
}

int64_t FrameScanner::unfinished_bytes() const {
  int64_t oldest = received_;
  int64_t kept = 0;
  for (const auto& [stream, message] : unfinished_) {
    oldest = std::min(oldest, message.began);
    kept += message.received + message.frames * kSliceBytes;
  }
  return unfinished_.empty() ? 0 : std::min(kept, received_ - oldest + kSliceBytes);
}

}  // namespace profd::rpc
