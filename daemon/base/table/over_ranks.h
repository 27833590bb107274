// The table that several ranks have of one report, as one table: Column::over_ranks says how.
//
//   rank 0: gemm 10 us x 4    gemm: min 10 us, median 15 us, max 20 us (rank 1), 8 calls
//   rank 1: gemm 20 us x 4
//
// Threads: any. Errors: as each function says.
#ifndef PROFD_DAEMON_BASE_TABLE_OVER_RANKS_H_
#define PROFD_DAEMON_BASE_TABLE_OVER_RANKS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/table/column.h"
#include "daemon/base/table/table.h"

namespace profd::table {

struct RankTable {
  std::string rank;              // What people call it.
  const Table* table = nullptr;  // Columns that not all ranks have are left out: daemons differ.
};

// The columns that hold the figure that ranks are compared by: the lowest, median, and highest
// value, the rank of the highest, and how many ranks have the row. Ranks without the row count as 0
// where the figure is summed over ranks, and do not count else.
inline constexpr std::string_view kMinOverRanks = "min_over_ranks";
inline constexpr std::string_view kMedianOverRanks = "median_over_ranks";
inline constexpr std::string_view kMaxOverRanks = "max_over_ranks";
inline constexpr std::string_view kMaxRank = "max_rank";
inline constexpr std::string_view kRankCount = "rank_count";

// The column that ranks are compared by: `wanted`, with or without its unit, if it is a number and
// no key; else the first time, the first size, the first count, or the first number. Table::npos:
// there is none. REQUIRES: every column has a key.
size_t FigureOf(const std::vector<Column>& columns, std::string_view wanted);

// Whether rows of different ranks can be one row: a column is a key.
bool HasKey(const std::vector<Column>& columns);

// One row for each key. Its n-th row in one rank belongs to the n-th in another. Numbers are
// summed, or the lowest, highest, or median of the ranks that have the row; texts are those of
// the rank with the highest figure. Rows are by median and maximum of the figure where every rank
// has its rows in such an order; else as the ranks have them. REQUIRES: HasKey(), `ranks` not
// empty.
//
// `own_numbers` are keys by which a rank counts what is its own: its GPUs, as 3 or "cuda:3". Where
// no rank has several and the ranks differ, the rank says it, and it is not known, or "cuda".
Table MergeRanks(std::span<const RankTable> ranks, std::string_view figure,
                 std::span<const std::string_view> own_numbers);

// The result's columns. `type` is that of the figure; kReal in a schema, which is of any figure.
std::vector<Column> MergedColumns(const std::vector<Column>& columns, size_t figure, Type type,
                                  std::span<const std::string_view> own_numbers);

// The rows of all ranks, each with its rank in a first column, in the order of `ranks`.
Table OfEachRank(std::span<const RankTable> ranks);

}  // namespace profd::table

#endif  // PROFD_DAEMON_BASE_TABLE_OVER_RANKS_H_
