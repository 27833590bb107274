// ForeignDatabase reads tables of an untrusted SQLite database.
//
// It reads ordinary tables only, either all rows or the row with a given ID: no views, virtual
// tables, generated columns, indexes, or triggers. An authorizer refuses everything else. A
// statement that takes more steps than the file's size explains is aborted.
//
// Threads:   one at a time.
// Ownership: the descriptor must outlive it.
// Errors:    DATA_LOSS for a damaged file, CANCELLED, RESOURCE_EXHAUSTED (memory); INTERNAL if
//            the file cannot be read. Errors of a callback.
#ifndef PROFD_DAEMON_STORE_FILE_FOREIGN_DATABASE_H_
#define PROFD_DAEMON_STORE_FILE_FOREIGN_DATABASE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/sqlite_db.h"

namespace profd::store {

class ForeignDatabase {
 public:
  static constexpr size_t kMaxTables = 4096;
  static constexpr size_t kMaxColumns = 256;  // Of a table.

  struct Column {
    std::string name;
    bool is_row_number = false;  // INTEGER PRIMARY KEY: rows are found by it.
  };
  // By name, which may be any string. Columns are in the table's order.
  using Tables = std::map<std::string, std::vector<Column>, std::less<>>;

  // `descriptor` is read-only. `is_cancelled` may be empty.
  static absl::StatusOr<std::unique_ptr<ForeignDatabase>> Open(int descriptor,
                                                               std::function<bool()> is_cancelled);
  ~ForeignDatabase();

  const Tables& tables() const { return tables_; }
  bool HasColumn(std::string_view table, std::string_view column) const;

  // The current row of a scan. Columns count from 0 in the order of the request. A column that the
  // table lacks is NULL.
  class Row {
   public:
    bool IsNull(size_t column) const;
    // nullopt: the value has another type.
    std::optional<int64_t> Int(size_t column) const;
    std::optional<std::string_view> Text(size_t column) const;  // Until the next row.

   private:
    friend class ForeignDatabase;
    Row(const Statement& statement, std::span<const int> places)
        : statement_(statement), places_(places) {}

    const Statement& statement_;
    std::span<const int> places_;  // In the statement; -1: the table lacks it.
  };

  // Reads all rows of a table in the order of the file; no rows if the table does not exist.
  absl::Status ForEach(std::string_view table, std::span<const std::string_view> columns,
                       absl::FunctionRef<absl::Status(const Row&)> fn);
  absl::StatusOr<int64_t> CountRows(std::string_view table);
  // Calls `fn` for the row with this ID, if it exists. The table must have `column`, and `key` as
  // its row ID.
  absl::Status Find(std::string_view table, std::string_view key, std::string_view column,
                    int64_t number, absl::FunctionRef<void(const Row&)> fn);

 private:
  ForeignDatabase() = default;

  absl::Status ReadSchema();
  void Allow(int64_t steps);
  absl::Status Explain(const absl::Status& status, std::string_view table) const;
  static int Authorize(void* self, int action, const char* first, const char* second,
                       const char* database, const char* inside);

  std::unique_ptr<Database> db_;
  std::function<bool()> is_cancelled_;
  int64_t file_bytes_ = 0;
  Tables tables_;
  bool reads_schema_ = true;
  int64_t periods_left_ = 0;  // Calls of the progress handler until the statement is aborted.
  std::map<std::string, Statement> lookups_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_FOREIGN_DATABASE_H_
