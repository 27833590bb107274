#include "daemon/store/file/schema.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/synchronization/mutex.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/record_codec.h"

namespace profd::store {
namespace {

constexpr char kSchema[] = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE strings(id INTEGER PRIMARY KEY, value NOT NULL);
CREATE TABLE processes(pid INTEGER PRIMARY KEY, namespace_pid INTEGER, uid INTEGER, command TEXT);
CREATE TABLE threads(id INTEGER PRIMARY KEY, pid INTEGER, os_thread INTEGER, name TEXT);
CREATE TABLE devices(type INTEGER, number INTEGER, PRIMARY KEY(type, number)) WITHOUT ROWID;
CREATE TABLE windows(id INTEGER PRIMARY KEY, start_ns INTEGER, end_ns INTEGER, first_step INTEGER, end_step INTEGER);
CREATE TABLE steps(window INTEGER, step INTEGER, start_ns INTEGER, duration_ns INTEGER, PRIMARY KEY(window, step)) WITHOUT ROWID;
CREATE TABLE drops(reason TEXT PRIMARY KEY, count INTEGER) WITHOUT ROWID;
CREATE TABLE op_summary(name NOT NULL, calls INTEGER, self_cpu_ns INTEGER, cpu_total_ns INTEGER, min_ns INTEGER, max_ns INTEGER);
CREATE TABLE step_summary(window INTEGER PRIMARY KEY, steps INTEGER, min_ns INTEGER, median_ns INTEGER, mean_ns INTEGER, max_ns INTEGER);
CREATE TABLE chunks(id INTEGER PRIMARY KEY, kind INTEGER, rows INTEGER, begin_ns INTEGER, end_ns INTEGER, data BLOB);
CREATE INDEX chunk_directory ON chunks(kind, rows, begin_ns, end_ns);
)sql";
// What version 2 and later have besides.
constexpr char kInputSchema[] = R"sql(
CREATE TABLE inputs(id INTEGER PRIMARY KEY, dims TEXT, types TEXT, strides TEXT);
CREATE TABLE scalars(id INTEGER PRIMARY KEY, value TEXT);
)sql";
constexpr int64_t kFirstVersion = 1;

// Numbers of the SQLite file format, https://sqlite.org/fileformat.html
constexpr size_t kSqliteHeaderBytes = 100;
constexpr char kSqliteMagic[] = "SQLite format 3";

uint32_t BigEndian(const unsigned char* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

absl::StatusOr<std::string> DescribeSchema(Database& db) {
  Statement query(db.handle(),
                  "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name");
  absl::StatusOr<std::string> text = std::string();
  // Text that is longer is not ours, whatever follows.
  while (text->size() <= 4 * (sizeof(kSchema) + sizeof(kInputSchema))) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) break;
    for (int column = 0; column < 4; ++column) {
      StrAppend(&*text, query.Bytes(column), "\n");
    }
  }
  return text;
}

absl::StatusOr<std::string> DescribeOurSchema(bool with_inputs) {
  ASSIGN_OR_RETURN(const auto db, Database::Open("schema", Database::Mode::kMemory));
  RETURN_IF_ERROR(db->Exec(kSchema));
  if (with_inputs) RETURN_IF_ERROR(db->Exec(kInputSchema));
  return DescribeSchema(*db);
}

absl::StatusOr<int64_t> VersionOf(Database& db) {
  Statement query(db.handle(), "PRAGMA user_version");
  RETURN_IF_ERROR(query.Step().status());
  return query.Int(0);
}

absl::Status DamagedFile(std::string_view what) {
  return absl::DataLossError(StrCat("damaged capture file: ", what));
}

// A checksum over values, each preceded by its size or kind.
class Digest {
 public:
  void Add(int64_t value) { AddBytes({reinterpret_cast<const char*>(&value), sizeof(value)}); }
  void Add(std::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    AddBytes(text);
  }
  uint32_t value() const { return crc_; }

 private:
  void AddBytes(std::string_view bytes) { crc_ = Crc32(crc_, bytes); }
  uint32_t crc_ = 0;
};

class Loader {
 public:
  explicit Loader(Database& db) : db_(db) {}

  absl::StatusOr<CaptureContents> Load() {
    RETURN_IF_ERROR(LoadMeta());
    RETURN_IF_ERROR(LoadNames());
    RETURN_IF_ERROR(LoadThreads());
    RETURN_IF_ERROR(LoadSteps());
    RETURN_IF_ERROR(LoadDirectory());
    RETURN_IF_ERROR(LoadInputs());
    contents_.crc = digest_.value();
    if (contents_.sealed && stored_crc_ != contents_.crc) return DamagedFile("checksum");
    return std::move(contents_);
  }

