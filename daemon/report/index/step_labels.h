// Step numbers of a framework on top of torch, from the capture's notes: for example, PyTorch
// Lightning's epoch and global step. They are read after the window, while the program trains on,
// so each label names the step of this capture that it belongs to.
//
// Threads: any, one reader each. Errors: the reader's.
// Memory:  kMostStepLabels; further labels are left out.
#ifndef PROFD_DAEMON_REPORT_INDEX_STEP_LABELS_H_
#define PROFD_DAEMON_REPORT_INDEX_STEP_LABELS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

inline constexpr size_t kMostStepLabels = 64;
inline constexpr int64_t kBeforeFirstStep = -1;

struct StepLabel {
  std::string name;  // "epoch", cleaned.
  int64_t value = 0;
  int64_t step = kBeforeFirstStep;  // The last step that had begun; >= -1.
};

// Returns labels by step, then in recorded order. Notes without a step are left out.
absl::StatusOr<std::vector<StepLabel>> FindStepLabels(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STEP_LABELS_H_
