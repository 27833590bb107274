// What `steps` and `stragglers` share of a group: its steps compared, below the group's header, or
// as JSON.
#ifndef PROFD_CLI_COMMANDS_SHOW_GROUP_STEPS_H_
#define PROFD_CLI_COMMANDS_SHOW_GROUP_STEPS_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cli/base/style.h"
#include "cli/captures/capture_set.h"
#include "cli/client/invocation.h"
#include "cli/commands/command.h"
#include "cli/render/group_reports.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

// The exit code: 4 where members are missing, which stderr names. `needs_common_steps`:
// FAILED_PRECONDITION if no step is in all captures.
absl::StatusOr<int> ShowGroupSteps(
    Invocation& invocation, CaptureSet& set, bool needs_common_steps,
    absl::FunctionRef<void(const CaptureSet&, const ComparedSteps&, JsonWriter&)> write_json,
    absl::FunctionRef<std::string(const CaptureSet&, const ComparedSteps&, const Style&)> render);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_SHOW_GROUP_STEPS_H_
