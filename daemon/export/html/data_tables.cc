// Tables of operators, kernels and copies.
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/table.h"
#include "daemon/export/html/data.h"
#include "daemon/report/reports.h"

namespace profd::exporter {
namespace {

void WriteCell(int64_t value, JsonWriter& json) { json.Int(value); }
void WriteCell(double value, JsonWriter& json) { json.Double(value); }
void WriteCell(uint8_t value, JsonWriter& json) { json.Bool(value != 0); }
void WriteCell(const std::string& value, JsonWriter& json) { json.String(ShownName(value)); }

template <typename Value>
void WriteCells(const std::vector<Value>& values, const table::Column& column, JsonWriter& json) {
  for (const Value& value : values) {
    if constexpr (std::is_arithmetic_v<Value>) {
      if (column.nullable && static_cast<double>(value) < 0) {
        json.Null();
        continue;
      }
    }
    if constexpr (!std::is_same_v<Value, table::Sizes>) WriteCell(value, json);
  }
}

// Others that may be shortened have a limit on a terminal.
bool IsRowName(const table::Column& column) { return column.flexible && column.max_width == 0; }

// What the page's Format calls a column: sections.js.
std::string_view KindOf(const table::Column& column) {
  if (column.type == table::Type::kBool) return "flag";
  if (column.type == table::Type::kText) return IsRowName(column) ? "name" : "text";
  switch (column.unit) {
    case table::Unit::kNs:
      return "ns";
    case table::Unit::kBytes:
      return "bytes";
    case table::Unit::kShare:
      return "share";
    case table::Unit::kRatio:
      return "percent";
    case table::Unit::kGbPerS:
    case table::Unit::kOperations:
    case table::Unit::kOperationsPerS:
      return "number";
    case table::Unit::kNone:
    case table::Unit::kCount:
      break;
  }
  return "count";
}

void WriteTitle(const table::Column& column, std::string_view key, JsonWriter& json) {
  json.BeginObject();
  json.Field("key", key);
  json.Field("label", column.title);
  json.Field("kind", KindOf(column));
  json.Field("help",
             column.formula.empty() ? column.doc : StrCat(column.doc, ": ", column.formula));
  json.EndObject();
}

// The columns that the text table has; the flexible one without a limit is the rows' name.
void WriteTable(const table::Table& table, JsonWriter& json) {
  const auto key_of = [&](size_t i) -> std::string_view {
    return IsRowName(table.columns[i]) ? "name" : std::string_view(table.columns[i].key);
  };
  const auto is_shown = [&](size_t i) {
    const table::Column& column = table.columns[i];
    // The page has no cell for three numbers.
    return column.priority >= 0 && column.type != table::Type::kSizes &&
           !(column.only_if_set && table::IsUnset(column, table.cells[i]));
  };
  json.Field("row_count", table.row_count);
  json.Key("columns").BeginArray();
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (is_shown(i)) WriteTitle(table.columns[i], key_of(i), json);
  }
  json.EndArray();
  json.Key("rows").BeginObject();
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (!is_shown(i)) continue;
    json.Key(key_of(i)).BeginArray();
    std::visit([&](const auto& values) { WriteCells(values, table.columns[i], json); },
               table.cells[i]);
    json.EndArray();
  }
  json.EndObject();
}

// The report's first table, as `key`.
void WriteFirstTable(const table::Report& report, std::string_view key, JsonWriter& json) {
  json.Key(key).BeginObject();
  WriteTable(report.tables.front(), json);
  json.Key("notes").BeginArray();
  for (const std::string& note : report.notes) json.String(note);
  json.EndArray().EndObject();
}

absl::Status WriteReportTable(store::CaptureReader& reader, const report::ReportRequest& request,
                              std::string_view key, JsonWriter& json) {
  ASSIGN_OR_RETURN(const table::Report report, report::MakeReport(reader, request));
  WriteFirstTable(report, key, json);
  return absl::OkStatus();
}

absl::Status WriteOps(store::CaptureReader& reader, bool by_inputs, JsonWriter& json) {
  const report::ReportRequest request = {
      .report = "ops",
      .options = {{"sort", reader.gpu_row_count() > 0 ? "busy_device" : "self_cpu"},
                  {"limit", StrCat(by_inputs ? kMostInputRows : kMostTableRows)},
                  {"group_by", by_inputs ? "input_shape" : "name"}}};
  return WriteReportTable(reader, request, by_inputs ? "ops_by_inputs" : "ops", json);
}

// Where modules are known: one row is what is outside of them.
absl::Status WriteModules(store::CaptureReader& reader, JsonWriter& json) {
  ASSIGN_OR_RETURN(const table::Report report,
                   report::MakeReport(reader, {.report = "modules",
                                               .options = {{"limit", StrCat(kMostTableRows)}}}));
  if (report.tables.front().row_count > 1) WriteFirstTable(report, "modules", json);
  return absl::OkStatus();
}

absl::Status WriteGpuTable(store::CaptureReader& reader, std::string_view name, JsonWriter& json) {
  return WriteReportTable(
      reader, {.report = std::string(name), .options = {{"limit", StrCat(kMostTableRows)}}}, name,
      json);
}

}  // namespace

absl::Status WriteTableData(store::CaptureReader& reader, JsonWriter& json) {
  RETURN_IF_ERROR(WriteOps(reader, /*by_inputs=*/false, json));
  // Index 0 is no inputs.
  if (reader.inputs().size() > 1) RETURN_IF_ERROR(WriteOps(reader, /*by_inputs=*/true, json));
  RETURN_IF_ERROR(WriteModules(reader, json));
  if (reader.gpu_row_count() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(WriteGpuTable(reader, "kernels", json));
  return WriteGpuTable(reader, "copies", json);
}

}  // namespace profd::exporter
