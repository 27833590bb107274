// Summaries that the catalog keeps after a capture's events are removed. They are computed here,
// because the store must not know how operators and GPUs are summarized. The program that opens a
// store passes these functions in (CaptureStore::Options).
//
// Threads: any, one reader each.
// Memory:  as SummarizeOps() and SummarizeIdle(); likewise the errors.
#ifndef PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_
#define PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/seal.h"

namespace profd::report {

absl::StatusOr<std::vector<store::OpSummaryRow>> OpsForCatalog(store::CaptureReader& reader);
absl::StatusOr<std::vector<store::DeviceSummaryRow>> DevicesForCatalog(
    store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_
