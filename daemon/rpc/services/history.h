// History: how step times, or one operator's times, went over many captures, from the summaries
// that outlive their events.
//
// Threads: any; waits for the disk.
#ifndef PROFD_DAEMON_RPC_SERVICES_HISTORY_H_
#define PROFD_DAEMON_RPC_SERVICES_HISTORY_H_

#include "absl/status/status.h"
#include "daemon/rpc/admission/admission.h"
#include "daemon/store/capture_store.h"
#include "profd/v1/reports.pb.h"

namespace profd::rpc {

// As ReportService.GetHistory says. CANCELLED once the caller has gone.
absl::Status GetHistory(store::CaptureStore& store, const CallInfo& info,
                        const v1::GetHistoryRequest& request, v1::Report& response);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_HISTORY_H_
