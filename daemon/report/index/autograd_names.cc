#include "daemon/report/index/autograd_names.h"

#include "absl/container/flat_hash_set.h"

namespace profd::report {
namespace {

constexpr std::string_view kEvaluatePrefix = "autograd::engine::evaluate_function";
constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";

}  // namespace

std::vector<bool> RunsProgramCode(std::span<const std::string> names) {
  absl::flat_hash_set<std::string_view> functions;
  for (const std::string& name : names) {
    if (const std::string_view function = AutogradFunctionOf(name); !function.empty()) {
      functions.insert(function);
    }
  }
  std::vector<bool> runs;
  runs.reserve(names.size());
  for (const std::string& name : names) {
    runs.push_back(name.starts_with(kEvaluatePrefix) || name == kAccumulate ||
                   !AutogradFunctionOf(name).empty() || functions.contains(name));
  }
  return runs;
}

}  // namespace profd::report