 private:
  absl::Status LoadMeta() {
    Statement query(db_.handle(), "SELECT key, value FROM meta ORDER BY key");
    bool has_record = false;
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      const std::string key = query.Text(0);
      if (key == kMetaRecord) {
        ASSIGN_OR_RETURN(contents_.record, DecodeRecord(query.Bytes(1)));
        digest_.Add(query.Bytes(1));
        has_record = true;
      } else if (key == kMetaEpochOffset) {
        contents_.epoch_offset_ns = query.Int(1);
      } else if (key == kMetaCreated) {
        contents_.created_unix_ns = query.Int(1);
      } else if (key == kMetaSealed) {
        contents_.sealed = query.Int(1) == 1;
      } else if (key == kMetaCrc) {
        stored_crc_ = query.Int(1);
      }
    }
    const int64_t offset = contents_.epoch_offset_ns;
    if (!has_record || offset < -kMaxTimeNs || offset > kMaxTimeNs) return DamagedFile("meta");
    digest_.Add(offset);
    digest_.Add(contents_.created_unix_ns);
    return absl::OkStatus();
  }

  absl::Status LoadNames() {
    Statement query(db_.handle(), "SELECT id, value FROM strings ORDER BY id");
    contents_.names.emplace_back();
    size_t bytes = 0;
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return absl::OkStatus();
      const int64_t id = query.Int(0);
      const std::string_view name = query.Bytes(1);
      bytes += name.size();
      const bool ascends = id >= static_cast<int64_t>(contents_.names.size());
      if (!ascends || id > kMaxNameId || bytes > kMaxNameAreaBytes) return DamagedFile("strings");
      contents_.names.resize(static_cast<size_t>(id));
      contents_.names.emplace_back(name);
      digest_.Add(id);
      digest_.Add(name);
    }
  }

  absl::Status LoadThreads() {
    Statement query(db_.handle(), "SELECT id, os_thread, name FROM threads ORDER BY id");
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return absl::OkStatus();
      const int64_t id = query.Int(0);
      const bool ascends = id >= static_cast<int64_t>(contents_.threads.size());
      if (!ascends || id > kMaxThreadIndex) return DamagedFile("threads");
      contents_.threads.resize(static_cast<size_t>(id));
      contents_.threads.push_back({query.Int(1), ToValidUtf8(query.Bytes(2))});
      digest_.Add(id);
      digest_.Add(query.Int(1));
      digest_.Add(query.Bytes(2));
    }
  }

  absl::Status LoadSteps() {
    Statement query(db_.handle(),
                    "SELECT window, step, start_ns, duration_ns FROM steps ORDER BY window, step");
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return absl::OkStatus();
      const StepRecord step = {.index = query.Int(1),
                               .window = query.Int(0),
                               .start_ns = query.Int(2),
                               .duration_ns = query.Int(3)};
      const bool valid = step.index >= 0 && step.window >= 0 && step.start_ns >= -2 * kMaxTimeNs &&
                         step.start_ns <= 2 * kMaxTimeNs && step.duration_ns >= 0 &&
                         step.duration_ns <= 2 * kMaxTimeNs;
      if (!valid || contents_.steps.size() >= kMaxStepsPerFile) return DamagedFile("steps");
      contents_.steps.push_back(step);
      for (int column = 0; column < 4; ++column) digest_.Add(query.Int(column));
    }
  }

  // Of the index alone: the blobs lie between the rows of the table.
  absl::Status LoadDirectory() {
    Statement query(db_.handle(),
                    "SELECT id, kind, rows, begin_ns, end_ns FROM chunks INDEXED BY "
                    "chunk_directory ORDER BY kind, rows, begin_ns, end_ns, id");
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      const int64_t kind = query.Int(1);
      const int64_t rows = query.Int(2);
      const TimeSpan span = {query.Int(3), query.Int(4)};
      const bool valid = kind > 0 && kind < 256 && rows > 0 &&
                         rows <= static_cast<int64_t>(kMaxChunkRows) &&
                         span.begin_ns >= -kMaxTimeNs && span.end_ns <= kMaxTimeNs && !span.empty();
      if (!valid || contents_.chunks.size() >= kMaxChunksPerFile)
        return DamagedFile("chunk directory");
      contents_.chunks.push_back({.id = query.Int(0),
                                  .summary = {.kind = static_cast<RowKind>(kind),
                                              .rows = static_cast<uint32_t>(rows),
                                              .span = span}});
    }
    std::sort(contents_.chunks.begin(), contents_.chunks.end(),
              [](const ChunkEntry& a, const ChunkEntry& b) { return a.id < b.id; });
    for (const ChunkEntry& chunk : contents_.chunks) {
      digest_.Add(chunk.id);
      digest_.Add(static_cast<int64_t>(chunk.summary.kind));
      digest_.Add(chunk.summary.rows);
      digest_.Add(chunk.summary.span.begin_ns);
      digest_.Add(chunk.summary.span.end_ns);
    }
    return absl::OkStatus();
  }

  absl::Status LoadInputs() {
    contents_.inputs.emplace_back();
    contents_.scalars.emplace_back();
    ASSIGN_OR_RETURN(const int64_t version, VersionOf(db_));
    if (version < kInputsVersion) return absl::OkStatus();
    size_t bytes = 0;
    RETURN_IF_ERROR(LoadTexts("SELECT id, dims, types, strides FROM inputs ORDER BY id", bytes,
                              contents_.inputs, [](Statement& row) {
                                return OperatorInputs{.dims = std::string(row.Bytes(1)),
                                                      .types = std::string(row.Bytes(2)),
                                                      .strides = std::string(row.Bytes(3))};
                              }));
    return LoadTexts("SELECT id, value, '', '' FROM scalars ORDER BY id", bytes, contents_.scalars,
                     [](Statement& row) { return std::string(row.Bytes(1)); });
  }

  // Ids and three texts each, into a vector by id.
  template <typename Element, typename Make>
  absl::Status LoadTexts(const char* sql, size_t& bytes, std::vector<Element>& elements,
                         Make make) {
    Statement query(db_.handle(), sql);
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return absl::OkStatus();
      const int64_t id = query.Int(0);
      bytes += query.Bytes(1).size() + query.Bytes(2).size() + query.Bytes(3).size();
      const bool ascends = id >= static_cast<int64_t>(elements.size());
      if (!ascends || id > int64_t{kMaxOperatorInputs} || bytes > kMaxInputsAreaBytes) {
        return DamagedFile("inputs");
      }
      elements.resize(static_cast<size_t>(id));
      elements.push_back(make(query));
      digest_.Add(id);
      for (int column = 1; column < 4; ++column) digest_.Add(query.Bytes(column));
    }
  }

  Database& db_;
  CaptureContents contents_;
  int64_t stored_crc_ = -1;
  Digest digest_;
};

