// Names of autograd's nodes, as torch's profiler and ours record them.
#ifndef PROFD_DAEMON_REPORT_INDEX_AUTOGRAD_NAMES_H_
#define PROFD_DAEMON_REPORT_INDEX_AUTOGRAD_NAMES_H_

#include <cstddef>
#include <string_view>

namespace profd::report {

// A name that only torch gives: "autograd::engine::evaluate_function: MulBackward0",
// "torch::autograd::AccumulateGrad", "MulBackward0".
inline bool IsAutogradNode(std::string_view name) {
  return name.starts_with("autograd::") || name.starts_with("torch::autograd::") ||
         name.ends_with("Backward0");
}

// Likewise "SumBackward1", "CompiledFunctionBackward", and a torch.autograd.Function of the
// program: names that ranges of a program without torch may have, too.
inline bool MayBeAutogradNode(std::string_view name) {
  if (IsAutogradNode(name)) return true;
  const size_t end = name.find_last_not_of("0123456789");
  return end != std::string_view::npos && name.substr(0, end + 1).ends_with("Backward");
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_AUTOGRAD_NAMES_H_
