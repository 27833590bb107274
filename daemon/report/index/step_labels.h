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
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
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

// FrameworkSteps gives steps the names that their framework has for them. A framework counts each
// step of an optimizer once. Where the capture's steps are an optimizer's, its number of one step
// gives those of all others. Where they are not (each batch of an accumulated gradient may be a
// step), or where the framework counts the steps of several optimizers ("optimizers"), only the
// step of the label has a number. Where trainers disagree, no step has one.
class FrameworkSteps {
 public:
  FrameworkSteps() = default;
  // `labels` number the process's steps, so there are none of a capture with its own steps.
  // `source`: whose steps the capture counted.
  FrameworkSteps(std::span<const StepLabel> labels, StepSource source);

  // Whether any step has a number of the framework, or an epoch.
  bool known() const { return global_step_.has_value() || epoch_.has_value(); }
  std::optional<int64_t> GlobalStepOf(int64_t step) const;

  // "1034 (global step 21034)"; "1034" if that is not known.
  std::string NumberText(int64_t step) const;

  // " (step 1034)" or ", step 1034 (global step 21034)", after what was in that step.
  std::string InStepText(int64_t step) const;

  // "1034 (global step 21034, epoch 3 at step 1040)"; without "at step" if it is that step.
  std::string LongText(int64_t step) const;

 private:
  struct Known {
    int64_t value;
    int64_t step;
  };
  std::optional<Known> global_step_;
  std::optional<Known> epoch_;
  bool counts_each_step_ = false;  // The framework, once.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_STEP_LABELS_H_
