#include "daemon/store/catalog/schedule_tables.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/stable_hash.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/store/file/record_codec.h"

namespace profd::store {
namespace {

// The columns that ReadWindow() reads.
#define PROFD_WINDOW_COLUMNS                                                           \
  "schedule_id, time_unix_ns, pid, process_start_ticks, outcome, detail, capture_id, " \
  "weight_millionths, ended, bytes, busy_ns, backoff_level, skips_left"

#define PROFD_MOST_TOMBSTONES "4096"
static_assert(kMaxTombstones == 4096);

constexpr double kMillion = 1e6;
// How often the rows of a schedule are counted; that takes longer than to add one.
constexpr int64_t kAppendsPerCount = 256;

ScheduleWindow ReadWindow(const Statement& query) {
  return {.schedule_id = query.Text(0),
          .time = absl::FromUnixNanos(query.Int(1)),
          // What it may be is said by who reads it: a number that is not known shows as such.
          .outcome = static_cast<WindowOutcome>(query.Int(4)),
          .detail = query.Text(5),
          .capture_id = query.Text(6),
          .pid = query.Int(2),
          .process_start_ticks = query.Int(3),
          .sampling_weight = static_cast<double>(query.Int(7)) / kMillion,
          .ended = query.Int(8) != 0,
          .bytes = query.Int(9),
          .busy_ns = query.Int(10),
          .backoff_level = query.Int(11),
          .skips_left = query.Int(12)};
}

absl::StatusOr<std::vector<ScheduleWindow>> ReadWindows(Statement& query) {
  std::vector<ScheduleWindow> windows;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return windows;
    windows.push_back(ReadWindow(query));
  }
}

// The ends of time as the ends of what a column holds.
int64_t ToColumn(absl::Time time) { return absl::ToUnixNanos(time); }

absl::Time FromColumn(int64_t unix_ns) {
  if (unix_ns == absl::ToUnixNanos(absl::InfiniteFuture())) return absl::InfiniteFuture();
  if (unix_ns == absl::ToUnixNanos(absl::InfinitePast())) return absl::InfinitePast();
  return absl::FromUnixNanos(unix_ns);
}

absl::StatusOr<std::vector<ScheduleRecord>> ReadSchedules(Statement& query) {
  std::vector<ScheduleRecord> records;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return records;
    ASSIGN_OR_RETURN(ScheduleRecord record, DecodeSchedule(query.Bytes(0)));
    // Not as it was stored: an earlier profd may have hashed other fields.
    record.spec_hash = HashOfSpec(record.spec);
    record.paused = query.Int(1) != 0;
    record.delete_time = FromColumn(query.Int(2));
    record.last_window = FromColumn(query.Int(3));
    records.push_back(std::move(record));
  }
}

}  // namespace

absl::StatusOr<ScheduleRecord> ScheduleTables::Insert(const ScheduleRecord& record) {
  ScheduleRecord kept = record;
  kept.spec_hash = HashOfSpec(record.spec);
  {
    StatementLease query = db_.Use("SELECT 1 FROM schedules WHERE id = ?1");
    ASSIGN_OR_RETURN(const bool exists, query->BindText(1, record.id).Step());
    if (exists) {
      return absl::FailedPreconditionError(StrCat("schedule ", record.id, " exists already"));
    }
  }
  RETURN_IF_ERROR(Put(kept));
  return kept;
}

absl::StatusOr<ScheduleRecord> ScheduleTables::Replace(const ScheduleRecord& record) {
  ScheduleRecord kept = record;
  kept.spec_hash = HashOfSpec(record.spec);
  Transaction transaction(db_);
  RETURN_IF_ERROR(transaction.status());
  {
    // Not updated: what its principal holds follows from rows that come and go.
    StatementLease remove = db_.Use("DELETE FROM schedules WHERE id = ?1 RETURNING 1");
    ASSIGN_OR_RETURN(const bool existed, remove->BindText(1, record.id).Step());
    if (!existed) return absl::NotFoundError(StrCat("no schedule ", ForDisplay(record.id, 64)));
    RETURN_IF_ERROR(remove->Step().status());
  }
  RETURN_IF_ERROR(Put(kept));
  RETURN_IF_ERROR(transaction.Commit());
  return kept;
}

