#include "daemon/base/table/over_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>

#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"

namespace profd::table {
namespace {

constexpr size_t kNoRow = static_cast<size_t>(-1);

bool IsNumber(Type type) { return type == Type::kInt || type == Type::kReal; }
bool IsKey(const Column& column) { return column.over_ranks == OverRanks::kKey; }

// The tables of all ranks, with the columns that all of them have, in the order of the first.
struct Tables {
  std::vector<Column> columns;
  std::vector<std::string> ranks;
  std::vector<size_t> row_counts;                // By rank.
  std::vector<std::vector<const Cells*>> cells;  // By rank, then by column.
  std::list<Cells> changed;                      // Those of them that are not as the rank has them.
};

Tables TablesOf(std::span<const RankTable> ranks) {
  Tables all;
  for (const Column& column : ranks.front().table->columns) {
    const bool all_have_it = std::ranges::all_of(ranks, [&](const RankTable& rank) {
      const size_t at = rank.table->Find(column.key);
      return at != Table::npos && rank.table->columns[at].type == column.type;
    });
    if (all_have_it) all.columns.push_back(column);
  }
  for (const RankTable& rank : ranks) {
    all.ranks.push_back(rank.rank);
    all.row_counts.push_back(rank.table->size());
    auto& cells = all.cells.emplace_back();
    cells.reserve(all.columns.size());
    for (const Column& column : all.columns) {
      cells.push_back(&rank.table->cells[rank.table->Find(column.key)]);
    }
  }
  return all;
}

// ---- which rows are one ----

void AppendCell(const Cells& cells, size_t row, std::string& key) {
  std::visit(
      [&](const auto& values) {
        using Value = typename std::decay_t<decltype(values)>::value_type;
        if constexpr (std::is_same_v<Value, std::string>) {
          StrAppend(&key, values[row].size(), ":", values[row]);
        } else if constexpr (std::is_same_v<Value, Sizes>) {
          StrAppend(&key, values[row][0], "x", values[row][1], "x", values[row][2], ":");
        } else {
          StrAppend(&key, values[row], ":");
        }
      },
      cells);
}

// For each row of the result, the row of each rank that it is made of, or kNoRow.
using RowsByRank = std::list<std::vector<size_t>>;

// A row that the ranks before do not have follows the one that it follows in its own rank.
RowsByRank MatchRows(const Tables& all, const std::vector<size_t>& keys) {
  RowsByRank merged;
  std::unordered_map<std::string, RowsByRank::iterator> by_key;
  for (size_t rank = 0; rank < all.ranks.size(); ++rank) {
    std::unordered_map<std::string, size_t> occurrences;
    auto after = merged.begin();
    for (size_t row = 0; row < all.row_counts[rank]; ++row) {
      std::string key;
      for (const size_t column : keys) AppendCell(*all.cells[rank][column], row, key);
      StrAppend(&key, "#", occurrences[key]++);
      auto [found, is_new] = by_key.try_emplace(key);
      if (is_new) {
        found->second = merged.emplace(after, all.ranks.size(), kNoRow);
      }
      (*found->second)[rank] = row;
      after = std::next(found->second);
    }
  }
  return merged;
}

// ---- what a rank counts by itself ----

// "cuda" of "cuda:3".
std::string_view WithoutNumber(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) return text;
  const bool is_number =
      std::ranges::all_of(text.substr(colon + 1), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? text.substr(0, colon) : text;
}

// What a number is of: nothing, or of "cuda:3" a "cuda".
std::string_view KindOf(int64_t /*number*/) { return {}; }
std::string_view KindOf(std::string_view text) { return WithoutNumber(text); }

// Whether no rank has two of one kind, and they are not the same in all ranks.
template <typename Value>
bool SayOnlyTheRank(const Tables& all, size_t column) {
  std::map<std::string_view, std::set<Value>> of_all;
  for (const std::vector<const Cells*>& of_rank : all.cells) {
    std::map<std::string_view, const Value*> seen;
    for (const Value& value : std::get<std::vector<Value>>(*of_rank[column])) {
      const auto [found, is_new] = seen.try_emplace(KindOf(value), &value);
      if (!is_new && *found->second != value) return false;
      if (is_new) of_all[KindOf(value)].insert(value);
    }
  }
  return std::ranges::any_of(of_all, [](const auto& kind) { return kind.second.size() > 1; });
}

int64_t WithoutNumber(int64_t /*number*/) { return -1; }  // Not known.

template <typename Value>
void RemoveNumbers(size_t column, Tables& all) {
  for (auto& of_rank : all.cells) {
    std::vector<Value> kinds;
    for (const Value& value : std::get<std::vector<Value>>(*of_rank[column])) {
      kinds.emplace_back(WithoutNumber(value));
    }
    of_rank[column] = &all.changed.emplace_back(std::move(kinds));
  }
}

bool IsOwnNumber(const Column& column, std::span<const std::string_view> own_numbers) {
  return std::ranges::find(own_numbers, column.key) != own_numbers.end();
}

// GPU 3 of rank 3 and GPU 0 of rank 0 become the GPU of each.
void RemoveOwnNumbers(std::span<const std::string_view> own_numbers, Tables& all) {
  for (size_t i = 0; i < all.columns.size(); ++i) {
    const Column& column = all.columns[i];
    if (!IsOwnNumber(column, own_numbers)) continue;
    if (column.type == Type::kInt && SayOnlyTheRank<int64_t>(all, i)) {
      RemoveNumbers<int64_t>(i, all);
    } else if (column.type == Type::kText && SayOnlyTheRank<std::string>(all, i)) {
      RemoveNumbers<std::string>(i, all);
    }
  }
}

// ---- one number of several ----

template <typename Value>
Value Unknown(const Column& column) {
  if (!column.may_be_negative) return Value{-1};
  if constexpr (std::is_floating_point_v<Value>) {
    return std::numeric_limits<Value>::quiet_NaN();
  } else {
    return Column::kUnknown;
  }
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
// Counters from elsewhere may be too large to add.
int64_t Sum(const std::vector<int64_t>& values) {
  int64_t sum = 0;
  for (const int64_t value : values) {
    if (__builtin_add_overflow(sum, value, &sum)) {
      return value < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    }
  }
  return sum;
}

template <typename Value>
Value Aggregate(const Column& column, std::vector<Value> known) {
  if (known.empty()) return column.nullable ? Unknown<Value>(column) : Value{};
  switch (column.over_ranks) {
    case OverRanks::kSum:
      return Sum(known);
    case OverRanks::kMin:
      return *std::ranges::min_element(known);
    case OverRanks::kMax:
      return *std::ranges::max_element(known);
    case OverRanks::kKey:
    case OverRanks::kNone:
      break;
  }
  return Median(known);
}

// What the ranks have in a column of numbers, of one row of the result.
template <typename Value>
std::vector<Value> KnownValues(const Tables& all, size_t column, const std::vector<size_t>& rows) {
  std::vector<Value> known;
  known.reserve(rows.size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    if (rows[rank] == kNoRow) continue;
    const Cells& cells = *all.cells[rank][column];
    if (IsUnknown(all.columns[column], cells, rows[rank])) continue;
    known.push_back(std::get<std::vector<Value>>(cells)[rows[rank]]);
  }
  return known;
}

template <typename Value>
struct Compared {
  Value min{};
  Value median{};
  Value max{};
  size_t max_rank = 0;
};

template <typename Value>
Compared<Value> Compare(const Tables& all, size_t figure, const std::vector<size_t>& rows) {
  const Column& column = all.columns[figure];
  const bool counts_as_0 = column.over_ranks == OverRanks::kSum;
  std::vector<Value> values;
  values.reserve(rows.size());
  Compared<Value> compared = {.max_rank = kNoRow};
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    std::optional<Value> value;
    if (rows[rank] == kNoRow) {
      if (counts_as_0) value = Value{};
    } else if (const Cells& cells = *all.cells[rank][figure];
               !IsUnknown(column, cells, rows[rank])) {
      value = std::get<std::vector<Value>>(cells)[rows[rank]];
    }
    const bool is_there = rows[rank] != kNoRow;
    if (value.has_value()) values.push_back(*value);
    // Texts are those of this rank, so it has the row.
    if (is_there && (compared.max_rank == kNoRow || (value.has_value() && *value > compared.max))) {
      compared.max_rank = rank;
      compared.max = value.value_or(std::numeric_limits<Value>::lowest());
    }
  }
  if (values.empty()) {
    const Value unknown = Unknown<Value>(column);
    return {.min = unknown, .median = unknown, .max = unknown, .max_rank = compared.max_rank};
  }
  compared.min = *std::ranges::min_element(values);
  compared.max = *std::ranges::max_element(values);
  compared.median = Median(values);
  return compared;
}

// ---- the result's cells ----

// Whether each rank has its rows in falling order of the figure.
template <typename Value>
bool IsInOrder(const Tables& all, size_t figure) {
  return std::ranges::all_of(all.cells, [&](const std::vector<const Cells*>& of_rank) {
    const auto& values = std::get<std::vector<Value>>(*of_rank[figure]);
    return std::ranges::is_sorted(values, std::ranges::greater());
  });
}

template <typename Value>
void SortByFigure(std::vector<std::vector<size_t>>& rows, std::vector<Compared<Value>>& figures) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::tie(figures[a].median, figures[a].max) >
           std::tie(figures[b].median, figures[b].max);
  });
  std::vector<std::vector<size_t>> sorted_rows;
  std::vector<Compared<Value>> sorted_figures;
  sorted_rows.reserve(rows.size());
  sorted_figures.reserve(rows.size());
  for (const size_t at : order) {
    sorted_rows.push_back(std::move(rows[at]));
    sorted_figures.push_back(figures[at]);
  }
  rows = std::move(sorted_rows);
  figures = std::move(sorted_figures);
}

