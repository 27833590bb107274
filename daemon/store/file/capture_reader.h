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
#include "daemon/capture/event_kinds.h"
#include "daemon/store/file/byte_file.h"

namespace profd::store {

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

  // Distinct inputs and scalars of operators; index 0 is unused (empty). The text of a hostile file
  // may be anything: check that it is JSON before passing it on.
  virtual std::span<const OperatorInputs> inputs() const = 0;
  virtual std::span<const std::string> scalars() const = 0;

  // Returns the number of rows of a kind, from the file's directory.
  virtual int64_t RowsOf(RowKind kind) const = 0;
  int64_t gpu_row_count() const { return RowsOf(RowKind::kGpu); }  // 0: a capture without GPU.
  int64_t framework_row_count() const {
    int64_t rows = 0;
    EventTypes::ForEach([this, &rows]<typename Row>() {
      if (AreFrameworkRows(Row::kKind)) rows += RowsOf(Row::kKind);
    });
    return rows;
  }

  // Calls fn(const BatchOfRow<Row>&) for every batch of a kind; an error from it ends the call and
  // is returned. `columns`: of RangeColumns or GpuColumns; kEveryColumn for other kinds.
  template <typename Row, typename F>
  absl::Status ForEach(uint32_t columns, const TimeFilter& filter, F&& fn) {
    return Scan(Row::kKind, columns, filter, [&fn](const EventBatch& batch) -> absl::Status {
      return fn(static_cast<const BatchOfRow<Row>&>(batch));
    });
  }
  template <typename Row, typename F>
  absl::Status ForEach(const TimeFilter& filter, F&& fn) {
    return ForEach<Row>(kEveryColumn, filter, fn);
  }
  template <typename Row, typename F>
  absl::Status ForEach(F&& fn) {
    return ForEach<Row>(kEveryColumn, {}, fn);
  }
  // What ForEach() comes to: calls `fn` with a BatchOfRow<Row> of the kind's row.
  virtual absl::Status Scan(RowKind kind, uint32_t columns, const TimeFilter& filter,
                            absl::FunctionRef<absl::Status(const EventBatch&)> fn) = 0;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_CAPTURE_READER_H_
