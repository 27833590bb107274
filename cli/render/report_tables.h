// A report of any kind as text, JSON, and CSV. What it shows is in the report: its columns know
// their titles, units, and documentation (daemon/base/table/column.h).
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_REPORT_TABLES_H_
#define PROFD_CLI_RENDER_REPORT_TABLES_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "cli/render/capture.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/object.h"
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
// The same of a report whose JSON is described as an object.
template <typename Row>
void WriteReportJson(const CaptureView& view, const table::ObjectDescription<Row>& object,
                     const Row& report, JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  object.WriteFields(report, json);
  json.EndObject();
}

// The fields that table::WriteReport() writes of a report with the columns of this one.
class ReportFields : public table::AnyObject {
 public:
  explicit ReportFields(table::Report report);
  void WriteProperties(JsonWriter& json) const override;
  std::vector<table::Column> Required() const override;

 private:
  std::vector<table::Column> Totals() const;

  const table::Report report_;
};

// Writes type, properties, and required members of an object with the fields of all `parts`, and
// sometimes those of `optional`, into the open object.
void WriteSchemaOfParts(std::span<const table::AnyObject* const> parts,
                        std::span<const table::AnyObject* const> optional, JsonWriter& json);
// The JSON Schema (draft 2020-12) of what WriteReportJson() prints: `fields` after the header.
// `command` prints it, of a group also with the fields of `of_group`.
void WriteReportSchema(std::string_view command, const table::AnyObject& fields,
                       std::span<const table::AnyObject* const> of_group, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_REPORT_TABLES_H_
