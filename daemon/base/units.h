// Numbers as people read them.
//
// Threads: any. Errors: none.
#ifndef PROFD_DAEMON_BASE_UNITS_H_
#define PROFD_DAEMON_BASE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace profd {

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

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_UNITS_H_
