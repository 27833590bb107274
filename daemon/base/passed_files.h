// Descriptors that a peer passes over a unix socket (SCM_RIGHTS). profd wants none of them, and
// must not close one on a thread that others need: the last close() of a TCP socket may wait for
// SO_LINGER, and every close() of a FUSE file waits for the peer's own file server.
//
// Two lines of defense:
//   1. RefusePassedFiles() makes the kernel refuse them at the sender (Linux 6.16 and later).
//   2. ForeignCloser closes what arrived all the same, and the sockets of peers, whose queues may
//      hold unread descriptors, on threads of its own.
//
// Known gap before Linux 6.16: whoever can mount a FUSE file system can block the closer's threads
// for good. Then descriptors that peers pass stay open; callers stop accepting connections at
// ForeignCloser::kMaxWaiting of them. Connected peers and captures are not affected.
#ifndef PROFD_DAEMON_BASE_PASSED_FILES_H_
#define PROFD_DAEMON_BASE_PASSED_FILES_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/base/unique_fd.h"

namespace profd {

// Sets SO_PASSRIGHTS to 0: sendmsg() with a descriptor fails at the peer with EPERM. On a listening
// socket it holds for all later connections. False: the kernel does not have it.
bool RefusePassedFiles(int unix_socket);

// Room for every descriptor that one message can carry (SCM_MAX_FD is 253) next to the message's
// other control data. With less, the kernel closes the rest on the receiving thread.
inline constexpr size_t kPassedFilesControlBytes = CMSG_SPACE(256 * sizeof(int)) + 256;

// Takes the descriptors out of a received message; does not close any.
std::vector<UniqueFd> TakePassedFiles(msghdr& message);

// ForeignCloser closes descriptors whose close() may block.
//
// Threads:  Any; never blocks. Its own: "profd-closer", started by the first use. One closes
//           sockets of peers. Up to kMaxThreads more close passed descriptors.
// Shutdown: the destructor does not wait. Blocked threads end with their close() or the process.
class ForeignCloser {
 public:
  static constexpr int kMaxThreads = 4;
  static constexpr int64_t kMaxWaiting = 1024;

  using CloseFunction = std::function<void(int fd)>;
  explicit ForeignCloser(CloseFunction close_for_testing = nullptr);
  ~ForeignCloser();
  ForeignCloser(const ForeignCloser&) = delete;
  ForeignCloser& operator=(const ForeignCloser&) = delete;

  // Shuts the unix socket `connection` down in both directions at once. Later takes out the
  // descriptors that wait in its queue, and closes it.
  void CloseConnection(UniqueFd connection);
  void ClosePassed(std::vector<UniqueFd> files);

  // Passed descriptors that are not closed yet.
  int64_t waiting() const;
  bool is_full() const { return waiting() >= kMaxWaiting; }

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_PASSED_FILES_H_
