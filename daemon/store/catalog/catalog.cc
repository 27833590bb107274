#include "daemon/store/catalog/catalog.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/store/catalog/schema.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/record_codec.h"

namespace profd::store {
namespace {

// The columns that ReadRecord() reads.
#define PROFD_RECORD_COLUMNS "record, file_bytes, file_sha256, deleted, evicted"

absl::StatusOr<CaptureRecord> ReadRecord(const Statement& query) {
  ASSIGN_OR_RETURN(CaptureRecord record, DecodeRecord(query.Bytes(0)));
  record.file_bytes = query.Int(1);
  record.file_sha256 = query.Text(2);
  record.deleted = query.Int(3) != 0;
  record.evicted = query.Int(4) != 0;
  return record;
}

absl::StatusOr<std::vector<CaptureRecord>> ReadRecords(Statement& query) {
  std::vector<CaptureRecord> records;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return records;
    ASSIGN_OR_RETURN(records.emplace_back(), ReadRecord(query));
  }
}

absl::StatusOr<std::vector<StoredRecord>> ReadStored(Statement& query) {
  std::vector<StoredRecord> records;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return records;
    records.push_back({.id = query.Text(0), .group_id = query.Text(1), .bytes = query.Int(2)});
  }
}

absl::Status UnknownCapture(std::string_view id) {
  return absl::NotFoundError(StrCat("no capture ", ForDisplay(id, 64)));
}

// A WHERE clause under construction, with the values for its parameters.
class Conditions {
 public:
  void Add(std::string_view condition) {
    StrAppend(&text_, text_.empty() ? " WHERE " : " AND ", condition);
  }
  // Each gives the number of the parameter.
  int Value(int64_t value) {
    binders_.push_back([value](Statement& query, int number) { query.Bind(number, value); });
    return static_cast<int>(binders_.size());
  }
  int Value(std::string value) {
    binders_.push_back([value = std::move(value)](Statement& query, int number) {
      query.BindText(number, value);
    });
    return static_cast<int>(binders_.size());
  }
  const std::string& text() const { return text_; }
  void BindTo(Statement& query) const {
    int number = 0;
    for (const auto& bind : binders_) bind(query, ++number);
  }

 private:
  std::string text_;
  std::vector<std::function<void(Statement&, int)>> binders_;
};

