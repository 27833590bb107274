// The kinds of events in a capture, each described once: its row, the columns of its rows in files,
// and the batches that readers give are made of the description here (event_fields.h says how).
//
// How do I add a kind?  A number in RowKind, a template of fields, its Row and Batch, and a line
// in EventTypes. Ingest then appends rows (CaptureSink::Append), the store writes and reads them,
// and reports read them (CaptureReader::ForEach). All work of the GPU is of one kind of row. A kind
// of GPU work is a number in GpuRowKind and a line in kGpuKinds, with a new version of the file:
// earlier readers take a number that they do not know for damage.
//
// How do I add a column?  At the end, with column::Added(), if 0 means that nothing is known;
// readers of earlier versions ignore it. Otherwise as a new kind with all its columns, because
// files already written must stay readable. Readers skip kinds that they do not know. Numbers are
// never reused.
//
// Times of rows are ns since the capture's epoch: an instant the daemon picked when arming. They
// may be negative for what began earlier. Readers count from the start of the first window instead.
// Batches may come from a hostile file: what the columns' rules do not exclude may be anything.
//
// Threads: values; no locks.
#ifndef PROFD_DAEMON_CAPTURE_EVENT_KINDS_H_
#define PROFD_DAEMON_CAPTURE_EVENT_KINDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "daemon/capture/event_fields.h"

namespace profd {

enum class RowKind : uint8_t {  // Kept in files: never change or reuse a number.
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
  kStack = 17,
  kModule = 18,
};

// Returns whether the rows of a kind are framework rows: they belong to ranges and memory events.
constexpr bool AreFrameworkRows(RowKind kind) {
  return kind >= RowKind::kOperator && kind <= RowKind::kBlock;
}
// Returns whether the rows of a kind count as events.
constexpr bool AreEvents(RowKind kind) {
  return kind < RowKind::kOperator || kind > RowKind::kModule;
}

inline constexpr uint8_t kRangeOpen = 1 << 0;       // Still open at the window's end.
inline constexpr uint8_t kRangeTruncated = 1 << 1;  // Began before the window.
inline constexpr uint8_t kRangeUnended = 1 << 2;    // Nothing ends it: its thread did, or it leaks.

// The columns of ranges that a reader can be asked for.
enum RangeColumns : uint32_t {
  kRangeStart = 1 << 0,
  kRangeDuration = 1 << 1,
  kRangeName = 1 << 2,
  kRangeDepth = 1 << 3,
  kRangeCategory = 1 << 4,
  kRangeFlags = 1 << 5,
  kRangeAllColumns = (1 << 6) - 1,
};

// Those of one thread are in the order of their end, so a range follows all that it encloses.
template <template <typename> class F>
struct RangeFields {
  static constexpr RowKind kKind = RowKind::kRange;
  static constexpr bool kHasThread = true;

  F<int64_t> start_ns;
  F<int64_t> duration_ns;  // >= 0
  F<uint32_t> name;
  F<uint16_t> depth;    // < kMaxDepth
  F<uint8_t> category;  // wire::RangeCategory
  F<uint8_t> flags;     // kRange*

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Name<kRangeName>(self.name), column::Depth<kRangeDepth>(self.depth),
                      // The start follows from the end and the duration.
                      column::Duration<kRangeDuration, kRangeStart>(self.duration_ns),
                      column::Offset<kRangeCategory>(self.category),
                      column::Offset<kRangeFlags>(self.flags),
                      column::End<kRangeStart>(self.start_ns));
  }
};
using RangeRow = RangeFields<RowField>;
using RangeBatch = BatchOf<RangeFields>;

template <template <typename> class F>
struct InstantFields {
  static constexpr RowKind kKind = RowKind::kInstant;
  static constexpr bool kHasThread = true;

  F<int64_t> time_ns;
  F<uint32_t> name;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.time_ns), column::Name(self.name));
  }
};
using InstantRow = InstantFields<RowField>;
using InstantBatch = BatchOf<InstantFields>;

template <template <typename> class F>
struct CounterFields {
  static constexpr RowKind kKind = RowKind::kCounter;
  static constexpr bool kHasThread = true;

  F<int64_t> time_ns;
  F<double> value;
  F<uint32_t> name;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.time_ns), column::Name(self.name),
                      column::Offset(self.value));
  }
};
using CounterRow = CounterFields<RowField>;
using CounterBatch = BatchOf<CounterFields>;

