#include "daemon/worker/frames.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::worker {
namespace {

constexpr size_t kMaxMessageBytes = 4096;
constexpr size_t kMaxReasonBytes = 64;

struct Header {
  uint32_t kind = 0;
  uint32_t size = 0;
};

absl::Status Gone() { return absl::UnavailableError("the other process closed its socket"); }
absl::Status Broken(std::string_view what) {
  return absl::InternalError(StrCat("the other process broke the protocol: ", what));
}

bool MeansGone(int error) { return error == EPIPE || error == ECONNRESET; }

// Sends all of `pieces`; the descriptor, if any, goes with the first byte.
absl::Status SendAll(int socket, std::array<iovec, 2> pieces, int file) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  if (file >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof(int));
  }
  while (pieces[0].iov_len + pieces[1].iov_len > 0) {
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && MeansGone(errno)) return Gone();
    if (sent < 0) return absl::ErrnoToStatus(errno, "sendmsg");
    // The descriptor went with the first bytes. Sent again, it would arrive twice.
    message.msg_control = nullptr;
    message.msg_controllen = 0;
    auto left = static_cast<size_t>(sent);
    for (iovec& piece : pieces) {
      const size_t taken = std::min(left, piece.iov_len);
      piece.iov_base = static_cast<char*>(piece.iov_base) + taken;
      piece.iov_len -= taken;
      left -= taken;
    }
  }
  return absl::OkStatus();
}

absl::Status Send(int socket, FrameKind kind, std::string_view payload, int file) {
  Header header = {.kind = static_cast<uint32_t>(kind),
                   .size = static_cast<uint32_t>(payload.size())};
  // sendmsg() does not write through these.
  return SendAll(
      socket,
      {iovec{&header, sizeof(header)}, iovec{const_cast<char*>(payload.data()), payload.size()}},
      file);
}

absl::Status ReceiveAll(int socket, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(socket, to, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (got < 0 && MeansGone(errno))) return Gone();
    if (got < 0) return absl::ErrnoToStatus(errno, "recv");
    to += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

// The first bytes of a frame, with the descriptor that came along.
absl::Status ReceiveFirst(int socket, Header& header, UniqueFd& file) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec piece = {&header, sizeof(header)};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got == 0 || (got < 0 && MeansGone(errno))) return Gone();
  if (got < 0) return absl::ErrnoToStatus(errno, "recvmsg");
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&message); rights != nullptr &&
                                                       rights->cmsg_type == SCM_RIGHTS &&
                                                       rights->cmsg_len == CMSG_LEN(sizeof(int))) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(rights), sizeof(int));
    file.Reset(received);
  }
  return ReceiveAll(socket, reinterpret_cast<char*>(&header) + got,
                    sizeof(header) - static_cast<size_t>(got));
}

absl::Status CheckHeader(uint32_t kind, uint32_t size, size_t max_bytes) {
  if (kind < static_cast<uint32_t>(FrameKind::kHello) ||
      kind > static_cast<uint32_t>(FrameKind::kEnd)) {
    return Broken(StrCat("frame kind ", kind));
  }
  // Checked before memory is taken for the payload.
  if (size > max_bytes) return Broken(StrCat("a frame of ", size, " bytes"));
  return absl::OkStatus();
}

absl::Status ReceivePayload(int socket, const Header& header, size_t max_bytes, Frame& frame) {
  RETURN_IF_ERROR(CheckHeader(header.kind, header.size, max_bytes));
  frame.kind = static_cast<FrameKind>(header.kind);
  frame.payload.resize(header.size);
  return ReceiveAll(socket, frame.payload.data(), frame.payload.size());
}

