// Small text files with one setting a line: profd's settings, contexts, thresholds, policies,
// credentials, lists of nodes. A line ends with "\n" or "\r\n"; '#' begins a comment; whitespace
// around lines, names, and values does not count. Each user checks the characters and the length
// of its values.
//
// Threads: any.
#ifndef PROFD_DAEMON_BASE_TEXT_FILE_H_
#define PROFD_DAEMON_BASE_TEXT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd {

// Returns the first `most_bytes` of a file; callers that have a limit ask for one byte more.
// `fd` is the file if it is open, and stays open. Errors: "cannot read PATH: REASON", with the
// code of the system's error.
absl::StatusOr<std::string> ReadUpTo(size_t most_bytes, const std::filesystem::path& path,
                                     int fd = -1);

// Returns whether there is a file at `path`, for one that need not exist. Only ENOENT and ENOTDIR
// say that there is none: what cannot be looked for, as in a folder that is closed to this user, is
// an error, "cannot look for PATH: REASON".
absl::StatusOr<bool> IsThere(const std::filesystem::path& path);

// Without ASCII whitespace at both ends.
std::string_view Trimmed(std::string_view text);

enum class Comments {
  kAnywhere,    // From '#' to the end of the line.
  kWholeLines,  // Lines that begin with '#'; a value may contain one.
  kKept,        // `take` treats them.
};
// Calls take(line, number) for each line that has something left, in order. Its first error ends
// the reading and is returned with `where` and the line's number before its message: "f:3: ...".
absl::Status ForEachLine(std::string_view text, std::string_view where, Comments comments,
                         absl::FunctionRef<absl::Status(std::string_view line, int number)> take);

// Returns the two sides of the first '='; nullopt: there is none.
std::optional<std::pair<std::string_view, std::string_view>> SplitSetting(std::string_view line);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_TEXT_FILE_H_
