#include "daemon/ingest/process_info.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

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
constexpr size_t kMaxProcFileBytes = 16 * 1024;

std::optional<std::string> ReadFile(const std::filesystem::path& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::string text(kMaxProcFileBytes, '\0');
  size_t used = 0;
  while (used < text.size()) {
    const ssize_t got = read(fd.get(), text.data() + used, text.size() - used);
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  text.resize(used);
  return text;
}

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

// Field 22 of /proc/PID/stat. Field 2, the process's name, may hold anything, also ')'.
std::optional<int64_t> StartTicks(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  for (int field = 2; field < 22; ++field) {
    const size_t space = stat.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    stat.remove_prefix(space + 1);
  }
  return ToInt64(stat);
}

// The innermost of "NSpid:\t4711\t12".
int64_t NamespacePid(std::string_view status) {
  const std::string_view line = LineAfter(status, "\nNSpid:");
  const size_t tab = line.rfind('\t');
  return tab == std::string_view::npos ? 0 : ToInt64(line.substr(tab + 1));
}

bool SameNamespace(const std::filesystem::path& process, const std::filesystem::path& self,
                   const char* which) {
  struct stat theirs;
  struct stat ours;
  return stat((process / "ns" / which).c_str(), &theirs) == 0 &&
         stat((self / "ns" / which).c_str(), &ours) == 0 && theirs.st_ino == ours.st_ino &&
         theirs.st_dev == ours.st_dev;
}

std::string CommandOf(std::string cmdline) {
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

absl::StatusOr<ProcessFacts> ReadProcessFacts(int64_t pid, const std::filesystem::path& proc) {
  const std::filesystem::path process = proc / std::to_string(pid);
  const std::optional<std::string> stat = ReadFile(process / "stat");
  const std::optional<int64_t> start = stat.has_value() ? StartTicks(*stat) : std::nullopt;
  if (!start.has_value()) return absl::NotFoundError(StrCat("no process ", pid));

  ProcessFacts facts;
  facts.start_ticks = *start;
  const std::string status = ReadFile(process / "status").value_or("");
  std::string_view parent = LineAfter(status, "\nPPid:");
  while (!parent.empty() && parent.front() == '\t') parent.remove_prefix(1);
  facts.parent_pid = ToInt64(parent);
  facts.namespace_pid = NamespacePid(status);
  const std::filesystem::path self = proc / "self";
  facts.foreign_namespace =
      !SameNamespace(process, self, "pid") || !SameNamespace(process, self, "user");
  facts.command = CommandOf(ReadFile(process / "cmdline").value_or(""));
  const std::string cgroup = ReadFile(process / "cgroup").value_or("");
  facts.cgroup = CgroupOf(cgroup);
  facts.workload = WorkloadOf(cgroup);
  return facts;
}

}  // namespace profd
