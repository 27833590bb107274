// Rows that are inside rows of another table, as the evidence of a finding is. JSON has them there
// (object.h). A report has one table of all of them, whose first columns say which row each is in.
//
//   NestedTable<Evidence> evidence("evidence", {PlainColumn("rule", "Rule", "Its finding")},
//                                  EvidenceColumns());
//   for (const Finding& finding : findings) evidence.Add({finding.rule}, finding.evidence);
//   Table rows = std::move(evidence).Take();
//
// Threads: one. Errors: those of ReadNested().
#ifndef PROFD_DAEMON_BASE_TABLE_NESTED_H_
#define PROFD_DAEMON_BASE_TABLE_NESTED_H_

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"

namespace profd::table {

template <typename Row>
class NestedTable {
 public:
  // `in` are the columns, of texts, that name the outer row.
  NestedTable(std::string key, std::vector<Column> in, const Description<Row>& columns)
      : columns_(columns), in_(std::move(in)), names_(in_.size()) {
    for (Column& column : in_) column.type = Type::kText;
    table_ = columns_.ToTable(std::move(key), std::span<const Row>());
  }

  // `in`: a text for each of those columns.
  void Add(std::initializer_list<std::string_view> in, std::span<const Row> rows) {
    columns_.Append(rows, table_);
    size_t column = 0;
    for (const std::string_view name : in) {
      names_[column].insert(names_[column].end(), rows.size(), std::string(name));
      ++column;
    }
  }

  Table Take() && {
    table_.columns.insert(table_.columns.begin(), in_.begin(), in_.end());
    table_.cells.insert(table_.cells.begin(), std::make_move_iterator(names_.begin()),
                        std::make_move_iterator(names_.end()));
    return std::move(table_);
  }

 private:
  const Description<Row>& columns_;
  std::vector<Column> in_;
  std::vector<std::vector<std::string>> names_;  // By column, then by row.
  Table table_;
};

// Calls place(names, row) with each row of the report's table `key`: `names` are the cells of the
// columns `in`. DATA_LOSS: `place` returned false, the table or a column is missing, or as
// FromTable().
template <typename Row, typename Place>
absl::Status ReadNested(const Report& report, std::string_view key,
                        std::initializer_list<std::string_view> in, const Description<Row>& columns,
                        Place place) {
  ASSIGN_OR_RETURN(std::vector<Row> rows, RowsOf(report, key, columns));
  const Table& table = *report.Find(key);
  std::vector<const std::vector<std::string>*> names_by_column;
  for (const std::string_view column : in) {
    const size_t at = table.Find(column);
    if (at == Table::npos || table.columns[at].type != Type::kText) return DoNotFitTogether();
    names_by_column.push_back(&std::get<std::vector<std::string>>(table.cells[at]));
  }
  std::vector<std::string_view> names(names_by_column.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t i = 0; i < names.size(); ++i) names[i] = (*names_by_column[i])[row];
    if (!place(std::span<const std::string_view>(names), std::move(rows[row]))) {
      return DoNotFitTogether();
    }
  }
  return absl::OkStatus();
}

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_NESTED_H_
