#include "daemon/store/file/sqlite_db.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/cord.h"
#include "daemon/base/freed_by.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/file/byte_vfs.h"
#include "daemon/store/file/files.h"

namespace profd::store {
namespace {

// Longest string or blob a file may hold: a chunk of the widest kind, all planes raw.
constexpr int kMaxValueBytes = 64 << 20;
constexpr int kBusyTimeoutMs = 5000;
// What SQLite says, with the statement: for the log (Status::ToString()), not for callers.
constexpr char kSqliteDetail[] = "profd/sqlite";

int LastErrno(sqlite3_file* file) {
  int error = 0;
  if (file != nullptr && file->pMethods != nullptr) {
    file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  return error;
}

// What made a write fail. sqlite3_system_errno() is whatever errno was after the rollback, so
// the database file and its journal are asked; SQLite itself tells ENOSPC from the others, but
// not a quota.
int WriteErrno(sqlite3* db) {
  for (const int which : {SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER}) {
    sqlite3_file* file = nullptr;
    if (sqlite3_file_control(db, "main", which, &file) != SQLITE_OK) continue;
    if (const int error = LastErrno(file); error != 0) return error;
  }
  return 0;
}

bool IsIoError(int code) {
  return (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
}

absl::StatusCode CodeOf(int code, int error) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    // Longer than kMaxValueBytes, which no writer of ours makes.
    case SQLITE_TOOBIG:
      return absl::StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kUnavailable;
    case SQLITE_NOMEM:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_INTERRUPT:
      return absl::StatusCode::kCancelled;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      if (error == ENOSPC || error == EFBIG || error == EDQUOT) {
        return absl::StatusCode::kResourceExhausted;
      }
      if (code == SQLITE_IOERR_SHORT_READ) return absl::StatusCode::kDataLoss;
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kInternal;
  }
}

// In a URI, '?', '#', and '%' have a meaning: a path could set options, or name another file.
std::string ImmutableUri(const std::filesystem::path& path) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    if (plain) {
      uri.push_back(c);
    } else {
      uri.push_back('%');
      uri.push_back(kHex[byte >> 4]);
      uri.push_back(kHex[byte & 15]);
    }
  }
  return uri + "?mode=ro&immutable=1";
}

// What SQLite advises for files from others (sqlite.org/security.html). A schema is code: views,
// triggers, and expressions in it would run when a table is read.
void Distrust(sqlite3* db) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, 1 << 16);
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
}

}  // namespace

absl::Status SqliteStatus(sqlite3* db, int code, std::string_view doing) {
  if (db != nullptr && IsIoError(code)) {
    if (absl::Status status = LastReadError(db); !status.ok()) return status;
  }
  const int error = db == nullptr || !IsIoError(code) ? 0 : WriteErrno(db);
  std::string text = StrCat(doing, ": ", sqlite3_errstr(code), " (SQLite result ", code);
  if (error != 0) StrAppend(&text, ", errno ", error);
  absl::Status status(CodeOf(code, error), text + ")");
  if (db != nullptr) status.SetPayload(kSqliteDetail, absl::Cord(sqlite3_errmsg(db)));
  return status;
}

Statement::Statement(sqlite3* db, std::string_view sql) : db_(db) {
  Note(sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                          &statement_, nullptr));
}
Statement::Statement(Statement&& other) noexcept
    : db_(other.db_),
      statement_(std::exchange(other.statement_, nullptr)),
      error_(std::move(other.error_)) {}
