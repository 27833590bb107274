#include "daemon/store/file/foreign_database.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::store {
namespace {

constexpr int kMaxStatementBytes = 16 << 10;
constexpr size_t kMaxShownName = 100;
// StopWhen() asks once per so many steps of SQLite's machine.
constexpr int64_t kStepsPerPeriod = 1000;
// A row takes 6 bytes at least, and a step or two per column that is read.
constexpr int64_t kStepsPerByte = 64;
constexpr int64_t kStepsOfAnything = 10'000'000;
constexpr int64_t kStepsOfLookup = 10'000;
// Columns of PRAGMA table_xinfo.
constexpr int kNameColumn = 1;
constexpr int kTypeColumn = 2;
constexpr int kKeyColumn = 5;
constexpr int kHiddenColumn = 6;

// For SQL. Text in double quotes is a name: no other statement refers to columns that may not be
// there, for which SQLite would take it as a string.
std::string Quoted(std::string_view name) {
  std::string quoted;
  quoted.push_back('"');
  for (const char c : name) {
    if (c == '"') quoted.push_back('"');
    quoted.push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

bool IsInteger(std::string_view type) {
  return type.size() == 7 && sqlite3_strnicmp(type.data(), "INTEGER", 7) == 0;
}

}  // namespace

bool ForeignDatabase::Row::IsNull(size_t column) const {
  return places_[column] < 0 || statement_.IsNull(places_[column]);
}
std::optional<int64_t> ForeignDatabase::Row::Int(size_t column) const {
  const int place = places_[column];
  if (place < 0 || !statement_.IsInt(place)) return std::nullopt;
  return statement_.Int(place);
}
std::optional<std::string_view> ForeignDatabase::Row::Text(size_t column) const {
  const int place = places_[column];
  if (place < 0 || !statement_.IsText(place)) return std::nullopt;
  return statement_.Bytes(place);
}

ForeignDatabase::~ForeignDatabase() { lookups_.clear(); }

absl::StatusOr<std::unique_ptr<ForeignDatabase>> ForeignDatabase::Open(
    int descriptor, std::function<bool()> is_cancelled) {
  std::unique_ptr<ForeignDatabase> foreign(new ForeignDatabase);
  struct stat about = {};
  if (fstat(descriptor, &about) == 0) foreign->file_bytes_ = about.st_size;
  foreign->is_cancelled_ = std::move(is_cancelled);
  ASSIGN_OR_RETURN(foreign->db_, Database::OpenDescriptor(descriptor));
  sqlite3* const db = foreign->db_->handle();
  sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, kMaxStatementBytes);
  sqlite3_limit(db, SQLITE_LIMIT_COLUMN, kMaxColumns);
  sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, 100);
  sqlite3_limit(db, SQLITE_LIMIT_COMPOUND_SELECT, 2);
  sqlite3_limit(db, SQLITE_LIMIT_FUNCTION_ARG, 2);
  sqlite3_limit(db, SQLITE_LIMIT_TRIGGER_DEPTH, 1);
  sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_set_authorizer(db, &ForeignDatabase::Authorize, foreign.get());
  foreign->db_->StopWhen([self = foreign.get()] {
    return --self->periods_left_ < 0 || (self->is_cancelled_ && self->is_cancelled_());
  });
  RETURN_IF_ERROR(foreign->ReadSchema());
  return foreign;
}

int ForeignDatabase::Authorize(void* self, int action, const char* first, const char* second,
                               const char* /*database*/, const char* inside) {
  const auto* const foreign = static_cast<ForeignDatabase*>(self);
  const auto view = [](const char* text) {
    return text == nullptr ? std::string_view() : std::string_view(text);
  };
  if (inside != nullptr) return SQLITE_DENY;  // A view's or a trigger's.
  switch (action) {
    case SQLITE_SELECT:
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      return view(second) == "count" ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_PRAGMA:
      return foreign->reads_schema_ && view(first) == "table_xinfo" ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_READ:
      if (foreign->reads_schema_) return view(first) == "sqlite_master" ? SQLITE_OK : SQLITE_DENY;
      return foreign->tables_.contains(view(first)) ? SQLITE_OK : SQLITE_DENY;
    default:
      return SQLITE_DENY;
  }
}

void ForeignDatabase::Allow(int64_t steps) { periods_left_ = steps / kStepsPerPeriod + 1; }

absl::Status ForeignDatabase::Explain(const absl::Status& status, std::string_view table) const {
  const std::string shown = ForDisplay(table, kMaxShownName);
  if (absl::IsCancelled(status)) {
    if (periods_left_ >= 0) return status;
    return absl::DataLossError(
        StrCat("damaged: table '", shown, "' has more rows than the file has room for"));
  }
  return absl::Status(status.code(), StrCat("table '", shown, "': ", FromAbsl(status.message())));
}

