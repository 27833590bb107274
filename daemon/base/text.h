// Cleaning text that comes from targets and callers before people or parsers see it.
#ifndef PROFD_DAEMON_BASE_TEXT_H_
#define PROFD_DAEMON_BASE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace profd {

// Valid UTF-8: bytes that are not become U+FFFD, one for each maximal invalid run's byte.
// Control characters stay.
std::string ToValidUtf8(std::string_view untrusted);
bool IsValidUtf8(std::string_view text);

// For one line of a terminal or log: valid UTF-8; control characters (also C1 and DEL) and
// invisible characters that reorder or hide text become '?'; and at most `max_bytes`, cut at a
// character and ended by "..." if longer.
std::string ForDisplay(std::string_view untrusted, size_t max_bytes);

// True if valid UTF-8 without characters that ForDisplay() replaces.
bool IsPrintableUtf8(std::string_view text);

// `text` with JSON's escapes, without the quotes; input must be valid UTF-8.
// The characters that ForDisplay() replaces, '"', and '\' are escaped; the rest is copied.
void AppendJsonEscaped(std::string_view text, std::string& out);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_TEXT_H_
