// The SQLite side of a capture file: its tables, its limits, and the contents that are
// loaded whole when it is opened. README.md shows an example.
//
// How do I change the format?  Never change what a version means. Raise kFormatVersion,
// keep the old DDL for old files, and let CaptureContents::Load read all. A file of a newer
// version than kFormatVersion is refused. So a file is only of as high a version as what it
// holds needs: all begin as 1, and become 2 with their first inputs of an operator.
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
inline constexpr int64_t kFormatVersion = 2;
inline constexpr int64_t kFilePageBytes = 16384;

// More than any target can have; a file that says more is damaged or hostile.
inline constexpr uint32_t kMaxNameId = 1u << 20;
inline constexpr size_t kMaxNameAreaBytes = 256u << 20;
inline constexpr uint32_t kMaxThreadIndex = 1u << 20;
inline constexpr size_t kMaxChunksPerFile = 1u << 20;
inline constexpr size_t kMaxStepsPerFile = 64u << 20;
inline constexpr size_t kMaxInputsAreaBytes = 256u << 20;  // Of inputs and scalars together.

// Creates `path` (mode 0600; it must not exist) with the tables of version 1, empty.
absl::StatusOr<std::unique_ptr<Database>> CreateCaptureDatabase(const std::filesystem::path& path);
// Makes it one of version 2, with the tables of operators' inputs. Within a transaction.
absl::Status AddInputTables(Database& db);

// What the header of the file says, without SQLite: INVALID_ARGUMENT if it is no capture,
// FAILED_PRECONDITION if a newer profd wrote it, DATA_LOSS if its size does not fit its
// header, NOT_FOUND, PERMISSION_DENIED.
absl::Status CheckCaptureFileHeader(const std::filesystem::path& path);
// The same of an open file; `path` is for messages.
absl::Status CheckCaptureFileHeader(int descriptor, const std::filesystem::path& path);

// Every file a profd wrote has exactly the tables of its version. DATA_LOSS for any other.
absl::Status CheckCaptureSchema(Database& db);

struct ChunkEntry {
  int64_t id = 0;
  ChunkSummary summary;
};

// All of a capture file but the events.
struct CaptureContents {
  bool sealed = false;          // Finished: what follows is complete and checked.
  int64_t epoch_offset_ns = 0;  // record.start_unix_ns less the epoch of the chunks' times.
  int64_t created_unix_ns = 0;  // When the file was begun.
  CaptureRecord record;
  std::vector<std::string> names;
  std::vector<ReaderThread> threads;
  std::vector<StepRecord> steps;
  std::vector<ChunkEntry> chunks;  // In the order they were written.
  // Of version 2 files; of others, nothing but the unused index 0.
  std::vector<OperatorInputs> inputs;
  std::vector<std::string> scalars;
  uint32_t crc = 0;  // Of all of it, as loaded.

  // In all chunks of one kind.
  int64_t RowsOf(ChunkKind kind) const;

  // DATA_LOSS for anything no profd wrote, and for a sealed file whose checksum is wrong.
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
