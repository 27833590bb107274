// Table: columns and their cells, independent of the struct that the rows came from. Report: the
// tables and totals of one report. Both are values that can be sent (rpc/convert/report.h).
//
//   rows of a struct ──Description──> Table ──> text, JSON, CSV, HTML, gRPC
//
// Threads: any, like a standard container. Memory: 8 bytes per number, and the texts.
#ifndef PROFD_DAEMON_BASE_TABLE_TABLE_H_
#define PROFD_DAEMON_BASE_TABLE_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/table/column.h"

namespace profd::table {

using Sizes = std::array<int64_t, 3>;

// The cells of one column, by row. The alternatives are in the order of Type.
using Cells = std::variant<std::vector<int64_t>, std::vector<double>, std::vector<uint8_t>,
                           std::vector<std::string>, std::vector<Sizes>>;

Type TypeOf(const Cells& cells);
size_t SizeOf(const Cells& cells);
Cells EmptyCells(Type type);

struct Table {
  std::string key;  // "rows", "streams": its name in JSON.
  std::vector<Column> columns;
  std::vector<Cells> cells;  // One per column, all of one length.
  int64_t row_count = 0;     // Before a limit was applied.

  size_t size() const { return cells.empty() ? 0 : SizeOf(cells.front()); }
  // The index of the column with this key; npos: there is none.
  static constexpr size_t npos = static_cast<size_t>(-1);
  size_t Find(std::string_view column_key) const;

  friend bool operator==(const Table&, const Table&) = default;
};

// Whether the number in this cell means "not known".
bool IsUnknown(const Column& column, const Cells& cells, size_t row);
// Whether every cell of the column is empty, 0, false, or not known.
bool IsUnset(const Column& column, const Cells& cells);

// Options that every table supports.
struct ViewOptions {
  std::string sort;   // A column's key, with or without its unit ("total" for "total_ns"); empty:
                      // as the report has its rows.
  int64_t limit = 0;  // Rows kept; 0: all.
};

// Sorts by a column: numbers descending, texts ascending, rows that are equal as they were. Then
// keeps the first `limit` rows. INVALID_ARGUMENT: no such column; the error lists them.
absl::Status Apply(const ViewOptions& options, Table& table);

// The keys that Apply() sorts by, each without its unit where that is not ambiguous.
std::vector<std::string> SortKeys(const std::vector<Column>& columns);

struct Report {
  std::string name;  // "kernels"
  // Grows when a column changes its meaning or goes away; new columns leave it as it is.
  int64_t version = 1;
  Table totals;               // One row. In JSON its fields are next to the tables.
  std::vector<Table> tables;  // In the order in which people read them.
  // Sentences below the tables: totals in words, and what the tables cannot show.
  std::vector<std::string> notes;

  // The table of this key; nullptr: there is none.
  const Table* Find(std::string_view key) const;

  friend bool operator==(const Report&, const Report&) = default;
};

// DATA_LOSS: what each table of a report says may be right, but not together with the others.
absl::Status DoNotFitTogether();

// Whether a report from elsewhere keeps the promises above: one type and length per column, one
// row of totals, keys that are identifiers. DATA_LOSS: it does not.
absl::Status Check(const Report& report);

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_TABLE_H_
