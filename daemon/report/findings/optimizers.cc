#include "daemon/report/findings/optimizers.h"

#include <algorithm>
#include <array>
#include <utility>

namespace profd::report {
namespace {

constexpr std::string_view kStepOfOptimizer = "Optimizer.step#";
constexpr std::string_view kStepSuffix = ".step";

// Of torch.optim 2.15. Its other classes have neither: LBFGS, SparseAdam, Muon.
constexpr std::array<std::string_view, 4> kFused = {"Adam", "AdamW", "SGD", "Adagrad"};
constexpr std::array<std::string_view, 8> kForeachOnly = {
    "ASGD", "Adadelta", "Adafactor", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"};

}  // namespace

bool IsOptimizerStep(std::string_view range) { return range.starts_with(kStepOfOptimizer); }

OptimizerVariants OptimizerVariantsOf(std::string_view range) {
  if (!IsOptimizerStep(range)) return {};
  range.remove_prefix(kStepOfOptimizer.size());
  if (!range.ends_with(kStepSuffix)) return {};
  range.remove_suffix(kStepSuffix.size());
  const bool fused = std::ranges::find(kFused, range) != kFused.end();
  const bool foreach_only = std::ranges::find(kForeachOnly, range) != kForeachOnly.end();
  return {.has_foreach = fused || foreach_only, .has_fused = fused};
}

void OptimizerSteps::Add(OptimizerVariants variants, int64_t start_ns, int64_t end_ns) {
  facts_.is_known = true;
  facts_.variants.has_foreach |= variants.has_foreach;
  facts_.variants.has_fused |= variants.has_fused;
  if (variants.has_foreach) steps_.push_back({start_ns, end_ns, 0});
}

OptimizerFacts OptimizerSteps::Take() {
  std::ranges::sort(steps_, {}, &IntervalSet::Interval::start_ns);
  for (const IntervalSet::Interval& step : steps_) facts_.steps.Add(step.start_ns, step.end_ns);
  return std::move(facts_);
}

}  // namespace profd::report
