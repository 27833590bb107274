#include "cli/client/daemon_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/flags.h"
#include "cli/client/answer_check.h"
#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto.h"
#include "cli/client/tls_diagnosis.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/convert/proto_time.h"

namespace profd::cli {
namespace {

// Codes of gRPC and Abseil agree in number.
static_assert(static_cast<int>(grpc::StatusCode::UNAUTHENTICATED) ==
              static_cast<int>(absl::StatusCode::kUnauthenticated));
static_assert(static_cast<int>(grpc::StatusCode::NOT_FOUND) ==
              static_cast<int>(absl::StatusCode::kNotFound));

constexpr size_t kMaxErrorBytes = 4096;

// A daemon's error as one line: with more, it could forge lines of ours.
std::string OneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return ForDisplay(text, kMaxErrorBytes);
}

}  // namespace

absl::Status DaemonClient::Impl::Translate(const grpc::Status& status,
                                           const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = OneLine(status.error_message());
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto reason = trailers.find("profd-reason");
  // Only a profd sends a reason, so the error is its own, not one of the connection.
  if (reason != trailers.end()) {
    return WithReason(absl::Status(static_cast<absl::StatusCode>(status.error_code()), message),
                      std::string_view(reason->second.data(), reason->second.size()));
  }
  // A daemon that is stopped by force cancels what is in progress.
  const bool cancelled_by_peer = status.error_code() == grpc::StatusCode::CANCELLED && !Aborted();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE || cancelled_by_peer) {
    return WithReason(absl::UnavailableError(StrCat("lost the connection to profd at ",
                                                    endpoint_.address, " (", message, ")")),
                      kNoDaemonReason);
  }
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return WithReason(
          absl::DeadlineExceededError(StrCat("profd at ", endpoint_.address, " does not answer")),
          kNoAnswerReason);
    case grpc::StatusCode::UNIMPLEMENTED:
      return WithReason(absl::FailedPreconditionError(
                            StrCat("profd ", OneLine(node_.version), " at ", endpoint_.address,
                                   " does not know this request of profctl ", PROFD_VERSION)),
                        kVersionsDifferReason);
    default:
      return {static_cast<absl::StatusCode>(status.error_code()), message};
  }
}

absl::Status DaemonClient::Impl::Check(const google::protobuf::Message& answer) const {
  const absl::Status status = CheckAnswer(answer);
  if (status.ok()) return status;
  return absl::Status(
      status.code(), StrCat("profd at ", endpoint_.address, " sent an ", FromAbsl(status.message()),
                            "; name a daemon that you trust with --address"));
}

absl::Status DaemonClient::Impl::EndlessList(const absl::Status& why) const {
  return absl::Status(
      why.code(), StrCat("profd at ", endpoint_.address, " sent a list that does not end: ",
                         FromAbsl(why.message()), "; name a daemon that you trust with --address"));
}

