#include "cli/render/diff.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "cli/render/capture.h"
#include "cli/render/report_tables.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/table/object.h"

namespace profd::cli {
namespace {

struct DiffAnswer {
  const report::CaptureDiff& diff;
  const DiffTables& tables;
};

const table::ObjectDescription<DiffAnswer>& DiffObject() {
  using Row = DiffAnswer;
  static const table::ObjectDescription<Row> object(
      table::Description<Row>{},
      {table::RowsOfTable<Row>(
           "facts", "What else differs", &report::DiffFactColumns,
           [](const Row& row) -> const auto& { return row.tables.facts; }),
       table::RowsOfTable<Row>(
           "parts", "The parts of a step; empty without steps on each side",
           &report::DiffPartColumns,
           [](const Row& row) -> const auto& { return row.tables.parts; }),
       table::RowsOfTable<Row>(
           "operators", "Operators, those that changed most first", &report::DiffOperatorColumns,
           [](const Row& row) -> const auto& { return row.tables.operators; }),
       table::RowsOfTable<Row>(
           "kernels", "Kernels, likewise; empty where a capture has no GPU rows",
           &report::DiffKernelColumns,
           [](const Row& row) -> const auto& { return row.tables.kernels; })});
  return object;
}

void AddDiffTable(std::string_view heading, const table::Table& rows, const Style& style,
                  std::string* text) {
  if (rows.size() == 0) return;
  StrAppend(text, "\n");
  if (!heading.empty()) StrAppend(text, style.Paint(Colour::kBold, std::string(heading)), "\n");
  StrAppend(text, RenderTable(rows, style));
}

}  // namespace

absl::StatusOr<DiffTables> DiffTablesOf(const report::CaptureDiff& diff,
                                        const table::ViewOptions& view) {
  DiffTables tables = {
      .facts = report::DiffFactColumns().ToTable("facts", diff.facts),
      .parts = report::DiffPartColumns().ToTable("parts", diff.parts),
      .operators = report::DiffOperatorColumns().ToTable("operators", diff.operators),
      .kernels = report::DiffKernelColumns().ToTable("kernels", diff.kernels)};
  RETURN_IF_ERROR(table::Apply(view, tables.operators));
  RETURN_IF_ERROR(table::Apply(view, tables.kernels));
  return tables;
}

std::string RenderDiff(const report::CaptureDiff& diff, const DiffTables& tables,
                       const std::vector<const CaptureView*>& before,
                       const std::vector<const CaptureView*>& after, const Style& style) {
  std::string text;
  for (const CaptureView* view : before) {
    StrAppend(&text, "Before: ", RenderReportHeader(*view, style));
  }
  for (const CaptureView* view : after) {
    StrAppend(&text, "After:  ", RenderReportHeader(*view, style));
  }
  StrAppend(&text, "\n", style.Paint(Colour::kBold, StrCat(diff.sentence, ".")), "\n");
  if (!diff.why.empty()) StrAppend(&text, diff.why, ".\n");
  if (diff.by_device) {
    StrAppend(
        &text,
        "Steps are timed by the GPU's work, because the host runs ahead of the GPU. Parts of a "
        "step are not compared then.\n");
  }
  if (!diff.not_compared.empty()) StrAppend(&text, diff.not_compared, ".\n");
  if (!diff.other_work.empty()) {
    StrAppend(&text, "This does not compare like with like: ", diff.other_work, " differ.\n");
  }
  AddDiffTable("", tables.facts, style, &text);
  AddDiffTable("Parts of a step (means)", tables.parts, style, &text);
  const std::string per = diff.per_step ? " per step" : " per second";
  AddDiffTable(StrCat("Operators", per, diff.operators_on_device ? ", time of GPUs" : ""),
               tables.operators, style, &text);
  AddDiffTable(StrCat("Kernels", per), tables.kernels, style, &text);
  return text;
}

void WriteDiffJson(const report::CaptureDiff& diff, const DiffTables& tables, JsonWriter& json) {
  json.BeginObject();
  table::WriteFields(report::DiffColumns(), diff, json);
  DiffObject().WriteFields({.diff = diff, .tables = tables}, json);
  json.EndObject();
}

void WriteDiffSchema(JsonWriter& json) {
  std::vector<table::Column> required = report::DiffColumns().columns();
  std::ranges::move(DiffObject().Required(), std::back_inserter(required));
  json.Field("type", "object").Key("properties").BeginObject();
  table::WriteProperties(report::DiffColumns().columns(), json);
  DiffObject().WriteProperties(json);
  json.EndObject();
  table::WriteRequired(required, json);
  json.Field("additionalProperties", false);
}

std::vector<table::Column> DiffTextColumns() {
  std::vector<table::Column> columns = report::DiffOperatorColumns().columns();
  for (const table::Column& column : report::DiffPartColumns().columns()) {
    if (column.title == "Side" || column.title == "Part") columns.push_back(column);
  }
  return columns;
}

}  // namespace profd::cli
