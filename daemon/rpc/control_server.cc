#include "daemon/rpc/control_server.h"

#include <dlfcn.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/control_listener.h"
#include "daemon/rpc/door.h"
#include "daemon/rpc/peer_table.h"
#include "daemon/rpc/services.h"
#include "daemon/rpc/work_queue.h"

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

// Which file a socket is, so that only our own is removed.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

FileIdentity IdentityOf(const std::filesystem::path& path) {
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
        peers_(options_.max_connections, options_.max_connections_per_uid),
        work_({.thread_name = "profd-rpc",
               .threads = kWorkThreads,
               .max_waiting = options_.max_queued_calls,
               .max_waiting_per_uid = options_.max_queued_calls}),
        reports_({.thread_name = "profd-report",
                  .threads = 1,
                  .max_waiting = options_.max_queued_reports,
                  .max_waiting_per_uid = options_.max_queued_reports_per_uid,
                  .background = true}) {}
  ~Impl() { Shutdown(absl::ZeroDuration()); }

  absl::Status Start();
  void Shutdown(absl::Duration grace);

 private:
  absl::StatusOr<UniqueFd> OpenListener();
  absl::Status StartGrpc();
  void CompletionLoop();
  void RemoveSocketFile();

  ControlServerOptions options_;
  const Parts parts_;
  PeerTable peers_;
  WorkQueue work_;
  WorkQueue reports_;
  std::unique_ptr<grpc::ServerCompletionQueue> completions_;
  std::unique_ptr<Door> door_;
  std::vector<std::unique_ptr<RpcService>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::jthread completion_thread_;
  std::unique_ptr<ControlListener> listener_;
  std::filesystem::path socket_path_;  // Empty: inherited, or not made.
  FileIdentity socket_identity_;
};

absl::Status ControlServer::Impl::Start() {
  // First of all: if another daemon answers, this one touches nothing.
  ASSIGN_OR_RETURN(UniqueFd listener, OpenListener());
  RETURN_IF_ERROR(StartGrpc());
  ASSIGN_OR_RETURN(listener_,
                   ControlListener::Start(std::move(listener), peers_, [this](UniqueFd connection) {
                     grpc::AddInsecureChannelFromFd(server_.get(), connection.Release());
                   }));
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ControlServer::Impl::OpenListener() {
  if (options_.inherited_listener.valid()) {
    RETURN_IF_ERROR(CheckInheritedListener(options_.inherited_listener.get()));
    return std::move(options_.inherited_listener);
  }
  ASSIGN_OR_RETURN(UniqueFd listener, ListenAt(options_.socket_dir));
  socket_path_ = options_.socket_dir / kControlSocketName;
  socket_identity_ = IdentityOf(socket_path_);
  return listener;
}

absl::Status ControlServer::Impl::StartGrpc() {
  if (options_.reflection) LoadReflection();  // A builder takes the plugins of its birth.
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("profd-control");
  quota.Resize(static_cast<size_t>(options_.max_memory_bytes));
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options_.max_request_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options_.max_streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // A local socket has no bandwidth to probe for, and probing takes timers.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  completions_ = builder.AddCompletionQueue();
  door_ = std::make_unique<Door>(Door::Limits{.max_calls_per_uid = options_.max_calls_per_uid},
                                 peers_, *completions_, work_, reports_);

  const ServiceParts service_parts{.door = *door_,
                                   .manager = parts_.manager,
                                   .targets = parts_.targets,
                                   .store = parts_.store,
                                   .target_news = parts_.target_news,
                                   .clock = parts_.clock,
                                   .options = options_,
                                   .ingest_facts = parts_.ingest_facts};
  for (auto* make : {&NewTargetService, &NewCaptureService, &NewReportService, &NewExportService,
                     &NewNodeService, &NewHealthService}) {
    services_.push_back((*make)(service_parts));
    builder.RegisterService(&services_.back()->grpc_service());
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC's server cannot be started");
  completion_thread_ = std::jthread([this] { CompletionLoop(); });
  for (const auto& service : services_) service->Serve();
  return absl::OkStatus();
}

void ControlServer::Impl::CompletionLoop() {
  pthread_setname_np(pthread_self(), "profd-grpc");
  void* tag = nullptr;
  bool ok = false;
  while (completions_->Next(&tag, &ok)) static_cast<CompletionTag*>(tag)->OnCompletion(ok);
}

void ControlServer::Impl::RemoveSocketFile() {
  if (socket_path_.empty()) return;
  if (IdentityOf(socket_path_) == socket_identity_) unlink(socket_path_.c_str());
  socket_path_.clear();
}

void ControlServer::Impl::Shutdown(absl::Duration grace) {
  // A new daemon may start listening while this one still answers its last callers.
  RemoveSocketFile();
  listener_.reset();
  if (door_ != nullptr) door_->Close();
  if (server_ != nullptr) {
    server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
    // Only when no call object is left may nothing more be put into the completion queue.
    door_->AwaitNoCalls();
    completions_->Shutdown();
    completion_thread_.join();
    server_.reset();
  } else if (completions_ != nullptr) {
    completions_->Shutdown();
  }
  completions_.reset();
  reports_.Stop();
  work_.Stop();
}

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(ControlServerOptions options,
                                                                    Parts parts) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(parts));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() = default;

void ControlServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace profd::rpc