// Of a column that is not the figure's. `from`: the rank whose texts a row has.
Cells CellsOf(const Tables& all, size_t column, const std::vector<std::vector<size_t>>& rows,
              const std::vector<size_t>& from) {
  const Column& described = all.columns[column];
  Cells result = EmptyCells(described.type);
  std::visit(
      [&](auto& values) {
        using Value = typename std::decay_t<decltype(values)>::value_type;
        values.reserve(rows.size());
        for (size_t i = 0; i < rows.size(); ++i) {
          if constexpr (std::is_same_v<Value, int64_t> || std::is_same_v<Value, double>) {
            if (!IsKey(described)) {
              values.push_back(Aggregate(described, KnownValues<Value>(all, column, rows[i])));
              continue;
            }
          }
          const Cells& cells = *all.cells[from[i]][column];
          values.push_back(std::get<std::vector<Value>>(cells)[rows[i][from[i]]]);
        }
      },
      result);
  return result;
}

// The figure's columns, in the order of MergedColumns().
template <typename Value>
std::vector<Cells> FigureCells(const Tables& all, const std::vector<std::vector<size_t>>& rows,
                               const std::vector<Compared<Value>>& figures) {
  std::vector<Value> min;
  std::vector<Value> median;
  std::vector<Value> max;
  std::vector<std::string> max_rank;
  std::vector<int64_t> count;
  for (auto* const values : {&min, &median, &max}) values->reserve(rows.size());
  max_rank.reserve(rows.size());
  count.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    min.push_back(figures[i].min);
    median.push_back(figures[i].median);
    max.push_back(figures[i].max);
    max_rank.push_back(all.ranks[figures[i].max_rank]);
    count.push_back(std::ranges::count_if(rows[i], [](size_t row) { return row != kNoRow; }));
  }
  return {std::move(min), std::move(median), std::move(max), std::move(max_rank), std::move(count)};
}

