// What our Chrome traces promise: that `profctl check` finds nothing in them (daemon/check), and
// beyond what that asks of anyone's:
//   header   object with the members in Kineto's order; traceName last
//   names    at most 4096 bytes
//   times    three decimals
//   steps    ProfilerStep#k are contiguous where their numbers are
//   rows     a GPU's rows are named, each otherwise; its work has a context
//   flows    one "s", where an API call of that correlation is, for one or more "f", where GPU
//            work or a wait of it is, not earlier; one "s" of fwdbwd, where an operator begins, for
//            one "f", where another does, not earlier; an "External id" is that of one CPU slice
//   inputs   lists of one length, types and concrete inputs of strings
//   launches none is the first slice of the file
//   origin   what is simulated says so, in the header and in each GPU's label
//   end      the last event is "Record Window End"
#ifndef PROFD_TESTS_EXPORT_TRACE_TRACE_RULES_H_
#define PROFD_TESTS_EXPORT_TRACE_TRACE_RULES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/export/chrome/strict_json.h"

namespace profd {

// "12.345" as 12345; -1 for anything that is not digits, a point and three digits.
int64_t TraceTimeNs(const JsonValue& value);

// One sentence per offence; none for a good trace. `text` is the file, `root` its value.
std::vector<std::string> TraceRuleOffences(std::string_view text, const JsonValue& root);

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_TRACE_TRACE_RULES_H_
