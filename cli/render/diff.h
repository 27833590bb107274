// The differences of captures, as text, JSON, and CSV.
//
// Threads: any. Errors: none, but those named.
#ifndef PROFD_CLI_RENDER_DIFF_H_
#define PROFD_CLI_RENDER_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/column.h"
#include "daemon/base/table/table.h"
#include "daemon/report/diff/capture_diff.h"

namespace profd::cli {

// The tables that people read, of which operators and kernels are sorted and limited.
struct DiffTables {
  table::Table facts;
  table::Table parts;
  table::Table operators;
  table::Table kernels;
};
// INVALID_ARGUMENT: `view` sorts by a column that there is not.
absl::StatusOr<DiffTables> DiffTablesOf(const report::CaptureDiff& diff,
                                        const table::ViewOptions& view);

std::string RenderDiff(const report::CaptureDiff& diff, const DiffTables& tables,
                       const std::vector<const CaptureView*>& before,
                       const std::vector<const CaptureView*>& after, const Style& style);
void WriteDiffJson(const report::CaptureDiff& diff, const DiffTables& tables, JsonWriter& json);
void WriteDiffSchema(JsonWriter& json);

// Of operators and of the parts of a step, for `profctl explain`.
std::vector<table::Column> DiffTextColumns();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_DIFF_H_