std::vector<size_t> FirstRanks(const std::vector<std::vector<size_t>>& rows) {
  std::vector<size_t> first;
  first.reserve(rows.size());
  for (const std::vector<size_t>& row : rows) {
    const auto found = std::ranges::find_if(row, [](size_t at) { return at != kNoRow; });
    first.push_back(static_cast<size_t>(found - row.begin()));
  }
  return first;
}

template <typename Value>
std::vector<Cells> MergedCells(const Tables& all, size_t figure,
                               std::vector<std::vector<size_t>> rows) {
  std::vector<Compared<Value>> figures;
  figures.reserve(rows.size());
  for (const std::vector<size_t>& row : rows) figures.push_back(Compare<Value>(all, figure, row));
  if (IsInOrder<Value>(all, figure)) SortByFigure(rows, figures);
  std::vector<size_t> from;
  from.reserve(rows.size());
  for (const Compared<Value>& compared : figures) from.push_back(compared.max_rank);
  std::vector<Cells> cells;
  for (size_t column = 0; column < all.columns.size(); ++column) {
    if (column == figure) {
      for (Cells& each : FigureCells(all, rows, figures)) cells.push_back(std::move(each));
    }
    cells.push_back(CellsOf(all, column, rows, from));
  }
  return cells;
}

Column FigureColumn(const Column& figure, Type type, std::string_view key, std::string_view title,
                    std::string_view doc) {
  return {.key = std::string(key),
          .title = StrCat(figure.title, " ", title),
          .doc = std::string(doc),
          .type = type,
          .unit = figure.unit,
          .unknown_text = figure.unknown_text,
          .nullable = true,
          .may_be_negative = figure.may_be_negative};
}

std::string DocOverRanks(const Column& column) {
  switch (column.over_ranks) {
    case OverRanks::kSum:
      return StrCat(column.doc, "; summed over the ranks");
    case OverRanks::kMin:
      return StrCat(column.doc, "; the lowest of the ranks");
    case OverRanks::kMax:
      return StrCat(column.doc, "; the highest of the ranks");
    case OverRanks::kKey:
      return column.doc;
    case OverRanks::kNone:
      break;
  }
  return StrCat(column.doc, IsNumber(column.type) ? "; the median of the ranks that have the row"
                                                  : "; that of max_rank");
}

}  // namespace

