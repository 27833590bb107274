// The names of torch.profiler's steps: "ProfilerStep#7". Names of the program's own, such as
// "ProfilerStep#x", may look like them.
//
// Threads: any.
#ifndef PROFD_DAEMON_REPORT_INDEX_STEP_NAMES_H_
#define PROFD_DAEMON_REPORT_INDEX_STEP_NAMES_H_

#include <string_view>

namespace profd::report {

inline constexpr std::string_view kProfilerStepPrefix = "ProfilerStep#";
// The row of all of them.
inline constexpr std::string_view kStepRow = "ProfilerStep*";

inline constexpr bool IsProfilerStep(std::string_view name) {
  return name.starts_with(kProfilerStepPrefix);
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STEP_NAMES_H_
