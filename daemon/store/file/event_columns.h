// Tables of events as columns, the stored form: one struct per kind, with a vector per column.
// While it is filled, a table has the rows of one thread; when it becomes a chunk, it may have the
// rows of several threads, one after the other. GPU work and blocks of memory have no thread: such
// tables have no thread column, and are filled as if all rows were of one thread.
//
// How do I add a column?  A new kind of chunk with all its columns (files already written must stay
// readable): the next number in ChunkKind, a struct here that lists its columns in Visit(), the
// calls in writer.cc and reader.cc. Readers skip kinds that they do not know. Numbers are never
// reused.
//
// Threads: values; no locks.
#ifndef PROFD_DAEMON_STORE_FILE_EVENT_COLUMNS_H_
#define PROFD_DAEMON_STORE_FILE_EVENT_COLUMNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/capture/ports.h"
#include "daemon/store/file/column_codec.h"

namespace profd::store {

using enum ColumnTransform;

enum class ChunkKind : uint8_t {
  kRange = 1,
  kInstant = 2,
  kCounter = 3,
  kMemory = 4,
  kStepMark = 5,
  kApiCall = 6,
  kGpu = 7,
  kSync = 8,
  kOverhead = 9,
  kCudaEvent = 10,
  kOperator = 11,
  kTensorUse = 12,
  kNote = 13,
  kBlock = 14,
  kArgument = 15,
  kGpuAnnotation = 16,
  kLast = kGpuAnnotation,
};

// Returns whether the rows of a kind are framework rows: they belong to ranges and memory events.
constexpr bool AreFrameworkRows(ChunkKind kind) {
  return kind >= ChunkKind::kOperator && kind <= ChunkKind::kBlock;
}
// Returns whether the rows of a kind count as events.
constexpr bool AreEvents(ChunkKind kind) {
  return kind < ChunkKind::kOperator || kind > ChunkKind::kLast;
}

inline constexpr size_t kMaxChunkRows = kMaxColumnValues;
// The largest distance of a time from the file's epoch, so that differences never overflow.
inline constexpr int64_t kMaxTimeNs = int64_t{1} << 60;
constexpr bool IsTime(int64_t time_ns) { return time_ns >= -kMaxTimeNs && time_ns <= kMaxTimeNs; }
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
//   Row        the writer's input
//   Columns    its columns in file order, the thread (if it has one) first, and kTransforms,
//              the encoding of each. Both are part of the format: columns that reports read
//              together are next to each other.
//   Append     adds rows; the code that makes the chunk fills the thread column
//   AreValid   whether a file may contain these rows
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

// ---- GPU captures ----

struct ApiCallTable {
  using Row = ApiRow;
  static constexpr ChunkKind kKind = ChunkKind::kApiCall;
  enum Column : uint32_t {
    kThread,
    kStart,
    kDuration,
    kName,
    kCorrelation,
    kCbid,
    kResult,
    kIsDriver
  };

  std::vector<uint32_t> thread;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<uint32_t> name;
  std::vector<uint32_t> correlation;
  std::vector<uint32_t> cbid;
  std::vector<int32_t> result;
  std::vector<uint8_t> is_driver;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kDelta,  kOffset, kOffset,
                                                    kDelta,  kOffset, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.start_ns, self.duration_ns, self.name, self.correlation,
                    self.cbid, self.result, self.is_driver);
  }
  size_t size() const { return start_ns.size(); }
  void Append(std::span<const ApiRow> rows);
  static bool AreValid(std::span<const ApiRow> rows);
  TimeSpan Span() const;
};

// All defined bits of GpuRow.flags.
inline constexpr uint8_t kKnownGpuFlags = kGpuOrphan | kGpuStraddlesStart | kGpuStraddlesEnd |
                                          kGpuUnfinished | kGpuAsync | kGpuDeviceLaunched;

// Encodes the time from queueing or submission to a row's start: 0 is "unknown", else 1 + the
// zigzag of the distance, which is usually small.
uint64_t PackLead(int64_t start_ns, int64_t time_ns);
// Gives kNoGpuTime for 0. Returns false for a time that a file may not contain.
bool UnpackLead(int64_t start_ns, uint64_t lead, int64_t& time_ns);

