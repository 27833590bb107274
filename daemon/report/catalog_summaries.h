// Summaries that the catalog keeps after a capture's events are removed. They are computed here,
// because the store must not know how operators and GPUs are summarized. The program that opens a
// store passes the function in (CaptureStore::Options, store/file/seal.h).
//
// Threads: any, one reader each.
// Memory:  kSummaryHeapBytes (base/budget.h) for each summary; beyond, its error is OVER_BUDGET.
// Errors:  as SummarizeOps(), SummarizeIdle(), SummarizeCollectives(), and EncodeRankSummary().
#ifndef PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_
#define PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_

#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/seal.h"

namespace profd::report {

store::EventSummaries SummarizeForCatalog(store::CaptureReader& reader,
                                          const store::SummaryRequest& request);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_CATALOG_SUMMARIES_H_
