// Failures: which of several things that a command does one after another failed, and why. One
// that fails does not keep the rest, and each is named: on stderr, and in --json.
#ifndef PROFD_CLI_BASE_FAILURES_H_
#define PROFD_CLI_BASE_FAILURES_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "cli/base/object.h"

namespace profd::cli {

struct Failure {
  std::string name;  // The ID of a capture, or a file. Empty: there is no capture.
  std::string node;  // Empty: the only one that was asked.
  absl::Status status;
};

// For lists named "errors".
const ObjectDescription<Failure>& FailedCaptureObject();  // {"id", "node", "message"}
const ObjectDescription<Failure>& FailedTraceObject();    // {"source", "node", "message"}
const ObjectDescription<Failure>& FailedIdObject();       // {"id", "message"}

// "profctl: `noun` NAME on NODE: MESSAGE", a line for each; then each advice once. Ends in a
// newline. Empty: nothing failed.
std::string DescribeFailures(std::span<const Failure> failures, std::string_view noun);

// 130: interrupted. 4: others were done (`any_done`). Else the code of the first failure; 0: there
// is none.
int ExitCodeOf(std::span<const Failure> failures, bool any_done);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_FAILURES_H_
