// Database, Statement and Transaction: SQLite with owners, statuses and a statement cache.
// Nothing outside daemon/store sees SQLite.
//
// Threads:   one at a time; callers that share a Database hold a mutex.
// Ownership: a Statement must not outlive its Database.
// Errors:    RESOURCE_EXHAUSTED for a full disk (also a quota or file size limit), DATA_LOSS
//            for a damaged file, UNAVAILABLE for a lock held by another process, CANCELLED for a
//            statement that StopWhen() ended, INTERNAL for any other result, whose code is in the
//            message. Statements and what SQLite says of
//            them are in ToString(), for the log, not in message().
#ifndef PROFD_DAEMON_STORE_FILE_SQLITE_DB_H_
#define PROFD_DAEMON_STORE_FILE_SQLITE_DB_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/byte_file.h"

struct sqlite3;
struct sqlite3_stmt;

namespace profd::store {

class ByteVfsName;

// A prepared statement. Bindings and preparation note their errors; Step() tells them.
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3* db, std::string_view sql);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  // Parameters count from 1, as in SQL. Text and blobs are copied.
  Statement& Bind(int parameter, int64_t value);
  Statement& BindText(int parameter, std::string_view value);
  Statement& BindBlob(int parameter, std::string_view value);
  // As BindBlob without the copy: `value` must stay as it is until Reset() or the next Step()
  // that ends the statement.
  Statement& BindBorrowedBlob(int parameter, std::string_view value);

  // True: there is a row to look at. False: done, and reset for the next use.
  absl::StatusOr<bool> Step();
  // For statements that give no rows.
  absl::Status Run();
  void Reset();  // Also forgets the bindings.

  // Of the current row; columns count from 0. Views live until the next Step() or Reset().
  int64_t Int(int column) const;
  bool IsInt(int column) const;
  bool IsText(int column) const;
  bool IsNull(int column) const;
  std::string_view Bytes(int column) const;  // Text or blob.
  std::string Text(int column) const { return std::string(Bytes(column)); }

 private:
  void Note(int code);

  sqlite3* db_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
  absl::Status error_;
};

// Hands a cached statement back, reset, when it goes.
class StatementLease {
 public:
  explicit StatementLease(Statement& statement) : statement_(&statement) {}
  StatementLease(const StatementLease&) = delete;
  StatementLease& operator=(const StatementLease&) = delete;
  ~StatementLease() { statement_->Reset(); }
  Statement* operator->() { return statement_; }
  Statement& operator*() { return *statement_; }

 private:
  Statement* statement_;
};

class Database {
 public:
  enum class Mode {
    kReadWrite,           // Must exist.
    kReadOnly,            // The same, next to a connection that writes.
    kUntrusted,           // The same; trusts nothing in it.
    kImmutableUntrusted,  // Read-only; believes that no process writes; trusts nothing in it.
    kMemory,              // A private database in memory; `path` is for messages.
  };
  // Returns DATA_LOSS if the file, or one that SQLite keeps next to it, is not an ordinary file.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::filesystem::path& path,
                                                        Mode mode);
  // As kImmutableUntrusted, over bytes that do not change. Opens no file of any name. An error of
  // the file is returned as it is.
  static absl::StatusOr<std::unique_ptr<Database>> OpenBytes(std::unique_ptr<ByteFile> file);
  // The same over a descriptor that is read-only and outlives the database.
  static absl::StatusOr<std::unique_ptr<Database>> OpenDescriptor(int descriptor);
  ~Database();

  // One or more statements without results.
  absl::Status Exec(const std::string& sql);
  // The single integer that `sql` gives.
  absl::StatusOr<int64_t> QueryInt(std::string_view sql);
  // The bytes of its file, if that were written now.
  absl::StatusOr<std::string> Serialize();
  // A statement of the cache; `sql` must be a literal. Not while an earlier lease of it lives.
  StatementLease Use(const char* sql);

  // Ends statements with CANCELLED once `stop` returns true; it is called while they run, some
  // thousand times a second, and must not use this database.
  void StopWhen(std::function<bool()> stop);

  // Counts the pages of the write-ahead log from now on. As SQLite does by itself, a commit that
  // finds 1,000 of them copies them into the file. That syncs the disk and takes milliseconds;
  // Checkpoint() does it before, where nothing waits.
  void CountLogPages();
  int log_pages() const { return log_pages_; }  // After the last commit.
  absl::Status Checkpoint();                    // As far as readers allow; waits for none of them.

  sqlite3* handle() const { return db_; }
  const std::filesystem::path& path() const { return path_; }
  // Closes the file, telling errors. The cache must not be used again.
  absl::Status Close();

 private:
  Database(sqlite3* db, std::filesystem::path path);

  std::unique_ptr<ByteFile> bytes_;  // Of OpenBytes(); closed after the database.
  std::unique_ptr<ByteVfsName> bytes_name_;
  sqlite3* db_;
  const std::filesystem::path path_;
  std::function<bool()> stop_;
  int log_pages_ = 0;
  std::unordered_map<const char*, Statement> cache_;
};

// Rolls back when it goes, unless committed.
class Transaction {
 public:
  explicit Transaction(Database& db);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  const absl::Status& status() const { return begin_; }  // Of BEGIN.
  absl::Status Commit();

 private:
  Database& db_;
  absl::Status begin_;
  bool open_ = false;
};

// The status for result `code` of an operation on `db`, which may be null.
absl::Status SqliteStatus(sqlite3* db, int code, std::string_view doing);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_SQLITE_DB_H_
