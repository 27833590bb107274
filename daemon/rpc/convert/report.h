// A report of any kind as a message. The inverse is in cli/client/from_proto_report.cc.
//
// Threads: any. Errors: those named.
#ifndef PROFD_DAEMON_RPC_CONVERT_REPORT_H_
#define PROFD_DAEMON_RPC_CONVERT_REPORT_H_

#include <string_view>

#include "absl/status/status.h"
#include "daemon/base/table/table.h"
#include "profd/v1/reports.pb.h"

namespace profd::rpc {

void ReportToProto(const table::Report& report, v1::Report& message);
// Of a summary as the catalog keeps it. DATA_LOSS: it is damaged, and `message` is as it was.
absl::Status RankSummaryToProto(std::string_view summary, v1::RankSummary& message);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_REPORT_H_
