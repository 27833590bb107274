// Rows: decoded, validated events, as ingest gives them to the store and as the store's readers
// give their columns.
//
// Times are ns since the capture's epoch: an instant the daemon picked when arming. They may be
// negative for what began earlier. (Readers count from the start of the first window instead.)
#ifndef PROFD_DAEMON_CAPTURE_EVENT_ROWS_H_
#define PROFD_DAEMON_CAPTURE_EVENT_ROWS_H_

#include <array>
#include <cstdint>
#include <string>

namespace profd {

inline constexpr uint8_t kRangeOpen = 1 << 0;       // Still open at the window's end.
inline constexpr uint8_t kRangeTruncated = 1 << 1;  // Began before the window.
inline constexpr uint8_t kRangeUnended = 1 << 2;    // Ended only because its thread did.

struct RangeRow {
  int64_t start_ns;
  int64_t duration_ns;  // >= 0
  uint32_t name;        // As given to CaptureSink::AddName.
  uint16_t depth;       // < 128
  uint8_t category;     // wire::RangeCategory
  uint8_t flags;        // kRange*
};
struct InstantRow {
  int64_t time_ns;
  uint32_t name;
};
struct CounterRow {
  int64_t time_ns;
  double value;
  uint32_t name;
};
struct MemoryRow {
  int64_t time_ns;
  uint64_t address;
  int64_t bytes;                  // >= 0
  int64_t total_allocated_bytes;  // -1: not known
  int64_t total_reserved_bytes;   // -1: not known
  uint8_t device_type;            // wire::DeviceType
  int16_t device_index;
  uint8_t category;  // wire::MemoryCategory
  bool is_free;
};
struct StepRow {
  int64_t time_ns;
  int64_t step;
};

// ---- GPU rows ----
// In no order of time. Devices, contexts and streams are CUDA's numbers in the target, and
// the numbers of kinds are CUPTI's; readers show those they do not know as numbers.

struct ApiRow {
  int64_t start_ns;
  int64_t duration_ns;  // >= 0
  uint32_t name;
  uint32_t correlation;  // 0: none
  uint32_t cbid;
  int32_t result;
  bool is_driver;

  friend bool operator==(const ApiRow&, const ApiRow&) = default;
};

enum class GpuRowKind : uint8_t {  // Kept in files: never change or reuse a number.
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kGraphLaunch = 4,  // A whole graph whose nodes were not recorded.
};

inline constexpr uint8_t kGpuOrphan = 1 << 0;          // Its launch is not in the capture.
inline constexpr uint8_t kGpuStraddlesStart = 1 << 1;  // Began before its window.
inline constexpr uint8_t kGpuStraddlesEnd = 1 << 2;    // Ended after it.
inline constexpr uint8_t kGpuUnfinished = 1 << 3;      // Still running when the capture ended.
inline constexpr uint8_t kGpuAsync = 1 << 4;
inline constexpr uint8_t kGpuDeviceLaunched = 1 << 5;

// Something that ran on a stream. It belongs to the window that it ran in or, after the
// window's end, to that of its launch.
struct GpuRow {
  int64_t start_ns;
  int64_t duration_ns;  // >= 0
  GpuRowKind kind;
  uint8_t flags;  // kGpu*
  uint16_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;  // Of its ApiRow; 0: none.
  uint32_t name;         // Kernels: as recorded, mangled as a rule. Others: 0.
  uint32_t graph_id;     // 0: not of a graph
  uint64_t graph_node_id;
  uint64_t bytes;  // Copies and memsets.
  // Copies: CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind. Memsets: destination only.
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t destination_kind;
  uint16_t source_device;  // Copies between devices; kNoGpuDevice otherwise.
  uint16_t destination_device;
  // Kernels.
  int64_t queued_ns;             // kNoGpuTime: not known
  int64_t submitted_ns;          // kNoGpuTime: not known
  std::array<uint32_t, 3> grid;  // All 0: not known; likewise `block`.
  std::array<uint32_t, 3> block;
  std::array<uint16_t, 3> cluster;  // 0: no clusters
  uint16_t registers_per_thread;
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t local_bytes_per_thread;

  friend bool operator==(const GpuRow&, const GpuRow&) = default;
};
inline constexpr uint16_t kNoGpuDevice = UINT16_MAX;
inline constexpr int64_t kNoGpuTime = INT64_MIN;

struct SyncRow {
  int64_t start_ns;
  int64_t duration_ns;
  uint32_t kind;    // CUpti_ActivitySynchronizationType
  uint16_t device;  // kNoGpuDevice: its context was never described.
  uint32_t context;
  uint32_t stream;  // wire::kNoStream: all of the context.
  uint32_t correlation;
  uint32_t event_id;