template <template <typename> class F>
struct MemoryFields {
  static constexpr RowKind kKind = RowKind::kMemory;
  static constexpr bool kHasThread = true;

  F<int64_t> time_ns;
  F<uint64_t> address;
  F<int64_t> bytes;                  // >= 0
  F<int64_t> total_allocated_bytes;  // -1: not known
  F<int64_t> total_reserved_bytes;   // -1: not known
  F<uint8_t> device_type;            // wire::DeviceType
  F<int16_t> device_index;
  F<uint8_t> category;  // wire::MemoryCategory
  F<bool> is_free;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.time_ns), column::Delta(self.address),
                      column::Within<0, column::kAnyNumber>(self.bytes),
                      column::DeltaWithin<-1, column::kAnyNumber>(self.total_allocated_bytes),
                      column::DeltaWithin<-1, column::kAnyNumber>(self.total_reserved_bytes),
                      column::Offset(self.device_type), column::Offset(self.device_index),
                      column::Offset(self.category), column::Within<0, 1>(self.is_free));
  }
};
using MemoryRow = MemoryFields<RowField>;
using MemoryBatch = BatchOf<MemoryFields>;

template <template <typename> class F>
struct StepFields {
  static constexpr RowKind kKind = RowKind::kStepMark;
  static constexpr bool kHasThread = true;

  F<int64_t> time_ns;
  F<int64_t> step;  // >= 0

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.time_ns),
                      column::DeltaWithin<0, column::kAnyNumber>(self.step));
  }
};
using StepRow = StepFields<RowField>;
using StepBatch = BatchOf<StepFields>;

// ---- GPU rows ----
// In no order of time. Devices, contexts and streams are CUDA's numbers in the target, and
// the numbers of kinds are CUPTI's; readers show those they do not know as numbers.
// Correlations may repeat or match nothing.

template <template <typename> class F>
struct ApiFields {
  static constexpr RowKind kKind = RowKind::kApiCall;
  static constexpr bool kHasThread = true;

  F<int64_t> start_ns;
  F<int64_t> duration_ns;  // >= 0
  F<uint32_t> name;
  F<uint32_t> correlation;  // 0: none
  F<uint32_t> cbid;
  F<int32_t> result;
  F<bool> is_driver;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.start_ns), column::Duration(self.duration_ns),
                      column::Name(self.name), column::Delta(self.correlation),
                      column::Offset(self.cbid), column::Offset(self.result),
                      column::Within<0, 1>(self.is_driver));
  }
  friend bool operator==(const ApiFields&, const ApiFields&) = default;
};
using ApiRow = ApiFields<RowField>;
using ApiBatch = BatchOf<ApiFields>;

enum class GpuRowKind : uint8_t {  // Kept in files: never change or reuse a number.
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kGraphLaunch = 4,  // A whole graph whose nodes were not recorded.
  kMemDecompress = 5,
};

// How reports, exports, and imports of our own exports treat a kind of GPU work.
struct GpuKind {
  GpuRowKind kind;
  std::string_view name;        // In CSV.
  std::string_view category;    // In Chrome and Perfetto traces. Viewers know Kineto's words only.
  std::string_view title;       // The name of its events. Empty: each row has its own.
  bool is_memory_work = false;  // Copies, fills, or decompresses memory; has `bytes`.
  int64_t file_version = 1;     // Files with such rows have at least this (store/file/schema.h).
};
// In the order of their numbers, which count from 1. All GPU work makes its device busy.
inline constexpr auto kGpuKinds = std::to_array<GpuKind>({
    {GpuRowKind::kKernel, "kernel", "kernel", ""},
    {GpuRowKind::kMemcpy, "memcpy", "gpu_memcpy", "", /*is_memory_work=*/true},
    {GpuRowKind::kMemset, "memset", "gpu_memset", "", /*is_memory_work=*/true},
    {GpuRowKind::kGraphLaunch, "graph_launch", "kernel", "CUDA graph"},
    // An engine reads and writes memory, without the SMs, as for a copy. `bytes` is the compressed
    // size. Viewers take what begins with "Memcpy" for a copy, too.
    {GpuRowKind::kMemDecompress, "mem_decompress", "gpu_memcpy", "Memcpy Decompress",
     /*is_memory_work=*/true, /*file_version=*/3},
});

