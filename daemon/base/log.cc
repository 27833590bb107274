#include "daemon/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "ERROR";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kDebug:
      return "DEBUG";
  }
  return "?";
}

int SyslogPriority(LogLevel level) {
  constexpr int kPriorities[] = {3, 4, 6, 7};
  return kPriorities[static_cast<int>(level)];
}

// A target or caller must not forge lines of the log.
void AppendOneLine(std::string_view text, std::string& line) {
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    line.push_back(control ? ' ' : c);
  }
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) { return level <= g_level.load(std::memory_order_relaxed); }

std::optional<LogLevel> LogLevelFromString(std::string_view text) {
  if (text == "error") return LogLevel::kError;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "info") return LogLevel::kInfo;
  if (text == "debug") return LogLevel::kDebug;
  return std::nullopt;
}

void Log(LogLevel level, std::string_view text) {
  if (!LogEnabled(level)) return;
  static const bool to_journal = std::getenv("JOURNAL_STREAM") != nullptr;
  std::string line;
  if (to_journal) {
    StrAppend(&line, "<", SyslogPriority(level), ">");
  } else {
    StrAppend(&line, absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()),
              " ", LevelName(level), " ");
  }
  AppendOneLine(text, line);
  line.push_back('\n');
  // One write, so that lines of several threads do not mix. A full pipe loses the line.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

std::optional<int64_t> RateLimiter::Allow() {
  const absl::Duration now = clock_.Monotonic();
  absl::MutexLock lock(&mu_);
  if (now < next_) {
    ++suppressed_;
    return std::nullopt;
  }
  next_ = now + interval_;
  return std::exchange(suppressed_, 0);
}

}  // namespace profd
