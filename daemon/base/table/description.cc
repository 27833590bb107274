#include "daemon/base/table/description.h"

#include "daemon/base/str_cat.h"

namespace profd::table {

std::vector<Column> AnyDescription::columns() const {
  std::vector<Column> columns;
  columns.reserve(fields_.size());
  for (const AnyField& field : fields_) columns.push_back(field.column);
  return columns;
}

Table AnyDescription::ReadTable(std::string key, const void* rows, size_t count) const {
  Table table = {.key = std::move(key), .columns = columns()};
  table.cells.reserve(fields_.size());
  for (const AnyField& field : fields_) {
    std::visit([&](auto& values) { values.reserve(count); },
               table.cells.emplace_back(EmptyCells(field.accessor.type)));
  }
  AppendRows(rows, count, table);
  return table;
}

void AnyDescription::LetBeUnknown(std::string_view key) {
  for (AnyField& field : fields_) {
    if (field.column.key == key) field.column.nullable = field.column.may_be_negative = true;
  }
}

void AnyDescription::AppendRows(const void* rows, size_t count, Table& table) const {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const Accessor& accessor = fields_[i].accessor;
    accessor.read(accessor.source, rows, count, table.cells[i]);
  }
  table.row_count += static_cast<int64_t>(count);
}

absl::Status AnyDescription::WriteRows(const Table& table, void* rows) const {
  for (const AnyField& field : fields_) {
    const size_t at = table.Find(field.column.key);
    if (at == Table::npos) continue;
    if (table.columns[at].type != field.column.type) {
      return absl::DataLossError(StrCat("the column ", field.column.key, " of the table ",
                                        table.key, " has another type than this version reads"));
    }
    if (field.accessor.write != nullptr) {
      field.accessor.write(field.accessor.source, table.cells[at], rows);
    }
  }
  return absl::OkStatus();
}

Column PlainColumn(std::string key, std::string title, std::string doc) {
  return {.key = std::move(key), .title = std::move(title), .doc = std::move(doc)};
}

Column CountColumn(std::string key, std::string title, std::string doc) {
  Column column = PlainColumn(std::move(key), std::move(title), std::move(doc));
  column.unit = Unit::kCount;
  return column;
}

Column NsColumn(std::string key, std::string title, std::string doc) {
  Column column = PlainColumn(std::move(key), std::move(title), std::move(doc));
  column.unit = Unit::kNs;
  return column;
}

Column BytesColumn(std::string key, std::string title, std::string doc) {
  Column column = PlainColumn(std::move(key), std::move(title), std::move(doc));
  column.unit = Unit::kBytes;
  return column;
}

Column IfKnown(Column column) {
  column.nullable = true;
  return column;
}

}  // namespace profd::table
