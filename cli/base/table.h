// Table: rows of cells, aligned. On a terminal it fits the width: first the names in the flexible
// columns are shortened in their middle, so that different ones stay different, then the least
// important columns are left out. Elsewhere every column is shown, and only names beyond
// kLongestName are shortened: columns stay aligned. --json and --csv have whole names.
#ifndef PROFD_CLI_BASE_TABLE_H_
#define PROFD_CLI_BASE_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/style.h"

namespace profd::cli {

struct Column {
  std::string_view title = {};
  bool right = true;      // Aligned right, as numbers are; false: left, as text is.
  bool flexible = false;  // Names: may be shortened, down to kMinFlexibleWidth.
  size_t max_width = 0;   // Of flexible columns on a terminal; 0: as wide as the names.
  int drop_order = 0;     // Left out where the table is too wide, highest first; 0: never.
};

class Table {
 public:
  static constexpr size_t kLongestName = 160;  // Columns, where there is no terminal.

  explicit Table(std::vector<Column> columns);

  // One cell per column. Cells are cleaned for display here.
  void AddRow(std::vector<std::string> cells, Colour colour = Colour::kNone);
  bool empty() const { return rows_.empty(); }

  // Header, rule, rows; every line ends in a newline and has no blanks at its end.
  std::string Render(const Style& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Colour colour;
  };
  std::vector<size_t> NaturalWidths(const Style& style) const;
  // Indices of the columns shown; `widths` of flexible ones are cut.
  std::vector<size_t> Fit(const Style& style, std::vector<size_t>& widths) const;
  // The rows' cells, those of flexible columns shortened to their widths.
  std::vector<Row> Shortened(const std::vector<size_t>& widths) const;
  std::string RenderLine(const std::vector<std::string>& cells, const std::vector<size_t>& shown,
                         const std::vector<size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_TABLE_H_
