#include "cli/daemon_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cli/errors.h"
#include "cli/flags.h"
#include "cli/from_proto.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "profd/v1/captures.grpc.pb.h"
#include "profd/v1/export.grpc.pb.h"
#include "profd/v1/node.grpc.pb.h"
#include "profd/v1/reports.grpc.pb.h"
#include "profd/v1/targets.grpc.pb.h"

namespace profd::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kConnectDeadline(5);
constexpr seconds kCallDeadline(30);
// Reports run one at a time in the daemon, over captures of up to gigabytes.
constexpr seconds kReportDeadline(600);
// How long a daemon that went away during a watch may take to come back.
constexpr seconds kComeBackDeadline(5);
constexpr milliseconds kIdleInterval(100);
// A capture of a million steps is a message of tens of megabytes; the default is 4 MiB.
constexpr int kMaxMessageBytes = 1 << 30;
constexpr int kListPageSize = 500;

// Codes of gRPC and Abseil agree in number.
static_assert(static_cast<int>(grpc::StatusCode::UNAUTHENTICATED) ==
              static_cast<int>(absl::StatusCode::kUnauthenticated));
static_assert(static_cast<int>(grpc::StatusCode::NOT_FOUND) ==
              static_cast<int>(absl::StatusCode::kNotFound));

std::string CaptureName(const std::string& id) { return StrCat("captures/", id); }
std::string TargetName(TargetNumber number) { return StrCat("targets/", number); }

std::shared_ptr<grpc::Channel> OpenChannel(const Endpoint& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // Profd is never behind a proxy; and a training node may have one set.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Several clients in one process must not share a connection that one of them aborted.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!endpoint.unix_path.empty()) {
    // The path is no host name: a fixed one keeps odd characters out of the authority.
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  }
  return grpc::CreateCustomChannel(endpoint.address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

class DaemonClient::Impl {
 public:
  explicit Impl(const Endpoint& endpoint)
      : endpoint_(endpoint),
        channel_(OpenChannel(endpoint)),
        captures_(v1::CaptureService::NewStub(channel_)),
        targets_(v1::TargetService::NewStub(channel_)),
        reports_(v1::ReportService::NewStub(channel_)),
        exports_(v1::ExportService::NewStub(channel_)),
        nodes_(v1::NodeService::NewStub(channel_)) {}

  // One call's context, ended by Abort() while it lives.
  class Call {
   public:
    Call(Impl& impl, std::optional<seconds> deadline, bool abortable = true) : impl_(impl) {
      if (deadline.has_value()) {
        context_.set_deadline(std::chrono::system_clock::now() + *deadline);
      }
      if (!abortable) return;
      const absl::MutexLock lock(&impl_.mu_);
      impl_.calls_.insert(&context_);
      if (impl_.aborted_) context_.TryCancel();
    }
    ~Call() {
      const absl::MutexLock lock(&impl_.mu_);
      impl_.calls_.erase(&context_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    grpc::ClientContext* context() { return &context_; }

    absl::Status Result(const grpc::Status& status) { return impl_.Translate(status, context_); }

   private:
    Impl& impl_;
    grpc::ClientContext context_;
  };

  void Abort() {
    const absl::MutexLock lock(&mu_);
    aborted_ = true;
    for (grpc::ClientContext* context : calls_) context->TryCancel();
  }

  bool Aborted() {
    const absl::MutexLock lock(&mu_);
    return aborted_;
  }

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Unary(Stub& stub,
                                 grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*),
                                 const Request& request, seconds deadline, bool abortable = true) {
    Call call(*this, deadline, abortable);
    Response response;
    const grpc::Status status = (stub.*method)(call.context(), request, &response);
    if (!status.ok()) return call.Result(status);
    return response;
  }

  absl::Status Translate(const grpc::Status& status, const grpc::ClientContext& context);
  absl::Status AskWhoAnswers();
  // A daemon that went away during a watch: the next one ends what the last one left before
  // it answers, so it knows.
  absl::StatusOr<CaptureView> AskNextDaemon(const std::string& id);

  const Endpoint endpoint_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::CaptureService::Stub> captures_;
  const std::unique_ptr<v1::TargetService::Stub> targets_;
  const std::unique_ptr<v1::ReportService::Stub> reports_;
  const std::unique_ptr<v1::ExportService::Stub> exports_;
  const std::unique_ptr<v1::NodeService::Stub> nodes_;
  NodeInfo node_;

 private:
  absl::Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mu_);
};

absl::Status DaemonClient::Impl::Translate(const grpc::Status& status,
                                           const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto reason = trailers.find("profd-reason");
  if (reason != trailers.end()) {
    return WithReason(
        absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()),
        std::string_view(reason->second.data(), reason->second.size()));
  }
  // A daemon that is stopped by force cancels what is in progress.
  const bool cancelled_by_peer = status.error_code() == grpc::StatusCode::CANCELLED && !Aborted();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE || cancelled_by_peer) {
    return WithReason(
        absl::UnavailableError(StrCat("lost the connection to profd at ", endpoint_.address, " (",
                                      status.error_message(), ")")),
        kNoDaemonReason);
  }
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return WithReason(
          absl::DeadlineExceededError(StrCat("profd at ", endpoint_.address, " does not answer")),
          kNoAnswerReason);
    case grpc::StatusCode::UNIMPLEMENTED:
      return WithReason(absl::FailedPreconditionError(
                            StrCat("profd ", node_.version, " at ", endpoint_.address,
                                   " does not know this request of profctl ", PROFD_VERSION)),
                        kVersionsDifferReason);
    default:
      return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
  }
}

