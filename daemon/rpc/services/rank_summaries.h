// This node's part in comparing ranks over time, from the summaries that outlive the events.
// profctl joins the answers of all nodes (cli/captures/rank_history.h).
//
// Threads: any; waits for the disk.
#ifndef PROFD_DAEMON_RPC_SERVICES_RANK_SUMMARIES_H_
#define PROFD_DAEMON_RPC_SERVICES_RANK_SUMMARIES_H_

#include "absl/status/status.h"
#include "daemon/base/log.h"
#include "daemon/rpc/admission/admission.h"
#include "daemon/store/capture_store.h"
#include "profd/v1/reports.pb.h"

namespace profd::rpc {

// As ReportService.ListRankSummaries says. CANCELLED once the caller is gone. A damaged summary is
// logged as `damaged_log` allows: it stays damaged, and every request meets it again.
absl::Status ListRankSummaries(store::CaptureStore& store, const CallInfo& info,
                               const v1::ListRankSummariesRequest& request,
                               v1::ListRankSummariesResponse& response, RateLimiter& damaged_log);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_RANK_SUMMARIES_H_
