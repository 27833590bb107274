#include <utility>

#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {

absl::StatusOr<table::Report> DaemonClient::GetReport(const std::string& id,
                                                      const report::ReportRequest& wanted) {
  v1::GetReportRequest request;
  request.set_capture(CaptureName(id));
  request.set_report(wanted.report);
  for (const auto& [name, value] : wanted.options) (*request.mutable_options())[name] = value;
  ASSIGN_OR_RETURN(const v1::Report response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetReport, request,
                                kReportDeadline));
  return FromProto(response);
}

}  // namespace profd::cli
