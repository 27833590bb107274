// Points in time on the command line.
#ifndef PROFD_CLI_BASE_WHEN_H_
#define PROFD_CLI_BASE_WHEN_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace profd::cli {

// "2026-11-20T10:00:00Z", "2026-11-20" and "2026-11-20 10:00" (local time), or how long before
// `now`: "90s", "2h", "3d". INVALID_ARGUMENT (USAGE) naming `flag` ("since") for anything else.
absl::StatusOr<absl::Time> ParseWhen(std::string_view flag, const std::string& text,
                                     absl::Time now);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_WHEN_H_
