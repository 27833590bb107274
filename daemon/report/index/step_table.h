// The steps of a capture, and which of them are outliers.
//
// Threads: any, one reader each. Memory: per step. Errors: those of the reader.
#ifndef PROFD_DAEMON_REPORT_INDEX_STEP_TABLE_H_
#define PROFD_DAEMON_REPORT_INDEX_STEP_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct StepTableRow {
  StepRecord step;
  bool outlier = false;  // Above median + 3 x 1.4826 x median absolute deviation, and
                         // above 1.05 x the median; needs at least 5 steps.
};

struct StepTable {
  std::vector<StepTableRow> rows;
  int64_t min_ns = 0;
  int64_t median_ns = 0;
  int64_t mean_ns = 0;
  int64_t max_ns = 0;
  int64_t outlier_threshold_ns = 0;  // 0: too few steps.
  std::vector<StepLabel> labels;     // A framework's step numbers, if any.
};
absl::StatusOr<StepTable> SummarizeSteps(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STEP_TABLE_H_
