// Frames: what profd and profd-report say to each other over their socket pair.
//
//   byte 0        4          8
//        | kind   | size     | `size` bytes |        both numbers in the byte order of the machine
//
//   profd-report ──► kHello    protocol version        once, when it is ready and confined
//   profd ─────────► kRequest  table, options          with one descriptor (SCM_RIGHTS)
//   profd-report ──► kData     a piece of the answer   any number
//   profd-report ──► kEnd      status, reason, message once per request
//   profd ─────────► kCancel                           the answer is not wanted anymore
//
// Neither side trusts the other: profd-report reads hostile files, so profd checks every size
// before it allocates and never receives descriptors.
//
// Threads: one at a time per socket. Blocking sockets.
// Errors:  UNAVAILABLE: the other side closed the socket. INTERNAL: it broke the protocol, or a
//          system call failed.
#ifndef PROFD_DAEMON_WORKER_FRAMES_H_
#define PROFD_DAEMON_WORKER_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"

namespace profd::worker {

// Both programs are installed together. A daemon that outlives an upgrade refuses the new program.
inline constexpr uint32_t kProtocolVersion = 2;
// Where profd-report finds its socket.
inline constexpr int kSocketFd = 3;
inline constexpr size_t kMaxDataBytes = 256 << 10;
inline constexpr size_t kMaxRequestBytes = 2 << 20;

enum class FrameKind : uint32_t { kHello = 1, kRequest, kCancel, kData, kEnd };

struct Frame {
  FrameKind kind = FrameKind::kEnd;
  std::string payload;
  UniqueFd file;  // Of a request.
};

absl::Status SendFrame(int socket, FrameKind kind, std::string_view payload);
// Sends `file` along; the other side gets a descriptor of its own.
absl::Status SendRequestFrame(int socket, std::string_view payload, int file);

// Waits for a frame of at most `max_bytes`, and takes the descriptor that came along, if any.
absl::StatusOr<Frame> ReceiveRequestFrame(int socket, size_t max_bytes);

// Receives frames without waiting for the rest of one: the sender may be hostile or stopped.
class FrameReader {
 public:
  FrameReader(int socket, size_t max_bytes) : socket_(socket), max_bytes_(max_bytes) {}
  // Waits at most `timeout`. nullopt: no whole frame has come yet.
  absl::StatusOr<std::optional<Frame>> Next(absl::Duration timeout);

 private:
  struct Header {
    uint32_t kind = 0;
    uint32_t size = 0;
  };
  // Receives what is there into [at, at + size); false: not all of it has come.
  absl::StatusOr<bool> Fill(char* at, size_t size);

  const int socket_;
  const size_t max_bytes_;
  Header header_;
  size_t filled_ = 0;  // Of the header, then of the payload.
  bool in_payload_ = false;
  std::string payload_;
};

// Returns whether a kCancel frame, or the end of the socket, is next; does not wait and takes
// nothing.
bool CancelIsNext(int socket);

// The payload of kRequest: a table's name and its options.
std::string EncodeRequest(std::string_view table, std::string_view options);
// Views into `payload`. INTERNAL: malformed.
struct DecodedRequest {
  std::string_view table;
  std::string_view options;
};
absl::StatusOr<DecodedRequest> DecodeRequest(std::string_view payload);

// The payload of kEnd: a status with its reason (base/reason.h). The message is cut at 4 KiB.
std::string EncodeStatus(const absl::Status& status);
// INTERNAL: malformed.
absl::Status DecodeStatus(std::string_view payload);

}  // namespace profd::worker

#endif  // PROFD_DAEMON_WORKER_FRAMES_H_
