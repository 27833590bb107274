// Log lines on stderr for those who ask with PROFD_LOG; silent otherwise.
//
// Threads: any, but never the hot path. Errors: a line that cannot be written is lost.
#ifndef PROFD_CLIENT_LIB_CORE_LOG_H_
#define PROFD_CLIENT_LIB_CORE_LOG_H_

namespace profd::client {

enum class LogLevel { kSilent = 0, kError = 1, kWarning = 2, kInfo = 3, kDebug = 4 };

// Reads PROFD_LOG. Anything not understood is silence.
void InitLog();

// One line, cut at 500 bytes.
void Log(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_LOG_H_
