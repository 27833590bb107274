// Of a collective operation, what torch.profiler's traces say of it and tools for distributed jobs
// read, out of the inputs that torch gives its operator `record_param_comms`
// (report/index/collective_names.h).
#ifndef PROFD_DAEMON_EXPORT_TRACE_COLLECTIVE_TEXT_H_
#define PROFD_DAEMON_EXPORT_TRACE_COLLECTIVE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/capture/event_kinds.h"
#include "daemon/report/index/collective_names.h"

namespace profd::exporter {

using report::kCollectiveOperator;
inline constexpr size_t kMostCollectiveBytes = 1024;

struct CollectiveText {
  // `"Collective name":"allreduce",...`: members of a JSON object, at most kMostCollectiveBytes.
  // Empty where the inputs are not such ones.
  std::string members;
  // The inputs are made of such members, by an import, and say nothing besides them.
  bool says_all = false;
};
// Both are as OperatorTexts gives them; `inputs` may be null.
CollectiveText DescribeCollective(std::string_view scalars, const OperatorInputs* inputs);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_COLLECTIVE_TEXT_H_