struct GpuTable {
  using Row = GpuRow;
  static constexpr ChunkKind kKind = ChunkKind::kGpu;
  // By the groups of GpuColumns.
  enum Column : uint32_t {
    kStart,
    kDuration,
    kRowKind,
    kFlags,
    kName,
    kBytes,
    kDevice,
    kContext,
    kStream,
    kCorrelation,
    kGraph,
    kGraphNode,
    kCopyKind,
    kSourceKind,
    kDestinationKind,
    kSourceDevice,
    kDestinationDevice,
    kQueuedLead,
    kSubmittedLead,
    kGridX,
    kGridY,
    kGridZ,
    kBlockX,
    kBlockY,
    kBlockZ,
    kClusterX,
    kClusterY,
    kClusterZ,
    kRegisters,
    kStaticShared,
    kDynamicShared,
    kLocal
  };

  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<uint8_t> kind;
  std::vector<uint8_t> flags;
  std::vector<uint32_t> name;
  std::vector<uint64_t> bytes;
  std::vector<uint16_t> device;
  std::vector<uint32_t> context;
  std::vector<uint32_t> stream;
  std::vector<uint32_t> correlation;
  std::vector<uint32_t> graph_id;
  std::vector<uint64_t> graph_node_id;
  std::vector<uint8_t> copy_kind;
  std::vector<uint8_t> source_kind;
  std::vector<uint8_t> destination_kind;
  std::vector<uint16_t> source_device;
  std::vector<uint16_t> destination_device;
  std::vector<uint64_t> queued_lead;     // PackLead()
  std::vector<uint64_t> submitted_lead;  // PackLead()
  std::vector<uint32_t> grid_x, grid_y, grid_z;
  std::vector<uint32_t> block_x, block_y, block_z;
  std::vector<uint16_t> cluster_x, cluster_y, cluster_z;
  std::vector<uint16_t> registers_per_thread;
  std::vector<uint32_t> static_shared_bytes;
  std::vector<uint32_t> dynamic_shared_bytes;
  std::vector<uint32_t> local_bytes_per_thread;

  static constexpr ColumnTransform kTransforms[] = {
      kDelta,  kOffset, kOffset, kOffset, kOffset, kOffset, kOffset, kOffset,
      kOffset, kDelta,  kOffset, kDelta,  kOffset, kOffset, kOffset, kOffset,
      kOffset, kOffset, kOffset, kOffset, kOffset, kOffset, kOffset, kOffset,
      kOffset, kOffset, kOffset, kOffset, kOffset, kOffset, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.start_ns, self.duration_ns, self.kind, self.flags, self.name, self.bytes,
                    self.device, self.context, self.stream, self.correlation, self.graph_id,
                    self.graph_node_id, self.copy_kind, self.source_kind, self.destination_kind,
                    self.source_device, self.destination_device, self.queued_lead,
                    self.submitted_lead, self.grid_x, self.grid_y, self.grid_z, self.block_x,
                    self.block_y, self.block_z, self.cluster_x, self.cluster_y, self.cluster_z,
                    self.registers_per_thread, self.static_shared_bytes, self.dynamic_shared_bytes,
                    self.local_bytes_per_thread);
  }
  size_t size() const { return start_ns.size(); }
  void Append(std::span<const GpuRow> rows);
  static bool AreValid(std::span<const GpuRow> rows);
  TimeSpan Span() const;
};

struct SyncTable {
  using Row = SyncRow;
  static constexpr ChunkKind kKind = ChunkKind::kSync;
  enum Column : uint32_t {
    kStart,
    kDuration,
    kSyncKind,
    kDevice,
    kContext,
    kStream,
    kCorrelation,
    kEventId
  };

  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<uint32_t> kind;
  std::vector<uint16_t> device;
  std::vector<uint32_t> context;
  std::vector<uint32_t> stream;
  std::vector<uint32_t> correlation;
  std::vector<uint32_t> event_id;

  static constexpr ColumnTransform kTransforms[] = {kDelta,  kOffset, kOffset, kOffset,
                                                    kOffset, kOffset, kDelta,  kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.start_ns, self.duration_ns, self.kind, self.device, self.context,
                    self.stream, self.correlation, self.event_id);
  }
  size_t size() const { return start_ns.size(); }
  void Append(std::span<const SyncRow> rows);
  static bool AreValid(std::span<const SyncRow> rows);
  TimeSpan Span() const;
};

