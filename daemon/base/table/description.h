// Description: the columns of a struct, listed once.
//
//   struct CopyRow {
//     std::string name;
//     int64_t total_ns = 0;
//   };
//   const table::Description<CopyRow>& CopyColumns() {
//     static const table::Description<CopyRow> columns = {
//         {&CopyRow::name, {.key = "name", .title = "Copy", .doc = "Direction and memory"}},
//         {&CopyRow::total_ns, {.key = "total_ns", .title = "Total", .doc = "Sum of durations",
//                               .formula = "sum of end - start", .unit = Unit::kNs}},
//     };
//     return columns;
//   }
//   Table rows = CopyColumns().ToTable("rows", copies);
//   ASSIGN_OR_RETURN(std::vector<CopyRow> copies, CopyColumns().FromTable(rows));
//
// A column may also be a function of the row; FromTable() leaves that out. A member that is an enum
// is a text: ToString() of it. If it has `bool FromString(std::string_view, E&)`, FromTable() reads
// it back, and leaves the default where the name is not known (a newer daemon has more).
//
// Threads: any, once made. Errors: those of FromTable().
#ifndef PROFD_DAEMON_BASE_TABLE_DESCRIPTION_H_
#define PROFD_DAEMON_BASE_TABLE_DESCRIPTION_H_

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
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

// Sets `value` to the one of `all` with this name, as ToString() has it. False: there is none.
template <typename E>
bool FindByName(std::string_view name, std::initializer_list<E> all, E& value) {
  for (const E each : all) {
    if (ToString(each) != name) continue;
    value = each;
    return true;
  }
  return false;
}

template <typename E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) {
  ToString(value);
};
template <typename E>
concept ReadableEnum = NamedEnum<E> && requires(std::string_view name, E& value) {
  { FromString(name, value) } -> std::same_as<bool>;
};

// A member of a member, or an element of one: Path<&Step::device, &Breakdown::busy_ns>(),
// Path<&Sample::layer_bytes, 3>(). A source of a column.
template <auto kFirst, auto... kRest>
struct Path {
  template <typename Row>
  static auto& Of(Row& row) {
    if constexpr (sizeof...(kRest) == 0) {
      return Step(row);
    } else {
      return Path<kRest...>::Of(Step(row));
    }
  }

 private:
  template <typename Row>
  static auto& Step(Row& row) {
    if constexpr (std::is_integral_v<decltype(kFirst)>) {
      return row[kFirst];
    } else {
      return row.*kFirst;
    }
  }
};
template <typename T>
inline constexpr bool kIsPath = false;
template <auto... kMembers>
inline constexpr bool kIsPath<Path<kMembers...>> = true;

// What a source makes of a row: a reference to a member, or a computed cell.
template <typename Source, typename Row>
decltype(auto) CellOf(uint64_t source, Row& row) {
  if constexpr (kIsPath<Source>) {
    return (Source::Of(row));
  } else {
    return std::invoke(std::bit_cast<Source>(source), row);
  }
}

// The type of the cells that a source gives.
template <typename T>
constexpr Type TypeOfCell() {
  if constexpr (NamedEnum<T>) {
    return Type::kText;
  } else if constexpr (std::is_same_v<T, bool>) {
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

// `Source` is a pointer to a member of Row or to a function of one, or a Path.
template <typename Row, typename Source>
Accessor AccessorOf(Source source) {
  using T = std::decay_t<decltype(CellOf<Source>(0, std::declval<const Row&>()))>;
  constexpr size_t kAlternative = static_cast<size_t>(TypeOfCell<T>()) - 1;
  Accessor accessor = {.type = TypeOfCell<T>(),
                       .read = [](uint64_t bits, const void* rows, size_t count, Cells& cells) {
                         auto& values = std::get<kAlternative>(cells);
                         for (const Row& row : std::span(static_cast<const Row*>(rows), count)) {
                           if constexpr (NamedEnum<T>) {
                             values.emplace_back(ToString(CellOf<Source>(bits, row)));
                           } else {
                             values.push_back(CellOf<Source>(bits, row));
                           }
                         }
                       }};
  if constexpr (!kIsPath<Source>) accessor.source = std::bit_cast<uint64_t>(source);
  constexpr bool kIsMember = kIsPath<Source> || std::is_member_object_pointer_v<Source>;
  if constexpr (kIsMember && ReadableEnum<T>) {
    accessor.write = [](uint64_t bits, const Cells& cells, void* rows) {
      const auto& names = std::get<kAlternative>(cells);
      for (size_t i = 0; i < names.size(); ++i) {
        FromString(names[i], CellOf<Source>(bits, static_cast<Row*>(rows)[i]));
      }
    };
  } else if constexpr (kIsMember && !NamedEnum<T>) {
    accessor.write = [](uint64_t bits, const Cells& cells, void* rows) {
      const auto& values = std::get<kAlternative>(cells);
      for (size_t i = 0; i < values.size(); ++i) {
        CellOf<Source>(bits, static_cast<Row*>(rows)[i]) = static_cast<T>(values[i]);
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

// The same of one struct. The source is a member, a Path, or a function (or lambda without
// captures) that computes the cell: int64_t, uint32_t, double, bool, std::string, Sizes, or an enum
// with ToString().
template <typename Row>
struct Field : AnyField {
  template <typename Source>
  Field(Source source, Column described) : AnyField{{}, std::move(described)} {
    if constexpr (std::is_class_v<Source> && !kIsPath<Source>) {
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
  void LetBeUnknown(std::string_view key);
  // To a table that ReadTable() made.
  void AppendRows(const void* rows, size_t count, Table& table) const;
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
  explicit Description(const std::vector<Field<Row>>& fields)
      : AnyDescription(std::vector<AnyField>(fields.begin(), fields.end())) {}

  // A copy for JSON, in which Column::kUnknown of this column of integers means "not known".
  Description WithUnknown(std::string_view key) const {
    Description copy = *this;
    copy.LetBeUnknown(key);
    return copy;
  }

  Table ToTable(std::string key, std::span<const Row> rows) const {
    return ReadTable(std::move(key), rows.data(), rows.size());
  }
  Table ToTable(std::string key, const std::vector<Row>& rows) const {
    return ReadTable(std::move(key), rows.data(), rows.size());
  }

  void Append(std::span<const Row> rows, Table& table) const {
    AppendRows(rows.data(), rows.size(), table);
  }

  // Members without a column, and columns that the table lacks, keep their default. DATA_LOSS: a
  // column has another type.
  absl::StatusOr<std::vector<Row>> FromTable(const Table& table) const {
    std::vector<Row> rows(table.size());
    if (absl::Status status = WriteRows(table, rows.data()); !status.ok()) return status;
    return rows;
  }
};

// The rows of the report's table of this key. DATA_LOSS: there is none, or as FromTable().
template <typename Row>
absl::StatusOr<std::vector<Row>> RowsOf(const Report& report, std::string_view key,
                                        const Description<Row>& columns) {
  const Table* const table = report.Find(key);
  if (table == nullptr) return DoNotFitTogether();
  return columns.FromTable(*table);
}

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_DESCRIPTION_H_
