#include "daemon/rpc/control_server.h"

#include <dlfcn.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/control_listener.h"
#include "daemon/rpc/admission/peer_table.h"
#include "daemon/rpc/admission/work_queue.h"
#include "daemon/rpc/server/deadline.h"
#include "daemon/rpc/server/remote_server.h"
#include "daemon/rpc/server/server.h"
#include "daemon/rpc/services/services.h"
#include "daemon/worker/report_pool.h"
#include "daemon/worker/report_process.h"

namespace profd::rpc {
namespace {

// The manager is one thread and the disk is one disk: more would only wait in more places.
constexpr int kWorkThreads = 4;
constexpr int kMaxMetadataBytes = 16 << 10;

// The packaged library turns reflection on for every server of a process that has loaded it,
// so it is loaded, for good, only when asked for.
void LoadReflection() {
  const std::string library =
      StrCat("libgrpc++_reflection.so.", GRPC_CPP_VERSION_MAJOR, ".", GRPC_CPP_VERSION_MINOR);
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    LogWarning(StrCat("no reflection: ", dlerror()));
  }
}

// gRPC inflates a message whole before it looks at the limit: 1 MiB becomes 1 GiB.
void RefuseCompressed(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

// gRPC writes its errors to stderr itself, also ones that any peer can cause. They go the way of
// all lines, so that an unread stderr does not block gRPC's threads.
void LogForGrpc(gpr_log_func_args* args) {
  if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
  static auto* const limiter = new RateLimiter(absl::Seconds(1));
  if (const auto more = limiter->Allow()) {
    LogWarning(StrCat("gRPC: ", args->message, " (", *more, " more)"));
  }
}

// The same of protobuf, for every request with text that is not UTF-8.
void LogForProtobuf(google::protobuf::LogLevel level, const char* /*file*/, int /*line*/,
                    const std::string& message) {
  if (level < google::protobuf::LOGLEVEL_ERROR) return;
  static auto* const limiter = new RateLimiter(absl::Seconds(1));
  if (const auto more = limiter->Allow()) {
    LogWarning(StrCat("protobuf: ", message, " (", *more, " more)"));
  }
}

// Which file a socket is, so that only our own is removed.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

FileIdentity FileIdentityOf(const std::filesystem::path& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return {};
  return {.device = info.st_dev, .inode = info.st_ino};
}

}  // namespace

// Members stand in the order of their start.
class ControlServer::Impl {
 public:
  Impl(ControlServerOptions options, Parts parts)
      : options_(std::move(options)),
        parts_(std::move(parts)),
        peers_(options_.max_connections, options_.max_connections_per_uid, &parts_.ledger),
        work_({.thread_name = "profd-rpc",
               .threads = kWorkThreads,
               .max_waiting = options_.max_queued_calls,
               .max_waiting_per_principal = options_.max_queued_calls_per_principal,
               .watchdog = parts_.watchdog}),
        reports_(ReportOptions(), parts_.clock, [this] { return MakeReportProcess(); }),
        audit_(parts_.store, parts_.targets, parts_.clock),
        local_(
            LimitsOfCalls(),
            [this](const grpc::ServerContext& context) { return IdentifyLocal(context); },
            parts_.access_rules, audit_, work_, reports_, parts_.watchdog) {}
  ~Impl() { Shutdown(absl::ZeroDuration()); }

  absl::Status Start();
  void Shutdown(absl::Duration grace);
  RemoteServer* remote() { return remote_.get(); }
  int64_t local_cut_off_count() const { return local_traffic_->ended_count(); }

 private:
  Admission::Limits LimitsOfCalls() const {
    return {.max_calls_per_principal = options_.max_calls_per_principal,
            .max_call_rate_per_principal = options_.max_call_rate_per_principal,
            .max_call_burst_per_principal = options_.max_call_burst_per_principal,
            .ledger = &parts_.ledger};
  }
  worker::ReportPool::Options ReportOptions() const;
  std::unique_ptr<worker::ReportProcess> MakeReportProcess() const;
  absl::StatusOr<UniqueFd> OpenListener();
  absl::Status StartLocal();
  absl::Status StartRemote();
  void SetLimits(grpc::ServerBuilder& builder) const;
  std::vector<std::unique_ptr<RpcService>> MakeServices(Admission& admission) const;
  absl::StatusOr<Peer> IdentifyLocal(const grpc::ServerContext& context) const;
  void RemoveSocketFile();