absl::Status ScheduleTables::Put(const ScheduleRecord& record) {
  StatementLease put = db_.Use(
      "INSERT INTO schedules(id, paused, delete_unix_ns, last_window_unix_ns, record, principal, "
      "record_bytes) VALUES(?1, ?2, ?3, ?4, ?5, ?6, length(?5))");
  put->BindText(1, record.id).Bind(2, record.paused ? 1 : 0).Bind(3, ToColumn(record.delete_time));
  put->Bind(4, ToColumn(record.last_window)).BindText(5, EncodeSchedule(record));
  return put->BindText(6, PrincipalName(record.creator)).Run();
}

absl::StatusOr<ScheduleTombstone> ScheduleTables::GetTombstone(std::string_view id) {
  StatementLease query =
      db_.Use("SELECT version, principal FROM schedule_tombstones WHERE id = ?1");
  ASSIGN_OR_RETURN(const bool found, query->BindText(1, id).Step());
  if (!found) return absl::NotFoundError(StrCat("no tombstone of ", ForDisplay(id, 64)));
  return ScheduleTombstone{.version = query->Int(0), .principal = query->Text(1)};
}

absl::Status ScheduleTables::Update(const ScheduleRecord& record) {
  {
    StatementLease query = db_.Use("SELECT 1 FROM schedules WHERE id = ?1");
    ASSIGN_OR_RETURN(const bool exists, query->BindText(1, record.id).Step());
    if (!exists) return absl::NotFoundError(StrCat("no schedule ", ForDisplay(record.id, 64)));
  }
  StatementLease put = db_.Use(
      "UPDATE schedules SET paused = ?2, delete_unix_ns = ?3, last_window_unix_ns = ?4 "
      "WHERE id = ?1");
  put->BindText(1, record.id).Bind(2, record.paused ? 1 : 0).Bind(3, ToColumn(record.delete_time));
  return put->Bind(4, ToColumn(record.last_window)).Run();
}

absl::StatusOr<std::vector<ScheduleRecord>> ScheduleTables::List() {
  StatementLease query = db_.Use(
      "SELECT record, paused, delete_unix_ns, last_window_unix_ns FROM schedules "
      "WHERE delete_unix_ns = ?1 ORDER BY id");
  query->Bind(1, ToColumn(absl::InfiniteFuture()));
  return ReadSchedules(*query);
}

absl::StatusOr<std::vector<ScheduleRecord>> ScheduleTables::ListDeleted(std::string_view id_prefix,
                                                                        std::string_view after_id,
                                                                        int64_t limit) {
  StatementLease query = db_.Use(
      "SELECT record, paused, delete_unix_ns, last_window_unix_ns FROM schedules "
      "WHERE delete_unix_ns <> ?1 AND id > ?2 AND substr(id, 1, length(?3)) = ?3 "
      "ORDER BY id LIMIT ?4");
  query->Bind(1, ToColumn(absl::InfiniteFuture())).BindText(2, after_id).BindText(3, id_prefix);
  query->Bind(4, limit);
  return ReadSchedules(*query);
}

absl::Status ScheduleTables::TrimDeleted(absl::Time before) {
  std::vector<std::string> ids;
  {
    StatementLease query = db_.Use(
        "SELECT id FROM (SELECT id, delete_unix_ns, "
        "row_number() OVER newest AS number, sum(record_bytes) OVER newest AS bytes "
        "FROM schedules WHERE delete_unix_ns <> ?1 "
        "WINDOW newest AS (PARTITION BY principal ORDER BY delete_unix_ns DESC, id DESC)) "
        "WHERE delete_unix_ns < ?2 OR number > ?3 OR bytes > ?4");
    query->Bind(1, ToColumn(absl::InfiniteFuture())).Bind(2, ToColumn(before));
    query->Bind(3, kMaxDeletedSchedules).Bind(4, kMaxDeletedScheduleBytes);
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, query->Step());
      if (!row) break;
      ids.push_back(query->Text(0));
    }
  }
  for (const std::string& id : ids) RETURN_IF_ERROR(Remove(id));
  return absl::OkStatus();
}

absl::StatusOr<bool> ScheduleTables::RemoveOldestDeleted(std::string_view principal) {
  std::string id;
  {
    StatementLease query = db_.Use(
        "SELECT id FROM schedules WHERE principal = ?1 AND delete_unix_ns <> ?2 "
        "ORDER BY delete_unix_ns, id LIMIT 1");
    query->BindText(1, principal).Bind(2, ToColumn(absl::InfiniteFuture()));
    ASSIGN_OR_RETURN(const bool found, query->Step());
    if (!found) return false;
    id = query->Text(0);
  }
  RETURN_IF_ERROR(Remove(id));
  return true;
}

