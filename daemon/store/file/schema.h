// The SQLite part of a capture file: its tables, its limits, and the contents that are loaded
// completely when it is opened. README.md shows an example.
//
// How do I change the format?  Never change the meaning of a version. Raise kFormatVersion, keep
// the old DDL for old files, and let CaptureContents::Load read all versions. A file of a version
// above kFormatVersion is refused. So a file gets only the version that its contents need: all
// begin as 1, become 2 with their first inputs of an operator, and 3 with their first row of a kind
// of GPU work that earlier readers take for damage (GpuKind::file_version). 3 has the tables of 2.
//
// Threads: functions of a Database; one thread per Database.
#ifndef PROFD_DAEMON_STORE_FILE_SCHEMA_H_
#define PROFD_DAEMON_STORE_FILE_SCHEMA_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/chunk_codec.h"
#include "daemon/store/file/sqlite_db.h"

namespace profd::store {

inline constexpr int64_t kCaptureApplicationId = 0x50464443;  // "PFDC"
inline constexpr int64_t kFormatVersion = 3;
// The first with inputs of operators.
inline constexpr int64_t kInputsVersion = 2;
inline constexpr int64_t kFilePageBytes = 16384;

// More than any target can have; a file with more is damaged or hostile.
inline constexpr uint32_t kMaxNameId = 1u << 20;
inline constexpr size_t kMaxNameAreaBytes = 256u << 20;
inline constexpr uint32_t kMaxThreadIndex = 1u << 20;
inline constexpr size_t kMaxChunksPerFile = 1u << 20;
inline constexpr size_t kMaxStepsPerFile = 64u << 20;
inline constexpr size_t kMaxInputsAreaBytes = 256u << 20;  // Of inputs and scalars together.

// Creates `path` (mode 0600; it must not exist) without content, with disk space for the empty
// tables. Returns the size of those.
absl::StatusOr<int64_t> ReserveCaptureDatabase(const std::filesystem::path& path);
// Writes the empty tables of version 1 to such a file, and opens it.
absl::StatusOr<std::unique_ptr<Database>> MakeCaptureDatabase(const std::filesystem::path& path);
// Returns whether the file holds nothing but the beginning of the empty tables, or all of them: its
// writer died before it committed the record. False if that cannot be read.
bool HasEmptyTablesAtMost(const std::filesystem::path& path);
// Raises the version to `version` (at most kFormatVersion) and adds the tables that it has, unless
// it is as high already. Call within a transaction.
absl::Status RaiseVersion(Database& db, int64_t version);

// Checks the header of the file, without SQLite: INVALID_ARGUMENT if it is not a capture,
// FAILED_PRECONDITION if a newer profd wrote it, DATA_LOSS if its size does not match its header,
// NOT_FOUND, PERMISSION_DENIED.
absl::Status CheckCaptureFileHeader(const std::filesystem::path& path);
// The same for an open file; `path` is for messages.
absl::Status CheckCaptureFileHeader(int descriptor, const std::filesystem::path& path);
// The same for bytes; also an error of reading them.
absl::Status CheckCaptureFileHeader(ByteFile& file, const std::filesystem::path& path);

// Checks that the file has exactly the tables of its version. DATA_LOSS otherwise.
absl::Status CheckCaptureSchema(Database& db);

struct ChunkEntry {
  int64_t id = 0;
  ChunkSummary summary;
};

// Everything in a capture file except the events.
struct CaptureContents {
  bool sealed = false;          // Finished: the fields below are complete and checked.
  int64_t epoch_offset_ns = 0;  // record.start_unix_ns minus the epoch of the chunks' times.
  int64_t created_unix_ns = 0;  // When the file was begun.
  CaptureRecord record;
  std::vector<std::string> names;
  std::vector<ReaderThread> threads;
  std::vector<StepRecord> steps;
  std::vector<ChunkEntry> chunks;  // In written order.
  // Version 2 and 3 files only; others have only the unused index 0.
  std::vector<OperatorInputs> inputs;
  std::vector<std::string> scalars;
  uint32_t crc = 0;  // Of everything, as loaded.

  // Returns the rows in all chunks of one kind.
  int64_t RowsOf(RowKind kind) const;

  // Returns DATA_LOSS for data that profd never writes, and for a sealed file with a wrong
  // checksum.
  static absl::StatusOr<CaptureContents> Load(Database& db);
};

// The table `meta`: single values. The keys are those of kMeta*.
inline constexpr std::string_view kMetaRecord = "record";
inline constexpr std::string_view kMetaEpochOffset = "epoch_offset_ns";
inline constexpr std::string_view kMetaCreated = "created_unix_ns";
inline constexpr std::string_view kMetaSealed = "sealed";
inline constexpr std::string_view kMetaCrc = "contents_crc32";
absl::Status SetMeta(Database& db, std::string_view key, int64_t value);
absl::Status SetMetaText(Database& db, std::string_view key, std::string_view value);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_SCHEMA_H_
