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
#include "daemon/report/ops/op_table.h"

namespace profd::cli {

// The columns of torch.profiler's table, and its footers: those of the GPU only where there was
// one, and beside them how long a GPU was busy with the row's work; those of memory only where
// allocators were recorded. `options` are those the table was made with: by step and by inputs
// add columns.
std::string RenderOps(const CaptureView& view, const report::OpTable& table,
                      const report::OpOptions& options, const Style& style);

void WriteStepLabelsJson(std::span<const report::StepLabel> labels, JsonWriter& json);  // An array.

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_REPORTS_H_
