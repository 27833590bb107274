// CaptureReader reads one capture file, our own or a hostile one: it uses only checked data.
// Reports and exports are pure functions over it.
//
// Times: all times are ns since CaptureRecord::start_unix_ns (the start of the first window);
//        ranges that cross it begin below 0.
// Order: within one thread, ranges come in order of their end, so a range follows all that it
//        encloses. Batches of one thread come in that order too, but batches of
//        different threads are interleaved. A batch holds rows of one thread.
// Threads: one reader per thread.
// Errors: DATA_LOSS for a damaged file (bad checksum, bounds, schema), FAILED_PRECONDITION
//        for one written by a newer profd, NOT_FOUND, INVALID_ARGUMENT for a file that is
//        not a capture.
// Memory: one decoded batch at a time (at most 64 K rows), plus names.
#ifndef PROFD_DAEMON_STORE_FILE_CAPTURE_READER_H_
#define PROFD_DAEMON_STORE_FILE_CAPTURE_READER_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/event_rows.h"
#include "daemon/store/file/byte_file.h"

namespace profd::store {

// The requested columns of ranges; the others are not decoded and their spans are empty.
enum RangeColumns : uint32_t {
  kRangeStart = 1 << 0,
  kRangeDuration = 1 << 1,
  kRangeName = 1 << 2,
  kRangeDepth = 1 << 3,
  kRangeCategory = 1 << 4,
  kRangeFlags = 1 << 5,
  kRangeAllColumns = (1 << 6) - 1,
};

struct RangeBatch {
  uint32_t thread = 0;  // Index into threads().
  size_t size = 0;
  std::span<const int64_t> start_ns;
  std::span<const int64_t> duration_ns;
  std::span<const uint32_t> name;   // Index into names(); always in bounds.
  std::span<const uint16_t> depth;  // < 128
  std::span<const uint8_t> category;
  std::span<const uint8_t> flags;  // profd::kRange* of daemon/capture/event_rows.h
};
struct InstantBatch {
  uint32_t thread = 0;
  size_t size = 0;
  std::span<const int64_t> time_ns;
  std::span<const uint32_t> name;
};
struct CounterBatch {
  uint32_t thread = 0;
  size_t size = 0;
  std::span<const int64_t> time_ns;
  std::span<const uint32_t> name;
  std::span<const double> value;
};
struct MemoryBatch {
  uint32_t thread = 0;
  size_t size = 0;
  std::span<const int64_t> time_ns;
  std::span<const uint64_t> address;
  std::span<const int64_t> bytes;
  std::span<const int64_t> total_allocated_bytes;  // -1: not known
  std::span<const int64_t> total_reserved_bytes;   // -1: not known
  std::span<const uint8_t> device_type;
  std::span<const int16_t> device_index;
  std::span<const uint8_t> category;
  std::span<const uint8_t> is_free;
};

// ---- GPU rows: in no order of time, batches of up to 64 K rows ----
// Their fields are those of the rows in daemon/capture/event_rows.h. Numbers of kinds may be
// anything, because a file may be hostile. Correlations may repeat or match nothing.

struct ApiBatch {
  uint32_t thread = 0;  // Index into threads().
  size_t size = 0;
  std::span<const int64_t> start_ns;
  std::span<const int64_t> duration_ns;  // >= 0; start + duration does not overflow.
  std::span<const uint32_t> name;        // Index into names(); always in bounds.
  std::span<const uint32_t> correlation;
  std::span<const uint32_t> cbid;
  std::span<const int32_t> result;
  std::span<const uint8_t> is_driver;
};

// The requested groups of columns of GpuBatch; the spans of the others are empty.
enum GpuColumns : uint32_t {
  kGpuTime = 1 << 0,    // start_ns, duration_ns
  kGpuWhat = 1 << 1,    // kind, flags, name, bytes
  kGpuWhere = 1 << 2,   // device, context, stream
  kGpuCause = 1 << 3,   // correlation, graph_id, graph_node_id
  kGpuCopy = 1 << 4,    // copy_kind ... destination_device
  kGpuLaunch = 1 << 5,  // queued_ns ... local_bytes_per_thread
  kGpuAllColumns = (1 << 6) - 1,
};
struct GpuBatch {
  size_t size = 0;
  std::span<const int64_t> start_ns;
  std::span<const int64_t> duration_ns;  // >= 0; start + duration does not overflow.
  std::span<const uint8_t> kind;         // profd::GpuRowKind, always one of them.
  std::span<const uint8_t> flags;        // profd::kGpu*
  std::span<const uint32_t> name;        // Index into names(); always in bounds; 0: none.
  std::span<const uint64_t> bytes;
  std::span<const uint16_t> device;
  std::span<const uint32_t> context;
  std::span<const uint32_t> stream;
  std::span<const uint32_t> correlation;
  std::span<const uint32_t> graph_id;
  std::span<const uint64_t> graph_node_id;
  std::span<const uint8_t> copy_kind;
  std::span<const uint8_t> source_kind;
  std::span<const uint8_t> destination_kind;
  std::span<const uint16_t> source_device;
  std::span<const uint16_t> destination_device;
  std::span<const int64_t> queued_ns;     // profd::kNoGpuTime: not known
  std::span<const int64_t> submitted_ns;  // profd::kNoGpuTime: not known
  std::span<const uint32_t> grid_x, grid_y, grid_z;
  std::span<const uint32_t> block_x, block_y, block_z;
  std::span<const uint16_t> cluster_x, cluster_y, cluster_z;
  std::span<const uint16_t> registers_per_thread;
  std::span<const uint32_t> static_shared_bytes;
  std::span<const uint32_t> dynamic_shared_bytes;
  std::span<const uint32_t> local_bytes_per_thread;
};
struct SyncBatch {
  size_t size = 0;
  std::span<const int64_t> start_ns;
  std::span<const int64_t> duration_ns;
  std::span<const uint32_t> kind;
  std::span<const uint16_t> device;  // profd::kNoGpuDevice: not known
  std::span<const uint32_t> context;
  std::span<const uint32_t> stream;  // UINT32_MAX: all of the context
  std::span<const uint32_t> correlation;
  std::span<const uint32_t> event_id;
};
struct OverheadBatch {
  size_t size = 0;
  std::span<const int64_t> start_ns;
  std::span<const int64_t> duration_ns;
  std::span<const uint32_t> kind;
  std::span<const uint32_t> os_thread;  // 0: not known
  std::span<const uint32_t> correlation;
};
struct CudaEventBatch {
  size_t size = 0;
  std::span<const uint32_t> correlation;
  std::span<const uint32_t> context;
  std::span<const uint32_t> stream;
  std::span<const uint32_t> event_id;
};

// ---- framework rows ----

// Operators of one thread, in the order of their ranges, whose start and depth they have: torch's
// and users' with inputs (scope kUserScope). A hostile file may have some without a range.
struct OperatorBatch {
  uint32_t thread = 0;
  size_t size = 0;
  std::span<const int64_t> start_ns;
  std::span<const uint16_t> depth;           // < 128
  std::span<const uint8_t> scope;            // Any number.
  std::span<const int64_t> sequence;         // -1: none
  std::span<const uint64_t> forward_thread;  // 0: none
  std::span<const uint32_t> torch_thread;    // 0: not known
  std::span<const uint32_t> inputs;          // Index into inputs(); always in bounds; 0: none.
  std::span<const uint32_t> scalars;         // Index into scalars(); always in bounds; 0: none.
};
struct TensorUseBatch {
  uint32_t thread = 0;
  size_t size = 0;
  std::span<const int64_t> time_ns;
  std::span<const uint64_t> address;
  std::span<const uint16_t> depth;
  std::span<const uint8_t> scope;
  std::span<const uint8_t> input;
};
struct NoteBatch {
  uint32_t thread = 0;
  size_t size = 0;
  std::span<const int64_t> time_ns;   // profd::kNoNoteTime: no time
  std::span<const uint16_t> kind;     // wire::NoteKind, or any other.
  std::span<const uint32_t> subject;  // Index into names(); always in bounds; 0: none.
  std::span<const uint32_t> text;     // Likewise.
  std::span<const int64_t> value;
};
struct BlockBatch {
  size_t size = 0;
  std::span<const uint64_t> address;
  std::span<const int64_t> bytes;  // >= 0
  std::span<const uint32_t> name;  // Index into names(); always in bounds; 0: none.
  std::span<const uint8_t> category;
  std::span<const uint8_t> device_type;
  std::span<const int16_t> device_index;
};

// ---- rows of imported traces: see daemon/capture/event_rows.h ----

// Rows that an argument belongs to may not be there in a hostile file.
struct ArgumentBatch {
  size_t size = 0;
  std::span<const uint8_t> of;          // kArgumentOf*, or any other.
  std::span<const uint32_t> of_thread;  // May be any number.
  std::span<const uint32_t> row;
  std::span<const uint32_t> key;   // Index into names(); always in bounds.
  std::span<const uint8_t> type;   // profd::ArgumentType, always one of them.
  std::span<const int64_t> value;  // kJson: index into names(); always in bounds.
};
struct GpuAnnotationBatch {
  size_t size = 0;
  std::span<const int64_t> start_ns;
  std::span<const int64_t> duration_ns;  // >= 0; start + duration does not overflow.
  std::span<const uint32_t> name;        // Index into names(); always in bounds.
  std::span<const uint16_t> device;
  std::span<const uint32_t> stream;
  std::span<const int64_t> external_id;  // 0: none
};

struct ReaderThread {
  int64_t os_thread = 0;
  std::string name;  // Valid UTF-8; may be empty.
};

// Skips batches known to lie outside [begin_ns, end_ns); rows of other batches are not filtered.
struct TimeFilter {
  int64_t begin_ns = std::numeric_limits<int64_t>::min();
  int64_t end_ns = std::numeric_limits<int64_t>::max();
};

class CaptureReader {
 public:
  // Opens read-only and immutable; reads the record, names and threads.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Open(const std::filesystem::path& path);
  // The same for a file that is elsewhere; errors of reading it are returned as they are. `name` is
  // for messages.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Open(std::unique_ptr<ByteFile> file,
                                                             std::string_view name);
  virtual ~CaptureReader() = default;

