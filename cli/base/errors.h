// What went wrong, in the words of the command line: an exit code and what to do next.
//
// How do I add advice for a reason?  A row in kAdvice in errors.cc.
#ifndef PROFD_CLI_BASE_ERRORS_H_
#define PROFD_CLI_BASE_ERRORS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace profd::cli {

enum ExitCode {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitCondition = 3,  // A requested check found problems.
  kExitPartial = 4,    // Something was kept, not all that was asked.
  kExitRefused = 5,    // Not permitted, or busy.
  kExitNoDaemon = 6,
  kExitInterrupted = 130,
  kExitStdoutClosed = 141,  // As shells report a program that SIGPIPE ended.
};

// Reasons that profctl gives itself.
inline constexpr std::string_view kNoDaemonReason = "NO_DAEMON";
inline constexpr std::string_view kNoAnswerReason = "NO_ANSWER";
inline constexpr std::string_view kVersionsDifferReason = "VERSIONS_DIFFER";
inline constexpr std::string_view kNotTrustedReason = "NOT_TRUSTED";
inline constexpr std::string_view kOtherUsersDaemonReason = "OTHER_USERS_DAEMON";
inline constexpr std::string_view kLocalReason = "LOCAL";
inline constexpr std::string_view kStdoutClosedReason = "STDOUT_CLOSED";

// A failure of a file on this machine: exit code 1, whatever a daemon would mean by its code.
// OK, CANCELLED, and STDOUT_CLOSED stay as they are.
absl::Status LocalFailure(absl::Status status);

// A write to stdout that failed with `error_number`. EPIPE has the reason STDOUT_CLOSED, unless
// the program that started this one ignores SIGPIPE.
absl::Status StdoutError(int error_number);

// A thread that could not be started. Reason LOCAL.
absl::Status NoThreadError();

int ExitCodeOf(const absl::Status& status);

// What to do about it; empty where the message says all there is to say. `reason` is that of
// a status or of a capture that FAILED.
std::string_view AdviceFor(std::string_view reason);
// What to do about events that were lost for `drop_reason` ("no_chunk"), or a capture that
// ended early by `ended_by` ("byte_cap"). Empty: nothing.
std::string_view AdviceForDrop(std::string_view drop_reason);
std::string_view AdviceForEnd(std::string_view ended_by);

// "profctl: MESSAGE" and, on a line of its own, the advice. Ends in a newline. Empty for
// STDOUT_CLOSED: the reader has had enough (`| head`), and that is not an error.
std::string DescribeError(const absl::Status& status);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_ERRORS_H_
