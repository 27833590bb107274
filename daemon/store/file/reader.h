// CaptureFileReader is the CaptureReader over a capture file. It also reads what only the store
// needs: unfinished files, step marks, and a check of every chunk.
//
// Threads, Errors, Memory: as CaptureReader.
#ifndef PROFD_DAEMON_STORE_FILE_READER_H_
#define PROFD_DAEMON_STORE_FILE_READER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/budget.h"
#include "daemon/capture/ports.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/schema.h"

struct sqlite3_blob;

namespace profd::store {

class CaptureFileReader final : public CaptureReader {
 public:
  enum class Accept {
    kSealed,      // Only finished files. DATA_LOSS for others, with the remedy.
    kUnfinished,  // Also unfinished files without a journal that no process writes to.
  };
  static absl::StatusOr<std::unique_ptr<CaptureFileReader>> Open(const std::filesystem::path& path,
                                                                 Accept accept);
  // Reads a file that is open already, read-only; the descriptor must outlive the reader.
  // Opens no file, so it works without access to any, and after the file was removed.
  static absl::StatusOr<std::unique_ptr<CaptureFileReader>> OpenDescriptor(
      int descriptor, Accept accept = Accept::kSealed);
  // The same for bytes that are elsewhere. `name` is for messages.
  static absl::StatusOr<std::unique_ptr<CaptureFileReader>> OpenBytes(
      std::unique_ptr<ByteFile> file, std::string_view name);
  ~CaptureFileReader() override;

  const CaptureRecord& record() const override { return contents_.record; }
  std::span<const std::string> names() const override { return contents_.names; }
  std::span<const ReaderThread> threads() const override { return contents_.threads; }
  std::span<const StepRecord> steps() const override { return contents_.steps; }
  // Finds the first readable step mark.
  int64_t step_thread() override;

  std::span<const OperatorInputs> inputs() const override { return contents_.inputs; }
  std::span<const std::string> scalars() const override { return contents_.scalars; }
  int64_t RowsOf(RowKind kind) const override { return contents_.RowsOf(kind); }
  // Times of unfinished files count from their epoch.
  absl::Status Scan(RowKind kind, uint32_t columns, const TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override;

  const CaptureContents& contents() const { return contents_; }

  // Returns the IDs of damaged chunks. DATA_LOSS if SQLite's own structures are damaged.
  // `still_wanted` is called before every chunk; its error is returned.
  absl::StatusOr<std::vector<int64_t>> FindDamagedChunks(
      absl::FunctionRef<absl::Status()> still_wanted = [] { return absl::OkStatus(); });

 private:
  CaptureFileReader(std::unique_ptr<Database> db, CaptureContents contents);
  // The common part of both ways to open a file.
  static absl::StatusOr<std::unique_ptr<CaptureFileReader>> Load(std::unique_ptr<Database> db,
                                                                 Accept accept);

  absl::Status OpenBlob(int64_t chunk);
  absl::Status ReadBlob(size_t offset, size_t size, std::vector<char>& out);
  // Returns the layout of a chunk, after comparing it with the directory.
  absl::StatusOr<ChunkLayout> OpenChunk(const ChunkEntry& entry);
  absl::StatusOr<bool> ChunkIsWhole(const ChunkEntry& entry);

  template <typename Row>
  absl::Status LoadChunk(const ChunkEntry& entry, uint32_t wanted, EventTable<Row>& table);
  // Returns DATA_LOSS if a column of `columns` breaks its rule.
  template <typename Row>
  absl::Status CheckColumns(const EventTable<Row>& table, uint32_t columns) const;
  // Turns the values of the file into those of batches.
  template <typename Row>
  absl::Status Unpack(EventTable<Row>& table, uint32_t columns) const;
  // Calls fn(batch) for the rows of each thread in each overlapping chunk. Rows without a thread
  // come as one batch.
  template <typename Row>
  absl::Status ScanRows(uint32_t columns, const TimeFilter& filter,
                        absl::FunctionRef<absl::Status(const EventBatch&)> fn);

  // Returns RESOURCE_EXHAUSTED (OVER_BUDGET) if the consumer of the batches uses more memory than
  // the thread's ScopedHeapLimit. Without one (in profctl), there is no limit.
  absl::Status CheckHeap() const;

  const std::unique_ptr<Database> db_;
  CaptureContents contents_;  // Constant after opening.
  sqlite3_blob* blob_ = nullptr;
  ColumnDecoder decoder_;
  std::vector<char> bytes_;
  std::optional<int64_t> step_thread_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_READER_H_
