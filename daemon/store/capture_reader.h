// CaptureReader reads one capture file, ours or a stranger's: it believes nothing it has
// not checked. Reports and exports are pure functions over it.
//
// Times: everything it gives counts ns from CaptureRecord::start_unix_ns (the start of the
//        first window); ranges that straddle it begin below 0.
// Order: within one thread, ranges come in order of their end, so that a range follows
//        all it encloses. Batches of one thread come in that order too, but batches of
//        different threads are interleaved. A batch holds rows of one thread.
// Threads: one reader per thread.
// Errors: DATA_LOSS for a damaged file (bad checksum, bounds, schema), FAILED_PRECONDITION
//        for one written by a newer profd, NOT_FOUND, INVALID_ARGUMENT for a file that is
//        no capture.
// Memory: one decoded batch at a time (at most 64 K rows), plus names.
#ifndef PROFD_DAEMON_STORE_CAPTURE_READER_H_
#define PROFD_DAEMON_STORE_CAPTURE_READER_H_

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

namespace profd::store {

// Which columns of ranges are wanted; the others are not decoded and their spans are empty.
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
  std::span<const uint8_t> flags;  // profd::kRange* of daemon/capture/ports.h
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

struct ReaderThread {
  int64_t os_thread = 0;
  std::string name;  // Valid UTF-8; may be empty.
};

// Batches known to lie outside [begin_ns, end_ns) are left out; rows inside are not filtered.
struct TimeFilter {
  int64_t begin_ns = std::numeric_limits<int64_t>::min();
  int64_t end_ns = std::numeric_limits<int64_t>::max();
};

class CaptureReader {
 public:
  // Opens read-only and immutable; reads the record, names and threads.
  static absl::StatusOr<std::unique_ptr<CaptureReader>> Open(const std::filesystem::path& path);
  virtual ~CaptureReader() = default;

  virtual const CaptureRecord& record() const = 0;
  // Raw bytes as recorded: may hold anything. Index 0 is unused (empty).
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
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CAPTURE_READER_H_