  friend bool operator==(const SyncRow&, const SyncRow&) = default;
};
struct OverheadRow {
  int64_t start_ns;
  int64_t duration_ns;
  uint32_t kind;       // CUpti_ActivityOverheadKind
  uint32_t os_thread;  // 0: not known
  uint32_t correlation;

  friend bool operator==(const OverheadRow&, const OverheadRow&) = default;
};
struct CudaEventRow {
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event_id;

  friend bool operator==(const CudaEventRow&, const CudaEventRow&) = default;
};

// ---- framework rows ----

// What is known of an operator, or of a user's range with inputs (scope kUserScope), beside its
// RangeRow, which has the same thread, start and depth. Comes with it, in the same order.
struct OperatorRow {
  int64_t start_ns;
  uint16_t depth;
  uint8_t scope;            // wire::OperatorScope
  int64_t sequence;         // -1: none
  uint64_t forward_thread;  // torch's number; 0: none
  uint32_t torch_thread;    // torch's number of the thread; 0: not known
  uint32_t inputs;          // As given to CaptureSink::AddInputs; 0: not recorded.
  uint32_t scalars;         // As given to CaptureSink::AddScalars; 0: not recorded.

  friend bool operator==(const OperatorRow&, const OperatorRow&) = default;
};

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
// Distinct ones that a capture keeps; operators with further ones have 0 and are counted.
inline constexpr uint32_t kMaxOperatorInputs = 1 << 20;

// A tensor's storage was an input of an operator. Recorded with memory only.
struct TensorUseRow {
  int64_t time_ns;  // The operator's start.
  uint64_t address;
  uint16_t depth;  // The operator's.
  uint8_t scope;   // The operator's.
  uint8_t input;   // Which, from 0; 255: that or a later one. Tensors of a list share one.

  friend bool operator==(const TensorUseRow&, const TensorUseRow&) = default;
};

// wire::NoteEvent
struct NoteRow {
  int64_t time_ns;   // kNoNoteTime: of no moment
  uint16_t kind;     // wire::NoteKind; files may hold others.
  uint32_t subject;  // A name; 0: none
  uint32_t text;     // A name; 0: none
  int64_t value;

  friend bool operator==(const NoteRow&, const NoteRow&) = default;
};
inline constexpr int64_t kNoNoteTime = INT64_MIN;

// wire::BlockEvent
struct BlockRow {
  uint64_t address;
  int64_t bytes;
  uint32_t name;  // 0: none
  uint8_t category;
  uint8_t device_type;
  int16_t device_index;

  friend bool operator==(const BlockRow&, const BlockRow&) = default;
};

// ---- rows of imported traces ----

enum class ArgumentType : uint8_t {  // Kept in files: never change or reuse a number.
  kAbsent = 0,  // The event has no such argument, so exports write none either.
  kInteger = 1,
  kReal = 2,           // The bits of an IEEE 754 double.
  kJson = 3,           // A name: the JSON text of any other value.
  kQuotedInteger = 4,  // A string with an integer in it.
};

// An argument of an event, as an imported trace has it, that does not follow from other rows. Only
// exports use it. Captures without any are exported with numbers of profd's own.
struct ArgumentRow {
  uint8_t of;       // The kind of row, kArgumentOf*; files may hold others.
  uint32_t thread;  // The row's; 0 for rows of no thread.
  uint32_t row;     // Counts the rows of this kind and thread, from 0. Steps: their number.
  uint32_t key;     // A name
  ArgumentType type;
  int64_t value;

  friend bool operator==(const ArgumentRow&, const ArgumentRow&) = default;
};
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
struct GpuAnnotationRow {
  int64_t start_ns;
  int64_t duration_ns;  // >= 0
  uint32_t name;
  uint16_t device;
  uint32_t stream;
  int64_t external_id;  // 0: none

  friend bool operator==(const GpuAnnotationRow&, const GpuAnnotationRow&) = default;
};

// A thread of the target. `index` counts 0, 1, 2, ... within a capture.
struct ThreadRow {
  uint32_t index;
  int64_t os_thread;  // In the target's namespace.
  std::string name;   // Cleaned UTF-8; empty: not known.
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_EVENT_ROWS_H_