Statement& Statement::operator=(Statement&& other) noexcept {
  if (this == &other) return *this;
  sqlite3_finalize(statement_);
  db_ = other.db_;
  statement_ = std::exchange(other.statement_, nullptr);
  error_ = std::move(other.error_);
  return *this;
}
Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Note(int code) {
  if (code != SQLITE_OK && error_.ok()) error_ = SqliteStatus(db_, code, "preparing a statement");
}
Statement& Statement::Bind(int parameter, int64_t value) {
  Note(sqlite3_bind_int64(statement_, parameter, value));
  return *this;
}
Statement& Statement::BindText(int parameter, std::string_view value) {
  // SQLite binds NULL for a null pointer, and the columns are NOT NULL.
  const char* data = value.data() == nullptr ? "" : value.data();
  Note(sqlite3_bind_text64(statement_, parameter, data, value.size(), SQLITE_TRANSIENT,
                           SQLITE_UTF8));
  return *this;
}
Statement& Statement::BindBlob(int parameter, std::string_view value) {
  const char* data = value.data() == nullptr ? "" : value.data();
  Note(sqlite3_bind_blob64(statement_, parameter, data, value.size(), SQLITE_TRANSIENT));
  return *this;
}
Statement& Statement::BindBorrowedBlob(int parameter, std::string_view value) {
  const char* data = value.data() == nullptr ? "" : value.data();
  Note(sqlite3_bind_blob64(statement_, parameter, data, value.size(), SQLITE_STATIC));
  return *this;
}
absl::StatusOr<bool> Statement::Step() {
  RETURN_IF_ERROR(error_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  // Reset at once: a statement that is not reset keeps its read transaction open, and a checkpoint
  // cannot pass that.
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_);
    return false;
  }
  absl::Status status = SqliteStatus(db_, code, "database");
  const absl::Cord message = status.GetPayload(kSqliteDetail).value_or(absl::Cord());
  status.SetPayload(kSqliteDetail,
                    absl::Cord(StrCat(std::string(message), ": ", sqlite3_sql(statement_))));
  sqlite3_reset(statement_);
  return status;
}
absl::Status Statement::Run() {
  ASSIGN_OR_RETURN(const bool row, Step());
  if (row) Reset();
  return absl::OkStatus();
}
void Statement::Reset() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  error_ = absl::OkStatus();
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }
bool Statement::IsInt(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}
bool Statement::IsText(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_TEXT;
}
bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
std::string_view Statement::Bytes(int column) const {
  // In this order: sqlite3_column_blob() may convert the value, which changes its length.
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (data == nullptr || size <= 0) return {};
  return {static_cast<const char*>(data), static_cast<size_t>(size)};
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::filesystem::path& path,
                                                         Mode mode) {
  if (mode != Mode::kMemory) RETURN_IF_ERROR(CheckIsOrdinary(path));
  if (mode != Mode::kMemory && mode != Mode::kImmutableUntrusted) {
    for (const char* suffix : {"-journal", "-wal", "-shm"}) {
      RETURN_IF_ERROR(CheckIsOrdinary(path.string() + suffix));
    }
  }
  std::string name = path.string();
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  switch (mode) {
    case Mode::kReadWrite:
    case Mode::kUntrusted:
      flags |= SQLITE_OPEN_READWRITE;
      break;
    case Mode::kReadOnly:
      flags |= SQLITE_OPEN_READONLY;
      break;
    case Mode::kImmutableUntrusted:
      name = ImmutableUri(path);
      flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
      break;
    case Mode::kMemory:
      name = ":memory:";
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY;
      break;
  }
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
  // Made before the check: after an error, too, there may be a handle, which has the message and
  // must be closed.
  std::unique_ptr<Database> db(new Database(handle, path));
  if (code != SQLITE_OK) return SqliteStatus(handle, code, StrCat("opening ", path.string()));
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  if (mode == Mode::kImmutableUntrusted || mode == Mode::kUntrusted) {
    Distrust(handle);
    RETURN_IF_ERROR(db->Exec("PRAGMA cell_size_check=ON"));
  }
  if (mode == Mode::kImmutableUntrusted) RETURN_IF_ERROR(db->Exec("PRAGMA query_only=ON"));
  return db;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenBytes(std::unique_ptr<ByteFile> file) {
  static const int registered = RegisterByteVfs();
  if (registered != SQLITE_OK) return SqliteStatus(nullptr, registered, "registering a VFS");
  auto name = std::make_unique<ByteVfsName>(*file);
  const std::string uri = StrCat("file:", name->text(), "?mode=ro&immutable=1");
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(
      uri.c_str(), &handle,
      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
      kByteVfs);
  std::unique_ptr<Database> db(new Database(handle, "the capture file"));
  db->bytes_ = std::move(file);
  db->bytes_name_ = std::move(name);
  if (code != SQLITE_OK) return SqliteStatus(handle, code, "opening the capture file");
  Distrust(handle);
  RETURN_IF_ERROR(
      db->Exec("PRAGMA cell_size_check=ON; PRAGMA query_only=ON; PRAGMA temp_store=MEMORY"));
  return db;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenDescriptor(int descriptor) {
  return OpenBytes(std::make_unique<DescriptorFile>(descriptor));
}

Database::Database(sqlite3* db, std::filesystem::path path) : db_(db), path_(std::move(path)) {}

Database::~Database() {
  cache_.clear();
  // Unlike sqlite3_close(), this frees a connection with open statements once those are gone.
  sqlite3_close_v2(db_);
}

absl::Status Database::Close() {
  cache_.clear();
  // Unlike sqlite3_close_v2(), this fails while a statement or a blob is open. It would otherwise
  // keep the file and its journal open in silence.
  const int code = sqlite3_close(db_);
  if (code != SQLITE_OK) return SqliteStatus(db_, code, StrCat("closing ", path_.string()));
  db_ = nullptr;
  return absl::OkStatus();
}

absl::Status Database::Exec(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return SqliteStatus(db_, code, path_.string());
  return absl::OkStatus();
}

absl::StatusOr<std::string> Database::Serialize() {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, FreedBy<sqlite3_free>> bytes(
      sqlite3_serialize(db_, "main", &size, 0));
  if (bytes == nullptr) return absl::ResourceExhaustedError("no memory for a database's bytes");
  return std::string(reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size));
}

absl::StatusOr<int64_t> Database::QueryInt(std::string_view sql) {
  Statement statement(db_, sql);
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::InternalError(StrCat(path_.string(), ": no result for ", sql));
  return statement.Int(0);
}

void Database::StopWhen(std::function<bool()> stop) {
  constexpr int kInstructions = 1000;  // Of SQLite's machine: some 10 to 100 us.
  stop_ = std::move(stop);
  sqlite3_progress_handler(
      db_, kInstructions, [](void* self) { return static_cast<Database*>(self)->stop_() ? 1 : 0; },
      this);
}

void Database::CountLogPages() {
  sqlite3_wal_hook(
      db_,
      [](void* self, sqlite3* db, const char* name, int pages) {
        constexpr int kMostPages = 1000;
        static_cast<Database*>(self)->log_pages_ = pages;
        // The transaction is committed: like SQLite's own hook, this one does not make it fail.
        if (pages >= kMostPages) sqlite3_wal_checkpoint(db, name);
        return SQLITE_OK;
      },
      this);
}

absl::Status Database::Checkpoint() {
  // A connection that has read nothing yet does not know of the log.
  RETURN_IF_ERROR(QueryInt("PRAGMA schema_version").status());
  const int code =
      sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  if (code != SQLITE_OK) return SqliteStatus(db_, code, StrCat("checkpoint of ", path_.string()));
  return absl::OkStatus();
}

StatementLease Database::Use(const char* sql) {
  // By address, which is cheaper than comparing texts. A literal with two addresses is compiled
  // twice.
  auto it = cache_.find(sql);
  if (it == cache_.end()) it = cache_.emplace(sql, Statement(db_, sql)).first;
  return StatementLease(it->second);
}

Transaction::Transaction(Database& db) : db_(db) {
  // A deferred transaction that has read cannot wait for the write lock: if another connection has
  // written since, SQLite fails it at once, whatever the busy timeout.
  begin_ = db.Exec("BEGIN IMMEDIATE");
  open_ = begin_.ok();
}
Transaction::~Transaction() {
  // Some errors roll back by themselves; then there is nothing left to do.
  if (open_ && sqlite3_get_autocommit(db_.handle()) == 0) {
    db_.Exec("ROLLBACK").IgnoreError();
  }
}
absl::Status Transaction::Commit() {
  RETURN_IF_ERROR(db_.Exec("COMMIT"));
  open_ = false;
  return absl::OkStatus();
}

}  // namespace profd::store
