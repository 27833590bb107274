#include "daemon/report/catalog_summaries.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/budget.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/ranks/rank_summary.h"

namespace profd::report {
namespace {

absl::StatusOr<std::vector<store::OpSummaryRow>> OpsForCatalog(store::CaptureReader& reader) {
  ASSIGN_OR_RETURN(OpTable table, SummarizeOps(reader, OpOptions()));
  std::vector<store::OpSummaryRow> rows;
  rows.reserve(table.rows.size());
  for (OpRow& row : table.rows) {
    rows.push_back({.name = std::move(row.name),
                    .calls = row.calls,
                    .self_cpu_ns = row.self_cpu_ns,
                    .cpu_total_ns = row.cpu_total_ns,
                    .min_ns = row.min_ns,
                    .max_ns = row.max_ns,
                    .self_device_ns = row.self_device_ns});
  }
  return rows;
}

absl::StatusOr<std::vector<store::DeviceSummaryRow>> DevicesForCatalog(
    store::CaptureReader& reader) {
  ASSIGN_OR_RETURN(const IdleTable table, SummarizeIdle(reader));
  std::vector<store::DeviceSummaryRow> rows;
  for (const IdleRow& row : table.rows) {
    if (row.step >= 0) continue;
    rows.push_back({.device = row.device,
                    .duration_ns = row.duration_ns,
                    .busy_ns = row.busy_ns,
                    .communication_ns = row.communication_ns,
                    .exposed_communication_ns = row.exposed_communication_ns});
  }
  return rows;
}

absl::StatusOr<std::string> RanksForCatalog(store::CaptureReader& reader) {
  ASSIGN_OR_RETURN(const CollectiveTable table, SummarizeCollectives(reader, 0));
  return EncodeRankSummary(table);
}

template <typename Make>
auto WithinBudget(Make make, store::CaptureReader& reader) {
  const ScopedHeapLimit limit("a summary of the capture", kSummaryHeapBytes);
  return make(reader);
}

}  // namespace

store::EventSummaries SummarizeForCatalog(store::CaptureReader& reader,
                                          const store::SummaryRequest& request) {
  store::EventSummaries made;
  made.ops = WithinBudget(OpsForCatalog, reader);
  if (request.devices) made.devices = WithinBudget(DevicesForCatalog, reader);
  if (request.ranks) made.ranks = WithinBudget(RanksForCatalog, reader);
  return made;
}

}  // namespace profd::report
