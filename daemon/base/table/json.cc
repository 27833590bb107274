#include "daemon/base/table/json.h"

#include <cstdint>
#include <string_view>

#include "daemon/base/csv.h"
#include "daemon/base/str_cat.h"

namespace profd::table {
namespace {

void WriteCell(int64_t value, JsonWriter& json) { json.Int(value); }
void WriteCell(double value, JsonWriter& json) { json.Double(value); }
void WriteCell(uint8_t value, JsonWriter& json) { json.Bool(value != 0); }
void WriteCell(const std::string& value, JsonWriter& json) { json.String(value); }
void WriteCell(const Sizes& sizes, JsonWriter& json) {
  json.BeginArray();
  for (const int64_t size : sizes) json.Int(size);
  json.EndArray();
}

std::string CsvOf(int64_t value) { return StrCat(value); }
std::string CsvOf(double value) { return CsvNumber(value); }
std::string CsvOf(uint8_t value) { return value != 0 ? "true" : "false"; }
std::string CsvOf(const std::string& value) { return CsvCell(value); }
std::string CsvOf(const Sizes& sizes) { return StrCat(sizes[0], "x", sizes[1], "x", sizes[2]); }

std::string_view JsonTypeOf(Type type) {
  switch (type) {
    case Type::kInt:
      return "integer";
    case Type::kReal:
      return "number";
    case Type::kBool:
      return "boolean";
    case Type::kText:
      return "string";
    case Type::kSizes:
      return "array";
  }
  return "string";
}

std::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kNone:
      return "";
    case Unit::kCount:
      return "count";
    case Unit::kNs:
      return "ns";
    case Unit::kBytes:
      return "bytes";
    case Unit::kShare:
    case Unit::kRatio:
      return "1";
    case Unit::kGbPerS:
      return "GB/s";
    case Unit::kOperations:
      return "FLOP";
    case Unit::kOperationsPerS:
      return "FLOP/s";
  }
  return "";
}

void WriteValue(const Column& column, const Cells& cells, size_t row, JsonWriter& json) {
  if (IsUnknown(column, cells, row)) {
    json.Null();
  } else {
    std::visit([&](const auto& values) { WriteCell(values[row], json); }, cells);
  }
}

void WriteField(const Column& column, const Cells& cells, size_t row, JsonWriter& json) {
  if (column.key.empty()) return;
  json.Key(column.key);
  WriteValue(column, cells, row, json);
}

// What the values of the column are, into the open object.
void WriteColumnSchema(const Column& column, JsonWriter& json) {
  json.Key("type");
  if (column.nullable) {
    json.BeginArray().String(JsonTypeOf(column.type)).String("null").EndArray();
  } else {
    json.String(JsonTypeOf(column.type));
  }
  if (column.type == Type::kSizes) {
    json.Key("items").BeginObject().Field("type", "integer").EndObject();
    json.Field("minItems", int64_t{3}).Field("maxItems", int64_t{3});
  }
  if (!column.title.empty()) json.Field("title", column.title);
  json.Field("description", column.doc);
  if (!column.formula.empty()) json.Field("x-formula", column.formula);
  if (column.unit != Unit::kNone) json.Field("x-unit", UnitName(column.unit));
}

}  // namespace

void WriteFields(const Table& table, size_t row, JsonWriter& json) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    WriteField(table.columns[i], table.cells[i], row, json);
  }
}

void WriteFieldsOf(const AnyDescription& columns, const void* row, JsonWriter& json) {
  for (const AnyField& field : columns.fields()) {
    Cells cells = EmptyCells(field.accessor.type);
    field.accessor.read(field.accessor.source, row, 1, cells);
    WriteField(field.column, cells, 0, json);
  }
}

void WriteArrays(const Table& table, JsonWriter& json) {
  for (size_t row = 0; row < table.size(); ++row) {
    json.BeginArray();
    for (size_t i = 0; i < table.columns.size(); ++i) {
      WriteValue(table.columns[i], table.cells[i], row, json);
    }
    json.EndArray();
  }
}

void WriteRows(const Table& table, JsonWriter& json) {
  json.BeginArray();
  for (size_t row = 0; row < table.size(); ++row) {
    json.BeginObject();
    WriteFields(table, row, json);
    json.EndObject();
  }
  json.EndArray();
}

void WriteReport(const Report& report, JsonWriter& json) {
  if (report.totals.size() == 1) WriteFields(report.totals, 0, json);
  if (!report.tables.empty()) json.Field("row_count", report.tables.front().row_count);
  for (const Table& table : report.tables) {
    json.Key(table.key);
    WriteRows(table, json);
  }
}

std::string CsvHeader(const std::vector<Column>& columns) {
  std::string text;
  for (const Column& column : columns) {
    if (!column.key.empty()) StrAppend(&text, text.empty() ? "" : ",", column.key);
  }
  text.push_back('\n');
  return text;
}

std::string CsvRows(const Table& table) {
  std::vector<size_t> shown;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (!table.columns[i].key.empty()) shown.push_back(i);
  }
  std::string text;
  for (size_t row = 0; row < table.size(); ++row) {
    for (const size_t i : shown) {
      if (i != shown.front()) text.push_back(',');
      if (IsUnknown(table.columns[i], table.cells[i], row)) continue;
      text += std::visit([&](const auto& values) { return CsvOf(values[row]); }, table.cells[i]);
    }
    text.push_back('\n');
  }
  return text;
}

std::string ToCsv(const Table& table) { return CsvHeader(table.columns) + CsvRows(table); }

void WriteProperties(const std::vector<Column>& columns, JsonWriter& json) {
  for (const Column& column : columns) {
    if (column.key.empty()) continue;
    json.Key(column.key).BeginObject();
    WriteColumnSchema(column, json);
    json.EndObject();
  }
}

void WriteRequired(const std::vector<Column>& columns, JsonWriter& json) {
  json.Key("required").BeginArray();
  for (const Column& column : columns) {
    if (!column.key.empty()) json.String(column.key);
  }
  json.EndArray();
}

void WriteArraySchema(const std::vector<Column>& columns, JsonWriter& json) {
  json.Field("type", "array").Key("prefixItems").BeginArray();
  for (const Column& column : columns) {
    json.BeginObject().Field("x-key", column.key);
    WriteColumnSchema(column, json);
    json.EndObject();
  }
  json.EndArray();
  const auto count = static_cast<int64_t>(columns.size());
  json.Field("items", false).Field("minItems", count).Field("maxItems", count);
}

}  // namespace profd::table
