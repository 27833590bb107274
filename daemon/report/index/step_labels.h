// What a framework on top of torch called the steps, as the capture's notes tell: PyTorch
// Lightning's epoch and global step, say. Read behind the window, while the program trained on, so
// that each says of which step of ours it was true.
//
// Threads: any, one reader each. Errors: the reader's.
// Memory:  kMostStepLabels; the rest are left out.
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
  int64_t step = kBeforeFirstStep;  // The step of ours that had begun last; >= -1.
};

// By step, then as they were told. Notes that name no step are left out.
absl::StatusOr<std::vector<StepLabel>> FindStepLabels(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STEP_LABELS_H_
