// Tables of events as columns, the stored form of the kinds in daemon/capture/event_kinds.h.
//
// While it is filled, a table has the rows of one thread; when it becomes a chunk, it may have the
// rows of several threads, one after the other. The tables of kinds without threads have no thread
// column, and are filled as if all rows were of one thread.
//
// Threads: values; no locks.
#ifndef PROFD_DAEMON_STORE_FILE_EVENT_COLUMNS_H_
#define PROFD_DAEMON_STORE_FILE_EVENT_COLUMNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/capture/event_kinds.h"
#include "daemon/store/file/column_codec.h"

namespace profd::store {

inline constexpr size_t kMaxChunkRows = kMaxColumnValues;

// From the first start to the last end; empty when begin_ns > end_ns.
struct TimeSpan {
  int64_t begin_ns = std::numeric_limits<int64_t>::max();
  int64_t end_ns = std::numeric_limits<int64_t>::min();

  void Add(int64_t time_ns) {
    begin_ns = std::min(begin_ns, time_ns);
    end_ns = std::max(end_ns, time_ns);
  }
  bool empty() const { return begin_ns > end_ns; }
};

// Encodes the time from queueing or submission to a row's start: 0 is "unknown", else 1 + the
// zigzag of the distance, which is usually small.
inline int64_t PackLead(int64_t start_ns, int64_t time_ns) {
  if (time_ns == kAbsentTime) return 0;
  const int64_t lead_ns = start_ns - time_ns;
  return static_cast<int64_t>(
      1 + ((static_cast<uint64_t>(lead_ns) << 1) ^ static_cast<uint64_t>(lead_ns >> 63)));
}
// Gives kAbsentTime for 0. Returns false for a time that a file may not contain.
inline bool UnpackLead(int64_t start_ns, int64_t lead, int64_t& time_ns) {
  time_ns = kAbsentTime;
  if (lead == 0) return true;
  const uint64_t zigzag = static_cast<uint64_t>(lead) - 1;
  // The distance of two times, and its sign.
  if (zigzag > static_cast<uint64_t>(kMaxTimeNs) * 4) return false;
  const auto lead_ns = static_cast<int64_t>((zigzag >> 1) ^ (uint64_t{0} - (zigzag & 1)));
  time_ns = start_ns - lead_ns;
  return IsTime(time_ns);
}

namespace columns_internal {
template <typename T>
using PointerField = typename PlainField<T>::type*;
template <typename Row>
struct Pointers;
template <template <template <typename> class> class Fields>
struct Pointers<Fields<RowField>> {
  using type = Fields<PointerField>;
};
template <typename T>
using ValueOf = std::remove_cvref_t<decltype(std::declval<T>().front())>;

// Whether a file may hold the value, which is one of `row`.
template <ColumnRule kRule, typename Row, typename T>
bool IsValid(const Row& row, const T& value) {
  using enum ColumnMeaning;
  if constexpr (kRule.meaning == kFlags) {
    return (value & ~static_cast<uint64_t>(kRule.high)) == 0;
  } else if constexpr (kRule.meaning == kTime || kRule.meaning == kEnd) {
    return IsTime(value);
  } else if constexpr (kRule.meaning == kTimeOrAbsent || kRule.meaning == kLead) {
    return value == kAbsentTime || IsTime(value);
  } else if constexpr (kRule.meaning == kDuration) {
    return value >= 0 && value <= kMaxTimeNs && IsTime(row.start_ns) &&
           IsTime(row.start_ns + value);
  } else if constexpr (kRule.meaning == kArgumentValue) {
    return row.type != ArgumentType::kJson || (value >= 0 && value <= UINT32_MAX);
  } else if constexpr (kRule.has_bounds()) {
    const auto number = static_cast<int64_t>(value);
    return number >= kRule.low && number <= kRule.high;
  } else {
    return true;
  }
}
}  // namespace columns_internal

template <typename Row>
struct EventTable {
  static constexpr RowKind kKind = Row::kKind;
  // The thread's column, if there is one, comes first in a chunk.
  static constexpr size_t kFirstColumn = Row::kHasThread ? 1 : 0;
  static constexpr size_t kColumnCount =
      kFirstColumn + std::tuple_size_v<decltype(Row::Columns(std::declval<Row&>()))>;

  // Empty until the rows become a chunk, and for kinds without threads.
  std::vector<uint32_t> thread;
  ColumnsOfRow<Row> columns;

  size_t size() const { return std::get<0>(columns.Columns(columns)).values.size(); }

  void Append(std::span<const Row> rows) {
    const size_t at = size();
    typename columns_internal::Pointers<Row>::type to;
    ForEachColumnPair(columns, to, [at, &rows](const auto& column, const auto& pointer) {
      column.values.resize(at + rows.size());
      pointer.values = column.values.data() + at;
    });
    for (size_t i = 0; i < rows.size(); ++i) {
      ForEachColumnPair(rows[i], to, [i](const auto& from, const auto& pointer) {
        using Plain = std::remove_reference_t<decltype(*pointer.values)>;
        pointer.values[i] = static_cast<Plain>(from.values);
      });
    }
  }

