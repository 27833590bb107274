#include "cli/render/report_tables.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/table.h"
#include "cli/render/capture.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

constexpr char kNothing[] = "-";
constexpr size_t kLongestText = 4096;

std::string NumberCell(double value, table::Unit unit, const Style& style) {
  switch (unit) {
    case table::Unit::kShare:
      return style.Share(absl::StrFormat("%.2f%%", 100 * value));
    case table::Unit::kRatio:
      return absl::StrFormat("%.2f%%", 100 * value);
    case table::Unit::kGbPerS:
      return absl::StrFormat("%.2f", value);
    case table::Unit::kOperations:
      return value == 0 ? kNothing : absl::StrFormat("%.3f", value / 1e9);
    case table::Unit::kOperationsPerS:
      return value == 0 ? kNothing : absl::StrFormat("%.3f", value / 1e12);
    case table::Unit::kNone:
    case table::Unit::kCount:
    case table::Unit::kNs:
    case table::Unit::kBytes:
      break;
  }
  return absl::StrFormat("%.4g", value);
}

std::string NumberCell(int64_t value, table::Unit unit) {
  switch (unit) {
    case table::Unit::kCount:
      return FormatCount(value);
    case table::Unit::kNs:
      return FormatNs(value);
    case table::Unit::kBytes:
      return FormatBytes(value);
    default:
      return StrCat(value);
  }
}

// "12x8", "256"; ones at the end say nothing.
std::string SizesCell(const table::Sizes& sizes) {
  std::string text = StrCat(sizes[0]);
  if (sizes[1] != 1 || sizes[2] != 1) StrAppend(&text, "x", sizes[1]);
  if (sizes[2] != 1) StrAppend(&text, "x", sizes[2]);
  return text;
}

std::string TextCell(const std::string& text, const table::Column& column, const Style& style) {
  if (text.empty()) return column.unknown_text;
  // Names are shortened together, so that different ones stay different.
  if (column.max_width <= 0 || !style.is_terminal || column.flexible) return text;
  return CutToWidth(ForDisplay(text, kLongestText), static_cast<size_t>(column.max_width));
}

struct CellText {
  const table::Column& column;
  const Style& style;
  size_t row;

  std::string operator()(const std::vector<int64_t>& ints) const {
    return NumberCell(ints[row], column.unit);
  }
  std::string operator()(const std::vector<double>& reals) const {
    return NumberCell(reals[row], column.unit, style);
  }
  std::string operator()(const std::vector<uint8_t>& bools) const {
    return bools[row] != 0 ? "yes" : "";
  }
  std::string operator()(const std::vector<std::string>& texts) const {
    return TextCell(texts[row], column, style);
  }
  std::string operator()(const std::vector<table::Sizes>& sizes) const {
    return SizesCell(sizes[row]);
  }
};

// The indices of the columns that a text table has.
std::vector<size_t> ShownColumns(const table::Table& table) {
  std::vector<size_t> shown;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const table::Column& column = table.columns[i];
    if (column.priority < 0) continue;
    if (column.only_if_set && table::IsUnset(column, table.cells[i])) continue;
    shown.push_back(i);
  }
  return shown;
}

bool IsHighlighted(const table::Table& table, size_t row) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (!table.columns[i].highlight) continue;
    const auto* const bools = std::get_if<std::vector<uint8_t>>(&table.cells[i]);
    if (bools != nullptr && (*bools)[row] != 0) return true;
  }
  return false;
}

}  // namespace

