// Times as people read them; numbers are in daemon/base/units.h. The inverse, for flags, is in
// flags.h.
#ifndef PROFD_CLI_BASE_UNITS_H_
#define PROFD_CLI_BASE_UNITS_H_

#include <string>

#include "absl/time/time.h"

namespace profd::cli {

// "2026-11-20 10:54:03" in the local time zone; "-" for times that are not.
std::string FormatLocalTime(absl::Time time);
// The largest two units: "3d 4h", "2h 5m", "12s".
std::string FormatAge(absl::Duration age);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_UNITS_H_
