#include "daemon/report/index/step_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/step_labels.h"

namespace profd::report {
namespace {

constexpr size_t kFewestStepsForOutliers = 5;

int64_t OutlierThreshold(std::vector<int64_t> durations, int64_t median) {
  if (durations.size() < kFewestStepsForOutliers) return 0;
  for (int64_t& duration : durations) duration = std::abs(duration - median);
  // 1.4826 makes the deviation of a normal distribution out of its MAD. The 5 % keep steps
  // that are all but equal from being outliers of each other.
  const double spread = 3 * 1.4826 * static_cast<double>(Median(durations));
  const double threshold =
      static_cast<double>(median) + std::max(spread, 0.05 * static_cast<double>(median));
  return std::llround(std::min(threshold, 9.2e18));
}

}  // namespace

absl::StatusOr<StepTable> SummarizeSteps(store::CaptureReader& reader) {
  StepTable table;
  ASSIGN_OR_RETURN(table.labels, FindStepLabels(reader));
  table.has_gpu_work = reader.gpu_row_count() > 0;
  const CaptureRecord& record = reader.record();
  if (!CountsOwnSteps(record.spec)) {
    table.framework = FrameworkSteps(table.labels, record.torch.step_source);
  }
  std::vector<int64_t> durations;
  double sum = 0;
  for (const StepRecord& step : reader.steps()) {
    if (step.duration_ns < 0) {
      return absl::DataLossError("the capture has a step of negative duration");
    }
    table.rows.push_back(
        {.index = step.index,
         .global_step =
             table.framework.GlobalStepOf(step.index).value_or(StepTableRow::kNoGlobalStep),
         .window = step.window,
         .start_ns = step.start_ns,
         .duration_ns = step.duration_ns});
    durations.push_back(step.duration_ns);
    sum += static_cast<double>(step.duration_ns);
  }
  if (durations.empty()) return table;
  const auto [min, max] = std::minmax_element(durations.begin(), durations.end());
  table.min_ns = *min;
  table.max_ns = *max;
  table.mean_ns = std::llround(std::min(sum / static_cast<double>(durations.size()), 9.2e18));
  table.median_ns = Median(durations);
  table.p95_ns = Percentile(durations, 95);
  table.p99_ns = Percentile(durations, 99);
  table.outlier_threshold_ns = OutlierThreshold(durations, table.median_ns);
  for (StepTableRow& row : table.rows) {
    if (table.median_ns > 0) {
      row.vs_median = static_cast<double>(row.duration_ns) / static_cast<double>(table.median_ns);
    }
    row.outlier = table.outlier_threshold_ns > 0 && row.duration_ns > table.outlier_threshold_ns;
  }
  return table;
}

}  // namespace profd::report