  virtual const CaptureRecord& record() const = 0;
  // Raw bytes as recorded: may contain anything. Index 0 is unused (empty).
  virtual std::span<const std::string> names() const = 0;
  virtual std::span<const ReaderThread> threads() const = 0;
  virtual std::span<const StepRecord> steps() const = 0;
  // The thread that marked the steps, an index into threads(); -1: not known.
  virtual int64_t step_thread() { return -1; }

  // Each calls `fn` for every batch; an error from `fn` ends it and is returned.
  virtual absl::Status ForEachRange(uint32_t columns, const TimeFilter& filter,
                                    absl::FunctionRef<absl::Status(const RangeBatch&)> fn) = 0;
  virtual absl::Status ForEachInstant(const TimeFilter& filter,
                                      absl::FunctionRef<absl::Status(const InstantBatch&)> fn) = 0;
  virtual absl::Status ForEachCounter(const TimeFilter& filter,
                                      absl::FunctionRef<absl::Status(const CounterBatch&)> fn) = 0;
  virtual absl::Status ForEachMemory(const TimeFilter& filter,
                                     absl::FunctionRef<absl::Status(const MemoryBatch&)> fn) = 0;

  // Returns the number of all GPU rows, from the file's directory; 0: a capture without GPU.
  virtual int64_t gpu_row_count() const = 0;
  virtual absl::Status ForEachApiCall(const TimeFilter& filter,
                                      absl::FunctionRef<absl::Status(const ApiBatch&)> fn) = 0;
  // `columns`: GpuColumns.
  virtual absl::Status ForEachGpu(uint32_t columns, const TimeFilter& filter,
                                  absl::FunctionRef<absl::Status(const GpuBatch&)> fn) = 0;
  virtual absl::Status ForEachSync(const TimeFilter& filter,
                                   absl::FunctionRef<absl::Status(const SyncBatch&)> fn) = 0;
  virtual absl::Status ForEachOverhead(
      const TimeFilter& filter, absl::FunctionRef<absl::Status(const OverheadBatch&)> fn) = 0;
  virtual absl::Status ForEachCudaEvent(
      absl::FunctionRef<absl::Status(const CudaEventBatch&)> fn) = 0;

