// A report of any kind as text, JSON, and CSV. What it shows is in the report: its columns know
// their titles, units, and documentation (daemon/base/table/column.h).
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_REPORT_TABLES_H_
#define PROFD_CLI_RENDER_REPORT_TABLES_H_

#include <functional>
#include <string>

#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/table.h"

namespace profd::cli {

// The table as people read it: titles, units, and as many columns as fit. `colour_of` gives the
// colour of a row by its index; without it, rows of a highlighted column stand out.
std::string RenderTable(const table::Table& table, const Style& style,
                        const std::function<Colour(size_t row)>& colour_of = nullptr);
// The tables that have rows, and the notes below them.
std::string RenderReport(const table::Report& report, const Style& style);
// An object: the capture's header, the totals, the tables.
void WriteReportJson(const CaptureView& view, const table::Report& report, JsonWriter& json);
// The JSON Schema (draft 2020-12) of that object; only the columns of `report` matter.
void WriteReportSchema(const table::Report& report, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_REPORT_TABLES_H_