static_assert(
    [] {
      for (size_t i = 0; i < kGpuKinds.size(); ++i) {
        const GpuKind& kind = kGpuKinds[i];
        if (static_cast<size_t>(kind.kind) != i + 1) return false;
        // Only rows of these kinds have names of their own (report/index/gpu_names.cc).
        const bool names_its_rows = kind.kind == GpuRowKind::kKernel ||
                                    kind.kind == GpuRowKind::kMemcpy ||
                                    kind.kind == GpuRowKind::kMemset;
        if (kind.title.empty() != names_its_rows) return false;
        for (size_t j = 0; j < i; ++j) {
          // Imports find a kind by these.
          const bool is_same =
              kind.category == kGpuKinds[j].category && kind.title == kGpuKinds[j].title;
          if (is_same || kind.name == kGpuKinds[j].name) return false;
          if (kind.file_version < kGpuKinds[j].file_version) return false;
        }
      }
      return true;
    }(),
    "kGpuKinds: in the order of their numbers, with distinct names and titles, and versions that "
    "rise");

// The description of a row's kind: neither the writer nor the reader lets others through.
constexpr const GpuKind& GpuKindOf(GpuRowKind kind) {
  return kGpuKinds[static_cast<size_t>(kind) - 1];
}
constexpr bool IsMemoryWork(GpuRowKind kind) { return GpuKindOf(kind).is_memory_work; }

inline constexpr uint8_t kGpuOrphan = 1 << 0;          // Its launch is not in the capture.
inline constexpr uint8_t kGpuStraddlesStart = 1 << 1;  // Began before its window.
inline constexpr uint8_t kGpuStraddlesEnd = 1 << 2;    // Ended after it.
inline constexpr uint8_t kGpuUnfinished = 1 << 3;      // Still running when the capture ended.
inline constexpr uint8_t kGpuAsync = 1 << 4;
inline constexpr uint8_t kGpuDeviceLaunched = 1 << 5;
inline constexpr uint8_t kKnownGpuFlags = kGpuOrphan | kGpuStraddlesStart | kGpuStraddlesEnd |
                                          kGpuUnfinished | kGpuAsync | kGpuDeviceLaunched;

inline constexpr uint16_t kNoGpuDevice = UINT16_MAX;
inline constexpr int64_t kNoGpuTime = kAbsentTime;

// The groups of columns of GPU rows that a reader can be asked for.
enum GpuColumns : uint32_t {
  kGpuTime = 1 << 0,    // start_ns, duration_ns
  kGpuWhat = 1 << 1,    // kind, flags, name, bytes
  kGpuWhere = 1 << 2,   // device, context, stream
  kGpuCause = 1 << 3,   // correlation, graph_id, graph_node_id
  kGpuCopy = 1 << 4,    // copy_kind ... destination_device
  kGpuLaunch = 1 << 5,  // queued_ns ... local_bytes_per_thread
  kGpuAllColumns = (1 << 6) - 1,
};

// Something that ran on a stream. It belongs to the window that it ran in or, after the
// window's end, to that of its launch.
template <template <typename> class F>
struct GpuFields {
  static constexpr RowKind kKind = RowKind::kGpu;
  static constexpr bool kHasThread = false;

