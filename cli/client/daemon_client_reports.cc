#include <utility>

#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {

absl::StatusOr<report::OpTable> DaemonClient::GetOperators(const std::string& id,
                                                           const report::OpOptions& options) {
  v1::GetOperatorsRequest request = ToProto(options);
  request.set_capture(CaptureName(id));
  ASSIGN_OR_RETURN(v1::GetOperatorsResponse response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetOperators, request,
                                kReportDeadline));
  return FromProto(std::move(response));
}

absl::StatusOr<report::StepTable> DaemonClient::GetSteps(const std::string& id) {
  v1::GetStepsRequest request;
  request.set_capture(CaptureName(id));
  ASSIGN_OR_RETURN(
      const v1::GetStepsResponse response,
      impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetSteps, request, kReportDeadline));
  return FromProto(response);
}

absl::StatusOr<report::KernelTable> DaemonClient::GetKernels(const std::string& id,
                                                             const report::KernelOptions& options) {
  v1::GetKernelsRequest request = ToProto(options);
  request.set_capture(CaptureName(id));
  ASSIGN_OR_RETURN(v1::GetKernelsResponse response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetKernels, request,
                                kReportDeadline));
  return FromProto(std::move(response));
}

absl::StatusOr<report::CopyTable> DaemonClient::GetCopies(const std::string& id) {
  v1::GetCopiesRequest request;
  request.set_capture(CaptureName(id));
  ASSIGN_OR_RETURN(v1::GetCopiesResponse response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetCopies, request,
                                kReportDeadline));
  return FromProto(std::move(response));
}

absl::StatusOr<report::SyncTable> DaemonClient::GetSyncs(const std::string& id) {
  v1::GetSyncsRequest request;
  request.set_capture(CaptureName(id));
  ASSIGN_OR_RETURN(
      v1::GetSyncsResponse response,
      impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetSyncs, request, kReportDeadline));
  return FromProto(std::move(response));
}

absl::StatusOr<report::IdleTable> DaemonClient::GetIdle(const std::string& id) {
  v1::GetIdleRequest request;
  request.set_capture(CaptureName(id));
  ASSIGN_OR_RETURN(
      const v1::GetIdleResponse response,
      impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetIdle, request, kReportDeadline));
  return FromProto(response);
}

absl::StatusOr<report::CompileReport> DaemonClient::GetCompile(const std::string& id) {
  v1::GetCompileRequest request;
  request.set_capture(CaptureName(id));
  ASSIGN_OR_RETURN(v1::GetCompileResponse response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetCompile, request,
                                kReportDeadline));
  return FromProto(std::move(response));
}

absl::StatusOr<report::CollectiveTable> DaemonClient::GetCollectives(const std::string& id,
                                                                     int64_t limit) {
  v1::GetCollectivesRequest request;
  request.set_capture(CaptureName(id));
  request.set_limit(limit);
  ASSIGN_OR_RETURN(const v1::GetCollectivesResponse response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetCollectives, request,
                                kReportDeadline));
  return FromProto(response);
}

}  // namespace profd::cli
