// The rules by which other tools load a Chrome trace, as far as CPU traces can break them:
//   header   object with the members in Kineto's order; traceName last
//   rank     `"rank": N`, with the space, once before the events iff there is a rank
//   events   every X has cat, name, ts, dur; pid and tid are integers
//   nesting  X events of one (pid, tid) nest or are disjoint
//   steps    ProfilerStep#k are contiguous where their numbers are
//   names    at most 4096 bytes, no control characters, not empty
//   times    three decimals, 0 <= ts < 2^53 us
//   end      the last event is "Record Window End"
#ifndef PROFD_TESTS_EXPORT_TRACE_RULES_H_
#define PROFD_TESTS_EXPORT_TRACE_RULES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/export/strict_json.h"

namespace profd {

// "12.345" as 12345; -1 for anything that is not digits, a point and three digits.
int64_t TraceTimeNs(const JsonValue& value);

// One sentence per offence; none for a good trace. `text` is the file, `root` its value.
std::vector<std::string> TraceRuleOffences(std::string_view text, const JsonValue& root);

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_TRACE_RULES_H_