absl::StatusOr<ScheduleHolding> ScheduleTables::GetHolding(std::string_view principal) {
  StatementLease query = db_.Use(
      "SELECT ifnull(sum(delete_unix_ns = ?2), 0), ifnull(sum(record_bytes), 0) FROM schedules "
      "WHERE principal = ?1");
  query->BindText(1, principal).Bind(2, ToColumn(absl::InfiniteFuture()));
  RETURN_IF_ERROR(query->Step().status());
  return ScheduleHolding{.schedules = query->Int(0), .bytes = query->Int(1)};
}

absl::Status ScheduleTables::Remove(std::string_view id) {
  Transaction transaction(db_);
  RETURN_IF_ERROR(transaction.status());
  // A record that an earlier profd wrote has no version: it is the first.
  // json_extract() fails on text that is not JSON. Without json_valid(), a damaged record could
  // never be removed.
  for (const char* sql :
       {"INSERT OR REPLACE INTO schedule_tombstones(id, version, principal, delete_unix_ns) "
        "SELECT id, ifnull(json_extract(record, '$.version'), 1), principal, delete_unix_ns "
        "FROM schedules WHERE id = ?1 AND json_valid(record)",
        "DELETE FROM schedule_tombstones WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER "
        "(PARTITION BY principal ORDER BY delete_unix_ns DESC, id DESC) AS number "
        "FROM schedule_tombstones WHERE principal = (SELECT principal FROM schedules "
        "WHERE id = ?1)) WHERE number > " PROFD_MOST_TOMBSTONES ")",
        "DELETE FROM schedule_windows WHERE schedule_id = ?1",
        "DELETE FROM schedules WHERE id = ?1"}) {
    StatementLease remove = db_.Use(sql);
    RETURN_IF_ERROR(remove->BindText(1, id).Run());
  }
  return transaction.Commit();
}

absl::Status ScheduleTables::PutWindow(const ScheduleWindow& window) {
  StatementLease put = db_.Use("INSERT OR REPLACE INTO schedule_windows(" PROFD_WINDOW_COLUMNS
                               ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)");
  put->BindText(1, window.schedule_id).Bind(2, absl::ToUnixNanos(window.time)).Bind(3, window.pid);
  put->Bind(4, window.process_start_ticks).Bind(5, static_cast<int64_t>(window.outcome));
  put->BindText(6, ToValidUtf8(window.detail)).BindText(7, window.capture_id);
  put->Bind(8, std::llround(window.sampling_weight * kMillion)).Bind(9, window.ended ? 1 : 0);
  put->Bind(10, window.bytes).Bind(11, window.busy_ns).Bind(12, window.backoff_level);
  return put->Bind(13, window.skips_left).Run();
}

absl::Status ScheduleTables::AppendWindows(const ScheduleRecord& record,
                                           std::span<const ScheduleWindow> windows,
                                           absl::Time age_time) {
  Transaction transaction(db_);
  RETURN_IF_ERROR(transaction.status());
  for (const ScheduleWindow& window : windows) RETURN_IF_ERROR(PutWindow(window));
  {
    StatementLease put = db_.Use("UPDATE schedules SET last_window_unix_ns = ?2 WHERE id = ?1");
    put->BindText(1, record.id).Bind(2, ToColumn(record.last_window));
    RETURN_IF_ERROR(put->Run());
  }
  RETURN_IF_ERROR(Trim(record.id, age_time));
  return transaction.Commit();
}

absl::Status ScheduleTables::Trim(std::string_view schedule_id, absl::Time age_time) {
  StatementLease trim =
      db_.Use("DELETE FROM schedule_windows WHERE schedule_id = ?1 AND time_unix_ns < ?2");
  trim->BindText(1, schedule_id).Bind(2, absl::ToUnixNanos(age_time - kScheduleHistory));
  RETURN_IF_ERROR(trim->Run());
  if (appends_++ % kAppendsPerCount != 0) return absl::OkStatus();
  // A window has one row for each process, all with the same time. The newest rows set the time
  // below which rows go, so a window is kept or removed as a whole.
  StatementLease cap = db_.Use(
      "DELETE FROM schedule_windows WHERE schedule_id = ?1 AND time_unix_ns < "
      "(SELECT time_unix_ns FROM schedule_windows WHERE schedule_id = ?1 "
      "ORDER BY time_unix_ns DESC LIMIT 1 OFFSET ?2)");
  return cap->BindText(1, schedule_id).Bind(2, kMaxWindowRows - 1).Run();
}

