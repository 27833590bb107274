// Whether captures can be of the ranks of one run, recorded together. Reports that compare ranks
// refuse others, unless --group is given.
#ifndef PROFD_CLI_CAPTURES_ONE_RUN_H_
#define PROFD_CLI_CAPTURES_ONE_RUN_H_

#include <span>

#include "absl/status/status.h"
#include "cli/base/flags.h"
#include "daemon/capture/capture_types.h"

namespace profd::cli {

// Returns FAILED_PRECONDITION, with the reason, if two of the captures are of different jobs or
// world sizes, are of the same rank or process, or were recorded at different times. Captures that
// a daemon recorded as one group are of one run.
absl::Status CheckOneRun(std::span<const CaptureRecord* const> captures);

// --group, which leaves out the check.
Flag ForceGroupFlag();

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_ONE_RUN_H_