  // The time that the rows cover; only the epoch if they have none.
  TimeSpan Span() const {
    TimeSpan span;
    if constexpr (requires { columns.duration_ns; }) {
      for (size_t i = 0; i < size(); ++i) {
        span.begin_ns = std::min(span.begin_ns, columns.start_ns[i]);
        span.end_ns = std::max(span.end_ns, columns.start_ns[i] + columns.duration_ns[i]);
      }
    } else if constexpr (requires { columns.start_ns; }) {
      for (const int64_t time : columns.start_ns) span.Add(time);
    } else if constexpr (requires { columns.time_ns; }) {
      for (const int64_t time : columns.time_ns) {
        if (time != kAbsentTime) span.Add(time);
      }
    }
    return span.empty() ? TimeSpan{.begin_ns = 0, .end_ns = 0} : span;
  }
};

// Returns whether a file may contain these rows, names and inputs aside.
template <typename Row>
bool AreValid(std::span<const Row> rows) {
  bool valid = true;
  for (const Row& row : rows) {
    ForEachColumn(row,
                  [&valid, &row]<ColumnRule kRule, typename T>(const Column<kRule, T>& column) {
                    valid &= columns_internal::IsValid<kRule>(row, column.values);
                  });
  }
  return valid;
}

// `object`. In a visitor of columns of all types, members that only some kinds of rows have are
// named through this, because clang looks up the members of what does not depend on the visitor's
// own T also in branches that are not for that T.
template <typename T, typename Object>
constexpr Object& DependingOn(Object& object) {
  return object;
}

// Turns the values into those of the file, in place. Times that refer to the start first, because
// the start may become the end.
template <typename Row>
void Pack(EventTable<Row>& table) {
  using enum ColumnMeaning;
  auto& columns = table.columns;
  ForEachColumn(columns, [&columns]<ColumnRule kRule, typename T>(const Column<kRule, T>& column) {
    if constexpr (kRule.meaning == kLead) {
      for (size_t i = 0; i < column.values.size(); ++i) {
        column.values[i] = PackLead(DependingOn<T>(columns).start_ns[i], column.values[i]);
      }
    }
  });
  ForEachColumn(columns, [&columns]<ColumnRule kRule, typename T>(const Column<kRule, T>& column) {
    if constexpr (kRule.meaning == kEnd) {
      for (size_t i = 0; i < column.values.size(); ++i) {
        column.values[i] += DependingOn<T>(columns).duration_ns[i];
      }
    }
  });
}

// Calls f(column, transform, number) for every column in the order of the file.
template <typename Table, typename F>
void VisitColumns(Table& table, F&& f) {
  size_t number = 0;
  if constexpr (std::remove_const_t<Table>::kFirstColumn == 1) {
    f(table.thread, ColumnTransform::kOffset, number++);
  }
  ForEachColumn(table.columns,
                [&](const auto& column) { f(column.values, column.kRule.transform, number++); });
}

// Returns how many columns the chunk for `table` has: not the added ones at the end that say
// nothing.
template <typename Row>
size_t StoredColumns(const EventTable<Row>& table) {
  size_t count = 0;
  size_t number = EventTable<Row>::kFirstColumn;
  ForEachColumn(table.columns, [&](const auto& column) {
    ++number;
    const bool says_nothing =
        column.kRule.is_added && std::ranges::all_of(column.values, [](auto v) { return v == 0; });
    if (!says_nothing) count = number;
  });
  return count;
}

// Returns the columns, as bits, that a chunk may lack.
template <typename Row>
uint32_t AddedColumns() {
  uint32_t added = 0;
  size_t number = EventTable<Row>::kFirstColumn;
  Row row;
  ForEachColumn(row, [&](const auto& column) {
    if (column.kRule.is_added) added |= 1u << number;
    ++number;
  });
  return added;
}

// Returns the columns of a chunk, as bits, that are decoded for a reader who asked for `columns`.
template <typename Row>
uint32_t WantedColumns(uint32_t columns) {
  uint32_t wanted = Row::kHasThread ? 1 : 0;
  size_t number = EventTable<Row>::kFirstColumn;
  Row row;
  ForEachColumn(row, [&](const auto& column) {
    if (column.kRule.IsDecoded(columns)) wanted |= 1u << number;
    ++number;
  });
  return wanted;
}

// Returns rows [begin, end), of which all are of `thread`; the columns that were not asked for are
// empty. Valid as long as the table is unchanged.
template <typename Row>
BatchOfRow<Row> ToBatch(const EventTable<Row>& table, uint32_t columns, uint32_t thread,
                        size_t begin, size_t end) {
  BatchOfRow<Row> batch;
  batch.thread = thread;
  batch.size = end - begin;
  ForEachColumnPair(table.columns, batch, [&](const auto& from, const auto& to) {
    if (!from.kRule.IsGiven(columns)) return;
    to.values = std::span(from.values).subspan(begin, end - begin);
  });
  return batch;
}

template <typename Row>
size_t CapacityBytes(const EventTable<Row>& table) {
  size_t bytes = 0;
  VisitColumns(table, [&bytes](const auto& column, ColumnTransform, size_t) {
    bytes += column.capacity() * sizeof(column[0]);
  });
  return bytes;
}

// Removes the rows, keeps the memory.
template <typename Row>
void ClearRows(EventTable<Row>& table) {
  VisitColumns(table, [](auto& column, ColumnTransform, size_t) { column.clear(); });
}

// Sets the thread of all rows.
template <typename Row>
void SetThread(uint32_t thread, EventTable<Row>& table) {
  if constexpr (Row::kHasThread) table.thread.assign(table.size(), thread);
}

// Appends rows [begin, end) of `from`, all of `thread`, to `to`.
template <typename Row>
void AppendThreadRows(uint32_t thread, const EventTable<Row>& from, size_t begin, size_t end,
                      EventTable<Row>& to) {
  ForEachColumnPair(from.columns, to.columns, [begin, end](const auto& source, const auto& target) {
    target.values.insert(target.values.end(),
                         source.values.begin() + static_cast<std::ptrdiff_t>(begin),
                         source.values.begin() + static_cast<std::ptrdiff_t>(end));
  });
  if constexpr (Row::kHasThread) to.thread.resize(to.size(), thread);
}

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_EVENT_COLUMNS_H_
