#include "cli/captures/framework_steps.h"

#include <vector>

#include "daemon/report/index/step_table.h"

namespace profd::cli {

report::FrameworkSteps FrameworkStepsOf(CaptureSource& source) {
  const CaptureRecord& record = source.view().record;
  if (record.torch.note_count == 0 || CountsOwnSteps(record.spec)) return {};
  const absl::StatusOr<table::Report> steps = source.Report({.report = "steps", .options = {}});
  if (!steps.ok()) return {};
  const absl::StatusOr<std::vector<report::StepLabel>> labels = report::StepLabelsFrom(*steps);
  if (!labels.ok()) return {};
  return report::FrameworkSteps(*labels, record.torch.step_source);
}

}  // namespace profd::cli
