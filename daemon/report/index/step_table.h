// The steps of a capture, and which of them are outliers.
//
// Threads: any, one reader each. Memory: per step. Errors: those of the reader.
#ifndef PROFD_DAEMON_REPORT_INDEX_STEP_TABLE_H_
#define PROFD_DAEMON_REPORT_INDEX_STEP_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct StepTableRow {
  int64_t index = 0;
  int64_t global_step = kNoGlobalStep;
  int64_t window = 0;
  int64_t start_ns = 0;  // Since the first window began.
  int64_t duration_ns = 0;
  double vs_median = 0;  // Duration / median duration.
  bool outlier = false;  // Above the bound of step_outliers.h.

  static constexpr int64_t kNoGlobalStep = -1;
};

struct StepTable {
  std::vector<StepTableRow> rows;
  int64_t min_ns = 0;
  int64_t median_ns = 0;
  int64_t mean_ns = 0;
  // By nearest rank.
  int64_t p95_ns = 0;
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
  int64_t outlier_threshold_ns = 0;  // 0: too few steps.
  std::vector<StepLabel> labels;     // A framework's step numbers, if any.
  FrameworkSteps framework;          // From `labels`, where they number these steps.
  bool has_gpu_work = false;
};
absl::StatusOr<StepTable> SummarizeSteps(store::CaptureReader& reader);

const table::Description<StepTableRow>& StepColumns();
table::Report ToReport(const StepTable& steps);
// Those of a report from elsewhere. DATA_LOSS: they cannot be read.
absl::StatusOr<std::vector<StepLabel>> StepLabelsFrom(const table::Report& steps);
// "epoch 3, global_step 120 when step 17 had begun"
std::string StepLabelsText(std::span<const StepLabel> labels);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STEP_TABLE_H_