absl::Status DaemonClient::Impl::AskWhoAnswers() {
  RETURN_IF_ERROR(channel_status_);
  Call call(*this, kConnectDeadline);
  v1::Node node;
  const grpc::Status status = nodes_->GetNode(call.context(), {}, &node);
  // So any gRPC server answers that does not have the service.
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("what answers at ", endpoint_.address,
                                             " is not a profd, or one that is older than profctl ",
                                             PROFD_VERSION, " can talk to")),
        kVersionsDifferReason);
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && endpoint_.unix_path.empty()) {
    return ExplainNoConnection(endpoint_);
  }
  if (!status.ok()) return call.Result(status);
  RETURN_IF_ERROR(Check(node));
  node_ = FromProto(node);
  if (node_.api_version < kApiVersion) {
    return WithReason(
        absl::FailedPreconditionError(StrCat(
            "profctl ", PROFD_VERSION, " needs version ", kApiVersion, " of the API; profd ",
            OneLine(node_.version), " at ", endpoint_.address, " has version ", node_.api_version)),
        kVersionsDifferReason);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DaemonClient>> DaemonClient::Connect(
    const std::vector<Endpoint>& endpoints) {
  std::string tried;
  for (const Endpoint& endpoint : endpoints) {
    absl::Status status = ProbeEndpoint(endpoint);
    // The next endpoint is not tried: the user must learn that another user listens on this path.
    if (ReasonOf(status) == kOtherUsersDaemonReason) return status;
    if (status.ok()) {
      auto impl = std::make_unique<Impl>(endpoint);
      status = impl->AskWhoAnswers();
      if (status.ok()) {
        return std::unique_ptr<DaemonClient>(new DaemonClient(std::move(impl)));
      }
      const std::string reason = ReasonOf(status);
      // One is there: another daemon further down the list is not the one meant.
      if (reason != kNoDaemonReason && reason != kNoAnswerReason) return status;
    }
    StrAppend(&tried, "\n  ", endpoint.address, " (", endpoint.from,
              "): ", FromAbsl(status.message()));
  }
  return WithReason(absl::UnavailableError(StrCat("no profd answers; tried:", tried)),
                    kNoDaemonReason);
}

std::unique_ptr<DaemonClient> DaemonClient::Make(const Endpoint& endpoint) {
  return std::unique_ptr<DaemonClient>(new DaemonClient(std::make_unique<Impl>(endpoint)));
}

absl::Status DaemonClient::Greet() {
  absl::Status status = ProbeEndpoint(impl_->endpoint_);
  if (status.ok()) return impl_->AskWhoAnswers();
  if (ReasonOf(status) == kOtherUsersDaemonReason) return status;
  return WithReason(absl::UnavailableError(StrCat("no profd answers at ", address(), ": ",
                                                  FromAbsl(status.message()))),
                    kNoDaemonReason);
}

DaemonClient::DaemonClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DaemonClient::~DaemonClient() = default;

const std::string& DaemonClient::address() const { return impl_->endpoint_.address; }
const NodeInfo& DaemonClient::node() const { return impl_->node_; }
bool DaemonClient::is_remote() const { return impl_->endpoint_.unix_path.empty(); }
void DaemonClient::LimitCalls(absl::Duration deadline) { impl_->LimitCalls(deadline); }
void DaemonClient::Abort() { impl_->Abort(); }

absl::StatusOr<std::vector<TargetInfo>> DaemonClient::ListTargets() {
  std::vector<TargetInfo> targets;
  v1::ListTargetsRequest request;
  request.set_page_size(kListPageSize);
  RETURN_IF_ERROR(impl_->ForEachRow(
      *impl_->targets_, &v1::TargetService::Stub::ListTargets, std::move(request), kCallDeadline, 0,
      [](const auto& response) -> const auto& { return response.targets(); },
      [&](const v1::Target& target) -> absl::StatusOr<bool> {
        targets.push_back(FromProto(target));
        return true;
      }));
  return targets;
}

absl::StatusOr<std::vector<TargetInfo>> DaemonClient::ResolveTargets(
    const std::vector<int64_t>& pids, bool all) {
  v1::ResolveTargetsRequest request;
  request.mutable_pids()->Assign(pids.begin(), pids.end());
  request.set_all(all);
  ASSIGN_OR_RETURN(const v1::ResolveTargetsResponse response,
                   impl_->Unary(*impl_->targets_, &v1::TargetService::Stub::ResolveTargets, request,
                                kCallDeadline));
  std::vector<TargetInfo> targets;
  targets.reserve(static_cast<size_t>(response.targets_size()));
  for (const v1::Target& target : response.targets()) targets.push_back(FromProto(target));
  return targets;
}

absl::StatusOr<CaptureView> DaemonClient::CreateCapture(TargetNumber target,
                                                        const CaptureSpec& spec,
                                                        const std::string& request_id) {
  v1::CreateCaptureRequest request;
  request.set_target(TargetName(target));
  rpc::SpecToProto(spec, *request.mutable_spec());
  request.set_request_id(request_id);
  ASSIGN_OR_RETURN(const v1::Capture capture,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::CreateCapture,
                                request, kCallDeadline));
  return FromProto(capture);
}

absl::StatusOr<std::vector<CaptureView>> DaemonClient::CreateCaptureGroup(
    const std::vector<TargetNumber>& targets, const CaptureSpec& spec,
    const std::string& request_id) {
  v1::CreateCaptureGroupRequest request;
  for (const TargetNumber target : targets) request.add_targets(TargetName(target));
  rpc::SpecToProto(spec, *request.mutable_spec());
  request.set_request_id(request_id);
  ASSIGN_OR_RETURN(const v1::CaptureGroup group,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::CreateCaptureGroup,
                                request, kCallDeadline));
  std::vector<CaptureView> views;
  views.reserve(static_cast<size_t>(group.captures_size()));
  for (const v1::Capture& capture : group.captures()) views.push_back(FromProto(capture));
  return views;
}

