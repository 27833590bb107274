// ULIDs: 26 characters of Crockford base 32; 48 bits of Unix milliseconds, 80 of chance.
// They sort by time and are unique across nodes. https://github.com/ulid/spec
#ifndef PROFD_DAEMON_BASE_ULID_H_
#define PROFD_DAEMON_BASE_ULID_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace profd {

inline constexpr size_t kUlidLength = 26;

// Unpredictable, from getrandom(2). Threads: any.
std::string NewUlid(absl::Time now);

// The ULID of these values: the time in whole milliseconds, the lower 16 bits of `high`, and `low`.
// For IDs that several nodes must compute alike.
std::string UlidOf(absl::Time time, uint64_t high, uint64_t low);

// 26 characters of the alphabet, upper case, that fit 128 bits.
bool IsUlid(std::string_view text);
// As IsUlid, but any length from 1 to 26: the start of one. Case is folded.
bool IsUlidPrefix(std::string_view text);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_ULID_H_
