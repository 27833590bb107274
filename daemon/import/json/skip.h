// Where JSON values end, without a look at what they say. They must be JSON for the answer to mean
// anything, and are only read.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_JSON_SKIP_H_
#define PROFD_DAEMON_IMPORT_JSON_SKIP_H_

#include <string>
#include <string_view>

namespace profd::importer {

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
inline const char* SkipJsonSpace(const char* at, const char* end) {
  while (at != end && IsJsonSpace(*at)) ++at;
  return at;
}

// After the value that begins at `at`; nullptr: it may go on after `end`.
const char* SkipJsonValue(const char* at, const char* end);

// Without white space between its tokens.
std::string CompactJson(std::string_view json);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_JSON_SKIP_H_
