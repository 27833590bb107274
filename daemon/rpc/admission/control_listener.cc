#include "daemon/rpc/admission/control_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/base/folder_lock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/peer.h"

namespace profd::rpc {
namespace {

constexpr mode_t kSocketMode = 0666;
// Connections get descriptors from a range of their own, above those the daemon opens and
// closes all the time, and small enough that the kernel's table of them stays small.
constexpr int kNumberRange = 16384;
constexpr int kLowestNumber = 4096;

absl::Status Errno(std::string_view what, const std::filesystem::path& path) {
  return absl::ErrnoToStatus(errno, ToAbsl(StrCat(what, " ", path.string())));
}

absl::StatusOr<sockaddr_un> AddressOf(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(StrCat("the socket's path is longer than ",
                                             sizeof address.sun_path - 1, " bytes: ", text,
                                             "; use a shorter --socket-dir"));
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

absl::Status CheckFolder(const std::filesystem::path& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return Errno("stat", folder);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(StrCat(folder.string(), " is not a folder"));
  }
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        StrCat(folder.string(), " must belong to uid ", geteuid(),
               " and be writable only by its owner (mode 0755), or another user could impersonate "
               "this daemon"));
  }
  return absl::OkStatus();
}

// Ok if no daemon answers at `path`, which is then gone.
absl::Status RemoveStale(const std::filesystem::path& path, const sockaddr_un& address) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Errno("stat", path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(StrCat(
        path.string(), " exists and is not a socket; remove it or use another --socket-dir"));
  }
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return Errno("socket for", path);
  const int result =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  // EAGAIN: it lives, and its backlog is full.
  if (result == 0 || errno == EAGAIN || errno == EINPROGRESS) {
    return absl::FailedPreconditionError(
        StrCat("another profd answers on ", path.string(),
               "; stop it first, or use another --socket-dir and --data-dir"));
  }
  // A refusal is the only proof that no process listens. After any other error the socket may be in
  // use, and is left alone.
  if (errno != ECONNREFUSED) return Errno("connect to", path);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return Errno("remove", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> ListenAt(const std::filesystem::path& folder) {
  RETURN_IF_ERROR(CheckFolder(folder));
  const std::filesystem::path path = folder / kControlSocketName;
  const std::filesystem::path new_path = folder / StrCat(".", kControlSocketName, ".new");
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  ASSIGN_OR_RETURN(const sockaddr_un new_address, AddressOf(new_path));
  // Until it listens. Before that, another daemon that starts would take its place.
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(folder));
  RETURN_IF_ERROR(RemoveStale(path, address));

  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return Errno("socket for", path);
  // A daemon that died between bind() and rename() left it.
  if (unlink(new_path.c_str()) != 0 && errno != ENOENT) return Errno("remove", new_path);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&new_address), sizeof new_address) !=
      0) {
    return Errno("bind", new_path);
  }
  if (chmod(new_path.c_str(), kSocketMode) != 0) return Errno("chmod", new_path);
  if (listen(listener.get(), kListenBacklog) != 0) return Errno("listen on", new_path);
  if (rename(new_path.c_str(), path.c_str()) != 0) return Errno("rename to", path);
  return listener;
}