absl::Status ForeignDatabase::ReadSchema() {
  Allow(kStepsOfAnything + kStepsPerByte * file_bytes_);
  std::vector<std::string> names;
  {
    // Virtual tables have no page of their own.
    Statement tables(db_->handle(),
                     "SELECT name FROM sqlite_master NOT INDEXED "
                     "WHERE type = 'table' AND rootpage > 1");
    while (true) {
      absl::StatusOr<bool> row = tables.Step();
      if (!row.ok()) return Explain(row.status(), "sqlite_schema");
      if (!*row) break;
      if (!tables.IsText(0)) continue;
      if (names.size() == kMaxTables) {
        return absl::DataLossError(StrCat("it has more than ", kMaxTables, " tables"));
      }
      names.push_back(tables.Text(0));
    }
  }
  for (const std::string& name : names) {
    // Quoted() would pass it to SQLite, which reads SQL up to a NUL.
    if (name.find('\0') != std::string::npos) continue;
    Statement info(db_->handle(), StrCat("PRAGMA table_xinfo(", Quoted(name), ")"));
    std::vector<Column> columns;
    int keys = 0;
    while (true) {
      absl::StatusOr<bool> row = info.Step();
      if (!row.ok()) return Explain(row.status(), name);
      if (!*row) break;
      const bool is_key = info.Int(kKeyColumn) != 0;
      if (is_key) ++keys;
      if (info.Int(kHiddenColumn) != 0) continue;  // Generated ones, too.
      columns.push_back({.name = info.Text(kNameColumn),
                         .is_row_number = is_key && IsInteger(info.Bytes(kTypeColumn))});
    }
    // Of a key of several columns, none is the row's number.
    if (keys != 1) {
      for (Column& column : columns) column.is_row_number = false;
    }
    tables_.insert_or_assign(name, std::move(columns));
  }
  reads_schema_ = false;
  return absl::OkStatus();
}

bool ForeignDatabase::HasColumn(std::string_view table, std::string_view column) const {
  const auto found = tables_.find(table);
  return found != tables_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const Column& one) { return one.name == column; });
}

absl::Status ForeignDatabase::ForEach(std::string_view table,
                                      std::span<const std::string_view> columns,
                                      absl::FunctionRef<absl::Status(const Row&)> fn) {
  if (!tables_.contains(table)) return absl::OkStatus();
  std::vector<int> places;
  std::string wanted;
  int next = 0;
  for (const std::string_view column : columns) {
    const bool is_there = HasColumn(table, column);
    places.push_back(is_there ? next++ : -1);
    if (is_there) StrAppend(&wanted, wanted.empty() ? "" : ", ", Quoted(column));
  }
  // The rows still count if the table has none of the wanted columns; a SELECT needs something to
  // select.
  if (wanted.empty()) wanted.push_back('1');
  Statement statement(db_->handle(),
                      StrCat("SELECT ", wanted, " FROM ", Quoted(table), " NOT INDEXED"));
  const Row row(statement, places);
  Allow(kStepsOfAnything + kStepsPerByte * file_bytes_);
  while (true) {
    const absl::StatusOr<bool> has_row = statement.Step();
    if (!has_row.ok()) return Explain(has_row.status(), table);
    if (!*has_row) return absl::OkStatus();
    const int64_t periods_left = periods_left_;
    RETURN_IF_ERROR(fn(row));
    periods_left_ = periods_left;  // Lookups have their own.
  }
}

absl::StatusOr<int64_t> ForeignDatabase::CountRows(std::string_view table) {
  if (!tables_.contains(table)) return 0;
  Statement statement(db_->handle(),
                      StrCat("SELECT count(*) FROM ", Quoted(table), " NOT INDEXED"));
  Allow(kStepsOfAnything + kStepsPerByte * file_bytes_);
  const absl::StatusOr<bool> row = statement.Step();
  if (!row.ok()) return Explain(row.status(), table);
  return *row ? statement.Int(0) : 0;
}

absl::Status ForeignDatabase::Find(std::string_view table, std::string_view key,
                                   std::string_view column, int64_t number,
                                   absl::FunctionRef<void(const Row&)> fn) {
  const auto found = tables_.find(table);
  if (found == tables_.end() || !HasColumn(table, column)) return absl::OkStatus();
  const bool is_fast =
      std::any_of(found->second.begin(), found->second.end(),
                  [&](const Column& one) { return one.name == key && one.is_row_number; });
  // Without a row number each lookup would read the whole table.
  if (!is_fast) return absl::OkStatus();
  const std::string sql = StrCat("SELECT ", Quoted(column), " FROM ", Quoted(table),
                                 " NOT INDEXED WHERE ", Quoted(key), " = ?");
  auto statement = lookups_.find(sql);
  if (statement == lookups_.end()) {
    statement = lookups_.emplace(sql, Statement(db_->handle(), sql)).first;
  }
  const StatementLease lease(statement->second);
  Allow(kStepsOfLookup);
  const absl::StatusOr<bool> has_row = statement->second.Bind(1, number).Step();
  if (!has_row.ok()) return Explain(has_row.status(), table);
  constexpr int kOnlyColumn = 0;
  if (*has_row) fn(Row(statement->second, {&kOnlyColumn, 1}));
  return absl::OkStatus();
}

}  // namespace profd::store
