// Steps that are much slower than the others, and what the slowest of them has more of than its
// neighbors: operators, collectives, data loading, waits, compilation, or host time in no range.
//
// Threads: one at a time. Errors: the reader's.
// Memory:  that of the operator table of one step.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_OUTLIERS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_OUTLIERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/findings/scope.h"
#include "daemon/report/findings/thresholds.h"
#include "daemon/report/time/time_report.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// A host that runs ahead, of the GPU or with prefetched data, waits in one step for what it did not
// wait for in others. So a step is charged with its length, less what the steps next to it are
// shorter than the median, and those beyond that are far shorter.
struct StepCharges {
  int64_t median_ns = 0;            // Of the steps' lengths.
  double bound_ns = 0;              // A step that is charged with more is an outlier.
  std::vector<int64_t> charged_ns;  // By stretch of the scope.
};
// nullopt: too few steps to tell.
std::optional<StepCharges> ChargesOf(const FindingScope& scope,
                                     const FindingThresholds& thresholds);
// By stretch of the scope. Where steps consist largely of host time outside operators, that time
// varies: a step with up to twice the usual amount of it is not an outlier because of that alone.
// `outside_ns`: that time, by stretch; empty: unknown.
std::vector<bool> OutliersOf(const FindingScope& scope, const FindingThresholds& thresholds,
                             std::span<const int64_t> outside_ns);

struct SlowStep {
  int64_t step = -1;  // -1: none is slow.
  int64_t duration_ns = 0;
  int64_t usual_ns = 0;  // Of its neighbors.
  // By time, longest first: how much more of it the step has than the median of its neighbors
  // (`duration_ns`). Causes may overlap; only those that explain a tenth of the difference.
  std::vector<Evidence> causes;
  // At least half of the difference is in operators and CUDA calls that the neighbors made as
  // often.
  bool mostly_slower_calls = false;
  // At least half of it is in operators and ranges that the neighbors did not have, or fewer times.
  bool mostly_more_calls = false;
  // It runs an optimizer more often than its neighbors do, and that, or more of the backward pass,
  // is a cause: the program updates that part of its model in some steps only, as a GAN's
  // generator. False if at least half of the difference is inference (inference_time.h), such as an
  // evaluation in such a step.
  bool updates_more = false;
  // How much longer it runs operators without gradients (inference_time.h) than its neighbors, if
  // that is at least half of the difference; else 0.
  int64_t more_inference_ns = 0;
  // The longest time of the step in which no range of any thread begins or ends: nothing is known
  // of what the program did, or whether it ran.
  int64_t silent_ns = 0;
  // Samples of the waits for a CPU begin and end close to the step (FindWaitingSteps()).
  bool waits_are_sampled = false;
  // At least half of the difference is in collectives, computing, waits for the GPU or for data, or
  // compilation.
  bool mostly_known_parts = false;
  // Where host time outside operators is a cause: "134 ms between aten::mm and aten::randn", the
  // longest place. Or empty.
  std::string longest_gap;
};
// Of the slowest of `of_these`, some of the `outliers` that OutliersOf() returned. `time` is of the
// same reader.
absl::StatusOr<SlowStep> ExplainSlowestStep(store::CaptureReader& reader, const FindingScope& scope,
                                            const TimeReport& time,
                                            const std::vector<bool>& outliers,
                                            const std::vector<bool>& of_these);
// Of the outlier at position `slow` of the scope.
absl::StatusOr<SlowStep> ExplainStep(store::CaptureReader& reader, const FindingScope& scope,
                                     const TimeReport& time, const std::vector<bool>& outliers,
                                     size_t slow);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_OUTLIERS_H_
