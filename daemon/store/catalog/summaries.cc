// The catalog's summaries of a capture, which stay when its events are removed.
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/store/catalog/catalog.h"

namespace profd::store {
namespace {

// What a row of op_summary takes besides its name, as migration 3 counts it.
constexpr int64_t kOpRowBytes = 40;

}  // namespace

absl::Status Catalog::PutSummaries(std::string_view id, const std::vector<OpSummaryRow>& ops,
                                   const std::vector<StepSummaryRow>& steps) {
  Transaction transaction(*db_);
  RETURN_IF_ERROR(transaction.status());
  // The update below sets summary_bytes anew, and PutRankSummary() adds to it. A rank summary of an
  // earlier attempt would stay uncounted.
  for (const char* sql : {"DELETE FROM op_summary WHERE capture_id = ?1",
                          "DELETE FROM rank_summary WHERE capture_id = ?1",
                          "DELETE FROM step_summary WHERE capture_id = ?1"}) {
    StatementLease remove = db_->Use(sql);
    RETURN_IF_ERROR(remove->BindText(1, id).Run());
  }
  int64_t rank = 0;
  int64_t bytes = 0;
  for (const OpSummaryRow& op : ops) {
    StatementLease put = db_->Use(
        "INSERT INTO op_summary(capture_id, rank, name, calls, self_cpu_ns, cpu_total_ns, min_ns, "
        "max_ns, self_device_ns) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    bytes += std::ssize(op.name) + kOpRowBytes;
    // A name may be any bytes, so it is a blob. SQLite never finds a blob equal to a text:
    // ReadOps() binds one, too.
    put->BindText(1, id).Bind(2, rank++).BindBlob(3, op.name).Bind(4, op.calls);
    put->Bind(5, op.self_cpu_ns).Bind(6, op.cpu_total_ns).Bind(7, op.min_ns).Bind(8, op.max_ns);
    RETURN_IF_ERROR(put->Bind(9, op.self_device_ns).Run());
  }
  for (const StepSummaryRow& row : steps) {
    StatementLease put = db_->Use(
        "INSERT INTO step_summary(capture_id, window, steps, min_ns, median_ns, mean_ns, max_ns) "
        "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    put->BindText(1, id).Bind(2, row.window).Bind(3, row.steps).Bind(4, row.min_ns);
    put->Bind(5, row.median_ns).Bind(6, row.mean_ns).Bind(7, row.max_ns);
    RETURN_IF_ERROR(put->Run());
  }
  StatementLease put =
      db_->Use("UPDATE captures SET summary_bytes = length(record) + ?2 WHERE id = ?1");
  RETURN_IF_ERROR(put->BindText(1, id).Bind(2, bytes).Run());
  return transaction.Commit();
}

absl::Status Catalog::PutDeviceSummaries(std::string_view id,
                                         const std::vector<DeviceSummaryRow>& devices) {
  if (devices.empty()) return absl::OkStatus();
  Transaction transaction(*db_);
  RETURN_IF_ERROR(transaction.status());
  for (const DeviceSummaryRow& row : devices) {
    StatementLease put = db_->Use(
        "INSERT OR REPLACE INTO device_summary(capture_id, device, duration_ns, busy_ns, "
        "communication_ns, exposed_communication_ns) VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    put->BindText(1, id).Bind(2, row.device).Bind(3, row.duration_ns).Bind(4, row.busy_ns);
    put->Bind(5, row.communication_ns).Bind(6, row.exposed_communication_ns);
    RETURN_IF_ERROR(put->Run());
  }
  return transaction.Commit();
}

absl::Status Catalog::PutRankSummary(std::string_view id, std::string_view summary) {
  Transaction transaction(*db_);
  RETURN_IF_ERROR(transaction.status());
  StatementLease put =
      db_->Use("INSERT OR REPLACE INTO rank_summary(capture_id, summary) VALUES(?1, ?2)");
  RETURN_IF_ERROR(put->BindText(1, id).BindBlob(2, summary).Run());
  StatementLease count =
      db_->Use("UPDATE captures SET summary_bytes = summary_bytes + ?2 WHERE id = ?1");
  RETURN_IF_ERROR(count->BindText(1, id).Bind(2, std::ssize(summary)).Run());
  return transaction.Commit();
}

absl::Status Catalog::ReadOps(std::string_view id, const SummaryParts& parts,
                              CaptureSummaries& out) {
  const bool one = !parts.ops;
  StatementLease query =
      one ? db_->Use(
                "SELECT name, calls, self_cpu_ns, cpu_total_ns, min_ns, max_ns, self_device_ns "
                "FROM op_summary WHERE capture_id = ?1 AND (rank = 0 OR name = ?2) ORDER BY rank")
          : db_->Use(
                "SELECT name, calls, self_cpu_ns, cpu_total_ns, min_ns, max_ns, self_device_ns "
                "FROM op_summary WHERE capture_id = ?1 ORDER BY rank");
  query->BindText(1, id);
  if (one) query->BindBlob(2, parts.operator_name);
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return absl::OkStatus();
    out.ops.push_back({.name = query->Text(0),
                       .calls = query->Int(1),
                       .self_cpu_ns = query->Int(2),
                       .cpu_total_ns = query->Int(3),
                       .min_ns = query->Int(4),
                       .max_ns = query->Int(5),
                       .self_device_ns = query->Int(6)});
  }
}

absl::Status Catalog::ReadSteps(std::string_view id, CaptureSummaries& out) {
  StatementLease query = db_->Use(
      "SELECT window, steps, min_ns, median_ns, mean_ns, max_ns FROM step_summary "
      "WHERE capture_id = ?1 ORDER BY window");
  query->BindText(1, id);
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return absl::OkStatus();
    out.steps.push_back(
        {query->Int(0), query->Int(1), query->Int(2), query->Int(3), query->Int(4), query->Int(5)});
  }
}

absl::Status Catalog::ReadDevices(std::string_view id, CaptureSummaries& out) {
  StatementLease query = db_->Use(
      "SELECT device, duration_ns, busy_ns, communication_ns, exposed_communication_ns "
      "FROM device_summary WHERE capture_id = ?1 ORDER BY device");
  query->BindText(1, id);
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return absl::OkStatus();
    out.devices.push_back(
        {query->Int(0), query->Int(1), query->Int(2), query->Int(3), query->Int(4)});
  }
}

absl::Status Catalog::ReadRanks(std::string_view id, CaptureSummaries& out) {
  StatementLease query = db_->Use("SELECT summary FROM rank_summary WHERE capture_id = ?1");
  query->BindText(1, id);
  ASSIGN_OR_RETURN(const bool row, query->Step());
  if (row) out.ranks = query->Text(0);
  return absl::OkStatus();
}

absl::StatusOr<CaptureSummaries> Catalog::ReadSummaries(std::string_view id,
                                                        const SummaryParts& parts) {
  CaptureSummaries summaries;
  if (parts.ops || !parts.operator_name.empty()) {
    RETURN_IF_ERROR(ReadOps(id, parts, summaries));
  }
  if (parts.steps) RETURN_IF_ERROR(ReadSteps(id, summaries));
  if (parts.devices) RETURN_IF_ERROR(ReadDevices(id, summaries));
  if (parts.ranks) RETURN_IF_ERROR(ReadRanks(id, summaries));
  return summaries;
}

absl::StatusOr<CaptureSummaries> Catalog::GetSummaries(std::string_view id) {
  ASSIGN_OR_RETURN(const bool exists, Contains(id));
  if (!exists) return absl::NotFoundError(StrCat("no capture ", ForDisplay(id, 64)));
  return ReadSummaries(id, SummaryParts());
}

}  // namespace profd::store
