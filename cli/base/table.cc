#include "cli/base/table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cli/base/short_names.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kMinFlexibleWidth = 16;
constexpr size_t kLongestCell = 16 << 10;  // A name is at most 4 KiB, or 12 KiB as U+FFFD.

size_t WidestName(const Column& column, const Style& style) {
  if (style.is_terminal && column.max_width > 0) {
    return std::max({column.max_width, kMinFlexibleWidth, DisplayWidth(column.title)});
  }
  return style.width == 0 ? Table::kLongestName : kLongestCell;
}

// Makes the widest of the flexible columns narrower, then the widest ones, until they have given up
// `excess`, if they can.
void Narrow(std::vector<size_t*> flexible, size_t excess) {
  while (excess > 0 && !flexible.empty()) {
    std::ranges::sort(flexible, [](const size_t* a, const size_t* b) { return *a > *b; });
    size_t widest = 1;  // As many are equally wide.
    while (widest < flexible.size() && *flexible[widest] == *flexible[0]) ++widest;
    const size_t next =
        std::max(kMinFlexibleWidth, widest < flexible.size() ? *flexible[widest] : 0);
    if (*flexible[0] <= next) return;
    const size_t each = std::min(*flexible[0] - next, (excess + widest - 1) / widest);
    for (size_t i = 0; i < widest && excess > 0; ++i) {
      const size_t less = std::min(each, excess);
      *flexible[i] -= less;
      excess -= less;
    }
  }
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells, Colour colour) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = ForDisplay(cell, kLongestCell);
  rows_.push_back({std::move(cells), colour});
}

std::vector<size_t> Table::NaturalWidths(const Style& style) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = DisplayWidth(columns_[i].title);
    for (const Row& row : rows_) width = std::max(width, DisplayWidth(row.cells[i]));
    if (columns_[i].flexible) width = std::min(width, WidestName(columns_[i], style));
    widths.push_back(width);
  }
  return widths;
}

std::vector<size_t> Table::Fit(const Style& style, std::vector<size_t>& widths) const {
  std::vector<size_t> shown(columns_.size());
  std::iota(shown.begin(), shown.end(), 0);
  if (style.width == 0) return shown;
  const auto limit = static_cast<size_t>(style.width);
  while (true) {
    size_t total = kGap * (shown.size() - 1);
    size_t saving = 0;
    for (const size_t i : shown) {
      total += widths[i];
      if (columns_[i].flexible && widths[i] > kMinFlexibleWidth) {
        saving += widths[i] - kMinFlexibleWidth;
      }
    }
    const size_t excess = total > limit ? total - limit : 0;
    const auto least = std::max_element(shown.begin(), shown.end(), [&](size_t a, size_t b) {
      return columns_[a].drop_order < columns_[b].drop_order;
    });
    if (excess <= saving || columns_[*least].drop_order == 0) {
      std::vector<size_t*> flexible;
      flexible.reserve(shown.size());
      for (const size_t i : shown) {
        if (columns_[i].flexible) flexible.push_back(&widths[i]);
      }
      Narrow(std::move(flexible), excess);
      return shown;
    }
    shown.erase(least);
  }
}

std::vector<Table::Row> Table::Shortened(const std::vector<size_t>& widths) const {
  std::vector<Row> rows = rows_;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!columns_[i].flexible) continue;
    std::vector<std::string> names;
    names.reserve(rows.size());
    for (const Row& row : rows) names.push_back(row.cells[i]);
    names = ShortenNames(names, widths[i]);
    for (size_t row = 0; row < rows.size(); ++row) rows[row].cells[i] = std::move(names[row]);
  }
  return rows;
}

std::string Table::RenderLine(const std::vector<std::string>& cells,
                              const std::vector<size_t>& shown,
                              const std::vector<size_t>& widths) const {
  std::string line;
  for (const size_t i : shown) {
    if (!line.empty() || i != shown.front()) line.append(kGap, ' ');
    const std::string& cell = cells[i];
    const size_t width = DisplayWidth(cell);
    const size_t padding = width < widths[i] ? widths[i] - width : 0;
    if (columns_[i].right) line.append(padding, ' ');
    line.append(cell);
    if (!columns_[i].right) line.append(padding, ' ');
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

std::string Table::Render(const Style& style) const {
  std::vector<size_t> widths = NaturalWidths(style);
  const std::vector<size_t> shown = Fit(style, widths);
  std::vector<std::string> titles;
  std::vector<std::string> rules;
  for (size_t i = 0; i < columns_.size(); ++i) {
    titles.emplace_back(columns_[i].title);
    rules.emplace_back(widths[i], '-');
  }
  std::string out = StrCat(style.Paint(Colour::kBold, RenderLine(titles, shown, widths)), "\n",
                           RenderLine(rules, shown, widths), "\n");
  for (const Row& row : Shortened(widths)) {
    StrAppend(&out, style.Paint(row.colour, RenderLine(row.cells, shown, widths)), "\n");
  }
  return out;
}

}  // namespace profd::cli