// The smallest text above all that start with `prefix`, which is ASCII.
std::string PrefixEnd(std::string prefix) {
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

Conditions ConditionsOf(const CaptureFilter& filter, std::string_view before_id) {
  Conditions where;
  const auto value = [&where](auto&& v) { return StrCat("?", where.Value(v)); };
  if (!before_id.empty()) where.Add("id < " + value(std::string(before_id)));
  if (!filter.include_deleted) where.Add("deleted = 0");
  if (!filter.states.empty()) {
    std::string states;
    for (const CaptureState state : filter.states) {
      StrAppend(&states, states.empty() ? "" : ",", static_cast<int>(state));
    }
    where.Add(StrCat("state IN (", states, ")"));
  }
  for (const auto& [key, text] : filter.labels) {
    const std::string key_value = value(key);
    where.Add(StrCat("id IN (SELECT capture_id FROM capture_labels WHERE key = ", key_value,
                     " AND value = ", value(text), ")"));
  }
  if (filter.pid.has_value()) where.Add("pid = " + value(*filter.pid));
  if (filter.owner_uid.has_value()) where.Add("owner_uid = " + value(*filter.owner_uid));
  if (!filter.name.empty()) where.Add("display_name = " + value(filter.name));
  if (!filter.group_id.empty()) {
    // The index of groups has only rows with one, and SQLite must see that this asks for no other.
    where.Add("group_id = " + value(filter.group_id) + " AND group_id <> ''");
  }
  if (!filter.id_prefix.empty()) {
    const std::string first = value(filter.id_prefix);
    where.Add(StrCat("id >= ", first, " AND id < ", value(PrefixEnd(filter.id_prefix))));
  }
  if (filter.since.has_value()) {
    where.Add("create_unix_ns >= " + value(absl::ToUnixNanos(*filter.since)));
  }
  if (filter.until.has_value()) {
    where.Add("create_unix_ns < " + value(absl::ToUnixNanos(*filter.until)));
  }
  return where;
}

// Lets removed records give their pages back to the disk. A catalog of an earlier profd is
// rewritten once; where there is no room for that, its pages are reused only.
absl::Status LetPagesBeFreed(Database& db) {
  constexpr int64_t kIncremental = 2;
  ASSIGN_OR_RETURN(const int64_t mode, db.QueryInt("PRAGMA auto_vacuum"));
  if (mode == kIncremental) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t application, db.QueryInt("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t pages, db.QueryInt("PRAGMA page_count"));
  if (pages > 0 && application != kCatalogApplicationId) return absl::OkStatus();  // Not ours.
  // A new database takes the setting at once, but only before its first table is made. Any other
  // needs a VACUUM.
  RETURN_IF_ERROR(db.Exec("PRAGMA auto_vacuum=INCREMENTAL"));
  if (pages == 0) return absl::OkStatus();
  if (absl::Status status = db.Exec("VACUUM"); !status.ok()) {
    LogWarning(StrCat("the catalog cannot be compacted: ", status.ToString()));
  }
  return absl::OkStatus();
}

constexpr int kLongLogPages = 256;  // Of 4 KiB.

absl::Status CreatePrivately(const std::filesystem::path& path) {
  // SQLite would create the file with the mode that the umask leaves. Its -wal and -shm files take
  // the mode of this one.
  const UniqueFd file(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid()) return FileStatus(path, errno);
  return absl::OkStatus();
}

}  // namespace

std::string HolderOf(const CaptureRecord& record) {
  if (!record.requested_by.empty()) return record.requested_by;
  return StrCat("uid:", record.requested_by_uid);
}

absl::StatusOr<std::unique_ptr<Catalog>> Catalog::Open(const std::filesystem::path& path) {
  RETURN_IF_ERROR(CreatePrivately(path));
  ASSIGN_OR_RETURN(auto db, Database::Open(path, Database::Mode::kReadWrite));
  const auto explain = [&path](const absl::Status& status) {
    if (!absl::IsDataLoss(status)) return status;
    return absl::DataLossError(
        StrCat(FromAbsl(status.message()), "; move ", path.string(),
               " away and start profd again: it finds the captures by their files"));
  };
  RETURN_IF_ERROR(explain(LetPagesBeFreed(*db)));
  RETURN_IF_ERROR(explain(MigrateCatalog(*db, CatalogMigrations())));
  RETURN_IF_ERROR(explain(db->Exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL")));
  // This replaces SQLite's automatic checkpoint, which is a hook of the same kind.
  db->CountLogPages();
  std::unique_ptr<Catalog> catalog(new Catalog(std::move(db)));
  RETURN_IF_ERROR(explain(catalog->holdings().Start()));
  return catalog;
}

bool Catalog::HasLongLog() const { return db_->log_pages() >= kLongLogPages; }

absl::Status Catalog::Put(const char* sql, const CaptureRecord& record) {
  StatementLease put = db_->Use(sql);
  put->BindText(1, record.id).BindText(2, record.group_id).BindText(3, record.request_id);
  put->Bind(4, record.requested_by_uid).Bind(5, record.target.uid).Bind(6, record.target.pid);
  put->BindText(7, record.spec.display_name).Bind(8, static_cast<int64_t>(record.state));
  put->Bind(9, absl::ToUnixNanos(record.create_time)).Bind(10, record.file_bytes);
  put->BindText(11, record.file_sha256).Bind(12, record.deleted ? 1 : 0);
  // Reports alone need the samples, and read the record in the capture file. Here, they would be
  // most of the row.
  CaptureRecord kept = record;
  kept.cpu.samples.clear();
  return put->BindText(13, EncodeRecord(kept)).BindText(14, HolderOf(record)).Run();
}

absl::Status Catalog::PutLabels(const CaptureRecord& record) {
  {
    StatementLease remove = db_->Use("DELETE FROM capture_labels WHERE capture_id = ?1");
    RETURN_IF_ERROR(remove->BindText(1, record.id).Run());
  }
  for (const auto& [key, value] : record.spec.labels) {
    StatementLease put =
        db_->Use("INSERT INTO capture_labels(key, value, capture_id) VALUES(?1, ?2, ?3)");
    RETURN_IF_ERROR(put->BindText(1, key).BindText(2, value).BindText(3, record.id).Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Catalog::Contains(std::string_view id) {
  StatementLease query = db_->Use("SELECT 1 FROM captures WHERE id = ?1");
  return query->BindText(1, id).Step();
}

absl::Status Catalog::Insert(const CaptureRecord& record) {
  Transaction transaction(*db_);
  RETURN_IF_ERROR(transaction.status());
  ASSIGN_OR_RETURN(const bool exists, Contains(record.id));
  if (exists) {
    return absl::FailedPreconditionError(StrCat("capture ", record.id, " exists already"));
  }
  RETURN_IF_ERROR(
      Put("INSERT INTO captures(id, group_id, request_id, requested_by_uid, owner_uid, pid, "
          "display_name, state, create_unix_ns, file_bytes, file_sha256, deleted, record, "
          "principal, evicted, summary_bytes) "
          "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 0, length(?13))",
          record));
  RETURN_IF_ERROR(PutLabels(record));
  return transaction.Commit();
}

absl::Status Catalog::Update(const CaptureRecord& record) {
  Transaction transaction(*db_);
  RETURN_IF_ERROR(transaction.status());
  ASSIGN_OR_RETURN(const bool exists, Contains(record.id));
  if (!exists) return UnknownCapture(record.id);
  // The caller's copy of the record may be older than an eviction or than the end of the file. So
  // an update never revives a deleted row, never forgets a file, and never lowers summary_bytes
  // below what the summaries added.
  RETURN_IF_ERROR(
      Put("UPDATE captures SET group_id = ?2, request_id = ?3, requested_by_uid = ?4, "
          "owner_uid = ?5, pid = ?6, display_name = ?7, state = ?8, create_unix_ns = ?9, "
          "file_bytes = iif(deleted OR ?12, 0, iif(?10 > 0, ?10, file_bytes)), "
          "file_sha256 = iif(deleted OR ?12, '', iif(?10 > 0, ?11, file_sha256)), "
          "deleted = max(deleted, ?12), record = ?13, principal = ?14, "
          "summary_bytes = max(summary_bytes, length(?13)), "
          "pinned = iif(deleted OR ?12, 0, pinned) WHERE id = ?1",
          record));
  RETURN_IF_ERROR(PutLabels(record));
  return transaction.Commit();
}

absl::Status Catalog::InsertOrUpdate(const CaptureRecord& record) {
  ASSIGN_OR_RETURN(const bool exists, Contains(record.id));
  return exists ? Update(record) : Insert(record);
}

absl::StatusOr<CaptureRecord> Catalog::Get(std::string_view id) {
  StatementLease query = db_->Use("SELECT " PROFD_RECORD_COLUMNS " FROM captures WHERE id = ?1");
  ASSIGN_OR_RETURN(const bool row, query->BindText(1, id).Step());
  if (!row) return UnknownCapture(id);
  return ReadRecord(*query);
}

absl::StatusOr<std::vector<CaptureRecord>> Catalog::FindRequest(std::string_view request_id,
                                                                int64_t requested_by_uid) {
  if (request_id.empty()) return std::vector<CaptureRecord>();
  // The last condition looks redundant. SQLite uses the partial index captures_by_request only if
  // the statement repeats the condition of the index.
  StatementLease query = db_->Use(
      "SELECT " PROFD_RECORD_COLUMNS
      " FROM captures WHERE request_id = ?1 AND requested_by_uid = ?2 AND request_id <> '' "
      "ORDER BY id");
  query->BindText(1, request_id).Bind(2, requested_by_uid);
  return ReadRecords(*query);
}

absl::StatusOr<std::vector<CaptureRecord>> Catalog::List(const CaptureFilter& filter, int64_t limit,
                                                         std::string_view before_id) {
  const Conditions where = ConditionsOf(filter, before_id);
  Statement query(db_->handle(), StrCat("SELECT " PROFD_RECORD_COLUMNS " FROM captures",
                                        where.text(), " ORDER BY id DESC LIMIT ", limit));
  where.BindTo(query);
  return ReadRecords(query);
}

absl::StatusOr<std::vector<CaptureRecord>> Catalog::ListUnfinished() {
  StatementLease query =
      db_->Use("SELECT " PROFD_RECORD_COLUMNS " FROM captures WHERE state < ?1 ORDER BY id");
  query->Bind(1, static_cast<int64_t>(CaptureState::kComplete));
  return ReadRecords(*query);
}

absl::StatusOr<std::vector<std::string>> Catalog::ListIdsWithFile() {
  StatementLease query = db_->Use("SELECT id FROM captures WHERE file_bytes > 0 ORDER BY id");
  std::vector<std::string> ids;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return ids;
    ids.push_back(query->Text(0));
  }
}

absl::Status Catalog::SetFile(std::string_view id, int64_t bytes, std::string_view sha256) {
  StatementLease put = db_->Use(
      "UPDATE captures SET file_bytes = ?2, file_sha256 = ?3 WHERE id = ?1 AND NOT deleted");
  return put->BindText(1, id).Bind(2, bytes).BindText(3, sha256).Run();
}

absl::Status Catalog::MarkDeleted(std::string_view id) {
  StatementLease put = db_->Use(
      "UPDATE captures SET file_bytes = 0, file_sha256 = '', deleted = 1, pinned = 0 "
      "WHERE id = ?1");
  return put->BindText(1, id).Run();
}

absl::Status Catalog::MarkEvicted(std::string_view id, std::string_view for_id) {
  // The row of the evicted capture names the other one, whose own row may not be written yet, or be
  // written back late.
  StatementLease put = db_->Use(
      "UPDATE captures SET file_bytes = 0, file_sha256 = '', deleted = 1, pinned = 0, "
      "evicted = 1, evicted_for = ?2 WHERE id = ?1 AND NOT deleted");
  return put->BindText(1, id).BindText(2, for_id).Run();
}

absl::StatusOr<EvictedCaptures> Catalog::ListEvictedFor(std::string_view id,
                                                        std::string_view principal) {
  EvictedCaptures evicted;
  if (id.empty()) return evicted;
  {
    // `evicted_for <> ''` lets SQLite use the partial index captures_evicted_for.
    StatementLease query =
        db_->Use("SELECT count(*) FROM captures WHERE evicted_for = ?1 AND evicted_for <> ''");
    RETURN_IF_ERROR(query->BindText(1, id).Step().status());
    evicted.count = query->Int(0);
  }
  if (evicted.count == 0) return evicted;
  StatementLease query = db_->Use(
      "SELECT id FROM captures WHERE evicted_for = ?1 AND evicted_for <> '' AND principal = ?2 "
      "ORDER BY id LIMIT ?3");
  query->BindText(1, id).BindText(2, principal).Bind(3, EvictedCaptures::kMostIds);
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return evicted;
    evicted.ids.push_back(query->Text(0));
  }
}

absl::Status Catalog::Remove(const std::vector<StoredRecord>& records) {
  Transaction transaction(*db_);
  RETURN_IF_ERROR(transaction.status());
  for (const StoredRecord& record : records) {
    for (const char* sql :
         {"DELETE FROM captures WHERE id = ?1", "DELETE FROM capture_labels WHERE capture_id = ?1",
          "DELETE FROM op_summary WHERE capture_id = ?1",
          "DELETE FROM step_summary WHERE capture_id = ?1",
          "DELETE FROM device_summary WHERE capture_id = ?1",
          "DELETE FROM rank_summary WHERE capture_id = ?1"}) {
      StatementLease remove = db_->Use(sql);
      RETURN_IF_ERROR(remove->BindText(1, record.id).Run());
    }
    if (record.group_id.empty()) continue;
    // A group has no owner but its members: its record goes with the last of them. `group_id <> ''`
    // lets SQLite use the partial index captures_by_group.
    StatementLease group = db_->Use(
        "DELETE FROM capture_groups WHERE id = ?1 AND NOT EXISTS "
        "(SELECT 1 FROM captures WHERE group_id = ?1 AND group_id <> '')");
    RETURN_IF_ERROR(group->BindText(1, record.group_id).Run());
  }
  return transaction.Commit();
}

absl::Status Catalog::Vacuum(int64_t pages) {
  return db_->Exec(StrCat("PRAGMA incremental_vacuum(", pages, ")"));
}

absl::StatusOr<std::vector<StoredRecord>> Catalog::ListOldest(std::string_view before_id,
                                                              int64_t limit) {
  StatementLease query = db_->Use(
      "SELECT id, group_id, file_bytes FROM captures WHERE id < ?1 AND state >= ?2 AND NOT pinned "
      "ORDER BY id LIMIT ?3");
  query->BindText(1, before_id).Bind(2, static_cast<int64_t>(CaptureState::kComplete));
  query->Bind(3, limit);
  return ReadStored(*query);
}

absl::StatusOr<std::vector<StoredRecord>> Catalog::ListOldestOf(std::string_view principal,
                                                                int64_t limit) {
  StatementLease query = db_->Use(
      "SELECT id, group_id, file_bytes FROM captures WHERE principal = ?1 AND state >= ?2 "
      "AND NOT pinned ORDER BY id LIMIT ?3");
  query->BindText(1, principal).Bind(2, static_cast<int64_t>(CaptureState::kComplete));
  query->Bind(3, limit);
  return ReadStored(*query);
}

absl::StatusOr<std::vector<RecordHolder>> Catalog::ListRecordHolders() {
  StatementLease query =
      db_->Use("SELECT principal, count(*), sum(summary_bytes) FROM captures GROUP BY principal");
  std::vector<RecordHolder> holders;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return holders;
    holders.push_back(
        {.principal = query->Text(0), .records = query->Int(1), .bytes = query->Int(2)});
  }
}

absl::Status Catalog::SetPinned(std::string_view id, bool pinned) {
  StatementLease put = db_->Use("UPDATE captures SET pinned = ?2 WHERE id = ?1 AND NOT deleted");
  return put->BindText(1, id).Bind(2, pinned ? 1 : 0).Run();
}

absl::StatusOr<std::set<std::string>> Catalog::ListPinned() {
  StatementLease query = db_->Use("SELECT id FROM captures WHERE pinned");
  std::set<std::string> ids;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return ids;
    ids.insert(query->Text(0));
  }
}

absl::StatusOr<bool> Catalog::IsPinned(std::string_view id) {
  StatementLease query = db_->Use("SELECT 1 FROM captures WHERE id = ?1 AND pinned");
  return query->BindText(1, id).Step();
}

absl::StatusOr<int64_t> Catalog::PinnedBytes(std::string_view principal) {
  StatementLease query = db_->Use(
      "SELECT ifnull(sum(file_bytes), 0) FROM captures WHERE file_bytes > 0 AND pinned "
      "AND (?1 = '' OR principal = ?1)");
  RETURN_IF_ERROR(query->BindText(1, principal).Step().status());
  return query->Int(0);
}

absl::StatusOr<std::vector<StorageHolder>> Catalog::ListHolders() {
  StatementLease query = db_->Use(
      // The index captures_by_holder has all of these columns in this order, so no row is read and
      // nothing is sorted.
      "SELECT principal, id, file_bytes, NOT pinned AND state >= ?1 FROM captures "
      "WHERE file_bytes > 0 ORDER BY principal, id");
  query->Bind(1, static_cast<int64_t>(CaptureState::kComplete));
  std::vector<StorageHolder> holders;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return holders;
    if (holders.empty() || holders.back().principal != query->Bytes(0)) {
      holders.push_back({.principal = query->Text(0)});
    }
    StorageHolder& holder = holders.back();
    holder.file_bytes += query->Int(2);
    if (query->Int(3) != 0) holder.files.push_back({query->Text(1), query->Int(2)});
  }
}

absl::StatusOr<Catalog::Totals> Catalog::Count() {
  Totals totals;
  {
    StatementLease query =
        db_->Use("SELECT count(*), ifnull(sum(file_bytes), 0) FROM captures WHERE file_bytes > 0");
    RETURN_IF_ERROR(query->Step().status());
    totals.captures_with_file = query->Int(0);
    totals.file_bytes = query->Int(1);
  }
  StatementLease query = db_->Use("SELECT count(*) FROM captures WHERE evicted = 1");
  RETURN_IF_ERROR(query->Step().status());
  totals.evicted = query->Int(0);
  return totals;
}

int64_t Catalog::SizeOnDisk() const {
  int64_t bytes = 0;
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::path path = db_->path();
    path += suffix;
    bytes += FileBytes(path).value_or(0);
  }
  return bytes;
}