void AppendNumber(uint32_t number, std::string& to) {
  to.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
bool TakeNumber(std::string_view& from, uint32_t& number) {
  if (from.size() < sizeof(number)) return false;
  std::memcpy(&number, from.data(), sizeof(number));
  from.remove_prefix(sizeof(number));
  return true;
}
bool TakeText(std::string_view& from, std::string_view& text) {
  uint32_t size = 0;
  if (!TakeNumber(from, size) || from.size() < size) return false;
  text = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

}  // namespace

absl::Status SendFrame(int socket, FrameKind kind, std::string_view payload) {
  return Send(socket, kind, payload, -1);
}
absl::Status SendRequestFrame(int socket, std::string_view payload, int file) {
  return Send(socket, FrameKind::kRequest, payload, file);
}

absl::StatusOr<Frame> ReceiveRequestFrame(int socket, size_t max_bytes) {
  Header header;
  Frame frame;
  RETURN_IF_ERROR(ReceiveFirst(socket, header, frame.file));
  RETURN_IF_ERROR(ReceivePayload(socket, header, max_bytes, frame));
  return frame;
}

absl::StatusOr<bool> FrameReader::Fill(char* at, size_t size) {
  while (filled_ < size) {
    const ssize_t got = recv(socket_, at + filled_, size - filled_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got == 0 || (got < 0 && MeansGone(errno))) return Gone();
    if (got < 0) return absl::ErrnoToStatus(errno, "recv");
    filled_ += static_cast<size_t>(got);
  }
  filled_ = 0;
  return true;
}

absl::StatusOr<std::optional<Frame>> FrameReader::Next(absl::Duration timeout) {
  const absl::Duration until = Clock::Real().Monotonic() + timeout;
  while (true) {
    if (!in_payload_) {
      ASSIGN_OR_RETURN(in_payload_, Fill(reinterpret_cast<char*>(&header_), sizeof(header_)));
      if (in_payload_) {
        RETURN_IF_ERROR(CheckHeader(header_.kind, header_.size, max_bytes_));
        payload_.resize(header_.size);
      }
    }
    if (in_payload_) {
      ASSIGN_OR_RETURN(const bool whole, Fill(payload_.data(), payload_.size()));
      if (whole) {
        in_payload_ = false;
        Frame frame;
        frame.kind = static_cast<FrameKind>(header_.kind);
        frame.payload = std::exchange(payload_, {});
        return frame;
      }
    }
    const absl::Duration left = until - Clock::Real().Monotonic();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    // Rounded up, or the last millisecond would be spent in a busy loop.
    pollfd readable = {.fd = socket_, .events = POLLIN, .revents = 0};
    poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
}

bool CancelIsNext(int socket) {
  Header header;
  const ssize_t got = recv(socket, &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
  // A broken connection counts as a cancellation: the answer has no reader.
  if (got < 0) return errno != EAGAIN && errno != EINTR;
  return got == 0 || (static_cast<size_t>(got) == sizeof(header) &&
                      header.kind == static_cast<uint32_t>(FrameKind::kCancel));
}

std::string EncodeRequest(std::string_view table, std::string_view options) {
  std::string payload;
  AppendNumber(static_cast<uint32_t>(table.size()), payload);
  payload.append(table);
  payload.append(options);
  return payload;
}

absl::StatusOr<DecodedRequest> DecodeRequest(std::string_view payload) {
  DecodedRequest request;
  if (!TakeText(payload, request.table)) return Broken("a request without a table");
  request.options = payload;
  return request;
}

std::string EncodeStatus(const absl::Status& status) {
  const std::string reason = ReasonOf(status).substr(0, kMaxReasonBytes);
  std::string payload;
  AppendNumber(static_cast<uint32_t>(status.raw_code()), payload);
  AppendNumber(static_cast<uint32_t>(reason.size()), payload);
  payload.append(reason);
  payload.append(FromAbsl(status.message()).substr(0, kMaxMessageBytes));
  return payload;
}

absl::Status DecodeStatus(std::string_view payload) {
  uint32_t code = 0;
  std::string_view reason;
  if (!TakeNumber(payload, code) || !TakeText(payload, reason)) {
    return Broken("an end without a status");
  }
  if (code == 0) return absl::OkStatus();
  // Unknown numbers become UNKNOWN.
  absl::Status status(static_cast<absl::StatusCode>(code), ForDisplay(payload, kMaxMessageBytes));
  status = absl::Status(status.code(), status.message());
  if (reason.empty()) return status;
  return WithReason(status, ForDisplay(reason, kMaxReasonBytes));
}

}  // namespace profd::worker
