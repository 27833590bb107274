#include "daemon/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "daemon/base/cond_var.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kText};

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

std::string TimeNow() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
}

std::string FormatJsonLine(LogLevel level, std::string_view text) {
  JsonWriter json;
  json.BeginObject();
  json.Field("time", TimeNow());
  json.Field("level", absl::AsciiStrToLower(ToAbsl(LevelName(level))));
  json.Field("message", text);
  json.EndObject();
  return json.TakeLine();
}

std::string FormatLine(LogLevel level, std::string_view text) {
  static const bool to_journal = std::getenv("JOURNAL_STREAM") != nullptr;
  std::string line;
  if (to_journal) StrAppend(&line, "<", SyslogPriority(level), ">");
  if (g_format.load(std::memory_order_relaxed) == LogFormat::kJson) {
    return StrCat(line, FormatJsonLine(level, text));
  }
  if (!to_journal) StrAppend(&line, TimeNow(), " ", LevelName(level), " ");
  AppendOneLine(text, line);
  line.push_back('\n');
  return line;
}

// Waits for the reader. Returns early if there is no reader any more.
void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      // Another process that shares the descriptor made it non-blocking.
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, -1);
      continue;
    }
    if (written < 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

// Shared by LogThread and its thread, which may outlive it.
class LogThread::Queue {
 public:
  explicit Queue(int fd) : fd_(fd) {}

  void Push(std::string_view line) {
    absl::MutexLock lock(&mu_);
    if (lines_.size() + line.size() > kMaxQueuedBytes) {
      ++lost_;
      ++unreported_;
      return;
    }
    lines_.append(line);
  }

  // The thread.
  void Run() {
    while (true) {
      std::string batch;
      int64_t lost = 0;
      {
        absl::MutexLock lock(&mu_);
        writing_ = false;
        written_.Signal();
        mu_.Await(absl::Condition(this, &Queue::HasWorkOrEnds));
        if (lines_.empty()) return;
        batch = std::exchange(lines_, {});
        lost = std::exchange(unreported_, 0);
        writing_ = true;
      }
      if (lost > 0) {
        batch += FormatLine(LogLevel::kWarning,
                            StrCat(lost, " log lines were lost because stderr was not read"));
      }
      WriteAll(fd_, batch);
    }
  }

  // Waits until all lines are written, up to `timeout`, and lets the thread end.
  void End(absl::Duration timeout) {
    absl::MutexLock lock(&mu_);
    ends_ = true;
    written_.AwaitWithTimeout(&mu_, timeout, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return lines_.empty() && !writing_;
    });
    lines_.clear();
  }

  int64_t lost() const {
    absl::MutexLock lock(&mu_);
    return lost_;
  }

 private:
  bool HasWorkOrEnds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return ends_ || !lines_.empty(); }

  const int fd_;
  mutable absl::Mutex mu_;
  std::string lines_ ABSL_GUARDED_BY(mu_);
  int64_t lost_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t unreported_ ABSL_GUARDED_BY(mu_) = 0;  // Of the lost: in no line yet.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  CondVar written_;  // For End().
};

namespace {

// Hands a line to the LogThread, if there is one.
class Destination {
 public:
  void Set(std::function<void(std::string_view)> push) {
    absl::MutexLock lock(&mu_);
    push_ = std::move(push);
  }
  bool TryPush(std::string_view line) {
    absl::MutexLock lock(&mu_);
    if (!push_) return false;
    push_(line);
    return true;
  }

 private:
  absl::Mutex mu_;
  std::function<void(std::string_view)> push_ ABSL_GUARDED_BY(mu_);
};

// Never destroyed: threads may log until the process ends.
Destination& TheDestination() {
  static auto* const destination = new Destination;
  return *destination;
}

}  // namespace

LogThread::LogThread(int fd) : queue_(std::make_shared<Queue>(fd)) {
  // Not joined: a reader that stopped would hold the process's end.
  std::thread([queue = queue_] {
    pthread_setname_np(pthread_self(), "profd-log");
    queue->Run();
  }).detach();
  TheDestination().Set([queue = queue_](std::string_view line) { queue->Push(line); });
}

LogThread::~LogThread() {
  TheDestination().Set(nullptr);
  queue_->End(kFlushTimeout);
}

int64_t LogThread::lost_lines() const { return queue_->lost(); }

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) { return level <= g_level.load(std::memory_order_relaxed); }

std::optional<LogLevel> LogLevelFromString(std::string_view text) {
  if (text == "error") return LogLevel::kError;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "info") return LogLevel::kInfo;
  if (text == "debug") return LogLevel::kDebug;
  return std::nullopt;
}

void SetLogFormat(LogFormat format) { g_format.store(format, std::memory_order_relaxed); }

std::optional<LogFormat> LogFormatFromString(std::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return std::nullopt;
}

void Log(LogLevel level, std::string_view text) {
  if (!LogEnabled(level)) return;
  const std::string line = FormatLine(level, text);
  if (TheDestination().TryPush(line)) return;
  // One write, so that lines of several threads do not mix.
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
