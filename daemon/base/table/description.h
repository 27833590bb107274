// Description: the columns of a struct, listed once.
//
//   struct CopyRow {
//     std::string name;
//     int64_t total_ns = 0;
//   };
//   const table::Description<CopyRow>& CopyColumns() {
//     static const table::Description<CopyRow> columns = {
//         {&CopyRow::name, {.key = "name", .title = "Copy", .doc = "Direction and kinds of
//         memory"}},
//         {&CopyRow::total_ns, {.key = "total_ns", .title = "Total", .doc = "Sum of durations",
//                               .formula = "sum of end - start", .unit = Unit::kNs}},
//     };
//     return columns;
//   }
//   Table rows = CopyColumns().ToTable("rows", copies);
//   ASSIGN_OR_RETURN(std::vector<CopyRow> copies, CopyColumns().FromTable(rows));
//
// A column may also be a function of the row; FromTable() leaves that out.
//
// Threads: any, once made. Errors: those of FromTable().
#ifndef PROFD_DAEMON_BASE_TABLE_DESCRIPTION_H_
#define PROFD_DAEMON_BASE_TABLE_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/column.h"
#include "daemon/base/table/table.h"

namespace profd::table {

template <typename Row>
struct Field {
  // A member, or a function that computes the cell.
  using Source =
      std::variant<int64_t Row::*, double Row::*, bool Row::*, std::string Row::*, Sizes Row::*,
                   uint32_t Row::*, int64_t (*)(const Row&), double (*)(const Row&),
                   bool (*)(const Row&), std::string (*)(const Row&)>;
  Source source;
  Column column;
};

// The type of the cells that a source gives.
template <typename T>
constexpr Type TypeOfCell() {
  if constexpr (std::is_same_v<T, bool>) {
    return Type::kBool;
  } else if constexpr (std::is_integral_v<T>) {
    return Type::kInt;
  } else if constexpr (std::is_floating_point_v<T>) {
    return Type::kReal;
  } else if constexpr (std::is_same_v<T, Sizes>) {
    return Type::kSizes;
  } else {
    return Type::kText;
  }
}

template <typename Row>
class Description {
 public:
  Description(std::initializer_list<Field<Row>> fields) : fields_(fields) {
    for (Field<Row>& field : fields_) {
      field.column.type = std::visit(
          [](auto source) {
            return TypeOfCell<std::decay_t<std::invoke_result_t<decltype(source), const Row&>>>();
          },
          field.source);
    }
  }

  std::vector<Column> columns() const {
    std::vector<Column> columns;
    for (const Field<Row>& field : fields_) columns.push_back(field.column);
    return columns;
  }

  // Calls `visitor(column, cell)` for each column of one row.
  template <typename Visitor>
  void Visit(const Row& row, Visitor&& visitor) const {
    for (const Field<Row>& field : fields_) {
      std::visit([&](auto source) { visitor(field.column, std::invoke(source, row)); },
                 field.source);
    }
  }

  Table ToTable(std::string key, std::span<const Row> rows) const {
    Table table = {.key = std::move(key), .row_count = static_cast<int64_t>(rows.size())};
    for (const Field<Row>& field : fields_) {
      table.columns.push_back(field.column);
      table.cells.push_back(CellsOf(field, rows));
    }
    return table;
  }
  Table ToTable(std::string key, const std::vector<Row>& rows) const {
    return ToTable(std::move(key), std::span<const Row>(rows));
  }

  // Members without a column, and columns that the table lacks, keep their default. DATA_LOSS: a
  // column has another type.
  absl::StatusOr<std::vector<Row>> FromTable(const Table& table) const {
    std::vector<Row> rows(table.size());
    for (const Field<Row>& field : fields_) {
      const size_t at = table.Find(field.column.key);
      if (at == Table::npos) continue;
      if (table.columns[at].type != field.column.type) {
        return absl::DataLossError(StrCat("the column ", field.column.key, " of the table ",
                                          table.key, " has another type than this version reads"));
      }
      Fill(field, table.cells[at], rows);
    }
    return rows;
  }

 private:
  static Cells CellsOf(const Field<Row>& field, std::span<const Row> rows) {
    return std::visit(
        [&](auto source) {
          using T = std::decay_t<std::invoke_result_t<decltype(source), const Row&>>;
          Cells cells = EmptyCells(TypeOfCell<T>());
          auto& values = std::get<static_cast<size_t>(TypeOfCell<T>()) - 1>(cells);
          values.reserve(rows.size());
          for (const Row& row : rows) values.push_back(std::invoke(source, row));
          return cells;
        },
        field.source);
  }

  static void Fill(const Field<Row>& field, const Cells& cells, std::vector<Row>& rows) {
    std::visit(
        [&](auto source) {
          if constexpr (std::is_member_object_pointer_v<decltype(source)>) {
            using T = std::decay_t<std::invoke_result_t<decltype(source), const Row&>>;
            const auto& values = std::get<static_cast<size_t>(TypeOfCell<T>()) - 1>(cells);
            for (size_t i = 0; i < rows.size(); ++i) rows[i].*source = static_cast<T>(values[i]);
          }
        },
        field.source);
  }

  std::vector<Field<Row>> fields_;
};

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_DESCRIPTION_H_