absl::StatusOr<std::string> MakeEmptyFile() {
  ASSIGN_OR_RETURN(const auto db, Database::Open("empty", Database::Mode::kMemory));
  RETURN_IF_ERROR(db->Exec(StrCat(
      "PRAGMA page_size=", kFilePageBytes, "; PRAGMA auto_vacuum=NONE; PRAGMA encoding='UTF-8';",
      "BEGIN; PRAGMA application_id=", kCaptureApplicationId,
      "; PRAGMA user_version=", kFirstVersion, ";", kSchema, "COMMIT")));
  return db->Serialize();
}

// The bytes of a capture file without rows. Writing them takes a third of the time that it takes to
// make the tables in a file.
absl::StatusOr<std::string_view> EmptyFile() {
  static absl::Mutex mu(absl::kConstInit);
  static auto* const bytes = new std::string;  // Empty: not made yet.
  absl::MutexLock lock(&mu);
  if (bytes->empty()) {
    ASSIGN_OR_RETURN(*bytes, MakeEmptyFile());
  }
  return std::string_view(*bytes);
}

absl::StatusOr<std::unique_ptr<Database>> OpenNewFile(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(auto db, Database::Open(path, Database::Mode::kReadWrite));
  // Nothing is lost when the daemon dies; after a power cut the unfinished file may be
  // damaged, which its checksums tell. What is finished is synced as a whole.
  RETURN_IF_ERROR(
      db->Exec("PRAGMA synchronous=OFF; PRAGMA journal_mode=DELETE; PRAGMA secure_delete=OFF;"
               "PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-8192"));
  return db;
}

}  // namespace

absl::StatusOr<int64_t> ReserveCaptureDatabase(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string_view empty_file, EmptyFile());
  const auto bytes = static_cast<int64_t>(empty_file.size());
  // SQLite's journal takes the mode of the file, too.
  RETURN_IF_ERROR(ReserveNewFile(path, bytes));
  return bytes;
}

absl::StatusOr<std::unique_ptr<Database>> MakeCaptureDatabase(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string_view empty_file, EmptyFile());
  RETURN_IF_ERROR(FillFile(path, empty_file));
  return OpenNewFile(path);
}

