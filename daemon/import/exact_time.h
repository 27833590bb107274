// Numbers of traces from their text: a double holds a time of today, in microseconds, to a quarter
// of one only.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_EXACT_TIME_H_
#define PROFD_DAEMON_IMPORT_EXACT_TIME_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace profd::importer {

// No time lies further from the first: a year. What says so is damaged.
inline constexpr int64_t kMostReachNs = int64_t{366} * 24 * 3600 * 1'000'000'000;
// No event is longer, as `profctl check`, and HTA, say.
inline constexpr int64_t kMostDurationNs = int64_t{7} * 24 * 3600 * 1'000'000'000;

struct ExactTime {
  int64_t ns = 0;
  bool is_whole_us = true;  // However it is written: "17", "17.0", and "17.000".
};
// Nanoseconds of a JSON number of microseconds, rounded where it says more than three decimals.
// Nothing where it is no number, or none that fits.
std::optional<ExactTime> ParseMicros(std::string_view number);

// A JSON number that is an integer ("7", "7.0"), or one in quotes, as some releases write them,
// also as pointers print ("0x7f00").
std::optional<int64_t> ParseInteger(std::string_view token);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_EXACT_TIME_H_
