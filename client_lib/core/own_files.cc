#include "client_lib/core/own_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client_lib/core/log.h"

// Newer than the headers of some images; one number on all architectures.
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace profd::client {
namespace {

constexpr unsigned kCloseRangeUnshare = 1 << 1;
constexpr int kFirstOwnNumber = 512;

__thread bool t_has_left __attribute__((tls_model("initial-exec"))) = false;
constinit std::atomic<bool> g_is_shared{true};
constinit std::atomic<bool> g_is_forbidden{false};

// Not fstat(): its symbol version is newer than what the library may need.
bool Identify(int fd, uint64_t* device, uint64_t* inode) {
  struct stat info;
  if (syscall(SYS_fstat, fd, &info) != 0) return false;
  *device = info.st_dev;
  *inode = info.st_ino;
  return true;
}

// Reads a status file to its end: the line that lists the supplementary groups comes first, and
// may have 700 KiB.
bool SaysFiltered(int fd) {
  constexpr char kLabel[] = "\nSeccomp:\t2";
  size_t matched = 0;
  char piece[1024];
  for (;;) {
    const ssize_t got = read(fd, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    for (ssize_t i = 0; i < got; ++i) {
      if (piece[i] != kLabel[matched]) matched = 0;
      if (piece[i] == kLabel[matched]) ++matched;
      if (kLabel[matched] == '\0') return true;
    }
  }
}

int MoveUp(int fd) {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnNumber);
  if (high < 0) return fd;  // The limit of descriptors is lower.
  close(fd);
  return high;
}

}  // namespace

bool LeaveProgramFiles() {
  g_is_shared.store(true, std::memory_order_relaxed);
  if (g_is_forbidden.load(std::memory_order_relaxed)) {
    Log(LogLevel::kInfo, "the agent stays in the program's descriptor table: a test asks for it");
    return false;
  }
  // From 0 on: a copy of standard output would keep the program's pipe open.
  if (syscall(SYS_close_range, 0U, ~0U, kCloseRangeUnshare) != 0) {
    Log(LogLevel::kInfo, "close_range(): %s%s; the agent stays in the program's descriptor table",
        strerror(errno), HasSeccompFilter() ? " (a seccomp filter is set)" : "");
    return false;
  }
  t_has_left = true;
  g_is_shared.store(false, std::memory_order_relaxed);
  return true;
}

bool HasLeftProgramFiles() { return t_has_left; }
bool FilesAreShared() { return g_is_shared.load(std::memory_order_relaxed); }
void ForbidOwnFiles(bool forbidden) { g_is_forbidden.store(forbidden, std::memory_order_relaxed); }

bool HasSeccompFilter() {
  // Not prctl(PR_GET_SECCOMP), which filters know as little as what it would tell us about.
  const int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_filtered = SaysFiltered(fd);
  close(fd);
  return is_filtered;
}

void OwnFile::Take(int fd) { TakeInPlace(fd < 0 ? fd : MoveUp(fd)); }

void OwnFile::TakeInPlace(int fd) {
  Close();
  if (fd >= 0) Remember(fd);
}

void OwnFile::Remember(int fd) {
  uint64_t device = 0;
  uint64_t inode = 0;
  if (FilesAreShared() && !Identify(fd, &device, &inode)) return;
  device_.store(device, std::memory_order_relaxed);
  inode_.store(inode, std::memory_order_relaxed);
  fd_.store(fd, std::memory_order_relaxed);
}

int OwnFile::Get() {
  const int fd = fd_.load(std::memory_order_relaxed);
  if (fd < 0 || !FilesAreShared()) return fd;
  uint64_t device;
  uint64_t inode;
  if (Identify(fd, &device, &inode) && device == device_.load(std::memory_order_relaxed) &&
      inode == inode_.load(std::memory_order_relaxed)) {
    return fd;
  }
  Log(LogLevel::kWarning, "the program has closed descriptor %d, which was the library's", fd);
  Forget();
  return -1;
}

void OwnFile::Close() {
  const int fd = Get();
  Forget();
  if (fd >= 0) close(fd);
}

void OwnFile::ResetInChild() {
  if (FilesAreShared()) Close();
  Forget();
}

}  // namespace profd::client
