#include "daemon/ingest/connection.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

constexpr int kMaxFramesPerSecond = 1000;
}  // namespace

absl::StatusOr<Frame> Connection::Receive(PacketBuffer& buffer) {
  alignas(cmsghdr) char control[kPassedFilesControlBytes];
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return absl::UnavailableError("nothing there");
    return absl::NotFoundError(StrCat("the connection broke: ", strerror(errno)));
  }
  // Before the message is judged: after recvmsg() the descriptors are in this process, whatever
  // else came with them.
  if (std::vector<UniqueFd> files = TakePassedFiles(message); !files.empty()) {
    closer_->ClosePassed(std::move(files));
    return absl::InvalidArgumentError("sends file descriptors, which no frame carries");
  }
  if (got == 0) return absl::NotFoundError("the peer closed the connection");
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    return absl::InvalidArgumentError("a frame is too large");
  }
  return ParseFrame(std::span(buffer).first(static_cast<size_t>(got)));
}

bool Connection::Send(std::span<const std::byte> frame, int attached) {
  if (broken_ || !socket_.valid()) return false;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{.iov_base = const_cast<std::byte*>(frame.data()), .iov_len = frame.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (attached >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &attached, sizeof(attached));
  }
  ssize_t sent;
  do {
    // A packet is sent as a whole or not at all, so nothing is left over to be sent later.
    sent = sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  broken_ = sent != static_cast<ssize_t>(frame.size());
  return !broken_;
}

bool Connection::CountFrame(absl::Duration now) {
  if (now - second_start_ >= absl::Seconds(1)) {
    second_start_ = now;
    frames_in_second_ = 0;
  }
  return ++frames_in_second_ <= kMaxFramesPerSecond;
}

}  // namespace profd
