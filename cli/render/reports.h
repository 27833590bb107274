// The reports over a capture as text and as JSON. The structs come from a daemon or from a
// file; nothing here can tell.
#ifndef PROFD_CLI_RENDER_REPORTS_H_
#define PROFD_CLI_RENDER_REPORTS_H_

#include <span>
#include <string>

#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/report/time/compile_report.h"

namespace profd::cli {

// The columns of torch.profiler's table, and its footers: those of the GPU only where there was
// one, and beside them how long a GPU was busy with the row's work; those of memory only where
// allocators were recorded. `options` are those the table was made with: by step and by inputs
// add columns.
std::string RenderOps(const CaptureView& view, const report::OpTable& table,
                      const report::OpOptions& options, const Style& style);

// "epoch 3, global_step 1200 when step 57 had begun"; empty for none.
std::string StepLabelsText(std::span<const report::StepLabel> labels);
void WriteStepLabelsJson(std::span<const report::StepLabel> labels, JsonWriter& json);  // An array.

std::string RenderSteps(const report::StepTable& table, const Style& style);
void WriteStepsJson(const CaptureView& view, const report::StepTable& table, JsonWriter& json);

// What torch.compile did; `limit` rows of each table, 0: all.
std::string RenderCompile(const report::CompileReport& report, int64_t limit, const Style& style);
void WriteCompileJson(const CaptureView& view, const report::CompileReport& report,
                      JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_REPORTS_H_
