// What commands share that show a report of reports.h: its flags, the request, and the output.
//
// Threads: one. Errors: INVALID_ARGUMENT (USAGE): flags that do not fit.
#ifndef PROFD_CLI_COMMANDS_PLAIN_REPORT_H_
#define PROFD_CLI_COMMANDS_PLAIN_REPORT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/base/flags.h"
#include "cli/client/capture_view.h"
#include "cli/client/invocation.h"
#include "daemon/base/table/table.h"
#include "daemon/report/reports.h"

namespace profd::cli {

// --sort, --limit, --csv, and the report's own options. `report` is one of ReportKinds().
std::vector<Flag> ReportFlags(std::string_view report, int64_t rows_for_people);
// What --sort accepts, for help and completion.
std::vector<std::string_view> SortChoicesOf(std::string_view report);
std::vector<std::string_view> SortChoicesOf(const std::vector<table::Column>& columns);
// Without --limit people see `rows_for_people` rows of a table, and scripts all.
absl::StatusOr<report::ReportRequest> ParseReportRequest(const Invocation& invocation,
                                                         std::string_view report,
                                                         int64_t rows_for_people);
// As text, --json, or --csv.
void PrintReport(Invocation& invocation, const CaptureView& view, const table::Report& report);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_PLAIN_REPORT_H_
