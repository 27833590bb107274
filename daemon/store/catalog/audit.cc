// The audit log in the catalog, and what an operator has switched for good.
#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/catalog/catalog.h"

namespace profd::store {
namespace {

// What makes two entries of one principal the same.
std::string CallOf(const AuditEntry& entry) {
  return StrCat(entry.method, "\n", entry.resource, "\n", entry.outcome, "\n", entry.reason);
}

}  // namespace

absl::Status Catalog::LoadAuditRings() {
  StatementLease query =
      db_->Use("SELECT kind, principal, count(*) FROM audit_log GROUP BY kind, principal");
  AuditRings rings;
  int64_t all = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) break;
    rings[{static_cast<AuditKind>(query->Int(0)), query->Text(1)}].rows = query->Int(2);
    all += query->Int(2);
  }
  audit_rings_ = std::move(rings);
  audit_rows_ = all;
  return absl::OkStatus();
}

absl::Status Catalog::RemoveOldestAudit(AuditRings::iterator ring, int64_t rows) {
  StatementLease remove = db_->Use(
      "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE kind = ?1 AND "
      "principal = ?2 ORDER BY id LIMIT ?3)");
  remove->Bind(1, static_cast<int64_t>(ring->first.first)).BindText(2, ring->first.second);
  return remove->Bind(3, rows).Run();
}

absl::StatusOr<bool> Catalog::AppendAudit(const AuditEntry& entry) {
  if (!audit_rings_.has_value()) RETURN_IF_ERROR(LoadAuditRings());
  // The counts are read once and then kept in memory. Counting rows for each entry would make an
  // append as slow as the log is long.
  const auto ring = audit_rings_->try_emplace({entry.kind, entry.principal}).first;
  AuditRing& known = ring->second;
  const std::string call = CallOf(entry);
  const absl::Duration since = entry.time - known.last_time;
  // After a restart no last entry is known, so a repetition begins a new row. A clock that was set
  // back begins one, too.
  if (known.last_id != 0 && known.last_call == call && since >= absl::ZeroDuration() &&
      since <= kRepeatWindow) {
    StatementLease put =
        db_->Use("UPDATE audit_log SET repeats = repeats + 1, last_unix_ns = ?2 WHERE id = ?1");
    RETURN_IF_ERROR(put->Bind(1, known.last_id).Bind(2, absl::ToUnixNanos(entry.time)).Run());
    known.last_time = entry.time;
    return false;
  }
  Transaction transaction(*db_);
  RETURN_IF_ERROR(transaction.status());
  {
    StatementLease put = db_->Use(
        "INSERT INTO audit_log(time_unix_ns, principal, peer, method, resource, outcome, reason, "
        "duration_ns, bytes, kind, last_unix_ns) "
        "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?1)");
    put->Bind(10, static_cast<int64_t>(entry.kind));
    put->Bind(1, absl::ToUnixNanos(entry.time)).BindText(2, entry.principal);
    put->BindText(3, entry.peer).BindText(4, entry.method).BindText(5, entry.resource);
    put->BindText(6, entry.outcome).BindText(7, entry.reason);
    put->Bind(8, absl::ToInt64Nanoseconds(entry.duration));
    RETURN_IF_ERROR(put->Bind(9, entry.bytes).Run());
  }
  const int64_t id = sqlite3_last_insert_rowid(db_->handle());
  // Not the new row: its ring has that and at least one more.
  auto full = audit_rings_->end();
  if (known.rows >= MaxAuditRowsOf(entry.kind)) {
    full = ring;
  } else if (audit_rows_ >= kMaxAuditRows) {
    // The principal with most rows gives one, so that it cannot push out those of others.
    full = std::ranges::max_element(*audit_rings_, {}, [](const auto& r) { return r.second.rows; });
  }
  if (full != audit_rings_->end()) RETURN_IF_ERROR(RemoveOldestAudit(full, 1));
  // The counts in memory change after the commit only. If it fails, SQLite rolls the rows back, and
  // the counts must still match them.
  RETURN_IF_ERROR(transaction.Commit());
  if (full != audit_rings_->end()) {
    --full->second.rows;
    --audit_rows_;
  }
  ++known.rows;
  ++audit_rows_;
  known.last_id = id;
  known.last_call = call;
  known.last_time = entry.time;
  // Whom nothing is kept of is forgotten, too.
  if (full != audit_rings_->end() && full->second.rows == 0) audit_rings_->erase(full);
  return true;
}

absl::StatusOr<AuditPage> Catalog::ListAudit(Database& db, const AuditFilter& filter, int64_t limit,
                                             int64_t before) {
  StatementLease query = db.Use(
      "SELECT id, time_unix_ns, principal, peer, method, resource, outcome, reason, duration_ns, "
      "bytes, kind, repeats, last_unix_ns FROM audit_log "
      "WHERE (?1 = 0 OR id < ?1) AND last_unix_ns >= ?2 "
      "AND (?3 = '' OR principal = ?3) "
      "AND (?4 = '' OR instr(',' || ?4 || ',', ',' || method || ',') > 0) "
      "AND (?5 = 0 OR outcome IN ('PERMISSION_DENIED', 'UNAUTHENTICATED')) "
      "ORDER BY id DESC LIMIT ?6");
  query->Bind(1, before).Bind(2, filter.since.has_value() ? absl::ToUnixNanos(*filter.since) : 0);
  query->BindText(3, filter.principal).BindText(4, filter.method);
  query->Bind(5, filter.refused_only ? 1 : 0).Bind(6, limit + 1);
  AuditPage page;
  int64_t last = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return page;
    if (std::ssize(page.entries) == limit) {
      page.next_before = last;
      return page;
    }
    last = query->Int(0);
    page.entries.push_back({.time = absl::FromUnixNanos(query->Int(1)),
                            .principal = query->Text(2),
                            .peer = query->Text(3),
                            .method = query->Text(4),
                            .resource = query->Text(5),
                            .outcome = query->Text(6),
                            .reason = query->Text(7),
                            .duration = absl::Nanoseconds(query->Int(8)),
                            .bytes = query->Int(9),
                            .kind = static_cast<AuditKind>(query->Int(10)),
                            .repeats = query->Int(11),
                            .last_time = absl::FromUnixNanos(query->Int(12))});
  }
}

absl::Status Catalog::PutSwitch(std::string_view name, std::string_view value) {
  StatementLease put = db_->Use(
      "INSERT INTO switches(name, value) VALUES(?1, ?2) "
      "ON CONFLICT(name) DO UPDATE SET value = excluded.value");
  return put->BindText(1, name).BindText(2, value).Run();
}

absl::Status Catalog::RemoveSwitch(std::string_view name) {
  StatementLease remove = db_->Use("DELETE FROM switches WHERE name = ?1");
  return remove->BindText(1, name).Run();
}

absl::StatusOr<std::optional<std::string>> Catalog::GetSwitch(std::string_view name) {
  StatementLease query = db_->Use("SELECT value FROM switches WHERE name = ?1");
  std::optional<std::string> value;
  ASSIGN_OR_RETURN(const bool row, query->BindText(1, name).Step());
  if (row) value = query->Text(0);
  return value;
}

}  // namespace profd::store
