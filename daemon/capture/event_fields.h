// What the description of an event kind (event_kinds.h) is made of.
//
// The fields of a kind are written once, as a template over the form of a field:
//
//   template <template <typename> class F>
//   struct SyncFields {
//     F<int64_t> start_ns;
//     F<uint32_t> kind;
//     template <typename Self>
//     static auto Columns(Self& self) {
//       return std::tuple(column::Time(self.start_ns), column::Offset(self.kind));
//     }
//   };
//
//   form           F<T>                  is
//   RowField       T                     one event: what ingest and imports give to the store
//   ColumnField    std::vector<T>        events, column by column: what the store encodes
//   BatchField     std::span<const T>    a part of them: what reports and exports read
//
// In columns and batches, a bool is a uint8_t of 0 or 1, and an enum is its underlying type.
//
// Columns() lists the columns in the order of the file, each with what the store has to know of it:
// how it is encoded, which values a file may hold, and what they refer to. The writer refuses rows
// that break these rules, and the reader refuses files that do.
//
// Threads: values; no locks.
#ifndef PROFD_DAEMON_CAPTURE_EVENT_FIELDS_H_
#define PROFD_DAEMON_CAPTURE_EVENT_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace profd {

// The largest distance of a time from the file's epoch, so that differences never overflow.
inline constexpr int64_t kMaxTimeNs = int64_t{1} << 60;
constexpr bool IsTime(int64_t time_ns) { return time_ns >= -kMaxTimeNs && time_ns <= kMaxTimeNs; }
// "No time", in columns whose times may be absent.
inline constexpr int64_t kAbsentTime = std::numeric_limits<int64_t>::min();
inline constexpr uint16_t kMaxDepth = 128;

// ---- forms of a field ----

template <typename T>
struct PlainField {
  using type = T;
};
template <>
struct PlainField<bool> {
  using type = uint8_t;
};
template <typename T>
requires std::is_enum_v<T>
struct PlainField<T> {
  using type = std::underlying_type_t<T>;
};

template <typename T>
using RowField = T;
template <typename T>
using ColumnField = std::vector<typename PlainField<T>::type>;
template <typename T>
using BatchField = std::span<const typename PlainField<T>::type>;

// ---- columns ----

enum class ColumnTransform : uint8_t {
  kOffset = 0,  // residual = value - base
  kDelta = 1,   // residual = zigzag(value - the value before it); base is the first value
};

enum class ColumnMeaning : uint8_t {
  kNumber,         // From `low` to `high`.
  kFlags,          // Of the bits `high`; readers ignore others.
  kTime,           // Since the epoch. Readers count from the start of the first window.
  kTimeOrAbsent,   // Likewise, or kAbsentTime.
  kEnd,            // `start_ns` in memory; in files start_ns + duration_ns.
  kLead,           // A time before `start_ns`, or kAbsentTime; in files the distance, PackLead().
  kDuration,       // Of an event that begins at `start_ns`; its end is a valid time, too.
  kName,           // As given to CaptureSink::AddName; 0: none.
  kInputs,         // As given to CaptureSink::AddInputs; 0: none.
  kScalars,        // As given to CaptureSink::AddScalars; 0: none.
  kArgumentValue,  // A name, if the row's `type` is ArgumentType::kJson; else any number.
};

inline constexpr uint32_t kEveryColumn = ~0u;

struct ColumnRule {
  ColumnTransform transform = ColumnTransform::kOffset;
  ColumnMeaning meaning = ColumnMeaning::kNumber;
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
  // Readers give the column if they are asked for any of these bits.
  uint32_t groups = kEveryColumn;
  // For these bits they only decode it, because a column that they give follows from it.
  uint32_t needed_for = 0;
  // Files of earlier versions lack the column, and a chunk whose values are all 0 is written
  // without it: its values are then 0. After such columns there are no others.
  bool is_added = false;

  constexpr bool IsGiven(uint32_t columns) const { return (columns & groups) != 0; }
  constexpr bool IsDecoded(uint32_t columns) const {
    return (columns & (groups | needed_for)) != 0;
  }
  constexpr bool has_bounds() const {
    return low != std::numeric_limits<int64_t>::min() ||
           high != std::numeric_limits<int64_t>::max();
  }
};

// A column of a kind. T: the value, vector, or span.
template <ColumnRule kColumnRule, typename T>
struct Column {
  static constexpr ColumnRule kRule = kColumnRule;
  T& values;
};

