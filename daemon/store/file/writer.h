// CaptureFileWriter writes one capture file. Rows are gathered per thread and become columnar
// chunks of up to 64 K rows, each committed as it is written. Rows of threads with few rows are
// written together, thread after thread, when the buffer is full, every few seconds, and at the
// end.
//
// A capture that is being armed waits for Create(), so that only makes the names ID.part and
// ID.reserve, with their disk space. The first row, or Finish(), makes the tables and writes the
// capture's record. A daemon that dies before that is done leaves an ID.part that is empty or has
// tables without a record, which recovery removes.
//
// Threads:    one at a time.
// Ownership:  `clock` must outlive it. Destroyed without Finish() or Discard() it leaves a .part
//             that recovery can finish.
// Memory:     kMaxBufferedBytes of rows, for any number of threads, and one chunk.
// Durability: committed data survives the daemon's death; a finished file also a power failure.
// Errors:     as CaptureSink. A batch of up to 64 K rows is accepted completely or not at all.
#ifndef PROFD_DAEMON_STORE_FILE_WRITER_H_
#define PROFD_DAEMON_STORE_FILE_WRITER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/capture/ports.h"
#include "daemon/store/file/chunk_codec.h"
#include "daemon/store/file/event_columns.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/seal.h"
#include "daemon/store/file/sqlite_db.h"

namespace profd::store {

class CaptureFileWriter final : public CaptureFileSink {
 public:
  static constexpr size_t kMaxBufferedBytes = 32 << 20;
  // Events accepted at least this long ago are in the file if the daemon dies.
  static constexpr absl::Duration kMaxBufferedTime = absl::Seconds(5);
  // Set aside while recording, so that the record and the summaries fit on a full disk.
  static constexpr int64_t kReserveBytes = 2 << 20;

  struct Options {
    std::filesystem::path directory;
    int64_t max_bytes = 0;      // Of any capture, besides what its request says; 0: no limit.
    EventChecker check_events;  // Empty: the capture is graded by its record alone.
    // Told what Finish() made, on its thread; may add to `left_out` of the record.
    std::function<void(SealedCapture&)> on_sealed;
  };
  // Creates an empty ID.part in the directory. RESOURCE_EXHAUSTED if there is no room, INTERNAL if
  // it is there already.
  static absl::StatusOr<std::unique_ptr<CaptureFileWriter>> Create(const CaptureRecord& record,
                                                                   Clock& clock, Options options);
  ~CaptureFileWriter() override;

  absl::Status AddName(uint32_t id, std::string_view name) override;
  absl::Status AddThread(const ThreadRow& thread) override;
  absl::Status AddInputs(uint32_t id, const OperatorInputs& inputs) override;
  absl::Status AddScalars(uint32_t id, std::string_view scalars) override;
  absl::Status AppendRows(const EventRows& rows) override;
  int64_t approx_bytes() const override;

  // Sets exact steps, if they are known, instead of the times between marks. Times count from the
  // start passed to Finish(); steps are in the order of their windows and numbers. Call before
  // Finish().
  void SetSteps(std::vector<StepRecord> steps) { steps_given_ = std::move(steps); }
  absl::Status Finish(CaptureRecord& record, int64_t start_ns) override;
  void Discard() override;

 private:
  // Rows of one kind that are not written yet.
  template <typename Row>
  struct Buffers {
    std::vector<EventTable<Row>>
        threads;  // By thread index; a single one for rows without a thread.
    int64_t rows = 0;
    double bytes_per_row = 8;  // In the last chunk of this kind.
  };

  CaptureFileWriter(const CaptureRecord& record, SpaceReserve reserve, CapturePaths paths,
                    int64_t file_bytes, int64_t max_bytes, Clock& clock, Options options);

  // Makes the tables, if there are none yet, and writes the record.
  absl::Status OpenDatabase();
  template <typename Row>
  absl::Status AppendOfKind(uint32_t thread, std::span<const Row> rows);
  template <typename Row>
  absl::Status MakeRoom(Buffers<Row>& buffers, uint32_t thread, size_t rows);
  absl::Status CheckCap(double more_bytes);
  absl::Status NoteThread(uint32_t thread);
  // Learns what the rows refer to. Returns whether they were all given, or may come later.
  template <typename Row>
  bool NoteReferences(std::span<const Row> rows);
  // Makes room for text of operators' inputs, and the tables for it.
  absl::Status BeginInputs(uint32_t id, size_t bytes);

  template <typename Row>
  absl::Status WriteChunk(Buffers<Row>& buffers, EventTable<Row>& table);
  template <typename Row>
  absl::Status WriteThread(Buffers<Row>& buffers, uint32_t thread);
  // Writes and empties the buffers of one kind, or all.
  template <typename Row>
  absl::Status WriteMerged(Buffers<Row>& buffers);
  absl::Status WriteMarks();
  absl::Status WriteAll();
  int64_t BufferedRows() const;
  int64_t BufferedEvents() const;
  double BufferedBytesEstimate() const;

  absl::Status PutThread(const ThreadRow& thread);
  absl::Status Begin();
  absl::Status RaiseVersionTo(int64_t version);
  absl::Status Commit();
  // Keeps the first error; uncommitted data is rolled back.
  absl::Status Fail(absl::Status status);

  const CapturePaths paths_;
  const int64_t max_bytes_;
  Clock& clock_;
  const Options options_;
  const std::string first_record_;  // Encoded, as of Create().
  const int64_t created_unix_ns_;
  std::unique_ptr<Database> db_;  // Null before OpenDatabase(), and once it is over.
  bool is_over_ = false;          // Finish() or Discard() was called.
  SpaceReserve reserve_;
  absl::Status error_;

  ColumnEncoder encoder_;
  std::string chunk_;
  EventTypes::Tuple<Buffers> buffers_;
  size_t buffered_bytes_ = 0;  // Size of the tables.
  absl::Duration oldest_buffered_;

  bool in_transaction_ = false;
  int64_t file_bytes_ = 0;
  int64_t uncommitted_bytes_ = 0;  // Of names and threads.
  uint32_t thread_count_ = 0;
  uint32_t largest_name_ = 0;
  uint32_t largest_used_name_ = 0;
  int64_t version_ = 1;          // Of the file.
  int64_t version_of_rows_ = 1;  // That the rows taken need.
  uint32_t largest_inputs_ = 0;
  uint32_t largest_scalars_ = 0;
  int64_t inputs_area_bytes_ = 0;
  std::set<std::pair<uint8_t, int16_t>> devices_;
  std::optional<std::vector<StepRecord>> steps_given_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_WRITER_H_
