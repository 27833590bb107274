// Fills a table with one row, so that readers of millions of generated rows set only the columns
// that differ: row by row, code that is not optimized takes ten times as long.
#ifndef PROFD_TESTS_FAKES_REPEAT_ROW_H_
#define PROFD_TESTS_FAKES_REPEAT_ROW_H_

#include <cstddef>
#include <type_traits>

#include "daemon/store/file/event_columns.h"

namespace profd {

// Replaces the rows of `table` by `count` times `row`.
template <typename Row>
void RepeatRow(const Row& row, size_t count, store::EventTable<Row>& table) {
  ForEachColumnPair(row, table.columns, [count](const auto& from, const auto& to) {
    using Plain = std::remove_reference_t<decltype(to.values[0])>;
    to.values.assign(count, static_cast<Plain>(from.values));
  });
}

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_REPEAT_ROW_H_
