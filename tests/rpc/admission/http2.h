// Frames of HTTP/2 as callers send them (RFC 9113).
#ifndef PROFD_TESTS_RPC_ADMISSION_HTTP2_H_
#define PROFD_TESTS_RPC_ADMISSION_HTTP2_H_

#include <cstddef>
#include <string>

namespace profd::rpc {

inline constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr int kData = 0;
inline constexpr int kHeaders = 1;
inline constexpr int kReset = 3;
inline constexpr int kSettings = 4;
inline constexpr int kPing = 6;
inline constexpr int kWindowUpdate = 8;
inline constexpr int kContinuation = 9;

inline std::string FrameOf(int type, size_t payload, int flags = 0) {
  std::string frame = {static_cast<char>(payload >> 16),
                       static_cast<char>(payload >> 8),
                       static_cast<char>(payload),
                       static_cast<char>(type),
                       static_cast<char>(flags),
                       0,
                       0,
                       0,
                       1};
  return frame + std::string(payload, '\x01');  // Looks like HEADERS, if it is misread.
}

}  // namespace profd::rpc

#endif  // PROFD_TESTS_RPC_ADMISSION_HTTP2_H_