std::string RenderTable(const table::Table& table, const Style& style,
                        const std::function<Colour(size_t row)>& colour_of) {
  const std::vector<size_t> shown = ShownColumns(table);
  std::vector<Column> titles;
  for (const size_t i : shown) {
    const table::Column& column = table.columns[i];
    const bool is_number = column.type != table::Type::kText && column.type != table::Type::kBool;
    titles.push_back({.title = column.title,
                      .right = is_number || column.right,
                      .flexible = column.flexible,
                      .max_width = static_cast<size_t>(std::max(0, column.max_width)),
                      .drop_order = column.priority});
  }
  Table out(std::move(titles));
  for (size_t row = 0; row < table.size(); ++row) {
    std::vector<std::string> cells;
    for (const size_t i : shown) {
      const table::Column& column = table.columns[i];
      cells.push_back(table::IsUnknown(column, table.cells[i], row)
                          ? column.unknown_text
                          : std::visit(CellText{column, style, row}, table.cells[i]));
    }
    const Colour usual = IsHighlighted(table, row) ? Colour::kYellow : Colour::kNone;
    out.AddRow(std::move(cells), colour_of ? colour_of(row) : usual);
  }
  std::string text = out.Render(style);
  const int64_t more = table.row_count - static_cast<int64_t>(table.size());
  if (more > 0) {
    StrAppend(&text, "(", FormatCountOf(more, "more row", "more rows"), ": --limit 0)\n");
  }
  return text;
}

std::string RenderReport(const table::Report& report, const Style& style) {
  std::string text;
  for (const table::Table& table : report.tables) {
    if (table.size() == 0 || ShownColumns(table).empty()) continue;
    StrAppend(&text, text.empty() ? "" : "\n", RenderTable(table, style));
  }
  for (const std::string& note : report.notes) {
    StrAppend(&text, ForDisplay(note, 2 * kLongestText), "\n");
  }
  return text;
}

void WriteReportJson(const CaptureView& view, const table::Report& report, JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  table::WriteReport(report, json);
  json.EndObject();
}

ReportFields::ReportFields(table::Report report) : report_(std::move(report)) {}

std::vector<table::Column> ReportFields::Totals() const {
  std::vector<table::Column> totals = report_.totals.columns;
  totals.push_back({.key = "row_count",
                    .title = "Rows",
                    .doc = "Rows of the first table, before --limit",
                    .unit = table::Unit::kCount});
  return totals;
}

void ReportFields::WriteProperties(JsonWriter& json) const {
  table::WriteProperties(Totals(), json);
  for (const table::Table& table : report_.tables) {
    json.Key(table.key).BeginObject().Field("description", "Rows of a table of the report");
    json.Field("type", "array");
    json.Key("items").BeginObject().Field("type", "object");
    json.Key("properties").BeginObject();
    table::WriteProperties(table.columns, json);
    json.EndObject();
    table::WriteRequired(table.columns, json);
    json.Field("additionalProperties", false).EndObject().EndObject();
  }
}

std::vector<table::Column> ReportFields::Required() const {
  std::vector<table::Column> required = Totals();
  for (const table::Table& table : report_.tables) required.push_back({.key = table.key});
  return required;
}

void WriteSchemaOfParts(std::span<const table::AnyObject* const> parts,
                        std::span<const table::AnyObject* const> optional, JsonWriter& json) {
  json.Field("type", "object").Key("properties").BeginObject();
  std::vector<table::Column> required;
  for (const table::AnyObject* const part : parts) {
    part->WriteProperties(json);
    std::ranges::move(part->Required(), std::back_inserter(required));
  }
  for (const table::AnyObject* const part : optional) part->WriteProperties(json);
  json.EndObject();
  table::WriteRequired(required, json);
  json.Field("additionalProperties", false);
}

void WriteReportSchema(std::string_view command, const table::AnyObject& fields,
                       std::span<const table::AnyObject* const> of_group, JsonWriter& json) {
  static const table::ObjectDescription<CaptureView> header(ReportHeaderColumns());
  const std::array<const table::AnyObject*, 2> parts = {&header, &fields};
  json.BeginObject();
  json.Field("$schema", "https://json-schema.org/draft/2020-12/schema");
  json.Field("title", StrCat("profctl ", command, " --json"));
  WriteSchemaOfParts(parts, of_group, json);
  json.EndObject();
}

}  // namespace profd::cli
