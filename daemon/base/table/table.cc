#include "daemon/base/table/table.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::table {
namespace {

constexpr std::array<std::string_view, 2> kUnitSuffixes = {"_ns", "_bytes"};

std::string_view WithoutUnit(std::string_view key) {
  for (const std::string_view suffix : kUnitSuffixes) {
    if (key.ends_with(suffix) && key.size() > suffix.size()) {
      return key.substr(0, key.size() - suffix.size());
    }
  }
  return key;
}

// The column that `text` names, by its key or by its key without the unit.
size_t ColumnNamed(const std::vector<Column>& columns, std::string_view text) {
  size_t found = Table::npos;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].key == text) return i;
    if (found == Table::npos && WithoutUnit(columns[i].key) == text) found = i;
  }
  return found;
}

// The row numbers in the new order.
std::vector<size_t> Order(const Cells& cells) {
  std::vector<size_t> order(SizeOf(cells));
  std::iota(order.begin(), order.end(), size_t{0});
  std::visit(
      [&](const auto& values) {
        using Value = typename std::decay_t<decltype(values)>::value_type;
        std::ranges::stable_sort(order, [&](size_t a, size_t b) {
          if constexpr (std::is_same_v<Value, std::string>) return values[a] < values[b];
          if constexpr (std::is_same_v<Value, double>) {  // NaN, which is not known, comes last.
            if (std::isnan(values[b])) return !std::isnan(values[a]);
          }
          return values[b] < values[a];
        });
      },
      cells);
  return order;
}

void Reorder(const std::vector<size_t>& order, Cells& cells) {
  std::visit(
      [&](auto& values) {
        std::decay_t<decltype(values)> moved;
        moved.reserve(order.size());
        for (const size_t row : order) moved.push_back(std::move(values[row]));
        values = std::move(moved);
      },
      cells);
}

bool IsKey(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

absl::Status CheckTable(const Table& table) {
  if (!IsKey(table.key)) return absl::DataLossError("a table of the report has no name");
  if (table.columns.size() != table.cells.size()) {
    return absl::DataLossError(StrCat("the table ", table.key, " lacks cells of a column"));
  }
  std::set<std::string_view> keys;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    if (!IsKey(column.key) || !keys.insert(column.key).second) {
      return absl::DataLossError(StrCat("the table ", table.key, " has a column without a name"));
    }
    if (TypeOf(table.cells[i]) != column.type || SizeOf(table.cells[i]) != table.size()) {
      return absl::DataLossError(StrCat("the column ", column.key, " of the table ", table.key,
                                        " does not fit the others"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Type TypeOf(const Cells& cells) { return static_cast<Type>(cells.index() + 1); }

size_t SizeOf(const Cells& cells) {
  return std::visit([](const auto& values) { return values.size(); }, cells);
}

Cells EmptyCells(Type type) {
  switch (type) {
    case Type::kInt:
      return std::vector<int64_t>();
    case Type::kReal:
      return std::vector<double>();
    case Type::kBool:
      return std::vector<uint8_t>();
    case Type::kText:
      return std::vector<std::string>();
    case Type::kSizes:
      return std::vector<Sizes>();
  }
  return std::vector<int64_t>();
}

size_t Table::Find(std::string_view column_key) const {
  const auto found = std::ranges::find(columns, column_key, &Column::key);
  return found == columns.end() ? npos : static_cast<size_t>(found - columns.begin());
}

bool IsUnknown(const Column& column, const Cells& cells, size_t row) {
  if (!column.nullable) return false;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&cells)) {
    return column.may_be_negative ? (*ints)[row] == Column::kUnknown : (*ints)[row] < 0;
  }
  if (const auto* reals = std::get_if<std::vector<double>>(&cells)) {
    return column.may_be_negative ? std::isnan((*reals)[row]) : (*reals)[row] < 0;
  }
  if (const auto* sizes = std::get_if<std::vector<Sizes>>(&cells)) return (*sizes)[row] == Sizes{};
  return false;
}

bool IsUnset(const Column& column, const Cells& cells) {
  return std::visit(
      [&](const auto& values) {
        using Value = typename std::decay_t<decltype(values)>::value_type;
        for (size_t row = 0; row < values.size(); ++row) {
          if (values[row] != Value() && !IsUnknown(column, cells, row)) return false;
        }
        return true;
      },
      cells);
}

absl::Status Apply(const ViewOptions& options, Table& table) {
  std::vector<size_t> order;
  if (!options.sort.empty()) {
    const size_t at = ColumnNamed(table.columns, options.sort);
    if (at == Table::npos) {
      std::string known;
      for (const std::string& key : SortKeys(table.columns)) {
        StrAppend(&known, known.empty() ? "" : ", ", key);
      }
      return absl::InvalidArgumentError(StrCat("no column '", ForDisplay(options.sort, 80),
                                               "' to sort by; the columns are: ", known));
    }
    order = Order(table.cells[at]);
  } else {
    order.resize(table.size());
    std::iota(order.begin(), order.end(), size_t{0});
  }
  if (options.limit < 0) return absl::InvalidArgumentError("the limit must not be negative");
  if (options.limit > 0 && static_cast<size_t>(options.limit) < order.size()) {
    order.resize(static_cast<size_t>(options.limit));
  } else if (options.sort.empty()) {
    return absl::OkStatus();
  }
  for (Cells& cells : table.cells) Reorder(order, cells);
  return absl::OkStatus();
}

std::vector<std::string> SortKeys(const std::vector<Column>& columns) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].key.empty()) continue;  // Only in text.
    const std::string_view bare = WithoutUnit(columns[i].key);
    keys.emplace_back(ColumnNamed(columns, bare) == i ? bare : columns[i].key);
  }
  return keys;
}

const Table* Report::Find(std::string_view key) const {
  const auto found = std::ranges::find(tables, key, &Table::key);
  return found == tables.end() ? nullptr : &*found;
}

absl::Status DoNotFitTogether() {
  return absl::DataLossError("the parts of the report do not fit together");
}

absl::Status Check(const Report& report) {
  if (!IsKey(report.name)) return absl::DataLossError("the report has no name");
  if (!report.totals.columns.empty()) {
    RETURN_IF_ERROR(CheckTable(report.totals));
    if (report.totals.size() != 1) return absl::DataLossError("the report has no row of totals");
  }
  std::set<std::string_view> keys;
  for (const Table& table : report.tables) {
    RETURN_IF_ERROR(CheckTable(table));
    if (!keys.insert(table.key).second || report.totals.Find(table.key) != Table::npos) {
      return absl::DataLossError(StrCat("the report has two parts named ", table.key));
    }
  }
  return absl::OkStatus();
}

}  // namespace profd::table
