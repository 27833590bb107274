// A listing that is shown again and again until Ctrl-C, as `profctl top` shows it.
//
// Threads: one.
#ifndef PROFD_CLI_COMMANDS_WATCHING_H_
#define PROFD_CLI_COMMANDS_WATCHING_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/client/invocation.h"

namespace profd::cli {

// What a command shows: once, or each time.
struct Look {
  std::string text;   // For stdout.
  std::string notes;  // For stderr.
  int exit_code = 0;
};

// Looks every `interval` until Ctrl-C or SIGTERM, writes each look after the one before, and
// returns kExitInterrupted. The first error of a look, or of stdout, ends it. Call it before
// anything else starts a thread (interrupts.h).
absl::StatusOr<int> WatchUntilInterrupted(Invocation& invocation, absl::Duration interval,
                                          absl::FunctionRef<absl::StatusOr<Look>()> look);

// The same on a screen of its own, as top(1) has it, which `q` ends, too; then the exit code is
// that of the last look. Whatever ends it, the terminal is as before.
absl::StatusOr<int> WatchFullScreen(Invocation& invocation, absl::Duration interval,
                                    absl::FunctionRef<absl::StatusOr<Look>()> look);

// `text` as the whole screen of a terminal with `rows` lines (0: any number): what does not fit is
// left out, and the last line says how much. Public for tests.
std::string ScreenOf(std::string_view text, int rows);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_WATCHING_H_
