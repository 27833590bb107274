// Numbers as people read them. The inverse, for flags, is in flags.h.
#ifndef PROFD_CLI_BASE_UNITS_H_
#define PROFD_CLI_BASE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace profd::cli {

// As torch.profiler writes times: "12.345us", "1.234ms", "1.234s".
std::string FormatNs(int64_t ns);
// "-" for a negative number, which means unknown.
std::string FormatNsIfKnown(int64_t ns);
// "512 B", "1.50 KiB", "12.0 GiB"; negative numbers keep their sign.
std::string FormatBytes(int64_t bytes);
// "1,234,567"
std::string FormatCount(int64_t count);
// "1 launch", "1,234 launches".
std::string FormatCountOf(int64_t count, std::string_view one, std::string_view many);
// "12.34%" of `whole`; "-" where that is 0.
std::string FormatPercent(int64_t part, int64_t whole);
// "2026-11-20 10:54:03" in the local time zone; "-" for times that are not.
std::string FormatLocalTime(absl::Time time);
// The largest two units: "3d 4h", "2h 5m", "12s".
std::string FormatAge(absl::Duration age);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_UNITS_H_