size_t FigureOf(const std::vector<Column>& columns, std::string_view wanted) {
  const auto can_be = [&](const Column& column) { return IsNumber(column.type) && !IsKey(column); };
  if (!wanted.empty()) {
    const std::vector<std::string> bare = SortKeys(columns);
    for (size_t i = 0; i < bare.size(); ++i) {
      if ((columns[i].key == wanted || bare[i] == wanted) && can_be(columns[i])) return i;
    }
  }
  for (const Unit unit : {Unit::kNs, Unit::kBytes, Unit::kCount}) {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].unit == unit && can_be(columns[i])) return i;
    }
  }
  const auto found = std::ranges::find_if(columns, can_be);
  return found == columns.end() ? Table::npos : static_cast<size_t>(found - columns.begin());
}

bool HasKey(const std::vector<Column>& columns) { return std::ranges::any_of(columns, &IsKey); }

std::vector<Column> MergedColumns(const std::vector<Column>& columns, size_t figure, Type type,
                                  std::span<const std::string_view> own_numbers) {
  std::vector<Column> merged;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i == figure) {
      merged.push_back(
          FigureColumn(columns[i], type, kMinOverRanks, "min", "The lowest figure of a rank"));
      merged.push_back(FigureColumn(columns[i], type, kMedianOverRanks, "median",
                                    "The median of the ranks' figures"));
      merged.push_back(
          FigureColumn(columns[i], type, kMaxOverRanks, "max", "The highest figure of a rank"));
      merged.push_back({.key = std::string(kMaxRank),
                        .title = "Max on",
                        .doc = "The rank of the highest figure",
                        .type = Type::kText,
                        .right = true});
      merged.push_back({.key = std::string(kRankCount),
                        .title = "In ranks",
                        .doc = "How many ranks have the row",
                        .unit = Unit::kCount,
                        .priority = 1});
    }
    Column& column = merged.emplace_back(columns[i]);
    column.doc = DocOverRanks(column);
    if (column.type == Type::kInt && IsOwnNumber(column, own_numbers)) {
      column.nullable = true;
      column.only_if_set = true;
    }
    // A narrow terminal has the keys and the figure's columns, then as many of these as fit.
    if (i == figure) {
      column.priority = Column::kOnlyInData;
    } else if (!IsKey(column) && !column.flexible && column.priority == 0) {
      column.priority = static_cast<int>(i) + 2;
    }
  }
  return merged;
}

Table MergeRanks(std::span<const RankTable> ranks, std::string_view figure,
                 std::span<const std::string_view> own_numbers) {
  Tables all = TablesOf(ranks);
  RemoveOwnNumbers(own_numbers, all);
  std::vector<size_t> keys;
  for (size_t i = 0; i < all.columns.size(); ++i) {
    if (IsKey(all.columns[i])) keys.push_back(i);
  }
  RowsByRank matched = MatchRows(all, keys);
  std::vector<std::vector<size_t>> rows(std::make_move_iterator(matched.begin()),
                                        std::make_move_iterator(matched.end()));

  Table merged = {.key = ranks.front().table->key, .row_count = std::ssize(rows)};
  const size_t at = FigureOf(all.columns, figure);
  if (at == Table::npos) {
    const std::vector<size_t> from = FirstRanks(rows);
    merged.columns = all.columns;
    for (size_t i = 0; i < all.columns.size(); ++i) {
      merged.cells.push_back(CellsOf(all, i, rows, from));
    }
    return merged;
  }
  const Type type = all.columns[at].type;
  merged.columns = MergedColumns(all.columns, at, type, own_numbers);
  merged.cells = type == Type::kInt ? MergedCells<int64_t>(all, at, std::move(rows))
                                    : MergedCells<double>(all, at, std::move(rows));
  return merged;
}

Table OfEachRank(std::span<const RankTable> ranks) {
  const Tables all = TablesOf(ranks);
  Table result = {.key = ranks.front().table->key};
  Column rank = PlainColumn("rank", "Rank", "The rank; without one, where it ran");
  rank.type = Type::kText;
  rank.right = true;
  result.columns.push_back(std::move(rank));
  result.columns.insert(result.columns.end(), all.columns.begin(), all.columns.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < all.ranks.size(); ++i) {
    names.insert(names.end(), all.row_counts[i], all.ranks[i]);
  }
  result.row_count = std::ssize(names);
  result.cells.emplace_back(std::move(names));
  for (size_t column = 0; column < all.columns.size(); ++column) {
    Cells cells = EmptyCells(all.columns[column].type);
    for (const std::vector<const Cells*>& of_rank : all.cells) {
      std::visit(
          [&](auto& values) {
            const auto& more = std::get<std::decay_t<decltype(values)>>(*of_rank[column]);
            values.insert(values.end(), more.begin(), more.end());
          },
          cells);
    }
    result.cells.push_back(std::move(cells));
  }
  return result;
}

}  // namespace profd::table
