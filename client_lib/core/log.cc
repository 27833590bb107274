#include "client_lib/core/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace profd::client {
namespace {

constexpr const char* kLevelNames[] = {"silent", "error", "warning", "info", "debug"};
constinit LogLevel g_level = LogLevel::kSilent;

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
  const ssize_t ignored = write(STDERR_FILENO, line, static_cast<size_t>(used));
  static_cast<void>(ignored);
  errno = saved_errno;
}

}  // namespace profd::client
