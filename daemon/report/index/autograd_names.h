// Names of autograd's nodes, as torch's profiler and ours record them.
#ifndef PROFD_DAEMON_REPORT_INDEX_AUTOGRAD_NAMES_H_
#define PROFD_DAEMON_REPORT_INDEX_AUTOGRAD_NAMES_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// The torch.autograd.Function whose backward() a node runs: "Clamp" of "ClampBackward". Those of
// torch itself have a number; the code that a CompiledFunction runs was compiled. Empty: it runs
// none.
inline std::string_view AutogradFunctionOf(std::string_view node) {
  constexpr std::string_view kSuffix = "Backward";
  if (!node.ends_with(kSuffix) || node.find(':') != std::string_view::npos) return {};
  node.remove_suffix(kSuffix.size());
  return node == "CompiledFunction" ? std::string_view() : node;
}

// Which of the names of operators are of ranges in which code of the program runs as well, such as
// Python: forward() and backward() of a torch.autograd.Function, and hooks.
std::vector<bool> RunsProgramCode(std::span<const std::string> names);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_AUTOGRAD_NAMES_H_
