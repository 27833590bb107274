#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/client/from_proto.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/table/table.h"

namespace profd::cli {
namespace {

// What a newer daemon may send and this version does not know is shown as a plain number.
table::Unit UnitFromProto(v1::Column::Unit unit) {
  const bool is_known = v1::Column::Unit_IsValid(unit);
  return is_known ? static_cast<table::Unit>(unit) : table::Unit::kNone;
}

table::OverRanks OverRanksFromProto(v1::Column::OverRanks over_ranks) {
  const bool is_known = v1::Column::OverRanks_IsValid(over_ranks);
  return is_known ? static_cast<table::OverRanks>(over_ranks) : table::OverRanks::kNone;
}

table::Column ColumnFromProto(const v1::Column& message) {
  return {.key = message.key(),
          .title = message.title(),
          .doc = message.doc(),
          .formula = message.formula(),
          .type = static_cast<table::Type>(message.type()),
          .unit = UnitFromProto(message.unit()),
          .priority = message.priority(),
          .unknown_text = message.unknown_text(),
          .nullable = message.nullable(),
          .only_if_set = message.only_if_set(),
          .flexible = message.flexible(),
          .max_width = message.max_width(),
          .highlight = message.highlight(),
          .over_ranks = OverRanksFromProto(message.over_ranks())};
}

absl::Status DoesNotFit() {
  return absl::DataLossError("the daemon's report does not fit together");
}

// A few words can stand for any number of cells: what a hostile daemon may make of one answer.
constexpr size_t kMostTextBytes = size_t{1} << 30;

absl::StatusOr<table::Cells> TextsOf(const v1::Cells& message) {
  std::vector<std::string> texts;
  size_t bytes = 0;
  texts.reserve(static_cast<size_t>(message.texts_size()));
  for (const uint32_t word : message.texts()) {
    if (word >= static_cast<uint32_t>(message.words_size())) return DoesNotFit();
    texts.push_back(message.words(static_cast<int>(word)));
    bytes += texts.back().size();
    if (bytes > kMostTextBytes) return DoesNotFit();
  }
  return texts;
}

absl::StatusOr<table::Cells> SizesOf(const v1::Cells& message) {
  if (message.sizes_size() % 3 != 0) return DoesNotFit();
  std::vector<table::Sizes> rows;
  for (int i = 0; i < message.sizes_size(); i += 3) {
    rows.push_back({message.sizes(i), message.sizes(i + 1), message.sizes(i + 2)});
  }
  return rows;
}

absl::StatusOr<table::Cells> CellsFromProto(const v1::Cells& message, v1::Column::Type type) {
  switch (type) {
    case v1::Column::INT: {
      std::vector<int64_t> ints;
      uint64_t value = 0;
      for (const int64_t delta : message.int_deltas()) {
        value += static_cast<uint64_t>(delta);
        ints.push_back(static_cast<int64_t>(value));
      }
      return ints;
    }
    case v1::Column::REAL:
      return std::vector<double>(message.reals().begin(), message.reals().end());
    case v1::Column::BOOL:
      return std::vector<uint8_t>(message.bools().begin(), message.bools().end());
    case v1::Column::TEXT:
      return TextsOf(message);
    case v1::Column::SIZES:
      return SizesOf(message);
    default:
      return absl::FailedPreconditionError(
          "the daemon's report has a column type that this profctl does not know; install the "
          "daemon's version");
  }
}

absl::StatusOr<table::Table> TableFromProto(const v1::Table& message) {
  if (message.columns_size() != message.cells_size()) return DoesNotFit();
  table::Table table = {.key = message.key(), .row_count = message.row_count()};
  for (int i = 0; i < message.columns_size(); ++i) {
    ASSIGN_OR_RETURN(table::Cells cells,
                     CellsFromProto(message.cells(i), message.columns(i).type()));
    table.columns.push_back(ColumnFromProto(message.columns(i)));
    table.cells.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

absl::StatusOr<table::Report> FromProto(const v1::Report& message) {
  table::Report report = {.name = message.name(), .version = message.version()};
  if (message.has_totals() && message.totals().columns_size() > 0) {
    ASSIGN_OR_RETURN(report.totals, TableFromProto(message.totals()));
  }
  for (const v1::Table& table : message.tables()) {
    ASSIGN_OR_RETURN(report.tables.emplace_back(), TableFromProto(table));
  }
  report.notes.assign(message.notes().begin(), message.notes().end());
  RETURN_IF_ERROR(table::Check(report));
  return report;
}

}  // namespace profd::cli