  F<int64_t> start_ns;
  F<int64_t> duration_ns;  // >= 0
  F<GpuRowKind> kind;
  F<uint8_t> flags;  // kGpu*
  F<uint16_t> device;
  F<uint32_t> context;
  F<uint32_t> stream;
  F<uint32_t> correlation;  // Of its ApiRow; 0: none.
  F<uint32_t> name;         // Kernels: as recorded, mangled as a rule. Others: 0.
  F<uint32_t> graph_id;     // 0: not of a graph
  F<uint64_t> graph_node_id;
  F<uint64_t> bytes;  // Of memory work. Decompression: the compressed bytes that it reads.
  // Copies: CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind. Memsets: destination only.
  // Other work: 0.
  F<uint8_t> copy_kind;
  F<uint8_t> source_kind;
  F<uint8_t> destination_kind;
  F<uint16_t> source_device;  // Copies between devices; kNoGpuDevice otherwise.
  F<uint16_t> destination_device;
  // Kernels.
  F<int64_t> queued_ns;             // kNoGpuTime: not known
  F<int64_t> submitted_ns;          // kNoGpuTime: not known
  std::array<F<uint32_t>, 3> grid;  // x, y, z; all 0: not known; likewise `block`.
  std::array<F<uint32_t>, 3> block;
  std::array<F<uint16_t>, 3> cluster;  // 0: no clusters
  F<uint16_t> registers_per_thread;
  F<uint32_t> static_shared_bytes;
  F<uint32_t> dynamic_shared_bytes;
  F<uint32_t> local_bytes_per_thread;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    using namespace column;  // NOLINT(google-build-using-namespace): 32 columns.
    return std::tuple(
        // Leads count back from the start.
        Time<kGpuTime, kGpuLaunch>(self.start_ns), Duration<kGpuTime>(self.duration_ns),
        Within<1, kGpuKinds.size(), kGpuWhat>(self.kind),
        Flags<kKnownGpuFlags, kGpuWhat>(self.flags), Name<kGpuWhat>(self.name),
        Offset<kGpuWhat>(self.bytes),  //
        Offset<kGpuWhere>(self.device), Offset<kGpuWhere>(self.context),
        Offset<kGpuWhere>(self.stream),  //
        Delta<kGpuCause>(self.correlation), Offset<kGpuCause>(self.graph_id),
        Delta<kGpuCause>(self.graph_node_id),  //
        Offset<kGpuCopy>(self.copy_kind), Offset<kGpuCopy>(self.source_kind),
        Offset<kGpuCopy>(self.destination_kind), Offset<kGpuCopy>(self.source_device),
        Offset<kGpuCopy>(self.destination_device),  //
        Lead<kGpuLaunch>(self.queued_ns), Lead<kGpuLaunch>(self.submitted_ns),
        Offset<kGpuLaunch>(self.grid[0]), Offset<kGpuLaunch>(self.grid[1]),
        Offset<kGpuLaunch>(self.grid[2]), Offset<kGpuLaunch>(self.block[0]),
        Offset<kGpuLaunch>(self.block[1]), Offset<kGpuLaunch>(self.block[2]),
        Offset<kGpuLaunch>(self.cluster[0]), Offset<kGpuLaunch>(self.cluster[1]),
        Offset<kGpuLaunch>(self.cluster[2]), Offset<kGpuLaunch>(self.registers_per_thread),
        Offset<kGpuLaunch>(self.static_shared_bytes), Offset<kGpuLaunch>(self.dynamic_shared_bytes),
        Offset<kGpuLaunch>(self.local_bytes_per_thread));
  }
  friend bool operator==(const GpuFields&, const GpuFields&) = default;
};
using GpuRow = GpuFields<RowField>;
using GpuBatch = BatchOf<GpuFields>;
// The version that a file with this row has at least.
constexpr int64_t FileVersionOf(const GpuRow& row) { return GpuKindOf(row.kind).file_version; }

template <template <typename> class F>
struct SyncFields {
  static constexpr RowKind kKind = RowKind::kSync;
  static constexpr bool kHasThread = false;

  F<int64_t> start_ns;
  F<int64_t> duration_ns;
  F<uint32_t> kind;    // CUpti_ActivitySynchronizationType
  F<uint16_t> device;  // kNoGpuDevice: its context was never described.
  F<uint32_t> context;
  F<uint32_t> stream;  // wire::kNoStream: all of the context.
  F<uint32_t> correlation;
  F<uint32_t> event_id;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.start_ns), column::Duration(self.duration_ns),
                      column::Offset(self.kind), column::Offset(self.device),
                      column::Offset(self.context), column::Offset(self.stream),
                      column::Delta(self.correlation), column::Offset(self.event_id));
  }
  friend bool operator==(const SyncFields&, const SyncFields&) = default;
};
using SyncRow = SyncFields<RowField>;
using SyncBatch = BatchOf<SyncFields>;

template <template <typename> class F>
struct OverheadFields {
  static constexpr RowKind kKind = RowKind::kOverhead;
  static constexpr bool kHasThread = false;

