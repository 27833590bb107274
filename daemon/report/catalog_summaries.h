// Summaries that the catalog keeps after a capture's events are removed. They are computed here,
// because the store must not know how operators and GPUs are summarized. The program that opens a
// store passes these functions in (CaptureStore::Options).
//
// Threads: any, one reader each.
// Memory:  as SummarizeOps(), SummarizeIdle(), and SummarizeCollectives(); likewise the errors.
#ifndef PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_
#define PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/table.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/seal.h"

namespace profd::report {

absl::StatusOr<std::vector<store::OpSummaryRow>> OpsForCatalog(store::CaptureReader& reader);
absl::StatusOr<std::vector<store::DeviceSummaryRow>> DevicesForCatalog(
    store::CaptureReader& reader);
// As EncodeRankSummary().
absl::StatusOr<std::string> RanksForCatalog(store::CaptureReader& reader);

// What the catalog kept for comparing ranks, as the report "collectives".
struct KeptCollectives {
  table::Report report;
  int64_t left_out_step_count = 0;
};
// As DecodeRankSummary().
absl::StatusOr<KeptCollectives> CollectivesFromCatalog(std::string_view summary);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_
