#include "daemon/ingest/agent_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "daemon/base/folder_lock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

constexpr int kBacklog = 512;

absl::Status FromErrno(const std::string& what, int error) {
  const std::string text = StrCat(what, ": ", strerror(error));
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return FromErrno("socket", errno);
  return fd;
}

absl::Status MakeDirectories(const std::filesystem::path& directory) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(directory, error);
  if (error) return FromErrno(StrCat("make ", directory.string()), error.value());
  // The umask may have kept other users' targets out.
  if (made && chmod(directory.c_str(), 0755) != 0) {
    return FromErrno(StrCat("chmod ", directory.string()), errno);
  }
  return absl::OkStatus();
}

// The file of a socket outlives a daemon that was killed. Only connect() shows whether one listens.
absl::StatusOr<bool> SomebodyAnswers(const sockaddr_un& address) {
  ASSIGN_OR_RETURN(const UniqueFd probe, NewSocket());
  const int result =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  // EAGAIN: a full backlog, so a daemon listens. ENOENT: gone meanwhile.
  return result == 0 || (errno != ECONNREFUSED && errno != ENOENT);
}

absl::Status Bind(int fd, const sockaddr_un& address) {
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  if (bind(fd, name, sizeof(address)) == 0) return absl::OkStatus();
  if (errno != EADDRINUSE) return FromErrno(StrCat("bind ", address.sun_path), errno);
  ASSIGN_OR_RETURN(const bool taken, SomebodyAnswers(address));
  if (taken) {
    return absl::FailedPreconditionError(
        StrCat("another profd answers at ", address.sun_path,
               "; stop it, or give this one another --socket-dir"));
  }
  if (unlink(address.sun_path) != 0 && errno != ENOENT) {
    return FromErrno(StrCat("remove ", address.sun_path), errno);
  }
  if (bind(fd, name, sizeof(address)) != 0) {
    return FromErrno(StrCat("bind ", address.sun_path), errno);
  }
  return absl::OkStatus();
}

}  // namespace

std::filesystem::path AgentSocket::PathIn(const std::filesystem::path& socket_dir) {
  return socket_dir / "agent" / "agent.sock";
}

absl::StatusOr<AgentSocket> AgentSocket::Listen(const std::filesystem::path& socket_dir) {
  const std::filesystem::path path = PathIn(socket_dir);
  const std::filesystem::path directory = path.parent_path();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(StrCat("the path ", path.string(),
                                             " is too long for a socket; choose a shorter "
                                             "--socket-dir"));
  }
  memcpy(address.sun_path, path.c_str(), path.native().size());

  RETURN_IF_ERROR(MakeDirectories(socket_dir));
  RETURN_IF_ERROR(MakeDirectories(directory));
  // Until it listens. Before that, another daemon that starts would find that no daemon answers.
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(directory));
  ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
  RETURN_IF_ERROR(Bind(fd.get(), address));
  AgentSocket agent(std::move(fd));
  struct stat file;
  // Processes of all users may be targets. The kernel says whose each one is (IdentifyPeer()).
  if (chmod(path.c_str(), 0666) != 0 || stat(path.c_str(), &file) != 0) {
    return FromErrno(StrCat("chmod ", path.string()), errno);
  }
  agent.path_ = path;
  agent.inode_ = file.st_ino;
  if (listen(agent.fd(), kBacklog) != 0) return FromErrno("listen", errno);
  return agent;
}

absl::StatusOr<AgentSocket> AgentSocket::Inherit(UniqueFd fd) {
  int type = 0;
  int listening = 0;
  socklen_t size = sizeof(int);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET ||
      getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) {
    return absl::InvalidArgumentError(
        "the inherited agent socket is not a listening SOCK_SEQPACKET socket");
  }
  const int flags = fcntl(fd.get(), F_GETFL);
  if (fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0 ||
      fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return FromErrno("fcntl", errno);
  }
  return AgentSocket(std::move(fd));
}

AgentSocket::~AgentSocket() {
  struct stat file;
  if (!fd_.valid() || path_.empty()) return;
  // Another daemon may have bound the path meanwhile. Its file stays.
  if (stat(path_.c_str(), &file) == 0 && file.st_ino == inode_) unlink(path_.c_str());
}

}  // namespace profd
