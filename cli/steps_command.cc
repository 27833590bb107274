#include "cli/capture_source.h"
#include "cli/command.h"
#include "cli/render_capture.h"
#include "cli/render_reports.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(const report::StepTable table, source->Steps());
  if (invocation.json()) {
    JsonWriter json;
    WriteStepsJson(source->view(), table, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(RenderSteps(table, invocation.style()));
  }
  return 0;
}

}  // namespace

Command StepsCommand() {
  return {.name = "steps",
          .summary = "Show how long each step took, and outliers",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows the duration of every captured step with minimum, median, mean and "
              "maximum. An outlier is longer than the median by more than 3 x 1.4826 x "
              "the median absolute deviation, and by more than 5 %; that takes at least "
              "5 steps.",
          .examples = {{"profctl steps 01J9ZK", "Which steps were slow"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .run = &Run};
}

}  // namespace profd::cli
