// FrameScanner counts the HTTP/2 frames in what a client sends (RFC 9113, section 4.1), and follows
// the gRPC messages in DATA. It keeps no payload and changes nothing.
//
//   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" | length:24 type:8 flags:8 stream:32 | payload | ...
//   DATA of one stream: compressed:8 length:32 | message | compressed:8 length:32 | message | ...
//
// Both may be cut anywhere: frames between two calls, messages between two frames. Wrong frames are
// counted by their type like right ones; to judge them is gRPC's part.
//
// Threads: one at a time.
#ifndef PROFD_DAEMON_RPC_ADMISSION_HTTP2_FRAMES_H_
#define PROFD_DAEMON_RPC_ADMISSION_HTTP2_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
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
  static constexpr int64_t kSliceBytes = 64 << 10;  // gRPC 1.51's, at most.

  // Counts the frames whose headers end in `bytes`, the next bytes of the connection.
  void Scan(std::span<const std::byte> bytes, FrameCounts& counts);

  // Messages of which a part has come: gRPC keeps it until the rest comes, or the call ends. The
  // server may have ended a call meanwhile; such a part counts as long as the connection lives.
  size_t unfinished_count() const { return unfinished_.size(); }
  // What gRPC may keep for them. It reads into slices of kSliceBytes, and keeps a slice as long as
  // a part of a message is in it: so each frame may have cost a slice, but all of them together not
  // more than what came since the oldest message began.
  int64_t unfinished_bytes() const;

 private:
  static constexpr size_t kPrefixBytes = 5;
  struct Message {
    int64_t began = 0;  // Bytes of the connection before it.
    int64_t received = 0;
    int64_t frames = 0;
    std::array<std::byte, kPrefixBytes> prefix;
    size_t prefix_filled = 0;
    size_t left = kPrefixBytes;  // Of the prefix, then of the message.
  };

  void BeginFrame(FrameCounts& counts);
  void Count(FrameCounts& counts) const;
  void TakePayload(std::span<const std::byte> payload);
  void Pass(size_t payload_bytes);
  // `begins_frame`: it is the first piece of a frame.
  void FollowMessages(std::span<const std::byte> data, bool begins_frame);
  void EndFrame();

  bool in_preface_ = true;
  size_t payload_left_ = kPrefaceBytes;  // Until the next frame header.
  size_t padding_left_ = 0;              // Of that, at its end; DATA only.
  bool pad_length_comes_ = false;
  bool begins_data_ = false;  // No data of this frame came yet.
  std::array<std::byte, kHeaderBytes> header_{};
  size_t header_filled_ = 0;

  int64_t received_ = 0;                    // Bytes of the connection that were looked at.
  std::map<uint32_t, Message> unfinished_;  // By stream.
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_HTTP2_FRAMES_H_