  ControlServerOptions options_;
  const Parts parts_;
  PeerTable peers_;
  WorkQueue work_;
  worker::ReportPool reports_;
  AuditLog audit_;
  Server local_;
  const std::shared_ptr<CallerTraffic> local_traffic_ = std::make_shared<CallerTraffic>();
  std::unique_ptr<ControlListener> listener_;
  std::unique_ptr<RemoteServer> remote_;
  std::filesystem::path socket_path_;  // Empty: inherited, or not made.
  FileIdentity socket_identity_;
};

worker::ReportPool::Options ControlServer::Impl::ReportOptions() const {
  worker::ReportPool::Options options;
  options.turns.max_waiting = options_.max_queued_reports;
  options.turns.max_waiting_per_principal = options_.max_queued_reports_per_principal;
  options.max_duration = options_.max_report_time;
  options.watchdog = parts_.watchdog;
  return options;
}

std::unique_ptr<worker::ReportProcess> ControlServer::Impl::MakeReportProcess() const {
  return std::make_unique<worker::SpawnedProcess>(
      worker::SpawnOptions{.program = options_.report_program.empty() ? worker::FindReportProgram()
                                                                      : options_.report_program,
                           .max_memory_bytes = options_.max_report_memory_bytes},
      parts_.clock);
}

absl::Status ControlServer::Impl::Start() {
  gpr_set_log_function(&LogForGrpc);
  google::protobuf::SetLogHandler(&LogForProtobuf);
  // First of all: if another daemon answers, this one touches nothing.
  ASSIGN_OR_RETURN(UniqueFd listener, OpenListener());
  RETURN_IF_ERROR(StartLocal());
  ASSIGN_OR_RETURN(
      listener_, ControlListener::Start(
                     std::move(listener), peers_,
                     options_.processes != nullptr ? *options_.processes : ProcessReader::Direct(),
                     local_traffic_,
                     [this](UniqueFd connection) {
                       grpc::AddInsecureChannelFromFd(&local_.server(), connection.Release());
                     },
                     parts_.watchdog));
  return StartRemote();
}

absl::Status ControlServer::Impl::StartRemote() {
  if (!options_.remote.enabled()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      remote_,
      RemoteServer::Start(
          options_.remote,
          {.limits = LimitsOfCalls(),
           .rules = parts_.access_rules,
           .audit = audit_,
           .work = work_,
           .reports = reports_,
           .set_limits = [this](grpc::ServerBuilder& builder) { SetLimits(builder); },
           .make_services = [this](Admission& admission) { return MakeServices(admission); },
           .watchdog = parts_.watchdog}));
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ControlServer::Impl::OpenListener() {
  if (options_.inherited_listener.valid()) {
    RETURN_IF_ERROR(CheckInheritedListener(options_.inherited_listener.get()));
    return std::move(options_.inherited_listener);
  }
  ASSIGN_OR_RETURN(UniqueFd listener, ListenAt(options_.socket_dir));
  socket_path_ = options_.socket_dir / kControlSocketName;
  socket_identity_ = FileIdentityOf(socket_path_);
  return listener;
}

absl::Status ControlServer::Impl::StartLocal() {
  if (options_.reflection) LoadReflection();  // A builder takes the plugins of its birth.
  grpc::ServerBuilder builder;
  SetLimits(builder);
  // A local socket has no bandwidth to probe for, and probing takes timers.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return local_.Start(builder, [this](Admission& admission) { return MakeServices(admission); });
}

void ControlServer::Impl::SetLimits(grpc::ServerBuilder& builder) const {
  grpc::ResourceQuota quota("profd-control");
  quota.Resize(static_cast<size_t>(options_.max_memory_bytes));
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options_.max_request_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options_.max_streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  RefuseCompressed(builder);
}

std::vector<std::unique_ptr<RpcService>> ControlServer::Impl::MakeServices(
    Admission& admission) const {
  admission.SetCallObserver(parts_.on_call);
  admission.HidePath(options_.data_dir.string());
  const ServiceParts parts{.admission = admission,
                           .manager = parts_.manager,
                           .targets = parts_.targets,
                           .store = parts_.store,
                           .schedules = parts_.schedules,
                           .target_events = parts_.target_events,
                           .ledger = parts_.ledger,
                           .clock = parts_.clock,
                           .options = options_,
                           .node_facts = parts_.node_facts};
  std::vector<std::unique_ptr<RpcService>> services;
  for (auto* make : {&NewTargetService, &NewCaptureService, &NewReportService, &NewExportService,
                     &NewNodeService, &NewScheduleService, &NewHealthService}) {
    services.push_back((*make)(parts));
  }
  return services;
}

absl::StatusOr<Peer> ControlServer::Impl::IdentifyLocal(const grpc::ServerContext& context) const {
  const std::optional<Peer> peer = peers_.Find(context.peer());
  if (!peer.has_value()) return absl::UnauthenticatedError("profd cannot tell who calls");
  return *peer;
}

void ControlServer::Impl::RemoveSocketFile() {
  if (socket_path_.empty()) return;
  // The next daemon may have put its own socket there already.
  if (FileIdentityOf(socket_path_) == socket_identity_) unlink(socket_path_.c_str());
  socket_path_.clear();
}

void ControlServer::Impl::Shutdown(absl::Duration grace) {
  // A new daemon may start listening while this one still answers its last callers.
  RemoveSocketFile();
  listener_.reset();
  const gpr_timespec deadline = MonotonicDeadline(grace);
  // Both are closed before either is waited for, so that their last calls end within the same grace
  // period.
  if (remote_ != nullptr) remote_->Close();
  local_.Close();
  if (remote_ != nullptr) remote_->Shutdown(deadline);
  local_.Shutdown(deadline);
  reports_.Stop();
  work_.Stop();
}

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(ControlServerOptions options,
                                                                    Parts parts) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(parts));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

absl::Status ControlServer::CheckFiles(const RemoteOptions& options) {
  return RemoteServer::CheckFiles(options);
}

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() = default;

std::vector<std::string> ControlServer::remote_addresses() const {
  return impl_->remote() == nullptr ? std::vector<std::string>() : impl_->remote()->addresses();
}

std::optional<absl::Time> ControlServer::certificate_end() const {
  return impl_->remote() == nullptr ? std::nullopt : impl_->remote()->certificate_end();
}

int64_t ControlServer::cut_off_connections() const {
  const int64_t remote = impl_->remote() == nullptr ? 0 : impl_->remote()->cut_off_count();
  return remote + impl_->local_cut_off_count();
}

void ControlServer::CheckCertificates() {
  if (impl_->remote() != nullptr) impl_->remote()->CheckCertificates();
}

void ControlServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace profd::rpc