absl::Status ScheduleTables::EndWindow(const ScheduleWindow& window) {
  StatementLease put = db_.Use(
      "UPDATE schedule_windows SET outcome = ?4, detail = ?5, ended = ?6, bytes = ?7, "
      "busy_ns = ?8, capture_id = ?9 WHERE schedule_id = ?1 AND time_unix_ns = ?2 AND pid = ?3");
  put->BindText(1, window.schedule_id).Bind(2, absl::ToUnixNanos(window.time)).Bind(3, window.pid);
  put->Bind(4, static_cast<int64_t>(window.outcome)).BindText(5, ToValidUtf8(window.detail));
  put->Bind(6, window.ended ? 1 : 0).Bind(7, window.bytes);
  return put->Bind(8, window.busy_ns).BindText(9, window.capture_id).Run();
}

absl::StatusOr<std::vector<ScheduleWindow>> ScheduleTables::ListWindows(
    std::string_view schedule_id, int64_t limit, absl::Time time, int64_t pid) {
  StatementLease query = db_.Use("SELECT " PROFD_WINDOW_COLUMNS
                                 " FROM schedule_windows WHERE schedule_id = ?1 AND "
                                 "(time_unix_ns, pid) < (?2, ?3) "
                                 "ORDER BY time_unix_ns DESC, pid DESC LIMIT ?4");
  query->BindText(1, schedule_id).Bind(2, ToColumn(time)).Bind(3, pid).Bind(4, limit);
  return ReadWindows(*query);
}

absl::StatusOr<std::vector<ScheduleWindow>> ScheduleTables::ListRunning() {
  StatementLease query =
      db_.Use("SELECT " PROFD_WINDOW_COLUMNS " FROM schedule_windows WHERE ended = 0");
  return ReadWindows(*query);
}

absl::StatusOr<std::vector<ScheduleWindow>> ScheduleTables::ListLast(std::string_view schedule_id,
                                                                     absl::Time since,
                                                                     absl::Time until) {
  // SQLite gives the other columns of the row that has the max().
  StatementLease query = db_.Use(
      "SELECT " PROFD_WINDOW_COLUMNS
      " FROM (SELECT *, max(time_unix_ns) FROM schedule_windows WHERE schedule_id = ?1 AND "
      "time_unix_ns >= ?2 AND time_unix_ns <= ?3 AND pid <> 0 GROUP BY pid, process_start_ticks "
      "UNION SELECT *, max(time_unix_ns) FROM schedule_windows WHERE schedule_id = ?1 AND "
      "time_unix_ns >= ?2 AND time_unix_ns <= ?3 AND pid <> 0 AND capture_id <> '' "
      "GROUP BY pid, process_start_ticks) "
      "ORDER BY time_unix_ns");
  query->BindText(1, schedule_id).Bind(2, ToColumn(since)).Bind(3, ToColumn(until));
  return ReadWindows(*query);
}

absl::StatusOr<ScheduleUse> ScheduleTables::GetUse(std::string_view schedule_id, absl::Time now) {
  StatementLease query = db_.Use(
      "SELECT ifnull(sum(time_unix_ns > ?3), 0), ifnull(sum(bytes), 0) FROM schedule_windows "
      "WHERE schedule_id = ?1 AND time_unix_ns > ?2 AND time_unix_ns <= ?4 AND capture_id <> ''");
  // Rows later than now are from before the clock was set back.
  query->BindText(1, schedule_id).Bind(2, ToColumn(now - absl::Hours(24))).Bind(4, ToColumn(now));
  RETURN_IF_ERROR(query->Bind(3, ToColumn(now - absl::Hours(1))).Step().status());
  return ScheduleUse{.captures_last_hour = query->Int(0), .bytes_last_day = query->Int(1)};
}

absl::StatusOr<ScheduleTotals> ScheduleTables::GetTotals(std::string_view schedule_id) {
  StatementLease query = db_.Use(
      "SELECT count(DISTINCT time_unix_ns), ifnull(sum(capture_id <> ''), 0), "
      "ifnull(sum(iif(ended, bytes, 0)), 0) FROM schedule_windows WHERE schedule_id = ?1");
  RETURN_IF_ERROR(query->BindText(1, schedule_id).Step().status());
  return ScheduleTotals{
      .windows = query->Int(0), .captures = query->Int(1), .bytes = query->Int(2)};
}

}  // namespace profd::store
