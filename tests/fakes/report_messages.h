// Reading the columns of v1::Table by name.
#ifndef PROFD_TESTS_FAKES_REPORT_MESSAGES_H_
#define PROFD_TESTS_FAKES_REPORT_MESSAGES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profd/v1/reports.pb.h"

namespace profd {

inline const v1::Table& TableOf(const v1::Report& report, std::string_view key) {
  static const v1::Table none;
  for (const v1::Table& table : report.tables()) {
    if (table.key() == key) return table;
  }
  ADD_FAILURE() << "the report has no table " << key;
  return none;
}

inline const v1::Cells& CellsOf(const v1::Table& table, std::string_view key) {
  static const v1::Cells none;
  for (int i = 0; i < table.columns_size(); ++i) {
    if (table.columns(i).key() == key) return table.cells(i);
  }
  ADD_FAILURE() << "the table has no column " << key;
  return none;
}

inline std::vector<int64_t> IntsOf(const v1::Table& table, std::string_view key) {
  std::vector<int64_t> ints;
  uint64_t value = 0;
  for (const int64_t delta : CellsOf(table, key).int_deltas()) {
    value += static_cast<uint64_t>(delta);
    ints.push_back(static_cast<int64_t>(value));
  }
  return ints;
}

inline std::vector<std::string> TextsOf(const v1::Table& table, std::string_view key) {
  std::vector<std::string> texts;
  const v1::Cells& cells = CellsOf(table, key);
  for (const uint32_t word : cells.texts()) texts.push_back(cells.words(static_cast<int>(word)));
  return texts;
}

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_REPORT_MESSAGES_H_
