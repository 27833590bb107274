// `profctl trace` on many nodes: from a request to a finished group, its table and its files.
#ifndef PROFD_CLI_COMMANDS_TRACE_GROUP_H_
#define PROFD_CLI_COMMANDS_TRACE_GROUP_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/base/interrupts.h"
#include "cli/captures/fleet.h"
#include "cli/captures/group_capture.h"
#include "cli/captures/output_file.h"

namespace profd::cli {

// Returns the exit code: 0 when every process of every node has all that was asked for, 4 when
// some have. `output` empty: no files; else each process gets one, with its rank or pid in front
// of the suffix.
absl::StatusOr<int> TraceGroup(Invocation& invocation, Fleet& fleet, Interrupts& interrupts,
                               GroupCaptureRequest request, const std::string& output,
                               const OutputKind& output_kind);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_TRACE_GROUP_H_
