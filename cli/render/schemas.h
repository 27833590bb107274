// The JSON Schema of what a report's command prints with --json: for `profctl schema`, and for the
// keys of `profctl explain`. Those of lists are in lists.h.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_SCHEMAS_H_
#define PROFD_CLI_RENDER_SCHEMAS_H_

#include "daemon/base/json_writer.h"
#include "daemon/report/reports.h"

namespace profd::cli {

void WriteSchemaOf(const report::ReportKind& kind, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_SCHEMAS_H_