bool HasEmptyTablesAtMost(const std::filesystem::path& path) {
  const absl::StatusOr<std::string_view> empty_file = EmptyFile();
  const absl::StatusOr<UniqueFd> file = OpenForReading(path);
  if (!empty_file.ok() || !file.ok()) return false;
  struct stat info;
  if (fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes > empty_file->size()) return false;
  const absl::StatusOr<std::string> found = ReadUpTo(bytes, path, file->get());
  return found.ok() && found->size() == bytes && empty_file->starts_with(*found);
}

absl::Status RaiseVersion(Database& db, int64_t version) {
  ASSIGN_OR_RETURN(const int64_t now, VersionOf(db));
  if (now >= version) return absl::OkStatus();
  if (now < kInputsVersion) RETURN_IF_ERROR(db.Exec(kInputSchema));
  return db.Exec(StrCat("PRAGMA user_version=", version));
}

absl::Status CheckCaptureFileHeader(const std::filesystem::path& path) {
  // Not to be held up by a pipe.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return FileStatus(path, errno);
  return CheckCaptureFileHeader(file.get(), path);
}

namespace {

absl::Status NotACapture(const std::filesystem::path& path, std::string_view why) {
  return absl::InvalidArgumentError(StrCat(path.string(), " is not a profd capture: ", why));
}

}  // namespace

absl::Status CheckCaptureFileHeader(int descriptor, const std::filesystem::path& path) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return FileStatus(path, errno);
  if (!S_ISREG(info.st_mode)) return NotACapture(path, "not a regular file");
  DescriptorFile file(descriptor);
  return CheckCaptureFileHeader(file, path);
}

absl::Status CheckCaptureFileHeader(ByteFile& file, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const int64_t file_bytes, file.Size());
  std::array<unsigned char, kSqliteHeaderBytes> header{};
  ASSIGN_OR_RETURN(const size_t got,
                   file.Read(0, {reinterpret_cast<char*>(header.data()), header.size()}));
  if (got < header.size() || std::memcmp(header.data(), kSqliteMagic, sizeof(kSqliteMagic)) != 0) {
    return NotACapture(path, "it does not start like one");
  }
  if (BigEndian(&header[68]) != kCaptureApplicationId) {
    return NotACapture(path, "it is another program's SQLite file");
  }
  const uint32_t version = BigEndian(&header[60]);
  if (version > kFormatVersion) {
    return absl::FailedPreconditionError(
        StrCat(path.string(), " was written by a newer profd (format ", version,
               ", this one reads up to ", kFormatVersion, "); use that one's profctl"));
  }
  if (version == 0) return DamagedFile(StrCat(path.string(), " has no format version"));
  const int64_t page_bytes = header[16] << 8 | header[17];
  const int64_t expected_bytes = page_bytes * BigEndian(&header[28]);
  if (page_bytes != kFilePageBytes || header[18] != 1 || header[19] != 1) {
    return DamagedFile(StrCat(path.string(), " has a header that profd does not write"));
  }
  if (file_bytes != expected_bytes) {
    return DamagedFile(StrCat(path.string(), " has ", file_bytes, " bytes, its header says ",
                              expected_bytes, "; fetch it again"));
  }
  return absl::OkStatus();
}

absl::Status CheckCaptureSchema(Database& db) {
  static const auto& without_inputs =
      *new absl::StatusOr<std::string>(DescribeOurSchema(/*with_inputs=*/false));
  static const auto& with_inputs =
      *new absl::StatusOr<std::string>(DescribeOurSchema(/*with_inputs=*/true));
  ASSIGN_OR_RETURN(const int64_t version, VersionOf(db));
  const absl::StatusOr<std::string>& ours = version < kInputsVersion ? without_inputs : with_inputs;
  RETURN_IF_ERROR(ours.status());
  ASSIGN_OR_RETURN(const std::string theirs, DescribeSchema(db));
  if (theirs != *ours) return DamagedFile("its tables are not those that profd makes");
  return absl::OkStatus();
}

int64_t CaptureContents::RowsOf(RowKind kind) const {
  int64_t rows = 0;
  for (const ChunkEntry& chunk : chunks) {
    if (chunk.summary.kind == kind) rows += chunk.summary.rows;
  }
  return rows;
}

absl::StatusOr<CaptureContents> CaptureContents::Load(Database& db) { return Loader(db).Load(); }

absl::Status SetMeta(Database& db, std::string_view key, int64_t value) {
  StatementLease put = db.Use("INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)");
  return put->BindText(1, key).Bind(2, value).Run();
}
absl::Status SetMetaText(Database& db, std::string_view key, std::string_view value) {
  StatementLease put = db.Use("INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)");
  return put->BindText(1, key).BindText(2, value).Run();
}

}  // namespace profd::store
