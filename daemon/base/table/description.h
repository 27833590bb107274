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

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/table/column.h"
#include "daemon/base/table/table.h"

namespace profd::table {

// Reads the cells of one column from rows of some struct, and writes them back. The rows are
// untyped, so that what handles all columns is compiled once, not once per struct.
struct Accessor {
  Type type = Type::kInt;
  uint64_t source = 0;  // The pointer to the member or function.
  // Appends the cells of `count` rows.
  void (*read)(uint64_t source, const void* rows, size_t count, Cells& cells) = nullptr;
  // Writes all cells into as many rows. nullptr: the cells are computed.
  void (*write)(uint64_t source, const Cells& cells, void* rows) = nullptr;
};

// The type of the cells that a source gives.
template <typename T>
constexpr Type TypeOfCell() {
  if constexpr (std::is_same_v<T, bool>) {
    return Type::kBool;
  } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, uint32_t>) {
    return Type::kInt;
  } else if constexpr (std::is_same_v<T, double>) {
    return Type::kReal;
  } else if constexpr (std::is_same_v<T, Sizes>) {
    return Type::kSizes;
  } else {
    static_assert(std::is_same_v<T, std::string>, "not the type of a cell");
    return Type::kText;
  }
}

// `Source` is a pointer to a member of Row or to a function of one.
template <typename Row, typename Source>
Accessor AccessorOf(Source source) {
  using T = std::decay_t<std::invoke_result_t<Source, const Row&>>;
  constexpr size_t kAlternative = static_cast<size_t>(TypeOfCell<T>()) - 1;
  Accessor accessor = {.type = TypeOfCell<T>(),
                       .source = std::bit_cast<uint64_t>(source),
                       .read = [](uint64_t bits, const void* rows, size_t count, Cells& cells) {
                         auto& values = std::get<kAlternative>(cells);
                         for (const Row& row : std::span(static_cast<const Row*>(rows), count)) {
                           values.push_back(std::invoke(std::bit_cast<Source>(bits), row));
                         }
                       }};
  if constexpr (std::is_member_object_pointer_v<Source>) {
    accessor.write = [](uint64_t bits, const Cells& cells, void* rows) {
      const auto& values = std::get<kAlternative>(cells);
      for (size_t i = 0; i < values.size(); ++i) {
        static_cast<Row*>(rows)[i].*std::bit_cast<Source>(bits) = static_cast<T>(values[i]);
      }
    };
  }
  return accessor;
}

// A column, and where its cells come from.
struct AnyField {
  Accessor accessor;
  Column column;
};

// The same of one struct. The source is a member, or a function (or lambda without captures) that
// computes the cell: int64_t, uint32_t, double, bool, std::string, or Sizes.
template <typename Row>
struct Field : AnyField {
  template <typename Source>
  Field(Source source, Column described) : AnyField{{}, std::move(described)} {
    if constexpr (std::is_class_v<Source>) {
      accessor = AccessorOf<Row>(+source);
    } else {
      accessor = AccessorOf<Row>(source);
    }
    column.type = accessor.type;
  }
};

// What Description does, of rows whose struct is not known.
class AnyDescription {
 public:
  explicit AnyDescription(std::vector<AnyField> fields) : fields_(std::move(fields)) {}

  std::span<const AnyField> fields() const { return fields_; }
  std::vector<Column> columns() const;

 protected:
  Table ReadTable(std::string key, const void* rows, size_t count) const;
  // Into table.size() rows.
  absl::Status WriteRows(const Table& table, void* rows) const;

 private:
  std::vector<AnyField> fields_;
};

template <typename Row>
class Description : public AnyDescription {
 public:
  Description(std::initializer_list<Field<Row>> fields)
      : AnyDescription(std::vector<AnyField>(fields.begin(), fields.end())) {}

  Table ToTable(std::string key, std::span<const Row> rows) const {
    return ReadTable(std::move(key), rows.data(), rows.size());
  }
  Table ToTable(std::string key, const std::vector<Row>& rows) const {
    return ReadTable(std::move(key), rows.data(), rows.size());
  }

  // Members without a column, and columns that the table lacks, keep their default. DATA_LOSS: a
  // column has another type.
  absl::StatusOr<std::vector<Row>> FromTable(const Table& table) const {
    std::vector<Row> rows(table.size());
    if (absl::Status status = WriteRows(table, rows.data()); !status.ok()) return status;
    return rows;
  }
};

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_DESCRIPTION_H_
