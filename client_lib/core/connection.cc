#include "client_lib/core/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "client_lib/core/lifecycle.h"
#include "client_lib/core/log.h"

namespace profd::client {
namespace {

constexpr int kSendTimeoutMs = 5000;
constexpr size_t kMaxFilesPerFrame = 4;

bool IsTrustedUid(uid_t uid) { return uid == 0 || uid == geteuid(); }

// Not stat(): its symbol version is newer than what the library may need.
bool PathIsTrusted(const char* path) {
  struct stat info;
  if (syscall(SYS_newfstatat, AT_FDCWD, path, &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (IsTrustedUid(info.st_uid)) return true;
  Log(LogLevel::kWarning, "%s belongs to uid %u, neither root nor us; not used", path, info.st_uid);
  return false;
}

bool PeerIsTrusted(int fd, const char* path) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  if (IsTrustedUid(peer.uid)) return true;
  Log(LogLevel::kWarning, "who listens at %s is uid %u, neither root nor us; not used", path,
      peer.uid);
  return false;
}

// The first file of the message; any others are closed.
int TakeFile(msghdr* message) {
  int first = -1;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
      if (first < 0) {
        first = fd;
      } else {
        close(fd);
      }
    }
  }
  return first;
}

}  // namespace

bool ReceivedFrame::FindField(size_t fixed_bytes, wire::FieldTag tag, const char** bytes,
                              size_t* length) const {
  wire::FieldHeader field;
  for (size_t at = fixed_bytes; at + sizeof(field) <= body_bytes;) {
    memcpy(&field, body + at, sizeof(field));
    at += sizeof(field);
    if (field.length_bytes > body_bytes - at) return false;
    if (field.tag == static_cast<uint16_t>(tag)) {
      *bytes = body + at;
      *length = field.length_bytes;
      return true;
    }
    at += field.length_bytes;
  }
  return false;
}

bool Connection::Open(const char* path) {
  if (!PathIsTrusted(path)) return false;
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    if (errno == EPERM || errno == EACCES || errno == ENOSYS) StayOff("socket()", errno);
    return false;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      !PeerIsTrusted(fd, path)) {
    close(fd);
    return false;
  }
  socket_.Take(fd);
  return true;
}

void Connection::Close() {
  DropFile();
  socket_.Close();
}

bool Connection::Send(FrameBuilder& frame) {
  const void* bytes = frame.Finish();
  for (;;) {
    const ssize_t sent = send(fd(), bytes, frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == static_cast<ssize_t>(frame.size())) return true;
    if (sent >= 0) return false;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    pollfd waited{fd(), POLLOUT, 0};
    if (poll(&waited, 1, kSendTimeoutMs) <= 0 || (waited.revents & POLLOUT) == 0) return false;
  }
}

Connection::Got Connection::Receive(ReceivedFrame* frame) {
  DropFile();
  iovec buffer{bytes_, sizeof(bytes_)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFilesPerFrame)];
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Got::kNothing : Got::kClosed;
  file_.TakeInPlace(TakeFile(&message));
  if (got == 0) return Got::kClosed;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      static_cast<size_t>(got) < sizeof(wire::FrameHeader)) {
    Log(LogLevel::kError, "the daemon sent a frame of wrong length; disconnecting");
    return Got::kClosed;
  }
  memcpy(&frame->header, bytes_, sizeof(frame->header));
  if (frame->header.magic != wire::kFrameMagic ||
      frame->header.length_bytes != static_cast<size_t>(got)) {
    Log(LogLevel::kError, "the daemon sent a frame with a wrong header; disconnecting");
    return Got::kClosed;
  }
  frame->body = bytes_ + sizeof(wire::FrameHeader);
  frame->body_bytes = static_cast<size_t>(got) - sizeof(wire::FrameHeader);
  frame->fd = file_.Get();
  return Got::kFrame;
}

void Connection::ResetInChild() {
  file_.ResetInChild();
  socket_.ResetInChild();
}

}  // namespace profd::client
