// The audit log in the catalog, and what an operator has switched for good.
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/catalog.h"

namespace profd::store {

absl::Status Catalog::AppendAudit(const AuditEntry& entry) {
  Transaction transaction(*db_);
  RETURN_IF_ERROR(transaction.status());
  {
    StatementLease put = db_->Use(
        "INSERT INTO audit_log(time_unix_ns, principal, peer, method, resource, outcome, reason, "
        "duration_ns, bytes) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    put->Bind(1, absl::ToUnixNanos(entry.time)).BindText(2, entry.principal);
    put->BindText(3, entry.peer).BindText(4, entry.method).BindText(5, entry.resource);
    put->BindText(6, entry.outcome).BindText(7, entry.reason);
    put->Bind(8, absl::ToInt64Nanoseconds(entry.duration));
    RETURN_IF_ERROR(put->Bind(9, entry.bytes).Run());
  }
  StatementLease trim =
      db_->Use("DELETE FROM audit_log WHERE id <= (SELECT max(id) FROM audit_log) - ?1");
  RETURN_IF_ERROR(trim->Bind(1, kMaxAuditRows).Run());
  return transaction.Commit();
}

absl::StatusOr<AuditPage> Catalog::ListAudit(const AuditFilter& filter, int64_t limit,
                                             int64_t before) {
  StatementLease query = db_->Use(
      "SELECT id, time_unix_ns, principal, peer, method, resource, outcome, reason, duration_ns, "
      "bytes FROM audit_log WHERE (?1 = 0 OR id < ?1) AND time_unix_ns >= ?2 "
      "AND (?3 = '' OR principal = ?3) AND (?4 = '' OR method = ?4) "
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
                            .bytes = query->Int(9)});
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
