// NodeService: the daemon and its machine.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/services.h"
#include "profd/v1/node.grpc.pb.h"

namespace profd::rpc {
namespace {

// Raised when a client must know of a change to ask for it.
constexpr int32_t kApiVersion = 1;

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

class NodeService final : public RpcService {
 public:
  explicit NodeService(const ServiceParts& parts) : parts_(parts) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    Door& door = parts_.door;
    ServeUnary(door, door.work(), service_, &v1::NodeService::AsyncService::RequestGetNode,
               [this](const CallInfo& info, const v1::GetNodeRequest&, v1::Node& response) {
                 return Get(info, response);
               });
  }

 private:
  absl::Status Get(const CallInfo& info, v1::Node& node) {
    const ControlServerOptions& options = parts_.options;
    node.set_name(options.node_name);
    node.set_version(options.version);
    node.set_api_version(kApiVersion);
    TimeToProto(options.start_time, *node.mutable_start_time());
    DurationToProto(parts_.clock.Now() - options.start_time, *node.mutable_uptime());
    node.set_pid(getpid());
    node.set_uid(geteuid());
    node.set_target_count(std::ssize(parts_.targets.List()));
    node.set_live_capture_count(std::ranges::count_if(
        parts_.manager.Live(),
        [](const CaptureRecord& record) { return !IsTerminal(record.state); }));
    node.set_resident_bytes(ResidentBytes());
    IngestToProto(node);
    return StorageToProto(info.caller, *node.mutable_storage());
  }

  void IngestToProto(v1::Node& node) {
    const IngestFacts facts = parts_.ingest_facts();
    v1::Node::Clock& clock = *node.mutable_clock();
    clock.set_unix_ns(absl::ToUnixNanos(parts_.clock.Now()));
    clock.set_monotonic_ns(absl::ToInt64Nanoseconds(parts_.clock.Monotonic()));
    clock.set_event_clock(facts.event_clock);
    clock.set_ticks_per_second(facts.ticks_per_second);
    node.set_capture_memory_bytes(facts.capture_memory_bytes);
    node.set_max_capture_memory_bytes(facts.max_capture_memory_bytes);
    node.set_unknown_frame_count(facts.unknown_frame_count);
    node.set_refused_target_count(facts.refused_target_count);
  }

  absl::Status StorageToProto(const Caller& caller, v1::Node::Storage& storage) {
    ASSIGN_OR_RETURN(const store::StoreUsage usage, parts_.store.Usage());
    if (caller.MayTouch(geteuid())) storage.set_data_dir(parts_.options.data_dir.string());
    storage.set_capture_count(usage.capture_count);
    storage.set_capture_bytes(usage.capture_bytes);
    storage.set_catalog_bytes(usage.catalog_bytes);
    storage.set_max_bytes(usage.max_total_bytes);
    storage.set_free_bytes(usage.disk.free_bytes);
    storage.set_evicted_count(usage.evicted_capture_count);
    return absl::OkStatus();
  }

  const ServiceParts parts_;
  v1::NodeService::AsyncService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewNodeService(const ServiceParts& parts) {
  return std::make_unique<NodeService>(parts);
}

}  // namespace profd::rpc
