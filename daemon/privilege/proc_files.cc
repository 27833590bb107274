#include "daemon/privilege/proc_files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

namespace profd {
namespace {

// The bytes of a small file below `folder`, or minus an errno.
ssize_t ReadAt(int folder, const char* name, char* bytes, size_t size) {
  const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -errno;
  size_t used = 0;
  ssize_t result = 0;
  while (used < size) {
    const ssize_t got = read(fd, bytes + used, size - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) result = -errno;
    if (got <= 0) break;
    used += static_cast<size_t>(got);
  }
  close(fd);
  return result < 0 ? result : static_cast<ssize_t>(used);
}

// `status` without the line that lists the supplementary groups: it may have 700 KiB, and lines
// that are needed follow it.
ssize_t ReadStatus(int folder, char* bytes, size_t size) {
  const int fd = openat(folder, "status", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -errno;
  constexpr std::string_view kGroups = "\nGroups:";
  char piece[4096];
  size_t used = 0;
  bool is_left_out = false;
  ssize_t result = 0;
  for (;;) {
    const ssize_t got = read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) result = -errno;
    if (got <= 0) break;
    for (const char c : std::string_view(piece, static_cast<size_t>(got))) {
      if (!is_left_out && used < size) bytes[used++] = c;
      if (is_left_out && c == '\n') {
        is_left_out = false;
      } else if (!is_left_out && std::string_view(bytes, used).ends_with(kGroups)) {
        used -= kGroups.size() - 1;
        is_left_out = true;
      }
    }
  }
  close(fd);
  return result < 0 ? result : static_cast<ssize_t>(used);
}

uint32_t BytesOrNone(ssize_t result) { return result < 0 ? 0 : static_cast<uint32_t>(result); }

// The pid of a pidfd, from a text that the kernel alone writes; -1: it is not one, or has ended.
int64_t PidOf(int pidfd) {
  char path[64];
  char text[1024];
  snprintf(path, sizeof path, "/proc/self/fd/%d", pidfd);
  const ssize_t length = readlink(path, text, sizeof text);
  if (length <= 0 || std::string_view(text, static_cast<size_t>(length)) != "anon_inode:[pidfd]") {
    return -1;
  }
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
  const ssize_t size = ReadAt(AT_FDCWD, path, text, sizeof text);
  const std::string_view info(text, BytesOrNone(size));
  constexpr std::string_view kLabel = "\nPid:\t";
  const size_t at = info.find(kLabel);
  if (at == std::string_view::npos) return -1;
  int64_t pid = -1;
  std::from_chars(info.data() + at + kLabel.size(), info.data() + info.size(), pid);
  return pid;
}

}  // namespace

int64_t StartTicksIn(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return -1;
  stat.remove_prefix(name_end + 1);
  for (int field = 2; field < 22; ++field) {
    const size_t space = stat.find(' ');
    if (space == std::string_view::npos) return -1;
    stat.remove_prefix(space + 1);
  }
  int64_t ticks = -1;
  std::from_chars(stat.data(), stat.data() + stat.size(), ticks);
  return ticks;
}

NamespaceId ReadNamespaceId(int process_folder, const char* path) {
  struct stat info {};
  if (fstatat(process_folder, path, &info, 0) != 0) return {};
  return {.device = info.st_dev, .inode = info.st_ino};
}

int ReadProcFacts(int process_folder, ProcFacts& facts) {
  char stat[2048];
  const ssize_t size = ReadAt(process_folder, "stat", stat, sizeof stat);
  if (size < 0) return static_cast<int>(-size);
  facts.start_ticks = StartTicksIn({stat, static_cast<size_t>(size)});
  if (facts.start_ticks < 0) return ESRCH;
  facts.status_bytes = BytesOrNone(ReadStatus(process_folder, facts.status, sizeof facts.status));
  facts.command_bytes =
      BytesOrNone(ReadAt(process_folder, "cmdline", facts.command, sizeof facts.command));
  facts.cgroup_bytes =
      BytesOrNone(ReadAt(process_folder, "cgroup", facts.cgroup, sizeof facts.cgroup));
  facts.user_namespace = ReadNamespaceId(process_folder, "ns/user");
  facts.pid_namespace = ReadNamespaceId(process_folder, "ns/pid");
  return 0;
}

bool ProcessHasEnded(int pidfd) {
  pollfd readable{.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&readable, 1, 0) != 0;
}

int OpenProcessOf(int pidfd, int64_t& pid) {
  pid = PidOf(pidfd);
  if (pid <= 0) return -EINVAL;
  char path[64];
  snprintf(path, sizeof path, "/proc/%lld", static_cast<long long>(pid));
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -errno;
  // If it lives now, no other process had its pid when the folder was opened.
  if (!ProcessHasEnded(pidfd)) return folder;
  close(folder);
  return -ESRCH;
}

}  // namespace profd
