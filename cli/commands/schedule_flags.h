// The flags of `profctl schedule create`, and the ScheduleSpec that they say.
#ifndef PROFD_CLI_COMMANDS_SCHEDULE_FLAGS_H_
#define PROFD_CLI_COMMANDS_SCHEDULE_FLAGS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/base/flags.h"
#include "daemon/schedule/schedule_types.h"

namespace profd::cli {

std::vector<Flag> ScheduleFlags();

// INVALID_ARGUMENT (USAGE). Ranges are the daemon's to check. `now` for ages.
absl::StatusOr<ScheduleSpec> ScheduleSpecOf(const ParsedFlags& flags, absl::Time now);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_SCHEDULE_FLAGS_H_
