// FrameScanner counts the HTTP/2 frames in what a client sends (RFC 9113, section 4.1). It reads
// the 9 bytes of each frame header and skips the payload; it keeps no payload and changes nothing.
//
//   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" | length:24 type:8 flags:8 stream:32 | payload | ...
//
// Frames may be cut anywhere between two calls. Wrong frames are counted by their type like right
// ones; to judge them is gRPC's part.
//
// Threads: one at a time.
#ifndef PROFD_DAEMON_RPC_ADMISSION_HTTP2_FRAMES_H_
#define PROFD_DAEMON_RPC_ADMISSION_HTTP2_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace profd::rpc {

struct FrameCounts {
  int64_t headers = 0;        // HEADERS: calls begun.
  int64_t resets = 0;         // RST_STREAM.
  int64_t control = 0;        // Any other but DATA and WINDOW_UPDATE: gRPC answers or stores them.
  int64_t small_data = 0;     // DATA of less than kSmallDataBytes: costs more memory than it has.
  int64_t settings_acks = 0;  // Also in `control`.

  friend bool operator==(const FrameCounts&, const FrameCounts&) = default;
};

class FrameScanner {
 public:
  static constexpr size_t kPrefaceBytes = 24;
  static constexpr size_t kHeaderBytes = 9;
  static constexpr uint32_t kSmallDataBytes = 256;

  // Counts the frames whose headers end in `bytes`, the next bytes of the connection.
  void Scan(std::span<const std::byte> bytes, FrameCounts& counts);

 private:
  void CountHeader(FrameCounts& counts) const;

  size_t skip_ = kPrefaceBytes;  // Bytes until the next frame header.
  std::array<std::byte, kHeaderBytes> header_{};
  size_t header_filled_ = 0;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_HTTP2_FRAMES_H_
