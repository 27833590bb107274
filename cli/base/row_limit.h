// --limit: how many rows of a table a command shows, as text, with --json, and with --csv alike. 0
// is all, which is the default with --json and --csv. A test goes through all commands
// (tests/cli/limit_test.py).
#ifndef PROFD_CLI_BASE_ROW_LIMIT_H_
#define PROFD_CLI_BASE_ROW_LIMIT_H_

#include <cstdint>

namespace profd::cli {

// Default of --limit for people, where the command has no reason for another.
inline constexpr int64_t kRowsForPeople = 50;
// Maximum of --limit for lists that a daemon pages.
inline constexpr int64_t kMaxListedRows = 1'000'000'000;

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_ROW_LIMIT_H_
