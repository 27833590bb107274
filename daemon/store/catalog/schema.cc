// How do I change the catalog?  Append a migration to kMigrations: the next version and the
// SQL that leads to it from the one before. Never edit one that was released: catalogs live
// for months and come from any version. Add a case to catalog_test.cc that starts from the
// version before with rows in it. Then use the new columns in catalog.cc. A daemon older than
// the catalog refuses it, so going back to that daemon needs a copy made before.
//
// A field of a capture's record needs no migration unless one wants to filter by it:
// captures.record holds the whole record (record_codec.cc).
#include "daemon/store/catalog/schema.h"

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::store {
namespace {

constexpr Migration kMigrations[] = {
    {1, R"sql(
CREATE TABLE captures(
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  group_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  requested_by_uid INTEGER NOT NULL,
  owner_uid INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  display_name TEXT NOT NULL,
  state INTEGER NOT NULL,
  create_unix_ns INTEGER NOT NULL,
  file_bytes INTEGER NOT NULL,
  file_sha256 TEXT NOT NULL,
  deleted INTEGER NOT NULL,
  evicted INTEGER NOT NULL,
  record TEXT NOT NULL);
CREATE INDEX captures_by_request ON captures(request_id, requested_by_uid) WHERE request_id <> '';
CREATE INDEX captures_by_group ON captures(group_id) WHERE group_id <> '';
CREATE INDEX captures_with_file ON captures(id, file_bytes) WHERE file_bytes > 0;

CREATE TABLE capture_labels(
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  capture_id TEXT NOT NULL,
  PRIMARY KEY(key, value, capture_id)) WITHOUT ROWID;
CREATE INDEX capture_labels_by_capture ON capture_labels(capture_id);

CREATE TABLE op_summary(
  capture_id TEXT NOT NULL,
  rank INTEGER NOT NULL,
  name NOT NULL,
  calls INTEGER NOT NULL,
  self_cpu_ns INTEGER NOT NULL,
  cpu_total_ns INTEGER NOT NULL,
  min_ns INTEGER NOT NULL,
  max_ns INTEGER NOT NULL,
  PRIMARY KEY(capture_id, rank)) WITHOUT ROWID;

CREATE TABLE step_summary(
  capture_id TEXT NOT NULL,
  window INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  min_ns INTEGER NOT NULL,
  median_ns INTEGER NOT NULL,
  mean_ns INTEGER NOT NULL,
  max_ns INTEGER NOT NULL,
  PRIMARY KEY(capture_id, window)) WITHOUT ROWID;

CREATE TABLE audit_log(
  id INTEGER PRIMARY KEY,
  time_unix_ns INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  verb TEXT NOT NULL,
  resource TEXT NOT NULL,
  outcome TEXT NOT NULL);
)sql"},
    {2, R"sql(
ALTER TABLE op_summary ADD COLUMN self_device_ns INTEGER NOT NULL DEFAULT 0;
CREATE INDEX captures_evicted ON captures(id) WHERE evicted = 1;

CREATE TABLE device_summary(
  capture_id TEXT NOT NULL,
  device INTEGER NOT NULL,
  duration_ns INTEGER NOT NULL,
  busy_ns INTEGER NOT NULL,
  communication_ns INTEGER NOT NULL,
  exposed_communication_ns INTEGER NOT NULL,
  PRIMARY KEY(capture_id, device)) WITHOUT ROWID;

ALTER TABLE audit_log RENAME COLUMN verb TO method;
ALTER TABLE audit_log ADD COLUMN principal TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_log ADD COLUMN peer TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_log ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_log ADD COLUMN duration_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_log ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE audit_log SET principal = 'uid:' || uid;
ALTER TABLE audit_log DROP COLUMN uid;

CREATE TABLE switches(
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE capture_groups(
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  create_unix_ns INTEGER NOT NULL,
  record TEXT NOT NULL);

CREATE TABLE schedules(
  id TEXT PRIMARY KEY,
  paused INTEGER NOT NULL,
  delete_unix_ns INTEGER NOT NULL,
  last_window_unix_ns INTEGER NOT NULL,
  record TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE schedule_windows(
  schedule_id TEXT NOT NULL,
  time_unix_ns INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  process_start_ticks INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  detail TEXT NOT NULL,
  capture_id TEXT NOT NULL,
  weight_millionths INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  busy_ns INTEGER NOT NULL,
  backoff_level INTEGER NOT NULL,
  skips_left INTEGER NOT NULL,
  PRIMARY KEY(schedule_id, time_unix_ns, pid)) WITHOUT ROWID;
CREATE INDEX schedule_windows_running ON schedule_windows(ended) WHERE ended = 0;
)sql"},
    {3, R"sql(
ALTER TABLE captures ADD COLUMN principal TEXT NOT NULL DEFAULT '';
ALTER TABLE captures ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE captures ADD COLUMN summary_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE captures SET principal = 'uid:' || requested_by_uid;
UPDATE captures SET principal = json_extract(record, '$.requested_by')
  WHERE json_valid(record) AND ifnull(json_extract(record, '$.requested_by'), '') <> '';
UPDATE captures SET summary_bytes = length(record) +
  (SELECT ifnull(sum(length(name) + 40), 0) FROM op_summary WHERE capture_id = captures.id);
DROP INDEX captures_with_file;
CREATE INDEX captures_by_holder ON captures(principal, id, file_bytes, pinned, state)
  WHERE file_bytes > 0;
CREATE INDEX captures_pinned ON captures(id) WHERE pinned;
CREATE INDEX captures_by_principal ON captures(principal, id, summary_bytes);

ALTER TABLE schedules ADD COLUMN principal TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN record_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE schedules SET record_bytes = length(record);
UPDATE schedules SET principal = CASE
    WHEN ifnull(json_extract(record, '$.creator.uid'), -1) >= 0
      THEN 'uid:' || json_extract(record, '$.creator.uid')
    WHEN ifnull(json_extract(record, '$.creator.spiffe_id'), '') <> ''
      THEN json_extract(record, '$.creator.spiffe_id')
    ELSE 'cn:' || ifnull(json_extract(record, '$.creator.common_name'), '') END
  WHERE json_valid(record);
CREATE INDEX schedules_deleted ON schedules(principal, delete_unix_ns);

ALTER TABLE audit_log ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_log ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_log ADD COLUMN last_unix_ns INTEGER NOT NULL DEFAULT 0;
UPDATE audit_log SET kind = 1 WHERE outcome IN ('PERMISSION_DENIED', 'UNAUTHENTICATED');
UPDATE audit_log SET kind = 2 WHERE kind = 0
  AND method IN ('SetCapturesAllowed', 'DeleteCapture', 'DeleteSchedule');
UPDATE audit_log SET last_unix_ns = time_unix_ns;
CREATE INDEX audit_log_rings ON audit_log(kind, principal, id);
)sql"},
    {4, R"sql(
CREATE TABLE schedule_tombstones(
  id TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  principal TEXT NOT NULL,
  delete_unix_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX schedule_tombstones_by_principal ON schedule_tombstones(principal, delete_unix_ns);
)sql"},
    {5, R"sql(
CREATE TABLE rank_summary(
  capture_id TEXT PRIMARY KEY,
  summary BLOB NOT NULL) WITHOUT ROWID;
)sql"},
    {6, R"sql(
ALTER TABLE captures ADD COLUMN evicted_for TEXT NOT NULL DEFAULT '';
CREATE INDEX captures_evicted_for ON captures(evicted_for, principal, id) WHERE evicted_for <> '';
)sql"},
};

}  // namespace

std::span<const Migration> CatalogMigrations() { return kMigrations; }

absl::Status MigrateCatalog(Database& db, std::span<const Migration> migrations) {
  ASSIGN_OR_RETURN(const int64_t application, db.QueryInt("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, db.QueryInt("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t tables, db.QueryInt("SELECT count(*) FROM sqlite_schema"));
  const bool is_new = version == 0 && tables == 0 && application == 0;
  if (!is_new && application != kCatalogApplicationId) {
    return absl::DataLossError(StrCat(db.path().string(), " is not a profd catalog"));
  }
  const int64_t newest = migrations.back().version;
  if (version > newest) {
    return absl::FailedPreconditionError(
        StrCat(db.path().string(), " was written by a newer profd (version ", version,
               ", this one knows up to ", newest, "): start that one, or use another --data-dir"));
  }
  for (const Migration& migration : migrations) {
    if (migration.version <= version) continue;
    // The version is part of the migration's transaction: a crash leaves the catalog at one version
    // or the next, and the next start goes on from there.
    Transaction transaction(db);
    RETURN_IF_ERROR(transaction.status());
    RETURN_IF_ERROR(db.Exec(migration.sql));
    RETURN_IF_ERROR(db.Exec(StrCat("PRAGMA application_id=", kCatalogApplicationId,
                                   "; PRAGMA user_version=", migration.version)));
    RETURN_IF_ERROR(transaction.Commit());
  }
  return absl::OkStatus();
}

}  // namespace profd::store
