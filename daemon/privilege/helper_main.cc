// profd-helper: the only part of profd with privileges after the start. It answers the request of
// helper_protocol.h on one connection and ends with it. It reads no byte that a target wrote to
// profd, allocates nothing, starts nothing, and cannot write to any file.
//
//   profd-helper      connection at descriptor 3, from systemd or from profd as root
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/privilege/helper_protocol.h"
#include "daemon/privilege/helper_sandbox.h"

namespace profd {
namespace {

constexpr int kMaxDescriptors = 2;

// The descriptors of one request; closed with it.
struct Received {
  int fds[kMaxDescriptors] = {-1, -1};
  int count = 0;

  ~Received() {
    for (int i = 0; i < count; ++i) close(fds[i]);
  }
};

bool Take(const msghdr& message, Received& received) {
  auto* header = const_cast<msghdr*>(&message);
  for (cmsghdr* part = CMSG_FIRSTHDR(header); part != nullptr; part = CMSG_NXTHDR(header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      if (received.count < kMaxDescriptors) {
        received.fds[received.count++] = fd;
      } else {
        close(fd);
      }
    }
  }
  return (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
}

int Facts(const Received& received, ProcFacts& facts) {
  if (received.count != 1) return EINVAL;
  int64_t pid = 0;
  const int folder = OpenProcessOf(received.fds[0], pid);
  if (folder < 0) return -folder;
  const int error = ReadProcFacts(folder, facts);
  close(folder);
  return error;
}

bool Send(const HelperAnswer& answer) {
  ssize_t sent;
  do {
    sent = send(kHelperConnectionFd, &answer, sizeof answer, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof answer);
}

// False once the daemon has closed its end.
bool ServeOne(HelperAnswer& answer) {
  // One byte more than a request, so that a longer packet is seen.
  char bytes[sizeof(HelperRequest) + 1];
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  iovec vector{.iov_base = bytes, .iov_len = sizeof bytes};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(kHelperConnectionFd, &message, MSG_CMSG_CLOEXEC);
  if (size < 0 && errno == EINTR) return true;
  if (size <= 0) return false;

  Received received;
  const bool whole = Take(message, received);
  answer = HelperAnswer{};
  if (!whole || size != sizeof(HelperRequest)) {
    answer.error = EINVAL;
  } else {
    HelperRequest request;
    memcpy(&request, bytes, sizeof request);
    answer.number = request.number;
    answer.error = Facts(received, answer.facts);
  }
  return Send(answer);
}

int Fail(const char* problem) {
  dprintf(STDERR_FILENO, "profd-helper: %s: %s\n", problem, strerror(errno));
  return 1;
}

int Main(int argc) {
  if (argc != 1) {
    dprintf(STDERR_FILENO,
            "usage: profd-helper (started by profd or systemd, with a connection at descriptor "
            "%d)\n",
            kHelperConnectionFd);
    return 2;
  }
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(kHelperConnectionFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_SEQPACKET) {
    return Fail("descriptor 3 is not a SOCK_SEQPACKET connection");
  }
  if (!CloseOtherDescriptors(kHelperConnectionFd)) return Fail("cannot close descriptors");
  if (!KeepNeededCapabilities()) return Fail("cannot drop capabilities");
  if (!AllowOnlyNeededSystemCalls()) return Fail("cannot install the system call filter");
  static HelperAnswer answer;
  while (ServeOne(answer)) {
  }
  return 0;
}

}  // namespace
}  // namespace profd

// No destructors or leak checks: the filter has no room for them.
int main(int argc, char** /*argv*/) { _exit(profd::Main(argc)); }