struct OverheadTable {
  using Row = OverheadRow;
  static constexpr ChunkKind kKind = ChunkKind::kOverhead;
  enum Column : uint32_t { kStart, kDuration, kOverheadKind, kOsThread, kCorrelation };

  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<uint32_t> kind;
  std::vector<uint32_t> os_thread;
  std::vector<uint32_t> correlation;

  static constexpr ColumnTransform kTransforms[] = {kDelta, kOffset, kOffset, kOffset, kDelta};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.start_ns, self.duration_ns, self.kind, self.os_thread, self.correlation);
  }
  size_t size() const { return start_ns.size(); }
  void Append(std::span<const OverheadRow> rows);
  static bool AreValid(std::span<const OverheadRow> rows);
  TimeSpan Span() const;
};

// Rows without a time: their chunks span only the epoch.
struct CudaEventTable {
  using Row = CudaEventRow;
  static constexpr ChunkKind kKind = ChunkKind::kCudaEvent;
  enum Column : uint32_t { kCorrelation, kContext, kStream, kEventId };

  std::vector<uint32_t> correlation;
  std::vector<uint32_t> context;
  std::vector<uint32_t> stream;
  std::vector<uint32_t> event_id;

  static constexpr ColumnTransform kTransforms[] = {kDelta, kOffset, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.correlation, self.context, self.stream, self.event_id);
  }
  size_t size() const { return correlation.size(); }
  void Append(std::span<const CudaEventRow> rows);
  static bool AreValid(std::span<const CudaEventRow>) { return true; }
  TimeSpan Span() const { return {.begin_ns = 0, .end_ns = 0}; }
};

// ---- captures of frameworks ----

// In addition to ranges: the rows of one thread are in the order of their ranges.
struct OperatorTable {
  using Row = OperatorRow;
  static constexpr ChunkKind kKind = ChunkKind::kOperator;
  enum Column : uint32_t {
    kThread,
    kStart,
    kDepth,
    kScope,
    kSequence,
    kForwardThread,
    kTorchThread,
    kInputs,
    kScalars
  };

  std::vector<uint32_t> thread;
  std::vector<int64_t> start_ns;
  std::vector<uint16_t> depth;
  std::vector<uint8_t> scope;
  std::vector<int64_t> sequence;
  std::vector<uint64_t> forward_thread;
  std::vector<uint32_t> torch_thread;
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> scalars;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kDelta,  kOffset, kOffset, kDelta,
                                                    kOffset, kOffset, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.start_ns, self.depth, self.scope, self.sequence,
                    self.forward_thread, self.torch_thread, self.inputs, self.scalars);
  }
  size_t size() const { return start_ns.size(); }
  void Append(std::span<const OperatorRow> rows);
  static bool AreValid(std::span<const OperatorRow> rows);
  TimeSpan Span() const;
};

struct TensorUseTable {
  using Row = TensorUseRow;
  static constexpr ChunkKind kKind = ChunkKind::kTensorUse;
  enum Column : uint32_t { kThread, kTime, kAddress, kDepth, kScope, kInput };

  std::vector<uint32_t> thread;
  std::vector<int64_t> time_ns;
  std::vector<uint64_t> address;
  std::vector<uint16_t> depth;
  std::vector<uint8_t> scope;
  std::vector<uint8_t> input;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kDelta,  kDelta,
                                                    kOffset, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.time_ns, self.address, self.depth, self.scope, self.input);
  }
  size_t size() const { return time_ns.size(); }
  void Append(std::span<const TensorUseRow> rows);
  static bool AreValid(std::span<const TensorUseRow> rows);
  TimeSpan Span() const;
};

// kNoNoteTime is stored unchanged; a chunk's span is that of the other rows, or only the epoch.
struct NoteTable {
  using Row = NoteRow;
  static constexpr ChunkKind kKind = ChunkKind::kNote;
  enum Column : uint32_t { kThread, kTime, kNoteKind, kSubject, kText, kValue };

  std::vector<uint32_t> thread;
  std::vector<int64_t> time_ns;
  std::vector<uint16_t> kind;
  std::vector<uint32_t> subject;
  std::vector<uint32_t> text;
  std::vector<int64_t> value;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kDelta,  kOffset,
                                                    kOffset, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.thread, self.time_ns, self.kind, self.subject, self.text, self.value);
  }
  size_t size() const { return time_ns.size(); }
  void Append(std::span<const NoteRow> rows);
  static bool AreValid(std::span<const NoteRow> rows);
  TimeSpan Span() const;
};

