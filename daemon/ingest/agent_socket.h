// The socket that targets connect to: DIR/agent/agent.sock.
//
// Threads: any; call once, at start.
#ifndef PROFD_DAEMON_INGEST_AGENT_SOCKET_H_
#define PROFD_DAEMON_INGEST_AGENT_SOCKET_H_

#include <filesystem>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"

namespace profd {

// AgentSocket listens. It unlinks its file when it goes, unless another's stands
// there by then or the socket was inherited.
class AgentSocket {
 public:
  // Makes `socket_dir`/agent (mode 0755, so that every user's targets reach it) and the
  // socket in it (mode 0666). A socket at which no daemon answers is removed.
  // FAILED_PRECONDITION: a daemon answers there. INVALID_ARGUMENT: the path is too long
  // for a socket. PERMISSION_DENIED or UNAVAILABLE: anything else, with the cause.
  static absl::StatusOr<AgentSocket> Listen(const std::filesystem::path& socket_dir);

  // A listening SOCK_SEQPACKET socket that systemd made. INVALID_ARGUMENT: it is not one.
  static absl::StatusOr<AgentSocket> Inherit(UniqueFd fd);

  AgentSocket(AgentSocket&&) = default;
  AgentSocket& operator=(AgentSocket&&) = delete;
  ~AgentSocket();

  // DIR/agent/agent.sock.
  static std::filesystem::path PathIn(const std::filesystem::path& socket_dir);

  int fd() const { return fd_.get(); }
  // Hands over the listening socket; its file stays.
  UniqueFd TakeFd() && { return std::move(fd_); }

 private:
  explicit AgentSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::filesystem::path path_;  // Empty: not ours to remove.
  uint64_t inode_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_AGENT_SOCKET_H_