absl::Status DaemonClient::Impl::AskWhoAnswers() {
  Call call(*this, kConnectDeadline);
  v1::Node node;
  const grpc::Status status = nodes_->GetNode(call.context(), {}, &node);
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("what answers at ", endpoint_.address,
                                             " is no profd, or one that is older than profctl ",
                                             PROFD_VERSION, " can talk to")),
        kVersionsDifferReason);
  }
  if (!status.ok()) return call.Result(status);
  node_ = FromProto(node);
  if (node_.api_version < kApiVersion) {
    return WithReason(
        absl::FailedPreconditionError(
            StrCat("profctl ", PROFD_VERSION, " needs version ", kApiVersion, " of the API; profd ",
                   node_.version, " at ", endpoint_.address, " has version ", node_.api_version)),
        kVersionsDifferReason);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DaemonClient>> DaemonClient::Connect(
    const std::vector<Endpoint>& endpoints) {
  std::string tried;
  for (const Endpoint& endpoint : endpoints) {
    absl::Status status = ProbeEndpoint(endpoint);
    if (status.ok()) {
      auto impl = std::make_unique<Impl>(endpoint);
      status = impl->AskWhoAnswers();
      if (status.ok()) {
        return std::unique_ptr<DaemonClient>(new DaemonClient(std::move(impl)));
      }
      const std::string reason = ReasonOf(status);
      // Somebody is there: another daemon further down the list is not the one meant.
      if (reason != kNoDaemonReason && reason != kNoAnswerReason) return status;
    }
    StrAppend(&tried, "\n  ", endpoint.address, " (", endpoint.from,
              "): ", FromAbsl(status.message()));
  }
  return WithReason(absl::UnavailableError(StrCat("no profd answers; tried:", tried)),
                    kNoDaemonReason);
}

DaemonClient::DaemonClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DaemonClient::~DaemonClient() = default;

const std::string& DaemonClient::address() const { return impl_->endpoint_.address; }
const NodeInfo& DaemonClient::node() const { return impl_->node_; }
void DaemonClient::Abort() { impl_->Abort(); }

absl::StatusOr<std::vector<TargetInfo>> DaemonClient::ListTargets() {
  std::vector<TargetInfo> targets;
  v1::ListTargetsRequest request;
  request.set_page_size(kListPageSize);
  do {
    ASSIGN_OR_RETURN(const v1::ListTargetsResponse response,
                     impl_->Unary(*impl_->targets_, &v1::TargetService::Stub::ListTargets, request,
                                  kCallDeadline));
    for (const v1::Target& target : response.targets()) targets.push_back(FromProto(target));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
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
  *request.mutable_spec() = ToProto(spec);
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
  *request.mutable_spec() = ToProto(spec);
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

absl::StatusOr<std::vector<CaptureView>> DaemonClient::GetCaptureGroup(const std::string& id) {
  v1::GetCaptureGroupRequest request;
  request.set_name(StrCat("groups/", id));
  ASSIGN_OR_RETURN(const v1::CaptureGroup group,
                   impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::GetCaptureGroup,
                                request, kCallDeadline));
  std::vector<CaptureView> views;
  views.reserve(static_cast<size_t>(group.captures_size()));
  for (const v1::Capture& capture : group.captures()) views.push_back(FromProto(capture));
  return views;
}

absl::StatusOr<std::vector<CaptureView>> DaemonClient::ListCaptures(const CaptureFilter& filter,
                                                                    int64_t limit) {
  std::vector<CaptureView> views;
  v1::ListCapturesRequest request;
  *request.mutable_filter() = ToProto(filter);
  do {
    const int64_t wanted = limit == 0 ? kListPageSize : limit - static_cast<int64_t>(views.size());
    request.set_page_size(static_cast<int32_t>(std::min<int64_t>(wanted, kListPageSize)));
    ASSIGN_OR_RETURN(const v1::ListCapturesResponse response,
                     impl_->Unary(*impl_->captures_, &v1::CaptureService::Stub::ListCaptures,
                                  request, kCallDeadline));
    for (const v1::Capture& capture : response.captures()) {
      if (limit == 0 || static_cast<int64_t>(views.size()) < limit) {
        views.push_back(FromProto(capture));
      }
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() &&
           (limit == 0 || static_cast<int64_t>(views.size()) < limit));
  return views;
}

absl::StatusOr<CaptureView> DaemonClient::CancelCapture(const std::string& id) {
  v1::CancelCaptureRequest request;
  request.set_name(CaptureName(id));
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
  if (!local.ok()) call.context()->TryCancel();
  const grpc::Status status = reader->Finish();
  return local.ok() ? call.Result(status) : local;
}

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

absl::StatusOr<report::MemoryTimeline> DaemonClient::GetMemory(
    const std::string& id, const report::MemoryOptions& options) {
  v1::GetMemoryTimelineRequest request;
  request.set_capture(CaptureName(id));
  request.set_max_points(options.max_points);
  ASSIGN_OR_RETURN(v1::GetMemoryTimelineResponse response,
                   impl_->Unary(*impl_->reports_, &v1::ReportService::Stub::GetMemoryTimeline,
                                request, kReportDeadline));
  return FromProto(std::move(response));
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

namespace {

// One WatchCapture stream among several on one queue. Its tag is its address: exactly one
// operation is in flight at a time.
struct Watch {
  enum class Phase { kStarting, kReading, kFinishing, kDone };
  size_t index = 0;
  Phase phase = Phase::kStarting;
  std::unique_ptr<grpc::ClientAsyncReader<v1::Capture>> reader;
  v1::Capture message;
  grpc::Status status;
  std::optional<CaptureView> last;
};

using OnChange = absl::FunctionRef<void(size_t, const CaptureView&)>;

// The operation in flight has ended: starts the next one.
void Advance(Watch& watch, bool ok, OnChange on_change) {
  using Phase = Watch::Phase;
  if (watch.phase == Phase::kFinishing) {
    watch.phase = Phase::kDone;
    return;
  }
  if (watch.phase == Phase::kReading && ok) {
    watch.last = FromProto(watch.message);
    on_change(watch.index, *watch.last);
  }
  watch.phase = ok ? Phase::kReading : Phase::kFinishing;
  if (ok) {
    watch.reader->Read(&watch.message, &watch);
  } else {
    watch.reader->Finish(&watch.status, &watch);
  }
}

// Until the last stream of `running` has finished.
void RunWatches(grpc::CompletionQueue& queue, size_t running, OnChange on_change,
                absl::FunctionRef<void()> on_idle) {
  void* tag = nullptr;
  bool ok = false;
  while (running > 0) {
    const auto deadline = std::chrono::system_clock::now() + kIdleInterval;
    if (queue.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::TIMEOUT) {
      on_idle();
      continue;
    }
    Watch& watch = *static_cast<Watch*>(tag);
    Advance(watch, ok, on_change);
    if (watch.phase == Watch::Phase::kDone) --running;
  }
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace

absl::StatusOr<CaptureView> DaemonClient::Impl::AskNextDaemon(const std::string& id) {
  Call call(*this, kComeBackDeadline);
  call.context()->set_wait_for_ready(true);
  v1::GetCaptureRequest request;
  request.set_name(CaptureName(id));
  v1::Capture capture;
  if (captures_->GetCapture(call.context(), request, &capture).ok()) return FromProto(capture);
  if (Aborted()) return absl::CancelledError("interrupted");
  return WithReason(absl::UnavailableError(StrCat("profd went away while it captured ", id,
                                                  "; when it is back, `profctl show ", id,
                                                  "` says how that ended")),
                    kNoDaemonReason);
}

absl::StatusOr<std::vector<CaptureView>> DaemonClient::WatchCaptures(
    const std::vector<std::string>& ids, OnChange on_change, absl::FunctionRef<void()> on_idle) {
  grpc::CompletionQueue queue;
  // The calls outlive the readers, which live in their memory.
  std::vector<std::unique_ptr<Impl::Call>> calls;
  std::vector<Watch> watches(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    v1::WatchCaptureRequest request;
    request.set_name(CaptureName(ids[i]));
    calls.push_back(std::make_unique<Impl::Call>(*impl_, std::nullopt));
    watches[i].index = i;
    watches[i].reader =
        impl_->captures_->AsyncWatchCapture(calls[i]->context(), request, &queue, &watches[i]);
  }
  RunWatches(queue, watches.size(), on_change, on_idle);

  std::vector<CaptureView> views;
  for (Watch& watch : watches) {
    if (watch.last.has_value() && IsTerminal(watch.last->record.state)) {
      views.push_back(*std::move(watch.last));
      continue;
    }
    const absl::Status status = calls[watch.index]->Result(watch.status);
    if (!status.ok() && ReasonOf(status) != kNoDaemonReason) return status;
    ASSIGN_OR_RETURN(views.emplace_back(), impl_->AskNextDaemon(ids[watch.index]));
    on_change(watch.index, views.back());
  }
  return views;
}

}  // namespace profd::cli
