#include "daemon/report/index/step_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/report/index/step_outliers.h"

namespace profd::report {
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
  if (const std::optional<OutlierBound> bound = BoundOfOutliers(durations)) {
    table.outlier_threshold_ns = std::llround(std::min(bound->bound_ns, 9.2e18));
  }
  for (StepTableRow& row : table.rows) {
    if (table.median_ns > 0) {
      row.vs_median = static_cast<double>(row.duration_ns) / static_cast<double>(table.median_ns);
    }
    row.outlier = table.outlier_threshold_ns > 0 && row.duration_ns > table.outlier_threshold_ns;
  }
  return table;
}

}  // namespace profd::report