  F<int64_t> start_ns;
  F<int64_t> duration_ns;
  F<uint32_t> kind;       // CUpti_ActivityOverheadKind
  F<uint32_t> os_thread;  // 0: not known
  F<uint32_t> correlation;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.start_ns), column::Duration(self.duration_ns),
                      column::Offset(self.kind), column::Offset(self.os_thread),
                      column::Delta(self.correlation));
  }
  friend bool operator==(const OverheadFields&, const OverheadFields&) = default;
};
using OverheadRow = OverheadFields<RowField>;
using OverheadBatch = BatchOf<OverheadFields>;

// Rows without a time: their chunks span only the epoch.
template <template <typename> class F>
struct CudaEventFields {
  static constexpr RowKind kKind = RowKind::kCudaEvent;
  static constexpr bool kHasThread = false;

  F<uint32_t> correlation;
  F<uint32_t> context;
  F<uint32_t> stream;
  F<uint32_t> event_id;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Delta(self.correlation), column::Offset(self.context),
                      column::Offset(self.stream), column::Offset(self.event_id));
  }
  friend bool operator==(const CudaEventFields&, const CudaEventFields&) = default;
};
using CudaEventRow = CudaEventFields<RowField>;
using CudaEventBatch = BatchOf<CudaEventFields>;

// ---- framework rows ----

// Details of an operator, or of a user's range with inputs (scope kUserScope), in addition to its
// RangeRow, which has the same thread, start and depth. Comes with it, in the same order. A hostile
// file may have some without a range.
template <template <typename> class F>
struct OperatorFields {
  static constexpr RowKind kKind = RowKind::kOperator;
  static constexpr bool kHasThread = true;

  F<int64_t> start_ns;
  F<uint16_t> depth;           // < kMaxDepth
  F<uint8_t> scope;            // wire::OperatorScope
  F<int64_t> sequence;         // -1: none
  F<uint64_t> forward_thread;  // torch's number; 0: none
  F<uint32_t> torch_thread;    // torch's number of the thread; 0: not known
  F<uint32_t> inputs;          // 0: not recorded
  F<uint32_t> scalars;         // 0: not recorded
  F<uint32_t> stack;           // The number of its StackRow; 0: none.

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(
        column::Time(self.start_ns), column::Depth(self.depth), column::Offset(self.scope),
        column::DeltaWithin<-1, column::kAnyNumber>(self.sequence),
        column::Offset(self.forward_thread), column::Offset(self.torch_thread),
        column::Inputs(self.inputs), column::Scalars(self.scalars), column::Added(self.stack));
  }
  friend bool operator==(const OperatorFields&, const OperatorFields&) = default;
};
using OperatorRow = OperatorFields<RowField>;
using OperatorBatch = BatchOf<OperatorFields>;

// The inputs of an operator as text, each a JSON array with one item per input, spelt as in
// the traces of torch.profiler:
//   dims     [[16,64],[64,64],[],[[3,4],[3,4]]]      [] where there is no tensor
//   types    ["float","float","Scalar","TensorList"]  "" for none
//   strides  [[64,1],[1,64],[],[[4,1],[4,1]]]        empty: not recorded
struct OperatorInputs {
  std::string dims;
  std::string types;
  std::string strides;

  friend bool operator==(const OperatorInputs&, const OperatorInputs&) = default;
};
// Most distinct inputs that a capture keeps. Operators with others have 0, and are counted.
inline constexpr uint32_t kMaxOperatorInputs = 1 << 20;

// A tensor's storage was an input of an operator. Recorded with memory only.
template <template <typename> class F>
struct TensorUseFields {
  static constexpr RowKind kKind = RowKind::kTensorUse;
  static constexpr bool kHasThread = true;

  F<int64_t> time_ns;  // The operator's start.
  F<uint64_t> address;
  F<uint16_t> depth;  // The operator's.
  F<uint8_t> scope;   // The operator's.
  F<uint8_t> input;   // Which, from 0; 255: that or a later one. Tensors of a list share one.

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.time_ns), column::Delta(self.address),
                      column::Depth(self.depth), column::Offset(self.scope),
                      column::Offset(self.input));
  }
  friend bool operator==(const TensorUseFields&, const TensorUseFields&) = default;
};
using TensorUseRow = TensorUseFields<RowField>;
using TensorUseBatch = BatchOf<TensorUseFields>;

