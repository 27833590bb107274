// Doing one thing to each of several captures: what cancel, delete, and pin have in common.
#ifndef PROFD_CLI_COMMANDS_EACH_CAPTURE_H_
#define PROFD_CLI_COMMANDS_EACH_CAPTURE_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cli/client/capture_view.h"
#include "cli/client/daemon_client.h"
#include "cli/client/invocation.h"

namespace profd::cli {

// Calls `act` with the whole id of every argument, or of each capture of "groups/ID", and prints
// its id and `done`, or what it is now; or, with --json, {"captures": [...], "errors": [{"id",
// "message"}]}. One that fails does not keep the rest; the exit code is that of the first failure.
// With --nodes every capture is looked for on all of them, and `act` is called for different nodes
// at once.
absl::StatusOr<int> ForEachCapture(
    Invocation& invocation,
    absl::FunctionRef<absl::StatusOr<CaptureView>(DaemonClient&, const std::string&)> act,
    std::string_view done = "");

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_EACH_CAPTURE_H_
