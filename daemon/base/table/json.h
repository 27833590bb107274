// Tables as JSON and CSV, and the JSON Schema of a table's rows.
//
// Threads: any. Errors: none.
#ifndef PROFD_DAEMON_BASE_TABLE_JSON_H_
#define PROFD_DAEMON_BASE_TABLE_JSON_H_

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/base/json_writer.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"

namespace profd::table {

// The fields of one row, into the object that is open. What is not known is null.
void WriteFields(const Table& table, size_t row, JsonWriter& json);
// The same of a row that is in no table, without the columns that have no key.
void WriteFieldsOf(const AnyDescription& columns, const void* row, JsonWriter& json);
template <typename Row>
void WriteFields(const Description<Row>& columns, const Row& row, JsonWriter& json) {
  WriteFieldsOf(columns, &row, json);
}
// The cells of each row as an array, into the array that is open.
void WriteArrays(const Table& table, JsonWriter& json);
// An array of objects, one per row.
void WriteRows(const Table& table, JsonWriter& json);
// The report's totals, the number of rows of its first table, and its tables, into the object that
// is open.
void WriteReport(const Report& report, JsonWriter& json);

// A header line with the keys, and a line per row. Sizes are "8x4x1"; what is not known is empty.
std::string ToCsv(const Table& table);
// Its parts, for a table that is too much to hold.
std::string CsvHeader(const std::vector<Column>& columns);
std::string CsvRows(const Table& table);

// For a JSON Schema: what each field of a row is, into the object "properties" that is open; and
// the member "required".
void WriteProperties(const std::vector<Column>& columns, JsonWriter& json);
void WriteRequired(const std::vector<Column>& columns, JsonWriter& json);
// The same of a row that is an array of its cells, into the open object.
void WriteArraySchema(const std::vector<Column>& columns, JsonWriter& json);

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_JSON_H_