absl::Status CheckInheritedListener(int fd) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  int type = 0;
  socklen_t type_size = sizeof type;
  int listening = 0;
  socklen_t listening_size = sizeof listening;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sun_family != AF_UNIX ||
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_STREAM ||
      getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_size) != 0 ||
      listening == 0) {
    return absl::InvalidArgumentError(
        StrCat("descriptor ", fd,
               " is not a listening unix stream socket; check the unit's "
               "ListenStream="));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ControlListener>> ControlListener::Start(
    UniqueFd listener, PeerTable& peers, ProcessReader& processes,
    std::shared_ptr<CallerTraffic> traffic, OnConnection on_connection, Watchdog* watchdog) {
  ASSIGN_OR_RETURN(auto loop, AcceptLoop::Create(std::move(listener)));
  return std::unique_ptr<ControlListener>(new ControlListener(
      std::move(loop), peers, processes, std::move(traffic), std::move(on_connection), watchdog));
}

ControlListener::ControlListener(std::unique_ptr<AcceptLoop> loop, PeerTable& peers,
                                 ProcessReader& processes, std::shared_ptr<CallerTraffic> traffic,
                                 OnConnection on_connection, Watchdog* watchdog)
    : peers_(peers),
      processes_(processes),
      traffic_(std::move(traffic)),
      on_connection_(std::move(on_connection)),
      loop_(std::move(loop)) {
  RefusePassedFiles(loop_->listener());
  if (!ReceiveHookIsInPlace()) {
    LogError(
        "control.sock: callers are not held to limits of frames; use a profd that was built "
        "from the released sources");
  }
  loop_->Start("profd-accept", "control.sock",
               {.on_connection = [this](UniqueFd connection) { Admit(std::move(connection)); },
                .on_ended = [this](int watched_fd) { ConnectionEnded(watched_fd); }},
               watchdog);
}

ControlListener::~ControlListener() { Stop(); }

void ControlListener::Stop() { loop_->Stop(); }

void ControlListener::Admit(UniqueFd connection) {
  const absl::StatusOr<PeerIds> ids = PeerIdsOf(connection.get());
  if (!ids.ok()) return closer_->CloseConnection(std::move(connection));
  const std::string caller = StrCat("uid ", ids->uid);
  const std::string shown = StrCat(caller, " pid ", ids->pid);
  // Before anything that takes longer: a caller beyond its rate costs as little as can be.
  if (const auto exceeded = traffic_->TakeConnection(caller)) {
    return Refuse(std::move(connection), shown, *exceeded);
  }
  RefusePassedFiles(connection.get());  // It may have waited before the listener was set up.
  absl::StatusOr<Peer> peer = IdentifyPeer(connection.get(), processes_);
  if (!peer.ok()) return Refuse(std::move(connection), shown, FromAbsl(peer.status().message()));
  if (closer_->is_full()) {
    return Refuse(std::move(connection), shown, "callers passed descriptors that cannot be closed");
  }
  if (!peers_.Reserve(peer->principal)) {
    return Refuse(std::move(connection), shown, "too many connections");
  }
  UniqueFd watched(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  absl::StatusOr<UniqueFd> numbered = MoveToHighNumber(std::move(connection));
  if (!watched.valid() || !numbered.ok()) return peers_.Release(peer->principal);

  // Before gRPC has the connection: its first call may come at once, on another thread, and is
  // looked up by this number.
  const PeerTable::Ticket ticket = peers_.Add(numbered->get(), *peer);
  const int watched_fd = watched.get();
  const auto meter =
      std::make_shared<CallerMeter>(traffic_, caller, StrCat("control.sock: ", shown), closer_);
  watched_[watched_fd] = {.fd = std::move(watched), .ticket = ticket, .meter = meter};
  if (!loop_->Watch(watched_fd).ok()) return ConnectionEnded(watched_fd);
  ObserveReceives(numbered->get(), meter);
  on_connection_(*std::move(numbered));
}

void ControlListener::Refuse(UniqueFd connection, std::string_view caller, std::string_view why) {
  if (const auto n = refusals_.Allow()) {
    LogWarning(StrCat("control.sock: refused ", caller, ": ", why, " (", *n, " more)"));
  }
  closer_->CloseConnection(std::move(connection));
}

absl::StatusOr<UniqueFd> ControlListener::MoveToHighNumber(UniqueFd connection) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kLowestNumber + kNumberRange));
  const int low = std::min(kLowestNumber, end / 4);
  if (next_number_ < low || next_number_ >= end) next_number_ = low;
  // gRPC names a connection by its descriptor. Numbers go round, so that the number of a connection
  // that has just ended is not used again at once (peer_table.h).
  int moved = fcntl(connection.get(), F_DUPFD_CLOEXEC, next_number_);
  if (moved < 0) moved = fcntl(connection.get(), F_DUPFD_CLOEXEC, low);  // The end is full.
  if (moved < 0) return absl::ErrnoToStatus(errno, "F_DUPFD_CLOEXEC");
  next_number_ = moved + 1;
  return UniqueFd(moved);
}

void ControlListener::ConnectionEnded(int watched_fd) {
  const auto it = watched_.find(watched_fd);
  if (it == watched_.end()) return;
  peers_.Remove(it->second.ticket);
  loop_->Forget(watched_fd);
  // Takes out what gRPC did not read, so that gRPC's own close() finds an empty queue.
  closer_->CloseConnection(std::move(it->second.fd));
  // It stays the observer of its number: gRPC may still read, also descriptors.
  it->second.meter->End();
  watched_.erase(it);
}

}  // namespace profd::rpc