absl::StatusOr<int64_t> Catalog::UsedBytes() {
  int64_t used = 0;
  ASSIGN_OR_RETURN(const int64_t page_bytes, db_->QueryInt("PRAGMA page_size"));
  ASSIGN_OR_RETURN(used, db_->QueryInt("PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t unused, db_->QueryInt("PRAGMA freelist_count"));
  // Free pages are reused by later rows. If they counted, the catalog would still look too large
  // after its records were removed.
  return (used - unused) * page_bytes;
}

absl::Status Catalog::PutGroup(const GroupRecord& group) {
  StatementLease put = db_->Use(
      "INSERT INTO capture_groups(id, create_unix_ns, record) VALUES(?1, ?2, ?3) "
      "ON CONFLICT(id) DO UPDATE SET record = excluded.record");
  put->BindText(1, group.id).Bind(2, absl::ToUnixNanos(group.create_time));
  return put->BindText(3, EncodeGroup(group)).Run();
}

absl::StatusOr<GroupRecord> Catalog::GetGroup(std::string_view id) {
  StatementLease query = db_->Use("SELECT record FROM capture_groups WHERE id = ?1");
  ASSIGN_OR_RETURN(const bool row, query->BindText(1, id).Step());
  if (!row) return absl::NotFoundError(StrCat("no group ", ForDisplay(id, 64)));
  return DecodeGroup(query->Bytes(0));
}

}  // namespace profd::store
