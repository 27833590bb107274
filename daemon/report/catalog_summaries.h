// What the store's catalog keeps of every capture for good, when its events are gone: computed
// here, since the store must not know how operators and GPUs are summarised. Whoever opens a store
// hands these in (CaptureStore::Options).
//
// Threads: pure functions over one reader. Memory and errors: as SummarizeOps and SummarizeIdle.
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
