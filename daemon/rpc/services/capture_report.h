// A report over a stored capture, made by profd-report. All RPCs that read a capture file come by
// here.
//
// Threads: those of the report pool.
#ifndef PROFD_DAEMON_RPC_SERVICES_CAPTURE_REPORT_H_
#define PROFD_DAEMON_RPC_SERVICES_CAPTURE_REPORT_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/rpc/admission/admission.h"
#include "daemon/rpc/services/services.h"
#include "daemon/worker/report_pool.h"

namespace profd::rpc {

// Makes `table` of `capture`, which the caller may read (FindStoredCapture()), with `options`, the
// serialized request. Errors: of profd-report, and of its end (worker/report_process.h), with the
// remedy.
absl::Status ReportOnCapture(const ServiceParts& parts, const CallInfo& info,
                             const CaptureRecord& capture, std::string_view table,
                             std::string options, absl::FunctionRef<absl::Status()> still_wanted,
                             worker::ReportTurn& turn, worker::ReportSink& sink);

// Runs `request`, and charges its run time to the caller's quota of report time. RESOURCE_EXHAUSTED
// (QUOTA_EXCEEDED): there is none left.
absl::Status RunCharged(const ServiceParts& parts, const CallInfo& info,
                        const worker::ReportRequest& request,
                        absl::FunctionRef<absl::Status()> still_wanted, worker::ReportTurn& turn,
                        worker::ReportSink& sink);

// CANCELLED: the caller went away. UNAVAILABLE: profd is stopping.
absl::Status StillWanted(const Admission& admission, const CallInfo& info);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_CAPTURE_REPORT_H_
