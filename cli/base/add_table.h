// Reports of several tables, one below the other.
#ifndef PROFD_CLI_BASE_ADD_TABLE_H_
#define PROFD_CLI_BASE_ADD_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/base/style.h"
#include "cli/base/table.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"

namespace profd::cli {

// Adds a table of at most `limit` of `rows` (0: all), after an empty line where text precedes it,
// and how many more there are; nothing for no rows. `cells(row)` are a row's.
template <typename Row, typename Cells>
void AddTable(const std::vector<Row>& rows, std::vector<Column> columns, Cells cells, int64_t limit,
              const Style& style, std::string* text) {
  if (rows.empty()) return;
  const size_t shown = limit > 0 ? std::min(rows.size(), static_cast<size_t>(limit)) : rows.size();
  Table table(std::move(columns));
  for (const Row& row : std::span(rows).first(shown)) table.AddRow(cells(row));
  StrAppend(text, text->empty() ? "" : "\n", table.Render(style));
  const size_t more = rows.size() - shown;
  if (more == 0) return;
  StrAppend(text, "(", FormatCount(static_cast<int64_t>(more)),
            more == 1 ? " more row" : " more rows", ": --limit 0)\n");
}

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_ADD_TABLE_H_