namespace column {

inline constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();

// Neighboring values have little to do with each other.
template <uint32_t kGroups = kEveryColumn, typename T>
constexpr auto Offset(T& values) {
  return Column<ColumnRule{.groups = kGroups}, T>{values};
}
// Neighboring values are close.
template <uint32_t kGroups = kEveryColumn, typename T>
constexpr auto Delta(T& values) {
  return Column<ColumnRule{.transform = ColumnTransform::kDelta, .groups = kGroups}, T>{values};
}
// Added to a kind that files already had: see ColumnRule::is_added.
template <typename T>
constexpr auto Added(T& values) {
  return Column<ColumnRule{.is_added = true}, T>{values};
}
// Only the values from kLow to kHigh.
template <int64_t kLow, int64_t kHigh, uint32_t kGroups = kEveryColumn, typename T>
constexpr auto Within(T& values) {
  return Column<ColumnRule{.low = kLow, .high = kHigh, .groups = kGroups}, T>{values};
}
template <int64_t kLow, int64_t kHigh, typename T>
constexpr auto DeltaWithin(T& values) {
  return Column<ColumnRule{.transform = ColumnTransform::kDelta, .low = kLow, .high = kHigh}, T>{
      values};
}
template <uint32_t kGroups = kEveryColumn, typename T>
constexpr auto Depth(T& values) {
  return Within<0, kMaxDepth - 1, kGroups>(values);
}
template <uint8_t kKnown, uint32_t kGroups = kEveryColumn, typename T>
constexpr auto Flags(T& values) {
  return Column<ColumnRule{.meaning = ColumnMeaning::kFlags, .high = kKnown, .groups = kGroups}, T>{
      values};
}
template <uint32_t kGroups = kEveryColumn, uint32_t kNeededFor = 0, typename T>
constexpr auto Time(T& values) {
  return Column<ColumnRule{.transform = ColumnTransform::kDelta,
                           .meaning = ColumnMeaning::kTime,
                           .groups = kGroups,
                           .needed_for = kNeededFor},
                T>{values};
}
template <typename T>
constexpr auto TimeOrAbsent(T& values) {
  return Column<
      ColumnRule{.transform = ColumnTransform::kDelta, .meaning = ColumnMeaning::kTimeOrAbsent}, T>{
      values};
}
template <uint32_t kGroups = kEveryColumn, typename T>
constexpr auto End(T& values) {
  return Column<ColumnRule{.transform = ColumnTransform::kDelta,
                           .meaning = ColumnMeaning::kEnd,
                           .groups = kGroups},
                T>{values};
}
template <uint32_t kGroups = kEveryColumn, typename T>
constexpr auto Lead(T& values) {
  return Column<ColumnRule{.meaning = ColumnMeaning::kLead, .groups = kGroups}, T>{values};
}
template <uint32_t kGroups = kEveryColumn, uint32_t kNeededFor = 0, typename T>
constexpr auto Duration(T& values) {
  return Column<
      ColumnRule{.meaning = ColumnMeaning::kDuration, .groups = kGroups, .needed_for = kNeededFor},
      T>{values};
}
template <uint32_t kGroups = kEveryColumn, typename T>
constexpr auto Name(T& values) {
  return Column<ColumnRule{.meaning = ColumnMeaning::kName, .groups = kGroups}, T>{values};
}
template <typename T>
constexpr auto Inputs(T& values) {
  return Column<ColumnRule{.meaning = ColumnMeaning::kInputs}, T>{values};
}
template <typename T>
constexpr auto Scalars(T& values) {
  return Column<ColumnRule{.meaning = ColumnMeaning::kScalars}, T>{values};
}
template <typename T>
constexpr auto ArgumentValue(T& values) {
  return Column<ColumnRule{.transform = ColumnTransform::kDelta,
                           .meaning = ColumnMeaning::kArgumentValue},
                T>{values};
}

}  // namespace column

// ---- from a row's type to the other forms ----

// Rows of one kind and thread, some of them, column by column. Columns that were not asked for are
// empty. Kinds without threads have thread 0.
struct EventBatch {
  uint32_t thread = 0;  // An index into CaptureReader::threads().
  size_t size = 0;
};
template <template <template <typename> class> class Fields>
struct BatchOf : EventBatch, Fields<BatchField> {};

namespace event_internal {
template <typename Row>
struct Forms;
template <template <template <typename> class> class Fields>
struct Forms<Fields<RowField>> {
  using Columns = Fields<ColumnField>;
  using Batch = BatchOf<Fields>;
};
}  // namespace event_internal

template <typename Row>
using ColumnsOfRow = typename event_internal::Forms<Row>::Columns;
template <typename Row>
using BatchOfRow = typename event_internal::Forms<Row>::Batch;

// Calls f(column, index) for every column of a row, of columns, or of a batch.
template <typename Fields, typename F>
constexpr void ForEachColumn(Fields& fields, F&& f) {
  std::apply([&f](const auto&... columns) { (f(columns), ...); },
             std::remove_const_t<Fields>::Columns(fields));
}
// Calls f(column of a, column of b) for every column of two forms of a kind.
template <typename A, typename B, typename F>
constexpr void ForEachColumnPair(A& a, B& b, F&& f) {
  const auto of_a = std::remove_const_t<A>::Columns(a);
  const auto of_b = std::remove_const_t<B>::Columns(b);
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (f(std::get<kIndex>(of_a), std::get<kIndex>(of_b)), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(of_a)>>());
}

// Row `i` of a batch of all columns.
template <typename Row>
constexpr Row RowAt(const BatchOfRow<Row>& batch, size_t i) {
  Row row;
  ForEachColumnPair(batch, row, [i](const auto& from, const auto& to) {
    to.values = static_cast<std::remove_cvref_t<decltype(to.values)>>(from.values[i]);
  });
  return row;
}

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_EVENT_FIELDS_H_
