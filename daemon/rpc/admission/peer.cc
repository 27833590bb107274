#include "daemon/rpc/admission/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/ingest/workload.h"

namespace profd::rpc {
namespace {

#ifndef SO_PEERPIDFD
constexpr int kSoPeerPidfd = 77;  // Linux 6.5
#else
constexpr int kSoPeerPidfd = SO_PEERPIDFD;
#endif

constexpr size_t kContainerIdLength = 64;

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// A handle on the peer's process that no reuse of its pid can fool: from the connection
// itself where the kernel offers that, otherwise the process that has the pid now.
UniqueFd OpenPeerPidfd(int socket_fd, pid_t pid) {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (getsockopt(socket_fd, SOL_SOCKET, kSoPeerPidfd, &pidfd, &size) == 0) return UniqueFd(pidfd);
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

// False once it has ended. True where it cannot be told (a kernel without pidfds).
bool MayBeAlive(const UniqueFd& pidfd, int open_error) {
  if (!pidfd.valid()) return open_error != ESRCH;
  pollfd poll_fd{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return poll(&poll_fd, 1, 0) == 0;
}

// Enough to read about a process, which opens its folder and files in it.
bool HasDescriptorsLeft(int fd) {
  std::array<UniqueFd, 4> spare;
  for (UniqueFd& one : spare) one.Reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return spare.back().valid();
}

ProcessPlace PlaceOf(const absl::StatusOr<std::unique_ptr<ProcFacts>>& facts) {
  return facts.ok() ? PlaceFrom(**facts) : ProcessPlace();
}

// Supplementary groups, as they were at connect(). None where the kernel does not tell (before
// Linux 4.13): a rule for a group then does not reach members by those.
std::vector<int64_t> GroupsOf(int socket_fd) {
  std::vector<gid_t> groups(64);
  socklen_t bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  int result = getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  if (result != 0 && errno == ERANGE) {  // `bytes` says how much there is.
    groups.resize(bytes / sizeof(gid_t));
    result = getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  }
  if (result != 0) return {};
  return {groups.begin(), groups.begin() + static_cast<ptrdiff_t>(bytes / sizeof(gid_t))};
}

}  // namespace

std::string ContainerOf(std::string_view cgroup) {
  std::string found;
  size_t i = 0;
  while (i < cgroup.size()) {
    const size_t begin = i;
    while (i < cgroup.size() && IsHexDigit(cgroup[i])) ++i;
    const std::string_view after = cgroup.substr(i);
    const bool starts =
        begin == 0 || std::string_view("/:-").find(cgroup[begin - 1]) != std::string_view::npos;
    const bool ends =
        after.empty() || after[0] == '/' || after[0] == '\n' || after.starts_with(".scope");
    // The last one counts: in nested containers it is the innermost.
    if (i - begin == kContainerIdLength && starts && ends) {
      found = cgroup.substr(begin, kContainerIdLength);
    }
    if (i == begin) ++i;
  }
  return found;
}

ProcessPlace PlaceFrom(const ProcFacts& facts) {
  const auto text = [](const NamespaceId& id) {
    return id.known() ? StrCat(id.device, ":", id.inode) : std::string();
  };
  static const CgroupFolders cgroup_folders;
  const std::string_view cgroup = facts.cgroup_text();
  return {.user_namespace = text(facts.user_namespace),
          .pid_namespace = text(facts.pid_namespace),
          .container = ContainerOf(cgroup),
          .job = WorkloadOf(cgroup, &cgroup_folders).slurm_job};
}

bool IsKnown(const ProcessPlace& place) {
  return !place.user_namespace.empty() && !place.pid_namespace.empty();
}

bool IsOutside(int64_t uid, int64_t pid, const ProcessPlace& peer, const ProcessPlace& ours) {
  if (pid <= 0) return true;
  if (!IsKnown(peer) || !IsKnown(ours)) return uid == 0;
  return peer.user_namespace != ours.user_namespace || peer.pid_namespace != ours.pid_namespace ||
         peer.container != ours.container;
}

absl::StatusOr<PeerIds> PeerIdsOf(int socket_fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return absl::ErrnoToStatus(errno, "SO_PEERCRED");
  }
  return PeerIds{.uid = credentials.uid, .gid = credentials.gid, .pid = credentials.pid};
}

absl::StatusOr<Peer> IdentifyPeer(int socket_fd, ProcessReader& processes) {
  ASSIGN_OR_RETURN(const PeerIds ids, PeerIdsOf(socket_fd));
  Peer peer{.principal = {.uid = ids.uid, .gid = ids.gid, .groups = GroupsOf(socket_fd)},
            .pid = ids.pid,
            .address = StrCat("unix:", ids.pid)};
  if (ids.pid <= 0) return peer;
  // Nothing could be read then, and a peer of another namespace would be taken for one of ours.
  if (!HasDescriptorsLeft(socket_fd)) {
    return absl::ResourceExhaustedError(
        "profd has no file descriptor left (LimitNOFILE= of its unit, ulimit -n)");
  }
  static const ProcessPlace ours = PlaceOf(ReadProcFolder("/proc/self"));
  const UniqueFd pidfd = OpenPeerPidfd(socket_fd, static_cast<pid_t>(ids.pid));
  const int open_error = errno;
  const ProcessPlace place = PlaceOf(pidfd.valid() ? processes.Read(pidfd.get())
                                                   : ReadProcFolder(StrCat("/proc/", ids.pid)));
  peer.place_known = IsKnown(place);
  if (place.job != ours.job) peer.principal.job = place.job;
  // If it has ended, what was read may be of another process that got the pid.
  peer.outside =
      !MayBeAlive(pidfd, open_error) || IsOutside(peer.principal.uid, peer.pid, place, ours);
  return peer;
}

}  // namespace profd::rpc
