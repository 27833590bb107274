// Column: the description of one column of a table. Text tables, --json, --csv,
// `profctl explain`, `profctl schema`, and the gRPC answer are made from it.
//
// How do I add a column?  A member of the row's struct, and a line in the description next to the
// code that fills the row (description.h). Nothing else has to change.
//
// Threads: any. Errors: none.
#ifndef PROFD_DAEMON_BASE_TABLE_COLUMN_H_
#define PROFD_DAEMON_BASE_TABLE_COLUMN_H_

#include <cstdint>
#include <string>

namespace profd::table {

// What a cell holds. The numbers are those of Column.Type in reports.proto.
enum class Type : uint8_t {
  kInt = 1,   // int64_t
  kReal = 2,  // double
  kBool = 3,
  kText = 4,   // Any bytes.
  kSizes = 5,  // Three int64_t: x, y, z.
};

// What a number means. It decides how people see the number; JSON and CSV have it as it is.
// The numbers are those of Column.Unit in reports.proto.
enum class Unit : uint8_t {
  kNone = 0,
  kCount = 1,           // "1,234"
  kNs = 2,              // Nanoseconds: "1.234ms"
  kBytes = 3,           // "1.50 KiB"
  kShare = 4,           // 0..1 of the whole that the column's formula names: "12.34%"
  kRatio = 5,           // To a figure that it may exceed: "112.34%"
  kGbPerS = 6,          // 1e9 bytes per second
  kOperations = 7,      // Floating-point operations, shown in 1e9.
  kOperationsPerS = 8,  // The same per second, shown in 1e12.
};

// How the cells of several ranks become one. The numbers are those of Column.OverRanks in
// reports.proto.
enum class OverRanks : uint8_t {
  kNone = 0,  // They do not: minimum, median, and maximum are shown.
  kKey = 1,   // Rows of equal keys are one row.
  kSum = 2,
  kMin = 3,
  kMax = 4,
};

struct Column {
  // In JSON, CSV, --sort: "p95_ns". Times end in _ns, sizes in _bytes. Empty: only people see the
  // column, as text that was made of others; tables that are sent have none such.
  std::string key;
  std::string title;       // Above the text table: "p95".
  std::string doc;         // A sentence without its full stop.
  std::string formula;     // Empty: the cell is as it was recorded.
  Type type = Type::kInt;  // Set by Description from the member's type.
  Unit unit = Unit::kNone;
  // The order in which a narrow terminal drops columns: highest first. 0: never dropped, because
  // the column identifies the row or is its main figure. kOnlyInData: in JSON and CSV, not in text.
  int priority = 0;
  static constexpr int kOnlyInData = -1;
  std::string unknown_text =
      "-";  // What people see of a figure that is not known, or an empty text.
  // A negative number, or sizes that are all 0, mean that the figure is not known: "-", null.
  bool nullable = false;
  // Of a nullable number: negative numbers are known, and only kUnknown, or NaN of a real number,
  // is not. In JSON alone: not sent.
  bool may_be_negative = false;
  static constexpr int64_t kUnknown = INT64_MIN;
  bool only_if_set = false;  // The text table omits it if every cell is empty, 0, or not known.
  bool flexible = false;     // May be shortened in its middle; without max_width, one per table.
  int max_width = 0;         // On a terminal; 0: as wide as its cells.
  bool right = false;        // Of a text: aligned like a number.
  bool highlight = false;    // Of a bool: rows with it stand out.
  OverRanks over_ranks = OverRanks::kNone;

  friend bool operator==(const Column&, const Column&) = default;
};

// Columns of a member that was recorded or summed: the usual ones, by what their numbers mean.
Column PlainColumn(std::string key, std::string title, std::string doc);
Column CountColumn(std::string key, std::string title, std::string doc);
Column NsColumn(std::string key, std::string title, std::string doc);
Column BytesColumn(std::string key, std::string title, std::string doc);
// `column`, of which a negative number means that it is not known.
Column IfKnown(Column column);

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_COLUMN_H_
