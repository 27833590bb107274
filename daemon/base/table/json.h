// Tables as JSON and CSV, and the JSON Schema of a table's rows.
//
// Threads: any. Errors: none.
#ifndef PROFD_DAEMON_BASE_TABLE_JSON_H_
#define PROFD_DAEMON_BASE_TABLE_JSON_H_

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "daemon/base/json_writer.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"

namespace profd::table {

// The fields of one row, into the object that is open. What is not known is null.
void WriteFields(const Table& table, size_t row, JsonWriter& json);
// The same of a row that is in no table.
template <typename Row>
void WriteFields(const Description<Row>& columns, const Row& row, JsonWriter& json) {
  columns.Visit(row, [&json]<typename Cell>(const Column& column, const Cell& cell) {
    if (column.key.empty()) return;
    json.Key(column.key);
    if constexpr (std::is_same_v<Cell, bool>) {
      json.Bool(cell);
    } else if constexpr (std::is_integral_v<Cell>) {
      if (column.nullable && cell < 0) {
        json.Null();
      } else {
        json.Int(static_cast<int64_t>(cell));
      }
    } else if constexpr (std::is_floating_point_v<Cell>) {
      if (column.nullable && cell < 0) {
        json.Null();
      } else {
        json.Double(cell);
      }
    } else if constexpr (std::is_same_v<Cell, Sizes>) {
      json.BeginArray();
      for (const int64_t size : cell) json.Int(size);
      json.EndArray();
    } else {
      json.String(cell);
    }
  });
}
// An array of objects, one per row.
void WriteRows(const Table& table, JsonWriter& json);
// The report's totals, the number of rows of its first table, and its tables, into the object that
// is open.
void WriteReport(const Report& report, JsonWriter& json);

// A header line with the keys, and a line per row. Sizes are "8x4x1"; what is not known is empty.
std::string ToCsv(const Table& table);

// For a JSON Schema: what each field of a row is, into the object "properties" that is open; and
// the member "required".
void WriteProperties(const std::vector<Column>& columns, JsonWriter& json);
void WriteRequired(const std::vector<Column>& columns, JsonWriter& json);

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_JSON_H_