// Rows without a time, and of no thread.
struct BlockTable {
  using Row = BlockRow;
  static constexpr ChunkKind kKind = ChunkKind::kBlock;
  enum Column : uint32_t { kAddress, kBytes, kName, kCategory, kDeviceType, kDeviceIndex };

  std::vector<uint64_t> address;
  std::vector<int64_t> bytes;
  std::vector<uint32_t> name;
  std::vector<uint8_t> category;
  std::vector<uint8_t> device_type;
  std::vector<int16_t> device_index;

  static constexpr ColumnTransform kTransforms[] = {kDelta,  kOffset, kOffset,
                                                    kOffset, kOffset, kOffset};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.address, self.bytes, self.name, self.category, self.device_type,
                    self.device_index);
  }
  size_t size() const { return address.size(); }
  void Append(std::span<const BlockRow> rows);
  static bool AreValid(std::span<const BlockRow> rows);
  TimeSpan Span() const { return {.begin_ns = 0, .end_ns = 0}; }
};

// ---- imported traces ----

// Rows without a time, and of no thread of their own.
struct ArgumentTable {
  using Row = ArgumentRow;
  static constexpr ChunkKind kKind = ChunkKind::kArgument;
  enum Column : uint32_t { kOf, kOfThread, kRow, kKey, kType, kValue };

  std::vector<uint8_t> of;
  std::vector<uint32_t> of_thread;
  std::vector<uint32_t> row;
  std::vector<uint32_t> key;
  std::vector<uint8_t> type;
  std::vector<int64_t> value;

  static constexpr ColumnTransform kTransforms[] = {kOffset, kOffset, kDelta,
                                                    kOffset, kOffset, kDelta};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.of, self.of_thread, self.row, self.key, self.type, self.value);
  }
  size_t size() const { return row.size(); }
  void Append(std::span<const ArgumentRow> rows);
  static bool AreValid(std::span<const ArgumentRow> rows);
  TimeSpan Span() const { return {.begin_ns = 0, .end_ns = 0}; }
};

struct GpuAnnotationTable {
  using Row = GpuAnnotationRow;
  static constexpr ChunkKind kKind = ChunkKind::kGpuAnnotation;
  enum Column : uint32_t { kStart, kDuration, kName, kDevice, kStream, kExternalId };

  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<uint32_t> name;
  std::vector<uint16_t> device;
  std::vector<uint32_t> stream;
  std::vector<int64_t> external_id;

  static constexpr ColumnTransform kTransforms[] = {kDelta,  kOffset, kOffset,
                                                    kOffset, kOffset, kDelta};
  template <typename Self>
  static auto Columns(Self& self) {
    return std::tie(self.start_ns, self.duration_ns, self.name, self.device, self.stream,
                    self.external_id);
  }
  size_t size() const { return start_ns.size(); }
  void Append(std::span<const GpuAnnotationRow> rows);
  static bool AreValid(std::span<const GpuAnnotationRow> rows);
  TimeSpan Span() const;
};

// ---- for any table ----

template <typename Table>
inline constexpr bool kHasThreads = requires(Table& table) {
  table.thread;
};

// Calls f(column, transform) for every column.
template <typename Table, typename F>
void VisitColumns(Table& table, F&& f) {
  std::apply(
      [&f](auto&... columns) {
        static_assert(sizeof...(columns) == std::size(std::remove_const_t<Table>::kTransforms));
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

// Removes the rows, keeps the memory.
template <typename Table>
void ClearRows(Table& table) {
  VisitColumns(table, [](auto& column, ColumnTransform) { column.clear(); });
}

// Sets the thread of all rows.
template <typename Table>
void SetThread(uint32_t thread, Table& table) {
  if constexpr (kHasThreads<Table>) table.thread.assign(table.size(), thread);
}

// Appends rows [begin, end) of `from`, all of `thread`, to `to`.
template <typename Table>
void AppendThreadRows(uint32_t thread, Table& from, size_t begin, size_t end, Table& to) {
  SetThread(thread, from);
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

#endif  // PROFD_DAEMON_STORE_FILE_EVENT_COLUMNS_H_
