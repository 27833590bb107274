#include "daemon/ingest/process_info.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/ingest/workload.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace profd {
namespace {

constexpr size_t kMaxCommandBytes = 4096;
constexpr size_t kMaxCgroupBytes = 1024;

int64_t ToInt64(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The text between `from` and the end of its line; empty: there is no such line.
std::string_view LineAfter(std::string_view text, std::string_view from) {
  const size_t at = text.find(from);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + from.size());
  return text.substr(0, text.find('\n'));
}

// The innermost of "NSpid:\t4711\t12".
int64_t NamespacePid(std::string_view status) {
  const std::string_view line = LineAfter(status, "\nNSpid:");
  const size_t tab = line.rfind('\t');
  return tab == std::string_view::npos ? 0 : ToInt64(line.substr(tab + 1));
}

bool Same(const NamespaceId& theirs, const NamespaceId& ours) {
  return theirs.known() && theirs == ours;
}

std::string CommandOf(std::string_view text) {
  std::string cmdline(text);
  while (!cmdline.empty() && cmdline.back() == '\0') cmdline.pop_back();
  std::replace(cmdline.begin(), cmdline.end(), '\0', ' ');
  return ForDisplay(cmdline, kMaxCommandBytes);
}

// Of version 2 the one line "0::/path"; of version 1 the first controller's.
std::string CgroupOf(std::string_view text) {
  const std::string_view unified = LineAfter(text, "0::");
  if (!unified.empty()) return ForDisplay(unified, kMaxCgroupBytes);
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t colon = line.rfind(':');
  return colon == std::string_view::npos ? "" : ForDisplay(line.substr(colon + 1), kMaxCgroupBytes);
}

// Exact from Linux 6.5 on. Before, the pid is opened and the peer checked to be there
// still: a process that has ended cannot have handed its pid on before its socket closed.
UniqueFd OpenPidfd(int socket, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return UniqueFd(fd);
  UniqueFd opened(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd hung_up{.fd = socket, .events = 0, .revents = 0};
  if (poll(&hung_up, 1, 0) > 0 && (hung_up.revents & (POLLHUP | POLLERR)) != 0) opened.Reset();
  return opened;
}

}  // namespace

absl::StatusOr<PeerProcess> IdentifyPeer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return absl::NotFoundError("the socket has no peer");
  }
  // The kernel gives 0 for a process that this PID namespace does not contain.
  if (credentials.pid <= 0) {
    return absl::NotFoundError("the peer's pid is not visible from profd's pid namespace");
  }
  PeerProcess peer{.pid = credentials.pid,
                   .uid = credentials.uid,
                   .gid = credentials.gid,
                   .pidfd = OpenPidfd(socket, credentials.pid)};
  if (!peer.pidfd.valid() || HasEnded(peer.pidfd.get())) {
    return absl::NotFoundError(StrCat("process ", peer.pid, " has ended"));
  }
  return peer;
}

bool HasEnded(int pidfd) {
  pollfd readable{.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&readable, 1, 0) > 0;
}

namespace {

// The CPU time of a process that is in one of those states of /proc/PID/stat.
std::optional<int64_t> CpuTicksOf(int64_t pid, int64_t start_ticks, std::string_view states) {
  const UniqueFd fd(open(StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> buffer;
  const ssize_t size = fd.get() < 0 ? -1 : read(fd.get(), buffer.data(), buffer.size());
  if (size <= 0) return std::nullopt;
  std::string_view text(buffer.data(), static_cast<size_t>(size));
  // "4711 (name) T 1 ...": the name may have any characters. Field 3 is the state, 14 and 15 are
  // the CPU time of the program and of the kernel for it, 22 is the start.
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string_view::npos) return std::nullopt;
  text.remove_prefix(name_end + 2);
  if (text.empty() || states.find(text.front()) == states.npos) return std::nullopt;
  int64_t cpu_ticks = 0;
  for (int field = 3; field < 22; ++field) {
    if (field == 14 || field == 15) cpu_ticks += ToInt64(text);
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    text.remove_prefix(blank + 1);
  }
  if (ToInt64(text) != start_ticks) return std::nullopt;
  return cpu_ticks;
}

}  // namespace

// Not by a debugger: below strace, a process is that for a moment again and again.
bool IsStopped(int64_t pid, int64_t start_ticks) {
  return CpuTicksOf(pid, start_ticks, "T").has_value();
}

std::optional<int64_t> CpuTicksOfStopped(int64_t pid, int64_t start_ticks) {
  return CpuTicksOf(pid, start_ticks, "Tt");
}

ProcessFacts ProcessFactsFrom(const ProcFacts& proc, const std::filesystem::path& self) {
  ProcessFacts facts;
  facts.start_ticks = proc.start_ticks;
  std::string_view parent = LineAfter(proc.status_text(), "\nPPid:");
  while (!parent.empty() && parent.front() == '\t') parent.remove_prefix(1);
  facts.parent_pid = ToInt64(parent);
  facts.namespace_pid = NamespacePid(proc.status_text());
  facts.foreign_namespace =
      !Same(proc.pid_namespace, ReadNamespaceId(AT_FDCWD, (self / "ns/pid").c_str())) ||
      !Same(proc.user_namespace, ReadNamespaceId(AT_FDCWD, (self / "ns/user").c_str()));
  facts.command = CommandOf(proc.command_text());
  facts.cgroup = CgroupOf(proc.cgroup_text());
  const CgroupFolders folders;
  facts.workload = WorkloadOf(proc.cgroup_text(), &folders);
  facts.root_container = RootContainerOf(proc.cgroup_text(), &folders);
  return facts;
}

absl::StatusOr<ProcessFacts> ReadProcessFacts(ProcessReader& reader, int pidfd) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ProcFacts> proc, reader.Read(pidfd));
  return ProcessFactsFrom(*proc);
}

}  // namespace profd
