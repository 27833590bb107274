#include "client_lib/core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client_lib/core/own_files.h"

// Newer than the headers of some images; one number on all architectures.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace profd::client {
namespace {

constexpr const char* kLevelNames[] = {"silent", "error", "warning", "info", "debug"};
constinit LogLevel g_level = LogLevel::kSilent;

// The program's standard error, for a thread that is not in the program's descriptor table. A
// duplicate, which has the program's position in a file. A second opening, which cannot have that,
// where duplicates are refused, and not tried under a filter that might kill for it. -1: none.
int OpenProgramStderr() {
  if (!HasSeccompFilter()) {
    const auto process = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
    const int fd =
        process < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0));
    if (process >= 0) close(process);
    if (fd >= 0) return fd;
  }
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", static_cast<int>(getpid()), STDERR_FILENO);
  return open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

void WriteLine(const char* line, size_t bytes) {
  const bool must_open = HasLeftProgramFiles();
  const int fd = must_open ? OpenProgramStderr() : STDERR_FILENO;
  if (fd < 0) return;
  const ssize_t ignored = write(fd, line, bytes);
  static_cast<void>(ignored);
  if (must_open) close(fd);
}

}  // namespace

void InitLog() {
  const char* wanted = getenv("PROFD_LOG");
  if (wanted == nullptr) return;
  for (int level = 0; level <= static_cast<int>(LogLevel::kDebug); ++level) {
    if (strcmp(wanted, kLevelNames[level]) == 0) g_level = static_cast<LogLevel>(level);
  }
}

void Log(LogLevel level, const char* format, ...) {
  if (level > g_level) return;
  const int saved_errno = errno;
  char line[512];
  int used = snprintf(line, sizeof(line), "profd[%d] %s: ", static_cast<int>(getpid()),
                      kLevelNames[static_cast<int>(level)]);
  va_list arguments;
  va_start(arguments, format);
  const int wrote =
      vsnprintf(line + used, sizeof(line) - 1 - static_cast<size_t>(used), format, arguments);
  va_end(arguments);
  if (wrote > 0) used += wrote;
  if (used > static_cast<int>(sizeof(line)) - 2) used = sizeof(line) - 2;
  line[used++] = '\n';
  WriteLine(line, static_cast<size_t>(used));
  errno = saved_errno;
}

}  // namespace profd::client
