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
#include "daemon/report/ops/op_table.h"
#include "daemon/report/reports.h"

namespace profd::exporter {
namespace {

using report::OpRow;

void WriteOpColumns(const report::OpTable& table, JsonWriter& json) {
  const std::vector<OpRow>& rows = table.rows;
  json.Field("row_count", table.row_count);
  json.Field("has_device", table.has_device);
  json.Field("has_memory", table.has_memory);
  json.Field("self_cpu_total_ns", table.self_cpu_total_ns);
  json.Field("self_device_total_ns", table.self_device_total_ns);
  json.Field("unattributed_device_ns", table.unattributed_device_ns);
  json.Key("rows").BeginObject();
  WriteColumn(json, "name", rows, &OpRow::name);
  WriteColumn(json, "calls", rows, &OpRow::calls);
  WriteColumn(json, "self_cpu_ns", rows, &OpRow::self_cpu_ns);
  WriteColumn(json, "cpu_total_ns", rows, &OpRow::cpu_total_ns);
  WriteColumn(json, "max_ns", rows, &OpRow::max_ns);
  if (table.has_device) {
    WriteColumn(json, "self_device_ns", rows, &OpRow::self_device_ns);
    WriteColumn(json, "device_total_ns", rows, &OpRow::device_total_ns);
    WriteColumn(json, "busy_device_ns", rows, &OpRow::busy_device_ns);
  }
  if (table.has_memory) {
    WriteColumn(json, "self_cpu_memory_bytes", rows, &OpRow::self_cpu_memory_bytes);
    WriteColumn(json, "self_device_memory_bytes", rows, &OpRow::self_device_memory_bytes);
  }
}

absl::Status WriteOps(store::CaptureReader& reader, bool by_inputs, JsonWriter& json) {
  const report::OpOptions options = {
      .sort = reader.gpu_row_count() > 0 ? report::OpSort::kBusyDevice : report::OpSort::kSelfCpu,
      .limit = by_inputs ? kMostInputRows : kMostTableRows,
      .by_inputs = by_inputs};
  ASSIGN_OR_RETURN(const report::OpTable table, report::SummarizeOps(reader, options));
  json.Key(by_inputs ? "ops_by_inputs" : "ops").BeginObject();
  WriteOpColumns(table, json);
  if (by_inputs) {
    WriteColumn(json, "dims", table.rows, &OpRow::dims);
    WriteColumn(json, "types", table.rows, &OpRow::types);
  }
  json.EndObject().EndObject();
  return absl::OkStatus();
}

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

// What the page's Format calls a column: sections.js.
std::string_view KindOf(const table::Column& column) {
  if (column.type == table::Type::kBool) return "flag";
  if (column.type == table::Type::kText) return column.flexible ? "name" : "text";
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

// The columns that a text table has, too; the flexible one is the rows' name.
void WriteTable(const table::Table& table, JsonWriter& json) {
  const auto key_of = [&](size_t i) -> std::string_view {
    return table.columns[i].flexible ? "name" : std::string_view(table.columns[i].key);
  };
  const auto is_shown = [&](size_t i) {
    // The page has no cell for three numbers.
    return table.columns[i].priority >= 0 && table.columns[i].type != table::Type::kSizes;
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

// A report of one table, under its own name.
absl::Status WriteReportTable(store::CaptureReader& reader, std::string_view name,
                              JsonWriter& json) {
  ASSIGN_OR_RETURN(const table::Report report,
                   report::MakeReport(reader, {.report = std::string(name),
                                               .options = {{"limit", StrCat(kMostTableRows)}}}));
  json.Key(name).BeginObject();
  WriteTable(report.tables.front(), json);
  json.Key("notes").BeginArray();
  for (const std::string& note : report.notes) json.String(note);
  json.EndArray().EndObject();
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteTableData(store::CaptureReader& reader, JsonWriter& json) {
  RETURN_IF_ERROR(WriteOps(reader, /*by_inputs=*/false, json));
  // Index 0 is no inputs.
  if (reader.inputs().size() > 1) RETURN_IF_ERROR(WriteOps(reader, /*by_inputs=*/true, json));
  if (reader.gpu_row_count() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(WriteReportTable(reader, "kernels", json));
  return WriteReportTable(reader, "copies", json);
}

}  // namespace profd::exporter