inline constexpr int64_t kNoNoteTime = kAbsentTime;

// wire::NoteEvent
template <template <typename> class F>
struct NoteFields {
  static constexpr RowKind kKind = RowKind::kNote;
  static constexpr bool kHasThread = true;

  F<int64_t> time_ns;   // kNoNoteTime: of no moment
  F<uint16_t> kind;     // wire::NoteKind; files may hold others.
  F<uint32_t> subject;  // A name; 0: none
  F<uint32_t> text;     // A name; 0: none
  F<int64_t> value;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::TimeOrAbsent(self.time_ns), column::Offset(self.kind),
                      column::Name(self.subject), column::Name(self.text),
                      column::Offset(self.value));
  }
  friend bool operator==(const NoteFields&, const NoteFields&) = default;
};
using NoteRow = NoteFields<RowField>;
using NoteBatch = BatchOf<NoteFields>;

// wire::BlockEvent. Without a time, and of no thread.
template <template <typename> class F>
struct BlockFields {
  static constexpr RowKind kKind = RowKind::kBlock;
  static constexpr bool kHasThread = false;

  F<uint64_t> address;
  F<int64_t> bytes;  // >= 0
  F<uint32_t> name;  // 0: none
  F<uint8_t> category;
  F<uint8_t> device_type;
  F<int16_t> device_index;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Delta(self.address),
                      column::Within<0, column::kAnyNumber>(self.bytes), column::Name(self.name),
                      column::Offset(self.category), column::Offset(self.device_type),
                      column::Offset(self.device_index));
  }
  friend bool operator==(const BlockFields&, const BlockFields&) = default;
};
using BlockRow = BlockFields<RowField>;
using BlockBatch = BatchOf<BlockFields>;

// A Python stack: its innermost frame, and the stack of the caller. Equal stacks are one, except
// for calls of a module in a row, which use two in turns. Rows count from 1, in the order of the
// file, and callers come first; in a hostile file `caller` may be any number.
template <template <typename> class F>
struct StackFields {
  static constexpr RowKind kKind = RowKind::kStack;
  static constexpr bool kHasThread = false;

  F<uint32_t> caller;      // 0: none. The outermost frame, or with `is_cut` the outermost one kept.
  F<uint32_t> file;        // A name: "train.py", "<string>"
  F<uint32_t> function;    // A name, qualified since Python 3.11: "Net.forward"
  F<uint32_t> line;        // Of the call; 0: not known
  F<uint32_t> first_line;  // Of the function
  F<uint64_t> module;      // Address of the torch.nn.Module that the frame calls; 0: it calls none.
  F<uint32_t> class_name;  // A name: the module's class; 0: not known
  F<bool> is_cut;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Delta(self.caller), column::Name(self.file),
                      column::Name(self.function), column::Offset(self.line),
                      column::Offset(self.first_line), column::Offset(self.module),
                      column::Name(self.class_name), column::Within<0, 1>(self.is_cut));
  }
  friend bool operator==(const StackFields&, const StackFields&) = default;
};
using StackRow = StackFields<RowField>;
using StackBatch = BatchOf<StackFields>;

// Where a torch.nn.Module is in the model. Found after the window: of modules that were at one
// address one after the other, only the last.
template <template <typename> class F>
struct ModuleFields {
  static constexpr RowKind kKind = RowKind::kModule;
  static constexpr bool kHasThread = false;

  F<uint64_t> address;     // As StackRow::module.
  F<uint64_t> root;        // Address of the outermost module that holds it; its own for that one.
  F<uint32_t> path;        // A name, below the root: "blocks.0.mlp"; 0: it is the root.
  F<uint32_t> class_name;  // A name; 0: not known

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Delta(self.address), column::Offset(self.root),
                      column::Name(self.path), column::Name(self.class_name));
  }
  friend bool operator==(const ModuleFields&, const ModuleFields&) = default;
};
using ModuleRow = ModuleFields<RowField>;
using ModuleBatch = BatchOf<ModuleFields>;

// ---- rows of imported traces ----

enum class ArgumentType : uint8_t {  // Kept in files: never change or reuse a number.
  kAbsent = 0,  // The event has no such argument, so exports write none either.
  kInteger = 1,
  kReal = 2,           // The bits of an IEEE 754 double.
  kJson = 3,           // A name: the JSON text of any other value.
  kQuotedInteger = 4,  // A string with an integer in it.
};

