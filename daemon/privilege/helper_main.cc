// profd-helper: the only part of profd with privileges after the start. It answers the two requests
// of helper_protocol.h on one connection and ends with it. It reads no byte that a target wrote to
// profd, allocates nothing, starts nothing, and cannot write to any file.
//
//   profd-helper AGENT_SOCKET      connection at descriptor 3, from systemd or from profd as root
//
// AGENT_SOCKET is the path that targets connect to.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
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

// Whether `connection` was accepted on the agent socket from the process `pid`. The name of an
// accepted socket is that of its listener; SO_PEERCRED is who called connect().
bool IsConnectionOf(int64_t pid, int connection, const char* agent_socket) {
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(connection, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) {
    return false;
  }
  sockaddr_un name{};
  size = sizeof name;
  if (getsockname(connection, reinterpret_cast<sockaddr*>(&name), &size) != 0 ||
      name.sun_family != AF_UNIX ||
      strncmp(name.sun_path, agent_socket, sizeof name.sun_path) != 0) {
    return false;
  }
  ucred peer{};
  size = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == pid;
}

int Facts(const HelperRequest& request, const Received& received, HelperAnswer& answer) {
  if (received.count != 1) return EINVAL;
  int64_t pid = 0;
  const int folder = OpenProcessOf(received.fds[0], pid);
  if (folder < 0) return -folder;
  int error = ReadProcFacts(folder, answer.facts);
  close(folder);
  if (error == 0 && request.start_ticks != 0 && request.start_ticks != answer.facts.start_ticks) {
    error = ESRCH;
  }
  return error;
}

// Sets `memory` to a descriptor that the caller closes.
int Memory(const HelperRequest& request, const Received& received, const char* agent_socket,
           HelperAnswer& answer, int& memory) {
  if (received.count != 2 || request.start_ticks <= 0) return EINVAL;
  int64_t pid = 0;
  const int folder = OpenProcessOf(received.fds[0], pid);
  if (folder < 0) return -folder;
  int error = IsConnectionOf(pid, received.fds[1], agent_socket) ? 0 : EINVAL;
  if (error == 0) error = ReadProcFacts(folder, answer.facts);
  if (error == 0 && answer.facts.start_ticks != request.start_ticks) error = ESRCH;
  if (error == 0) {
    memory = openat(folder, "mem", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (memory < 0) error = errno;
  }
  close(folder);
  // The answer has no facts: its only content is the descriptor.
  answer.facts = ProcFacts{};
  return error;
}

bool Send(const HelperAnswer& answer, int memory) {
  iovec bytes{.iov_base = const_cast<HelperAnswer*>(&answer), .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (memory >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(part), &memory, sizeof memory);
  }
  ssize_t sent;
  do {
    sent = sendmsg(kHelperConnectionFd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof answer);
}

// False once the daemon has closed its end.
bool ServeOne(const char* agent_socket, HelperAnswer& answer) {
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
  int memory = -1;
  if (!whole || size != sizeof(HelperRequest)) {
    answer.error = EINVAL;
  } else {
    HelperRequest request;
    memcpy(&request, bytes, sizeof request);
    answer.number = request.number;
    if (request.kind == HelperRequestKind::kFacts) {
      answer.error = Facts(request, received, answer);
    } else if (request.kind == HelperRequestKind::kMemory) {
      answer.error = Memory(request, received, agent_socket, answer, memory);
    } else {
      answer.error = EINVAL;
    }
  }
  const bool sent = Send(answer, memory);
  if (memory >= 0) close(memory);
  return sent;
}

int Fail(const char* problem) {
  dprintf(STDERR_FILENO, "profd-helper: %s: %s\n", problem, strerror(errno));
  return 1;
}

int Main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] != '/') {
    dprintf(STDERR_FILENO,
            "usage: profd-helper AGENT_SOCKET (started by profd or systemd, with a connection at "
            "descriptor %d)\n",
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
  while (ServeOne(argv[1], answer)) {
  }
  return 0;
}

}  // namespace
}  // namespace profd

// No destructors or leak checks: the filter has no room for them.
int main(int argc, char** argv) { _exit(profd::Main(argc, argv)); }
