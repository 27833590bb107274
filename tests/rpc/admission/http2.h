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

inline std::string FrameWith(int type, const std::string& payload, int flags = 0, int stream = 1) {
  const std::string header = {static_cast<char>(payload.size() >> 16),
                              static_cast<char>(payload.size() >> 8),
                              static_cast<char>(payload.size()),
                              static_cast<char>(type),
                              static_cast<char>(flags),
                              0,
                              0,
                              0,
                              static_cast<char>(stream)};
  return header + payload;
}

inline std::string FrameOf(int type, size_t payload, int flags = 0) {
  return FrameWith(type, std::string(payload, '\x01'), flags);  // HEADERS, if it is misread.
}

// A message of gRPC, of which the first `sent` bytes come.
inline std::string MessageOf(size_t size, size_t sent) {
  const std::string prefix = {0, static_cast<char>(size >> 24), static_cast<char>(size >> 16),
                              static_cast<char>(size >> 8), static_cast<char>(size)};
  return prefix + std::string(sent, '\x01');
}

}  // namespace profd::rpc

#endif  // PROFD_TESTS_RPC_ADMISSION_HTTP2_H_
