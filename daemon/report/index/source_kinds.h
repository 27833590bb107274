// Further values of ArgumentRow::of: what an imported trace had besides the arguments of its
// events. The import writes them, and exports of Chrome JSON write the same events again.
#ifndef PROFD_DAEMON_REPORT_INDEX_SOURCE_KINDS_H_
#define PROFD_DAEMON_REPORT_INDEX_SOURCE_KINDS_H_

#include <cstdint>
#include <string_view>

namespace profd::report {

// The name of a row, or its place among rows. `row` counts them in the order of the trace; the only
// argument is the event as JSON.
inline constexpr uint8_t kArgumentOfLabel = 33;
inline constexpr std::string_view kLabelKey = "label";

// Added to the kind of an event's row: the ends of arrows at that event. The key is the arrow
// without its number and place, the value its number:
//
//   f,"cat":"ac2g","name":"ac2g","bp":"e"      its phase; after the phase, from 2, which arrow of
//                                              the event it is
inline constexpr uint8_t kFlowsOf = 64;
inline constexpr uint32_t kMostFlowsOfEvent = 8;

// The end of an arrow that is not at an event of the capture. `row` counts them. Three arguments:
// the event as JSON without its time and number; the number; the time since the capture's start.
inline constexpr uint8_t kArgumentOfLooseFlow = 34;
inline constexpr std::string_view kFlowKey = "flow";
inline constexpr std::string_view kFlowIdKey = "id";
inline constexpr std::string_view kFlowTimeKey = "ns";
// No such arrow is further from the start than a year, so that times cannot overflow.
constexpr bool IsWithinReachOfFlows(int64_t ns) {
  constexpr int64_t kMostNs = int64_t{366} * 24 * 3600 * 1'000'000'000;
  return ns >= -kMostNs && ns <= kMostNs;
}

// A stream whose number is negative, or from kFirstWideStream up: its only argument is that number.
// `row`: which short number it has (wide_streams.h).
inline constexpr uint8_t kArgumentOfWideStream = 35;
inline constexpr std::string_view kWideStreamKey = "stream";

// When a trace began whose times count from no date, or from one before 1970, in ns since 1970: at
// most 0, which a record does not have. `row` is 0, and this is the only argument.
inline constexpr uint8_t kArgumentOfStart = 36;
inline constexpr std::string_view kStartKey = "value";

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_SOURCE_KINDS_H_