// An argument of an event, as an imported trace has it, that does not follow from other rows. Only
// exports use it. Captures without any are exported with numbers of profd's own. Rows without a
// time. The row that an argument belongs to may not be there in a hostile file.
template <template <typename> class F>
struct ArgumentFields {
  static constexpr RowKind kKind = RowKind::kArgument;
  static constexpr bool kHasThread = false;

  F<uint8_t> of;          // The kind of row, kArgumentOf*; files may hold others.
  F<uint32_t> of_thread;  // The row's; 0 for rows of no thread.
  F<uint32_t> row;        // Counts the rows of this kind and thread, from 0. Steps: their number.
  F<uint32_t> key;        // A name
  F<ArgumentType> type;
  F<int64_t> value;

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Offset(self.of), column::Offset(self.of_thread),
                      column::Delta(self.row), column::Name(self.key),
                      column::Within<0, 4>(self.type), column::ArgumentValue(self.value));
  }
  friend bool operator==(const ArgumentFields&, const ArgumentFields&) = default;
};
using ArgumentRow = ArgumentFields<RowField>;
using ArgumentBatch = BatchOf<ArgumentFields>;

// The numbers of the kinds of chunks that hold the rows.
inline constexpr uint8_t kArgumentOfStep = 0;
inline constexpr uint8_t kArgumentOfRange = 1;
inline constexpr uint8_t kArgumentOfMemory = 4;
inline constexpr uint8_t kArgumentOfApiCall = 6;
inline constexpr uint8_t kArgumentOfGpu = 7;
inline constexpr uint8_t kArgumentOfSync = 8;
// A thread, whose row is its index: the `tid` of its events.
inline constexpr uint8_t kArgumentOfThread = 32;

// A range on the row of a stream (`gpu_user_annotation`), as an imported trace has it.
template <template <typename> class F>
struct GpuAnnotationFields {
  static constexpr RowKind kKind = RowKind::kGpuAnnotation;
  static constexpr bool kHasThread = false;

  F<int64_t> start_ns;
  F<int64_t> duration_ns;  // >= 0
  F<uint32_t> name;
  F<uint16_t> device;
  F<uint32_t> stream;
  F<int64_t> external_id;  // 0: none

  template <typename Self>
  static constexpr auto Columns(Self& self) {
    return std::tuple(column::Time(self.start_ns), column::Duration(self.duration_ns),
                      column::Name(self.name), column::Offset(self.device),
                      column::Offset(self.stream), column::Delta(self.external_id));
  }
  friend bool operator==(const GpuAnnotationFields&, const GpuAnnotationFields&) = default;
};
using GpuAnnotationRow = GpuAnnotationFields<RowField>;
using GpuAnnotationBatch = BatchOf<GpuAnnotationFields>;

// ---- all kinds ----

template <typename... Rows>
struct EventTypeList {
  // For each kind: a Holder<Row>.
  template <template <typename> class Holder>
  using Tuple = std::tuple<Holder<Rows>...>;

  // Calls f.template operator()<Row>() for the kind. Returns false for a kind that is not known.
  template <typename F>
  static constexpr bool Visit(RowKind kind, F&& f) {
    return ((Rows::kKind == kind && (f.template operator()<Rows>(), true)) || ...);
  }
  // Calls it for every kind.
  template <typename F>
  static constexpr void ForEach(F&& f) {
    (f.template operator()<Rows>(), ...);
  }
};
using EventTypes =
    EventTypeList<RangeRow, InstantRow, CounterRow, MemoryRow, StepRow, ApiRow, GpuRow, SyncRow,
                  OverheadRow, CudaEventRow, OperatorRow, TensorUseRow, NoteRow, BlockRow,
                  ArgumentRow, GpuAnnotationRow, StackRow, ModuleRow>;

constexpr bool IsKnown(RowKind kind) {
  return EventTypes::Visit(kind, []<typename>() {});
}

// A thread of the target. `index` counts 0, 1, 2, ... within a capture.
struct ThreadRow {
  uint32_t index;
  int64_t os_thread;  // In the target's namespace.
  std::string name;   // Cleaned UTF-8; empty: not known.
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_EVENT_KINDS_H_
