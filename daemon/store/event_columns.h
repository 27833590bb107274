// Tables of events as columns, the form in which they are kept: one struct per kind, with a
// vector per column. A table holds rows of one thread while it is filled and of any number
// of threads, one after the other, once it is ready to become a chunk.
//
// How do I add a column?  A new kind of chunk with all its columns (files already written
// must stay readable): the next number in ChunkKind, a struct here that lists its columns in
// Visit(), the calls in capture_file_writer.cc and capture_file_reader.cc. Readers skip kinds
// they do not know. Numbers are never reused.
//
// Threads: values; no locks.
#ifndef PROFD_DAEMON_STORE_EVENT_COLUMNS_H_
#define PROFD_DAEMON_STORE_EVENT_COLUMNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/capture/ports.h"
#include "daemon/store/column_codec.h"

namespace profd::store {

using enum ColumnTransform;

enum class ChunkKind : uint8_t {
  kRange = 1,
  kInstant = 2,
  kCounter = 3,
  kMemory = 4,
  kStepMark = 5,
};

inline constexpr size_t kMaxChunkRows = kMaxColumnValues;
// No time in a file lies further from its epoch, so that differences of two never overflow.
inline constexpr int64_t kMaxTimeNs = int64_t{1} << 60;
inline constexpr uint16_t kMaxDepth = 128;

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

// Each table has
//   Row        what the writer is given
//   Columns    its columns in file order, the thread first, and kTransforms, how each is
//              encoded. Both are part of the format: what reports read together stands
//              together.
//   Append     adds rows; the thread column is left to who makes the chunk
//   AreValid   whether a file may hold these rows
//   Span       the time the rows cover
struct RangeTable {
  using Row = RangeRow;
  static constexpr ChunkKind kKind = ChunkKind::kRange;
  enum Column : uint32_t { kThread, kName, kDepth, kDuration, kCategory, kFlags, kEnd };

  std::vector<uint32_t> thread;
  std::vector<uint32_t> name;
  std::vector<uint16_t> depth;
  std::vector<int64_t> duration_ns;
  std::vector<uint8_t> category;
  std::vector<uint8_t> flags;
  std::vector<int64_t> end_ns;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kOffset, kOffset, kOffset,
                                                    kOffset, kOffset, kDelta};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.name, self.depth, self.duration_ns, self.category, self.flags,
                    self.end_ns);
  }
  size_t size() const { return end_ns.size(); }
  void Append(std::span<const RangeRow> rows);
  static bool AreValid(std::span<const RangeRow> rows);
  TimeSpan Span() const;
};

struct InstantTable {
  using Row = InstantRow;
  static constexpr ChunkKind kKind = ChunkKind::kInstant;
  enum Column : uint32_t { kThread, kTime, kName };

  std::vector<uint32_t> thread;
  std::vector<int64_t> time_ns;
  std::vector<uint32_t> name;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kDelta, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.time_ns, self.name);
  }
  size_t size() const { return time_ns.size(); }
  void Append(std::span<const InstantRow> rows);
  static bool AreValid(std::span<const InstantRow> rows);
  TimeSpan Span() const;
};

struct CounterTable {
  using Row = CounterRow;
  static constexpr ChunkKind kKind = ChunkKind::kCounter;
  enum Column : uint32_t { kThread, kTime, kName, kValue };

  std::vector<uint32_t> thread;
  std::vector<int64_t> time_ns;
  std::vector<uint32_t> name;
  std::vector<uint64_t> value_bits;  // IEEE 754 doubles

  static constexpr ColumnTransform kTransforms[] = {kOffset, kDelta, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.time_ns, self.name, self.value_bits);
  }
  size_t size() const { return time_ns.size(); }
  void Append(std::span<const CounterRow> rows);
  static bool AreValid(std::span<const CounterRow> rows);
  TimeSpan Span() const;
};

struct MemoryTable {
  using Row = MemoryRow;
  static constexpr ChunkKind kKind = ChunkKind::kMemory;
  enum Column : uint32_t {
    kThread,
    kTime,
    kAddress,
    kBytes,
    kTotalAllocated,
    kTotalReserved,
    kDeviceType,
    kDeviceIndex,
    kCategory,
    kIsFree
  };

  std::vector<uint32_t> thread;
  std::vector<int64_t> time_ns;
  std::vector<uint64_t> address;
  std::vector<int64_t> bytes;
  std::vector<int64_t> total_allocated_bytes;
  std::vector<int64_t> total_reserved_bytes;
  std::vector<uint8_t> device_type;
  std::vector<int16_t> device_index;
  std::vector<uint8_t> category;
  std::vector<uint8_t> is_free;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kDelta,  kDelta,  kOffset, kDelta,
                                                    kDelta,  kOffset, kOffset, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.time_ns, self.address, self.bytes, self.total_allocated_bytes,
                    self.total_reserved_bytes, self.device_type, self.device_index, self.category,
                    self.is_free);
  }
  size_t size() const { return time_ns.size(); }
  void Append(std::span<const MemoryRow> rows);
  static bool AreValid(std::span<const MemoryRow> rows);
  TimeSpan Span() const;
};

struct StepMarkTable {
  using Row = StepRow;
  static constexpr ChunkKind kKind = ChunkKind::kStepMark;
  enum Column : uint32_t { kThread, kTime, kStep };

  std::vector<uint32_t> thread;
  std::vector<int64_t> time_ns;
  std::vector<int64_t> step;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kDelta, kDelta};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.time_ns, self.step);
  }
  size_t size() const { return time_ns.size(); }
  void Append(std::span<const StepRow> rows);
  static bool AreValid(std::span<const StepRow> rows);
  TimeSpan Span() const;
};

// ---- for any table ----

// Calls f(column, transform) for every column.
template <typename Table, typename F>
void VisitColumns(Table& table, F&& f) {
  std::apply(
      [&f](auto&... columns) {
        size_t number = 0;
        (f(columns, std::remove_const_t<Table>::kTransforms[number++]), ...);
      },
      std::remove_const_t<Table>::Columns(table));
}

template <typename Table>
size_t CapacityBytes(const Table& table) {
  size_t bytes = 0;
  VisitColumns(table, [&bytes](const auto& column, ColumnTransform) {
    bytes += column.capacity() * sizeof(column[0]);
  });
  return bytes;
}

// Forgets the rows, keeps the memory.
template <typename Table>
void ClearRows(Table& table) {
  VisitColumns(table, [](auto& column, ColumnTransform) { column.clear(); });
}

// Copies rows [begin, end) of `from`, all of `thread`, behind those of `to`.
template <typename Table>
void AppendThreadRows(uint32_t thread, Table& from, size_t begin, size_t end, Table& to) {
  from.thread.assign(from.size(), thread);
  const auto append = [begin, end](const auto& source, auto& target) {
    target.insert(target.end(), source.begin() + static_cast<std::ptrdiff_t>(begin),
                  source.begin() + static_cast<std::ptrdiff_t>(end));
  };
  const auto sources = Table::Columns(from);
  auto targets = Table::Columns(to);
  [&]<size_t... kColumn>(std::index_sequence<kColumn...>) {
    (append(std::get<kColumn>(sources), std::get<kColumn>(targets)), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(sources)>>());
}

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_EVENT_COLUMNS_H_