  // Distinct inputs and scalars of operators; index 0 is unused (empty). The text of a hostile file
  // may be anything: check that it is JSON before passing it on.
  virtual std::span<const OperatorInputs> inputs() const = 0;
  virtual std::span<const std::string> scalars() const = 0;
  // Returns the number of all operators, tensor uses, notes, and blocks, from the directory.
  virtual int64_t framework_row_count() const = 0;
  virtual absl::Status ForEachOperator(
      const TimeFilter& filter, absl::FunctionRef<absl::Status(const OperatorBatch&)> fn) = 0;
  virtual absl::Status ForEachTensorUse(
      const TimeFilter& filter, absl::FunctionRef<absl::Status(const TensorUseBatch&)> fn) = 0;
  virtual absl::Status ForEachNote(absl::FunctionRef<absl::Status(const NoteBatch&)> fn) = 0;
  virtual absl::Status ForEachBlock(absl::FunctionRef<absl::Status(const BlockBatch&)> fn) = 0;

  // Only files of imported traces have these.
  virtual absl::Status ForEachArgument(absl::FunctionRef<absl::Status(const ArgumentBatch&)>) {
    return absl::OkStatus();
  }
  virtual absl::Status ForEachGpuAnnotation(
      absl::FunctionRef<absl::Status(const GpuAnnotationBatch&)>) {
    return absl::OkStatus();
  }
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_CAPTURE_READER_H_
