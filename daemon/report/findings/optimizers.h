// The steps of PyTorch's optimizers, and what PyTorch has for the classes that were recorded:
// foreach and fused ones update many tensors in one call. Others, such as LBFGS, have neither.
//
// Threads: any.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_OPTIMIZERS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_OPTIMIZERS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/report/index/interval_set.h"

namespace profd::report {

struct OptimizerVariants {
  bool has_foreach = false;
  bool has_fused = false;
};
// `range`: a range of torch around a step of an optimizer, "Optimizer.step#AdamW.step". Other names
// and classes have no variants.
OptimizerVariants OptimizerVariantsOf(std::string_view range);
bool IsOptimizerStep(std::string_view range);

// In the steps that count.
struct OptimizerFacts {
  bool is_known = false;       // Some step of an optimizer was recorded.
  OptimizerVariants variants;  // Of any of their classes.
  IntervalSet steps;           // Of optimizers that have variants.
};

// Collects them; ranges come in any order.
class OptimizerSteps {
 public:
  void Add(OptimizerVariants variants, int64_t start_ns, int64_t end_ns);
  OptimizerFacts Take();

 private:
  OptimizerFacts facts_;
  std::vector<IntervalSet::Interval> steps_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_OPTIMIZERS_H_