absl::StatusOr<CaptureView> DaemonClient::GetCapture(const std::string& id) {
  v1::GetCaptureRequest request;
  request.set_name(CaptureName(id));
  ASSIGN_OR_RETURN(const v1::Capture capture,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::GetCapture, request,
                                kCallDeadline));
  return FromProto(capture);
}

absl::StatusOr<std::vector<CaptureView>> DaemonClient::ListCaptures(const CaptureFilter& filter,
                                                                    int64_t limit) {
  std::vector<CaptureView> views;
  v1::ListCapturesRequest request;
  *request.mutable_filter() = ToProto(filter);
  request.set_page_size(Impl::PageSizeFor(limit));
  RETURN_IF_ERROR(impl_->ForEachRow(
      *impl_->captures_, &v1::CaptureService::Stub::ListCaptures, std::move(request), kCallDeadline,
      limit, [](const auto& response) -> const auto& { return response.captures(); },
      [&](const v1::Capture& capture) -> absl::StatusOr<bool> {
        views.push_back(FromProto(capture));
        return true;
      }));
  return views;
}

absl::StatusOr<CaptureView> DaemonClient::CancelCapture(const std::string& id) {
  v1::CancelCaptureRequest request;
  request.set_name(CaptureName(id));
  // Not abortable: an interrupt is what sends it, and Abort() may follow at once.
  ASSIGN_OR_RETURN(const v1::Capture capture,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::CancelCapture,
                                request, kCallDeadline, /*abortable=*/false));
  return FromProto(capture);
}

absl::StatusOr<CaptureView> DaemonClient::DeleteCapture(const std::string& id) {
  v1::DeleteCaptureRequest request;
  request.set_name(CaptureName(id));
  ASSIGN_OR_RETURN(const v1::Capture capture,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::DeleteCapture,
                                request, kCallDeadline));
  return FromProto(capture);
}

absl::StatusOr<CaptureView> DaemonClient::SetCapturePinned(const std::string& id, bool pinned) {
  v1::SetCapturePinnedRequest request;
  request.set_name(CaptureName(id));
  request.set_pinned(pinned);
  ASSIGN_OR_RETURN(const v1::Capture capture,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::SetCapturePinned,
                                request, kCallDeadline));
  return FromProto(capture);
}

absl::StatusOr<DaemonClient::Purged> DaemonClient::PurgeCaptures(absl::Duration older_than,
                                                                 bool dry_run) {
  v1::PurgeCapturesRequest request;
  rpc::DurationToProto(older_than, *request.mutable_older_than());
  request.set_dry_run(dry_run);
  ASSIGN_OR_RETURN(const v1::PurgeCapturesResponse response,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::PurgeCaptures,
                                request, kPurgeDeadline));
  return Purged{.captures = response.capture_count(), .bytes = response.file_bytes()};
}

absl::Status DaemonClient::DownloadCapture(
    const std::string& id, int64_t offset,
    absl::FunctionRef<absl::Status(const DownloadPiece&)> on_piece) {
  v1::DownloadCaptureRequest request;
  request.set_name(CaptureName(id));
  request.set_offset(offset);
  Impl::Call call(*impl_, std::nullopt);
  const auto reader = impl_->captures_->DownloadCapture(call.context(), request);
  v1::DownloadCaptureResponse response;
  absl::Status local;
  while (local.ok() && reader->Read(&response)) {
    local =
        on_piece({response.data(), response.offset(), response.total_bytes(), response.sha256()});
  }
  // Finish() waits for the end of the stream, and nothing reads the rest of it. So the call is
  // cancelled.
  if (!local.ok()) call.context()->TryCancel();
  const grpc::Status status = reader->Finish();
  return local.ok() ? call.Result(status) : local;
}

absl::Status DaemonClient::ExportTrace(const std::string& id, exporter::TraceFormat format,
                                       absl::FunctionRef<absl::Status(std::string_view)> on_piece) {
  v1::ExportTraceRequest request;
  request.set_capture(CaptureName(id));
  request.set_format(ToProto(format));
  Impl::Call call(*impl_, std::nullopt);
  const auto reader = impl_->exports_->ExportTrace(call.context(), request);
  v1::ExportTraceResponse response;
  absl::Status local;
  while (local.ok() && reader->Read(&response)) local = on_piece(response.data());
  // As in DownloadCapture(): Finish() would wait for what nobody reads.
  if (!local.ok()) call.context()->TryCancel();
  const grpc::Status status = reader->Finish();
  return local.ok() ? call.Result(status) : local;
}

}  // namespace profd::cli
