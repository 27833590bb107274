// Log lines for operators, on stderr (systemd's journal picks up the "<N>" level marks
// when JOURNAL_STREAM is set).
//
//   LogInfo(StrCat("capture=", id, " state=RECORDING"));
//
// ERROR: someone must act. WARNING: worked around. INFO: one line per life-cycle step.
// DEBUG: off unless asked for. Repeats of one `key` are limited by RateLimiter.
//
// A reader of stderr that stops reading must not stop the thread that logs. While a LogThread
// exists, Log() only queues the line, and that thread waits for the reader. Lines beyond
// LogThread::kMaxQueuedBytes are dropped and counted; a later line reports their number.
// Without a LogThread (profctl, most tests) Log() writes the line itself.
//
// Threads: any; a line is written whole.
#ifndef PROFD_DAEMON_BASE_LOG_H_
#define PROFD_DAEMON_BASE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"

namespace profd {

enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

// Lines above `level` are not written. Default: INFO.
void SetLogLevel(LogLevel level);
std::optional<LogLevel> LogLevelFromString(std::string_view text);  // "info"
bool LogEnabled(LogLevel level);

// How lines look:
//   text  2026-11-20T10:11:12.345Z INFO capture=01J… state=RECORDING
//   json  {"time":"2026-11-20T10:11:12.345Z","level":"info","message":"capture=01J… …"}
// Default: text, in which the journal's lines have no time and no level of their own.
enum class LogFormat { kText, kJson };
void SetLogFormat(LogFormat format);
std::optional<LogFormat> LogFormatFromString(std::string_view text);  // "json"

void Log(LogLevel level, std::string_view text);
inline void LogError(std::string_view text) { Log(LogLevel::kError, text); }
inline void LogWarning(std::string_view text) { Log(LogLevel::kWarning, text); }
inline void LogInfo(std::string_view text) { Log(LogLevel::kInfo, text); }
inline void LogDebug(std::string_view text) { Log(LogLevel::kDebug, text); }

// LogThread writes the process's log lines to one descriptor, on its own thread ("profd-log").
// It sleeps while no line is queued.
//
// Threads:  Create and destroy on one thread, at most one LogThread at a time.
// Shutdown: the destructor waits up to `kFlushTimeout` for the reader, then drops what is left
//           and leaves its blocked thread behind; the thread ends with the process.
class LogThread {
 public:
  static constexpr size_t kMaxQueuedBytes = 256 << 10;
  static constexpr absl::Duration kFlushTimeout = absl::Seconds(1);

  // `fd` must stay open until the process ends.
  explicit LogThread(int fd);
  ~LogThread();
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;

  int64_t lost_lines() const;  // Since the start.

 private:
  class Queue;
  const std::shared_ptr<Queue> queue_;
};

// Lets one line through per interval and counts the rest.
//
//   if (auto n = limiter.Allow()) LogWarning(StrCat("bad frame (", *n, " more)"));
class RateLimiter {
 public:
  explicit RateLimiter(absl::Duration interval, Clock& clock = Clock::Real())
      : interval_(interval), clock_(clock) {}
  // The number of calls suppressed since the last one allowed; nullopt: suppressed.
  std::optional<int64_t> Allow();

 private:
  const absl::Duration interval_;
  Clock& clock_;
  absl::Mutex mu_;
  absl::Duration next_ ABSL_GUARDED_BY(mu_) = -absl::InfiniteDuration();
  int64_t suppressed_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_LOG_H_
